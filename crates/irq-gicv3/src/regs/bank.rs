// SPDX-License-Identifier: MIT OR Apache-2.0
//! The per-interrupt registers, which look alike in three places: SPIs and extended SPIs in
//! the distributor, SGIs, PPIs and extended PPIs in a redistributor.
//!
//! A [`Line`] is a bank and an index into it; the index rule of the extended ranges is applied
//! here and nowhere else.

use irq_hal::access::{Ro, Rw, W1};

use crate::intid::{IntId, Kind};
use crate::regs::Frame;

/// Where the registers of one bank begin, in bytes from the start of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bank {
    /// `IGROUPR`, one bit an interrupt.
    pub igroupr: usize,
    /// `ISENABLER`, write one to enable.
    pub isenabler: usize,
    /// `ICENABLER`, write one to disable.
    pub icenabler: usize,
    /// `ISPENDR`, write one to make pending.
    pub ispendr: usize,
    /// `ICPENDR`, write one to clear pending.
    pub icpendr: usize,
    /// `ISACTIVER`, write one to activate.
    pub isactiver: usize,
    /// `ICACTIVER`, write one to deactivate.
    pub icactiver: usize,
    /// `IPRIORITYR`, one byte an interrupt.
    pub ipriorityr: usize,
    /// `ICFGR`, two bits an interrupt, the upper one: 1 is edge.
    pub icfgr: usize,
    /// `IROUTER`, eight bytes an interrupt; distributor only. The first 32 entries are not there.
    pub irouter: Option<usize>,
}

impl Bank {
    /// `GICD_*<n>`: SPIs; the index is the INTID.
    pub const SPI: Self = Self {
        igroupr: 0x0080,
        isenabler: 0x0100,
        icenabler: 0x0180,
        ispendr: 0x0200,
        icpendr: 0x0280,
        isactiver: 0x0300,
        icactiver: 0x0380,
        ipriorityr: 0x0400,
        icfgr: 0x0c00,
        irouter: Some(0x6000),
    };

    /// `GICD_*<n>E`: extended SPIs; the index is the INTID less 4096.
    pub const ESPI: Self = Self {
        igroupr: 0x1000,
        isenabler: 0x1200,
        icenabler: 0x1400,
        ispendr: 0x1600,
        icpendr: 0x1800,
        isactiver: 0x1a00,
        icactiver: 0x1c00,
        ipriorityr: 0x2000,
        icfgr: 0x3000,
        irouter: Some(0x8000),
    };

    /// `GICR_*` in the SGI frame: SGIs and PPIs by INTID, extended PPIs right behind them.
    pub const PRIVATE: Self = Self {
        igroupr: 0x1_0080,
        isenabler: 0x1_0100,
        icenabler: 0x1_0180,
        ispendr: 0x1_0200,
        icpendr: 0x1_0280,
        isactiver: 0x1_0300,
        icactiver: 0x1_0380,
        ipriorityr: 0x1_0400,
        icfgr: 0x1_0c00,
        irouter: None,
    };
}

/// One interrupt's place: its bank and its index there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The bank.
    pub bank: &'static Bank,
    /// The index in it.
    pub index: usize,
}

impl Line {
    /// Where `intid` is configured; nothing for an LPI, whose configuration is in memory.
    pub const fn of(intid: IntId) -> Option<Self> {
        let number = intid.number() as usize;
        let (bank, index) = match intid.kind() {
            Kind::Sgi => (&Bank::PRIVATE, number),
            Kind::Ppi => (&Bank::PRIVATE, 16 + number),
            Kind::ExtendedPpi => (&Bank::PRIVATE, 32 + number),
            Kind::Spi => (&Bank::SPI, 32 + number),
            Kind::ExtendedSpi => (&Bank::ESPI, number),
            Kind::Lpi => return None,
        };
        Some(Self { bank, index })
    }

    const fn word(self, base: usize) -> usize {
        base + self.index / 32 * 4
    }

    /// The interrupt's bit in the one-bit registers.
    pub const fn bit(self) -> u32 {
        1 << (self.index % 32)
    }

    /// The upper bit of its two bits in `ICFGR`.
    pub const fn edge_bit(self) -> u32 {
        2 << (self.index % 16 * 2)
    }
}

/// The registers of the line at hand, over a bus.
#[derive(Debug)]
pub struct LineRegs<'b, B> {
    bus: &'b B,
    line: Line,
}

impl<'b, B: Frame> LineRegs<'b, B> {
    /// The registers of `line` on `bus`.
    #[inline]
    pub const fn new(bus: &'b B, line: Line) -> Self {
        Self { bus, line }
    }

