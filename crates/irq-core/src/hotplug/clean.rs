// SPDX-License-Identifier: MIT OR Apache-2.0
//! Old places: when they may be given back, and by whom.

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::percpu::OnCpu;

use super::changes::Changes;
use super::claim::Claim;
use super::list::NONE;
use super::mover::Mover;
use super::state::{PLACES, Phase, Stage, Wakes};
use crate::irq::Irq;

impl<M: Mover + ?Sized> Changes<'_, M> {
    /// `irq` was acknowledged on this CPU: old places of it may be given back, if this is where
    /// its source points. Nothing is done, with one load, unless a move of `irq` waits for that.
    ///
    /// For controllers of which [`Mover::point`] says [`Leaves::Late`](super::Leaves::Late);
    /// the others need not call it.
    ///
    /// # Context
    /// In the interrupt's entry, masked, once its number is known.
    #[inline]
    pub fn arrived(&self, on: &OnCpu, irq: Irq) {
        let Some(at) = self.hotplug.irqs.offset(irq) else {
            return;
        };
        // Relaxed: see `watch`. The lock orders what follows.
        if self.hotplug.shared.watched[at as usize].load(Relaxed) {
            self.note_arrival(on, at);
        }
    }

    #[cold]
    fn note_arrival(&self, on: &OnCpu, at: u32) {
        let wakes = self.with(|book| {
            let record = book.record(at);
            let (next, current) = (record.next, record.current);
            let here = |entry: u32| entry != NONE && book.entry(entry).cpu == on.cpu();
            if here(next) {
                book.record(at).arrived = true;
                return Wakes::default();
            }
            if !here(current) || book.find(at, Stage::Waiting).is_none() {
                return Wakes::default();
            }
            let record = book.record(at);
            if record.replayed {
                record.replayed = false;
                return Wakes::default();
            }
            book.all_due(at)
        });
        self.wake(wakes);
    }

    /// Gives back the old places on this CPU that nothing is pending at. Returns how many are
    /// left, to be looked at again: by a later tick, at any priority, since each call looks at
    /// each place once.
    ///
    /// # Context
    /// On that CPU, masked, in no entry whose vector has not been looked up.
    pub fn clean(&self, on: &OnCpu) -> u32 {
        let cpu = on.cpu();
        // Written by others: one that is missed comes with a wake-up, or the next call sees it.
        let due = self.hotplug.due(cpu);
        for _ in 0..due {
            let Some((entry, place)) = self.with(|book| {
                let entry = book.first_old(cpu, false)?;
                book.set(entry, Stage::Leaving);
                Some((entry, book.entry(entry).place?))
            }) else {
                break;
            };
            let irq = self.irq_of(entry);
            if self.mover.pending(irq, place) {
                self.with(|book| book.set(entry, Stage::Due));
            } else {
                self.give_back(entry, irq, place);
            }
        }
        self.hotplug.due(cpu)
    }

    pub(super) fn give_back(&self, entry: u32, irq: Irq, place: M::Place) {
        let class = self.with(|book| book.record(entry / PLACES).class);
        self.mover.give_back(irq, class, place);
        self.with(|book| book.dropped(entry));
    }

    pub(super) fn irq_of(&self, entry: u32) -> Irq {
        self.hotplug.irq(entry / PLACES)
    }

    /// Gives back every old place on this CPU, which goes. What is pending at one is replayed
    /// where the interrupt is served now, or owed to it until it is served again.
    pub(super) fn drain(&self, on: &OnCpu) -> Drained {
        let mut drained = Drained::default();
        while let Some((entry, place)) = self.with(|book| {
            let entry = book.first_old(on.cpu(), true)?;
            book.set(entry, Stage::Leaving);
            Some((entry, book.entry(entry).place?))
        }) {
            let irq = self.irq_of(entry);
            if self.mover.pending(irq, place) {
                drained.replayed += u32::from(self.owe(entry / PLACES, irq));
            }
            self.give_back(entry, irq, place);
            drained.places += 1;
        }
        drained
    }

    /// An event of the interrupt has nowhere to go: whoever changes the interrupt replays it at
    /// the end, and we do if nobody is.
    /// Nobody wants it if the interrupt was removed.
    fn owe(&self, at: u32, irq: Irq) -> bool {
        let (wanted, claim) = self.with(|book| {
            if book.record(at).phase == Phase::Ending {
                return (false, None);
            }
            book.record(at).owed = true;
            // Who starts one that has no place replays it then.
            let claim = match book.record(at).phase {
                Phase::Started => Claim::new(book, at, irq).ok(),
                _ => None,
            };
            (true, claim)
        });
        if let Some(claim) = claim {
            self.finish(claim);
        }
        wanted
    }
}

/// What [`Changes::drain`] found.
#[derive(Clone, Copy, Default)]
pub(super) struct Drained {
    pub(super) places: u32,
    pub(super) replayed: u32,
}
