// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switching stacks, as a kernel's scheduler does: for the actions that are ended first.

use core::arch::naked_asm;
use core::ptr::NonNull;

use boards_common::bench::Stacks;

use crate::start::HEADER;

/// The machine's way to switch stacks.
pub static STACKS: Switcher = Switcher;

/// See [`STACKS`].
pub struct Switcher;

/// What a called function keeps: r14 to r31, fields 2 to 4 of CR, and the return address. r1 is
/// what is switched, r2 and r13 are the same for all code of a CPU.
const SAVED: usize = 20;

/// Words of a new stack's first frame: its header, what is saved, and the header that `begin`
/// calls with.
const FIRST: usize = HEADER / 8 + SAVED + HEADER / 8;

// SAFETY: `switch_stacks` keeps what the ABI says that a call keeps, and goes on behind the call
// that stored `to`, or for a stack that `prepare` laid out, in `begin`.
unsafe impl Stacks for Switcher {
    unsafe fn prepare(
        &self,
        top: NonNull<u8>,
        entry: extern "C" fn(usize) -> !,
        word: usize,
    ) -> usize {
        let frame = top.as_ptr().cast::<usize>().wrapping_sub(FIRST);
        let mut words = [0; FIRST];
        let saved = &mut words[HEADER / 8..];
        // `begin` finds its argument in r14 and what to call in r15; the return address is its
        // own.
        saved[0] = word;
        saved[1] = entry as *const () as usize;
        saved[SAVED - 1] = begin as *const () as usize;
        // SAFETY: the caller promises that the memory below `top` is a stack's, aligned, and
        // larger than this.
        unsafe { frame.cast::<[usize; FIRST]>().write(words) };
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
        "stdu    1, -{size}(1)",
        "mflr    0",
        "mfcr    12",
        ".irp    n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        "std     \\n, {header} + 8 * (\\n - 14)(1)",
        ".endr",
        "std     12, {header} + 144(1)",
        "std     0, {header} + 152(1)",
        "std     1, 0(3)",
        "mr      1, 4",
        "ld      12, {header} + 144(1)",
        "ld      0, {header} + 152(1)",
        ".irp    n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        "ld      \\n, {header} + 8 * (\\n - 14)(1)",
        ".endr",
        "mtlr    0",
        "mtcr    12",
        "addi    1, 1, {size}",
        "blr",
        size = const HEADER + 8 * SAVED,
        header = const HEADER,
    )
}

/// The first code on a new stack.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mr 3, 14", "mr 12, 15", "mtctr 12", "bctrl", "trap")
}
