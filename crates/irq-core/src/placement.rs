// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPU serves the next interrupt: the least loaded of a set, at a cost that does not grow
//! with the machine.
//!
//! # Vocabulary
//! - *class*: managed interrupts (a mask fixed by the kernel, one per queue of a device) and
//!   regular ones are counted apart, [`Class`].
//! - *load*: what orders the CPUs of a class; the caller says what counts ([`Change`]).
//! - *core's load*: interrupts of the class that are placed on the threads of a CPU's core. It
//!   decides between CPUs of equal load: a core before its siblings. Own load goes first: the
//!   other way round a core with one thread in the mask would get two ahead of the others.
//! - *near*: the node of the device. Its CPUs come first, if the mask allows.
//! - *isolated*: not a housekeeping CPU. It serves only where no other CPU asked for can.
//! - *turn*: where a tie begins, so that equal requests do not meet on one CPU.
//! - *bank*: 64 CPUs with consecutive indices, with one lock, and `T` of the caller's under it.
//!
//! # How it is kept
//! ```text
//! machine ─── tree over banks, 64 children a vertex: the least key, and who has it
//! node    ─── likewise over the node's part of each bank
//! bank    ─── summary: the least key, and which CPUs have it
//!             own loads:    for each load a word with the CPUs below it
//!             cores' loads: likewise
//! ```
//! A change of one CPU flips one bit of a word for itself and one for each thread of its core,
//! and looks at its bank's summary; a vertex above is written only when the least key of a child
//! changes. So CPUs of two nodes that are in different banks write nothing in common while the
//! least keys of their banks stay. Where the sums of loads are of interest they are added up by
//! who asks.
//!
//! Everything that choosing reads is written under the lock of a bank (or of a vertex) and read
//! without: a choice is a snapshot.
//!
//! ```
//! use irq_core::cpu::{CpuIndex, NodeId};
//! use irq_core::placement::{Among, Class, Limits, Placement, Request};
//! use irq_hal::{Error, Platform};
//!
//! /// LPIs, up to 512 per CPU; nothing is kept beside the loads.
//! fn lpis() -> Result<Placement<()>, Error> {
//!     Placement::new(Limits { cpus: 256, nodes: 4, load: 512, threads: 2 }, || Ok(()))
//! }
//!
//! fn place(lpis: &Placement<()>, platform: &dyn Platform, near: NodeId, lpi: u32) -> Result<CpuIndex, Error> {
//!     let request = Request { class: Class::Regular, among: Among::Machine, near: Some(near), turn: lpi };
//!     let cpu = lpis.choose(&request)?.cpu;
//!     lpis.update(platform, cpu, |change, ()| change.place(Class::Regular, 1))?;
//!     Ok(cpu)
//! }
//! ```

mod bank;
mod change;
mod choose;
mod cores;
mod least;
mod levels;
mod nodes;
mod rows;
mod settle;
mod update;

pub use change::{BankChange, Change};

use alloc::vec::Vec;
use core::fmt;

use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error, NodeId, Platform};

use crate::cpu::{CpuSet, bounded};
use crate::topology::domains::NONE;
use bank::{BANK, Bank, MIXED};
use cores::Cores;
use least::Least;
use nodes::Node;
use rows::{Key, Row, Rows};

/// Kinds of interrupts that are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Class {
    /// The kernel fixed its mask and moves it only when CPUs go: one for each queue of a device.
    Managed,
    /// All others.
    Regular,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Managed, Self::Regular];
}

/// The bounds of a [`Placement`], for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// CPUs are below that: 1 to [`MAX_CPUS`](crate::cpu::MAX_CPUS).
    pub cpus: u32,
    /// Nodes are below that, with the same range.
    pub nodes: u32,
    /// The highest load of a CPU in a class, 1 to 65,536: one that has it has no room.
    pub load: u32,
    /// How many threads of a core may be loaded to the limit and still be told apart, 1 to 64.
    /// Above `load * threads` the loads of cores count as equal.
    pub threads: u32,
}

/// Of which CPUs to choose.
#[derive(Clone, Copy)]
pub enum Among<'a> {
    /// All.
    Machine,
    /// Those of a node.
    Node(NodeId),
    /// Those of a set. One that gives its words in a row ([`CpuSet::words`]) is read faster.
    Mask(&'a dyn CpuSet),
}

/// What to choose a CPU for.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Whose loads decide.
    pub class: Class,
    /// The CPUs that may serve it.
    pub among: Among<'a>,
    /// The device's node, if it is known.
    pub near: Option<NodeId>,
    /// Where a tie begins. The interrupt's number is a good one.
    pub turn: u32,
}

