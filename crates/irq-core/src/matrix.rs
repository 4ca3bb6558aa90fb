// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vector matrix: each CPU has vectors of its own, so that an interrupt gets a CPU *and* a
//! vector there.
//!
//! # Vocabulary
//! - *area*: the vectors that are handed out, the same ones on every CPU.
//! - *system vector*: one of a fixed purpose, which is never handed out.
//! - *available*: of a CPU, the vectors of the area that are neither system vectors, nor in use,
//!   nor reserved.
//! - *managed*: of an interrupt whose mask is fixed. A vector is *reserved* for it on every CPU of
//!   the mask, also on those that are offline, so that it can always be started on any of them;
//!   one that is not in use is to *spare*. Which of a CPU's reservations an interrupt uses does not
//!   matter.
//! - *regular*: any other interrupt. It has one vector, while it is in use.
//! - *reserved interrupt*: a regular one that is set up and not in use. It is counted, and its
//!   source is programmed with the *shutdown vector*; it has no vector until it is activated.
//! - *slot*: a CPU and a vector, [`Slot`]. Its *owner* is the irq that it was allocated for.
//! - *dormant*: in use on a CPU that is offline.
//!
//! # The accounts of a CPU
//! ```text
//!                           available  managed  managed allocated  allocated
//! reserve_managed               -1       +1
//! remove_managed                +1       -1
//! alloc_managed                                        +1             +1
//! free, of a managed one                               -1             -1
//! alloc, assign                 -1                                    +1
//! free, of a regular one        +1                                    -1
//! assign_system                 -1
//! assign_system, replacing                                            -1
//! ```
//! They are the same whether the CPU is online or not: what it has when it comes back is what is
//! free then. Sums over CPUs are made by who asks and kept nowhere. A failed call leaves all
//! accounts as they were.
//!
//! # How it is kept
//! [`placement`](crate::placement) has 64 CPUs in a bank, under one lock. Beside the loads a bank
//! has, for each vector, a word of the CPUs where it is reserved and a word of those where it is
//! in use: a reservation for a mask is word work. Each CPU's slots, which the entry of an
//! interrupt reads, are on cache lines of their own. To allocate or free is to take one lock, and
//! one more where that changes which bank has the least loaded CPU.
//!
//! ```
//! use irq_core::cpu::CpuSet;
//! use irq_core::matrix::{Matrix, Slot, Wanted};
//! use irq_core::{Irq, placement::Among};
//! use irq_hal::{Error, Platform};
//!
//! /// A queue of a device: its mask is fixed, it can be started wherever a CPU of it is online.
//! fn queue(
//!     matrix: &Matrix,
//!     platform: &dyn Platform,
//!     irq: Irq,
//!     cpus: &dyn CpuSet,
//! ) -> Result<Slot, Error> {
//!     matrix.reserve_managed(platform, cpus)?;
//!     let wanted = Wanted { irq, among: Among::Mask(cpus), near: None };
//!     let slot = matrix.alloc_managed(platform, &wanted);
//!     if slot.is_err() {
//!         matrix.remove_managed(platform, cpus)?;
//!     }
//!     slot
//! }
//! ```

mod area;
mod bank;
mod block;
mod check;
mod choice;
mod counter;
mod counts;
mod hints;
mod managed;
mod regular;
mod setup;
mod slots;
mod snapshot;
mod system;
mod words;

pub use check::{Invariant, Violation};
pub use counts::Counts;
pub use setup::{Policy, Setup};
pub use slots::Entry;
pub use snapshot::Snapshot;

use alloc::vec::Vec;
use core::fmt;

use irq_hal::atomic::AtomicU32;
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error, NodeId, Platform};

use crate::cpu::bounded;
use crate::irq::{Irq, IrqRange};
use crate::placement::{Among, Limits, Placement};
use crate::topology::Place;
use area::{Area, invalid};
use bank::Bank;
use slots::{Slots, expect_irqs};
use words::possible;

/// A vector of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Slot {
    /// The CPU.
    pub cpu: CpuIndex,
    /// The vector there.
    pub vector: u8,
}

/// What a vector is wanted for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Who shall own it. Also where a tie between CPUs begins.
    pub irq: Irq,
    /// The CPUs that may serve it.
    pub among: Among<'a>,
    /// The device's node, if it is known: its CPUs come first.
    pub near: Option<NodeId>,
}

/// The vectors of a machine's CPUs.
///
/// All calls may be made on any CPU, for the same CPUs at the same time.
pub struct Matrix {
    placement: Placement<Bank>,
    slots: Slots,
    area: Area,
    /// Vectors of a CPU that were no system vectors at construction: its highest load.
    vectors: u32,
    shutdown: u8,
    policy: Policy,
    refused: Vec<IrqRange>,
    /// Interrupts that are set up and have no vector.
    reserved: CachePadded<AtomicU32>,
}

