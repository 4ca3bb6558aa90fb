// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stubs and handlers without irq-core: by hand, and by the driver alone.

use core::arch::global_asm;
use core::mem::offset_of;

use irq_core::{Flow, IrqContext};
use irq_hal::percpu::OnCpu;
use irq_x2apic::Vector;
use irq_x2apic::regs::apic::{IA32_X2APIC_EOI, IA32_X2APIC_ICR};
use spin::Once;

use crate::cpu::{self, CpuBlock};
use crate::interrupts::{System, system};
use crate::vectors::{Installed, Table};

/// The vector of the paths without irq-core.
pub const VECTOR: Vector = const { Vector::new(0x51).unwrap() };

// The least there can be: a stub that saves what it changes itself. Then stubs that save what a
// call may change and call a handler, by hand with the end behind it.
global_asm!(
    r#"
    .macro COUNT_ONE
    mov     rax, gs:[{this}]
    inc     qword ptr [rax + {count}]
    .endm
    .macro ANSWER
    mov     rdx, [rax + {answer}]
    mov     eax, edx
    shr     rdx, 32
    mov     ecx, {icr}
    wrmsr
    .endm
    .macro END
    mov     ecx, {eoi}
    xor     eax, eax
    xor     edx, edx
    wrmsr
    .endm

    .macro LEAST name, answers
    .global \name
\name:
    push    rax
    push    rcx
    push    rdx
    COUNT_ONE
    .if     \answers
    ANSWER
    .endif
    END
    pop     rdx
    pop     rcx
    pop     rax
    iretq
    .endm

    .macro CALLING name, handler, by_hand
    .global \name
\name:
    push    rdi
    .if     !\by_hand
    mov     edi, {vector}
    .endif
    push    rax
    push    rcx
    push    rdx
    push    rsi
    push    r8
    push    r9
    push    r10
    push    r11
    cld
    call    \handler
    .if     \by_hand
    END
    .endif
    pop     r11
    pop     r10
    pop     r9
    pop     r8
    pop     rsi
    pop     rdx
    pop     rcx
    pop     rax
    pop     rdi
    iretq
    .endm

    .section .text.vectors, "ax"
    LEAST   bare_least, 0
    LEAST   bare_least_answer, 1
    CALLING bare_by_hand, bare_count, 1
    CALLING bare_by_hand_answer, bare_count_and_answer, 1
    CALLING bare_by_driver, {driver_count}, 0
    CALLING bare_by_driver_answer, {driver_answer}, 0

bare_count:
    COUNT_ONE
    ret

bare_count_and_answer:
    COUNT_ONE
    ANSWER
    ret
    "#,
    this = const CpuBlock::THIS,
    count = const offset_of!(CpuBlock, bare_count),
    answer = const offset_of!(CpuBlock, bare_answer),
    icr = const IA32_X2APIC_ICR,
    eoi = const IA32_X2APIC_EOI,
    vector = const VECTOR.get(),
    driver_count = sym driver_count,
    driver_answer = sym driver_answer,
);

unsafe extern "C" {
    safe static bare_least: u8;
    safe static bare_least_answer: u8;
    safe static bare_by_hand: u8;
    safe static bare_by_hand_answer: u8;
    safe static bare_by_driver: u8;
    safe static bare_by_driver_answer: u8;
}

/// The stub's call where the driver is used alone: counts.
extern "C" fn driver_count(vector: u32) {
    through_driver(vector, |_, block| block.count());
}

/// Likewise; sends the block's answer too.
extern "C" fn driver_answer(vector: u32) {
    through_driver(vector, |system, block| {
        block.count();
        if let Some(to) = block.answers_to() {
            // What goes wrong shows as an answer that never comes.
            let _ = system.apic.send(VECTOR, to);
        }
    });
}

#[inline(always)]
fn through_driver(vector: u32, handler: impl FnOnce(&System, &CpuBlock)) {
    let (Ok(system), block) = (system(), cpu::this()) else {
        return;
    };
    // SAFETY: the CPU masked, and the stub returns after this; the block is this CPU's.
    let on = unsafe { OnCpu::new(block.index) };
    let cx = IrqContext::new(on, None, Some(vector));
    if let Some((_, active)) = system.apic.ack(&cx) {
        handler(system, block);
        system.apic.end(active);
    }
}

/// Who takes [`VECTOR`], and how. Its handler counts; that of the CPU that answers sends the
/// block's answer too.
#[derive(Clone, Copy, Debug)]
pub enum Path {
    /// The least there can be.
    Least,
    /// By hand, with a handler that is called by the C ABI.
    ByHand,
    /// The driver's acknowledge and end.
    ByDriver,
}

impl Path {
    /// Makes it this CPU's, until the value is dropped.
    pub fn install(self, answers: bool) -> Installed {
        static TABLES: [Once<Table>; 6] = [const { Once::new() }; 6];
        let (nth, stub) = match (self, answers) {
            (Self::Least, false) => (0, &bare_least),
            (Self::Least, true) => (1, &bare_least_answer),
            (Self::ByHand, false) => (2, &bare_by_hand),
            (Self::ByHand, true) => (3, &bare_by_hand_answer),
            (Self::ByDriver, false) => (4, &bare_by_driver),
            (Self::ByDriver, true) => (5, &bare_by_driver_answer),
        };
        let table = || Table::image().with(VECTOR.get(), stub);
        TABLES[nth].call_once(table).install()
    }
}
