// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our dense irq numbers and the controller's sparse INTIDs.
//!
//! From the embedder's base on: the 32 SGIs and PPIs, the SPIs, the extended PPIs, the
//! extended SPIs, as many of each as the hardware has.

use irq_core::{Irq, IrqRange};
use irq_hal::Error;

use crate::error::ProbeError;
use crate::intid::{EPPIS_MAX, ESPIS_MAX, IntId, Kind, PPIS, SGIS, SPIS_MAX};

/// How many private interrupts there are without the extension.
const PRIVATE: u32 = SGIS + PPIS;

/// How many interrupts of each kind the hardware has, and where ours begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layout {
    irqs: IrqRange,
    private: [IrqRange; 2],
    /// The INTIDs below this one are numbered in their order, without a gap.
    dense: u32,
    spis: u32,
    eppis: u32,
    espis: u32,
}

impl Layout {
    /// `spis`, `eppis` and `espis` interrupts, numbered from `base`.
    ///
    /// # Errors
    /// [`ProbeError::Base`] if the last number is no `u32`.
    pub fn new(base: Irq, spis: u32, eppis: u32, espis: u32) -> Result<Self, ProbeError> {
        let (spis, eppis, espis) = (
            spis.min(SPIS_MAX),
            eppis.min(EPPIS_MAX),
            espis.min(ESPIS_MAX),
        );
        let count = PRIVATE + spis + eppis + espis;
        let range = |offset: u32, count: u32| {
            let first = base.checked_add(offset).ok_or(());
            first.and_then(|first| IrqRange::new(first, count).map_err(drop))
        };
        let too_high = |()| ProbeError::Base {
            base: base.get(),
            count,
        };
        Ok(Self {
            irqs: range(0, count).map_err(too_high)?,
            private: [
                range(0, PRIVATE).map_err(too_high)?,
                // An empty range begins where a number exists.
                range(if eppis == 0 { 0 } else { PRIVATE + spis }, eppis).map_err(too_high)?,
            ],
            dense: PRIVATE + spis,
            spis,
            eppis,
            espis,
        })
    }

    /// The numbers of private interrupts: SGIs and PPIs, extended PPIs.
    pub const fn private(&self) -> [IrqRange; 2] {
        self.private
    }

    /// All our numbers.
    pub const fn irqs(&self) -> IrqRange {
        self.irqs
    }

    /// Our number for an acknowledged `intid`; none for a special one. SGIs, PPIs and SPIs take
    /// one comparison.
    #[inline]
    pub fn acknowledged(&self, intid: u32) -> Option<Irq> {
        if intid < self.dense {
            // `new` saw that the last number is a `u32`.
            return Some(Irq::new(self.irqs.first().get().wrapping_add(intid)));
        }
        self.extended(intid)
    }

    #[cold]
    fn extended(&self, intid: u32) -> Option<Irq> {
        self.irq(IntId::new(intid).ok()?)
    }

    /// Our number for `intid`, if the hardware has it. LPIs are no lines: none.
    pub const fn irq(&self, intid: IntId) -> Option<Irq> {
        let number = intid.number();
        let offset = match intid.kind() {
            Kind::Sgi => number,
            Kind::Ppi => SGIS + number,
            Kind::Spi if number < self.spis => PRIVATE + number,
            Kind::ExtendedPpi if number < self.eppis => PRIVATE + self.spis + number,
            Kind::ExtendedSpi if number < self.espis => PRIVATE + self.spis + self.eppis + number,
            _ => return None,
        };
        self.irqs.irq(offset)
    }

