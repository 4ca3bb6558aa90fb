// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledge and end: the hot path. No lock, no allocation; one register write an interrupt.

use irq_core::{Flow, Irq, IrqContext};
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error, Platform};

use super::Apic;
use crate::local_apic::Errors;
use crate::regs::apic::ApicBus;
use crate::regs::lvt::Lvt;
use crate::vector::{FIRST, Vector};

/// An interrupt that the CPU took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Active {
    vector: u8,
    cpu: CpuIndex,
}

impl Active {
    /// Its vector.
    pub const fn vector(&self) -> u8 {
        self.vector
    }
}

/// What one CPU met besides its interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Entries by the spurious vector. They were not ended.
    pub spurious: u64,
    /// Entries without a vector, or with one below 32. Ended where the local APIC had given it.
    pub unknown: u64,
    /// Interrupts of whoever was here before that were ended when the CPU came online.
    pub leftovers: u64,
    /// Errors that the local APIC reported, by bit of its register: how often
    /// [`Apic::take_errors`] found each.
    pub errors: [u64; 8],
}

/// More of it, on a line that this CPU alone writes.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// What `cpu` met besides its interrupts.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// Any, from any CPU. Touches no hardware.
    pub fn counts(&self, cpu: CpuIndex) -> Result<Counts, Error> {
        let slot = self.slot(cpu)?;
        Ok(Counts {
            spurious: slot.spurious.load(Relaxed),
            unknown: slot.unknown.load(Relaxed),
            leftovers: slot.leftovers.load(Relaxed),
            errors: core::array::from_fn(|bit| slot.errors[bit].load(Relaxed)),
        })
    }

    /// Takes the errors of the running CPU's local APIC that came since the last call, and counts
    /// them: what an action of [`error_irq`](Self::error_irq) does.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU, masked.
    pub fn take_errors(&self, on: &OnCpu) -> Result<Errors, Error> {
        let slot = self.online_slot(on.cpu())?;
        let errors = self.apic().take_errors();
        for (bit, counter) in slot.errors.iter().enumerate() {
            if errors.bits() & 1 << bit != 0 {
                add(counter, 1);
            }
        }
        Ok(errors)
    }

    /// Opens the entry of the performance counters again, which the hardware masked when it
    /// fired. Where it delivers a vector, the end of the interrupt does so; a handler of NMIs
    /// calls this.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU; also in a non-maskable interrupt.
    pub fn reopen_perf(&self, on: &OnCpu) -> Result<(), Error> {
        let slot = self.online_slot(on.cpu())?;
        if Lvt::Perf.exists(slot.max_lvt.load(Relaxed)) {
            self.apic().set_entry(Lvt::Perf, slot.entry(Lvt::Perf));
        }
        Ok(())
    }

    /// Counts an entry that led to no interrupt of ours, and ends what the local APIC gave.
    #[cold]
    fn not_ours(&self, cpu: CpuIndex, vector: Option<u32>) {
        let Some(slot) = self.slots.get(cpu) else {
            return;
        };
        let vector = vector.and_then(|vector| u8::try_from(vector).ok());
        if vector == Some(self.hot.spurious.get()) {
            // Nothing is in service by it: an end would be somebody else's.
            add(&slot.spurious, 1);
            return;
        }
        add(&slot.unknown, 1);
        let vector = vector.and_then(Vector::new);
        if vector.is_some_and(|vector| self.apic().in_service(vector)) {
            self.apic().eoi();
        }
    }
}

impl<P, M> Flow for Apic<P, M>
where
    P: Platform,
    M: ApicBus + Sync,
{
    type Active = Active;

    #[inline]
    fn ack(&self, cx: &IrqContext<'_>) -> Option<(Irq, Active)> {
        let cpu = cx.cpu();
        let number = cx.vector();
        match number.and_then(|number| u8::try_from(number).ok()) {
            Some(vector @ FIRST..) if vector != self.hot.spurious.get() => {
                let irq = self.hot.irqs.irq(u32::from(vector - FIRST))?;
                Some((irq, Active { vector, cpu }))
            }
            _ => {
                self.not_ours(cpu, number);
                None
            }
        }
    }

    #[inline]
    fn end(&self, active: Active) {
        self.apic().eoi();
        if active.vector == self.hot.perf {
            self.end_perf(active.cpu);
        }
    }

    /// Never: an EOI ends both.
    fn defer(&self, active: Active) -> Result<(), Error> {
        self.hand_over(active)
    }

    /// Never.
    fn hand_over(&self, _: Active) -> Result<(), Error> {
        Err(Error::Unsupported {
            feature: "an end of the priority alone by a local APIC",
        })
    }
}

impl<P: Platform, M: ApicBus> Apic<P, M> {
    #[cold]
    fn end_perf(&self, cpu: CpuIndex) {
        // The vector may have come by an IPI where there is no such entry.
        if let Some(slot) = self.slots.get(cpu)
            && Lvt::Perf.exists(slot.max_lvt.load(Relaxed))
        {
            self.apic().set_entry(Lvt::Perf, slot.entry(Lvt::Perf));
        }
    }
}
