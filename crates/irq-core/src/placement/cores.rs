// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs are threads of one core, and what is placed on it.
//!
//! The threads are a ring, which a CPU joins when it is online for the first time. What is placed
//! on each is counted under the lock of its bank. Each thread's bank shows the sum, and is brought
//! up to date after a count changed, under its own lock: whoever does so last finds what the
//! others counted.

use alloc::vec::Vec;

use irq_hal::atomic::Ordering::{Acquire, Relaxed, Release};
use irq_hal::atomic::{AtomicBool, AtomicU32, AtomicU64};
use irq_hal::heap::try_vec;
use irq_hal::lock::MaskedLock;
use irq_hal::{CpuIndex, Error, NodeId, Platform};

use super::Class;
use super::bank::BANK;
use crate::topology::domains::NONE;
use crate::topology::table::Table;

/// Where a CPU stands.
struct Home {
    /// [`NONE`] until it is known.
    node: AtomicU32,
    core: AtomicU32,
    /// The next thread of the core, on the same node; itself, if there is no other.
    next: AtomicU32,
    /// The threads of the core in the CPU's bank, and whether there are others.
    here: AtomicU64,
    elsewhere: AtomicBool,
    /// How many interrupts of each class are placed on the CPU.
    placed: [AtomicU32; 2],
}

/// The cores of a machine.
pub(super) struct Cores {
    homes: Vec<Home>,
    /// Finds a CPU of a core.
    table: MaskedLock<Table, 1>,
}

impl Cores {
    pub(super) fn new(cpus: u32) -> Result<Self, Error> {
        let mut homes = try_vec(cpus as usize)?;
        homes.extend((0..cpus).map(|cpu| Home {
            node: AtomicU32::new(NONE),
            core: AtomicU32::new(0),
            next: AtomicU32::new(cpu),
            here: AtomicU64::new(1 << (cpu % BANK)),
            elsewhere: AtomicBool::new(false),
            placed: [AtomicU32::new(0), AtomicU32::new(0)],
        }));
        Ok(Self {
            homes,
            table: MaskedLock::new(Table::new(cpus as usize)?),
        })
    }

    /// The node of `cpu`, once it is known.
    #[inline]
    pub(super) fn node(&self, cpu: u32) -> Option<u32> {
        // Pairs with the store in `bind`.
        let node = self.homes[cpu as usize].node.load(Acquire);
        (node != NONE).then_some(node)
    }

    /// Binds `cpu` to its core and node, the first time.
    ///
    /// # Errors
    /// [`Error::Exists`] if it is bound to others.
    pub(super) fn bind<P>(
        &self,
        platform: &P,
        cpu: CpuIndex,
        core: u32,
        node: NodeId,
    ) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let home = &self.homes[cpu.index()];
        self.table.with(platform, |table| {
            if let Some(known) = self.node(cpu.get()) {
                return match known == node.get() && home.core.load(Relaxed) == core {
                    true => Ok(()),
                    false => Err(Error::Exists {
                        what: "another place of the CPU",
                    }),
                };
            }
            let id_of = |cpu: u32| self.homes[cpu as usize].core.load(Relaxed);
            let entry = table.entry(core, id_of);
            let first = match *entry {
                NONE => cpu.get(),
                first => first,
            };
            *entry = first;
            home.core.store(core, Relaxed);
            if self.node(first) == Some(node.get()) {
                let before = &self.homes[first as usize].next;
                home.next.store(before.load(Relaxed), Relaxed);
                // Pairs with the loads in `siblings`.
                before.store(cpu.get(), Release);
                self.meet(cpu.get());
            }
            // Pairs with the load in `node`.
            home.node.store(node.get(), Release);
            Ok(())
        })
    }

    /// The other threads of the core of `cpu` know it, and it knows them. Under the table's lock.
    fn meet(&self, cpu: u32) {
        let know = |one: u32, other: u32| {
            let home = &self.homes[one as usize];
            match one / BANK == other / BANK {
                true => home
                    .here
                    .store(home.here.load(Relaxed) | 1 << (other % BANK), Relaxed),
                false => home.elsewhere.store(true, Relaxed),
            }
        };
        for sibling in self.siblings(cpu) {
            know(cpu, sibling);
            know(sibling, cpu);
        }
    }

    /// The threads of the core of `cpu` in its bank, itself among them, if that is all.
    #[inline(always)]
    pub(super) fn all_here(&self, cpu: u32) -> Option<u64> {
        let home = &self.homes[cpu as usize];
        (!home.elsewhere.load(Relaxed)).then(|| home.here.load(Relaxed))
    }

    /// What is placed on the core of `cpu`.
    #[inline]
    pub(super) fn placed(&self, class: Class, cpu: u32) -> u32 {
        let of = |cpu: u32| self.homes[cpu as usize].placed[class as usize].load(Relaxed);
        self.siblings(cpu)
            .map(of)
            .fold(of(cpu), u32::saturating_add)
    }

    /// `count` more are placed on `cpu`. Under the lock of its bank.
    #[inline(always)]
    pub(super) fn place(&self, class: Class, cpu: u32, count: i32) {
        let placed = &self.homes[cpu as usize].placed[class as usize];
        placed.store(placed.load(Relaxed).saturating_add_signed(count), Relaxed);
    }

    /// The other threads of the core of `cpu`.
    #[inline]
    pub(super) fn siblings(&self, cpu: u32) -> impl Iterator<Item = u32> {
        // Pairs with the store in `bind`.
        let next = |cpu: u32| self.homes[cpu as usize].next.load(Acquire);
        let mut at = next(cpu);
        core::iter::from_fn(move || {
            if at == cpu {
                return None;
            }
            let sibling = at;
            at = next(at);
            Some(sibling)
        })
    }
}
