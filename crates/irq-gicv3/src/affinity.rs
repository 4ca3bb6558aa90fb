// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU affinities in the layouts that hardware uses, each with a type of its own.
//!
//! | layout | Aff3 | Aff2 | Aff1 | Aff0 | type |
//! |---|---|---|---|---|---|
//! | `MPIDR_EL1` | 39:32 | 23:16 | 15:8 | 7:0 | [`Mpidr`] |
//! | `GICD_IROUTER` | 39:32 | 23:16 | 15:8 | 7:0, and bit 31 IRM | [`Route`] |
//! | `GICR_TYPER[63:32]` | 31:24 | 23:16 | 15:8 | 7:0 | [`TyperAffinity`] |
//! | `ICC_SGI1R_EL1` | 55:48 | 39:32 | 23:16 | a bit of 15:0 in range 47:44 | [`SgiTarget`](crate::sgi::SgiTarget) |

use core::fmt;

const AFFINITY: u64 = 0xff_00ff_ffff;

/// A CPU's hardware name: the four affinity fields of its `MPIDR_EL1`. Never an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mpidr(u64);

impl Mpidr {
    /// From a raw `MPIDR_EL1`, or the `reg` of a devicetree cpu node, or a MADT entry: bits
    /// 39:32 and 23:0 count, the others (RES1 bit 31, U, MT) are dropped.
    pub const fn new(raw: u64) -> Self {
        Self(raw & AFFINITY)
    }

    /// From the four fields.
    pub const fn from_affinity(aff3: u8, aff2: u8, aff1: u8, aff0: u8) -> Self {
        Self((aff3 as u64) << 32 | (aff2 as u64) << 16 | (aff1 as u64) << 8 | aff0 as u64)
    }

    /// Bits 39:32 and 23:0 of `MPIDR_EL1`, the others zero.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Affinity level 0.
    #[inline]
    pub const fn aff0(self) -> u8 {
        self.0 as u8
    }

    /// Affinity level 1.
    #[inline]
    pub const fn aff1(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Affinity level 2.
    #[inline]
    pub const fn aff2(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Affinity level 3.
    #[inline]
    pub const fn aff3(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// The CPU as `GICR_TYPER[63:32]` names it.
    pub const fn typer(self) -> TyperAffinity {
        TyperAffinity((self.aff3() as u32) << 24 | self.0 as u32 & 0xff_ffff)
    }

    /// The `GICD_IROUTER` value that sends an SPI to this CPU.
    pub const fn route(self) -> Route {
        Route(self.0)
    }

    /// The CPU with each field moved one level down, for parts whose firmware shifted them
    /// (ASR8601 8601001: Aff1 stands for Aff0, Aff2 for Aff1).
    pub(crate) const fn shifted_down(self) -> Self {
        Self::from_affinity(0, self.aff3(), self.aff2(), self.aff1())
    }
}

impl fmt::Display for Mpidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}.{}",
            self.aff3(),
            self.aff2(),
            self.aff1(),
            self.aff0()
        )
    }
}

impl fmt::Debug for Mpidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A CPU as `GICR_TYPER` names it: Aff3.Aff2.Aff1.Aff0 in one 32-bit word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TyperAffinity(u32);

impl TyperAffinity {
    /// From the 64-bit `GICR_TYPER`.
    pub const fn from_typer(typer: u64) -> Self {
        Self((typer >> 32) as u32)
    }

    /// The word.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The same CPU in `MPIDR_EL1`'s layout.
    pub const fn mpidr(self) -> Mpidr {
        Mpidr::new((self.0 as u64 >> 24) << 32 | (self.0 as u64 & 0xff_ffff))
    }
}

/// Where an SPI goes: a `GICD_IROUTER` value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Route(u64);

impl Route {
    /// `IRM=1`: any participating CPU, one of them. Refused by controllers with `No1N`.
    pub const ANY: Self = Self(1 << 31);

    /// What a `GICD_IROUTER` reads.
    pub const fn from_irouter(value: u64) -> Self {
        Self(value & (AFFINITY | 1 << 31))
    }

    /// The register's value.
    pub const fn irouter(self) -> u64 {
        self.0
    }

    /// Whether any CPU may take it.
    pub const fn is_any(self) -> bool {
        self.0 & 1 << 31 != 0
    }

    /// The one CPU it goes to, or nothing for [`ANY`](Self::ANY).
    pub const fn cpu(self) -> Option<Mpidr> {
        if self.is_any() {
            None
        } else {
            Some(Mpidr::new(self.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res1_and_flag_bits_of_mpidr_never_take_part_in_a_comparison() {
        let raw = 1 << 31 | 1 << 30 | 1 << 24 | 0x12_0003_0201_u64 | 0xabcd << 40;
        assert_eq!(Mpidr::new(raw), Mpidr::from_affinity(0x12, 3, 2, 1));
    }

    #[test]
    fn aff3_sits_at_bit_32_of_mpidr_and_irouter_and_at_bit_24_of_typer() {
        let cpu = Mpidr::from_affinity(0xa, 0xb, 0xc, 0xd);
        assert_eq!(cpu.get(), 0xa_000b_0c0d);
        assert_eq!(cpu.route().irouter(), 0xa_000b_0c0d);
        assert_eq!(cpu.typer().get(), 0x0a0b_0c0d);
        assert_eq!(cpu.typer().mpidr(), cpu);
    }

    #[test]
    fn any_cpu_is_irm_and_names_no_cpu() {
        assert_eq!(Route::ANY.irouter(), 1 << 31);
        assert_eq!(Route::from_irouter(1 << 31 | 5).cpu(), None);
        assert_eq!(
            Route::from_irouter(0x1_0000_0102).cpu(),
            Some(Mpidr::from_affinity(1, 0, 1, 2))
        );
    }

    #[test]
    fn shifted_affinities_move_one_level_down() {
        assert_eq!(Mpidr::new(0x1_0203).shifted_down(), Mpidr::new(0x102));
    }
}
