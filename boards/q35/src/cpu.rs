// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a CPU knows of itself: the block behind the GS base, its mask, its hardware id.

use core::alloc::Layout;
use core::arch::asm;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use irq_core::topology::Place;
use irq_hal::lock::HeldRanks;
use irq_hal::platform::IrqState;
use irq_hal::{Bus, CpuIndex, Error, NodeId};
use irq_x2apic::regs::apic::IA32_APIC_BASE;
use irq_x2apic::{ApicId, Msrs, NativeCpuId, cpuid};
use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;
use x86_64::structures::tss::TaskStateSegment;

use crate::segments;

/// Bytes of the stack of a CPU other than the boot CPU, whose stack the linker script places.
const STACK: usize = 64 * 1024;

/// `RFLAGS.IF`: interrupts are let in.
const IF: usize = 1 << 9;

/// One CPU's block, on lines of its own.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct CpuBlock {
    /// The block itself: what the GS base leads to is read with one load.
    this: AtomicPtr<CpuBlock>,
    /// Top of its stack. Start-up reads it, as the next one; the boot CPU has none here.
    pub stack: usize,
    /// Its name in hardware.
    pub id: u32,
    /// Which CPU it is.
    pub index: CpuIndex,
    /// Where it stands.
    pub place: Place,
    /// Its stacks of exceptions; empty for the boot CPU.
    pub tss: TaskStateSegment,
    /// It runs our code since it was started last.
    pub here: AtomicBool,
    /// It does nothing any more, until it is started again.
    pub parked: AtomicBool,
    /// An interrupt ended its sleep.
    pub woken: AtomicBool,
    /// The timer's deadline: what it was armed for last.
    pub due: AtomicU64,
    /// The timer was armed, and its interrupt was not taken since.
    pub armed: AtomicBool,
    /// The lock ranks that it holds.
    pub held: HeldRanks,
    /// Its fatal exceptions so far.
    pub fatal: AtomicU32,
    /// Non-maskable interrupts that are expected, and those that came.
    pub nmis_due: AtomicU32,
    /// See [`nmis_due`](Self::nmis_due).
    pub nmis: AtomicU32,
    /// What the local APIC was like as firmware handed it over: `IA32_APIC_BASE`.
    pub handed_over: AtomicU64,
    /// What the handlers of scenario `icount` add to.
    pub bare_count: AtomicU64,
    /// What they answer with: a register's value, or a CPU's index plus one; 0 for no answer.
    pub bare_answer: AtomicU64,
}

/// The boot CPU's block until firmware's tables say which CPU it is.
static BOOT: CpuBlock = CpuBlock::new(CpuIndex::new(0), 0, Place::flat(CpuIndex::new(0)));

impl CpuBlock {
    /// Where the block's own address is in it.
    pub const THIS: usize = offset_of!(CpuBlock, this);

    /// A block without stacks.
    pub const fn new(index: CpuIndex, id: u32, place: Place) -> Self {
        Self {
            this: AtomicPtr::new(ptr::null_mut()),
            stack: 0,
            id,
            index,
            place,
            tss: TaskStateSegment::new(),
            here: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            due: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            held: HeldRanks::new(),
            fatal: AtomicU32::new(0),
            nmis_due: AtomicU32::new(0),
            nmis: AtomicU32::new(0),
            handed_over: AtomicU64::new(0),
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
            tss: segments::stacks([
                new_stack(segments::EXCEPTION_STACK)?,
                new_stack(segments::EXCEPTION_STACK)?,
            ]),
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
    let at = ptr::from_ref(block);
    block.this.store(at.cast_mut(), Relaxed);
    GsBase::write(VirtAddr::from_ptr(at));
}

/// This CPU's block.
#[inline(always)]
pub fn this() -> &'static CpuBlock {
    let block: *const CpuBlock;
    // SAFETY: reads the block's first word: `install`, the first thing that runs on a CPU, set
    // both the GS base and that word.
    unsafe {
        asm!(
            "mov {block}, gs:[{this}]",
            block = out(reg) block,
            this = const CpuBlock::THIS,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: the word is the address of a static block.
    unsafe { &*block }
}

/// Notes how this CPU's local APIC was handed over, before anything changes it.
pub fn note_hand_over() {
    // SAFETY: the register is read, in ring 0.
    let msrs = unsafe { Msrs::new() };
    this().handed_over.store(msrs.load(IA32_APIC_BASE), Relaxed);
}

/// The name in hardware of this CPU.
pub fn id() -> Option<ApicId> {
    cpuid::apic_id(&NativeCpuId)
}

/// Masks interrupts and returns the mask as it was.
#[inline(always)]
pub fn irq_save() -> IrqState {
    let flags: usize;
    // SAFETY: the instructions change the interrupt mask alone. Not `nomem`: accesses of the
    // masked section must not move out of it.
    unsafe {
        asm!("pushfq", "pop {flags}", "cli", flags = out(reg) flags, options(preserves_flags));
    }
    IrqState(flags)
}

/// Puts the mask back.
///
/// # Safety
/// - `state` came from the latest unmatched [`irq_save`] on this CPU.
#[inline(always)]
pub unsafe fn irq_restore(state: IrqState) {
    // Otherwise interrupts were masked before, and are.
    if state.0 & IF != 0 {
        unmask();
    }
}

/// Lets interrupts in, once vectors and controller are ready for them.
#[inline(always)]
pub fn unmask() {
    // SAFETY: vectors are installed, so what comes in is handled. Not `nomem`, as in
    // `irq_save`.
    unsafe {
        asm!("sti", options(nostack, preserves_flags));
    }
}

/// The body of a spin.
pub fn relax() {
    // SAFETY: a hint. Not `nomem`: what is polled is read again after it.
    unsafe {
        asm!("pause", options(nostack, preserves_flags));
    }
}
