// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledge and end: the hot path. No lock, no allocation, no line that another CPU writes.
//!
//! An acknowledge takes a priority away from this CPU's pending ones. IPIs have one of their own,
//! at which one source is routed to each CPU: that priority says it all, and no queue is read.
//! Behind the priority of devices are all events that were in the queue by then. Those that come
//! later make it pending again, and interrupt when CPPR opens. So who opens CPPR must have taken,
//! of the entries that the acknowledge stands for, all, or must see to it that another interrupt
//! comes for the rest.
//!
//! # The reserved source
//! A CPU that leaves entries behind ([`Flow::end`] and its kin, with more in the queue) *rings*: it
//! sets its reserved source to idle and triggers it. That puts an entry without meaning behind
//! those in the queue, and makes the priority pending. Nothing is lost:
//!
//! - *The trigger is always forwarded.* The state may be P=1 from an earlier ring, which nobody
//!   ended; the load sets it to idle first. Only this CPU triggers the source, masked, so nothing
//!   comes between the two. If the load overtook the trigger of the earlier ring on its way, that
//!   one is forwarded after the load, and the new one is kept in Q: one notification too, and it
//!   comes after this look at the queue, which is all that matters.
//! - *The look is not too early.* What an acknowledge stands for was in memory before it, and the
//!   CPU synchronized after it. An entry that this look does not see came after the acknowledge:
//!   its own notification is pending, untaken. If it sees one of those too, it rings for nothing,
//!   and an acknowledge finds less than it might.
//! - *The look comes before the end of the source*, so that the event that the end sends, if Q was
//!   set, costs no ring: it makes the priority pending itself.
//! - *CPPR opens last.* Whatever is pending by then interrupts.
//! - *The queue has room.* Of the entries that a ring leaves in the queue each is behind the ones
//!   that it was for. Between two rings at least one device entry is taken, so of rings whose
//!   entries are not read yet there are at most as many as device entries were in front of the
//!   oldest of them, and one: a queue takes half as many sources as it has entries, less one.

use irq_core::{Flow, Irq, IrqContext};
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::{Barrier, CpuIndex, Error, Platform};

use super::{Cpu, Xive};
use crate::esb::Pq;
use crate::firmware::Firmware;
use crate::layout::IPI;
use crate::tima::Acknowledge;

/// How many device interrupts one acknowledge may stand for before the CPU opens again: a bound,
/// so that sources which keep firing cannot keep IPIs out.
const ROUND: u8 = 64;

/// An interrupt that was taken, and the CPU that did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Active {
    cpu: CpuIndex,
    /// The place of its source.
    index: u32,
    /// CPPR of what was interrupted.
    cppr: u8,
    /// How many more this acknowledge may stand for.
    left: u8,
}

/// Entries of one CPU that led to no interrupt of ours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Acknowledges that found nothing pending.
    pub spurious: u64,
    /// Acknowledges for devices that found the queue empty: its entries had been taken together
    /// with earlier ones.
    pub empty: u64,
    /// Events that are no source's of ours, and acknowledges that are for another ring or
    /// priority.
    pub unknown: u64,
    /// How often the CPU told itself to look again.
    pub rings: u64,
    /// How often its reserved source, or a call of firmware that ends a source, did not answer.
    pub dead: u64,
}

