// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which unit of several serves a CPU: the near one, found once, when the CPU comes online.
//!
//! A machine of several sockets has a unit in each (an ITS, the interrupt controller of a chip,
//! an IOMMU), and often any of them would do. A store to one on another socket crosses the link
//! between them, each time: a CPU should know its own.
//!
//! # Vocabulary
//! - *unit*: one of several that can do the same, [`Unit`]. Its index is the embedder's.
//! - *affinity*: where a CPU or a unit stands as the architecture counts, [`Affinity`]: four
//!   fields.
//! - *level*: how many of the fields, from the highest on, count, [`KeyLevel`]; *key*: those
//!   fields. Two keys are compared at one level. At level 0 there is no key.
//! - *peers*: CPUs that share tables, because they have the same key at the level of the one that
//!   asks. At level 0 all CPUs are peers.
//! - *settled*: the answer stands in the CPU's own line.
//!
//! | here | GICv4.1 |
//! |---|---|
//! | a unit's affinity, level | `GITS_MPIDR`, `GITS_TYPER.SVPET` |
//! | a CPU's affinity, level | `GICR_TYPER.Affinity`, `GICR_TYPER.CommonLPIAff` |
//! | the tables that are shared | the vPE table: `VPROPBASER` of redistributors, `BASER2` of an ITS |
//! | the unit's work for a CPU | taking the virtual SGIs that this CPU *sends* |
//!
//! A unit that has no such registers has level 0 and a node: [`Unit::on_node`].
//!
//! # Rules
//! The first that gives something, [`Rule`]:
//! 1. *Own key*: a unit whose level is not 0 and whose key, at the unit's level, is the CPU's. Of
//!    several the one nearest to the CPU's node, a unit or a CPU of unknown node being farthest;
//!    of those the lowest index.
//! 2. *Peer's key*: a unit that rule 1 gave to an online peer; of several as in rule 1. The
//!    peer shares its table with that unit and with this CPU.
//! 3. *Node*: a unit on the CPU's node, the lowest index.
//! 4. *Lowest index*.
//!
//! Each side at its own level, a CPU at its and a unit at the unit's, would be wrong: a CPU of
//! level 0 and a unit of level 2 at affinity 0 both have nothing but zeros left, on whatever
//! sockets they stand. A CPU and a unit whose levels differ are answered all the same, and
//! reported, [`Settled::mismatch`]: hardware or firmware is inconsistent.
//!
//! How a CPU came by its table plays no part: copied from a peer, taken over from a unit or newly
//! allocated, it is settled by the same rules. (Kernels that remember the unit only where the
//! table came from it leave the CPUs that allocated one with whatever unit was found last.)
//!
//! # What the answer depends on
//! The units that are there and the CPUs that are online, with what they say, and nothing else:
//! not the order in which they came, not what came and went. Two things make it so. A unit's
//! index is the embedder's, in an order of firmware's or of addresses, not of probing. And only a
//! unit by rule 1 counts for peers: it depends on no other CPU, so no answer is handed on from
//! peer to peer, in whatever order they come.
//!
//! The CPUs that rule 1 gave nothing are settled again when a unit gets the first CPU of its key,
//! or loses the last; where each CPU has a unit of its key there are none. All CPUs that it
//! concerns are when a unit comes or goes: none keeps one that is gone.
//!
//! # What it costs
//! Memory is had at construction: a cache line and some 24 bytes for each possible CPU. To look
//! up is one load from the CPU's own line, which is written only when its answer changes. A CPU
//! that comes costs a look at each unit; a unit that comes or goes a look at each CPU, and at
//! each unit for those that it concerns. Changes hold a lock of rank 2.
//!
//! ```
//! use irq_core::cpu::{CpuIndex, NodeId};
//! use irq_core::proximity::{Affinity, CpuPlace, Distances, KeyLevel, Proximity, Unit, UnitIndex};
//! use irq_hal::{Error, Platform};
//!
//! /// At probe: two sockets, whose number is Aff3, with an ITS each.
//! fn units(platform: &dyn Platform, cpus: u32) -> Result<Proximity, Error> {
//!     let proximity = Proximity::new(cpus, 2, Distances::plain(2)?)?;
//!     for socket in 0..2 {
//!         let unit = Unit {
//!             affinity: Affinity::new(socket << 24),
//!             level: KeyLevel::new(1)?,
//!             node: Some(NodeId::new(socket)),
//!         };
//!         proximity.add(platform, UnitIndex::new(socket), unit)?;
//!     }
//!     Ok(proximity)
//! }
//!
//! /// In the online call of each CPU.
//! fn came_up(
//!     proximity: &Proximity,
//!     platform: &dyn Platform,
//!     cpu: CpuIndex,
//!     gicr_typer: u64,
//! ) -> Result<(), Error> {
//!     let place = CpuPlace {
//!         affinity: Affinity::new((gicr_typer >> 32) as u32),
//!         level: KeyLevel::new((gicr_typer >> 24) as u32 & 3)?,
//!         node: None,
//!     };
//!     proximity.online(platform, cpu, place)
//! }
//!
//! /// For each virtual SGI that `cpu` sends.
//! fn send<'a, T>(proximity: &Proximity, its: &'a [T], cpu: CpuIndex) -> Result<&'a T, Error> {
//!     Ok(&its[proximity.unit(cpu)?.index()])
//! }
//! ```

