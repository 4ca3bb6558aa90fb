// SPDX-License-Identifier: MIT OR Apache-2.0
//! DMA memory from the heap, for machines whose heap stands at its physical address.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::release::Release;
use irq_hal::{Error, NodeId, PhysAddr};

/// Smallest alignment: a cache line of any CPU, so that lines are never shared with other data.
const ALIGN: usize = 128;

/// Zeroed memory of `layout` within `limits`; there is one heap, so that `node` is for errors only.
/// A device that does not snoop is the caller's to publish the zeros to.
///
/// # Errors
/// [`Error::OutOfMemory`]; [`Error::Invalid`] for a size of 0.
///
/// # Safety
/// - The heap is Normal memory, mapped at its physical address for good.
pub unsafe fn alloc(layout: Layout, node: NodeId, limits: DmaLimits) -> Result<DmaRegion, Error> {
    let none = Error::OutOfMemory {
        bytes: layout.size(),
        node,
    };
    let whole = layout.align_to(ALIGN).map_err(|_| none)?.pad_to_align();
    if whole.size() == 0 {
        return Err(Error::Invalid {
            what: "DMA size",
            value: 0,
        });
    }
    // SAFETY: the layout's size is not zero.
    let block = unsafe { alloc_zeroed(whole) };
    let block = NonNull::new(block).ok_or(none)?;
    // SAFETY: `give_back` gives back, with the alignment in its token, the block of exactly the
    // length that the region is made with.
    let release = unsafe { Release::new(give_back, whole.align()) };
    let address = PhysAddr::new(block.addr().get() as u64);
    // SAFETY: the block is fresh and zeroed, and the caller promises where the heap stands.
    let region = unsafe { DmaRegion::new(block, address, whole.size(), Some(release)) };
    region.within(limits, node)?.narrow(layout)
}

/// Gives a block back to the heap.
///
/// # Safety
/// - `base` and `len` are those of a region that `alloc` made with `align`.
unsafe fn give_back(base: NonNull<u8>, len: usize, align: usize) {
    if let Ok(layout) = Layout::from_size_align(len, align) {
        // SAFETY: the caller promises that this is the layout that the block was allocated with.
        unsafe { dealloc(base.as_ptr(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(size: usize, align: usize, highest: u64) -> Result<DmaRegion, Error> {
        let layout = Layout::from_size_align(size, align).unwrap();
        let highest = PhysAddr::new(highest);
        // SAFETY: no device uses what the test has: any address will do.
        unsafe { alloc(layout, NodeId::FLAT, DmaLimits { highest }) }
    }

    #[test]
    fn memory_is_zeroed_and_aligned_to_a_line_at_least() {
        for (size, align, least) in [(1, 1, 128), (100, 4096, 4096), (4096, 128, 128)] {
            let region = region(size, align, u64::MAX).unwrap();
            assert_eq!(region.len(), size);
            assert!(region.device().get().is_multiple_of(least));
            assert!((0..size).all(|at| region.read_u8(at) == 0));
            region.write_u8(size - 1, 1);
        }
    }

    #[test]
    fn a_size_of_nothing_and_memory_beyond_the_devices_reach_are_errors() {
        let nothing = Err(Error::Invalid {
            what: "DMA size",
            value: 0,
        });
        assert_eq!(region(0, 1, u64::MAX).map(drop), nothing);
        let none = Err(Error::OutOfMemory {
            bytes: 128,
            node: NodeId::FLAT,
        });
        assert_eq!(region(64, 1, 0xff).map(drop), none);
    }
}