/// One more, on a line that this CPU alone writes.
#[inline]
pub(super) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// What `cpu` met besides its interrupts.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// Any, from any CPU. Touches no hardware.
    pub fn counts(&self, cpu: CpuIndex) -> Result<Counts, Error> {
        let own = &self.cpu(cpu)?.own;
        Ok(Counts {
            spurious: own.spurious.load(Relaxed),
            empty: own.empty.load(Relaxed),
            unknown: own.unknown.load(Relaxed),
            rings: own.rings.load(Relaxed),
            dead: own.dead.load(Relaxed),
        })
    }

    /// The place of the source whose entry is next in this CPU's queue, which stays there.
    /// Entries without a source of ours are passed.
    #[inline]
    pub(super) fn next(&self, cpu: &Cpu<F::Window>) -> Option<u32> {
        loop {
            let data = cpu.fixed.queue.entry(cpu.own.at.load(Relaxed))?;
            match self.hot.layout.place(data) {
                None | Some(IPI) => {}
                device => return device,
            }
            self.pass(cpu, data);
        }
    }

    /// Goes on behind the entry that [`next`](Self::next) gave.
    #[inline]
    pub(super) fn advance(cpu: &Cpu<F::Window>) {
        let at = &cpu.own.at;
        at.store(at.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[cold]
    fn pass(&self, cpu: &Cpu<F::Window>, data: u32) {
        if data != self.hot.layout.again() {
            count(&cpu.own.unknown);
        }
        Self::advance(cpu);
    }

    /// Makes another interrupt come for what is in this CPU's queue. See the module.
    #[cold]
    #[inline(never)]
    pub(super) fn ring(&self, cpu: &Cpu<F::Window>) {
        count(&cpu.own.rings);
        let again = &cpu.fixed.again;
        if again.set(Pq::RESET).is_none() {
            count(&cpu.own.dead);
        }
        again.trigger();
    }

    /// Gives this CPU the priority `cppr`.
    #[inline(always)]
    pub(super) fn set_cppr(&self, cpu: &Cpu<F::Window>, cppr: u8) {
        cpu.own.cppr.store(u32::from(cppr), Relaxed);
        self.hot.tima.set_cppr(cppr);
    }

    /// Takes what else an acknowledge is for than an IPI.
    #[inline(never)]
    fn take(
        &self,
        at: CpuIndex,
        cpu: &Cpu<F::Window>,
        taken: Acknowledge,
    ) -> Option<(Irq, Active)> {
        let cppr = cpu.own.cppr.load(Relaxed) as u8;
        if taken.is_nothing() {
            count(&cpu.own.spurious);
            return None;
        }
        // The entries were in memory before the acknowledge could be: they are read after it.
        self.hot.tima.barrier().synchronize();
        if !taken.is(self.hot.device_priority) {
            return self.nothing_there(cpu, &cpu.own.unknown, cppr);
        }
        let Some(index) = self.next(cpu) else {
            return self.nothing_there(cpu, &cpu.own.empty, cppr);
        };
        // What the device wrote before its event is read after the entry.
        self.hot.tima.barrier().synchronize();
        Self::advance(cpu);
        cpu.own.cppr.store(u32::from(taken.cppr()), Relaxed);
        let active = Active {
            cpu: at,
            index,
            cppr,
            left: ROUND,
        };
        Some((self.hot.layout.irq(index), active))
    }

    /// Ends a device's source.
    #[inline]
    fn end_source(&self, cpu: &Cpu<F::Window>, index: u32) {
        let slot = self.hot.sources.get((index as usize).wrapping_sub(1));
        let Some(hand) = slot.map(|slot| &slot.hand) else {
            return;
        };
        // None: an event of somebody else's with a number of ours.
        let Some(source) = hand.source.get() else {
            return count(&cpu.own.unknown);
        };
        hand.end(|| {
            if source.esb.is_lsi() {
                // What the handler did to the device comes before the look at its line.
                source.esb.barrier().complete();
            }
            source.esb.end(|| self.end_by_firmware(cpu, index));
        });
    }

    /// Ends a device's source, and sees to what is left behind in the queue.
    #[inline(never)]
    fn end_last(&self, cpu: &Cpu<F::Window>, index: u32) {
        let more = self.next(cpu).is_some();
        self.end_source(cpu, index);
        if more {
            self.ring(cpu);
        }
    }

    #[cold]
    pub(super) fn end_by_firmware(&self, cpu: &Cpu<F::Window>, index: u32) {
        let slot = self.hot.sources.get(index as usize - 1);
        if let Some(source) = slot.and_then(|slot| slot.hand.source.get())
            && !self.opal.end(source.number)
        {
            count(&cpu.own.dead);
        }
    }

    /// Nothing to take for an acknowledge that raised CPPR: puts it back.
    #[cold]
    fn nothing_there(
        &self,
        cpu: &Cpu<F::Window>,
        counter: &AtomicU64,
        cppr: u8,
    ) -> Option<(Irq, Active)> {
        count(counter);
        self.set_cppr(cpu, cppr);
        None
    }

    /// Leaves the source as it is and the CPU open for others.
    fn leave(&self, active: Active) {
        let Some(cpu) = self.hot.cpus.get(active.cpu) else {
            return;
        };
        if self.next(cpu).is_some() {
            self.ring(cpu);
        }
        self.set_cppr(cpu, active.cppr);
    }

    /// The slot of a device's interrupt.
    fn hand_of(&self, active: Active) -> Result<&super::Slot<F::Window>, Error> {
        let index = active.index.checked_sub(1);
        let slot = index.and_then(|index| self.hot.sources.get(index as usize));
        slot.ok_or(Error::Unsupported {
            feature: "leaving an IPI active",
        })
    }
}

impl<P, F> Flow for Xive<P, F>
where
    P: Platform,
    F: Firmware,
{
    type Active = Active;

    #[inline]
    fn ack(&self, cx: &IrqContext<'_>) -> Option<(Irq, Active)> {
        let cpu = self.hot.cpus.get(cx.cpu())?;
        let taken = self.hot.tima.acknowledge();
        if !taken.is(self.hot.ipi_priority) {
            return self.take(cx.cpu(), cpu, taken);
        }
        // Whatever the sender did comes before what the receiver does from here on.
        self.hot.tima.barrier().synchronize();
        let active = Active {
            cpu: cx.cpu(),
            index: IPI,
            cppr: cpu.own.cppr.load(Relaxed) as u8,
            left: 0,
        };
        cpu.own.cppr.store(u32::from(taken.cppr()), Relaxed);
        Some((self.hot.layout.ipi(), active))
    }

    #[inline]
    fn end(&self, active: Active) {
        let Some(cpu) = self.hot.cpus.get(active.cpu) else {
            return;
        };
        if active.index == IPI {
            cpu.fixed.ipi.end_edge();
        } else {
            self.end_last(cpu, active.index);
        }
        self.set_cppr(cpu, active.cppr);
    }

    fn end_and_next(&self, _: &IrqContext<'_>, active: Active) -> Option<(Irq, Active)> {
        // An IPI, too.
        let Some(left) = active.left.checked_sub(1) else {
            self.end(active);
            return None;
        };
        let cpu = self.hot.cpus.get(active.cpu)?;
        let next = self.next(cpu);
        self.end_source(cpu, active.index);
        let Some(index) = next else {
            self.set_cppr(cpu, active.cppr);
            return None;
        };
        // As for the first one.
        self.hot.tima.barrier().synchronize();
        Self::advance(cpu);
        let active = Active {
            index,
            left,
            ..active
        };
        Some((self.hot.layout.irq(index), active))
    }

    /// Leaves P set, for [`Lines::complete`](irq_core::Lines::complete). [`Error::Unsupported`]
    /// for an IPI.
    fn defer(&self, active: Active) -> Result<(), Error> {
        self.hand_of(active)?.hand.defer();
        self.leave(active);
        Ok(())
    }

    /// Leaves P set. [`Error::Unsupported`] for an IPI.
    fn hand_over(&self, active: Active) -> Result<(), Error> {
        self.hand_of(active)?.hand.hand_over();
        self.leave(active);
        Ok(())
    }
}