mod affinity;
mod answer;
mod distances;
mod state;
mod units;

pub use affinity::{Affinity, KeyLevel};
pub use answer::{Mismatch, Rule, Settled};
pub use distances::Distances;
pub use units::{MAX_UNITS, Unit, UnitIndex};

use core::fmt;

use irq_hal::lock::MaskedLock;
use irq_hal::{CpuIndex, Error, NodeId, Platform};

use state::{Lines, State};

/// What a CPU says about where it stands, when it comes online.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CpuPlace {
    /// Its affinity (`GICR_TYPER.Affinity`).
    pub affinity: Affinity,
    /// CPUs that have this CPU's key at this level share its tables
    /// (`GICR_TYPER.CommonLPIAff`).
    pub level: KeyLevel,
    /// Its node, if that is known.
    pub node: Option<NodeId>,
}

impl CpuPlace {
    /// A CPU of a machine whose units have no key ([`Unit::on_node`]): rule 3 finds its unit, or
    /// rule 4. To a unit that has one it would stand at affinity 0.
    pub const fn on_node(node: NodeId) -> Self {
        Self {
            affinity: Affinity::new(0),
            level: KeyLevel::NONE,
            node: Some(node),
        }
    }
}

/// The units of one kind, the CPUs that are online, and which serves which.
pub struct Proximity {
    lines: Lines,
    units: u32,
    state: MaskedLock<State, 2>,
}

impl Proximity {
    /// For the CPUs below `cpus`, all offline, the units below `units`, none of them there, and
    /// the nodes of `distances`. The only call that allocates.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `cpus` is 0 or more than [`MAX_CPUS`](crate::cpu::MAX_CPUS), or
    /// `units` 0 or more than [`MAX_UNITS`]; [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(cpus: u32, units: u32, distances: Distances) -> Result<Self, Error> {
        let state = State::new(cpus, units, distances)?;
        Ok(Self {
            lines: Lines::new(cpus)?,
            units,
            state: MaskedLock::new(state),
        })
    }

    /// The number of possible CPUs.
    pub const fn cpus(&self) -> u32 {
        self.lines.len()
    }

    /// The number of possible units.
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// A unit is there, ready to serve. The online CPUs that it concerns are settled again.
    ///
    /// A CPU that is given the unit sees everything that the caller wrote before.
    ///
    /// # Errors
    /// Nothing is changed then: [`Error::Invalid`] for an index or a node that is not possible;
    /// [`Error::Exists`] if the index is taken.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, on any CPU, under no lock of rank 2 or above. Looks at
    /// each CPU while masked: a matter of probe.
    pub fn add(&self, platform: &dyn Platform, index: UnitIndex, unit: Unit) -> Result<(), Error> {
        self.state
            .with(platform, |state| state.add(&self.lines, index, unit))
    }

    /// A unit is gone, or has failed. After that no CPU has it as its answer; without any unit
    /// left, [`unit`](Self::unit) is an error.
    ///
    /// A CPU that looked it up before may be using it still. Who takes the unit's registers away
    /// waits first until every CPU has left the section in which it looked it up.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a unit that is not there.
    ///
    /// # Context
    /// As [`add`](Self::add).
    pub fn remove(&self, platform: &dyn Platform, index: UnitIndex) -> Result<(), Error> {
        self.state
            .with(platform, |state| state.remove(&self.lines, index))
    }

    /// `cpu` comes online, at `place`, and is settled. That there is no unit is no error here,
    /// so that the CPU comes up; it is one of [`unit`](Self::unit).
    ///
    /// # Errors
    /// Nothing is changed then: [`Error::NoSuchCpu`]; [`Error::CpuIsOnline`]; [`Error::Invalid`]
    /// for a node that is not possible.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, on any CPU, for several CPUs at once, under no lock of
    /// rank 2 or above.
    pub fn online(
        &self,
        platform: &dyn Platform,
        cpu: CpuIndex,
        place: CpuPlace,
    ) -> Result<(), Error> {
        self.state
            .with(platform, |state| state.online(&self.lines, cpu, place))
    }

    /// `cpu` goes offline. It counts no longer, and may come back elsewhere.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// As [`online`](Self::online).
    pub fn offline(&self, platform: &dyn Platform, cpu: CpuIndex) -> Result<(), Error> {
        self.state
            .with(platform, |state| state.offline(&self.lines, cpu))
    }

    /// The unit that serves `cpu`: for the CPU that calls, one load from its own line.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`]; [`Error::NoUnitForCpu`], with the CPU's
    /// affinity, while no unit is there.
    ///
    /// # Context
    /// Any.
    #[inline]
    pub fn unit(&self, cpu: CpuIndex) -> Result<UnitIndex, Error> {
        self.lines.read(cpu)?.unit(cpu)
    }

    /// Likewise, with the rule, and what is to be reported.
    ///
    /// # Errors
    /// As [`unit`](Self::unit).
    ///
    /// # Context
    /// Any.
    pub fn settled(&self, cpu: CpuIndex) -> Result<Settled, Error> {
        self.lines.read(cpu)?.settled(cpu)
    }
}

impl fmt::Debug for Proximity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proximity")
            .field("cpus", &self.cpus())
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}
