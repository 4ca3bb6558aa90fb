// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeping with interrupts masked, which the CPU cannot: `hlt` ends by an interrupt that is
//! taken.
//!
//! ```text
//! the table of a sleeping CPU    every vector: "woken", and back with interrupts masked
//!   the timer, if there is an end: its entry lent to WAKE
//!     sti; hlt                   what comes is in service now, and nobody has handled it
//!   the timer as it was
//! the image's table
//! end of what came, and the same vector to oneself: it waits, as if it had not been taken
//! ```
//! It comes again when interrupts are let in, so that a caller sees what an architecture shows
//! whose CPUs wake up by what waits. All interrupts of the machine so far are edges.
//!
//! [`WAKE`] ends a sleep and is never handled: where it comes late, the image's table ends it.
//!
//! The local APIC is the driver's; what is borrowed here for the length of a sleep is given back
//! as it was.

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;

use irq_hal::Bus;
use irq_hal::platform::Ticks;
use irq_x2apic::regs::apic::{
    IA32_X2APIC_CUR_COUNT, IA32_X2APIC_EOI, IA32_X2APIC_INIT_COUNT, IA32_X2APIC_IRR0,
    IA32_X2APIC_ISR0, IA32_X2APIC_LVT_TIMER, IA32_X2APIC_SELF_IPI,
};
use irq_x2apic::{Msrs, Vector};

use crate::cpu::{self, CpuBlock};
use crate::interrupts::TIMER;
use crate::{timer, vectors};

/// The vector that ends a sleep.
pub const WAKE: Vector = const { Vector::new(0x30).unwrap() };

/// Mask of an LVT entry.
const MASKED: u64 = 1 << 16;

/// Sleeps until an interrupt waits, at most until `until`.
///
/// # Context
/// Masked, on a CPU whose local APIC is up.
pub fn sleep(until: Option<Ticks>) {
    // SAFETY: the CPU is in x2APIC mode, and masked: the registers are used as their owner does,
    // and it finds them as they were.
    let msrs = unsafe { Msrs::new() };
    let block = cpu::this();
    let lent = match until.map(|at| Lent::new(msrs, block, at)) {
        Some(Err(Due)) => return cpu::relax(),
        Some(Ok(lent)) => lent,
        None => None,
    };
    block.woken.store(false, Relaxed);
    let table = vectors::install_sleepers();
    // SAFETY: every vector that can come keeps all registers. Not `nomem`: what was stored
    // before is seen by whoever wakes this CPU.
    unsafe { asm!("sti", "hlt", "cli", options(preserves_flags)) };
    drop(table);
    drop(lent);
    if block.woken.load(Relaxed) {
        put_back(msrs);
    }
}

/// Lets the vector that woke the CPU wait again.
fn put_back(msrs: Msrs) {
    for bank in (0..8).rev() {
        let bits: u64 = msrs.load(IA32_X2APIC_ISR0 + bank);
        if let Some(bit) = (bits as u32).checked_ilog2() {
            let vector = 32 * bank as u64 + u64::from(bit);
            msrs.store(IA32_X2APIC_EOI, 0);
            if vector != u64::from(WAKE.get()) {
                msrs.store(IA32_X2APIC_SELF_IPI, vector);
            }
            return;
        }
    }
}

/// The timer's own interrupt is due and has not come: an emulator's count can be 0 before.
struct Due;

/// The timer while it ends a sleep; as it was before when dropped.
struct Lent {
    msrs: Msrs,
    entry: u64,
    armed: bool,
}

impl Lent {
    /// Arms it for `at`; nothing to do where its own deadline comes first, and wakes too.
    fn new(msrs: Msrs, block: &CpuBlock, at: Ticks) -> Result<Option<Self>, Due> {
        let entry: u64 = msrs.load(IA32_X2APIC_LVT_TIMER);
        let left: u64 = msrs.load(IA32_X2APIC_CUR_COUNT);
        let counts = timer::counts_until(at);
        // What expires masked is lost.
        if entry & MASKED == 0 {
            match left {
                0 if block.armed.load(Relaxed) => return Err(Due),
                left if left != 0 && left <= u64::from(counts) => return Ok(None),
                _ => {}
            }
        }
        msrs.store(IA32_X2APIC_INIT_COUNT, 0);
        // If it came in between, it waits.
        let bank: u64 = msrs.load(IA32_X2APIC_IRR0 + usize::from(TIMER.get() / 32));
        let armed = left != 0 && bank & 1 << (TIMER.get() % 32) == 0;
        // One-shot mode is 0.
        msrs.store(IA32_X2APIC_LVT_TIMER, WAKE.get().into());
        msrs.store(IA32_X2APIC_INIT_COUNT, counts.into());
        Ok(Some(Self { msrs, entry, armed }))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.msrs.store(IA32_X2APIC_INIT_COUNT, 0);
        self.msrs.store(IA32_X2APIC_LVT_TIMER, self.entry);
        if self.armed {
            let due = Ticks(cpu::this().due.load(Relaxed));
            let counts = timer::counts_until(due);
            self.msrs.store(IA32_X2APIC_INIT_COUNT, counts.into());
        }
    }
}
