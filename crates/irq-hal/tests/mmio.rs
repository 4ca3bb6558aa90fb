// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows: widths, byte order, parts, giving back.
#![cfg(not(loom))]

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use irq_hal::access::{Cmd, Pop, Ro, Rw, W1};
use irq_hal::bus::{Barrier, BigEndian, Bus, Extent, Part};
use irq_hal::mmio::MmioPage;
use irq_hal::release::Release;
use irq_hal::{Error, Mmio};
use tock_registers::interfaces::{ReadWriteable, Readable, Writeable};
use tock_registers::register_bitfields;

register_bitfields![u32,
    CONTROL [
        Enable OFFSET(0) NUMBITS(1) [],
        Mode OFFSET(4) NUMBITS(2) [One = 1, Two = 2]
    ]
];

/// Memory that stands in for device registers.
struct Page(Box<UnsafeCell<[u64; 8]>>);

impl Page {
    fn new() -> Self {
        Self(Box::new(UnsafeCell::new([0; 8])))
    }

    fn base(&self) -> NonNull<u8> {
        NonNull::new(self.0.get().cast()).unwrap()
    }

    fn window(&self) -> Mmio {
        // SAFETY: the page lives as long as the test that made it, and is reached by raw
        // pointers only.
        unsafe { Mmio::from_mapped(self.base(), 64) }
    }

    fn bytes(&self) -> [u8; 64] {
        // SAFETY: no access of the window is under way; the array has 64 bytes.
        unsafe { self.base().cast::<[u8; 64]>().read() }
    }
}

#[test]
fn each_width_touches_its_bytes_in_little_endian_order_and_no_other() {
    let page = Page::new();
    let window = page.window();
    Bus::<u8>::store(&window, 1, 0x11);
    Bus::<u16>::store(&window, 2, 0x2233);
    Bus::<u32>::store(&window, 4, 0x4455_6677);
    Bus::<u64>::store(&window, 8, 0x0102_0304_0506_0708);
    let bytes = page.bytes();
    assert_eq!(bytes[..8], [0, 0x11, 0x33, 0x22, 0x77, 0x66, 0x55, 0x44]);
    assert_eq!(bytes[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(bytes[16..], [0; 48]);
    assert_eq!(Bus::<u8>::load(&window, 1), 0x11);
    assert_eq!(Bus::<u16>::load(&window, 2), 0x2233);
    assert_eq!(Bus::<u32>::load(&window, 4), 0x4455_6677);
    assert_eq!(Bus::<u64>::load(&window, 8), 0x0102_0304_0506_0708);
}

#[test]
fn a_big_endian_bus_has_each_words_most_significant_byte_first() {
    let page = Page::new();
    let window = BigEndian(page.window());
    Bus::<u8>::store(&window, 1, 0x11);
    Bus::<u16>::store(&window, 2, 0x2233);
    Bus::<u32>::store(&window, 4, 0x4455_6677);
    Bus::<u64>::store(&window, 8, 0x0102_0304_0506_0708);
    let bytes = page.bytes();
    assert_eq!(bytes[..8], [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]);
    assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(Bus::<u8>::load(&window, 1), 0x11);
    assert_eq!(Bus::<u16>::load(&window, 2), 0x2233);
    assert_eq!(Bus::<u32>::load(&window, 4), 0x4455_6677);
    assert_eq!(Bus::<u64>::load(&window, 8), 0x0102_0304_0506_0708);
    assert_eq!(window.extent(), 64);
}

#[test]
fn a_page_of_known_length_is_its_window_up_to_that_length() {
    let page = Page::new();
    let known = MmioPage::<32>::new(page.window()).unwrap();
    Bus::<u64>::store(&known, 24, 7);
    assert_eq!(Bus::<u64>::load(&page.window(), 24), 7);
    assert_eq!((Bus::<u8>::load(&known, 24), known.extent()), (7, 32));
    known.publish();
    known.complete();
    known.synchronize();
    let short = MmioPage::<128>::new(page.window()).unwrap_err();
    assert_eq!(
        short,
        Error::TooSmall {
            what: "window",
            len: 64,
            need: 128
        }
    );
    for offset in [28, 32, usize::MAX - 3] {
        let beyond = || Bus::<u64>::load(&known, offset & !7 | offset & 4);
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(beyond)).is_err(),
            "{offset:#x}"
        );
    }
}

#[test]
fn access_kinds_read_and_write_the_register_at_their_offset() {
    let page = Page::new();
    let window = page.window();
    let control = Rw::<_, u32, CONTROL::Register>::new(&window, 4);
    control.write(CONTROL::Enable::SET);
    control.modify(CONTROL::Mode::Two);
    assert_eq!(Ro::<_, u32, CONTROL::Register>::new(&window, 4).get(), 0x21);
    assert!(Ro::<_, u32, CONTROL::Register>::new(&window, 4).matches_all(CONTROL::Mode::Two));
    W1::<_, u32>::new(&window, 8).write_ones(1 << 27);
    Cmd::<_, u64>::new(&window, 16).send(0x1234);
    assert_eq!(Pop::<_, u32>::new(&window, 8).pop(), 1 << 27);
    assert_eq!(Bus::<u64>::load(&window, 16), 0x1234);
}

#[test]
fn a_part_begins_at_its_base_and_ends_where_its_bus_ends() {
    let page = Page::new();
    let window = page.window();
    let part = Part::new(&window, 32, 32).unwrap();
    Bus::<u32>::store(&part, 4, 9);
    part.publish();
    part.complete();
    part.synchronize();
    assert_eq!(Bus::<u32>::load(&window, 36), 9);
    assert_eq!((part.base(), part.extent(), window.extent()), (32, 32, 64));
    assert!(Part::new(&window, 32, 33).is_none());
    assert!(Part::new(&window, usize::MAX, 2).is_none());
    // A part of a part counts from the part.
    let inner = Part::new(&part, 4, 4).unwrap();
    assert_eq!(Bus::<u32>::load(&inner, 0), 9);
    assert!(Part::new(&part, 32, 1).is_none());
}

#[test]
#[cfg(debug_assertions)]
fn an_access_outside_of_a_window_or_off_its_alignment_is_found_in_debug_builds() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let page = Page::new();
    let window = page.window();
    let part = Part::new(&window, 0, 8).unwrap();
    for wrong in [64, 62, usize::MAX - 3] {
        let access = || Bus::<u32>::load(&window, wrong);
        assert!(
            catch_unwind(AssertUnwindSafe(access)).is_err(),
            "{wrong:#x}"
        );
    }
    assert!(catch_unwind(AssertUnwindSafe(|| Bus::<u32>::load(&part, 8))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| Bus::<u64>::load(&part, 4))).is_err());
}

#[test]
fn a_window_that_is_too_short_for_a_frame_is_refused() {
    let page = Page::new();
    assert_eq!(page.window().check("GICD", 64), Ok(()));
    let error = Error::TooSmall {
        what: "GICD",
        len: 64,
        need: 65,
    };
    assert_eq!(page.window().check("GICD", 65), Err(error));
}

#[test]
fn a_window_is_given_back_once_with_its_base_and_length() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    unsafe fn give_back(base: NonNull<u8>, len: usize, token: usize) {
        assert_eq!((base.addr().get(), len), (token, 64));
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    let page = Page::new();
    // SAFETY: `give_back` touches nothing.
    let release = unsafe { Release::new(give_back, page.base().addr().get()) };
    // SAFETY: as in `Page::window`; `give_back` is sound for any window.
    let window = unsafe { Mmio::with_release(page.base(), 64, release) };
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    drop(window);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}
