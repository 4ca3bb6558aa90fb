// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of lines by our numbers, on the CPU that runs: no CPU reaches another's local APIC.
//!
//! A vector of the local vector table is a line with a mask. Any other vector is one that nothing
//! masks here: whoever sends it does.

use irq_core::{Irq, LineState, Lines, Trigger};
use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{Error, Platform};

use super::{Apic, Config, Delivery, Pin, Slot};
use crate::error::ProbeError;
use crate::regs::apic::ApicBus;
use crate::regs::lvt::{Lvt, LvtEntry};
use crate::vector::Vector;

const NO_MASK: Error = Error::Unsupported {
    feature: "masking a vector that is not of the local vector table",
};
const LEVEL: Error = Error::Unsupported {
    feature: "a level-triggered source but a LINT pin",
};

impl Slot {
    /// An entry as it is to be.
    pub(super) fn entry(&self, lvt: Lvt) -> LvtEntry {
        match lvt {
            Lvt::Timer => self.timer.entry(),
            _ => LvtEntry::from_register(self.entries[lvt.index()].load(Relaxed).into()),
        }
    }

    pub(super) fn set_entry(&self, lvt: Lvt, entry: LvtEntry) {
        match lvt {
            Lvt::Timer => self.timer.set(entry),
            _ => self.entries[lvt.index()].store(entry.get() as u32, Relaxed),
        }
    }

    fn has(&self, lvt: Lvt) -> bool {
        lvt.exists(self.max_lvt.load(Relaxed))
    }

    /// The entry that delivers `vector` on this CPU.
    fn source(&self, vector: Vector) -> Option<Lvt> {
        let delivers = |lvt: &Lvt| self.has(*lvt) && self.entry(*lvt).vector() == Some(vector);
        Lvt::ALL.into_iter().find(delivers)
    }
}

impl Config {
    /// The vector of an entry, if it has one.
    pub(super) fn vector(&self, lvt: Lvt) -> Option<Vector> {
        let of = |delivery| match delivery {
            Some(Delivery::Vector(vector)) => Some(vector),
            _ => None,
        };
        let pin = |pin| match pin {
            Pin::Vector { vector, .. } => Some(vector),
            _ => None,
        };
        match lvt {
            Lvt::Timer => Some(self.timer),
            Lvt::Error => Some(self.error),
            Lvt::Lint0 => pin(self.lint[0]),
            Lvt::Lint1 => pin(self.lint[1]),
            Lvt::Perf => of(self.perf),
            Lvt::Thermal => of(self.thermal),
            Lvt::Cmci => self.cmci,
        }
    }

    /// Refuses vectors that are exceptions of the CPU, and those with two purposes.
    pub(super) fn check_vectors(&self) -> Result<(), ProbeError> {
        let mut taken = [0_u64; 4];
        let own = [
            ("spurious interrupts", Some(self.spurious)),
            ("interrupts between CPUs", self.ipi),
        ];
        let entries = Lvt::ALL.map(|lvt| (lvt.name(), self.vector(lvt)));
        for (what, vector) in own.into_iter().chain(entries) {
            let Some(vector) = vector else { continue };
            let number = vector.get();
            let word = &mut taken[usize::from(number / 64)];
            let bit = 1 << (number % 64);
            if vector.is_exception() || *word & bit != 0 {
                let vector = number;
                return Err(ProbeError::Vector { what, vector });
            }
            *word |= bit;
        }
        Ok(())
    }
}

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// Lets the source of the local vector table behind `irq` be delivered on every CPU that
    /// comes online from now on, and on this one if it is online. Others that are online call
    /// [`unmask`](Lines::unmask). Nothing to do for any other vector.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn unmask_private(&self, irq: Irq) -> Result<(), Error> {
        let vector = self.vector(irq)?;
        if let Some(lvt) = self.source(vector) {
            self.template.fetch_or(lvt.bit(), Relaxed);
        }
        self.here(|slot| match self.source_on(slot, vector) {
            Some(lvt) => self.write(slot, lvt, slot.entry(lvt).unmasked()),
            None => Ok(()),
        })
    }

    /// Stops it on every CPU that comes online from now on, and on this one if it is online.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Unsupported`] for a vector that is not of the local vector
    /// table.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn mask_private(&self, irq: Irq) -> Result<(), Error> {
        let vector = self.vector(irq)?;
        let lvt = self.source(vector).ok_or(NO_MASK)?;
        self.template.fetch_and(!lvt.bit(), Relaxed);
        self.here(|slot| match self.source_on(slot, vector) {
            Some(lvt) => self.write(slot, lvt, slot.entry(lvt).masked()),
            None => Ok(()),
        })
    }

    /// Sets what LINT0 (`pin` 0) or LINT1 (1) does on the CPU that runs, where firmware's
    /// tables name single CPUs. One with a vector is masked until [`unmask`](Lines::unmask).
    ///
    /// # Errors
    /// [`Error::Invalid`] for another pin, and for a vector that is an exception of the CPU or
    /// has another purpose; [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU, masked.
    pub fn set_lint(&self, on: &OnCpu, pin: usize, what: Pin) -> Result<(), Error> {
        let slot = self.online_slot(on.cpu())?;
        let lint = *[Lvt::Lint0, Lvt::Lint1].get(pin).ok_or(Error::Invalid {
            what: "LINT pin",
            value: pin as u64,
        })?;
        if let Pin::Vector { vector, .. } = what {
            let own = [Some(self.config.spurious), self.config.ipi];
            let other = self.source_on(slot, vector).is_some_and(|lvt| lvt != lint);
            if vector.is_exception() || other || own.contains(&Some(vector)) {
                return Err(Error::Invalid {
                    what: "vector of a LINT pin",
                    value: vector.get().into(),
                });
            }
        }
        self.write(slot, lint, self.pin(what))
    }

    /// The entry that delivers `vector` on a CPU that comes online.
    fn source(&self, vector: Vector) -> Option<Lvt> {
        let config = &self.config;
        let delivers = |lvt: &Lvt| config.vector(*lvt) == Some(vector);
        Lvt::ALL.into_iter().find(delivers)
    }

    /// The entry that delivers `vector` on the CPU of `slot`. None delivers the spurious one:
    /// entries without a vector hold it, masked.
    fn source_on(&self, slot: &Slot, vector: Vector) -> Option<Lvt> {
        if vector == self.hot.spurious {
            return None;
        }
        slot.source(vector)
    }

    /// Writes an entry of the CPU that runs.
    fn write(&self, slot: &Slot, lvt: Lvt, entry: LvtEntry) -> Result<(), Error> {
        slot.set_entry(lvt, entry);
        self.apic().set_entry(lvt, entry);
        Ok(())
    }

    /// Runs `f` on the slot of the CPU that runs, masked, if that CPU is online.
    fn here(&self, f: impl FnOnce(&Slot) -> Result<(), Error>) -> Result<(), Error> {
        match self.on_own(f) {
            Err(Error::CpuOffline { .. }) => Ok(()),
            other => other,
        }
    }

    /// Runs `f` on the slot of the CPU that runs, masked.
    fn on_own<R>(&self, f: impl FnOnce(&Slot) -> Result<R, Error>) -> Result<R, Error> {
        percpu::masked(&self.platform, |on| f(self.online_slot(on.cpu())?))
    }
}

