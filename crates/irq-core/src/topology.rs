// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs are online, and what they share: threads, caches, packages, nodes.
//!
//! # Vocabulary
//! - *level*: what CPUs can share, [`Level`], from the threads of a core to the node.
//! - *domain*: one core, one cache, one node: at each level a CPU is in exactly one.
//! - *place*: the ids of a CPU's domains, [`Place`]. A CPU is *bound* to them by its first
//!   online call, for good: an id may be unknown until then.
//! - *mask*: the online CPUs of a domain. It belongs to the domain and all its members share it.
//!
//! # What it costs
//! Memory is had at construction: a few words per CPU and level, whatever the ids are. The first
//! online call of a CPU takes a lock and finds, or begins, its domains. From then on online and
//! offline flip one bit per level and one of the machine's mask, write the CPU's own state, and
//! visit no other CPU; nothing allocates and nothing locks. Readers never lock. How many CPUs of
//! a domain are online is not kept but counted when asked for, from the words of its mask.
//!
//! # What a reader sees
//! Who sees a CPU in any mask sees its place. A CPU joins its domains, the node first, and then
//! the online CPUs; it leaves in the opposite order. Masks that are read while CPUs come and go
//! are read one word after another: two of them may show different moments. A domain is one
//! object all the same, and is walked to once: a machine never shows more packages than it has.
//!
//! ```
//! use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
//! use irq_core::topology::{Level, Place, Topology};
//! use irq_hal::{Error, Platform};
//!
//! /// In the online call of each CPU, masked.
//! fn came_up(topology: &Topology, platform: &dyn Platform, cpu: CpuIndex) -> Result<(), Error> {
//!     let core = cpu.get() / 2;
//!     let node = NodeId::new(cpu.get() / 8);
//!     let place = Place { core, l2: core, group: 0, package: node.get(), node };
//!     topology.online(platform, cpu, place)
//! }
//!
//! fn siblings(topology: &Topology, cpu: CpuIndex, mask: &mut CpuMask) -> Result<u32, Error> {
//!     let Some(threads) = topology.domain(cpu, Level::Thread) else {
//!         return Err(Error::CpuOffline { cpu });
//!     };
//!     mask.copy_from(&threads)?;
//!     Ok(threads.count())
//! }
//! ```

mod domain;
pub(crate) mod domains;
mod level;
mod merged;
mod online;
mod snapshot;
pub(crate) mod table;

pub use domain::Domain;
pub use level::{Level, LevelSet, Place};
pub use merged::{LevelSets, MergedLevel, MergedLevels};
pub use online::OnlineCpus;

use alloc::vec::Vec;
use core::fmt;

use irq_hal::atomic::AtomicU32;
use irq_hal::atomic::Ordering::{Acquire, Relaxed, Release};
use irq_hal::heap::try_vec;
use irq_hal::lock::MaskedLock;
use irq_hal::{CpuIndex, Error, NodeId, Platform};

use crate::cpu::{CpuMask, CpuSet, Ranges, bounded, word_and_bit};
use domains::{Domains, NONE, Used};

/// How many levels there are.
const LEVELS: usize = Level::ALL.len();

/// What [`Cpu::state`] says.
mod state {
    /// Never online: its place is unknown.
    pub(super) const UNBOUND: u32 = 0;
    /// Bound to its place, in no mask.
    pub(super) const OFFLINE: u32 = 1;
    /// Someone is taking it online or offline.
    pub(super) const CHANGING: u32 = 2;
    /// In the masks.
    pub(super) const ONLINE: u32 = 3;
}

/// A possible CPU.
struct Cpu {
    state: AtomicU32,
    /// Its domain at each level, and its chunk of that domain's mask. Written once, under the
    /// lock, before the state leaves `UNBOUND`.
    slots: [AtomicU32; LEVELS],
    chunks: [AtomicU32; LEVELS],
}

impl Cpu {
    fn new() -> Self {
        let none = || [0; LEVELS].map(|_| AtomicU32::new(NONE));
        Self {
            state: AtomicU32::new(state::UNBOUND),
            slots: none(),
            chunks: none(),
        }
    }

    fn slot(&self, level: Level) -> u32 {
        self.slots[level.index()].load(Relaxed)
    }

    fn chunk(&self, level: Level) -> u32 {
        self.chunks[level.index()].load(Relaxed)
    }
}

/// The possible CPUs and nodes of a machine, and the domains that CPUs are in.
///
/// One object per machine. The numbers of CPUs and nodes are upper bounds.
pub struct Topology {
    cpus: Vec<Cpu>,
    nodes: u32,
    online: OnlineCpus,
    levels: [Domains; LEVELS],
    used: MaskedLock<[Used; LEVELS], 1>,
}

