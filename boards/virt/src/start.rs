// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first instructions of each CPU: exception level, BSS, boot page tables, stack.
//!
//! The machine enters the boot CPU with MMU and caches off and `x0` either the address of a devicetree below
//! the image or zero; zero means that the tree stands at the beginning of RAM, as QEMU does for
//! an ELF file.
//!
//! | entered at | what is done |
//! |---|---|
//! | EL1 | goes on |
//! | EL2 | sets up EL2 so that it traps nothing that the image uses, and goes on at EL1 |
//! | EL3 | says so on the console and stops: the secure half of the GIC would be ours to set up |
//!
//! Sources are sections of DDI 0487, chapter "AArch64 System Register Descriptions", one for
//! each register by its name; for the GIC's registers, IHI 0069, chapter "Programmers' Model".

use core::arch::global_asm;
use core::mem::offset_of;

use crate::cpu::CpuBlock;
use crate::{main, mmu, secondary, vectors};

unsafe extern "C" {
    /// Where PSCI lets another CPU begin, with the address of its [`CpuBlock`].
    pub safe static secondary_start: u8;
}

global_asm!(
    r#"
    .section .text.start, "ax"
    .global _start
_start:
    msr     daifset, #0xf
    mov     x19, x0
    mrs     x9, CurrentEL
    cmp     x9, #(3 << 2)
    b.eq    refuse_el3
    cmp     x9, #(2 << 2)
    b.ne    1f
    bl      drop_to_el1
1:
    // BSS, two words a time; both ends are aligned to 16.
    adrp    x9, __bss_start
    add     x9, x9, :lo12:__bss_start
    adrp    x10, __bss_end
    add     x10, x10, :lo12:__bss_end
2:  cmp     x9, x10
    b.hs    3f
    stp     xzr, xzr, [x9], #16
    b       2b
3:
    // Level 1: the GiB of devices and the first GiB of RAM have a level-2 table each.
    adrp    x9, {tables}
    add     x9, x9, :lo12:{tables}
    add     x10, x9, #{table_size}
    orr     x11, x10, #{table}
    str     x11, [x9]
    add     x12, x10, #{table_size}
    orr     x11, x12, #{table}
    str     x11, [x9, #8]

    // The console's block.
    ldr     x13, ={console}
    ldr     x14, ={device}
    add     x15, x13, #1
    bl      map_blocks
    // The devicetree's block, the image's code, its data.
    mov     x10, x12
    ldr     x13, =__ram_start
    ldr     x14, ={read_only}
    add     x15, x13, #1
    bl      map_blocks
    ldr     x13, =__text_start
    ldr     x14, ={code}
    ldr     x15, =__text_end
    bl      map_blocks
    ldr     x13, =__data_start
    ldr     x14, ={read_write}
    ldr     x15, =__data_end
    bl      map_blocks

    bl      enable_mmu

    adrp    x9, __stack_top
    add     x9, x9, :lo12:__stack_top
    mov     sp, x9
    // SP_EL0 is the stack of fatal exceptions.
    adrp    x9, {emergency}
    add     x9, x9, :lo12:{emergency}
    add     x9, x9, #{emergency_size}
    msr     sp_el0, x9
    mov     x0, x19
    mov     x29, xzr
    mov     x30, xzr
    b       {entry}

// Another CPU, by PSCI CPU_ON: MMU and caches off, x0 its block. The tables are the boot CPU's.
    .global secondary_start
secondary_start:
    msr     daifset, #0xf
    mov     x19, x0
    mrs     x9, CurrentEL
    cmp     x9, #(2 << 2)
    b.ne    1f
    bl      drop_to_el1
1:
    bl      enable_mmu
    // Memory is read from here on only: what the boot CPU stored may be in its caches.
    msr     tpidr_el1, x19
    ldr     x9, [x19, #{stack}]
    mov     sp, x9
    ldr     x9, [x19, #{own_emergency}]
    msr     sp_el0, x9
    mov     x0, x19
    mov     x29, xzr
    mov     x30, xzr
    b       {secondary}

// Maps the 2 MiB blocks of x13 .. x15 in the level-2 table x10 with the attributes x14.
// Changes x13, x16, x17.
map_blocks:
    ubfx    x16, x13, #21, #9
    and     x17, x13, #~0x1fffff
    orr     x17, x17, x14
    str     x17, [x10, x16, lsl #3]
    add     x13, x13, #0x200, lsl #12
    cmp     x13, x15
    b.lo    map_blocks
    ret

// Turns MMU and caches on with the boot tables. Changes x9 .. x11.
enable_mmu:
    dsb     ish
    ldr     x9, ={mair}
    msr     mair_el1, x9
    adrp    x9, {tables}
    add     x9, x9, :lo12:{tables}
    msr     ttbr0_el1, x9
    msr     ttbr1_el1, xzr
    // TCR_EL1.IPS is the CPU's ID_AA64MMFR0_EL1.PARange, at most 48 bits (0b0101).
    mrs     x10, id_aa64mmfr0_el1
    and     x10, x10, #0xf
    mov     x11, #5
    cmp     x10, x11
    csel    x10, x10, x11, lo
    ldr     x9, ={tcr}
    bfi     x9, x10, #32, #3
    msr     tcr_el1, x9
    isb
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    ldr     x9, ={sctlr_on}
    msr     sctlr_el1, x9
    isb
    ret

// From EL2 to EL1 at the caller's next instruction. Changes x9 .. x11.
drop_to_el1:
    mov     x9, #(1 << 31)              // HCR_EL2.RW: EL1 is AArch64
    msr     hcr_el2, x9
    // With E2H off the registers below have the layout that is written here, from now on.
    isb
    mov     x9, #3                      // CNTHCTL_EL2.EL1PCTEN, EL1PCEN: EL1 may use the
                                        // physical counter and timer
    msr     cnthctl_el2, x9
    msr     cntvoff_el2, xzr
    // CPTR_EL2: the bits that Armv8.0 reserves as one. TFP, bit 10, is off. On a CPU that has
    // SVE or SME, bits 8 (TZ) and 12 (TSM) trap those; the image is built without either.
    mov     x9, #0x33ff
    msr     cptr_el2, x9
    msr     hstr_el2, xzr
    msr     vttbr_el2, xzr
    mrs     x9, midr_el1
    msr     vpidr_el2, x9
    mrs     x9, mpidr_el1
    msr     vmpidr_el2, x9
    // With the GIC's system registers present (ID_AA64PFR0_EL1.GIC): ICC_SRE_EL2.SRE and .Enable, so that EL1 may
    // choose them, and no virtual interface.
    mrs     x9, id_aa64pfr0_el1
    ubfx    x9, x9, #24, #4
    cbz     x9, 1f
    mrs     x9, S3_4_C12_C9_5           // ICC_SRE_EL2
    mov     x10, #9
    orr     x9, x9, x10
    msr     S3_4_C12_C9_5, x9
    isb
    msr     S3_4_C12_C11_0, xzr         // ICH_HCR_EL2
1:
    ldr     x9, ={sctlr_off}
    msr     sctlr_el1, x9
    mov     x9, #0x3c5                  // SPSR_EL2: D, A, I, F masked; M is EL1h, 0b0101
    msr     spsr_el2, x9
    msr     elr_el2, x30
    isb
    eret

refuse_el3:
    ldr     x9, ={console}
    adr     x10, 2f
1:  ldrb    w11, [x10], #1
    cbz     w11, 3f
    str     w11, [x9]
    b       1b
2:  .asciz  "entered at EL3: this image starts at EL1 or EL2, after the secure firmware\n"
    .balign 4
3:  wfi
    b       3b
    "#,
    tables = sym mmu::TABLES,
    table_size = const size_of::<mmu::Table>(),
    table = const mmu::TABLE,
    console = const crate::uart::CONSOLE,
    device = const mmu::DEVICE,
    read_only = const mmu::READ_ONLY,
    read_write = const mmu::READ_WRITE,
    code = const mmu::CODE,
    mair = const mmu::MAIR,
    tcr = const mmu::TCR,
    sctlr_on = const mmu::SCTLR_ON,
    sctlr_off = const mmu::SCTLR_OFF,
    emergency = sym vectors::EMERGENCY_STACK,
    emergency_size = const vectors::EMERGENCY_STACK_SIZE,
    entry = sym main,
    stack = const offset_of!(CpuBlock, stack),
    own_emergency = const offset_of!(CpuBlock, emergency_stack),
    secondary = sym secondary::main,
);
