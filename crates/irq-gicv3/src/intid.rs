// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt ids, as the controller counts them.
//!
//! | INTID | kind | registers |
//! |---|---|---|
//! | 0-15 | SGI, sent by software | redistributor |
//! | 16-31 | PPI, of one CPU | redistributor |
//! | 32-1019 | SPI, shared | distributor |
//! | 1020-1023 | special, answers of an acknowledge | none |
//! | 1056-1119 | extended PPI (GICv3.1) | redistributor |
//! | 4096-5119 | extended SPI (GICv3.1) | distributor |
//! | 8192 and up | LPI, messages | memory |
//!
//! IHI 0069, "INTIDs".

use core::fmt;

use irq_hal::Error;

use crate::sgi::Sgi;

/// The first of the special answers of an acknowledge: 1020 to 1023 are never ended.
pub const SPECIAL_FIRST: u32 = 1020;
/// The answer "nothing is pending".
pub const SPURIOUS: u32 = 1023;
/// The first LPI.
pub const LPI_FIRST: u32 = 8192;
/// The architecture has INTIDs of 24 bits at most.
pub const INTID_BITS: u32 = 24;

const PPI_FIRST: u32 = 16;
const SPI_FIRST: u32 = 32;
const EPPI_FIRST: u32 = 1056;
const ESPI_FIRST: u32 = 4096;

/// How many SGIs there are.
pub const SGIS: u32 = 16;
/// How many PPIs a redistributor has without the extension.
pub const PPIS: u32 = 16;
/// How many SPIs there can be.
pub const SPIS_MAX: u32 = 988;
/// How many extended PPIs there can be.
pub const EPPIS_MAX: u32 = 64;
/// How many extended SPIs there can be.
pub const ESPIS_MAX: u32 = 1024;

/// What an [`IntId`] is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Kind {
    /// Software-generated, per CPU.
    Sgi,
    /// Private peripheral interrupt, per CPU.
    Ppi,
    /// Shared peripheral interrupt.
    Spi,
    /// Extended private peripheral interrupt, per CPU (GICv3.1).
    ExtendedPpi,
    /// Extended shared peripheral interrupt (GICv3.1).
    ExtendedSpi,
    /// Locality-specific peripheral interrupt: a message. Edge only, without an active state.
    Lpi,
}

impl Kind {
    /// The INTID of its first one.
    #[inline]
    pub const fn first(self) -> u32 {
        match self {
            Self::Sgi => 0,
            Self::Ppi => PPI_FIRST,
            Self::Spi => SPI_FIRST,
            Self::ExtendedPpi => EPPI_FIRST,
            Self::ExtendedSpi => ESPI_FIRST,
            Self::Lpi => LPI_FIRST,
        }
    }

    /// Whether each CPU has its own: SGIs, PPIs, extended PPIs.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Sgi | Self::Ppi | Self::ExtendedPpi)
    }

    /// Whether a CPU interface needs ExtRange for it: extended PPIs and SPIs.
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::ExtendedPpi | Self::ExtendedSpi)
    }

    /// Whether it is configured in the distributor: SPIs and extended SPIs.
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Spi | Self::ExtendedSpi)
    }
}

/// An interrupt id that the architecture gives to a real interrupt: never a special or
/// reserved number.
///
/// Whether the controller at hand implements it is another question, which the blocks answer
/// with [`Error::HwirqOutOfRange`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IntId(u32);

impl IntId {
    /// The interrupt with the number `intid`.
    ///
    /// # Errors
    /// [`Error::HwirqReserved`] for 1020 to 1055, 1120 to 4095 and 5120 to 8191;
    /// [`Error::HwirqOutOfRange`] beyond 24 bits.
    pub const fn new(intid: u32) -> Result<Self, Error> {
        match intid {
            0..SPECIAL_FIRST | EPPI_FIRST..1120 | ESPI_FIRST..5120 => Ok(Self(intid)),
            LPI_FIRST.. if intid >> INTID_BITS == 0 => Ok(Self(intid)),
            LPI_FIRST.. => Err(Error::HwirqOutOfRange {
                hwirq: intid,
                last: (1 << INTID_BITS) - 1,
            }),
            _ => Err(Error::HwirqReserved { hwirq: intid }),
        }
    }

    /// SGI `n`, 0 to 15.
    pub const fn sgi(n: u32) -> Option<Self> {
        if n < SGIS { Some(Self(n)) } else { None }
    }

    pub(crate) const fn from_sgi(sgi: Sgi) -> Self {
        Self(sgi.get() as u32)
    }

    /// PPI `n`, 0 to 15: INTID `16 + n`.
    pub const fn ppi(n: u32) -> Option<Self> {
        if n < PPIS {
            Some(Self(PPI_FIRST + n))
        } else {
            None
        }
    }

