// SPDX-License-Identifier: MIT OR Apache-2.0
//! DMA regions: words, alignment, limits, giving back.
#![cfg(not(loom))]

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::release::Release;
use irq_hal::{Error, NodeId, PhysAddr};
use proptest::prelude::*;

/// Zeroed memory from the host's heap; the word behind the token counts what was given back.
fn region(device: u64, len: usize, freed: &AtomicUsize) -> DmaRegion {
    unsafe fn free(base: NonNull<u8>, len: usize, token: usize) {
        let words = NonNull::slice_from_raw_parts(base.cast::<u64>(), len.div_ceil(8));
        // SAFETY: base and length are those of the boxed slice that `region` leaked.
        drop(unsafe { Box::from_raw(words.as_ptr()) });
        // SAFETY: the token is the address of the counter, which outlives the region.
        let freed = unsafe { &*std::ptr::with_exposed_provenance::<AtomicUsize>(token) };
        freed.fetch_add(len, Ordering::Relaxed);
    }
    let words = vec![0_u64; len.div_ceil(8)].into_boxed_slice();
    let base = NonNull::from(Box::leak(words)).cast();
    let token = std::ptr::from_ref(freed).expose_provenance();
    // SAFETY: `free` gives back what was leaked just above, once.
    let release = unsafe { Release::new(free, token) };
    // SAFETY: the memory is zeroed and nobody else knows it; no device is involved.
    unsafe { DmaRegion::new(base, PhysAddr::new(device), len, Some(release)) }
}

#[test]
fn words_are_little_endian_and_zero_at_first() {
    let freed = AtomicUsize::new(0);
    let region = region(0x8000_0000, 64, &freed);
    assert_eq!((region.len(), region.is_empty()), (64, false));
    assert_eq!(region.read_u64(56), 0);
    region.write_u64(8, 0x0102_0304_0506_0708);
    region.write_u32(16, 0x1112_1314);
    region.write_u8(20, 0x21);
    assert_eq!(region.read_u8(8), 8);
    assert_eq!(region.read_u32(12), 0x0102_0304);
    assert_eq!(region.read_u64(16), 0x21_1112_1314);
}

#[test]
fn a_word_outside_of_the_region_or_off_its_alignment_is_never_touched() {
    let freed = AtomicUsize::new(0);
    let region = region(0x8000_0000, 64, &freed);
    for wrong in [64, 60, 57, usize::MAX, usize::MAX - 7] {
        let write = || region.write_u64(wrong, 1);
        assert!(catch_unwind(AssertUnwindSafe(write)).is_err(), "{wrong:#x}");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| region.read_u64(4))).is_err());
    assert!((0..8).all(|word| region.read_u64(8 * word) == 0));
}

#[test]
fn the_whole_region_is_given_back_once_however_narrow_it_became() {
    let freed = AtomicUsize::new(0);
    let layout = Layout::from_size_align(16, 64).unwrap();
    let narrow = region(0x8000_0010, 128, &freed).narrow(layout).unwrap();
    assert_eq!(
        (narrow.device(), narrow.len()),
        (PhysAddr::new(0x8000_0040), 16)
    );
    assert_eq!(freed.load(Ordering::Relaxed), 0);
    drop(narrow);
    assert_eq!(freed.load(Ordering::Relaxed), 128);
}

#[test]
fn a_region_that_cannot_hold_the_layout_is_refused_and_given_back() {
    let freed = AtomicUsize::new(0);
    let layout = Layout::from_size_align(32, 64).unwrap();
    let error = region(0x8000_0010, 64, &freed).narrow(layout).unwrap_err();
    assert_eq!(
        error,
        Error::TooSmall {
            what: "DMA region",
            len: 64,
            need: 0x30 + 32
        }
    );
    assert_eq!(freed.load(Ordering::Relaxed), 64);
}

#[test]
fn a_region_above_what_the_device_can_name_is_refused() {
    let freed = AtomicUsize::new(0);
    let limits = DmaLimits {
        highest: PhysAddr::new(0xffff_ffff),
    };
    let last = region(0xffff_ffc0, 64, &freed).within(limits, NodeId::FLAT);
    assert!(last.is_ok());
    let beyond = region(0xffff_ffc8, 64, &freed).within(limits, NodeId::new(2));
    let error = Error::OutOfMemory {
        bytes: 64,
        node: NodeId::new(2),
    };
    assert_eq!(beyond.unwrap_err(), error);
    let wraps = region(u64::MAX - 8, 64, &freed).within(DmaLimits::NONE, NodeId::FLAT);
    assert!(wraps.is_err());
    drop(last);
    assert_eq!(freed.load(Ordering::Relaxed), 3 * 64);
}

#[test]
fn a_size_that_overflows_is_no_size() {
    let layout = Layout::from_size_align(isize::MAX as usize - 0xffff, 0x1_0000).unwrap();
    assert!(DmaRegion::over_aligned(layout, 0x1000).is_some());
    assert_eq!(DmaRegion::over_aligned(layout, 1 << 63), Some(1 << 63));
    let huge = Layout::from_size_align(1, 1 << 62).unwrap();
    assert_eq!(DmaRegion::over_aligned(huge, 1 << 12), Some(1 << 62));
}

proptest! {
    /// What an allocator of any granule returns for the over-aligned size holds the layout.
    #[test]
    fn an_over_aligned_allocation_always_holds_the_layout(
        size in 0_usize..5000,
        align in 0_u32..13,
        granule in 0_u32..13,
        at in 1_u64..1000,
    ) {
        let layout = Layout::from_size_align(size, 1 << align).unwrap();
        let granule = 1_usize << granule;
        let len = DmaRegion::over_aligned(layout, granule).unwrap();
        prop_assert!(len.is_multiple_of(granule));
        prop_assert!(len < size + layout.align() + granule);
        let freed = AtomicUsize::new(0);
        let whole = region(at * granule as u64, len, &freed);
        let (first, end) = (whole.device().get(), whole.device().get() + len as u64);
        let cpu = whole.cpu();
        let narrow = whole.narrow(layout).unwrap();
        let device = narrow.device().get();
        prop_assert!(device.is_multiple_of(layout.align() as u64));
        prop_assert!(first <= device && device + size as u64 <= end);
        prop_assert_eq!(narrow.len(), size);
        // Both addresses moved by the same number of bytes.
        let moved = narrow.cpu().addr().get() - cpu.addr().get();
        prop_assert_eq!(moved as u64, device - first);
        drop(narrow);
        prop_assert_eq!(freed.load(Ordering::Relaxed), len);
    }
}
