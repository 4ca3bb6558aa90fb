// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt descriptor table: 256 stubs.
//!
//! | vectors | stub | stack |
//! |---|---|---|
//! | 0 to 31 but 2 | fatal: shows the registers, and panics | the first of the CPU's task state |
//! | 2, the non-maskable interrupt | counted, if it is expected; else fatal | the second one |
//! | 32 to 255 | [`crate::interrupts::enter`] with the vector | the interrupted one |
//! | [`TIMER`] | likewise, and notes that it came | the interrupted one |
//! | [`WAKE`] | ends it | the interrupted one |
//!
//! An interrupt's stub saves what a called function may change (`rax`, `rcx`, `rdx`, `rsi`, `rdi`,
//! `r8` to `r11`). No vector registers: the image is built soft-float.
//!
//! A second table is that of a CPU that [sleeps](crate::sleep).
//!
//! Source: Intel SDM vol. 3, "Interrupt and Exception Handling".

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use boards_common::console::emergency_line;
use irq_x2apic::regs::apic::IA32_X2APIC_EOI;
use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::tables::{lidt, sidt};
use x86_64::registers::control::Cr2;
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::idt::{Entry, HandlerFunc};

use crate::cpu::{self, CpuBlock};
use crate::interrupts::TIMER;
use crate::segments::{FATAL_STACK, NMI_STACK};
use crate::sleep::WAKE;

/// Vector of the non-maskable interrupt.
const NMI: usize = 2;
/// The first vector that is no exception.
const FIRST: usize = 32;
/// Bytes of a stub.
const STUB: usize = 16;

/// What an interrupt saved on its stack.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// `r11` to `r8`, `rsi`, `rdx`, `rcx`, `rax`, `rdi`.
    pub registers: [u64; 9],
    /// Where the interrupted code goes on, and its code segment.
    pub rip: u64,
    /// See [`rip`](Self::rip).
    pub cs: u64,
    /// Its flags.
    pub flags: u64,
    /// Its stack pointer, and stack segment.
    pub rsp: u64,
    /// See [`rsp`](Self::rsp).
    pub ss: u64,
}

/// The registers of code that caused a fatal exception.
#[repr(C)]
struct Registers {
    /// `rax`, `rbx`, `rcx`, `rdx`, `rsi`, `rdi`, `rbp`, `r8` to `r15`.
    general: [u64; 15],
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    flags: u64,
    rsp: u64,
    ss: u64,
}

global_asm!(
    r#"
    .macro SAVE
    push    rax
    push    rcx
    push    rdx
    push    rsi
    push    r8
    push    r9
    push    r10
    push    r11
    .endm
    .macro RESTORE
    pop     r11
    pop     r10
    pop     r9
    pop     r8
    pop     rsi
    pop     rdx
    pop     rcx
    pop     rax
    pop     rdi
    .endm

    .section .text.vectors, "ax"
    // Exceptions 8, 10 to 14, 17, 21, 29 and 30 push an error code.
    .balign {stub}
exception_stubs:
    .set    vector, 0
    .rept   32
    .balign {stub}
    .if     !(0x60227d00 >> vector & 1)
    push    0
    .endif
    push    vector
    jmp     fatal_exception
    .set    vector, vector + 1
    .endr

    .balign {stub}
interrupt_stubs:
    .set    vector, 32
    .rept   224
    .balign {stub}
    push    rdi
    mov     edi, vector
    jmp     interrupt
    .set    vector, vector + 1
    .endr
    .balign {stub}

    // 14 words are on the stack, which stays aligned to 16 bytes.
interrupt:
    SAVE
    mov     rsi, rsp
    cld
    call    {enter}
    RESTORE
    iretq

nmi_stub:
    push    rdi
    SAVE
    cld
    call    {nmi}
    test    al, al
    jz      2f
    RESTORE
    iretq
2:  RESTORE
    push    0
    push    {nmi_vector}
    jmp     fatal_exception

timer_stub:
    push    rdi
    mov     edi, {timer}
    mov     byte ptr gs:[{armed}], 0
    jmp     interrupt

    // Came too late to end a sleep.
wake_stub:
    push    rax
    push    rcx
    push    rdx
    mov     ecx, {eoi}
    xor     eax, eax
    xor     edx, edx
    wrmsr
    pop     rdx
    pop     rcx
    pop     rax
    iretq

    // Any vector of a CPU that sleeps: interrupts stay masked on the way back.
sleeper_stub:
    and     dword ptr [rsp + 16], ~0x200
    mov     byte ptr gs:[{woken}], 1
    iretq

fatal_exception:
    push    r15
    push    r14
    push    r13
    push    r12
    push    r11
    push    r10
    push    r9
    push    r8
    push    rbp
    push    rdi
    push    rsi
    push    rdx
    push    rcx
    push    rbx
    push    rax
    mov     rdi, rsp
    cld
    and     rsp, ~15
    call    {fatal}
    ud2
    "#,
    stub = const STUB,
    enter = sym crate::interrupts::enter,
    nmi = sym nmi,
    nmi_vector = const NMI,
    eoi = const IA32_X2APIC_EOI,
    timer = const TIMER.get(),
    armed = const offset_of!(CpuBlock, armed),
    woken = const offset_of!(CpuBlock, woken),
    fatal = sym fatal,
);

unsafe extern "C" {
    safe static exception_stubs: u8;
    safe static interrupt_stubs: u8;
    safe static nmi_stub: u8;
    safe static timer_stub: u8;
    safe static wake_stub: u8;
    safe static sleeper_stub: u8;
}