impl Matrix {
    /// With all CPUs offline and nothing in use. The only call that allocates: some 900 bytes of
    /// slots and 50 of bitmaps for each CPU, and what [`Placement::new`] does.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a setup that cannot be; [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(setup: &Setup<'_>) -> Result<Self, Error> {
        let cpus = bounded("number of CPUs", setup.cpus)?;
        let (area, system, vectors) = setup.vectors()?;
        let mut refused = try_vec(setup.refused.len())?;
        refused.extend_from_slice(setup.refused);
        let limits = Limits {
            cpus: setup.cpus,
            nodes: setup.nodes,
            load: vectors,
            threads: setup.threads,
        };
        let mut bank = 0..;
        let placement = Placement::new(limits, || {
            let cpus = bank.next().map_or(0, |bank| possible(setup.cpus, bank));
            Bank::new(area, system, cpus)
        })?;
        Ok(Self {
            placement,
            slots: Slots::new(cpus, area)?,
            area,
            vectors,
            shutdown: setup.shutdown,
            policy: setup.policy,
            refused,
            reserved: CachePadded::new(AtomicU32::new(0)),
        })
    }

    /// The number of possible CPUs.
    ///
    /// # Context
    /// Any, as for all calls that follow and say nothing else.
    pub const fn cpus(&self) -> u32 {
        self.placement.cpus()
    }

    /// How many vectors a CPU could have in use, as far as was known at construction.
    pub const fn capacity(&self) -> u32 {
        self.vectors
    }

    /// How CPUs are chosen.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// What a source is programmed with while it has no vector.
    pub const fn shutdown_vector(&self) -> u8 {
        self.shutdown
    }

    /// Whether `cpu` is online.
    pub fn is_online(&self, cpu: CpuIndex) -> bool {
        self.placement.is_online(cpu)
    }

    /// What `vector` of `cpu` stands for: one load, for the entry of an interrupt.
    #[inline]
    pub fn entry(&self, cpu: CpuIndex, vector: u8) -> Entry {
        self.slots.get(cpu, vector)
    }

    /// Lets vectors of `cpu` be allocated. What was reserved or in use there still is; what
    /// [`entry`](Self::entry) said of late or retriggered interrupts is forgotten. `place` is
    /// taken from the first such call.
    ///
    /// # Errors
    /// Those of [`Placement::online`].
    ///
    /// # Context
    /// As [`Placement::online`].
    pub fn online<P>(&self, platform: &P, cpu: CpuIndex, place: Place) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let (index, bit) = self.home(cpu)?;
        self.placement.update_bank(platform, index, |change, _| {
            if change.online() & bit == 0 {
                self.slots.clear_marks(cpu);
            }
        })?;
        self.placement.online(platform, cpu, place.core, place.node)
    }

    /// No more vectors of `cpu` are allocated. What is reserved or in use there stays so, and can
    /// be freed.
    ///
    /// # Errors
    /// Those of [`Placement::offline`].
    ///
    /// # Context
    /// As [`Placement::offline`].
    pub fn offline<P>(&self, platform: &P, cpu: CpuIndex) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.placement.offline(platform, cpu)
    }

    /// Makes `cpu` isolated, so that it gets interrupts only where no other CPU can serve them,
    /// or a housekeeping CPU.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// As [`Placement::isolate`].
    pub fn isolate<P>(&self, platform: &P, cpu: CpuIndex, isolated: bool) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.placement.isolate(platform, cpu, isolated)
    }

    /// The bank of a CPU and its bit there.
    fn home(&self, cpu: CpuIndex) -> Result<(u32, u64), Error> {
        if cpu.get() >= self.cpus() {
            return Err(Error::NoSuchCpu { cpu });
        }
        Ok(crate::cpu::word_and_bit(cpu))
    }

    /// The irqs from `first` on, `count` of them, may have vectors.
    fn expect_irqs(&self, first: Irq, count: u32) -> Result<(), Error> {
        expect_irqs(first, count)?;
        let refused = |irq: &u32| {
            let irq = Irq::new(*irq);
            self.refused.iter().any(|range| range.contains(irq))
        };
        // Most setups refuse none.
        if !self.refused.is_empty()
            && let Some(irq) = (first.get()..first.get() + count).find(refused)
        {
            return Err(invalid("irq with a vector", u64::from(irq)));
        }
        Ok(())
    }
}

/// The numbers of CPUs and vectors.
impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matrix")
            .field("cpus", &self.cpus())
            .field("vectors", &self.vectors)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
