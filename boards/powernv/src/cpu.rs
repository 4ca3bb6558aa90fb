// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a CPU knows of itself: the block behind r13, its mask, its hardware id, its control
//! registers.

use core::alloc::Layout;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use irq_core::topology::Place;
use irq_hal::lock::HeldRanks;
use irq_hal::platform::IrqState;
use irq_hal::{CpuIndex, Error, NodeId};
use irq_xive::Pir;

use crate::vectors;

/// Bytes of the stack of a CPU other than the boot CPU, whose stack the linker script places.
const STACK: usize = 64 * 1024;

/// One CPU's block, on lines of its own.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct CpuBlock {
    /// Top of its stack. Start-up reads it; the boot CPU has none here.
    pub stack: *const u8,
    /// Top of its stack of fatal exceptions.
    pub emergency_stack: *const u8,
    /// Its name in hardware, as wide as the register that start-up compares it with.
    pub pir: u64,
    /// Which CPU it is.
    pub index: CpuIndex,
    /// Where it stands.
    pub place: Place,
    /// The lock ranks that it holds.
    pub held: HeldRanks,
    /// When its timer is to interrupt, in ticks; `u64::MAX` for never. The CPU's own.
    pub timer: AtomicU64,
    /// Its fatal exceptions so far.
    pub fatal: AtomicU32,
    /// For scenario `icount`.
    pub bare: Bare,
}

/// What the hand-written handlers of scenario `icount` find in their CPU's block; the others count
/// there too.
#[repr(C)]
#[derive(Debug)]
pub struct Bare {
    /// What handlers add to.
    pub count: AtomicU64,
    /// What they answer with: a trigger page, or a CPU's index plus one; 0 for no answer.
    pub answer: AtomicU64,
    /// The queue's address.
    pub queue: AtomicU64,
    /// Where it is read, in bytes; bit 16 is the generation.
    pub at: AtomicU64,
    /// Where the CPU acknowledges.
    pub acknowledge: AtomicU64,
    /// Its CPPR.
    pub cppr: AtomicU64,
    /// Where the source is ended.
    pub end: AtomicU64,
    /// Where it is triggered.
    pub trigger: AtomicU64,
}

impl Bare {
    /// Nothing yet.
    const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            answer: AtomicU64::new(0),
            queue: AtomicU64::new(0),
            at: AtomicU64::new(0),
            acknowledge: AtomicU64::new(0),
            cppr: AtomicU64::new(0),
            end: AtomicU64::new(0),
            trigger: AtomicU64::new(0),
        }
    }
}

// SAFETY: the two pointers are only ever loaded into a stack pointer of the block's CPU.
unsafe impl Sync for CpuBlock {}
// SAFETY: likewise.
unsafe impl Send for CpuBlock {}

/// The boot CPU's block until the devicetree says which CPU it is.
pub static BOOT: CpuBlock = CpuBlock {
    emergency_stack: vectors::EMERGENCY_STACK.top(),
    ..CpuBlock::new(CpuIndex::new(0), Pir::new(0), Place::flat(CpuIndex::new(0)))
};

/// Where start-up of another CPU looks for its block.
#[repr(C)]
pub struct Blocks {
    /// The first of them.
    pub first: UnsafeCell<*const CpuBlock>,
    /// How many there are.
    pub count: UnsafeCell<usize>,
}

// SAFETY: written once, by `publish`, before any reader is started.
unsafe impl Sync for Blocks {}

/// The blocks of all CPUs, once they are known.
pub static BLOCKS: Blocks = Blocks {
    first: UnsafeCell::new(core::ptr::null()),
    count: UnsafeCell::new(0),
};

/// Lets other CPUs that start find their blocks.
///
/// # Safety
/// - No other CPU has been started yet.
pub unsafe fn publish(blocks: &'static [CpuBlock]) {
    // SAFETY: the caller promises that nobody reads it.
    unsafe { BLOCKS.first.get().write(blocks.as_ptr()) };
    // SAFETY: likewise.
    unsafe { BLOCKS.count.get().write(blocks.len()) };
    // Seen by whom OPAL starts afterwards.
    irq_hal::bus::arch::publish();
}

