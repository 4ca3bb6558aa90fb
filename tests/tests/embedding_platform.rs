// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platform of docs/embedding.md: memory, windows, clock and mask.

use std::alloc::Layout;
use std::sync::MutexGuard;

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::platform::Ticks;
use irq_hal::{Bus, ErrorKind, NodeId, PhysAddr, Platform};
use irq_tests::hermit::platform::PLATFORM;
use irq_tests::hermit::{kernel, with_core};

fn boot() -> (MutexGuard<'static, ()>, &'static kernel::Machine) {
    let (init, cpu, start) = (with_core::init, with_core::init_cpu, with_core::start_timer);
    kernel::boot(1, with_core::do_irq, init, cpu, start)
}

#[test]
fn memory_for_a_table_is_aligned_zeroed_shown_by_both_addresses_and_given_back() {
    let _booted = boot();
    let table = Layout::from_size_align(0x1_0000, 0x1_0000).unwrap();
    let region = PLATFORM.dma_alloc(table, NodeId::FLAT, DmaLimits::NONE);
    let region = region.unwrap();
    assert_eq!(kernel::frames_out(), 0x1_0000);
    assert!(region.device().get().is_multiple_of(0x1_0000));
    assert_eq!(region.device().get(), region.cpu().addr().get() as u64);
    assert_eq!(region.read_u64(0xfff8), 0);
    region.write_u64(8, 0x1122_3344_5566_7788);
    PLATFORM.dma_publish(&region, 8..16);
    PLATFORM.dma_observe(&region, 0..region.len());
    assert_eq!(region.read_u32(8), 0x5566_7788);
    drop(region);
    assert_eq!(kernel::frames_out(), 0);

    // What a device cannot reach is given back at once.
    let low = DmaLimits {
        highest: PhysAddr::new(0xfff),
    };
    let refused = PLATFORM.dma_alloc(table, NodeId::FLAT, low).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    assert_eq!(kernel::frames_out(), 0);

    // An allocator of 4 KiB frames serves the same table.
    let page = 4096;
    let bytes = DmaRegion::over_aligned(table, page).unwrap();
    let pages = Layout::from_size_align(bytes, page).unwrap();
    let whole = PLATFORM.dma_alloc(pages, NodeId::FLAT, DmaLimits::NONE);
    let narrow = whole.unwrap().narrow(table).unwrap();
    assert!(narrow.device().get().is_multiple_of(0x1_0000));
    assert_eq!(narrow.len(), 0x1_0000);
    drop(narrow);
    assert_eq!(kernel::frames_out(), 0);
}

#[test]
fn a_window_reads_and_writes_the_page_that_was_mapped() {
    let _booted = boot();
    let page = Box::leak(Box::new([0_u64; 512]));
    let base = PhysAddr::new(page.as_mut_ptr().expose_provenance() as u64);
    let window = PLATFORM.map_device(base, 4096).unwrap();
    Bus::<u32>::store(&window, 8, 0x1234);
    assert_eq!(Bus::<u32>::load(&window, 8), 0x1234);
}

#[test]
fn clock_and_mask_are_the_cpus_own() {
    let (_alone, machine) = boot();
    machine.on(0, || {
        let before = PLATFORM.now();
        PLATFORM.relax();
        assert!(PLATFORM.now() > before);
        assert_eq!(PLATFORM.ticks_in(250), Ticks(250));
        assert_eq!(PLATFORM.this_cpu(), kernel::cpu(0));
        let state = PLATFORM.irq_save();
        assert!(machine.sim.masked(0));
        // SAFETY: the state is that of the save above, on the same CPU.
        unsafe { PLATFORM.irq_restore(state) };
        assert!(!machine.sim.masked(0));
    });
}
