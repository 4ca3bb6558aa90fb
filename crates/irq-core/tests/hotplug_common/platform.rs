// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU of a test, which tells when it holds a lock, and lets others run in between.

use core::alloc::Layout;
use core::cell::Cell;
use core::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use irq_core::cpu::{CpuIndex, NodeId};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{Error, Mmio, PhysAddr, Platform};

std::thread_local! {
    /// Locks that this thread holds: the coroutines of a random test share it, and none gives way
    /// to another under a lock.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// How many locks this thread holds. loom's threads give way inside of a lock, so that this says
/// nothing there.
pub fn locks_held() -> u32 {
    if cfg!(loom) { 0 } else { HELD.get() }
}

pub struct Player {
    cpu: CpuIndex,
    now: AtomicU64,
    ranks: HeldRanks,
    /// Called where another CPU may run: before a lock is taken, after it was given up, and while
    /// this CPU waits.
    yields: fn(),
    /// How far each reading moves the clock.
    pub tick: u64,
}

impl Player {
    pub const fn new(cpu: u32) -> Self {
        Self::yielding(cpu, || ())
    }

    pub const fn yielding(cpu: u32, yields: fn()) -> Self {
        Self {
            cpu: CpuIndex::new(cpu),
            now: AtomicU64::new(0),
            ranks: HeldRanks::new(),
            yields,
            tick: 1,
        }
    }

    /// A CPU whose patience ends after a few polls.
    pub const fn impatient(cpu: u32) -> Self {
        let mut player = Self::new(cpu);
        player.tick = 200_000;
        player
    }
}

// SAFETY: no memory and no window is given out; the test that owns the value is the only one to
// say which CPU it plays.
unsafe impl Platform for Player {
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
        Ticks(self.now.fetch_add(self.tick, SeqCst))
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }

    fn relax(&self) {
        (self.yields)();
        #[cfg(loom)]
        loom::thread::yield_now();
    }

    fn this_cpu(&self) -> CpuIndex {
        self.cpu
    }

    fn irq_save(&self) -> IrqState {
        (self.yields)();
        HELD.set(HELD.get() + 1);
        IrqState(0)
    }

    unsafe fn irq_restore(&self, _: IrqState) {
        HELD.set(HELD.get() - 1);
        (self.yields)();
    }

    fn held_ranks(&self) -> Option<&HeldRanks> {
        Some(&self.ranks)
    }
}
