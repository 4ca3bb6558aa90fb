// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap: `linked_list_allocator` behind a lock that masks interrupts.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use linked_list_allocator::Heap;

use crate::lock::Masked;

struct Global(Masked<Heap>);

#[global_allocator]
static HEAP: Global = Global(Masked::new(Heap::empty()));

/// Gives `len` bytes from `start` to the heap. Called once.
///
/// # Safety
/// - The memory is mapped Normal, writable, and used by nobody else for good.
/// - No other call has been made.
pub unsafe fn init(start: NonNull<u8>, len: usize) {
    HEAP.0.with(|heap| {
        // SAFETY: the caller's promise is the one that `Heap::init` asks for.
        unsafe { heap.init(start.as_ptr(), len) }
    });
}

// SAFETY: blocks come from `Heap`, which hands out each byte once, and its lock keeps CPUs and
// interrupt handlers apart.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.0.with(|heap| heap.allocate_first_fit(layout));
        block.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else {
            return;
        };
        self.0.with(|heap| {
            // SAFETY: the caller promises that `block` came from `alloc` with `layout`.
            unsafe { heap.deallocate(block, layout) }
        });
    }
}
