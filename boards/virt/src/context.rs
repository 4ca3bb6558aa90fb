// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switching stacks, as a kernel's scheduler does: for the actions that are ended first.

use core::arch::naked_asm;
use core::ptr::NonNull;

use boards_common::bench::Stacks;

/// The machine's way to switch stacks.
pub static STACKS: Switcher = Switcher;

/// See [`STACKS`].
pub struct Switcher;

/// Registers that a called function keeps: `x19` to `x30`.
const SAVED: usize = 12;

// SAFETY: `switch_stacks` keeps what the procedure call standard says that a call keeps, and
// goes on behind the call that stored `to`, or for a stack that `prepare` laid out, in `begin`.
unsafe impl Stacks for Switcher {
    unsafe fn prepare(
        &self,
        top: NonNull<u8>,
        entry: extern "C" fn(usize) -> !,
        word: usize,
    ) -> usize {
        let frame = top.as_ptr().cast::<usize>().wrapping_sub(SAVED);
        let mut saved = [0; SAVED];
        // `begin` finds its argument in x19 and what to call in x20; x30 is where `ret` goes.
        saved[0] = word;
        saved[1] = entry as *const () as usize;
        saved[SAVED - 1] = begin as *const () as usize;
        // SAFETY: the caller promises that the memory below `top` is a stack's, aligned, and
        // larger than this.
        unsafe { frame.cast::<[usize; SAVED]>().write(saved) };
        frame.addr()
    }

    unsafe fn switch(&self, save: NonNull<usize>, to: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { switch_stacks(save, to) }
    }
}

/// Saves what a call keeps on this stack, stores the stack pointer in `save`, and goes on with
/// the stack `to`.
///
/// # Safety
/// - As for [`Stacks::switch`].
#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(save: NonNull<usize>, to: usize) {
    naked_asm!(
        "sub     sp, sp, #96",
        "stp     x19, x20, [sp]",
        "stp     x21, x22, [sp, #16]",
        "stp     x23, x24, [sp, #32]",
        "stp     x25, x26, [sp, #48]",
        "stp     x27, x28, [sp, #64]",
        "stp     x29, x30, [sp, #80]",
        "mov     x9, sp",
        "str     x9, [x0]",
        "mov     sp, x1",
        "ldp     x19, x20, [sp]",
        "ldp     x21, x22, [sp, #16]",
        "ldp     x23, x24, [sp, #32]",
        "ldp     x25, x26, [sp, #48]",
        "ldp     x27, x28, [sp, #64]",
        "ldp     x29, x30, [sp, #80]",
        "add     sp, sp, #96",
        "ret",
    )
}

/// The first code on a new stack.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mov x0, x19", "blr x20", "brk #0")
}
