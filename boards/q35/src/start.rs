// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first instructions of each CPU: long mode, BSS, boot page tables, stack.
//!
//! The boot CPU comes by the PVH entry: 32-bit protected mode with flat segments, paging off,
//! interrupts masked, `ebx` the address of the start info. Every other CPU comes by a start IPI:
//! 16-bit real mode at the first byte of a page below 1 MiB, to which [`trampoline`] was copied.
//! From the switch to 32 bits on both run in the image, so that the page is never executable.
//!
//! A CPU without long mode or execute-disable is refused with a text on the console.
//!
//! Sources: Xen's page "x86/HVM direct boot ABI"; Intel SDM vol. 3, "Initializing IA-32e Mode" and
//! "Switching to Protected Mode"; CPUID leaf 8000_0001H in vol. 2, "CPUID".

use core::arch::global_asm;
use core::mem::offset_of;

use crate::cpu::CpuBlock;
use crate::{main, mmu, secondary, uart};

unsafe extern "C" {
    /// The code of another CPU's first page.
    pub safe static trampoline: u8;
    /// Its end.
    pub safe static trampoline_end: u8;
}

/// Start-up's segments, by their place in its table.
const CODE32: u16 = 0x08;
const DATA: u16 = 0x10;
const CODE64: u16 = 0x18;

/// `CR0`: paging, write protection in ring 0 too, the x87 bits as the manual wants them,
/// protection. Caches on: CD and NW are zero.
const CR0: u32 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1;
/// `CR4.PAE`.
const CR4: u32 = 1 << 5;
/// `IA32_EFER`: LME and NXE.
const EFER: u32 = 1 << 8 | 1 << 11;
/// CPUID 8000_0001H:EDX: long mode and execute-disable.
const NEEDED: u32 = 1 << 29 | 1 << 20;

