// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap: `linked_list_allocator` behind a lock that masks interrupts.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use irq_hal::Error;
use linked_list_allocator::Heap;

use crate::lock::Masked;

/// The least that is worth a heap, in bytes; the allocator itself needs room for a block or two.
const LEAST: usize = 4096;

struct Global(Masked<Heap>);

#[global_allocator]
static HEAP: Global = Global(Masked::new(Heap::empty()));

/// Gives `len` bytes from `start` to the heap. Called once.
///
/// # Errors
/// [`Error::TooSmall`] below 4 KiB; there is no heap then.
///
/// # Safety
/// - The memory is mapped Normal, writable, and used by nobody else for good.
/// - No other call has been made.
pub unsafe fn init(start: NonNull<u8>, len: usize) -> Result<(), Error> {
    if len < LEAST {
        return Err(Error::TooSmall {
            what: "memory for the heap",
            len,
            need: LEAST,
        });
    }
    HEAP.0.with(|heap| {
        // SAFETY: the caller's promise is the one that `Heap::init` asks for.
        unsafe { heap.init(start.as_ptr(), len) }
    });
    Ok(())
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
