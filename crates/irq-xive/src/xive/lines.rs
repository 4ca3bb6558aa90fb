// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of sources by our numbers.
//!
//! A source that is *parked* is kept at P=1, as if an event were under way that nobody ends: what
//! comes meanwhile is kept in Q, or by the line, and is sent when the source is let go. One that
//! is *off* is kept at P=0 Q=1, where hardware drops what comes.

use irq_core::{Irq, LineState, Lines, Trigger};
use irq_hal::{Barrier, Error, Platform, percpu};

use super::Xive;
use super::held::{DEFERRED, HANDED, Held, Hold, OWED, Slot, Source};
use super::online::DEAD;
use crate::esb::{Eoi, Pq};
use crate::firmware::Firmware;
use crate::layout::IPI;
use irq_hal::atomic::Ordering;

const NOT_FOR_IPIS: Error = Error::Unsupported {
    feature: "masking or completing the interrupt between CPUs",
};

/// A source of ours and its slot.
type Line<'x, W> = (&'x Slot<W>, &'x Source<W>);

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// Turns a device's source off: its events are dropped, until it is turned
    /// [on](Self::on) or [unmasked](Lines::unmask). An event that is under way is still taken.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Invalid`] for the IPI; [`Error::Refused`] if the source is
    /// dead; [`Error::Timeout`] if an end on another CPU does not end.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn off(&self, irq: Irq) -> Result<(), Error> {
        let (slot, source) = self.source_of(irq)?;
        slot.held.with(&self.platform, |held| {
            let before = self.hold(slot, source, held, Pq::OFF)?;
            if held.hold == Hold::Live {
                held.under_way = before.p;
            }
            held.hold = Hold::Off;
            Ok(())
        })
    }

    /// Turns a device's source on again, masked: its events are kept from now on.
    ///
    /// # Errors
    /// As [`off`](Self::off).
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn on(&self, irq: Irq) -> Result<(), Error> {
        let (slot, source) = self.source_of(irq)?;
        slot.held.with(&self.platform, |held| {
            if held.hold == Hold::Off {
                source.esb.set(Pq::PENDING).ok_or(DEAD)?;
                held.hold = Hold::Parked;
            }
            Ok(())
        })
    }

    /// Keeps entries from ending the source, and sets its state, which is told as it was.
    fn hold(
        &self,
        slot: &Slot<F::Window>,
        source: &Source<F::Window>,
        held: &Held,
        state: Pq,
    ) -> Result<Pq, Error> {
        let live = held.hold == Hold::Live;
        if live {
            slot.hand.hold(&self.platform)?;
        }
        let before = source.esb.set(state);
        if before.is_none() && live {
            slot.hand.let_go(&self.platform)?;
        }
        before.ok_or(DEAD)
    }

    /// Keeps the source's events.
    fn park(
        &self,
        slot: &Slot<F::Window>,
        source: &Source<F::Window>,
        held: &mut Held,
    ) -> Result<(), Error> {
        if held.hold != Hold::Live {
            return Ok(());
        }
        let before = self.hold(slot, source, held, Pq::PENDING)?;
        if before == Pq::QUEUED {
            // The event that waited is not lost: set again, and one that came between is the
            // same.
            source.esb.set(Pq::QUEUED).ok_or(DEAD)?;
        }
        held.hold = Hold::Parked;
        held.under_way = before.p;
        Ok(())
    }

    fn let_go(
        &self,
        slot: &Slot<F::Window>,
        source: &Source<F::Window>,
        held: &mut Held,
    ) -> Result<(), Error> {
        match held.hold {
            Hold::Live => return Ok(()),
            Hold::Parked => {}
            Hold::Off => {
                source.esb.set(Pq::PENDING).ok_or(DEAD)?;
                held.hold = Hold::Parked;
            }
        }
        let owed = slot.hand.let_go(&self.platform)?;
        held.hold = Hold::Live;
        // If an event is under way, its end does the rest.
        if owed || !held.under_way {
            self.end_anywhere(source);
        }
        held.under_way = false;
        Ok(())
    }

    /// Ends a source from wherever this runs. A line that is still high is an event.
    fn end_anywhere(&self, source: &Source<F::Window>) {
        // What the caller did, to memory or to the device, comes before what this sends.
        source.esb.barrier().complete();
        if source.esb.is_lsi() && source.esb.eoi() != Eoi::Firmware {
            // The one way that is sure to look at the line, whatever entries use.
            source.esb.load_eoi();
        } else {
            source.esb.end(|| {
                self.opal.end(source.number);
            });
        }
    }

    /// Sends an event once more that was taken out of a queue and not handled.
    pub(super) fn replay(&self, index: u32) {
        let Some(slot) = self.hot.sources.get(index as usize - 1) else {
            return;
        };
        let Some(source) = slot.hand.source.get() else {
            return;
        };
        slot.held.with(&self.platform, |held| {
            // The line tells whether there is still something to send; else it is in Q.
            let keep = !source.esb.is_lsi() && held.hold != Hold::Off;
            if keep && source.esb.set(Pq::QUEUED).is_none() {
                return;
            }
            if held.hold == Hold::Live {
                self.end_anywhere(source);
            } else {
                // Whoever lets it go ends it.
                held.under_way = false;
            }
        });
    }

    /// A device's source, while it is ours.
    pub(super) fn source_of(&self, irq: Irq) -> Result<Line<'_, F::Window>, Error> {
        let index = self.device(irq)?;
        let none = Error::NoSuchIrq { irq: irq.get() };
        self.ledger
            .with(&self.platform, |ledger| ledger.ours(index).map(drop))
            .ok_or(none)?;
        let slot = self.hot.sources.get(index as usize - 1).ok_or(none)?;
        let source = slot.hand.source.get().ok_or(none)?;
        Ok((slot, source))
    }

    /// Runs `f` on the running CPU's block.
    fn with_own<R>(&self, f: impl FnOnce(&super::Cpu<F::Window>) -> R) -> Result<R, Error> {
        percpu::masked(&self.platform, |on| self.cpu(on.cpu()).map(f))
    }
}