/// # Context
/// Every call acts on the CPU that runs, which is online.
impl<P, M> Lines for Apic<P, M>
where
    P: Platform,
    M: ApicBus + Sync,
{
    /// One register write. What the source asked for before is taken still, once: nothing takes
    /// a vector back that waits. What it asks for meanwhile is lost, but for a level.
    fn mask(&self, irq: Irq) -> Result<(), Error> {
        let vector = self.vector(irq)?;
        self.on_own(|slot| {
            let lvt = self.source_on(slot, vector).ok_or(NO_MASK)?;
            self.write(slot, lvt, slot.entry(lvt).masked())
        })
    }

    /// One register write; none for a vector that is not of the local vector table. A timer is
    /// to be armed again.
    fn unmask(&self, irq: Irq) -> Result<(), Error> {
        let vector = self.vector(irq)?;
        self.on_own(|slot| match self.source_on(slot, vector) {
            Some(lvt) => self.write(slot, lvt, slot.entry(lvt).unmasked()),
            None => Ok(()),
        })
    }

    /// All are edges, but for LINT pins.
    fn set_trigger(&self, irq: Irq, trigger: Trigger) -> Result<(), Error> {
        let vector = self.vector(irq)?;
        self.on_own(|slot| match self.source_on(slot, vector) {
            Some(lvt @ (Lvt::Lint0 | Lvt::Lint1)) => {
                let entry = slot.entry(lvt);
                self.write(slot, lvt, entry.masked().with_trigger(trigger))?;
                self.write(slot, lvt, entry.with_trigger(trigger))
            }
            _ if trigger == Trigger::Level => Err(LEVEL),
            _ => Ok(()),
        })
    }

    /// Sends the vector to this CPU: one register write. [`Error::Unsupported`] for the spurious
    /// vector, which nobody would end.
    fn retrigger(&self, irq: Irq) -> Result<(), Error> {
        let vector = self.vector(irq)?;
        if vector == self.hot.spurious {
            return Err(Error::Unsupported {
                feature: "sending the spurious vector",
            });
        }
        self.on_own(|_| {
            self.apic().send_self(vector);
            Ok(())
        })
    }

    /// Never: nothing is deferred.
    fn complete(&self, irq: Irq) -> Result<(), Error> {
        self.vector(irq)?;
        Err(Error::Unsupported {
            feature: "completing an interrupt of a local APIC",
        })
    }

    fn state(&self, irq: Irq) -> Result<LineState, Error> {
        let vector = self.vector(irq)?;
        self.on_own(|slot| {
            let apic = self.apic();
            // From the register: the hardware masks the performance counters' entry itself.
            let entry = self.source_on(slot, vector).and_then(|lvt| apic.entry(lvt));
            Ok(LineState {
                masked: entry.is_some_and(|entry| entry.is_masked()),
                pending: apic.waits(vector),
                active: apic.in_service(vector),
            })
        })
    }
}