/// A CPU that was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Choice {
    /// The CPU.
    pub cpu: CpuIndex,
    /// Its load.
    pub load: u32,
    /// Its core's load.
    pub core_load: u32,
    /// Whether it is isolated: no housekeeping CPU could serve.
    pub isolated: bool,
}

/// The loads of the CPUs of a machine, and `T` for each bank of 64 of them.
pub struct Placement<T> {
    cpus: u32,
    limit: u32,
    banks: Vec<CachePadded<Bank<T>>>,
    rows: [Rows; 2],
    nodes: Vec<Node>,
    cores: Cores,
    least: [Least; 2],
}

impl<T: Send> Placement<T> {
    /// With no CPU online and no load; `data` gives what each bank holds for the caller. Class
    /// [`Class::Managed`] has no room until [`Change::room`] says so, the other has.
    ///
    /// The only call that allocates: for each class a bit per CPU and load, and one per CPU, load
    /// and thread; and 48 bytes per bank and node.
    ///
    /// # Errors
    /// [`Error::Invalid`] for limits out of their ranges; [`Error::OutOfMemory`]; those of
    /// `data`.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(limits: Limits, mut data: impl FnMut() -> Result<T, Error>) -> Result<Self, Error> {
        bounded("number of CPUs", limits.cpus)?;
        let nodes = bounded("number of nodes", limits.nodes)?;
        let ranged = |what, value: u32, most: u32| match value {
            value if value == 0 || value > most => Err(Error::Invalid {
                what,
                value: u64::from(value),
            }),
            _ => Ok(()),
        };
        ranged("highest load", limits.load, 65_536)?;
        ranged("threads of a core", limits.threads, 64)?;
        let count = limits.cpus.div_ceil(BANK);
        let mut banks = try_vec(count as usize)?;
        for _ in 0..count {
            banks.push(CachePadded::new(Bank::new(data()?)));
        }
        let mut list = try_vec(nodes)?;
        for number in 0..limits.nodes {
            list.push(Node::new(number, count)?);
        }
        Ok(Self {
            cpus: limits.cpus,
            limit: limits.load,
            rows: [
                Rows::new(banks.len(), &limits, false)?,
                Rows::new(banks.len(), &limits, true)?,
            ],
            banks,
            nodes: list,
            cores: Cores::new(limits.cpus)?,
            least: [Least::new(count)?, Least::new(count)?],
        })
    }

    /// The number of possible CPUs.
    ///
    /// # Context
    /// Any, as for all calls that follow and say nothing else.
    pub const fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The number of possible nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The number of banks: CPU `i` is in bank `i / 64`.
    pub fn banks(&self) -> u32 {
        self.banks.len() as u32
    }

    /// Lets `cpu` be chosen. The first such call says for good which core it is a thread of, and
    /// on which node; all later ones must say the same. Threads of a core are on one node: those
    /// that are not do not count for it. Loads are as they were left.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoSuchCpu`]; [`Error::Invalid`] for a node that is not
    /// possible; [`Error::CpuIsOnline`]; [`Error::Exists`] if it was bound to another core or
    /// node.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, under no lock of ours, on any CPU, for several CPUs at
    /// once. Nothing allocates.
    pub fn online<P>(
        &self,
        platform: &P,
        cpu: CpuIndex,
        core: u32,
        node: NodeId,
    ) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let (index, bit) = self.place_of(cpu)?;
        let Some(home) = self.nodes.get(node.index()) else {
            return Err(Error::Invalid {
                what: "node",
                value: u64::from(node.get()),
            });
        };
        self.cores.bind(platform, cpu, core, node)?;
        self.join_core(platform, cpu.get());
        let mut known = Ok(());
        self.reopen(platform, index, bit, |bank| {
            if bank.online() & bit != 0 {
                known = Err(Error::CpuIsOnline { cpu });
            }
            if home.members(index) & bit == 0 {
                self.join(index, bank, bit, home, node);
            }
            bank.set_online(bit, true);
        });
        known
    }

    /// `cpu` is not chosen any more. What is placed there stays counted until it is moved.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// As [`online`](Self::online).
    pub fn offline<P>(&self, platform: &P, cpu: CpuIndex) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let (index, bit) = self.place_of(cpu)?;
        let mut known = Ok(());
        self.reopen(platform, index, bit, |bank| {
            if bank.online() & bit == 0 {
                known = Err(Error::CpuOffline { cpu });
            }
            bank.set_online(bit, false);
        });
        known
    }

    /// Whether `cpu` is online.
    pub fn is_online(&self, cpu: CpuIndex) -> bool {
        self.place_of(cpu)
            .is_ok_and(|(index, bit)| self.banks[index as usize].online() & bit != 0)
    }

    /// Makes `cpu` an isolated CPU, or a housekeeping one. It may be online or not.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// As [`online`](Self::online).
    pub fn isolate<P>(&self, platform: &P, cpu: CpuIndex, isolated: bool) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let (index, bit) = self.place_of(cpu)?;
        self.reopen(platform, index, bit, |bank| {
            bank.set_isolated(bit, isolated)
        });
        Ok(())
    }

    /// Whether `cpu` is isolated.
    pub fn is_isolated(&self, cpu: CpuIndex) -> bool {
        self.place_of(cpu)
            .is_ok_and(|(index, bit)| self.banks[index as usize].isolated() & bit != 0)
    }

    /// The node of `cpu`; nothing for one that has never been online.
    pub fn node(&self, cpu: CpuIndex) -> Option<NodeId> {
        self.place_of(cpu).ok()?;
        self.cores.node(cpu.get()).map(NodeId::new)
    }

    /// Whether `cpu` is online and has room in the class.
    pub fn has_room(&self, class: Class, cpu: CpuIndex) -> bool {
        self.place_of(cpu)
            .is_ok_and(|(index, bit)| self.usable(class, index) & bit != 0)
    }

    /// The CPUs of a bank for which [`Change::room`], or [`BankChange::room`], said last that there
    /// is room, online or not; 0 for a bank beyond the last.
    pub fn room(&self, class: Class, bank: u32) -> u64 {
        match bank < self.banks() {
            true => self.row(class, bank).room() & self.possible(bank),
            false => 0,
        }
    }

    /// The load of `cpu`; 0 for one that does not exist.
    pub fn load(&self, class: Class, cpu: CpuIndex) -> u32 {
        self.place_of(cpu)
            .map_or(0, |(index, bit)| self.row(class, index).load(bit))
    }

    /// What is placed on the core of `cpu`, as far as it is told apart ([`Limits::threads`]); 0
    /// for a CPU that does not exist.
    pub fn core_load(&self, class: Class, cpu: CpuIndex) -> u32 {
        self.place_of(cpu).map_or(0, |(index, bit)| {
            self.row(class, index).cores().least(bit, 0)
        })
    }

    /// The bank of `cpu` and its bit there.
    fn place_of(&self, cpu: CpuIndex) -> Result<(u32, u64), Error> {
        if cpu.get() >= self.cpus {
            return Err(Error::NoSuchCpu { cpu });
        }
        Ok((cpu.get() / BANK, 1 << (cpu.get() % BANK)))
    }

    #[inline(always)]
    fn row(&self, class: Class, bank: u32) -> Row<'_> {
        self.rows[class as usize].row(bank)
    }

    /// The CPUs of a bank that are online and have room.
    fn usable(&self, class: Class, bank: u32) -> u64 {
        self.banks[bank as usize].online() & self.row(class, bank).with_room()
    }

    /// The least key of a node's CPUs in a bank, and which of them have it.
    #[inline(always)]
    fn leaf(&self, class: Class, node: &Node, bank: u32) -> (Key, u64) {
        let only = self.banks[bank as usize].node();
        node.leaf(class, bank, only, self.row(class, bank))
    }

    /// The possible CPUs of a bank.
    fn possible(&self, index: u32) -> u64 {
        match self.cpus - index * BANK {
            rest if rest < BANK => (1 << rest) - 1,
            _ => u64::MAX,
        }
    }

    /// The node of a CPU that has been online.
    fn node_of(&self, cpu: u32) -> Option<&Node> {
        self.nodes.get(self.cores.node(cpu)? as usize)
    }

    /// The CPU of `bit` is one of `home`'s from now on. Under the bank's lock.
    fn join(&self, index: u32, bank: &Bank<T>, bit: u64, home: &Node, node: NodeId) {
        home.add(index, bit);
        let only = bank.node();
        if only == NONE {
            bank.set_node(node.get());
        } else if only != node.get() && only != MIXED {
            // The node whose CPUs it had until now needs a summary of its own.
            if let Some(other) = self.nodes.get(only as usize) {
                for class in Class::ALL {
                    other.refresh(class, index, self.row(class, index));
                }
            }
            bank.set_node(MIXED);
        }
    }
}

/// The numbers of CPUs and nodes.
impl<T> fmt::Debug for Placement<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement")
            .field("cpus", &self.cpus)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}
