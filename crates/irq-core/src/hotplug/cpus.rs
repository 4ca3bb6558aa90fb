// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go.

use irq_hal::percpu::OnCpu;
use irq_hal::wait::{WaitFor, wait};
use irq_hal::{CpuIndex, Error, ErrorKind};

use super::changes::{Changes, MOVING, Served};
use super::claim::{Claim, TRIES, UNSETTLED};
use super::mover::Mover;
use super::state::Stage;
use crate::patience::patience;
use crate::placement::Class;

static IDLE: WaitFor = WaitFor {
    register: "changes of the interrupts of a CPU",
    state: "idle",
};

/// What became of the interrupts of a CPU that went.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Offline {
    /// Served by other CPUs now.
    pub moved: u32,
    /// Of these, outside of their masks.
    pub broken: u32,
    /// Managed ones whose last CPU this was: shut down.
    pub shut: u32,
    /// Old places on this CPU that were given back, those of the above among them.
    pub places: u32,
    /// Events that were pending on this CPU, and are replayed where their interrupts are served.
    pub replayed: u32,
}

/// What became of the interrupts that waited for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Online {
    /// Restarted.
    pub restarted: u32,
    /// Still shut down, since the driver said no: how many, and the last error.
    /// [`Changes::start`] tries again.
    pub failed: Option<(u32, Error)>,
}

/// What became of the first interrupt of a CPU that goes.
#[derive(PartialEq)]
enum Step {
    /// There is none.
    Empty,
    /// It is being changed, or its places are in use: to be tried again.
    Busy,
    Moved,
    Failed(Error),
}

