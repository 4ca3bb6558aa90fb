// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often interrupts were taken.
//!
//! A private interrupt (one that each CPU has for itself) counts in its CPU's block, a device
//! interrupt on a line of its own: memory is O(irqs + CPUs), and a count is exact also while an
//! interrupt moves. A handled interrupt writes its own count and nothing else here.

use alloc::vec::Vec;

use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::heap::try_vec;
use irq_hal::percpu::{CachePadded, PerCpu};
use irq_hal::{CpuIndex, Error};

/// How often an interrupt was taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Acknowledged, by any CPU or by the one asked about.
    pub taken: u64,
    /// Of these, with no action that owned up to it.
    pub unhandled: u64,
}

/// What a CPU met besides interrupts of ours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CpuCounts {
    /// Entries for which nothing was pending.
    pub nothing: u64,
    /// Interrupts with a number outside of every domain.
    pub stray: u64,
}

#[derive(Debug)]
struct Tally {
    taken: AtomicU64,
    unhandled: AtomicU64,
}

impl Tally {
    fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            unhandled: AtomicU64::new(0),
        }
    }

    fn get(&self) -> Counts {
        Counts {
            taken: self.taken.load(Relaxed),
            unhandled: self.unhandled.load(Relaxed),
        }
    }
}

/// Tallies on lines that nobody else uses.
type Line = CachePadded<[Tally; PER_LINE]>;
const PER_LINE: usize = 8;

#[derive(Debug)]
struct CpuBlock {
    nothing: AtomicU64,
    stray: AtomicU64,
    private: Vec<Line>,
}

/// Where an interrupt counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Private(u32),
    Device(u32),
}

/// All counts of a set of interrupts.
#[derive(Debug)]
pub(crate) struct Tallies {
    cpus: PerCpu<CpuBlock>,
    devices: Vec<CachePadded<Tally>>,
}

impl Tallies {
    pub(crate) fn new(cpus: u32, private: u32, devices: u32) -> Result<Self, Error> {
        let lines = (private as usize).div_ceil(PER_LINE);
        let block = |_| {
            let mut private = try_vec(lines)?;
            private.extend((0..lines).map(|_| Line::new(core::array::from_fn(|_| Tally::new()))));
            Ok(CpuBlock {
                nothing: AtomicU64::new(0),
                stray: AtomicU64::new(0),
                private,
            })
        };
        let mut tallies = try_vec(devices as usize)?;
        tallies.extend((0..devices).map(|_| CachePadded::new(Tally::new())));
        Ok(Self {
            cpus: PerCpu::try_new(cpus, block)?,
            devices: tallies,
        })
    }

    pub(crate) fn cpus(&self) -> u32 {
        self.cpus.len()
    }

    fn private(&self, cpu: CpuIndex, index: u32) -> Option<&Tally> {
        let index = index as usize;
        self.cpus
            .get(cpu)?
            .private
            .get(index / PER_LINE)?
            .get(index % PER_LINE)
    }

    /// Counts an interrupt that was acknowledged on `cpu`.
    #[inline]
    pub(crate) fn taken(&self, place: Place, cpu: CpuIndex) {
        match place {
            Place::Private(index) => {
                // One writer: the CPU itself, which cannot take this interrupt again before it
                // ended it.
                if let Some(tally) = self.private(cpu, index) {
                    tally.taken.store(tally.taken.load(Relaxed) + 1, Relaxed);
                }
            }
            Place::Device(index) => {
                if let Some(tally) = self.devices.get(index as usize) {
                    tally.taken.fetch_add(1, Relaxed);
                }
            }
        }
    }

    #[cold]
    pub(crate) fn unhandled(&self, place: Place, cpu: CpuIndex) {
        let tally = match place {
            Place::Private(index) => self.private(cpu, index),
            Place::Device(index) => self.devices.get(index as usize).map(|tally| &**tally),
        };
        if let Some(tally) = tally {
            tally.unhandled.fetch_add(1, Relaxed);
        }
    }

    #[cold]
    pub(crate) fn nothing(&self, cpu: CpuIndex) {
        if let Some(block) = self.cpus.get(cpu) {
            block.nothing.fetch_add(1, Relaxed);
        }
    }

    #[cold]
    pub(crate) fn stray(&self, cpu: CpuIndex) {
        if let Some(block) = self.cpus.get(cpu) {
            block.stray.fetch_add(1, Relaxed);
        }
    }

    /// The counts over all CPUs.
    pub(crate) fn total(&self, place: Place) -> Counts {
        match place {
            Place::Device(index) => self
                .devices
                .get(index as usize)
                .map(|tally| tally.get())
                .unwrap_or_default(),
            Place::Private(index) => (0..self.cpus())
                .filter_map(|cpu| self.private(CpuIndex::new(cpu), index))
                .map(Tally::get)
                .fold(Counts::default(), |sum, one| Counts {
                    taken: sum.taken + one.taken,
                    unhandled: sum.unhandled + one.unhandled,
                }),
        }
    }

    /// The counts of a private interrupt on one CPU.
    pub(crate) fn on(&self, place: Place, cpu: CpuIndex) -> Option<Counts> {
        match place {
            Place::Private(index) => self.private(cpu, index).map(Tally::get),
            Place::Device(_) => None,
        }
    }

    pub(crate) fn cpu(&self, cpu: CpuIndex) -> Option<CpuCounts> {
        let block = self.cpus.get(cpu)?;
        Some(CpuCounts {
            nothing: block.nothing.load(Relaxed),
            stray: block.stray.load(Relaxed),
        })
    }
}
