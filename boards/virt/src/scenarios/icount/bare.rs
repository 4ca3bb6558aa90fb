// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vectors and handlers without irq-core: by hand, and by the driver alone.

use core::arch::global_asm;
use core::mem::offset_of;

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::VBAR_EL1;
use irq_core::{Flow, IrqContext};
use irq_gicv3::Sgi;
use irq_hal::percpu::OnCpu;
use tock_registers::interfaces::Writeable;

use crate::cpu::{self, CpuBlock};
use crate::interrupts::{System, system};
use crate::vectors;

/// The SGI of the paths without irq-core.
pub const SGI: u8 = 1;

// A table of vectors whose interrupt slot saves what a call may change and calls `handler`, by
// hand with the acknowledge before it and the end behind it; all other slots are the image's.
global_asm!(
    r#"
    .macro VECTORS name, handler, by_hand
    .balign 0x800
\name:
    .set    slot, 0
    .rept   16
    .balign 0x80
    .if     slot == 5
    stp     x0, x1, [sp, #-160]!
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x30, [sp, #144]
    .if     \by_hand
    mrs     x0, S3_0_C12_C12_0          // ICC_IAR1_EL1
    dsb     sy
    isb
    .endif
    bl      \handler
    .if     \by_hand
    msr     S3_0_C12_C12_1, x0          // ICC_EOIR1_EL1
    .endif
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x30, [sp, #144]
    ldp     x0, x1, [sp], #160
    eret
    .else
    b       vector_table + slot * 0x80
    .endif
    .set    slot, slot + 1
    .endr
    .balign 0x80
    .endm

    .section .text.vectors, "ax"
    .global bare_vectors
    .global bare_answer_vectors
    .global driver_vectors
    .global driver_answer_vectors
    VECTORS bare_vectors, bare_count, 1
    VECTORS bare_answer_vectors, bare_with_answer, 1
    VECTORS driver_vectors, {driver_count}, 0
    VECTORS driver_answer_vectors, {driver_answer}, 0

// The handlers keep x0, the INTID, for the end.
bare_count:
    mrs     x1, tpidr_el1
    ldr     x2, [x1, #{count}]
    add     x2, x2, #1
    str     x2, [x1, #{count}]
    ret

bare_with_answer:
    mrs     x1, tpidr_el1
    ldr     x2, [x1, #{count}]
    add     x2, x2, #1
    str     x2, [x1, #{count}]
    ldr     x3, [x1, #{answer}]
    dsb     ishst
    msr     S3_0_C12_C11_5, x3          // ICC_SGI1R_EL1
    isb
    ret
    "#,
    count = const offset_of!(CpuBlock, bare_count),
    answer = const offset_of!(CpuBlock, bare_answer),
    driver_count = sym driver_count,
    driver_answer = sym driver_answer,
);

unsafe extern "C" {
    safe static bare_vectors: u8;
    safe static bare_answer_vectors: u8;
    safe static driver_vectors: u8;
    safe static driver_answer_vectors: u8;
}

/// The interrupt slot's call where the driver is used alone: counts.
extern "C" fn driver_count() {
    through_driver(|_, block| block.count());
}

/// Likewise; sends the block's answer too.
extern "C" fn driver_answer() {
    through_driver(|system, block| {
        block.count();
        if let (Some(to), Some(sgi)) = (block.answers_to(), Sgi::new(SGI)) {
            // What goes wrong shows as an answer that never comes.
            let _ = system.gic.send_sgi(sgi, to);
        }
    });
}

#[inline(always)]
fn through_driver(handler: impl FnOnce(&System, &CpuBlock)) {
    let (Ok(system), block) = (system(), cpu::this()) else {
        return;
    };
    // SAFETY: the vector masked, and returns after this; the block is this CPU's.
    let on = unsafe { OnCpu::new(block.index) };
    if let Some((_, active)) = system.gic.ack(&IrqContext::new(on, None, None)) {
        handler(system, block);
        system.gic.end(active);
    }
}

/// A table of vectors.
#[derive(Clone, Copy)]
pub struct Table(&'static u8);

impl Table {
    /// The hand-written path; its handler counts.
    pub fn by_hand() -> Self {
        Self(&bare_vectors)
    }

    /// Likewise; its handler sends the block's answer too.
    pub fn by_hand_with_answer() -> Self {
        Self(&bare_answer_vectors)
    }

    /// The driver's acknowledge and end; the handler counts.
    pub fn by_driver() -> Self {
        Self(&driver_vectors)
    }

    /// Likewise; the handler sends the block's answer too.
    pub fn by_driver_with_answer() -> Self {
        Self(&driver_answer_vectors)
    }

    /// Makes it this CPU's.
    pub fn install(self) -> Installed {
        VBAR_EL1.set(core::ptr::from_ref(self.0).addr() as u64);
        barrier::isb(barrier::SY);
        Installed
    }
}

/// A table that is this CPU's while the value lives; then the image's is again.
pub struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        vectors::install();
    }
}
