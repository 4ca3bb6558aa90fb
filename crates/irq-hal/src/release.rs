// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a window or a piece of DMA memory goes back to the embedder.

use core::ptr::NonNull;

/// What the embedder wants called when a window or a region is dropped: a function and one
/// word of its own, so that giving back allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    call: unsafe fn(base: NonNull<u8>, len: usize, token: usize),
    token: usize,
}

impl Release {
    /// `call` gets the base and length that the owner was made with, and `token`.
    ///
    /// # Safety
    /// - `call` is sound for the base and length of every owner that this value is given to,
    ///   once, at any later time and on any CPU.
    pub const unsafe fn new(
        call: unsafe fn(base: NonNull<u8>, len: usize, token: usize),
        token: usize,
    ) -> Self {
        Self { call, token }
    }

    /// Gives `len` bytes at `base` back.
    ///
    /// # Safety
    /// - `base` and `len` are those of the owner that holds this value.
    /// - It is called at most once for that owner, and nothing uses the memory afterwards.
    pub(crate) unsafe fn run(self, base: NonNull<u8>, len: usize) {
        // SAFETY: `new` promised that `call` is sound for its owner's base and length; the
        // caller promises that these are they, and that this is the only call.
        unsafe { (self.call)(base, len, self.token) }
    }
}
