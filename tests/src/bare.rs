// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least that can be called a platform: threads that take no interrupts.
//!
//! For what is timed or done millions of times; [`irq_sim`]'s platform notes every call.

use std::alloc::Layout;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};

/// Each thread is a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

static THREADS: AtomicU32 = AtomicU32::new(0);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static CPU: CpuIndex = CpuIndex::new(THREADS.fetch_add(1, Relaxed));
    // Leaked: a thread's record outlives what a platform behind a reference promises.
    static RANKS: &'static HeldRanks = Box::leak(Box::new(HeldRanks::new()));
}

// SAFETY: no memory and no window is given out; a thread takes no interrupts; each has a number
// of its own.
unsafe impl Platform for Bare {
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
        Ticks(START.elapsed().as_micros() as u64)
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }

    fn relax(&self) {
        std::hint::spin_loop();
    }

    fn this_cpu(&self) -> CpuIndex {
        CPU.with(|cpu| *cpu)
    }

    fn irq_save(&self) -> IrqState {
        IrqState(0)
    }

    unsafe fn irq_restore(&self, _: IrqState) {}

    fn held_ranks(&self) -> Option<&HeldRanks> {
        Some(RANKS.with(|ranks| *ranks))
    }
}