/// A table of 256 entries.
#[repr(C, align(16))]
pub struct Table([Entry<HandlerFunc>; 256]);

/// All CPUs' table, and that of those that sleep.
static TABLE: Once<Table> = Once::new();
static SLEEPERS: Once<Table> = Once::new();

/// Address of a stub, or of one of many.
fn stub(first: &'static u8, nth: usize) -> VirtAddr {
    VirtAddr::from_ptr(first) + (nth * STUB) as u64
}

/// An entry for code that keeps all registers, on the interrupted stack or on one of the task
/// state's.
fn entry(code: VirtAddr, stack: Option<u16>) -> Entry<HandlerFunc> {
    let mut entry = Entry::missing();
    // SAFETY: the stubs of this file, and those of `scenarios::icount`, are made for it.
    let options = unsafe { entry.set_handler_addr(code) };
    if let Some(stack) = stack {
        // SAFETY: each CPU's task state has these stacks, which nothing else uses.
        unsafe { options.set_stack_index(stack) };
    }
    entry
}

impl Table {
    /// The image's table.
    pub fn image() -> Self {
        let mut table = Self([const { Entry::missing() }; 256]);
        for (vector, slot) in table.0.iter_mut().enumerate() {
            *slot = match vector {
                NMI => entry(stub(&nmi_stub, 0), Some(NMI_STACK)),
                ..FIRST => entry(stub(&exception_stubs, vector), Some(FATAL_STACK)),
                _ => entry(stub(&interrupt_stubs, vector - FIRST), None),
            };
        }
        table
            .with(TIMER.get(), &timer_stub)
            .with(WAKE.get(), &wake_stub)
    }

    /// The table of a CPU that sleeps. The spurious vector has nothing in service.
    fn sleepers() -> Self {
        let mut table = Self::image();
        for slot in &mut table.0[FIRST..usize::from(irq_x2apic::Vector::SPURIOUS.get())] {
            *slot = entry(stub(&sleeper_stub, 0), None);
        }
        table
    }

    /// The same with `code` for `vector`, which keeps all registers.
    pub fn with(mut self, vector: u8, code: &'static u8) -> Self {
        self.0[usize::from(vector)] = entry(stub(code, 0), None);
        self
    }

    /// Makes it this CPU's, until the value is dropped.
    #[inline]
    pub fn install(&'static self) -> Installed {
        let before = Installed(sidt());
        self.load();
        before
    }

    /// Makes it this CPU's.
    #[inline]
    fn load(&'static self) {
        let pointer = DescriptorTablePointer {
            limit: (size_of::<Self>() - 1) as u16,
            base: VirtAddr::from_ptr(self),
        };
        // SAFETY: all 256 entries lead to code for them, and the table is static.
        unsafe { lidt(&pointer) };
    }
}

/// A table that is this CPU's while the value lives; then the one before is again.
pub struct Installed(DescriptorTablePointer);

impl Drop for Installed {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the pointer was this CPU's, and so leads to a static table.
        unsafe { lidt(&self.0) };
    }
}

/// Points this CPU to the image's table.
#[inline]
pub fn install_table() {
    TABLE.call_once(Table::image).load();
}

/// Points this CPU, which is masked, to the table of those that sleep, until the value is dropped.
#[inline]
pub fn install_sleepers() -> Installed {
    SLEEPERS.call_once(Table::sleepers).install()
}

/// A non-maskable interrupt came; says whether it was expected.
extern "C" fn nmi() -> bool {
    let block = cpu::this();
    let due = block.nmis_due.load(Ordering::Relaxed);
    if due == 0 {
        return false;
    }
    block.nmis_due.store(due - 1, Ordering::Relaxed);
    block.nmis.fetch_add(1, Ordering::Relaxed);
    true
}

/// Fatal exceptions of a CPU that are reported: the cause, one within its report, one within
/// power-off.
const REPORTED: u32 = 3;

/// Reports an exception that nothing handles; stops the CPU once reports only cause more.
extern "C" fn fatal(registers: &Registers) -> ! {
    const NAMES: [&str; 15] = [
        "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ];
    if cpu::this().fatal.fetch_add(1, Ordering::Relaxed) >= REPORTED {
        crate::power::halt();
    }
    for (names, values) in NAMES.chunks(2).zip(registers.general.chunks(2)) {
        match (names, values) {
            ([first, second], [one, two]) => emergency_line(format_args!(
                "{first:<3} {one:#018x}   {second:<3} {two:#018x}"
            )),
            _ => emergency_line(format_args!("{:<3} {:#018x}", names[0], values[0])),
        }
    }
    let name = match registers.vector {
        0 => "divide error",
        1 => "debug exception",
        2 => "non-maskable interrupt that nobody expects",
        3 => "breakpoint",
        6 => "invalid opcode",
        7 => "use of the x87",
        8 => "double fault",
        10 => "invalid task state",
        11 => "segment that is not present",
        12 => "stack fault",
        13 => "general protection fault",
        14 => "page fault",
        17 => "alignment check",
        18 => "machine check",
        _ => "exception",
    };
    panic!(
        "{name} (vector {}): error code {:#x}, CR2 {:#x}, RIP {:#x}, RFLAGS {:#x}, RSP {:#x}",
        registers.vector,
        registers.error,
        Cr2::read_raw(),
        registers.rip,
        registers.flags,
        registers.rsp,
    )
}
