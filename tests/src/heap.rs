// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts. A test binary makes it its `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, which counts for each thread.
pub struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        HELD.set(HELD.get() + layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

/// How often `f` allocated, on its own thread.
pub fn allocations(f: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    f();
    COUNT.get() - before
}

/// What `f` makes, and how many bytes of memory it holds, allocated on this thread.
pub fn held<T>(f: impl FnOnce() -> T) -> (T, i64) {
    let before = HELD.get();
    let made = f();
    (made, HELD.get() - before)
}
