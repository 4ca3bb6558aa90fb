// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each CPU's segments, and the stacks of its exceptions.
//!
//! In long mode a segment table holds a code segment and the task state, and the task state holds
//! the stacks that an exception or a non-maskable interrupt switches to, whatever the stack of
//! the interrupted code is worth.
//!
//! Source: Intel SDM vol. 3, "Task Management in 64-bit Mode", "Interrupt Stack Table".

use core::cell::UnsafeCell;

use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::tables::load_tss;
use x86_64::registers::segmentation::{CS, SS, Segment};
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

/// Size of a stack of exceptions, in bytes.
pub const EXCEPTION_STACK: usize = 16 * 1024;

/// Place of the stack of fatal exceptions in the table of stacks.
pub const FATAL_STACK: u16 = 0;
/// Place of that of non-maskable interrupts.
pub const NMI_STACK: u16 = 1;

/// A stack: memory that only a stack pointer leads to.
#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; EXCEPTION_STACK]>);

// SAFETY: no reference to the contents is ever formed; one CPU's task state points there.
unsafe impl Sync for Stack {}

/// The boot CPU's stacks of exceptions.
static BOOT_STACKS: [Stack; 2] = [const { Stack(UnsafeCell::new([0; EXCEPTION_STACK])) }; 2];

/// The task state with the stacks of exceptions, by their tops.
pub const fn stacks(tops: [usize; 2]) -> TaskStateSegment {
    let mut tss = TaskStateSegment::new();
    let [fatal, nmi] = tops;
    tss.interrupt_stack_table[FATAL_STACK as usize] = VirtAddr::new_truncate(fatal as u64);
    tss.interrupt_stack_table[NMI_STACK as usize] = VirtAddr::new_truncate(nmi as u64);
    tss
}

/// Gives the boot CPU segments and task state.
pub fn install_boot() {
    static TSS: Once<TaskStateSegment> = Once::new();
    static GDT: Once<Segments> = Once::new();
    let top = |stack: &'static Stack| stack.0.get().addr() + EXCEPTION_STACK;
    let tss = TSS.call_once(|| stacks(BOOT_STACKS.each_ref().map(top)));
    let segments = GDT.call_once(|| Segments::new(tss));
    // SAFETY: the table is static.
    unsafe { segments.load() };
}

/// A CPU's segments. The CPU marks the task state in them as in use, for good: each start of a
/// CPU makes them anew.
pub struct Segments {
    table: GlobalDescriptorTable,
    code: SegmentSelector,
    tss: SegmentSelector,
}

impl Segments {
    /// Code, and the task state `tss`.
    pub fn new(tss: &'static TaskStateSegment) -> Self {
        let mut table = GlobalDescriptorTable::new();
        let code = table.append(Descriptor::kernel_code_segment());
        let tss = table.append(Descriptor::tss_segment(tss));
        Self { table, code, tss }
    }

    /// Makes them this CPU's, for the first time.
    ///
    /// # Safety
    /// - The value stays where it is, and alive, as long as this CPU runs.
    pub unsafe fn load(&self) {
        // SAFETY: the caller promises that the table stays; what it holds is right.
        unsafe { self.table.load_unsafe() };
        // SAFETY: the table's code segment, of the same kind as the one in use.
        unsafe { CS::set_reg(self.code) };
        // SAFETY: in ring 0 of long mode no stack segment is needed.
        unsafe { SS::set_reg(SegmentSelector::NULL) };
        // SAFETY: the table's task state, which is new.
        unsafe { load_tss(self.tss) };
    }
}