impl<M: Mover + ?Sized> Changes<'_, M> {
    /// Opens `cpu` for interrupts, and restarts the managed ones that waited for it.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuIsOnline`]; [`Error::Busy`] while another call takes it
    /// online or offline; those of [`Mover::open`]. The CPU is offline then.
    ///
    /// # Context
    /// On any CPU, when `cpu` can take interrupts: after the driver's own online call. As
    /// [`start`](Self::start) besides.
    pub fn online(&self, cpu: CpuIndex) -> Result<Online, Error> {
        self.hotplug.possible(cpu)?;
        self.with(|book| match *book.cpu(cpu) {
            known if known.changing => Err(CHANGING),
            known if known.online => Err(Error::CpuIsOnline { cpu }),
            _ => {
                book.cpu(cpu).changing = true;
                Ok(())
            }
        })?;
        let opened = self.mover.open(cpu);
        self.with(|book| {
            book.cpu(cpu).online = opened.is_ok();
            if opened.is_ok() {
                // It is below the number of CPUs.
                let _ = book.state.open.insert(cpu);
            }
        });
        let online = opened.map(|()| self.restart(cpu));
        self.with(|book| book.cpu(cpu).changing = false);
        online
    }

    /// Restarts the managed interrupts that waited for `cpu`.
    fn restart(&self, cpu: CpuIndex) -> Online {
        let mut online = Online::default();
        let mut tries = 0;
        self.with(|book| book.call_back(cpu));
        while let Some(mut claim) = self.called_back(cpu) {
            // One that waits for other CPUs goes back, or is served by one that came meanwhile.
            match self.begin(&mut claim) {
                Ok(Served::By(_)) => online.restarted += 1,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Busy && tries < TRIES => {
                    // Places that it left, on CPUs that come and go, are given back meanwhile.
                    tries += 1;
                    self.platform.relax();
                }
                Err(error) => {
                    let failed = online.failed.map_or(0, |(count, _)| count);
                    online.failed = Some((failed + 1, error));
                    self.with(|book| book.put_shut(claim.at, &claim.affinity));
                }
            }
            self.finish(claim);
        }
        online
    }

    /// Claims the first interrupt that `cpu` restarts, waiting for whoever changes it: it may be
    /// the CPU that just shut it.
    fn called_back(&self, cpu: CpuIndex) -> Option<Claim> {
        let mut claim = None;
        let bound = patience(self.platform);
        let read = || {
            claim = self.with(|book| {
                let at = book.first_called_back(cpu)?;
                Some(Claim::new(book, at, self.hotplug.irq(at)))
            });
            u32::from(matches!(claim, Some(Err(_))))
        };
        // In vain: it stays in the list, for the next time.
        let _ = wait(self.platform, &IDLE, bound, read, |busy| busy == 0);
        claim?.ok()
    }

    /// Takes this CPU out of use: its interrupts move to others, or are shut down if they are
    /// managed and no CPU of their mask is left; what is pending on it is replayed where they
    /// are served then.
    ///
    /// # Errors
    /// - [`Error::NoSuchCpu`]; [`Error::CpuOffline`]; [`Error::Busy`] while another call takes
    ///   it online or offline; [`Error::Full`] if the other CPUs have fewer places than it has
    ///   regular interrupts. Nothing has changed then.
    /// - [`Error::Timeout`] if another CPU does not end a change of an interrupt; those of the
    ///   driver. The CPU is in use as before, and so are its interrupts, but for those that have
    ///   moved.
    ///
    /// # Context
    /// On that CPU, masked, before the driver's own offline call: pending interrupts are not
    /// taken any more, and are not dropped yet. No other call for an interrupt may have been
    /// preempted on this CPU.
    pub fn offline(&self, on: &OnCpu) -> Result<Offline, Error> {
        let cpu = on.cpu();
        self.hotplug.possible(cpu)?;
        let regular = self.with(|book| match book.cpu(cpu) {
            known if known.changing => Err(CHANGING),
            known if !known.online => Err(Error::CpuOffline { cpu }),
            known => {
                known.changing = true;
                Ok(known.regular)
            }
        })?;
        let gone = self.admit(cpu, regular).and_then(|()| self.go(on));
        self.with(|book| {
            let known = book.cpu(cpu);
            known.changing = false;
            known.online = gone.is_err();
        });
        gone
    }

    /// Whether what must move fits elsewhere.
    fn admit(&self, cpu: CpuIndex, regular: u32) -> Result<(), Error> {
        let room = self.mover.room_without(cpu);
        if regular > room {
            return Err(Error::Full {
                what: "places on other CPUs",
                capacity: room,
            });
        }
        Ok(())
    }

    fn go(&self, on: &OnCpu) -> Result<Offline, Error> {
        let cpu = on.cpu();
        // It may be closed since an earlier call that failed.
        if self.with(|book| book.is_open(cpu)) {
            self.mover.close(cpu)?;
            self.with(|book| book.close(cpu));
        }
        let mut offline = Offline::default();
        let emptied = self
            .empty(cpu, &mut offline)
            .and_then(|()| self.mover.settle(cpu));
        if let Err(error) = emptied {
            // What has left the CPU and can be given back is, so that it is not in the way of who
            // returns.
            self.clean(on);
            // If it does not open, nothing comes to it, and the next call may take it offline.
            if self.mover.open(cpu).is_ok() {
                self.with(|book| book.state.open.insert(cpu).is_ok());
                self.restart(cpu);
            }
            return Err(error);
        }
        let drained = self.drain(on);
        offline.places = drained.places;
        offline.replayed = drained.replayed;
        Ok(offline)
    }

    /// Moves, or shuts down, each interrupt that `cpu` serves, waiting for whoever changes one.
    fn empty(&self, cpu: CpuIndex, offline: &mut Offline) -> Result<(), Error> {
        loop {
            let bound = patience(self.platform);
            let mut step = Step::Busy;
            let read = || {
                step = self.step(cpu, offline);
                u32::from(step == Step::Busy)
            };
            wait(self.platform, &IDLE, bound, read, |busy| busy == 0)?;
            match step {
                Step::Empty => return Ok(()),
                Step::Failed(error) => return Err(error),
                Step::Moved | Step::Busy => {}
            }
        }
    }

    /// Moves the first interrupt that `cpu` serves away.
    fn step(&self, cpu: CpuIndex, offline: &mut Offline) -> Step {
        let claim = self.with(|book| {
            let Some(at) = book.first_served(cpu) else {
                return Ok(None);
            };
            // The next look is at another one.
            book.rotate(cpu);
            Claim::new(book, at, self.hotplug.irq(at)).map(Some)
        });
        match claim {
            Ok(None) => Step::Empty,
            Err(_) => Step::Busy,
            Ok(Some(mut claim)) => {
                let moved = self.evict(&mut claim, offline);
                self.finish(claim);
                match moved {
                    Ok(()) => Step::Moved,
                    Err(MOVING) => Step::Busy,
                    Err(error) => Step::Failed(error),
                }
            }
        }
    }

    /// Moves an interrupt away, or shuts it down.
    fn evict(&self, claim: &mut Claim, offline: &mut Offline) -> Result<(), Error> {
        let regular = claim.class == Class::Regular;
        if let Err(moving) = self.with(|book| book.may_take(claim.at, claim.class)) {
            // What waits for an arrival need not, of a source that was held.
            if self.with(|book| book.find(claim.at, Stage::Waiting).is_some()) {
                self.mover.hold(claim.irq)?;
                let wakes = self.with(|book| book.all_due(claim.at));
                self.mover.release(claim.irq);
                self.wake(wakes);
            }
            return Err(moving);
        }
        for _ in 0..TRIES {
            match self.bring(claim, &claim.affinity, regular) {
                Ok(_) => {
                    offline.moved += 1;
                    let broken = self.with(|book| book.record(claim.at).broken);
                    offline.broken += u32::from(broken);
                    return Ok(());
                }
                Err(error) if !regular && error.kind() == ErrorKind::Offline => {
                    self.mover.hold(claim.irq)?;
                    if self.shut(claim) {
                        offline.shut += 1;
                        return Ok(());
                    }
                    // One came meanwhile.
                    self.mover.release(claim.irq);
                    self.platform.relax();
                }
                Err(error) => return Err(error),
            }
        }
        Err(UNSETTLED)
    }
}

/// Another call takes the same CPU online or offline.
const CHANGING: Error = Error::Busy { what: "the CPU" };