    /// The INTID behind our number.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn intid(&self, irq: Irq) -> Result<IntId, Error> {
        let none = Error::NoSuchIrq { irq: irq.get() };
        let offset = self.irqs.offset(irq).ok_or(none)?;
        let spi = offset.wrapping_sub(PRIVATE);
        let eppi = spi.wrapping_sub(self.spis);
        let espi = eppi.wrapping_sub(self.eppis);
        let intid = if offset < PRIVATE {
            IntId::new(offset).ok()
        } else if spi < self.spis {
            IntId::spi(spi)
        } else if eppi < self.eppis {
            IntId::eppi(eppi)
        } else {
            IntId::espi(espi)
        };
        intid.ok_or(none)
    }

    /// Whether the hardware has `intid`, as the block's error says it.
    ///
    /// # Errors
    /// [`Error::HwirqOutOfRange`] with the last one of its kind, or the last SPI if there is none
    /// of that kind.
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn check(&self, intid: IntId) -> Result<(), Error> {
        if self.irq(intid).is_some() {
            return Ok(());
        }
        let kind = intid.kind();
        let (first, count) = match kind {
            Kind::ExtendedPpi if self.eppis != 0 => (kind.first(), self.eppis),
            Kind::ExtendedSpi if self.espis != 0 => (kind.first(), self.espis),
            _ => (Kind::Spi.first(), self.spis),
        };
        Err(Error::HwirqOutOfRange {
            hwirq: intid.get(),
            last: first + count - 1,
        })
    }

    /// How many SPIs there are.
    pub const fn spis(&self) -> u32 {
        self.spis
    }

    /// How many extended PPIs each CPU has.
    pub const fn eppis(&self) -> u32 {
        self.eppis
    }

    /// How many extended SPIs there are.
    pub const fn espis(&self) -> u32 {
        self.espis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_intids_are_inverse_and_dense() {
        let layout = Layout::new(Irq::new(100), 64, 32, 32).unwrap();
        assert_eq!(layout.irqs().count(), 32 + 64 + 32 + 32);
        let mut last = None;
        for irq in layout.irqs().iter() {
            let intid = layout.intid(irq).unwrap();
            assert_eq!(layout.irq(intid), Some(irq));
            assert_eq!(layout.acknowledged(intid.get()), Some(irq));
            assert!(layout.check(intid).is_ok());
            last = Some(intid.get());
        }
        assert_eq!(last, Some(4096 + 31));
        let [first, extended] = layout.private();
        assert_eq!((first.first().get(), first.count()), (100, 32));
        assert_eq!((extended.first().get(), extended.count()), (196, 32));
        let at = |intid| layout.irq(IntId::new(intid).unwrap()).map(Irq::get);
        assert_eq!(at(27), Some(127));
        assert_eq!(at(32), Some(132));
        assert_eq!(at(1056), Some(100 + 96));
        assert_eq!(at(4096), Some(100 + 128));
    }

    #[test]
    fn what_the_hardware_lacks_has_no_number_and_a_typed_error() {
        let layout = Layout::new(Irq::new(0), 64, 0, 0).unwrap();
        for (intid, last) in [(96, 95), (1056, 95), (4096, 95), (8192, 95)] {
            let id = IntId::new(intid).unwrap();
            assert_eq!(layout.irq(id), None);
            assert_eq!(layout.acknowledged(intid), None);
            assert_eq!(
                layout.check(id),
                Err(Error::HwirqOutOfRange { hwirq: intid, last })
            );
        }
        assert_eq!(
            layout.intid(Irq::new(96)),
            Err(Error::NoSuchIrq { irq: 96 })
        );
    }

    #[test]
    fn the_last_number_may_be_the_last_u32() {
        let base = u32::MAX - 95;
        let layout = Layout::new(Irq::new(base), 64, 0, 0).unwrap();
        assert_eq!(
            layout.irq(IntId::new(95).unwrap()),
            Some(Irq::new(u32::MAX))
        );
        let [first, extended] = layout.private();
        assert_eq!((first.first().get(), first.count()), (base, 32));
        assert_eq!(extended.count(), 0);
        assert!(Layout::new(Irq::new(base + 1), 64, 0, 0).is_err());
    }

    #[test]
    fn a_base_too_high_is_refused() {
        let error = Layout::new(Irq::new(u32::MAX - 10), 64, 0, 0);
        assert_eq!(
            error,
            Err(ProbeError::Base {
                base: u32::MAX - 10,
                count: 96
            })
        );
    }
}
