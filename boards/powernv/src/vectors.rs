// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exception vectors: copied to where the CPU looks for them, three of them alive.
//!
//! ```text
//! 0x100 .. 0x2000   a slot each 0x20 bytes, the least distance of two vectors
//!   0x900           decrementer: SRR0/1
//!   0xe80           hypervisor doorbell: by one firmware wakes a CPU that it starts, and it may
//!                   come after the CPU has left; taking it is all that is to be done
//!   0xea0           hypervisor virtualization interrupt, the XIVE's: HSRR0/1
//! 0x2000 ..         what they go on with, what all others go on with
//! ```
//! An interrupt saves what a called function may change (r0, r3 to r12, LR, CTR, XER, CR) and the
//! return state, below the red zone of the interrupted code, and calls
//! [`crate::interrupts::enter`] or [`crate::interrupts::decrementer`]. No vector registers: the
//! image is built soft-float. Before it returns it ends the interrupted code's reservation, which
//! a plain store of this CPU does not. Every other exception is fatal: it goes on with the stack
//! that the block in HSPRG0 has for that (so that an overflowed stack can be reported), shows the
//! registers, and panics.
//!
//! Source: Power ISA 3.0 book III, "Interrupt definitions"; 64-bit ELF V2 ABI, "The stack frame".

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use boards_common::console::emergency_line;

use crate::cpu::{CpuBlock, Spr};
use crate::start::HEADER;

/// Size of the stack of fatal exceptions, in bytes.
pub const EMERGENCY_STACK_SIZE: usize = 16 * 1024;

/// Bytes below the stack pointer that belong to the interrupted code: the ABI's red zone is 288,
/// and it asks handlers for 512.
pub const RED_ZONE: usize = 512;

/// A stack: memory that only a stack pointer leads to.
#[repr(C, align(16))]
pub struct Stack(UnsafeCell<[u8; EMERGENCY_STACK_SIZE]>);

// SAFETY: no reference to the contents is ever formed; one CPU's block points there.
unsafe impl Sync for Stack {}

impl Stack {
    /// The address behind it.
    pub const fn top(&'static self) -> *const u8 {
        self.0.get().cast::<u8>().wrapping_add(EMERGENCY_STACK_SIZE)
    }
}

/// The boot CPU's stack of fatal exceptions.
pub static EMERGENCY_STACK: Stack = Stack(UnsafeCell::new([0; EMERGENCY_STACK_SIZE]));

/// What an interrupt saved on its stack.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct Frame {
    /// r0, and r3 to r12.
    pub registers: [u64; 11],
    /// LR, CTR, XER, CR.
    pub special: [u64; 4],
    /// Where the interrupted code goes on.
    pub pc: u64,
    /// Its MSR.
    pub state: u64,
    /// What the reservation is ended with.
    pub scratch: u64,
}

/// The registers of code that caused a fatal exception.
#[repr(C)]
struct Registers {
    r: [u64; 32],
    lr: u64,
    ctr: u64,
    xer: u64,
    cr: u64,
}

