// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a CPU knows of itself: the block behind TPIDR_EL1, its mask, its hardware id.

use core::alloc::Layout;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use aarch64_cpu::registers::{MPIDR_EL1, TPIDR_EL1};
use irq_core::topology::Place;
use irq_gicv3::Mpidr;
use irq_hal::lock::HeldRanks;
use irq_hal::platform::IrqState;
use irq_hal::{CpuIndex, Error, NodeId};
use tock_registers::interfaces::{Readable, Writeable};

use crate::vectors;

/// Bytes of the stack of a CPU other than the boot CPU, whose stack the linker script places.
const STACK: usize = 64 * 1024;

/// One CPU's block, on lines of its own.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct CpuBlock {
    /// Top of its stack. Start-up reads it, as the next one; the boot CPU has none here.
    pub stack: usize,
    /// Top of its stack of fatal exceptions.
    pub emergency_stack: usize,
    /// Which CPU it is.
    pub index: CpuIndex,
    /// Its name in hardware.
    pub mpidr: Mpidr,
    /// Where it stands.
    pub place: Place,
    /// The lock ranks that it holds.
    pub held: HeldRanks,
    /// Its fatal exceptions so far.
    pub fatal: AtomicU32,
    /// What the handlers of scenario `icount` add to.
    pub bare_count: AtomicU64,
    /// What they answer with: a register's value, or a CPU's index plus one; 0 for no answer.
    pub bare_answer: AtomicU64,
}

/// The boot CPU's block until the devicetree says which CPU it is.
static BOOT: CpuBlock = CpuBlock::new(
    CpuIndex::new(0),
    Mpidr::new(0),
    Place::flat(CpuIndex::new(0)),
);

impl CpuBlock {
    /// A block without stacks.
    pub const fn new(index: CpuIndex, mpidr: Mpidr, place: Place) -> Self {
        Self {
            stack: 0,
            emergency_stack: 0,
            index,
            mpidr,
            place,
            held: HeldRanks::new(),
            fatal: AtomicU32::new(0),
            bare_count: AtomicU64::new(0),
            bare_answer: AtomicU64::new(0),
        }
    }

    /// Counts in [`bare_count`](Self::bare_count). For the CPU itself, masked.
    #[inline]
    pub fn count(&self) {
        self.bare_count
            .store(self.bare_count.load(Relaxed) + 1, Relaxed);
    }

    /// The CPU in [`bare_answer`](Self::bare_answer).
    #[inline]
    pub fn answers_to(&self) -> Option<CpuIndex> {
        let index = self.bare_answer.load(Relaxed).checked_sub(1)?;
        Some(CpuIndex::new(index as u32))
    }

    /// Likewise with stacks from the heap, which are never given back.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_stacks(self) -> Result<Self, Error> {
        Ok(Self {
            stack: new_stack(STACK)?,
            emergency_stack: new_stack(vectors::EMERGENCY_STACK_SIZE)?,
            ..self
        })
    }
}

/// The top of a new stack.
fn new_stack(bytes: usize) -> Result<usize, Error> {
    let none = Error::OutOfMemory {
        bytes,
        node: NodeId::FLAT,
    };
    let layout = Layout::from_size_align(bytes, 16).map_err(|_| none)?;
    // SAFETY: the size is not zero.
    let block = unsafe { alloc::alloc::alloc(layout) };
    match block.is_null() {
        true => Err(none),
        false => Ok(block.addr() + bytes),
    }
}

/// Makes this CPU the boot CPU. The first thing that Rust code does.
pub fn install_boot() {
    install(&BOOT);
}

/// Makes `block` this CPU's.
pub fn install(block: &'static CpuBlock) {
    TPIDR_EL1.set(core::ptr::from_ref(block).addr() as u64);
}

/// This CPU's block.
pub fn this() -> &'static CpuBlock {
    let block = TPIDR_EL1.get() as *const CpuBlock;
    // SAFETY: `install_boot`, or on another CPU `secondary_start`, set the register to a static
    // block before anything else ran.
    unsafe { &*block }
}

/// `MPIDR_EL1` of this CPU.
pub fn mpidr() -> Mpidr {
    Mpidr::new(MPIDR_EL1.get())
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
