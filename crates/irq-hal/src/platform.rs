// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the embedding kernel owes the drivers: one narrow trait.

use core::alloc::Layout;
use core::ops::Range;

use crate::dma::{DmaLimits, DmaRegion};
use crate::error::Error;
use crate::ids::{CpuIndex, NodeId, PhysAddr};
use crate::lock::HeldRanks;
use crate::mmio::Mmio;

/// A reading of, or a span on, the clock behind [`Platform::now`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The span from `earlier` to `self`; right across one wrap of the counter.
    pub const fn since(self, earlier: Ticks) -> Ticks {
        Ticks(self.0.wrapping_sub(earlier.0))
    }
}

/// The interrupt mask as it was before [`Platform::irq_save`]: opaque, for
/// [`Platform::irq_restore`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IrqState(pub usize);

/// What only the embedding kernel can do.
///
/// `dma_alloc`, `map_device` and the drop of what they return are never called with a lock of
/// ours held, with interrupts masked by us, or from a handler; everything else may be called
/// in any context.
///
/// # Safety
/// An implementation promises that
/// - memory from [`dma_alloc`](Self::dma_alloc) is Normal memory, stays mapped, unaliased and
///   at its physical address until the region is dropped;
/// - a window from [`map_device`](Self::map_device) maps the page asked for, as device memory,
///   until it is dropped;
/// - after [`irq_save`](Self::irq_save) this CPU takes no maskable interrupt until
///   [`irq_restore`](Self::irq_restore);
/// - [`this_cpu`](Self::this_cpu) names the CPU that it runs on, and no two CPUs that run at
///   the same time get the same answer.
pub unsafe trait Platform: Sync {
    /// Zeroed, physically contiguous memory of `layout` near `node`, within `limits`.
    /// [`DmaRegion::over_aligned`] helps an allocator that aligns less than asked.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error>;

    /// Makes the CPU's stores in `range` (bytes of `region`) visible to a device that does not
    /// snoop caches: clean to the point of coherency. Nothing to do where the device snoops.
    fn dma_publish(&self, region: &DmaRegion, range: Range<usize>);

    /// Makes a non-snooping device's stores in `range` visible to the CPU: invalidate.
    fn dma_observe(&self, region: &DmaRegion, range: Range<usize>);

    /// Maps `len` bytes of device space at `page`, for pages whose address is learnt at run
    /// time.
    ///
    /// # Errors
    /// [`Error::Unsupported`] or [`Error::OutOfMemory`].
    fn map_device(&self, page: PhysAddr, len: usize) -> Result<Mmio, Error>;

    /// A monotonic counter, raw or calibrated; usable with interrupts masked.
    fn now(&self) -> Ticks;

    /// The ticks in `micros` microseconds, as well as they are known: waits are bounded by
    /// polls too.
    fn ticks_in(&self, micros: u32) -> Ticks;

    /// The body of every spin: a CPU pause, or a yield to the hypervisor. Must return.
    fn relax(&self);

    /// The CPU we run on; meaningful while interrupts are masked or the caller is pinned.
    /// Never called on a hot path.
    fn this_cpu(&self) -> CpuIndex;

    /// Masks interrupts on this CPU and returns the state before. Not `nomem`: accesses do not
    /// move across it.
    fn irq_save(&self) -> IrqState;

    /// Puts the mask back. It may run the embedder's scheduler: callers do it as their last
    /// act.
    ///
    /// # Safety
    /// - `state` came from the latest unmatched `irq_save` on this CPU.
    unsafe fn irq_restore(&self, state: IrqState);

    /// This CPU's record of lock ranks, for the order check of debug builds; `None` turns the
    /// check off. Called with interrupts masked.
    fn held_ranks(&self) -> Option<&HeldRanks> {
        None
    }
}

// SAFETY: every call goes to the platform behind the reference, which keeps the promises.
unsafe impl<P: Platform + ?Sized> Platform for &P {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        (**self).dma_alloc(layout, node, limits)
    }

    fn dma_publish(&self, region: &DmaRegion, range: Range<usize>) {
        (**self).dma_publish(region, range);
    }

    fn dma_observe(&self, region: &DmaRegion, range: Range<usize>) {
        (**self).dma_observe(region, range);
    }

    fn map_device(&self, page: PhysAddr, len: usize) -> Result<Mmio, Error> {
        (**self).map_device(page, len)
    }

    fn now(&self) -> Ticks {
        (**self).now()
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        (**self).ticks_in(micros)
    }

    fn relax(&self) {
        (**self).relax();
    }

    fn this_cpu(&self) -> CpuIndex {
        (**self).this_cpu()
    }

    fn irq_save(&self) -> IrqState {
        (**self).irq_save()
    }

    unsafe fn irq_restore(&self, state: IrqState) {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).irq_restore(state) }
    }

    fn held_ranks(&self) -> Option<&HeldRanks> {
        (**self).held_ranks()
    }
}

/// Interrupts masked on this CPU while it lives; restores them when dropped, also by an unwind.
pub(crate) struct Masked<'p, P: Platform + ?Sized> {
    platform: &'p P,
    state: IrqState,
}

impl<'p, P: Platform + ?Sized> Masked<'p, P> {
    pub(crate) fn new(platform: &'p P) -> Self {
        Self {
            platform,
            state: platform.irq_save(),
        }
    }
}

impl<P: Platform + ?Sized> Drop for Masked<'_, P> {
    fn drop(&mut self) {
        // SAFETY: `state` came from the `irq_save` in `new`; guards of this crate live for a
        // closure, so they are dropped in the reverse order on the CPU that made them.
        unsafe { self.platform.irq_restore(self.state) }
    }
}