global_asm!(
    r#"
    // What tells the loader of the entry: name "Xen", type 18 (XEN_ELFNOTE_PHYS32_ENTRY).
    .section .note.Xen, "a", @note
    .balign 4
    .long   4, 8, 18
    .asciz  "Xen"
    .quad   _start

    // From 32-bit protected mode with paging off to \target in long mode.
    .macro LONG_MODE target
    mov     eax, offset {tables}
    mov     cr3, eax
    mov     eax, {cr4}
    mov     cr4, eax
    mov     ecx, 0xc0000080             // IA32_EFER
    rdmsr
    or      eax, {efer}
    wrmsr
    mov     eax, {cr0}
    mov     cr0, eax
    lgdt    [boot_gdt_pointer]
    .byte   0xea                        // jmp far
    .long   \target
    .word   {code64}
    .endm

    .macro NULL_SEGMENTS
    xor     eax, eax
    mov     ds, eax
    mov     es, eax
    mov     ss, eax
    mov     fs, eax
    mov     gs, eax
    .endm

    .section .text.start, "ax"
    .code32
    .global _start
_start:
    cli
    cld
    mov     esp, offset __stack_top
    mov     ebp, ebx
    mov     eax, 0x80000000
    cpuid
    cmp     eax, 0x80000001
    jb      refuse
    mov     eax, 0x80000001
    cpuid
    and     edx, {needed}
    cmp     edx, {needed}
    jne     refuse

    // BSS, 4 bytes a time; both ends are aligned to 16.
    mov     edi, offset __bss_start
    mov     ecx, offset __bss_end
    sub     ecx, edi
    shr     ecx, 2
    xor     eax, eax
    rep stosd

    // Levels 4, 3 and 2: the first GiB.
    mov     edi, offset {tables}
    lea     eax, [edi + {table_size} + {table}]
    mov     [edi], eax
    add     edi, {table_size}
    lea     eax, [edi + {table_size} + {table}]
    mov     [edi], eax
    add     edi, {table_size}

    // The block of the start info, the image's code, its data.
    xor     eax, eax
    mov     ecx, offset __text_start
    mov     edx, {data_low}
    mov     ebx, {data_high}
    call    map_blocks
    mov     eax, offset __text_start
    mov     ecx, offset __text_end
    mov     edx, {code_low}
    mov     ebx, {code_high}
    call    map_blocks
    mov     eax, offset __data_start
    mov     ecx, offset __data_end
    mov     edx, {data_low}
    mov     ebx, {data_high}
    call    map_blocks
    LONG_MODE start64

// Maps the 2 MiB blocks of eax .. ecx in the level-2 table edi with the attributes ebx:edx.
// Changes eax, esi.
map_blocks:
    mov     esi, eax
    shr     esi, 21
    mov     [edi + 8 * esi], eax
    or      [edi + 8 * esi], edx
    mov     [edi + 8 * esi + 4], ebx
    add     eax, 0x200000
    cmp     eax, ecx
    jb      map_blocks
    ret

refuse:
    mov     esi, offset refusal
    mov     edx, {console}
2:  lodsb
    test    al, al
    jz      3f
    out     dx, al
    jmp     2b
3:  hlt
    jmp     3b
refusal:
    .asciz  "this CPU has no long mode, or no execute-disable\n"

    .code64
start64:
    NULL_SEGMENTS
    mov     rsp, offset __stack_top
    mov     edi, ebp
    xor     ebp, ebp
    call    {entry}
    ud2

    // Another CPU. cs is its page, everything else is at its reset value.
    .code16
    .global trampoline
    .global trampoline_end
trampoline:
    cli
    cld
    mov     ax, cs
    mov     ds, ax
    .byte   0x66, 0x0f, 0x01, 0x16      // lgdt [..], with all 32 bits of the base
    .word   boot_gdt_pointer - trampoline
    mov     eax, cr0
    or      al, 1
    mov     cr0, eax
    .byte   0x66, 0xea                  // jmp far, 32 bits of offset
    .long   secondary32
    .word   {code32}
boot_gdt_pointer:
    .word   boot_gdt_end - boot_gdt - 1
    .long   boot_gdt
trampoline_end:

    .code32
secondary32:
    mov     ax, {data}
    mov     ds, ax
    mov     es, ax
    mov     ss, ax
    LONG_MODE secondary64

    .code64
secondary64:
    NULL_SEGMENTS
    // Who is it: the x2APIC id of leaf 0BH if there is that, else the initial id of leaf 1.
    cpuid
    cmp     eax, 0xb
    jb      6f
    mov     eax, 0xb
    xor     ecx, ecx
    cpuid
    test    ebx, ebx
    jnz     2f
6:  mov     eax, 1
    cpuid
    mov     edx, ebx
    shr     edx, 24
2:  mov     rdi, [rip + {roster} + {first}]
    mov     rcx, [rip + {roster} + {count}]
3:  dec     rcx
    js      5f
    cmp     [rdi + {id}], edx
    je      4f
    add     rdi, {block_size}
    jmp     3b
4:  mov     rsp, [rdi + {stack}]
    xor     ebp, ebp
    call    {secondary}
    ud2
    // Firmware's tables do not name it.
5:  cli
    hlt
    jmp     5b

    // The segments of start-up, all flat and marked as accessed: the table is read-only.
    .balign 8
boot_gdt:
    .quad   0
    .quad   0x00cf9b000000ffff
    .quad   0x00cf93000000ffff
    .quad   0x00af9b000000ffff
boot_gdt_end:
    "#,
    tables = sym mmu::TABLES,
    table_size = const size_of::<mmu::Table>(),
    table = const mmu::TABLE,
    code32 = const CODE32,
    data = const DATA,
    code64 = const CODE64,
    cr0 = const CR0,
    cr4 = const CR4,
    efer = const EFER,
    needed = const NEEDED,
    console = const uart::TEXT,
    data_low = const mmu::READ_WRITE as u32,
    data_high = const (mmu::READ_WRITE >> 32) as u32,
    code_low = const mmu::CODE as u32,
    code_high = const (mmu::CODE >> 32) as u32,
    entry = sym main,
    roster = sym secondary::ROSTER,
    first = const offset_of!(secondary::Roster, first),
    count = const offset_of!(secondary::Roster, count),
    id = const offset_of!(CpuBlock, id),
    block_size = const size_of::<CpuBlock>(),
    stack = const offset_of!(CpuBlock, stack),
    secondary = sym secondary::main,
);
