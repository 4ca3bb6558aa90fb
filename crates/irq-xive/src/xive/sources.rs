// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device sources that become ours, and cease to be.

use irq_core::{Irq, Trigger};
use irq_hal::{CpuIndex, Error, Platform};

use super::held::{HELD, Hold, Source};
use super::online::DEAD;
use super::targets::{Entry, Use, read};
use super::{Thread, Xive};
use crate::esb::{Esb, Pq};
use crate::firmware::Firmware;
use crate::ids::SourceNumber;
use crate::opal::SourceInfo;
use irq_hal::atomic::Ordering;

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// A source that software raises, on the chip of the CPU `near`, which it goes to. It is
    /// masked: an edge that comes is kept.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::Full`] if all irqs are in use, or the queue of `near` has
    /// no room; [`Error::Refused`] and [`Error::Timeout`] of firmware; those of
    /// [`adopt`](Self::adopt) for what firmware gave. Nothing is left behind then.
    ///
    /// # Context
    /// Thread: maps device pages.
    pub fn alloc_source(&self, near: CpuIndex) -> Result<Irq, Error> {
        let Thread { chip, .. } = self.cpu(near)?.fixed.thread;
        let number = self.allocate(chip)?;
        let made = self.make(number, near, None);
        if made.is_err() {
            // What goes wrong now is worth less than what went wrong before.
            let _ = self.opal.free_irq(&self.platform, number);
        }
        made
    }

    /// A source of a device, as firmware's tables name it, with the trigger that they give. It
    /// goes to the CPU `near` and is masked: what comes is kept.
    ///
    /// # Errors
    /// [`Error::Exists`] if it is ours; [`Error::NoSuchCpu`]; [`Error::Full`] as for
    /// [`alloc_source`](Self::alloc_source); [`Error::Unsupported`] for another trigger than the
    /// source has, and for sources that need a workaround for early POWER9; [`Error::Refused`]
    /// and [`Error::Timeout`] of firmware, and [`Error::Refused`] for a source that is dead;
    /// [`Error::Firmware`] if what firmware says of it cannot be; those of the mapping of its
    /// pages. Nothing is left behind then.
    ///
    /// # Context
    /// Thread: maps device pages.
    pub fn adopt_near(
        &self,
        number: SourceNumber,
        trigger: Trigger,
        near: CpuIndex,
    ) -> Result<Irq, Error> {
        self.make(number, near, Some(trigger))
    }

    /// Likewise, for the first CPU that is online, or the first one of all.
    ///
    /// # Errors
    /// As [`adopt_near`](Self::adopt_near).
    ///
    /// # Context
    /// Thread: maps device pages.
    pub fn adopt(&self, number: SourceNumber, trigger: Trigger) -> Result<Irq, Error> {
        let mut online = self
            .hot
            .cpus
            .iter()
            .filter(|(_, cpu)| cpu.fixed.is_online());
        let near = online.next().map_or(CpuIndex::new(0), |(cpu, _)| cpu);
        self.adopt_near(number, trigger, near)
    }

    /// Gives a source back. It is turned off first; then an event that is under way is waited
    /// for, so that the caller may drop its handler afterwards: no entry brings `irq` any more.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Invalid`] for the IPI; [`Error::Busy`] if somebody else
    /// changes the source; [`Error::Timeout`] if an event that is under way is not taken;
    /// [`Error::Refused`] and [`Error::Timeout`] of firmware. The source is off then, and the
    /// call can be repeated.
    ///
    /// # Context
    /// Thread, interrupts unmasked, or the wait may be in vain.
    pub fn free(&self, irq: Irq) -> Result<(), Error> {
        let index = self.device(irq)?;
        let entry = self.change(irq, index)?;
        let freed = self.give_back(irq, index, entry);
        self.ledger.with(&self.platform, |ledger| {
            if let Some(place) = ledger.ours(index) {
                place.used = if freed.is_ok() { Use::Given } else { Use::Ours };
            }
            if freed.is_ok() {
                ledger.unbind(entry.target);
            }
        });
        freed
    }

    fn give_back(&self, irq: Irq, index: u32, entry: Entry) -> Result<(), Error> {
        let (slot, source) = self.source_of(irq)?;
        // State before routing: the other way round events are lost and P stays. A dead source
        // is off as it is.
        match self.off(irq) {
            Err(DEAD) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        let target = self.cpu(entry.target)?;
        self.opal
            .unroute(&self.platform, source.number, target.fixed.thread.pir)?;
        // Nobody would take an event in the queue of a CPU that is offline.
        let stranded = self.ledger.with(&self.platform, |_| {
            !target.fixed.is_online() && self.take_out(target, index)
        });
        let under_way = slot.held.with(&self.platform, |held| {
            held.under_way &= !stranded;
            held.under_way
        });
        if under_way {
            slot.hand.taken(&self.platform)?;
        }
        if entry.allocated {
            self.opal.free_irq(&self.platform, source.number)?;
        }
        Ok(())
    }

    /// The source behind one of our numbers.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Invalid`] for the IPI.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. Touches no hardware.
    pub fn source(&self, irq: Irq) -> Result<SourceNumber, Error> {
        Ok(self.source_of(irq)?.1.number)
    }

    /// Our number for a source that is ours.
    ///
    /// # Context
    /// Any but a non-maskable interrupt; looks through all sources. Touches no hardware.
    pub fn irq(&self, number: SourceNumber) -> Option<Irq> {
        let place = self.ledger.with(&self.platform, |ledger| {
            ledger.entries.iter().position(|entry| {
                matches!(entry.used, Use::Ours | Use::Changing) && entry.number == number
            })
        })?;
        Some(self.hot.layout.irq(place as u32 + 1))
    }

    /// Makes `number` a source of ours. Without a trigger it is one that firmware allocated.
    fn make(
        &self,
        number: SourceNumber,
        near: CpuIndex,
        trigger: Option<Trigger>,
    ) -> Result<Irq, Error> {
        let (queue, at) = read(self.cpu(near)?);
        let (index, before) = self.ledger.with(&self.platform, |ledger| {
            let place = place(&ledger.entries, number)?;
            ledger.bind(near, queue, at)?;
            let entry = &mut ledger.entries[place];
            let before = entry.used;
            *entry = Entry {
                used: Use::Changing,
                number,
                target: near,
                allocated: trigger.is_none(),
            };
            Ok::<_, Error>((place as u32 + 1, before))
        })?;
        let made = self.set_up(index, number, near, trigger);
        self.ledger.with(&self.platform, |ledger| {
            if let Some(entry) = ledger.ours(index) {
                entry.used = match (&made, before) {
                    (Ok(()), _) => Use::Ours,
                    // Its pages may stand in the slot by now.
                    (Err(_), Use::Free) if self.is_blank(index) => Use::Free,
                    (Err(_), _) => Use::Given,
                };
            }
            if made.is_err() {
                ledger.unbind(near);
            }
        });
        made.map(|()| self.hot.layout.irq(index))
    }

    fn is_blank(&self, index: u32) -> bool {
        let slot = self.hot.sources.get(index as usize - 1);
        slot.is_none_or(|slot| slot.hand.source.get().is_none())
    }

    fn set_up(
        &self,
        index: u32,
        number: SourceNumber,
        near: CpuIndex,
        trigger: Option<Trigger>,
    ) -> Result<(), Error> {
        let info = self.opal.source_info(&self.platform, number)?;
        let esb = self.map(&info)?;
        let wanted = trigger.unwrap_or(Trigger::Edge);
        if esb.is_lsi() != (wanted == Trigger::Level) {
            return Err(Error::Unsupported {
                feature: "another trigger than the source's own",
            });
        }
        let slot = self.hot.sources.get(index as usize - 1);
        let slot = slot.ok_or(Error::NoSuchIrq { irq: index })?;
        // Pages that stand here were those of the same number.
        let source = slot.hand.source.call_once(|| Source { number, esb });
        // Whatever firmware or an earlier kernel left: nothing comes before it is routed.
        source.esb.set(Pq::OFF).ok_or(DEAD)?;
        self.route(index, number, near)?;
        slot.held.with(&self.platform, |held| {
            slot.hand.word.store(HELD, Ordering::Release);
            held.hold = Hold::Parked;
            held.under_way = false;
            source.esb.set(Pq::PENDING).map(drop).ok_or(DEAD)
        })
    }

    /// The pages of a source.
    pub(super) fn map(&self, info: &SourceInfo) -> Result<Esb<F::Window>, Error> {
        Esb::new(info, |at, len| self.opal.firmware().map(at, len))
    }
}

/// A place for `number`: the one that it had before, or one that nobody had.
fn place(entries: &[Entry], number: SourceNumber) -> Result<usize, Error> {
    let had = |entry: &Entry| entry.used != Use::Free && entry.number == number;
    if let Some(place) = entries.iter().position(had) {
        return match entries.get(place).map(|entry| entry.used) {
            Some(Use::Given) => Ok(place),
            _ => Err(Error::Exists {
                what: "the irq of that source",
            }),
        };
    }
    let free = entries.iter().position(|entry| entry.used == Use::Free);
    free.ok_or(Error::Full {
        what: "irqs for sources",
        capacity: entries.len() as u32,
    })
}