    /// SPI `n`, 0 to 987: INTID `32 + n`.
    pub const fn spi(n: u32) -> Option<Self> {
        if n < SPIS_MAX {
            Some(Self(SPI_FIRST + n))
        } else {
            None
        }
    }

    /// Extended PPI `n`, 0 to 63: INTID `1056 + n`.
    pub const fn eppi(n: u32) -> Option<Self> {
        if n < EPPIS_MAX {
            Some(Self(EPPI_FIRST + n))
        } else {
            None
        }
    }

    /// Extended SPI `n`, 0 to 1023: INTID `4096 + n`.
    pub const fn espi(n: u32) -> Option<Self> {
        if n < ESPIS_MAX {
            Some(Self(ESPI_FIRST + n))
        } else {
            None
        }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// What it is.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self.0 {
            0..PPI_FIRST => Kind::Sgi,
            PPI_FIRST..SPI_FIRST => Kind::Ppi,
            SPI_FIRST..SPECIAL_FIRST => Kind::Spi,
            SPECIAL_FIRST..ESPI_FIRST => Kind::ExtendedPpi,
            ESPI_FIRST..LPI_FIRST => Kind::ExtendedSpi,
            LPI_FIRST.. => Kind::Lpi,
        }
    }

    /// The number within its kind: `n` of the constructor; for an LPI its distance from 8192.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0 - self.kind().first()
    }
}

/// The private interrupts of a CPU with `eppis` extended PPIs, in the order of their registers.
pub(crate) fn private(eppis: u32) -> impl Iterator<Item = IntId> {
    let sgis = (0..SGIS).filter_map(IntId::sgi);
    let ppis = (0..PPIS).filter_map(IntId::ppi);
    sgis.chain(ppis).chain((0..eppis).filter_map(IntId::eppi))
}

impl From<Sgi> for IntId {
    fn from(sgi: Sgi) -> Self {
        Self(u32::from(sgi.get()))
    }
}

impl fmt::Display for IntId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind() {
            Kind::Sgi => "SGI",
            Kind::Ppi => "PPI",
            Kind::Spi => "SPI",
            Kind::ExtendedPpi => "ePPI",
            Kind::ExtendedSpi => "eSPI",
            Kind::Lpi => "LPI",
        };
        write!(f, "{kind}{} (INTID {})", self.number(), self.0)
    }
}

impl fmt::Debug for IntId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_and_reserved_numbers_are_no_interrupts() {
        for intid in [1020, 1021, 1022, 1023, 1024, 1055, 1120, 4095, 5120, 8191] {
            assert_eq!(
                IntId::new(intid),
                Err(Error::HwirqReserved { hwirq: intid })
            );
        }
    }

    #[test]
    fn numbers_beyond_24_bits_are_out_of_range() {
        assert!(IntId::new((1 << 24) - 1).is_ok());
        let error = IntId::new(1 << 24);
        assert_eq!(
            error,
            Err(Error::HwirqOutOfRange {
                hwirq: 1 << 24,
                last: (1 << 24) - 1
            })
        );
    }

    #[test]
    fn kinds_begin_and_end_where_the_architecture_says() {
        let expect = [
            (0, Kind::Sgi, 0),
            (15, Kind::Sgi, 15),
            (16, Kind::Ppi, 0),
            (31, Kind::Ppi, 15),
            (32, Kind::Spi, 0),
            (1019, Kind::Spi, 987),
            (1056, Kind::ExtendedPpi, 0),
            (1119, Kind::ExtendedPpi, 63),
            (4096, Kind::ExtendedSpi, 0),
            (5119, Kind::ExtendedSpi, 1023),
            (8192, Kind::Lpi, 0),
        ];
        for (intid, kind, number) in expect {
            let id = IntId::new(intid).unwrap();
            assert_eq!((id.get(), id.kind(), id.number()), (intid, kind, number));
            assert_eq!(kind.first() + number, intid);
        }
    }

    #[test]
    fn constructors_refuse_what_their_kind_does_not_have() {
        assert_eq!(IntId::sgi(16), None);
        assert_eq!(IntId::ppi(16), None);
        assert_eq!(IntId::spi(988), None);
        assert_eq!(IntId::eppi(64), None);
        assert_eq!(IntId::espi(1024), None);
        assert_eq!(IntId::ppi(11).map(IntId::get), Some(27));
        assert_eq!(IntId::spi(987).map(IntId::get), Some(1019));
        assert_eq!(IntId::eppi(63).map(IntId::get), Some(1119));
        assert_eq!(IntId::espi(1023).map(IntId::get), Some(5119));
    }
}
