// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platform of this crate's own tests: one value for each thread that plays a CPU.
#![allow(dead_code, reason = "each test binary uses its part")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ops::Range;

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};

/// One CPU: its mask, its lock ranks, and a clock that its own calls move.
#[derive(Debug)]
pub struct Cpu {
    index: CpuIndex,
    now: Cell<u64>,
    /// What each call of `now` and of `relax` adds to the clock.
    pub tick: u64,
    pub relaxed: Cell<u32>,
    pub masked: Cell<usize>,
    pub saves: Cell<u32>,
    ranks: HeldRanks,
    /// Called first thing in `irq_restore`.
    pub on_restore: Option<fn(&Cpu)>,
    /// Called first thing in `relax`.
    pub on_relax: Option<fn(&Cpu)>,
}

// SAFETY: a value is used by one thread at a time: each test makes one for each of its threads.
unsafe impl Sync for Cpu {}

impl Cpu {
    pub fn new(index: u32) -> Self {
        Self {
            index: CpuIndex::new(index),
            now: Cell::new(0),
            tick: 0,
            relaxed: Cell::new(0),
            masked: Cell::new(0),
            saves: Cell::new(0),
            ranks: HeldRanks::new(),
            on_restore: None,
            on_relax: None,
        }
    }
}

// SAFETY: no memory and no window is given out; the test that owns the value is the only one to
// say which CPU it plays.
unsafe impl Platform for Cpu {
    fn dma_alloc(&self, layout: Layout, node: NodeId, _: DmaLimits) -> Result<DmaRegion, Error> {
        Err(Error::OutOfMemory {
            bytes: layout.size(),
            node,
        })
    }

    fn dma_publish(&self, _: &DmaRegion, _: Range<usize>) {}

    fn dma_observe(&self, _: &DmaRegion, _: Range<usize>) {}

    fn map_device(&self, _: PhysAddr, _: usize) -> Result<Mmio, Error> {
        Err(Error::Unsupported { feature: "mapping" })
    }

    fn now(&self) -> Ticks {
        self.now.set(self.now.get().wrapping_add(self.tick));
        Ticks(self.now.get())
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }

    fn relax(&self) {
        if let Some(on_relax) = self.on_relax {
            on_relax(self);
        }
        self.now.set(self.now.get().wrapping_add(self.tick));
        self.relaxed.set(self.relaxed.get() + 1);
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        std::thread::yield_now();
    }

    fn this_cpu(&self) -> CpuIndex {
        self.index
    }

    fn irq_save(&self) -> IrqState {
        self.saves.set(self.saves.get() + 1);
        IrqState(self.masked.replace(self.masked.get() + 1))
    }

    unsafe fn irq_restore(&self, state: IrqState) {
        if let Some(on_restore) = self.on_restore {
            on_restore(self);
        }
        assert_eq!(
            self.masked.get(),
            state.0 + 1,
            "restored in the wrong order"
        );
        self.masked.set(state.0);
    }

    fn held_ranks(&self) -> Option<&HeldRanks> {
        Some(&self.ranks)
    }
}
