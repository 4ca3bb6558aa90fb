// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheme to compare with: one counting descriptor for the whole system, as kernels had it.
//!
//! The mailboxes are ours, and so is the controller's driver. What differs is the bookkeeping of
//! a receive: every CPU counts on the one descriptor, and keeps the window of its detector there
//! too, whether the interrupt was handled or not.

use irq_core::cpu::{CpuIndex, OnCpu};
use irq_core::{Flow, IrqContext, Kick};
use irq_hal::Error;
use irq_hal::atomic::{AtomicU32, AtomicU64, Ordering};
use irq_hal::percpu::CachePadded;

/// How many interrupts the detector looks at.
const WINDOW: u32 = 100_000;

/// The one descriptor.
#[derive(Debug, Default)]
struct Descriptor {
    taken: AtomicU64,
    /// Interrupts in the window so far, and those of them that nobody owned up to.
    seen: AtomicU32,
    unhandled: AtomicU32,
    /// Which of all was the last that nobody owned up to.
    last_unhandled: AtomicU64,
}

/// IPIs of one kind, all on one descriptor.
#[derive(Debug)]
pub struct OneDescriptor {
    descriptor: CachePadded<Descriptor>,
    mailboxes: Vec<CachePadded<AtomicU32>>,
}

impl OneDescriptor {
    /// For `cpus` CPUs.
    pub fn new(cpus: u32) -> Self {
        Self {
            descriptor: CachePadded::default(),
            mailboxes: (0..cpus).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Sends to `to`; whether that took a ring.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn send(&self, kick: &impl Kick, to: CpuIndex) -> Result<bool, Error> {
        let mut rung = false;
        kick.kick(to, || {
            rung = self.mailboxes[to.index()].swap(1, Ordering::AcqRel) == 0;
            rung
        })?;
        Ok(rung)
    }

    /// One entry of the CPU of `on`.
    pub fn enter(&self, flow: &impl Flow, on: &OnCpu) {
        // SAFETY: `on` promises the same, for longer than this call.
        let entry = IrqContext::new(unsafe { OnCpu::new(on.cpu()) }, None, None);
        let Some((_, active)) = flow.ack(&entry) else {
            return;
        };
        let handled = self.mailboxes[on.cpu().index()].swap(0, Ordering::AcqRel) != 0;
        self.note(handled);
        flow.end(active);
    }

    fn note(&self, handled: bool) {
        let all = &self.descriptor;
        let number = all.taken.fetch_add(1, Ordering::Relaxed);
        if !handled {
            all.unhandled.fetch_add(1, Ordering::Relaxed);
            all.last_unhandled.store(number, Ordering::Relaxed);
        }
        if all.seen.fetch_add(1, Ordering::Relaxed) + 1 == WINDOW {
            all.seen.store(0, Ordering::Relaxed);
            all.unhandled.store(0, Ordering::Relaxed);
        }
    }

    /// How many interrupts were taken, over all CPUs.
    pub fn taken(&self) -> u64 {
        self.descriptor.taken.load(Ordering::Relaxed)
    }
}
