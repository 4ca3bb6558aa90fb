// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a modelled machine consists of: generations, chips, threads, sources, addresses.

/// A generation of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gen {
    /// POWER9.
    One,
    /// POWER10.
    Two,
}

/// Flags of `GET_IRQ_INFO`.
pub mod flags {
    /// The trigger page is a page of its own.
    pub const TRIGGER_PAGE: u64 = 0x01;
    /// The store at 0x400 ends: as generation 1 says it.
    pub const STORE_EOI: u64 = 0x02;
    /// The source is a level.
    pub const LSI: u64 = 0x04;
    /// Offsets into the pages are shifted: `offset | offset << 4`.
    pub const SHIFT_BUG: u64 = 0x08;
    /// Masked by the firmware call alone.
    pub const MASK_VIA_FIRMWARE: u64 = 0x10;
    /// Ended by the firmware call alone.
    pub const EOI_VIA_FIRMWARE: u64 = 0x20;
    /// The store at 0x400 ends: as generation 2 says it.
    pub const STORE_EOI2: u64 = 0x40;
}

/// Which pages a source has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// A trigger page, then a management page.
    Pair,
    /// One page for both.
    Combined,
    /// A management page: software cannot trigger the source.
    Management,
}

/// One source to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceSpec {
    pub(super) chip: usize,
    pub(super) flags: u64,
    pub(super) pages: Pages,
    /// Log2 of the bytes of all its pages.
    pub(super) shift: u32,
    pub(super) psi: bool,
}

impl SourceSpec {
    /// An IPI source of chip number `chip`, as `generation` has them.
    pub const fn ipi(generation: Gen, chip: usize) -> Self {
        let store_eoi = match generation {
            Gen::One => 0,
            Gen::Two => flags::STORE_EOI2,
        };
        Self {
            chip,
            flags: flags::TRIGGER_PAGE | store_eoi,
            pages: Pages::Pair,
            shift: 17,
            psi: false,
        }
    }

    /// An interrupt of the PSI bridge: a level; one management page, of 4 KiB on
    /// generation 1.
    pub const fn lsi(generation: Gen, chip: usize) -> Self {
        let (store_eoi, shift) = match generation {
            Gen::One => (0, 12),
            Gen::Two => (flags::STORE_EOI2, 16),
        };
        Self {
            chip,
            flags: flags::LSI | store_eoi,
            pages: Pages::Management,
            shift,
            psi: true,
        }
    }

    /// A message of a PCI host bridge: one page for all on generation 1, as an IPI on 2.
    pub const fn msi(generation: Gen, chip: usize) -> Self {
        let mut spec = Self::ipi(generation, chip);
        if matches!(generation, Gen::One) {
            spec.flags = 0;
            spec.pages = Pages::Combined;
            spec.shift = 16;
        }
        spec
    }

    /// With these [`flags`] instead.
    pub const fn flags(mut self, flags: u64) -> Self {
        self.flags = flags;
        self
    }

    /// With these pages, of 1 << `shift` bytes together.
    pub const fn pages(mut self, pages: Pages, shift: u32) -> Self {
        self.pages = pages;
        self.shift = shift;
        self
    }

    pub(super) const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    pub(super) const fn page_len(&self) -> u64 {
        match self.pages {
            Pages::Pair => 1 << (self.shift - 1),
            Pages::Combined | Pages::Management => 1 << self.shift,
        }
    }
}

/// One hardware thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThreadSpec {
    pub pir: u32,
    pub chip: usize,
}

/// The whole description, as the builder leaves it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub generation: Gen,
    pub chips: usize,
    pub chip_ids: Vec<u32>,
    pub threads: Vec<ThreadSpec>,
    pub ipis: u32,
    pub extra: Vec<SourceSpec>,
    pub provision: u32,
    pub overflow_check: bool,
    pub sticky_nsr: bool,
    pub pipr_recomputed: bool,
    pub silicon_lsi: bool,
    pub minus_one_when_exhausted: bool,
}

/// The TIMA's hypervisor page: the same address on every chip.
pub(super) const TIMA: u64 = 0x6030203190000;
/// Its length.
pub(super) const TIMA_LEN: u64 = 0x1_0000;
/// What firmware wants to be given at a time.
pub(super) const PROVISION_PAGE: u64 = 0x1_0000;
/// Pages in which a queue's notification and escalation states are.
pub(super) const END_PAGE: u64 = 0x1_0000;

impl Machine {
    /// The chip's number in addresses.
    fn chip_base(&self, chip: usize) -> u64 {
        match self.generation {
            Gen::One => (chip as u64) << 42,
            Gen::Two => (chip as u64) << 44,
        }
    }

    /// The global number of the source with this index on `chip`.
    pub fn girq(&self, chip: usize, index: u32) -> u32 {
        match self.generation {
            Gen::One => (chip as u32) << 20 | index,
            Gen::Two => (chip as u32) << 24 | index,
        }
    }

    /// The index of the first IPI of `chip`.
    pub fn first_ipi(chip: usize) -> u32 {
        if chip == 0 { 0x10 } else { 0 }
    }

    /// Where the pages of a source begin; `index` is its index on its chip.
    pub fn esb(&self, spec: &SourceSpec, index: u32) -> u64 {
        let base = match (self.generation, spec.psi) {
            (Gen::One, true) => 0x6_0302_031c_0000 + (u64::from(index & 0xf) << 12),
            (Gen::Two, true) => 0x6_0302_0200_0000 + (u64::from(index & 0xf) << 16),
            (Gen::One, false) => 0x6_0100_0000_0000 + (u64::from(index) << 17),
            (Gen::Two, false) => 0x6_0500_0000_0000 + (u64::from(index) << 17),
        };
        base + self.chip_base(spec.chip)
    }

    /// Where the page pair of a queue begins; `index` is the queue's index on its chip.
    pub fn end_esb(&self, chip: usize, index: u32) -> u64 {
        let base = match self.generation {
            Gen::One => 0x6_0160_0000_0000,
            Gen::Two => 0x6_0600_0000_0000,
        };
        base + self.chip_base(chip) + (u64::from(index) << 17)
    }

    /// What the PHYS ring of a thread matches: block of the chip, fixed bit, thread.
    pub fn hard_cam(&self, thread: &ThreadSpec) -> u32 {
        let block = match self.generation {
            Gen::One => (thread.chip as u32) << 19,
            Gen::Two => (thread.chip as u32) << 24,
        };
        block | 0x80 | thread.pir & 0x7f
    }
}
