// SPDX-License-Identifier: MIT OR Apache-2.0
//! One change of an interrupt at a time, with the lock free while the driver works.

use core::mem;

use irq_hal::{CpuIndex, Error, ErrorKind, NodeId};

use super::affinity::Affinity;
use super::changes::{Changes, MOVING};
use super::list::NONE;
use super::mover::{Leaves, Mover, Wanted};
use super::state::{Book, Entry, PLACES, Phase, Stage, Wakes};
use crate::irq::Irq;
use crate::placement::{Among, Class};

/// How often a place is taken whose CPU closes in that moment.
pub(super) const TRIES: u32 = 64;

/// CPUs come and go so quickly that no place was had.
pub(super) const UNSETTLED: Error = Error::Busy {
    what: "each CPU that has room",
};

/// Another call changes the same interrupt.
pub(super) const CLAIMED: Error = Error::Busy {
    what: "the interrupt",
};

/// An interrupt that this call alone changes, and what of it does not change meanwhile.
pub(super) struct Claim {
    pub(super) at: u32,
    pub(super) irq: Irq,
    pub(super) phase: Phase,
    pub(super) class: Class,
    pub(super) affinity: Affinity,
    /// The affinity has gone back already.
    parked: bool,
    near: Option<NodeId>,
    reserves: bool,
}

/// A place that was taken and noted as the next one.
#[derive(Clone, Copy)]
struct Next<P> {
    entry: u32,
    place: P,
    cpu: CpuIndex,
}

impl Claim {
    /// Claims an interrupt that nobody has claimed.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody has.
    pub(super) fn new<P: Copy>(book: &mut Book<'_, P>, at: u32, irq: Irq) -> Result<Self, Error> {
        let record = book.record(at);
        if record.claimed {
            return Err(CLAIMED);
        }
        record.claimed = true;
        Ok(Self {
            at,
            irq,
            phase: record.phase,
            class: record.class,
            affinity: record.affinity.take().unwrap_or_default(),
            parked: false,
            near: record.near,
            reserves: record.reserves,
        })
    }
}

