// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledge and end: the hot path. No MMIO, no lock, no allocation.

use irq_core::{Flow, Irq, IrqContext};
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::{CpuIndex, Error, Platform};

use super::Gic;
use crate::cpu_interface::{Acknowledge, ActiveId, EoiMode, classify};
use crate::intid::{IntId, LPI_FIRST, SPURIOUS};
use crate::quirks::Effects;
use crate::regs::Frame;
use crate::regs::icc::IccBus;

/// An acknowledged interrupt and the CPU that did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Active {
    id: ActiveId,
    cpu: CpuIndex,
}

impl Active {
    /// What was acknowledged.
    pub const fn id(&self) -> ActiveId {
        self.id
    }
}

/// Entries of one CPU that led to no interrupt of ours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Acknowledges that found nothing pending (1023).
    pub spurious: u64,
    /// Acknowledges answered by 1020 to 1022: of another security state, or an NMI.
    pub special: u64,
    /// Acknowledged interrupts that have no number of ours, LPIs among them. They were ended.
    pub unknown: u64,
}

/// One more, on a line that this CPU alone writes.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
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
            special: slot.special.load(Relaxed),
            unknown: slot.unknown.load(Relaxed),
        })
    }

    #[inline]
    fn finish(&self, active: Active) {
        if self.hot.one_write_ends {
            self.interface().drop_priority(active.id);
        } else {
            self.finish_otherwise(active);
        }
    }

    /// In two writes, or with a quirk in mind.
    #[cold]
    #[inline(never)]
    fn finish_otherwise(&self, active: Active) {
        if self.hot.effects.contains(Effects::LOST_DEACTIVATION)
            && let Ok(intid) = active.id.intid()
        {
            return self.end_past_interface(intid, active);
        }
        self.interface().end(active.id);
    }

    /// Counts what led to no interrupt of ours, and ends what became active.
    #[cold]
    fn not_ours(&self, cpu: CpuIndex, acknowledged: Acknowledge) {
        if let Acknowledge::Interrupt(id) = acknowledged {
            self.finish(Active { id, cpu });
        }
        if let Some(slot) = self.slots.get(cpu) {
            count(match acknowledged {
                Acknowledge::Interrupt(_) => &slot.unknown,
                Acknowledge::Special(SPURIOUS) => &slot.spurious,
                Acknowledge::Special(_) => &slot.special,
            });
        }
    }

    /// Arm 2941627: a deactivation by the CPU interface may be lost unless this CPU is where
    /// the interrupt goes.
    #[cold]
    fn end_past_interface(&self, intid: IntId, active: Active) {
        let interface = self.interface();
        if self.routed_elsewhere(intid, active.cpu) {
            interface.drop_priority(active.id);
            self.hot.icc.synchronize();
            self.hot.icc.complete();
            // A shared interrupt that was acknowledged is in range.
            let _ = self.distributor.deactivate(intid);
        } else {
            interface.end(active.id);
        }
    }

    /// Whether `intid` is shared and goes, or may go, to another CPU than `cpu`.
    pub(super) fn routed_elsewhere(&self, intid: IntId, cpu: CpuIndex) -> bool {
        let here = self.slots.get(cpu).map(|slot| slot.mpidr());
        intid.kind().is_shared()
            && self
                .distributor
                .route(intid)
                .is_ok_and(|route| route.cpu() != here)
    }
}

impl<P, B, C> Flow for Gic<P, B, C>
where
    P: Platform,
    B: Frame + Sync,
    C: IccBus + Sync,
{
    type Active = Active;

    #[inline]
    fn ack(&self, cx: &IrqContext<'_>) -> Option<(Irq, Active)> {
        let cpu = cx.cpu();
        let number = if self.hot.effects.contains(Effects::STALE_IAR) {
            self.interface().acknowledge_any_checked()
        } else {
            self.interface().acknowledge_any()
        };
        // A number of ours is not special: only the others are looked at.
        let Some(irq) = self.hot.layout.acknowledged(number) else {
            self.not_ours(cpu, classify(number));
            return None;
        };
        let id = ActiveId::new(number);
        Some((irq, Active { id, cpu }))
    }

    #[inline]
    fn end(&self, active: Active) {
        self.finish(active);
    }

    fn defer(&self, active: Active) -> Result<(), Error> {
        self.hand_over(active)
    }

    /// Drops the priority. [`Error::Unsupported`] without [`EoiMode::Split`], and for an LPI.
    fn hand_over(&self, active: Active) -> Result<(), Error> {
        if self.hot.setup.eoi_mode != EoiMode::Split {
            return Err(Error::Unsupported {
                feature: "priority drop alone with EOImode=0",
            });
        }
        if active.id.get() >= LPI_FIRST {
            return Err(Error::Unsupported {
                feature: "an active state of an LPI",
            });
        }
        self.interface().drop_priority(active.id);
        Ok(())
    }
}