impl CpuBlock {
    /// A block without stacks.
    pub const fn new(index: CpuIndex, pir: Pir, place: Place) -> Self {
        Self {
            stack: core::ptr::null(),
            emergency_stack: core::ptr::null(),
            pir: pir.get() as u64,
            index,
            place,
            held: HeldRanks::new(),
            timer: AtomicU64::new(u64::MAX),
            fatal: AtomicU32::new(0),
            bare: Bare::new(),
        }
    }

    /// Its name in hardware.
    pub const fn pir(&self) -> Pir {
        Pir::new(self.pir as u32)
    }

    /// Counts in [`Bare::count`]. For the CPU itself, masked.
    #[inline]
    pub fn count(&self) {
        let count = &self.bare.count;
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    /// The CPU in [`Bare::answer`].
    #[inline]
    pub fn answers_to(&self) -> Option<CpuIndex> {
        let index = self.bare.answer.load(Relaxed).checked_sub(1)?;
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

    /// Likewise with the stack of fatal exceptions alone: the boot CPU's.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_emergency_stack(self) -> Result<Self, Error> {
        Ok(Self {
            emergency_stack: new_stack(vectors::EMERGENCY_STACK_SIZE)?,
            ..self
        })
    }
}

/// The top of a new stack.
fn new_stack(bytes: usize) -> Result<*const u8, Error> {
    let none = Error::OutOfMemory {
        bytes,
        node: NodeId::FLAT,
    };
    let layout = Layout::from_size_align(bytes, 16).map_err(|_| none)?;
    // SAFETY: the size is not zero.
    let block = unsafe { alloc::alloc::alloc(layout) };
    match block.is_null() {
        true => Err(none),
        false => Ok(block.wrapping_add(bytes)),
    }
}

/// Makes `block` this CPU's.
pub fn install(block: &'static CpuBlock) {
    Spr::<304>::set(core::ptr::from_ref(block).addr() as u64);
    // SAFETY: the compiler leaves r13 alone; the value is the block's address. Not `nomem`: what
    // follows finds the block there.
    unsafe {
        asm!("mr 13, {block}", block = in(reg) block, options(nostack, preserves_flags));
    }
}

/// This CPU's block.
#[inline(always)]
pub fn this() -> &'static CpuBlock {
    let block: *const CpuBlock;
    // SAFETY: reads a register.
    unsafe {
        asm!("mr {block}, 13", block = out(reg) block, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: start-up set the register to a static block before anything else ran.
    unsafe { &*block }
}

/// The processor identification register of this CPU.
pub fn pir() -> Pir {
    Pir::new(Spr::<1023>::get() as u32)
}

/// A special purpose register, by its number.
pub struct Spr<const NUMBER: u16>;

impl<const NUMBER: u16> Spr<NUMBER> {
    /// Its value. Not cached by the compiler.
    #[inline(always)]
    pub fn get() -> u64 {
        let value;
        // SAFETY: the registers that this image reads have no side effect.
        unsafe {
            asm!("mfspr {value}, {number}", value = out(reg) value, number = const NUMBER, options(nostack, preserves_flags));
        }
        value
    }

    /// Writes it.
    #[inline(always)]
    fn set(value: u64) {
        // SAFETY: private to this file, which writes those that it documents. Not `nomem`.
        unsafe {
            asm!("mtspr {number}, {value}", value = in(reg) value, number = const NUMBER, options(nostack, preserves_flags));
        }
    }
}

/// `MSR.EE`: interrupts come in.
const EE: usize = 1 << 15;
/// `MSR.RI`: an exception can be recovered from.
const RI: usize = 1 << 1;

/// `LPCR`, the bits that decide how interrupts come (Power ISA 3.0 book III, "Logical
/// Partitioning Control Register").
mod lpcr {
    /// Large decrementer.
    pub const LD: u64 = 1 << 17;
    /// External interrupts do not come to the hypervisor.
    pub const HEIC: u64 = 1 << 4;
    /// External interrupts use SRR0 and SRR1.
    pub const LPES0: u64 = 1 << 3;
    /// Hypervisor virtualization interrupts come.
    pub const HVICE: u64 = 1 << 1;
}

/// The largest count of the decrementer: 56 bits, one of them the sign (`ibm,dec-bits` of both
/// generations).
const DECREMENTER_MAX: u64 = (1 << 55) - 1;

/// Sets the control registers of this CPU as the image wants them: the decrementer far away, the
/// XIVE's interrupts routed to their vector. Interrupts stay masked.
pub fn set_up() {
    use lpcr::*;
    Spr::<318>::set(Spr::<318>::get() | LD | HEIC | LPES0 | HVICE);
    synchronize();
    // Before interrupts come in for the first time: firmware leaves it expired.
    Spr::<22>::set(DECREMENTER_MAX);
    // `stop` without a change of state: it is waked by any interrupt, and goes on behind itself.
    Spr::<855>::set(0);
    synchronize();
}

/// Whether the XIVE's interrupts come to their vector on this CPU.
pub fn takes_virtualization_interrupts() -> bool {
    Spr::<318>::get() & lpcr::HVICE != 0
}

/// Routes the XIVE's interrupts of this CPU to their vector, or to none.
pub fn take_virtualization_interrupts(take: bool) {
    let others = Spr::<318>::get() & !lpcr::HVICE;
    Spr::<318>::set(others | if take { lpcr::HVICE } else { 0 });
    synchronize();
}

/// Context synchronization: what was set before holds for what comes after.
fn synchronize() {
    // SAFETY: a barrier. Not `nomem`.
    unsafe { asm!("isync", options(nostack, preserves_flags)) };
}

/// Sets the decrementer, to be negative in `ticks`.
pub fn set_decrementer(ticks: u64) {
    Spr::<22>::set(ticks.min(DECREMENTER_MAX));
}

/// Masks interrupts and returns the mask as it was.
#[inline(always)]
pub fn irq_save() -> IrqState {
    let msr: usize;
    // SAFETY: with L = 1 the instruction changes EE and RI alone. Not `nomem`: accesses of the
    // masked section must not move out of it.
    unsafe {
        asm!(
            "mfmsr {msr}",
            "mtmsrd {masked}, 1",
            msr = out(reg) msr,
            masked = in(reg) RI,
            options(nostack, preserves_flags),
        );
    }
    IrqState(msr)
}

/// Puts the mask back.
///
/// # Safety
/// - `state` came from the latest unmatched [`irq_save`] on this CPU.
#[inline(always)]
pub unsafe fn irq_restore(state: IrqState) {
    // SAFETY: the value was read from the same register. Not `nomem`, as in `irq_save`.
    unsafe {
        asm!("mtmsrd {msr}, 1", msr = in(reg) state.0, options(nostack, preserves_flags));
    }
}

/// Lets interrupts in, once vectors and controller are ready for them.
pub fn unmask() {
    // SAFETY: vectors are installed, so what comes in is handled. Not `nomem`, as in
    // `irq_save`.
    unsafe {
        asm!("mtmsrd {msr}, 1", msr = in(reg) EE | RI, options(nostack, preserves_flags));
    }
}

/// Sleeps until an interrupt is pending. With interrupts masked it goes on behind the
/// instruction.
#[inline(always)]
pub fn stop() {
    // SAFETY: PSSCR is 0, as `set_up` left it. What was stored before is on its way. Not
    // `nomem`: what is looked at afterwards is read afterwards. In 1.95's assembler the
    // instruction has no name.
    unsafe {
        asm!(
            "sync",
            ".long 0x4c0002e4",
            options(nostack, preserves_flags)
        );
    }
}

/// The body of a spin: gives the other threads of the core, or under an emulator the other CPUs,
/// a turn.
#[inline(always)]
pub fn relax() {
    // SAFETY: a hint. Not `nomem`: what is polled is read again after it.
    unsafe {
        asm!("or 31, 31, 31", options(nostack, preserves_flags));
    }
}
