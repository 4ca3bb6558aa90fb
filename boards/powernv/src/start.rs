// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first instructions of each CPU: byte order, BSS, the TOC, stack.
//!
//! Skiboot enters the boot CPU, whichever that is, in hypervisor real mode, big-endian, with the
//! devicetree's address in r3, the base of OPAL in r8 and its entry in r9. The file runs in place
//! at the address that it is linked for. Another CPU comes by OPAL_START_CPU, big-endian too, with
//! its PIR in r3 and nothing else.
//!
//! Registers with a meaning from here on: r1 the stack, r2 the TOC pointer (one for the image),
//! r13 the CPU's [`CpuBlock`], also in HSPRG0 for code that cannot trust r13.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::cpu::{self, CpuBlock};
use crate::{main, secondary};

unsafe extern "C" {
    /// Where OPAL lets another CPU begin.
    pub safe static secondary_start: u8;
}

/// Bytes that a called function may use above its caller's stack pointer: back chain, CR, LR, TOC
/// (64-bit ELF V2 ABI, "The stack frame"). A new stack begins below one such header.
pub const HEADER: usize = 32;

/// Turns big-endian code into little-endian code, and does nothing where the CPU is little-endian
/// already. Its first word read in one order is a trap that is never taken (`tdi 0,0,0x48`), in
/// the other one a branch over the next word (`b .+8`). The words behind those two are
/// big-endian, written with their bytes reversed: they flip MSR.LE, set ME and RI, which no other
/// instruction of the image could (`mtmsrd` leaves ME alone), and go on behind themselves.
/// Changes r10, r11 and LR.
macro_rules! little_endian {
    () => {
        r#"
    tdi     0, 0, 0x48
    b       888f
    .long   0x05009f42                  // bcl 20,31,.+4
    .long   0xa602487d                  // mflr r10: the address of this word
    .long   0x20004a39                  // addi r10,r10,32
    .long   0xa600607d                  // mfmsr r11
    .long   0x01006b69                  // xori r11,r11,1
    .long   0x02106b61                  // ori r11,r11,0x1002
    .long   0xa64b5a7d                  // mtspr HSRR0,r10
    .long   0xa64b7b7d                  // mtspr HSRR1,r11
    .long   0x2402004c                  // hrfid
888:
"#
    };
}
pub(crate) use little_endian;

global_asm!(
    r#"
    .section .text.start, "ax"
    .global _start
_start:
    "#,
    little_endian!(),
    r#"
    // BSS, two words a time; both ends are aligned to 16.
    lis     10, __bss_start@ha
    addi    10, 10, __bss_start@l
    lis     11, __bss_end@ha
    addi    11, 11, __bss_end@l
    li      0, 0
1:  cmpld   10, 11
    bge     2f
    std     0, 0(10)
    std     0, 8(10)
    addi    10, 10, 16
    b       1b
2:
    lis     2, .TOC.@ha
    addi    2, 2, .TOC.@l
    lis     13, {boot}@ha
    addi    13, 13, {boot}@l
    mtspr   304, 13                     // HSPRG0
    lis     1, __stack_top@ha
    addi    1, 1, __stack_top@l
    addi    1, 1, -{header}
    std     0, 0(1)
    mr      4, 8
    mr      5, 9
    lis     12, {entry}@ha
    addi    12, 12, {entry}@l
    mtctr   12
    bctrl
    trap

// Another CPU: r3 is its PIR. Finds its block, and the stack there.
    .global secondary_start
secondary_start:
    "#,
    little_endian!(),
    r#"
    lis     2, .TOC.@ha
    addi    2, 2, .TOC.@l
    lis     10, {blocks}@ha
    addi    10, 10, {blocks}@l
    ld      13, {first}(10)
    ld      11, {count}(10)
    mtctr   11
3:  ld      12, {pir}(13)
    cmpd    12, 3
    beq     4f
    addi    13, 13, {block_size}
    bdnz    3b
    // A CPU that no block is for.
5:  or      31, 31, 31
    b       5b
4:
    mtspr   304, 13                     // HSPRG0
    ld      1, {stack}(13)
    addi    1, 1, -{header}
    li      0, 0
    std     0, 0(1)
    mr      3, 13
    lis     12, {secondary}@ha
    addi    12, 12, {secondary}@l
    mtctr   12
    bctrl
    trap
    "#,
    boot = sym cpu::BOOT,
    header = const HEADER,
    entry = sym main,
    blocks = sym cpu::BLOCKS,
    first = const offset_of!(cpu::Blocks, first),
    count = const offset_of!(cpu::Blocks, count),
    block_size = const size_of::<CpuBlock>(),
    pir = const offset_of!(CpuBlock, pir),
    stack = const offset_of!(CpuBlock, stack),
    secondary = sym secondary::main,
);
