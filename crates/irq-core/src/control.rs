// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control side: what device drivers of the kernel use.

use core::fmt;

use irq_hal::atomic::Ordering::{Acquire, Relaxed, Release};
use irq_hal::{CpuIndex, Error, Platform, percpu};

use crate::action::{Action, Call};
use crate::counts::Counts;
use crate::descriptor::Upkeep;
use crate::driver::Lines;
use crate::interrupts::Interrupts;
use crate::irq::{Irq, LineState, Trigger};
use crate::lockup::NOT_DEFERRED;
use crate::patience::patience;
use crate::registration::Registration;

/// The interrupts with their platform and their controller, for device drivers: it names
/// neither's type. Copy it freely.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) platform: &'a dyn Platform,
    pub(crate) lines: &'a dyn Lines,
}

impl<'a> Control<'a> {
    /// The interrupts.
    pub const fn interrupts(&self) -> &'a Interrupts {
        self.interrupts
    }

    /// The platform.
    pub const fn platform(&self) -> &'a dyn Platform {
        self.platform
    }

    /// Puts `action` on `irq`, behind those that are there. The line is left as it is: masked,
    /// until its owner unmasks it.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Exists`] if this action, or one that is there, does not
    /// share, and for the interrupt of the IPIs; [`Error::Unsupported`] for a shared end-first
    /// action; [`Error::Context`] from inside a handler; [`Error::OutOfMemory`];
    /// [`Error::Timeout`] if another change of this interrupt does not end.
    ///
    /// # Context
    /// Thread, interrupts unmasked and no lock held; at any time after construction.
    pub fn register(&self, irq: Irq, action: Action) -> Result<Registration<'a>, Error> {
        if action.shared && matches!(action.call, Call::EndFirst(..)) {
            return Err(Error::Unsupported {
                feature: "a shared end-first action",
            });
        }
        let call = action.call.clone();
        let (_, upkeep) = self.interrupts.upkeep(irq)?;
        if self.interrupts.ipi_of(irq).is_some() {
            return Err(Error::Exists {
                what: "the interrupt of the IPIs",
            });
        }
        let id = self.interrupts.change(self.platform, irq)?.add(action)?;
        upkeep.registered.store(true, Relaxed);
        for line in self.interrupts.lines(upkeep) {
            line.window.reset();
        }
        Ok(Registration::new(*self, irq, id, call))
    }

    /// Stops delivery: [`Lines::mask`].
    ///
    /// # Errors
    /// Those of the controller.
    ///
    /// # Context
    /// As [`Lines`].
    pub fn mask(&self, irq: Irq) -> Result<(), Error> {
        self.lines.mask(irq)
    }

    /// Lets the line be delivered: [`Lines::unmask`]. The detector begins afresh, as it does
    /// when an action is registered.
    ///
    /// # Errors
    /// Those of the controller.
    ///
    /// # Context
    /// As [`Lines`].
    pub fn unmask(&self, irq: Irq) -> Result<(), Error> {
        if let Ok((_, upkeep)) = self.interrupts.upkeep(irq) {
            percpu::masked(self.platform, |on| {
                if let Some(line) = self.interrupts.line(upkeep, on.cpu()) {
                    line.window.reset();
                }
            });
        }
        self.lines.unmask(irq)
    }

    /// Sets how the line triggers: [`Lines::set_trigger`].
    ///
    /// # Errors
    /// Those of the controller.
    ///
    /// # Context
    /// As [`Lines`].
    pub fn set_trigger(&self, irq: Irq, trigger: Trigger) -> Result<(), Error> {
        self.lines.set_trigger(irq, trigger)
    }

    /// Makes the line pending: [`Lines::retrigger`].
    ///
    /// # Errors
    /// Those of the controller.
    ///
    /// # Context
    /// As [`Lines`].
    pub fn retrigger(&self, irq: Irq) -> Result<(), Error> {
        self.lines.retrigger(irq)
    }

    /// The line's state: [`Lines::state`].
    ///
    /// # Errors
    /// Those of the controller.
    ///
    /// # Context
    /// As [`Lines`].
    pub fn state(&self, irq: Irq) -> Result<LineState, Error> {
        self.lines.state(irq)
    }

    /// Ends a deferred interrupt: from any CPU, a private one on its own CPU. Of several calls
    /// one does. A call may come before the dispatch has deferred, from whoever the action woke
    /// first: it waits for the handlers that run, bounded.
    ///
    /// # Errors
    /// [`Error::NotDeferred`] (here, if it is private), also if it was completed
    /// before; [`Error::NoSuchIrq`]; [`Error::Context`] from inside a handler that would have to
    /// end first; [`Error::Timeout`] if a handler does not; those of the controller, and the
    /// interrupt stays deferred then.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. Where it may come too early, interrupts unmasked and no
    /// lock held, or the wait may be in vain.
    pub fn complete(&self, irq: Irq) -> Result<(), Error> {
        let (index, upkeep) = self.interrupts.upkeep(irq)?;
        if self.complete_deferred(irq, upkeep, None)? {
            return Ok(());
        }
        // What is deferred on this CPU alone was marked before the caller could run, unless it
        // runs inside the handler: that is an error either way.
        self.wait_for_handlers(index)?;
        if self.complete_deferred(irq, upkeep, None)? {
            return Ok(());
        }
        Err(Error::NotDeferred { irq: irq.get() })
    }

    /// Completes `irq` if it is deferred, by the action `by` if one is named: then the line is
    /// masked first.
    fn complete_deferred(&self, irq: Irq, upkeep: &Upkeep, by: Option<u64>) -> Result<bool, Error> {
        percpu::masked(self.platform, |on| {
            let Some(line) = self.interrupts.line(upkeep, on.cpu()) else {
                return Ok(false);
            };
            // Acquire: pairs with the release in the dispatch, so that the completion comes
            // after the deferral. One call gets the mark.
            let deferred = match by {
                None => line.deferred.swap(NOT_DEFERRED, Acquire),
                // The caller has waited for the handlers: the deferral comes before it.
                Some(id) => {
                    let mark = &line.deferred;
                    let taken = mark.compare_exchange(id, NOT_DEFERRED, Relaxed, Relaxed);
                    taken.unwrap_or(NOT_DEFERRED)
                }
            };
            if deferred == NOT_DEFERRED {
                return Ok(false);
            }
            let masked = match by {
                Some(_) => self.lines.mask(irq),
                None => Ok(()),
            };
            let completed = masked.and_then(|()| self.lines.complete(irq));
            if completed.is_err() {
                // Release: as in the dispatch, for the next call.
                line.deferred.swap(deferred, Release);
            }
            completed.map(|()| true)
        })
    }

    /// Masks and completes what the removed action `id` left deferred.
    ///
    /// # Errors
    /// [`Error::Busy`] if that is a private interrupt of another CPU; those of the controller.
    pub(crate) fn abandon(&self, irq: Irq, id: u64) -> Result<(), Error> {
        let (_, upkeep) = self.interrupts.upkeep(irq)?;
        self.complete_deferred(irq, upkeep, Some(id))?;
        let mut lines = self.interrupts.lines(upkeep);
        if lines.any(|line| line.deferred.load(Relaxed) == id) {
            return Err(Error::Busy {
                what: "a private irq that another CPU deferred",
            });
        }
        Ok(())
    }

    /// Waits until no CPU runs the actions of `irq` that ran at the call. Those that begin
    /// later are not waited for. An end-first action is not either, once it was called.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Context`] from inside a handler; [`Error::Timeout`] if one
    /// does not end.
    ///
    /// # Context
    /// Interrupts unmasked and no lock held, or the wait may be in vain.
    pub fn synchronize(&self, irq: Irq) -> Result<(), Error> {
        let (index, _) = self.interrupts.upkeep(irq)?;
        self.wait_for_handlers(index)
    }

    fn wait_for_handlers(&self, index: u32) -> Result<(), Error> {
        let bound = patience(self.platform);
        self.interrupts
            .descriptors
            .synchronize(self.platform, index, bound)
    }

    /// How often `irq` was taken: [`Interrupts::counts`].
    ///
    /// # Context
    /// Any.
    pub fn counts(&self, irq: Irq) -> Option<Counts> {
        self.interrupts.counts(irq)
    }

    /// How often `cpu` took the private interrupt `irq`: [`Interrupts::counts_on`].
    ///
    /// # Context
    /// Any.
    pub fn counts_on(&self, irq: Irq, cpu: CpuIndex) -> Option<Counts> {
        self.interrupts.counts_on(irq, cpu)
    }
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("irqs", &self.interrupts.irqs())
            .finish_non_exhaustive()
    }
}
