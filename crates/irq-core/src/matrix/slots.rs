// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose a vector of a CPU is, for whoever acknowledges an interrupt: written under the lock of
//! the CPU's bank, read without.

use alloc::vec::Vec;

use irq_hal::atomic::AtomicU32;
use irq_hal::atomic::Ordering::{Acquire, Relaxed, Release};
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error};

use super::area::{Area, invalid};
use crate::irq::Irq;

/// What a vector of a CPU stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Entry {
    /// Nothing: an interrupt there is spurious.
    Unused,
    /// Nothing any more: an interrupt there may be a late one of the former owner.
    Shutdown,
    /// This interrupt.
    Irq(Irq),
    /// This interrupt, which was raised again on another CPU: one that is still seen here is
    /// ended and nothing else.
    Retriggered(Irq),
}

impl Entry {
    /// The interrupt whose vector it is.
    #[inline]
    pub const fn owner(self) -> Option<Irq> {
        match self {
            Self::Irq(irq) | Self::Retriggered(irq) => Some(irq),
            Self::Unused | Self::Shutdown => None,
        }
    }

    const fn encode(self) -> u32 {
        match self {
            Self::Unused => 0,
            Self::Shutdown => SHUTDOWN,
            Self::Irq(irq) => irq.get() + 1,
            Self::Retriggered(irq) => (irq.get() + 1) | RETRIGGERED,
        }
    }

    const fn decode(word: u32) -> Self {
        match word {
            0 => Self::Unused,
            SHUTDOWN => Self::Shutdown,
            word if word & RETRIGGERED != 0 => {
                Self::Retriggered(Irq::new((word & !RETRIGGERED) - 1))
            }
            word => Self::Irq(Irq::new(word - 1)),
        }
    }
}

const RETRIGGERED: u32 = 1 << 31;
const SHUTDOWN: u32 = RETRIGGERED;

/// Interrupts are below that.
pub(super) const IRQS: u32 = RETRIGGERED - 1;

/// The irqs from `first` on, `count` of them, can own vectors.
pub(super) fn expect_irqs(first: Irq, count: u32) -> Result<(), Error> {
    match first.checked_add(count) {
        Some(end) if end.get() <= IRQS => Ok(()),
        _ => Err(invalid("irq", u64::from(first.get()))),
    }
}

/// Entries on the same lines as each other.
const LINE: usize = 32;

/// An entry for each vector of each CPU; no line has entries of two CPUs.
pub(super) struct Slots {
    area: Area,
    /// Lines of a CPU.
    lines: usize,
    entries: Vec<CachePadded<[AtomicU32; LINE]>>,
}

impl Slots {
    pub(super) fn new(cpus: usize, area: Area) -> Result<Self, Error> {
        let lines = area.len().div_ceil(LINE);
        let mut entries = try_vec(cpus * lines)?;
        entries.extend(
            (0..cpus * lines).map(|_| CachePadded::new([(); LINE].map(|()| AtomicU32::new(0)))),
        );
        Ok(Self {
            area,
            lines,
            entries,
        })
    }

    #[inline]
    fn word(&self, cpu: CpuIndex, at: usize) -> Option<&AtomicU32> {
        let line = self.entries.get(cpu.index() * self.lines + at / LINE)?;
        Some(&line[at % LINE])
    }

    /// The entry of the vector at `at`.
    #[inline]
    pub(super) fn at(&self, cpu: CpuIndex, at: usize) -> Entry {
        // Pairs with the store in `set`.
        self.word(cpu, at)
            .map_or(Entry::Unused, |word| Entry::decode(word.load(Acquire)))
    }

    /// The entry of `vector`; unused for one that is not in the area.
    #[inline]
    pub(super) fn get(&self, cpu: CpuIndex, vector: u8) -> Entry {
        let at = self.area.position(vector);
        at.map_or(Entry::Unused, |at| self.at(cpu, at))
    }

    /// Under the bank's lock, as all that follows.
    #[inline]
    pub(super) fn set(&self, cpu: CpuIndex, at: usize, entry: Entry) {
        if let Some(word) = self.word(cpu, at) {
            // Pairs with the load in `at`: who finds the irq finds what was made ready for it.
            word.store(entry.encode(), Release);
        }
    }

    /// `irq` may have its vector at `at` taken away.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not in use, or somebody else's.
    #[inline]
    pub(super) fn expect_owner(&self, cpu: CpuIndex, at: usize, irq: Irq) -> Result<(), Error> {
        match self.at(cpu, at).owner() {
            None => Err(invalid("vector in use", u64::from(self.area.vector(at)))),
            Some(owner) if owner != irq => {
                Err(invalid("owner of the vector", u64::from(irq.get())))
            }
            Some(_) => Ok(()),
        }
    }

    /// Nothing is late, or raised elsewhere, on a CPU that was offline.
    #[inline]
    pub(super) fn clear_marks(&self, cpu: CpuIndex) {
        let words = (0..self.area.len()).filter_map(|at| self.word(cpu, at));
        for word in words {
            let plain = match Entry::decode(word.load(Relaxed)) {
                Entry::Unused | Entry::Irq(_) => continue,
                Entry::Shutdown => Entry::Unused,
                Entry::Retriggered(irq) => Entry::Irq(irq),
            };
            word.store(plain.encode(), Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_last_irq_are_no_marks() {
        let last = Irq::new(IRQS - 1);
        for entry in [
            Entry::Unused,
            Entry::Shutdown,
            Entry::Irq(Irq::new(0)),
            Entry::Irq(last),
            Entry::Retriggered(Irq::new(0)),
            Entry::Retriggered(last),
        ] {
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
        assert!(expect_irqs(last, 1).is_ok());
        assert!(expect_irqs(last, 2).is_err());
        assert!(expect_irqs(Irq::new(u32::MAX), 1).is_err());
    }
}
