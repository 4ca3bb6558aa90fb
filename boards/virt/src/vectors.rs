// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exception vectors: all sixteen, one of them alive.
//!
//! An IRQ from EL1 on its own stack saves what a called function may change (`x0`..`x18`,
//! `x30`), plus the return state, and calls [`crate::interrupts::enter`]. No vector registers:
//! the image is built soft-float. Every other exception is fatal: it switches to the stack that
//! SP_EL0 was given at start-up (so that an overflowed stack can be reported), shows the
//! registers, and panics.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::{ELR_EL1, ESR_EL1, FAR_EL1, SPSR_EL1, VBAR_EL1};
use boards_common::console::emergency_line;
use tock_registers::interfaces::{Readable, Writeable};

/// Size of the stack of fatal exceptions, in bytes.
pub const EMERGENCY_STACK_SIZE: usize = 16 * 1024;

/// A stack: memory that only a stack pointer leads to.
#[repr(C, align(16))]
pub struct Stack(UnsafeCell<[u8; EMERGENCY_STACK_SIZE]>);

// SAFETY: no reference to the contents is ever formed; one CPU's SP_EL0 points there.
unsafe impl Sync for Stack {}

/// The boot CPU's stack of fatal exceptions.
pub static EMERGENCY_STACK: Stack = Stack(UnsafeCell::new([0; EMERGENCY_STACK_SIZE]));

/// What an IRQ saved on its stack.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// `x0` to `x18`, and `x30`.
    pub registers: [u64; 20],
    /// Where the interrupted code goes on.
    pub pc: u64,
    /// Its processor state.
    pub state: u64,
}

/// The registers of code that caused a fatal exception.
#[repr(C)]
struct Registers {
    x: [u64; 31],
    sp: u64,
}

global_asm!(
    r#"
    .macro FATAL slot
    .balign 0x80
    msr     spsel, #0
    sub     sp, sp, #{registers}
    stp     x0, x1, [sp]
    mov     x0, #\slot
    b       fatal_exception
    .endm

    .section .text.vectors, "ax"
    .balign 0x800
    .global vector_table
vector_table:
    FATAL   0                   // EL1 on SP_EL0: synchronous, IRQ, FIQ, SError
    FATAL   1
    FATAL   2
    FATAL   3

    FATAL   4                   // EL1 on SP_EL1
    .balign 0x80                // IRQ
    stp     x0, x1, [sp, #-{frame}]!
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x30, [sp, #144]
    mrs     x0, elr_el1
    mrs     x1, spsr_el1
    stp     x0, x1, [sp, #160]
    mov     x0, sp
    bl      {enter}
    ldp     x0, x1, [sp, #160]
    msr     elr_el1, x0
    msr     spsr_el1, x1
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x30, [sp, #144]
    ldp     x0, x1, [sp], #{frame}
    eret
    FATAL   6
    FATAL   7

    FATAL   8                   // lower level, AArch64
    FATAL   9
    FATAL   10
    FATAL   11

    FATAL   12                  // lower level, AArch32
    FATAL   13
    FATAL   14
    FATAL   15
    .balign 0x80

fatal_exception:
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    // The other stack pointer is readable only while it is selected.
    mov     x2, sp
    msr     spsel, #1
    mov     x1, sp
    msr     spsel, #0
    stp     x30, x1, [x2, #240]
    mov     x1, x2
    b       {fatal}
    "#,
    frame = const size_of::<Frame>(),
    registers = const size_of::<Registers>(),
    enter = sym crate::interrupts::enter,
    fatal = sym fatal,
);

unsafe extern "C" {
    static vector_table: u8;
}

/// Points this CPU to the vectors.
pub fn install() {
    VBAR_EL1.set(&raw const vector_table as u64);
    barrier::isb(barrier::SY);
}

/// Fatal exceptions of a CPU that are reported: the cause, one within its report, one within
/// power-off.
const REPORTED: u32 = 3;

/// Reports an exception that nothing handles; stops the CPU once reports only cause more.
extern "C" fn fatal(slot: usize, registers: &Registers) -> ! {
    const FROM: [&str; 4] = ["EL1 on the emergency stack", "EL1", "EL0", "EL0 in AArch32"];
    const KIND: [&str; 4] = ["synchronous exception", "IRQ", "FIQ", "SError"];
    if crate::cpu::this().fatal.fetch_add(1, Ordering::Relaxed) >= REPORTED {
        crate::power::halt();
    }
    for (at, pair) in registers.x.chunks(2).enumerate() {
        let [first, second] = [pair[0], *pair.get(1).unwrap_or(&registers.sp)];
        let name = if at == 15 { "sp " } else { "   " };
        emergency_line(format_args!(
            "x{:<2} {first:#018x}   {name}x{:<2} {second:#018x}",
            2 * at,
            2 * at + 1
        ));
    }
    panic!(
        "{} from {}: ESR {:#x}, FAR {:#x}, ELR {:#x}, SPSR {:#x}, SP {:#x}",
        KIND[slot % 4],
        FROM[slot / 4],
        ESR_EL1.get(),
        FAR_EL1.get(),
        ELR_EL1.get(),
        SPSR_EL1.get(),
        registers.sp,
    )
}