// The section begins with slot 0x100. It is copied: its branches are relative, and what it calls it
// finds by absolute addresses.
global_asm!(
    r#"
    .macro  FATAL slot
    mtspr   305, 1                      // HSPRG1
    mfspr   1, 304                      // HSPRG0
    ld      1, {emergency}(1)
    std     0, -{registers}(1)
    li      0, \slot
    b       fatal_exception
    nop
    nop
    .endm

    .macro  INTERRUPT to
    b       \to
    .rept   7
    nop
    .endr
    .endm

    // Entry and return of an interrupt whose state is in the registers srr0 and srr1.
    .macro  ENTRY srr0, srr1, enter, return
    stdu    1, -{whole}(1)
    std     0, {at} + 0(1)
    std     3, {at} + 8(1)
    std     4, {at} + 16(1)
    std     5, {at} + 24(1)
    std     6, {at} + 32(1)
    std     7, {at} + 40(1)
    std     8, {at} + 48(1)
    std     9, {at} + 56(1)
    std     10, {at} + 64(1)
    std     11, {at} + 72(1)
    std     12, {at} + 80(1)
    lis     12, \enter@ha
    addi    12, 12, \enter@l
    mflr    4
    mfctr   5
    mfxer   6
    mfcr    7
    mfspr   8, \srr0
    mfspr   9, \srr1
    mtctr   12
    std     4, {at} + 88(1)
    std     5, {at} + 96(1)
    std     6, {at} + 104(1)
    std     7, {at} + 112(1)
    std     8, {at} + 120(1)
    std     9, {at} + 128(1)
    addi    3, 1, {at}
    bctrl
    li      11, {at} + 136
    stdcx.  3, 1, 11
    ld      4, {at} + 88(1)
    ld      5, {at} + 96(1)
    ld      6, {at} + 104(1)
    ld      7, {at} + 112(1)
    ld      8, {at} + 120(1)
    ld      9, {at} + 128(1)
    mtlr    4
    mtctr   5
    mtxer   6
    mtcr    7
    mtspr   \srr0, 8
    mtspr   \srr1, 9
    ld      0, {at} + 0(1)
    ld      3, {at} + 8(1)
    ld      4, {at} + 16(1)
    ld      5, {at} + 24(1)
    ld      6, {at} + 32(1)
    ld      7, {at} + 40(1)
    ld      8, {at} + 48(1)
    ld      9, {at} + 56(1)
    ld      10, {at} + 64(1)
    ld      11, {at} + 72(1)
    ld      12, {at} + 80(1)
    addi    1, 1, {whole}
    \return
    .endm

    .section .text.vectors, "ax"
    .balign 256
    .global virtualization_slot
    .set    slot, 0x100
    .rept   248
    .if     slot == 0x900
    INTERRUPT decrementer_interrupt
    .elseif slot == 0xe80
    hrfid
    .rept   7
    nop
    .endr
    .elseif slot == 0xea0
virtualization_slot:
    INTERRUPT virtualization_interrupt
    .else
    FATAL   slot
    .endif
    .set    slot, slot + 0x20
    .endr

virtualization_interrupt:
    ENTRY   314, 315, {enter}, hrfid    // HSRR0, HSRR1

decrementer_interrupt:
    ENTRY   26, 27, {decrementer}, rfid // SRR0, SRR1

// r1 is the top of the emergency stack, where r0 is saved; r0 is the slot, HSPRG1 the old r1.
fatal_exception:
    addi    1, 1, -{registers}
    std     2, 16(1)
    .irp    n, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     \n, 8 * \n(1)
    .endr
    mfspr   3, 305
    std     3, 8(1)
    mflr    3
    std     3, 256(1)
    mfctr   3
    std     3, 264(1)
    mfxer   3
    std     3, 272(1)
    mfcr    3
    std     3, 280(1)
    mr      3, 0
    mr      4, 1
    mfspr   13, 304                     // HSPRG0
    lis     2, .TOC.@ha
    addi    2, 2, .TOC.@l
    li      0, 0
    stdu    0, -{header}(1)
    lis     12, {fatal}@ha
    addi    12, 12, {fatal}@l
    mtctr   12
    bctrl
    trap
    "#,
    whole = const RED_ZONE + HEADER + size_of::<Frame>(),
    at = const HEADER,
    registers = const size_of::<Registers>(),
    header = const HEADER,
    emergency = const offset_of!(CpuBlock, emergency_stack),
    enter = sym crate::interrupts::enter,
    decrementer = sym crate::interrupts::decrementer,
    fatal = sym fatal,
);

unsafe extern "C" {
    // The linker script's.
    static __vectors_start: u8;
    static __vectors_end: u8;
    static virtualization_slot: u8;
}

/// Where the CPU looks for its vectors.
const VECTORS: usize = 0x100;

/// Copies the vectors to where every CPU looks for them. Called once, by the boot CPU.
pub fn install() {
    let (from, end) = (&raw const __vectors_start, &raw const __vectors_end);
    let words = (end.addr() - from.addr()) / 4;
    for word in 0..words {
        // SAFETY: the word lies between the two symbols of the image.
        let code = unsafe { from.cast::<u32>().wrapping_add(word).read() };
        set_word(VECTORS + 4 * word, code);
    }
    synchronize(VECTORS, 4 * words);
}

