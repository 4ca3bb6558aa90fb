// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of an interrupt: added, started, given another affinity, stopped, removed.

use core::fmt;
use core::mem;

use irq_hal::{CpuIndex, Error, ErrorKind, NoCpu, NodeId, Platform};

use super::Hotplug;
use super::affinity::Affinity;
use super::claim::{CLAIMED, Claim, TRIES, UNSETTLED};
use super::list::NONE;
use super::mover::Mover;
use super::state::{Book, Phase, Stage, Wakes};
use crate::irq::Irq;
use crate::placement::Class;

/// An interrupt to be added.
#[derive(Debug)]
pub struct NewIrq {
    /// Whether its mask is fixed, and it is shut down when the last CPU of it goes; or it moves
    /// to any CPU then.
    pub class: Class,
    /// The CPUs that may serve it.
    pub affinity: Affinity,
    /// The device's node, if it is known.
    pub near: Option<NodeId>,
    /// Whether it has a reservation while it is stopped ([`Mover::reserve`]).
    pub reserves: bool,
}

impl NewIrq {
    /// A regular interrupt for any CPU, without reservation.
    pub const fn regular() -> Self {
        Self {
            class: Class::Regular,
            affinity: Affinity::Any,
            near: None,
            reserves: false,
        }
    }

    /// A managed interrupt, for which places on all CPUs of `affinity` are reserved.
    pub const fn managed(affinity: Affinity) -> Self {
        Self {
            class: Class::Managed,
            affinity,
            near: None,
            reserves: false,
        }
    }
}

/// What a start, or a change of affinity, came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Served {
    /// This CPU serves the interrupt, as before.
    Kept(CpuIndex),
    /// This CPU serves it now.
    By(CpuIndex),
    /// It is managed and no CPU of its mask is online: it is shut down until one is.
    Later,
    /// It is not started.
    Stopped,
}

/// What a removal came to.
#[derive(PartialEq, Eq, Debug)]
pub enum Removal {
    /// The number may be used again, and every place was given back: reservations of a managed
    /// interrupt can be too.
    Done(Affinity),
    /// The source is held. Some places still have something pending, or other CPUs have not
    /// looked yet: remove again later.
    Draining,
}

/// The calls of a [`Hotplug`] that change something, with what they need: made by
/// [`Hotplug::changes`].
pub struct Changes<'a, M: Mover + ?Sized> {
    pub(super) hotplug: &'a Hotplug<M::Place>,
    pub(super) platform: &'a dyn Platform,
    pub(super) mover: &'a M,
}

impl<M: Mover + ?Sized> fmt::Debug for Changes<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Changes").field(self.hotplug).finish()
    }
}

