// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event source: its state, its assignment, and what an access to its pages means.

use irq_hal::CpuIndex;

use super::access::Call;
use super::end::Place;
use super::machine::{Gen, Pages, SourceSpec, flags};
use super::pq::Pq;

/// Where a source's events go, for assertions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eas {
    /// Events are discarded, after the source has noted them.
    pub masked: bool,
    /// The virtual processor; 0 before the first assignment.
    pub vp: u32,
    /// The priority: with it the queue.
    pub prio: u8,
    /// The number that is written to the queue.
    pub data: u32,
}

impl Eas {
    pub(super) const UNSET: Self = Self {
        masked: true,
        vp: 0,
        prio: 0,
        data: 0,
    };
}

/// Offset bit of a load that waits for stores to the same page.
const ORDERED: usize = 0x40;

/// What an access to a source's pages does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Eoi,
    Get,
    Set(Pq),
    StoreEoi,
    Trigger,
}

#[derive(Clone, Debug)]
pub(super) struct Source {
    pub spec: SourceSpec,
    pub esb: u64,
    pub pq: Pq,
    pub eas: Eas,
    /// One of the numbers that `ALLOCATE_IRQ` gives out.
    pub pool: bool,
    pub allocated: bool,
    /// `SET_IRQ_CONFIG` was called for it since the last reset.
    pub configured: bool,
    /// The wire of an LSI is high.
    pub asserted: bool,
    /// Its pages do not answer.
    pub failing: bool,
    /// A store that ends is on its way.
    pub posted: bool,
    /// This CPU was shown a Q that it cleared: the event is its to trigger again.
    pub owed: Option<CpuIndex>,
    /// Where the entry of the last event that was forwarded is.
    pub place: Option<Place>,
    /// Triggers that are gone for good.
    pub lost: u64,
}

impl Source {
    pub fn new(spec: SourceSpec, esb: u64, pool: bool) -> Self {
        Self {
            spec,
            esb,
            pq: Pq::Off,
            eas: Eas::UNSET,
            pool,
            allocated: false,
            configured: false,
            asserted: false,
            failing: false,
            posted: false,
            owed: None,
            place: None,
            lost: 0,
        }
    }

    pub fn lsi(&self) -> bool {
        self.spec.has(flags::LSI)
    }

    pub fn store_eoi(&self) -> bool {
        self.spec.has(flags::STORE_EOI | flags::STORE_EOI2)
    }

    /// The trigger page, or 0.
    pub fn trigger_page(&self) -> u64 {
        match self.spec.pages {
            Pages::Pair | Pages::Combined => self.esb,
            Pages::Management => 0,
        }
    }

    /// The management page.
    pub fn eoi_page(&self) -> u64 {
        match self.spec.pages {
            Pages::Pair => self.esb + self.spec.page_len(),
            Pages::Combined | Pages::Management => self.esb,
        }
    }

    /// Back to how firmware hands it out: off, going nowhere.
    pub fn mask(&mut self) {
        self.pq = Pq::Off;
        self.eas.masked = true;
        self.owed = None;
        self.place = None;
    }

    /// What `call` does, whose offset counts from the source's first page; judges it, but for
    /// what depends on more than this source.
    pub fn op(&mut self, generation: Gen, call: &Call) -> Op {
        call.width(8);
        let page_len = self.spec.page_len() as usize;
        let on_trigger_page = self.spec.pages == Pages::Pair && call.offset < page_len;
        let offset = self.unshifted(call, call.offset % page_len);
        if on_trigger_page {
            if call.store.is_none() {
                call.forbid("a trigger page is never loaded from");
            }
            if offset != 0 {
                call.forbid("a trigger is a store to offset 0");
            }
            return Op::Trigger;
        }
        let op = match call.store {
            Some(_) => self.stored(call, offset),
            None => self.loaded(generation, call, offset),
        };
        self.judge_firmware(call, op);
        op
    }

    /// The offset without the shift bug.
    fn unshifted(&self, call: &Call, offset: usize) -> usize {
        if !self.spec.has(flags::SHIFT_BUG) {
            return offset;
        }
        let plain = offset >> 4 & 0xf00;
        if offset & !ORDERED != plain | plain << 4 {
            call.forbid("this source takes offset | offset << 4 (shift bug)");
        }
        plain | offset & ORDERED
    }

    fn stored(&self, call: &Call, offset: usize) -> Op {
        match offset {
            0x400 if self.store_eoi() => Op::StoreEoi,
            0x400 => call.forbid("the source is not capable of StoreEOI"),
            0x000 if self.spec.pages == Pages::Combined => Op::Trigger,
            0x000 => call.forbid("no trigger on this page"),
            0x800..0xc00 => call.forbid("an inject passes by PQ: not for this source"),
            0xc00..0x1000 => call.forbid("PQ is set by loads"),
            _ => call.forbid("no such operation"),
        }
    }

    fn loaded(&mut self, generation: Gen, call: &Call, offset: usize) -> Op {
        let ordered = offset & ORDERED != 0;
        if ordered && generation == Gen::One {
            call.forbid("no such operation: generation 1 has no ordered loads");
        }
        if self.posted && !ordered {
            call.forbid("the load may pass the StoreEOI before it: offset bit 0x40 is missing");
        }
        self.posted = false;
        match offset & !ORDERED {
            0x000 => Op::Eoi,
            0x800 => Op::Get,
            set @ (0xc00 | 0xd00 | 0xe00 | 0xf00) => Op::Set(Pq::from_bits(set as u64 >> 8)),
            _ => call.forbid("no such operation"),
        }
    }

    fn judge_firmware(&self, call: &Call, op: Op) {
        let ends = match op {
            Op::Eoi | Op::StoreEoi => true,
            Op::Set(Pq::Reset) => self.pq.p(),
            _ => false,
        };
        if ends && self.spec.has(flags::EOI_VIA_FIRMWARE) {
            call.forbid("this source is ended by OPAL_INT_EOI alone");
        }
        let masks = matches!(op, Op::Set(Pq::Off | Pq::Pending));
        if masks && self.spec.has(flags::MASK_VIA_FIRMWARE) {
            call.forbid("this source is masked by SET_IRQ_CONFIG alone");
        }
    }
}
