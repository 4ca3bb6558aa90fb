// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a CPU knows of itself: the block behind TPIDR_EL1, its mask, its hardware id.

use core::arch::asm;

use aarch64_cpu::registers::{MPIDR_EL1, TPIDR_EL1};
use irq_hal::CpuIndex;
use irq_hal::lock::HeldRanks;
use irq_hal::platform::IrqState;
use tock_registers::interfaces::{Readable, Writeable};

/// One CPU's block.
#[derive(Debug)]
pub struct CpuBlock {
    /// Which CPU it is.
    pub index: CpuIndex,
    /// The lock ranks that it holds.
    pub held: HeldRanks,
}

/// The boot CPU's block.
static BOOT: CpuBlock = CpuBlock {
    index: CpuIndex::new(0),
    held: HeldRanks::new(),
};

/// Makes this CPU the boot CPU. The first thing that Rust code does.
pub fn install_boot() {
    TPIDR_EL1.set(&raw const BOOT as u64);
}

/// This CPU's block.
pub fn this() -> &'static CpuBlock {
    let block = TPIDR_EL1.get() as *const CpuBlock;
    // SAFETY: `install_boot` set the register to a static block before anything else ran.
    unsafe { &*block }
}

/// `MPIDR_EL1` of this CPU.
pub fn mpidr() -> u64 {
    MPIDR_EL1.get()
}

/// Masks IRQs and returns the mask as it was.
#[inline(always)]
pub fn irq_save() -> IrqState {
    let daif: usize;
    // SAFETY: the instructions change the interrupt mask alone. Not `nomem`: accesses of the
    // masked section must not move out of it.
    unsafe {
        asm!("mrs {daif}, daif", "msr daifset, #2", daif = out(reg) daif, options(nostack, preserves_flags));
    }
    IrqState(daif)
}

/// Puts the mask back.
///
/// # Safety
/// - `state` came from the latest unmatched [`irq_save`] on this CPU.
#[inline(always)]
pub unsafe fn irq_restore(state: IrqState) {
    // SAFETY: the value was read from the same register. Not `nomem`, as in `irq_save`.
    unsafe {
        asm!("msr daif, {daif}", daif = in(reg) state.0, options(nostack, preserves_flags));
    }
}

/// Lets IRQs and SErrors in, once vectors and controller are ready for them.
pub fn unmask() {
    // SAFETY: vectors are installed, so what comes in is handled. Not `nomem`, as in
    // `irq_save`.
    unsafe {
        asm!("msr daifclr, #6", options(nostack, preserves_flags));
    }
}

/// The body of a spin.
pub fn relax() {
    // SAFETY: a hint. Not `nomem`: what is polled is read again after it.
    unsafe {
        asm!("yield", options(nostack, preserves_flags));
    }
}

/// Bytes of the smallest data cache line of the machine (`CTR_EL0.DminLine`, words as a power
/// of two).
pub fn data_cache_line() -> usize {
    let ctr: usize;
    // SAFETY: reads an identification register.
    unsafe {
        asm!("mrs {ctr}, ctr_el0", ctr = out(reg) ctr, options(nomem, nostack, preserves_flags));
    }
    4 << (ctr >> 16 & 0xf)
}