impl<M: Mover + ?Sized> Changes<'_, M> {
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Book<'_, M::Place>) -> R) -> R {
        self.hotplug.with(self.platform, f)
    }

    /// Claims an interrupt that is in use, if `may` says so.
    fn claim(
        &self,
        irq: Irq,
        may: impl FnOnce(&mut Book<'_, M::Place>, u32) -> Result<(), Error>,
    ) -> Result<Claim, Error> {
        let at = self.hotplug.at(irq)?;
        self.with(|book| {
            if matches!(book.record(at).phase, Phase::Vacant | Phase::Ending) {
                return Err(no_such(irq));
            }
            may(book, at)?;
            Claim::new(book, at, irq)
        })
    }

    /// Makes `irq` known, stopped: it has no place, and the source is held.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Exists`] if it is known; [`Error::Busy`] while it is being
    /// removed; [`Error::NoSuchCpu`] for a mask with a CPU that cannot exist, [`Error::NoCpu`]
    /// for an empty one; those of [`Mover::reserve`]. Nothing has changed then.
    ///
    /// # Context
    /// Any that may free what `new` has, if there is an error.
    pub fn add(&self, irq: Irq, new: NewIrq) -> Result<(), Error> {
        let at = self.hotplug.at(irq)?;
        self.hotplug.usable(&new.affinity)?;
        let NewIrq {
            class,
            affinity,
            near,
            reserves,
        } = new;
        let mut claim = self.with(|book| {
            let record = book.record(at);
            match record.phase {
                Phase::Vacant if record.claimed => Err(CLAIMED),
                Phase::Vacant => {
                    record.phase = Phase::Stopped;
                    record.class = class;
                    record.near = near;
                    record.reserves = reserves;
                    Claim::new(book, at, irq)
                }
                Phase::Ending => Err(CLAIMED),
                _ => Err(Error::Exists {
                    what: "the interrupt",
                }),
            }
        })?;
        let reserved = match reserves {
            true => self.mover.reserve(irq),
            false => Ok(()),
        };
        self.with(|book| {
            let record = book.record(at);
            match reserved {
                Ok(()) => record.reserved = reserves,
                Err(_) => record.phase = Phase::Vacant,
            }
        });
        claim.affinity = affinity;
        self.finish(claim);
        reserved
    }

    /// Takes a place for `irq`, points the source at it, and only then lets it go. One that was
    /// stopped and whose place has not been given back is served there. One that is shut is tried
    /// again.
    ///
    /// A regular interrupt for which no CPU of its mask has room is served outside of it
    /// ([`Mover::affinity_broken`]); a managed one waits for a CPU of its mask.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Exists`] if it is started; [`Error::Busy`] while another
    /// call changes it, or while too many places that it left are not given back (of a managed
    /// one, any); those of the driver. The interrupt is as before then.
    ///
    /// # Context
    /// That of the driver's calls; not preempted by the offline call of this CPU.
    pub fn start(&self, irq: Irq) -> Result<Served, Error> {
        let mut claim = self.claim(irq, |book, at| match book.record(at).phase {
            Phase::Stopped | Phase::Shut => Ok(()),
            _ => Err(Error::Exists {
                what: "the started interrupt",
            }),
        })?;
        let begun = self.begin(&mut claim);
        self.finish(claim);
        begun
    }

    /// Starts a stopped or shut interrupt, or shuts it. A shut one stays so, in its list, until it
    /// is served.
    pub(super) fn begin(&self, claim: &mut Claim) -> Result<Served, Error> {
        let at = claim.at;
        let regular = claim.class == Class::Regular;
        for _ in 0..TRIES {
            let brought = match self.resume(claim) {
                Ok(None) => self
                    .with(|book| book.may_take(at, claim.class))
                    .and_then(|()| self.bring(claim, &claim.affinity, regular)),
                Ok(Some(cpu)) => Ok(cpu),
                Err(error) => Err(error),
            };
            match brought {
                Ok(cpu) => {
                    let reserved = self.with(|book| {
                        book.unpark(at);
                        book.record(at).phase = Phase::Started;
                        mem::take(&mut book.record(at).reserved)
                    });
                    if reserved {
                        self.mover.unreserve(claim.irq);
                    }
                    self.mover.release(claim.irq);
                    return Ok(Served::By(cpu));
                }
                Err(error) if !regular && error.kind() == ErrorKind::Offline => {
                    if self.shut(claim) {
                        return Ok(Served::Later);
                    }
                    // One came meanwhile.
                    self.platform.relax();
                }
                Err(error) => {
                    self.reserve_again(claim);
                    return Err(error);
                }
            }
        }
        Err(UNSETTLED)
    }

    /// Shuts an interrupt whose source is held, unless a CPU of its mask is open.
    pub(super) fn shut(&self, claim: &mut Claim) -> bool {
        let wakes = self.with(|book| {
            if book.has_open(&claim.affinity) {
                return None;
            }
            let wakes = book.stopped(claim.at);
            book.park(claim);
            Some(wakes)
        });
        wakes.map(|wakes| self.wake(wakes)).is_some()
    }

    /// Changes the CPUs that may serve `irq` to `affinity`, which becomes the one before. A CPU
    /// that is among them keeps it.
    ///
    /// # Errors
    /// Nothing has changed then, `affinity` neither.
    /// - [`Error::NoSuchIrq`]; [`Error::Unsupported`] for a managed interrupt;
    /// - [`Error::NoSuchCpu`] for a mask with a CPU that cannot exist; [`Error::NoCpu`] for one
    ///   that is empty, or without a CPU that is online and has room;
    /// - [`Error::Busy`] while another call changes it, and until the places that it left are
    ///   given back;
    /// - those of the driver.
    ///
    /// # Context
    /// As [`start`](Self::start).
    pub fn set_affinity(&self, irq: Irq, affinity: &mut Affinity) -> Result<Served, Error> {
        self.hotplug.usable(affinity)?;
        let mut claim = self.claim(irq, |book, at| {
            if book.record(at).class == Class::Managed {
                return Err(Error::Unsupported {
                    feature: "another affinity of a managed interrupt",
                });
            }
            match book.has_open(affinity) {
                true => Ok(()),
                false => Err(NoCpu::Offline.into()),
            }
        })?;
        let served = self.follow(&claim, affinity);
        if served.is_ok() {
            mem::swap(&mut claim.affinity, affinity);
        }
        self.finish(claim);
        served
    }

    fn follow(&self, claim: &Claim, affinity: &Affinity) -> Result<Served, Error> {
        let at = claim.at;
        if claim.phase != Phase::Started {
            return Ok(Served::Stopped);
        }
        let kept = self.with(|book| {
            let current = book.record(at).current;
            let cpu = book.entry(current).cpu;
            if affinity.contains(cpu) && book.is_open(cpu) {
                book.record(at).broken = false;
                return Ok(Some(cpu));
            }
            match book.left(at) {
                0 => Ok(None),
                _ => Err(MOVING),
            }
        })?;
        match kept {
            Some(cpu) => Ok(Served::Kept(cpu)),
            None => self.bring(claim, affinity, false).map(Served::By),
        }
    }

    /// Holds the source of `irq`, whose place is given back once nothing is pending there. Does
    /// nothing for one that is stopped.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Busy`] while another call changes it; those of
    /// [`Mover::hold`], and it is started then.
    ///
    /// # Context
    /// As [`start`](Self::start). Handlers may still run: the caller waits for them.
    pub fn stop(&self, irq: Irq) -> Result<(), Error> {
        let claim = self.claim(irq, |_, _| Ok(()))?;
        let halted = self.halt(&claim);
        if halted.is_ok() {
            self.reserve_again(&claim);
        }
        self.finish(claim);
        halted
    }

    fn halt(&self, claim: &Claim) -> Result<(), Error> {
        if claim.phase == Phase::Started {
            self.mover.hold(claim.irq)?;
        }
        let wakes = self.with(|book| match claim.phase {
            Phase::Started => book.stopped(claim.at),
            Phase::Shut => {
                book.unpark(claim.at);
                book.record(claim.at).phase = Phase::Stopped;
                Wakes::default()
            }
            _ => Wakes::default(),
        });
        self.wake(wakes);
        Ok(())
    }

    /// Stops `irq` if it is started, and forgets it when its places have been given back: that is
    /// now, or a later call tells. Works in any state.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`], also when it is forgotten; [`Error::Busy`] while another call
    /// changes it; those of [`Mover::hold`], and it is started then.
    ///
    /// # Context
    /// As [`stop`](Self::stop).
    pub fn remove(&self, irq: Irq) -> Result<Removal, Error> {
        let at = self.hotplug.at(irq)?;
        let claim = self.with(|book| match book.record(at).phase {
            Phase::Vacant => Err(no_such(irq)),
            _ => Claim::new(book, at, irq),
        })?;
        if let Err(error) = self.halt(&claim) {
            self.finish(claim);
            return Err(error);
        }
        let reserved = self.with(|book| mem::take(&mut book.record(at).reserved));
        if reserved {
            self.mover.unreserve(irq);
        }
        let gone = self.with(|book| {
            let left = book.left(at);
            let record = book.record(at);
            record.owed = false;
            record.broken = false;
            record.phase = match left {
                0 => Phase::Vacant,
                _ => Phase::Ending,
            };
            if left == 0 {
                record.claimed = false;
            }
            left == 0
        });
        if gone {
            return Ok(Removal::Done(claim.affinity));
        }
        self.finish(claim);
        Ok(Removal::Draining)
    }
}

/// Places that it left are not given back.
pub(super) const MOVING: Error = Error::Busy {
    what: "a place that the interrupt left",
};

pub(super) const fn no_such(irq: Irq) -> Error {
    Error::NoSuchIrq { irq: irq.get() }
}

impl<P: Copy> Book<'_, P> {
    /// The source is held: all its places are to be given back.
    pub(super) fn stopped(&mut self, at: u32) -> Wakes {
        let record = self.record(at);
        record.phase = Phase::Stopped;
        let current = mem::replace(&mut record.current, NONE);
        if current != NONE {
            self.set(current, Stage::Waiting);
            self.record(at).last = current;
        }
        self.all_due(at)
    }
}
