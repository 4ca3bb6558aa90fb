// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switching stacks, as a kernel's scheduler does: for the actions that are ended first.

use core::arch::naked_asm;
use core::ptr::NonNull;

use boards_common::bench::Stacks;

/// The machine's way to switch stacks.
pub static STACKS: Switcher = Switcher;

/// See [`STACKS`].
pub struct Switcher;

/// Registers that a called function keeps: `rbx`, `rbp`, `r12` to `r15`; then where it returns to.
const SAVED: usize = 7;

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
        // `begin` finds its argument in rbx and what to call in r12.
        saved[0] = word;
        saved[2] = entry as *const () as usize;
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
        "push    r15",
        "push    r14",
        "push    r13",
        "push    r12",
        "push    rbp",
        "push    rbx",
        "mov     [rdi], rsp",
        "mov     rsp, rsi",
        "pop     rbx",
        "pop     rbp",
        "pop     r12",
        "pop     r13",
        "pop     r14",
        "pop     r15",
        "ret",
    )
}

/// The first code on a new stack, which is aligned to 16 bytes here.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mov rdi, rbx", "call r12", "ud2")
}
