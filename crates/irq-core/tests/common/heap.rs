// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts for the thread that asks, and refuses memory if it is told to. A
//! test binary makes it its `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

std::thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u32> = const { Cell::new(0) };
    static FREES: Cell<u32> = const { Cell::new(0) };
    /// After so many allocations there is no memory.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

pub struct Counting;

// SAFETY: every call goes to the system's allocator, or says that there is no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(left) = LEFT.get().checked_sub(1) else {
            return null_mut();
        };
        LEFT.set(left);
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        FREES.set(FREES.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

/// What a function did to the heap, on its own thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heap {
    pub allocations: u32,
    pub frees: u32,
    /// Allocated, whether freed again or not.
    pub bytes: usize,
}

pub const UNTOUCHED: Heap = Heap {
    allocations: 0,
    frees: 0,
    bytes: 0,
};

/// What `f` does to the heap.
pub fn heap<R>(f: impl FnOnce() -> R) -> (R, Heap) {
    let before = (ALLOCATIONS.get(), FREES.get(), BYTES.get());
    let result = f();
    let heap = Heap {
        allocations: ALLOCATIONS.get() - before.0,
        frees: FREES.get() - before.1,
        bytes: BYTES.get() - before.2,
    };
    (result, heap)
}

/// Runs `f` with memory for `left` allocations.
pub fn with_memory_for<R>(left: u32, f: impl FnOnce() -> R) -> R {
    LEFT.set(left);
    let result = f();
    LEFT.set(u32::MAX);
    result
}