impl<P, F> Lines for Xive<P, F>
where
    P: Platform,
    F: Firmware,
{
    /// Parks the source: an edge is kept. One that is off stays off. [`Error::Unsupported`] for
    /// the IPI; [`Error::Refused`] for a dead source.
    fn mask(&self, irq: Irq) -> Result<(), Error> {
        if self.hot.layout.index(irq)? == IPI {
            return Err(NOT_FOR_IPIS);
        }
        let (slot, source) = self.source_of(irq)?;
        slot.held
            .with(&self.platform, |held| self.park(slot, source, held))
    }

    /// Lets the source go; a line that is high is looked at. The IPI always is.
    fn unmask(&self, irq: Irq) -> Result<(), Error> {
        if self.hot.layout.index(irq)? == IPI {
            return Ok(());
        }
        let (slot, source) = self.source_of(irq)?;
        slot.held
            .with(&self.platform, |held| self.let_go(slot, source, held))
    }

    /// The trigger is the source's own: any other one is [`Error::Unsupported`].
    fn set_trigger(&self, irq: Irq, trigger: Trigger) -> Result<(), Error> {
        let own = if self.hot.layout.index(irq)? == IPI {
            Trigger::Edge
        } else if self.source_of(irq)?.1.esb.is_lsi() {
            Trigger::Level
        } else {
            Trigger::Edge
        };
        if trigger == own {
            return Ok(());
        }
        Err(Error::Unsupported {
            feature: "another trigger than the source's own",
        })
    }

    /// Triggers the source; the IPI on the CPU that runs. [`Error::Unsupported`] where only a
    /// line can.
    fn retrigger(&self, irq: Irq) -> Result<(), Error> {
        if self.hot.layout.index(irq)? == IPI {
            return self.with_own(|cpu| {
                cpu.fixed.ipi.barrier().publish();
                cpu.fixed.ipi.trigger();
            });
        }
        let (slot, source) = self.source_of(irq)?;
        if source.esb.is_raisable() {
            source.esb.barrier().publish();
            source.esb.trigger();
            return Ok(());
        }
        if source.esb.is_lsi() {
            return Err(Error::Unsupported {
                feature: "raising a source that only its line raises",
            });
        }
        // By its state: Q is what an end sends.
        slot.held.with(&self.platform, |held| {
            if held.hold == Hold::Off {
                return Ok(());
            }
            let before = source.esb.set(Pq::QUEUED).ok_or(DEAD)?;
            if held.hold == Hold::Live && !before.p {
                self.end_anywhere(source);
            }
            Ok(())
        })
    }

    fn complete(&self, irq: Irq) -> Result<(), Error> {
        if self.hot.layout.index(irq)? == IPI {
            return Err(NOT_FOR_IPIS);
        }
        let (slot, source) = self.source_of(irq)?;
        if slot.hand.complete(|| self.end_anywhere(source)) {
            return Ok(());
        }
        Err(Error::NotDeferred { irq: irq.get() })
    }

    /// Of a source that is not masked, P is *active*: an event is in a queue or with a handler,
    /// which the controller does not tell apart. A dead source is idle. Of a masked one, *pending*
    /// is Q: a line that is high does not show until it is unmasked.
    fn state(&self, irq: Irq) -> Result<LineState, Error> {
        if self.hot.layout.index(irq)? == IPI {
            let state = self.with_own(|cpu| cpu.fixed.ipi.get())?;
            return Ok(state.map_or_else(LineState::default, |pq| LineState {
                masked: false,
                pending: pq == Pq::QUEUED,
                active: pq.p,
            }));
        }
        let (slot, source) = self.source_of(irq)?;
        slot.held.with(&self.platform, |held| {
            let masked = held.hold != Hold::Live;
            let Some(pq) = source.esb.get() else {
                return Ok(LineState {
                    masked,
                    ..LineState::default()
                });
            };
            let word = slot.hand.word.load(Ordering::Acquire);
            let stale = word & HANDED != 0;
            let active = if masked {
                word & DEFERRED != 0 || held.under_way && word & OWED == 0
            } else {
                pq.p
            };
            Ok(LineState {
                masked,
                pending: pq == Pq::QUEUED,
                active: active && !stale,
            })
        })
    }
}
