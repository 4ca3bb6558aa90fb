// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel gives to the drivers.

// [platform]
use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::release::Release;
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};

use super::kernel;

/// The kernel, as drivers see it.
#[derive(Debug)]
pub struct Hermit;

/// The one that they share.
pub static PLATFORM: Hermit = Hermit;

// SAFETY: frames are handed out once and identity-mapped as Normal memory; device pages stay
// mapped; the mask is PSTATE.I; each core has a block of its own behind TPIDR_EL1.
unsafe impl Platform for Hermit {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        let bytes = layout.size();
        let frames = kernel::allocate_frames(layout);
        let base = frames.ok_or(Error::OutOfMemory { bytes, node })?;
        let device = PhysAddr::new(base.addr().get() as u64);
        // SAFETY: the region below is `bytes` frames of this alignment.
        let release = unsafe { Release::new(free, layout.align()) };
        // SAFETY: the frames are fresh and zeroed, and nobody else knows them.
        let region = unsafe { DmaRegion::new(base, device, bytes, Some(release)) };
        self.dma_publish(&region, 0..bytes);
        region.within(limits, node)
    }

    fn dma_publish(&self, region: &DmaRegion, range: Range<usize>) {
        kernel::clean_cache(at(region, &range), range.len(), false);
    }

    fn dma_observe(&self, region: &DmaRegion, range: Range<usize>) {
        kernel::clean_cache(at(region, &range), range.len(), true);
    }

    fn map_device(&self, page: PhysAddr, len: usize) -> Result<Mmio, Error> {
        let base = kernel::map_pages(page, len).ok_or(Error::OutOfMemory {
            bytes: len,
            node: NodeId::FLAT,
        })?;
        // SAFETY: mapped as device memory for good, on every core: they share the tables.
        Ok(unsafe { Mmio::from_mapped(base, len) })
    }

    fn now(&self) -> Ticks {
        // The counter itself: the kernel's clock has no origin yet.
        Ticks(kernel::counter())
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros) * kernel::counter_frequency() / 1_000_000)
    }

    fn relax(&self) {
        kernel::spin_hint();
    }

    fn this_cpu(&self) -> CpuIndex {
        CpuIndex::new(kernel::core_local().id)
    }

    fn irq_save(&self) -> IrqState {
        IrqState(kernel::save_and_mask())
    }

    unsafe fn irq_restore(&self, state: IrqState) {
        // SAFETY: the caller's promise is passed on.
        unsafe { kernel::restore(state.0) }
    }
}

/// Where `range` of `region` begins.
fn at(region: &DmaRegion, range: &Range<usize>) -> NonNull<u8> {
    assert!(range.start <= range.end && range.end <= region.len());
    // SAFETY: the offset is within the region, as was checked above.
    unsafe { region.cpu().add(range.start) }
}

/// Gives the frames of a region back.
///
/// # Safety
/// - `base` and `len` are those of a region that `dma_alloc` made with this alignment.
unsafe fn free(base: NonNull<u8>, len: usize, align: usize) {
    if let Ok(layout) = Layout::from_size_align(len, align) {
        // SAFETY: the caller promises that this is the layout of the allocation.
        unsafe { kernel::free_frames(base, layout) }
    }
}
// [platform end]