impl<M: Mover + ?Sized> Changes<'_, M> {
    /// Ends a claim. Events that are owed are replayed first, if there is a place for them.
    pub(super) fn finish(&self, claim: Claim) {
        let Claim { at, irq, .. } = claim;
        let mut affinity = Some(claim.affinity);
        loop {
            let owed = self.with(|book| {
                let place = book.current(at);
                let started = book.record(at).phase == Phase::Started;
                if let (Some(place), true, true) = (place, started, book.record(at).owed) {
                    let waits = book.find(at, Stage::Waiting).is_some();
                    let record = book.record(at);
                    record.owed = false;
                    record.replayed = waits;
                    return Some(place);
                }
                let record = book.record(at);
                record.claimed = false;
                if record.phase != Phase::Vacant && !claim.parked {
                    record.affinity = affinity.take();
                }
                None
            });
            match owed {
                Some(place) => self.mover.replay(irq, place),
                None => return,
            }
        }
    }

    pub(super) fn wake(&self, wakes: Wakes) {
        wakes.each(|cpu| self.mover.wake(cpu));
    }

    /// Takes a place for the interrupt among `affinity`, or anywhere if it `breaks`, and points
    /// the source at it.
    ///
    /// # Errors
    /// Those of [`Mover::take`] and [`Mover::point`]; [`Error::Busy`] if CPUs come and go so
    /// quickly that no place was had. The interrupt is as before then.
    pub(super) fn bring(
        &self,
        claim: &Claim,
        affinity: &Affinity,
        breaks: bool,
    ) -> Result<CpuIndex, Error> {
        let (next, broken) = self.take(claim, affinity, breaks)?;
        if let Err(error) = self.lead(claim, next) {
            self.drop_entry(claim.irq, claim.class, next.entry);
            return Err(error);
        }
        self.with(|book| book.record(claim.at).broken = broken);
        if broken {
            self.mover.affinity_broken(claim.irq, next.cpu);
        }
        Ok(next.cpu)
    }

    /// Has a stopped interrupt served at a place that it has not given back, if there is one.
    ///
    /// # Errors
    /// Those of [`Mover::point`].
    pub(super) fn resume(&self, claim: &Claim) -> Result<Option<CpuIndex>, Error> {
        let Some((next, points)) = self.with(|book| book.take_back(claim)) else {
            return Ok(None);
        };
        let pointed = match points {
            true => Ok(Leaves::Drains),
            false => self.mover.point(claim.irq, None, next.place),
        };
        self.with(|book| match pointed {
            // Its other places are due as they were.
            Ok(_) => {
                book.moved(claim.at, next.entry, Leaves::Drains);
                book.record(claim.at).broken = false;
            }
            Err(_) => {
                book.set(next.entry, Stage::Due);
                book.record(claim.at).next = NONE;
            }
        });
        pointed.map(|_| Some(next.cpu))
    }

    fn take(
        &self,
        claim: &Claim,
        affinity: &Affinity,
        breaks: bool,
    ) -> Result<(Next<M::Place>, bool), Error> {
        let mut among = affinity.among();
        let mut broken = false;
        for _ in 0..TRIES {
            let (reserved, since) =
                self.with(|book| (book.record(claim.at).reserved, book.state.closings));
            let wanted = Wanted {
                irq: claim.irq,
                class: claim.class,
                among,
                near: claim.near,
                reserved,
            };
            let place = match self.mover.take(&wanted) {
                Ok(place) => place,
                Err(error) if breaks && !broken && no_room(error) => {
                    (among, broken) = (Among::Machine, true);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let cpu = self.mover.cpu_of(place);
            let entry = self.with(|book| {
                book.record(claim.at).reserved = false;
                book.install(claim.at, cpu, place, since)
            });
            if let Some(entry) = entry {
                return Ok((Next { entry, place, cpu }, broken));
            }
            self.mover.give_back(claim.irq, claim.class, place);
            self.platform.relax();
        }
        Err(UNSETTLED)
    }

    /// Points the source at a place that was taken.
    fn lead(&self, claim: &Claim, next: Next<M::Place>) -> Result<(), Error> {
        let at = claim.at;
        // An arrival names a CPU and no place: where the new CPU has another place of the
        // interrupt it says nothing of messages under way, and there must be none. A source
        // that is held has none.
        let (from, twice) = self.with(|book| {
            let started = book.record(at).phase == Phase::Started;
            let twice = started && book.has_another(at, next.entry);
            (book.current(at), twice)
        });
        if twice {
            self.mover.hold(claim.irq)?;
            let wakes = self.with(|book| book.all_due(at));
            self.wake(wakes);
        }
        let pointed = self.mover.point(claim.irq, from, next.place);
        if let (Ok(Leaves::Nothing), Some(from)) = (pointed, from) {
            self.mover.give_back(claim.irq, claim.class, from);
        }
        if twice {
            self.mover.release(claim.irq);
        }
        let wakes = match pointed {
            Ok(leaves) => self.with(|book| book.moved(at, next.entry, leaves)),
            Err(error) => return Err(error),
        };
        self.wake(wakes);
        Ok(())
    }

    /// Gives the place of `entry` back, to which the source does not point.
    pub(super) fn drop_entry(&self, irq: Irq, class: Class, entry: u32) {
        let place = self.with(|book| {
            book.set(entry, Stage::Leaving);
            book.entry(entry).place
        });
        if let Some(place) = place {
            self.mover.give_back(irq, class, place);
        }
        self.with(|book| book.dropped(entry));
    }

    /// After the interrupt lost its place, or never got it: has its reservation again, if it is
    /// one of those that have.
    pub(super) fn reserve_again(&self, claim: &Claim) {
        let has = self.with(|book| book.record(claim.at).reserved);
        if claim.reserves && !has {
            let reserved = self.mover.reserve(claim.irq).is_ok();
            self.with(|book| book.record(claim.at).reserved = reserved);
        }
    }
}

/// Whether the CPUs asked for cannot serve at the moment, and others may.
pub(super) fn no_room(error: Error) -> bool {
    matches!(error.kind(), ErrorKind::Offline | ErrorKind::Full)
}

impl<P: Copy> Book<'_, P> {
    /// Whether the interrupt may take a place. A managed one has one on a CPU at most, or it would
    /// use the reservation of another: it takes none until those that it left on open CPUs are
    /// given back.
    pub(super) fn may_take(&self, at: u32, class: Class) -> Result<(), Error> {
        let may = match class {
            Class::Managed => !self.has_left(at, |book, cpu| book.is_open(cpu)),
            Class::Regular => self.find(at, Stage::Unused).is_some(),
        };
        match may {
            true => Ok(()),
            false => Err(MOVING),
        }
    }

    /// Takes a place back that a stopped interrupt has left and not given back, on a CPU that may
    /// serve: the one that its source points at, if there is a choice. Says whether it is that.
    fn take_back(&mut self, claim: &Claim) -> Option<(Next<P>, bool)> {
        let last = self.record(claim.at).last;
        let first = claim.at * PLACES;
        let may = |entry: &u32| {
            let known = self.entry(*entry);
            let open = self.is_open(known.cpu) && claim.affinity.contains(known.cpu);
            known.stage == Stage::Due && open
        };
        let mut places = first..first + PLACES;
        let entry = match last {
            last if places.contains(&last) && may(&last) => last,
            _ => places.find(may)?,
        };
        let Entry { place, cpu, .. } = *self.entry(entry);
        let place = place?;
        self.set(entry, Stage::Next);
        self.record(claim.at).next = entry;
        Some((Next { entry, place, cpu }, entry == last))
    }

    /// Shuts an interrupt that has no place: it waits for a CPU of its mask. Such a CPU finds it
    /// from now on, though it is claimed.
    pub(super) fn park(&mut self, claim: &mut Claim) {
        let affinity = mem::take(&mut claim.affinity);
        claim.parked = true;
        self.put_shut(claim.at, &affinity);
        let record = self.record(claim.at);
        record.phase = Phase::Shut;
        record.affinity = Some(affinity);
    }

    /// The source points at `entry`.
    fn moved(&mut self, at: u32, entry: u32, leaves: Leaves) -> Wakes {
        let record = self.record(at);
        let old = record.current;
        record.current = entry;
        record.next = NONE;
        let late = leaves == Leaves::Late && !record.arrived;
        self.set(entry, Stage::Current);
        if old != NONE {
            let stage = match leaves {
                Leaves::Nothing => Stage::Unused,
                Leaves::Drains | Leaves::Late => Stage::Waiting,
            };
            self.set(old, stage);
        }
        // A first place has left nothing: no arrival matters.
        if late && old != NONE {
            Wakes::default()
        } else {
            self.all_due(at)
        }
    }

    /// The place of `entry` was given back.
    pub(super) fn dropped(&mut self, entry: u32) {
        let at = entry / PLACES;
        self.set(entry, Stage::Unused);
        let record = self.record(at);
        if record.next == entry {
            record.next = NONE;
            let waits = self.find(at, Stage::Waiting).is_some();
            self.watch(at, waits);
        }
    }
}