    /// Writes of `bit()` enable.
    #[inline]
    pub const fn isenabler(&self) -> W1<'b, B, u32> {
        W1::new(self.bus, self.line.word(self.line.bank.isenabler))
    }

    /// Writes of `bit()` disable.
    #[inline]
    pub const fn icenabler(&self) -> W1<'b, B, u32> {
        W1::new(self.bus, self.line.word(self.line.bank.icenabler))
    }

    /// Writes of `bit()` make pending.
    #[inline]
    pub const fn ispendr(&self) -> W1<'b, B, u32> {
        W1::new(self.bus, self.line.word(self.line.bank.ispendr))
    }

    /// Writes of `bit()` take the pending state away.
    #[inline]
    pub const fn icpendr(&self) -> W1<'b, B, u32> {
        W1::new(self.bus, self.line.word(self.line.bank.icpendr))
    }

    /// Writes of `bit()` deactivate.
    #[inline]
    pub const fn icactiver(&self) -> W1<'b, B, u32> {
        W1::new(self.bus, self.line.word(self.line.bank.icactiver))
    }

    /// What is enabled: `ISENABLER` as read.
    pub const fn enabled(&self) -> Ro<'b, B, u32> {
        Ro::new(self.bus, self.line.word(self.line.bank.isenabler))
    }

    /// What is pending: `ISPENDR` as read.
    pub const fn pending(&self) -> Ro<'b, B, u32> {
        Ro::new(self.bus, self.line.word(self.line.bank.ispendr))
    }

    /// What is active: `ISACTIVER` as read.
    pub const fn active(&self) -> Ro<'b, B, u32> {
        Ro::new(self.bus, self.line.word(self.line.bank.isactiver))
    }

    /// The trigger, with those of 15 neighbours.
    pub const fn icfgr(&self) -> Rw<'b, B, u32> {
        Rw::new(self.bus, self.line.bank.icfgr + self.line.index / 16 * 4)
    }

    /// The priority, a byte of its own.
    pub const fn ipriorityr(&self) -> Rw<'b, B, u8> {
        Rw::new(self.bus, self.line.bank.ipriorityr + self.line.index)
    }

    /// The route of a shared interrupt; nothing for a private one.
    pub fn irouter(&self) -> Option<Rw<'b, B, u64>> {
        Some(Rw::new(
            self.bus,
            self.line.bank.irouter? + self.line.index * 8,
        ))
    }
}

/// Whole words of a bank, for bring-up.
#[derive(Debug)]
pub struct BankRegs<'b, B> {
    bus: &'b B,
    bank: &'static Bank,
}

impl<'b, B: Frame> BankRegs<'b, B> {
    /// The registers of `bank` on `bus`.
    pub const fn new(bus: &'b B, bank: &'static Bank) -> Self {
        Self { bus, bank }
    }

    /// `IGROUPR`, word `n`: 32 interrupts.
    pub const fn igroupr(&self, n: usize) -> Rw<'b, B, u32> {
        Rw::new(self.bus, self.bank.igroupr + n * 4)
    }

    /// `ICENABLER`, word `n`: 32 interrupts.
    pub const fn icenabler(&self, n: usize) -> W1<'b, B, u32> {
        W1::new(self.bus, self.bank.icenabler + n * 4)
    }

    /// `ICACTIVER`, word `n`: 32 interrupts.
    pub const fn icactiver(&self, n: usize) -> W1<'b, B, u32> {
        W1::new(self.bus, self.bank.icactiver + n * 4)
    }

    /// `IPRIORITYR`, word `n`: 4 interrupts.
    pub const fn ipriorityr(&self, n: usize) -> Rw<'b, B, u32> {
        Rw::new(self.bus, self.bank.ipriorityr + n * 4)
    }

    /// `ICFGR`, word `n`: 16 interrupts.
    pub const fn icfgr(&self, n: usize) -> Rw<'b, B, u32> {
        Rw::new(self.bus, self.bank.icfgr + n * 4)
    }

    /// `IROUTER` of index `n`; nothing in a bank of private interrupts.
    pub fn irouter(&self, n: usize) -> Option<Rw<'b, B, u64>> {
        Some(Rw::new(self.bus, self.bank.irouter? + n * 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(intid: u32) -> Line {
        Line::of(IntId::new(intid).unwrap()).unwrap()
    }

    #[test]
    fn the_first_spi_is_routed_at_0x6100() {
        let first = line(32);
        assert_eq!(first.bank.irouter.unwrap() + first.index * 8, 0x6100);
        assert_eq!(first.word(first.bank.isenabler), 0x104);
        assert_eq!(first.bit(), 1);
    }

    #[test]
    fn extended_spis_have_banks_of_their_own_indexed_from_4096() {
        let first = line(4096);
        assert_eq!((first.bank, first.index), (&Bank::ESPI, 0));
        assert_eq!(first.word(first.bank.isenabler), 0x1200);
        assert_eq!(first.bank.irouter.unwrap() + first.index * 8, 0x8000);
        let other = line(4096 + 33);
        assert_eq!(other.word(other.bank.icenabler), 0x1404);
        assert_eq!(other.bit(), 2);
        assert_eq!(other.bank.ipriorityr + other.index, 0x2021);
    }

    #[test]
    fn extended_ppis_follow_the_ppis_in_the_same_bank() {
        let first = line(1056);
        assert_eq!((first.bank, first.index), (&Bank::PRIVATE, 32));
        assert_eq!(first.word(first.bank.isenabler), 0x1_0104);
        assert_eq!(line(1119).index, 95);
        assert_eq!(first.bank.icfgr + first.index / 16 * 4, 0x1_0c08);
    }

    #[test]
    fn the_edge_bit_is_the_upper_one_of_two() {
        assert_eq!(line(32).edge_bit(), 2);
        assert_eq!(line(47).edge_bit(), 2 << 30);
        assert_eq!(line(48).edge_bit(), 2);
    }

    #[test]
    fn an_lpi_has_no_line_registers() {
        assert_eq!(Line::of(IntId::new(8192).unwrap()), None);
    }
}