impl Topology {
    /// For the CPUs below `cpus` and the nodes below `nodes`, all of them unknown and offline.
    /// The only call that allocates: some 225 bytes per CPU (up to 260 where their
    /// number is no power of two) and 16 per node.
    ///
    /// # Errors
    /// [`Error::Invalid`] if either is 0 or more than [`MAX_CPUS`](crate::cpu::MAX_CPUS);
    /// [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(cpus: u32, nodes: u32) -> Result<Self, Error> {
        let count = bounded("number of CPUs", cpus)?;
        let dense = bounded("number of nodes", nodes)?;
        let mut list = try_vec(count)?;
        list.extend((0..count).map(|_| Cpu::new()));
        let sparse = || Domains::new(count, None);
        let (thread, thread_used) = sparse()?;
        let (l2, l2_used) = sparse()?;
        let (group, group_used) = sparse()?;
        let (package, package_used) = sparse()?;
        let (node, node_used) = Domains::new(count, Some(dense))?;
        Ok(Self {
            cpus: list,
            nodes,
            online: OnlineCpus::new(count)?,
            levels: [thread, l2, group, package, node],
            used: MaskedLock::new([thread_used, l2_used, group_used, package_used, node_used]),
        })
    }

    /// The number of possible CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// The number of possible nodes.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Puts `cpu` into the masks of its domains and among the online CPUs. The first such call
    /// binds it to `place`, all later ones must name the same one.
    ///
    /// # Errors
    /// The topology is as before then: [`Error::NoSuchCpu`]; [`Error::Invalid`] for a node that
    /// is not possible; [`Error::CpuIsOnline`]; [`Error::Exists`] if it was bound to another place;
    /// [`Error::Busy`] while another call takes the same CPU online or offline.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, on any CPU, for several CPUs at once; the first time
    /// under no lock of ours.
    pub fn online(
        &self,
        platform: &dyn Platform,
        cpu: CpuIndex,
        place: Place,
    ) -> Result<(), Error> {
        let known = self.cpu(cpu)?;
        if place.node.get() >= self.nodes {
            return Err(Error::Invalid {
                what: "node",
                value: u64::from(place.node.get()),
            });
        }
        self.claim(platform, cpu, known, place)?;
        let (_, bit) = word_and_bit(cpu);
        for level in Level::ALL.into_iter().rev() {
            self.levels[level.index()].set(known.chunk(level), bit);
        }
        self.online.set(cpu);
        // Pairs with the claim in `offline`.
        known.state.store(state::ONLINE, Release);
        Ok(())
    }

    /// Takes `cpu` out of all masks. Its place stays known.
    ///
    /// # Errors
    /// The topology is as before then: [`Error::NoSuchCpu`]; [`Error::CpuOffline`];
    /// [`Error::Busy`] while another call takes the same CPU online or offline.
    ///
    /// # Context
    /// Any, on any CPU, for several CPUs at once.
    pub fn offline(&self, cpu: CpuIndex) -> Result<(), Error> {
        let known = self.cpu(cpu)?;
        // Acquire: pairs with the release of the call that took it online.
        let claim = known
            .state
            .compare_exchange(state::ONLINE, state::CHANGING, Acquire, Relaxed);
        match claim {
            Ok(_) => {}
            Err(state::CHANGING) => return Err(BUSY),
            Err(_) => return Err(Error::CpuOffline { cpu }),
        }
        self.online.clear(cpu);
        let (_, bit) = word_and_bit(cpu);
        for level in Level::ALL {
            self.levels[level.index()].clear(known.chunk(level), bit);
        }
        // Pairs with the claim in `online`.
        known.state.store(state::OFFLINE, Release);
        Ok(())
    }

    /// Whether `cpu` is online.
    ///
    /// # Context
    /// Any, as for every method below.
    pub fn is_online(&self, cpu: CpuIndex) -> bool {
        self.online.contains(cpu)
    }

    /// Where `cpu` stands; nothing for one that has never been online.
    pub fn place(&self, cpu: CpuIndex) -> Option<Place> {
        let known = self.bound(cpu)?;
        let id = |level: Level| self.levels[level.index()].id(known.slot(level));
        Some(Place {
            core: id(Level::Thread),
            l2: id(Level::L2),
            group: id(Level::Group),
            package: id(Level::Package),
            node: NodeId::new(id(Level::Node)),
        })
    }

    /// The node of `cpu`; nothing for one that has never been online.
    pub fn node_of(&self, cpu: CpuIndex) -> Option<NodeId> {
        let known = self.bound(cpu)?;
        // The id of a node is its slot.
        Some(NodeId::new(known.slot(Level::Node)))
    }

    /// The CPUs that are online.
    pub const fn online_cpus(&self) -> &OnlineCpus {
        &self.online
    }

    /// The domain of `cpu` at `level`; nothing for a CPU that has never been online.
    pub fn domain(&self, cpu: CpuIndex, level: Level) -> Option<Domain<'_>> {
        let known = self.bound(cpu)?;
        Some(Domain::new(self, level, known.slot(level)))
    }

    /// The CPUs of a node; nothing for one of which no CPU has ever been online.
    pub fn node(&self, node: NodeId) -> Option<Domain<'_>> {
        let nodes = &self.levels[Level::Node.index()];
        nodes
            .lowest(node.get())
            .map(|_| Domain::new(self, Level::Node, node.get()))
    }

    /// The domains of `level` that have a CPU online, in the order of the lowest CPUs that were
    /// ever online in each.
    ///
    /// None comes twice, whatever goes offline meanwhile. One may be missed while a CPU below
    /// all of its others comes online for the first time.
    pub fn domains(&self, level: Level) -> impl Iterator<Item = Domain<'_>> {
        let domains = &self.levels[level.index()];
        (0..self.cpus()).map(CpuIndex::new).filter_map(move |cpu| {
            let slot = self.bound(cpu)?.slot(level);
            // It only ever falls: who finds it here has not met it before.
            let domain = (domains.lowest(slot)? == cpu).then(|| Domain::new(self, level, slot))?;
            (!domain.is_empty()).then_some(domain)
        })
    }

    /// Makes `mask` a snapshot of what kernels call the core mask of `cpu`: the online CPUs of
    /// its package.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`], also for a member that `mask` has no room for;
    /// [`Error::CpuOffline`] for a CPU that has never been online. `mask` is as before then.
    pub fn core_mask(&self, cpu: CpuIndex, mask: &mut CpuMask) -> Result<(), Error> {
        self.cpu(cpu)?;
        let package = self.domain(cpu, Level::Package);
        mask.copy_from(&package.ok_or(Error::CpuOffline { cpu })?)
    }

    fn cpu(&self, cpu: CpuIndex) -> Result<&Cpu, Error> {
        self.cpus.get(cpu.index()).ok_or(Error::NoSuchCpu { cpu })
    }

    /// A CPU whose place is known.
    fn bound(&self, cpu: CpuIndex) -> Option<&Cpu> {
        let known = self.cpus.get(cpu.index())?;
        // Pairs with the store in `bind`.
        (known.state.load(Acquire) != state::UNBOUND).then_some(known)
    }

    /// Makes an offline CPU, bound to `place` or not yet bound, one that is changing.
    fn claim(
        &self,
        platform: &dyn Platform,
        cpu: CpuIndex,
        known: &Cpu,
        place: Place,
    ) -> Result<(), Error> {
        let bind = |used: &mut _| self.bind(used, cpu, known, place);
        if self.bound(cpu).is_none() && self.used.with(platform, bind) {
            return Ok(());
        }
        if self.place(cpu) != Some(place) {
            return Err(Error::Exists {
                what: "another place of the CPU",
            });
        }
        // Acquire: pairs with the release of the call that took it offline, whose changes of
        // the masks come before ours.
        let claim = known
            .state
            .compare_exchange(state::OFFLINE, state::CHANGING, Acquire, Relaxed);
        match claim {
            Ok(_) => Ok(()),
            Err(state::ONLINE) => Err(Error::CpuIsOnline { cpu }),
            Err(_) => Err(BUSY),
        }
    }

    /// Binds the CPU and claims it; `false` if another call was first.
    fn bind(&self, used: &mut [Used; LEVELS], cpu: CpuIndex, known: &Cpu, place: Place) -> bool {
        // The state leaves `UNBOUND` under the lock that we hold.
        if known.state.load(Relaxed) != state::UNBOUND {
            return false;
        }
        for (level, used) in Level::ALL.into_iter().zip(used) {
            let domains = &self.levels[level.index()];
            let (slot, chunk) = domains.bind(used, place.id(level), cpu);
            known.slots[level.index()].store(slot, Relaxed);
            known.chunks[level.index()].store(chunk, Relaxed);
        }
        // Pairs with the load in `bound`: who finds the CPU bound finds its domains.
        known.state.store(state::CHANGING, Release);
        true
    }
}

/// Another call changes the same CPU.
const BUSY: Error = Error::Busy { what: "the CPU" };

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("cpus", &self.cpus())
            .field("nodes", &self.nodes)
            .field("online", &Ranges(&self.online))
            .finish()
    }
}
