// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our dense irq numbers, and the numbers in event queues.
//!
//! From the embedder's base on: the interrupt between CPUs, then the device sources in the order
//! in which they are made. An entry of a queue holds the place in that order, counted from 1,
//! since 0 could be memory that nobody wrote.

use irq_core::{Irq, IrqRange};
use irq_hal::Error;

use crate::error::ProbeError;

/// The largest number that an entry can hold, less those that no source of ours has: that of the
/// reserved source, and that of one that is routed nowhere.
const SOURCES_MAX: u32 = 0x7fff_ffff - 4;

/// How many sources there can be, and where our numbers begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layout {
    irqs: IrqRange,
    private: IrqRange,
}

/// The place of the interrupt between CPUs.
pub(crate) const IPI: u32 = 0;

impl Layout {
    /// The IPI and `sources` device sources, numbered from `base`.
    ///
    /// # Errors
    /// [`ProbeError::Base`] if the last number is no `u32`, or does not fit an event.
    pub fn new(base: Irq, sources: u32) -> Result<Self, ProbeError> {
        let count = sources.saturating_add(1);
        let too_many = ProbeError::Base {
            base: base.get(),
            count,
        };
        if sources > SOURCES_MAX {
            return Err(too_many);
        }
        let range = |count| IrqRange::new(base, count).map_err(|_| too_many);
        Ok(Self {
            irqs: range(count)?,
            private: range(1)?,
        })
    }

    /// All our numbers.
    pub const fn irqs(&self) -> IrqRange {
        self.irqs
    }

    /// Those of which each CPU has its own: the IPI.
    pub const fn private(&self) -> [IrqRange; 1] {
        [self.private]
    }

    /// How many device sources there can be.
    pub const fn sources(&self) -> u32 {
        self.irqs.count() - 1
    }

    /// The IPI.
    pub const fn ipi(&self) -> Irq {
        self.irqs.first()
    }

    /// The number of the device source at place `index`, from 1 on.
    #[inline(always)]
    pub const fn irq(&self, index: u32) -> Irq {
        // `new` saw that the last number is a `u32`.
        Irq::new(self.irqs.first().get().wrapping_add(index))
    }

    /// The place of `irq`: 0 for the IPI.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`].
    ///
    /// # Context
    /// Any.
    pub fn index(&self, irq: Irq) -> Result<u32, Error> {
        let none = Error::NoSuchIrq { irq: irq.get() };
        self.irqs.offset(irq).ok_or(none)
    }

    /// What an event of place `index` reads in a queue.
    pub const fn data(index: u32) -> u32 {
        index + 1
    }

    /// What an event of a CPU's reserved source reads.
    pub const fn again(&self) -> u32 {
        Self::data(self.irqs.count())
    }

    /// The place that an entry's number stands for, if it is one of ours.
    #[inline(always)]
    pub const fn place(&self, data: u32) -> Option<u32> {
        let index = data.wrapping_sub(1);
        if index < self.irqs.count() {
            Some(index)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_places_and_events_are_inverse_and_no_event_is_zero() {
        let layout = Layout::new(Irq::new(100), 64).unwrap();
        assert_eq!((layout.irqs().count(), layout.sources()), (65, 64));
        assert_eq!(layout.ipi(), Irq::new(100));
        for irq in layout.irqs().iter() {
            let index = layout.index(irq).unwrap();
            let data = Layout::data(index);
            assert_ne!(data, 0);
            assert_eq!(layout.place(data), Some(index));
            assert_eq!(layout.irq(index), irq);
        }
        assert_eq!(layout.place(0), None);
        assert_eq!(layout.place(layout.again()), None, "the reserved source");
        assert_eq!(
            layout.index(Irq::new(165)),
            Err(Error::NoSuchIrq { irq: 165 })
        );
    }

    #[test]
    fn a_base_too_high_and_more_sources_than_events_can_name_are_refused() {
        let base = u32::MAX - 10;
        assert!(Layout::new(Irq::new(base), 10).is_ok());
        assert_eq!(
            Layout::new(Irq::new(base), 11),
            Err(ProbeError::Base { base, count: 12 })
        );
        assert!(Layout::new(Irq::new(0), SOURCES_MAX + 1).is_err());
        let most = Layout::new(Irq::new(0), SOURCES_MAX).unwrap();
        assert!(most.again() < 0x7fff_ffff);
        assert!(Layout::new(Irq::new(0), u32::MAX).is_err());
    }
}