/// Lets the XIVE's interrupts go to `handler` on every CPU, or back to the image's entry.
///
/// # Safety
/// - `handler` is code of the vectors' section that can take the interrupt in the place of the
///   image's; no CPU takes the interrupt now.
pub unsafe fn redirect(handler: Option<&'static u8>) {
    let slot = &raw const virtualization_slot;
    let code = match handler {
        // `b` (Power ISA book I, "I-form"): both are copied with the same distance.
        Some(to) => {
            let to = core::ptr::from_ref(to).addr();
            0x4800_0000 | (to.wrapping_sub(slot.addr()) as u32 & 0x03ff_fffc)
        }
        // SAFETY: the slot is the image's.
        None => unsafe { slot.cast::<u32>().read() },
    };
    let at = VECTORS + slot.addr() - (&raw const __vectors_start).addr();
    set_word(at, code);
    synchronize(at, 4);
}

fn set_word(at: usize, code: u32) {
    // SAFETY: real memory below the image is nobody's but the vectors', `at` is there and
    // aligned. By assembly: to Rust addresses so low belong to no object.
    unsafe {
        asm!("stw {code}, 0({at})", code = in(reg) code, at = in(reg_nonzero) at, options(nostack, preserves_flags));
    }
}

/// Makes code that was stored in `len` bytes from `at` what every CPU executes.
fn synchronize(at: usize, len: usize) {
    /// The smallest cache block of the machines.
    const BLOCK: usize = 128;
    for block in (at & !(BLOCK - 1)..at + len).step_by(BLOCK) {
        // SAFETY: changes no memory.
        unsafe {
            asm!("dcbst 0, {at}", "sync", "icbi 0, {at}", at = in(reg) block, options(nostack, preserves_flags));
        }
    }
    // SAFETY: barriers.
    unsafe { asm!("sync", "isync", options(nostack, preserves_flags)) };
}

/// Fatal exceptions of a CPU that are reported: the cause, one within its report, one within
/// power-off.
const REPORTED: u32 = 3;

/// Reports an exception that nothing handles; stops the CPU once reports only cause more.
extern "C" fn fatal(slot: usize, registers: &Registers) -> ! {
    if crate::cpu::this().fatal.fetch_add(1, Ordering::Relaxed) >= REPORTED {
        crate::power::halt();
    }
    for (at, [first, second]) in registers.r.as_chunks().0.iter().enumerate() {
        let number = 2 * at;
        emergency_line(format_args!(
            "r{number:<2} {first:#018x}   r{:<2} {second:#018x}",
            number + 1
        ));
    }
    panic!(
        "{} (vector {slot:#x}): SRR {:#x} {:#x}, HSRR {:#x} {:#x}, DAR {:#x}, DSISR {:#x}, LR {:#x}, CTR {:#x}, XER {:#x}, CR {:#x}",
        name(slot),
        Spr::<26>::get(),
        Spr::<27>::get(),
        Spr::<314>::get(),
        Spr::<315>::get(),
        Spr::<19>::get(),
        Spr::<18>::get(),
        registers.lr,
        registers.ctr,
        registers.xer,
        registers.cr,
    )
}

/// What the vector `slot` is for.
fn name(slot: usize) -> &'static str {
    match slot {
        0x100 => "system reset",
        0x200 => "machine check",
        0x300 | 0x380 => "data storage",
        0x400 | 0x480 => "instruction storage",
        0x500 => "external interrupt",
        0x600 => "alignment",
        0x700 => "program",
        0x800 | 0xf20 | 0xf40 => "floating-point or vector unavailable",
        0x980 => "hypervisor decrementer",
        0xa00 => "doorbell",
        0xc00 => "system call",
        0xe00..0xe80 => "hypervisor storage, emulation or maintenance",
        0xf60 | 0xf80 => "facility unavailable",
        _ => "exception",
    }
}
