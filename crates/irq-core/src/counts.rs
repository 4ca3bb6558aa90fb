// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often interrupts were taken.
//!
//! A private interrupt (one that each CPU has for itself) counts in its CPU's block, a device
//! interrupt on a line of its own: memory is a line for each device interrupt, and 16 bytes for
//! each private interrupt and CPU. A count is exact also while an interrupt moves. On request
//! device interrupts count in the CPUs' blocks instead. A handled interrupt writes its own count
//! and nothing else here.

use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};

/// How often an interrupt was taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Acknowledged, by any CPU or by the one asked about.
    pub taken: u64,
    /// Of these, with no action that owned up to it.
    pub unhandled: u64,
}

impl Counts {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            taken: self.taken.wrapping_add(other.taken),
            unhandled: self.unhandled.wrapping_add(other.unhandled),
        }
    }
}

/// What a CPU met besides interrupts of ours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CpuCounts {
    /// Entries for which nothing was pending.
    pub nothing: u64,
    /// Interrupts with a number outside of the range.
    pub stray: u64,
}

/// The counts of one interrupt, over all CPUs or on one.
#[derive(Debug)]
pub(crate) struct Tally {
    taken: AtomicU64,
    unhandled: AtomicU64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            unhandled: AtomicU64::new(0),
        }
    }

    /// Counts an interrupt of which this CPU is the only one to write here, and returns the low
    /// half of the count.
    #[inline]
    pub(crate) fn taken_by_one(&self) -> u32 {
        let taken = self.taken.load(Relaxed).wrapping_add(1);
        self.taken.store(taken, Relaxed);
        taken as u32
    }

    /// Likewise where other CPUs write too.
    #[inline]
    pub(crate) fn taken_by_many(&self) -> u32 {
        self.taken.fetch_add(1, Relaxed) as u32
    }

    /// Counts that nobody owned up to it.
    #[cold]
    pub(crate) fn count_unhandled(&self) {
        self.unhandled.fetch_add(1, Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.taken.store(0, Relaxed);
        self.unhandled.store(0, Relaxed);
    }

    pub(crate) fn get(&self) -> Counts {
        Counts {
            taken: self.taken.load(Relaxed),
            unhandled: self.unhandled.load(Relaxed),
        }
    }
}
