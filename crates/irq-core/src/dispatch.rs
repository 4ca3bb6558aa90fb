// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dispatch of an entry: acknowledge, actions, end.

use core::mem;
use core::ops::Deref;

use irq_hal::Error;
use irq_hal::atomic::Ordering::{Relaxed, Release};
use irq_hal::removal::Nested;

use crate::action::{ActionContext, Call, WordFn};
use crate::context::IrqContext;
use crate::counts::Tally;
use crate::descriptor::{FIRST, List, Place};
use crate::driver::{Controller, Flow, Lines};
use crate::interrupts::Interrupts;
use crate::irq::{Irq, LineState, Trigger};
use crate::lockup::Report;
use crate::outcome::{Answer, Bits, Outcome, Taken};

impl Interrupts {
    /// Takes one interrupt: acknowledges it, runs its actions, ends it; and so what the same
    /// acknowledge stands for beside it ([`Flow::end_and_next`]).
    ///
    /// Everything of ours is finished when it returns. The hardware raises what else is
    /// pending; calling again until [`Taken::Nothing`] is fine too. If an action unwinds, its
    /// interrupt is ended and the unwind goes on.
    ///
    /// # Context
    /// Interrupts masked, on the CPU of `cx`; nested after an end, and, without a detector, from
    /// an unmaskable entry. No lock, no allocation, no log; a detector that shuts a line off
    /// takes the locks of [`Lines::mask`].
    #[inline]
    pub fn dispatch<F: Controller + ?Sized>(&self, flow: &F, cx: &IrqContext<'_>) -> Outcome {
        match flow.ack(cx) {
            Some((irq, active)) => self.dispatch_acknowledged(flow, cx, irq, active),
            None => self.nothing(cx),
        }
    }

    /// Likewise, for an interrupt that somebody else acknowledged.
    ///
    /// # Context
    /// As [`dispatch`](Self::dispatch).
    #[inline]
    pub fn dispatch_acknowledged<F: Controller + ?Sized>(
        &self,
        flow: &F,
        cx: &IrqContext<'_>,
        irq: Irq,
        active: F::Active,
    ) -> Outcome {
        if self.ipi.is(irq) {
            return self.any_ipis().receive(flow, cx, active);
        }
        match self.serve(Ending { flow, active }, cx, irq) {
            (outcome, None) => outcome,
            (outcome, Some(next)) => self.dispatch_rest(flow, cx, outcome, next),
        }
    }

    /// Likewise, for one that bypasses the controller (a decrementer, a doorbell): nothing is
    /// acknowledged or ended. What an action defers or hands over counts as handled, and a
    /// detector cannot mask. IPIs do not come this way, since taking one may ring: where they
    /// bypass the controller they are [acknowledged](Self::dispatch_acknowledged), and their end
    /// does nothing.
    ///
    /// # Context
    /// As [`dispatch`](Self::dispatch).
    #[inline]
    pub fn dispatch_number(&self, irq: Irq, cx: &IrqContext<'_>) -> Outcome {
        let ending = Ending {
            flow: &Bypass,
            active: (),
        };
        self.serve(ending, cx, irq).0
    }

    /// The rest of the way where an acknowledge stood for several interrupts: `before` is what
    /// became of the first.
    #[inline(never)]
    fn dispatch_rest<F: Controller + ?Sized>(
        &self,
        flow: &F,
        cx: &IrqContext<'_>,
        before: Outcome,
        next: (Irq, F::Active),
    ) -> Outcome {
        let mut outcome = before;
        let mut next = Some(next);
        while let Some((irq, active)) = next {
            let bits = outcome.bits;
            if self.ipi.is(irq) {
                outcome = self.any_ipis().receive(flow, cx, active);
                next = None;
            } else {
                (outcome, next) = self.serve(Ending { flow, active }, cx, irq);
            }
            outcome.bits = outcome.bits.union(bits);
        }
        outcome
    }

    /// The index of `irq`; out of the table for a number outside of the range.
    #[inline]
    fn index(&self, irq: Irq) -> u32 {
        irq.get().wrapping_sub(self.irqs.first().get())
    }

    /// What became of the interrupt, and the one that came with it.
    #[inline]
    fn serve<F>(&self, ending: Ending<'_, F>, cx: &IrqContext<'_>, irq: Irq) -> Served<F>
    where
        F: Flow + Lines + ?Sized,
    {
        let Some(here) = self.descriptors.here(cx.on()) else {
            return (Outcome::UNHANDLED, None);
        };
        let Some(at) = here.at(self.index(irq)) else {
            here.block().count_stray();
            return (Outcome::UNHANDLED, None);
        };
        let taken = match *at.data() {
            Place::Own(place) => here.block().tally(place).map(Tally::taken_by_one),
            Place::Shared(place) => {
                let tally = self.shared.get(place as usize);
                tally.map(|tally| tally.taken_by_many())
            }
        };
        // There is a count for each place. It tells one note of this interrupt from the next.
        let Some(tag) = taken else {
            return (Outcome::UNHANDLED, None);
        };
        match at.read_first(tag) {
            Ok(Some(list)) => self.run(ending, list, cx, irq),
            Ok(None) => (self.unhandled(ending, cx, irq), None),
            Err(Nested) => self.run_nested(ending, tag, cx, irq),
        }
    }

    /// The rest of the way for an interrupt that nests in an action of another.
    #[cold]
    #[inline(never)]
    fn run_nested<F>(
        &self,
        ending: Ending<'_, F>,
        tag: u32,
        cx: &IrqContext<'_>,
        irq: Irq,
    ) -> Served<F>
    where
        F: Flow + Lines + ?Sized,
    {
        let here = self.descriptors.here(cx.on());
        let list = here
            .and_then(|here| here.at(self.index(irq)))
            .and_then(|at| at.read(tag));
        match list {
            Some(list) => self.run(ending, list, cx, irq),
            None => (self.unhandled(ending, cx, irq), None),
        }
    }

    /// Runs the actions and ends the interrupt, in the order that the actions ask for.
    #[inline]
    fn run<F, L>(&self, ending: Ending<'_, F>, list: L, cx: &IrqContext<'_>, irq: Irq) -> Served<F>
    where
        F: Flow + Lines + ?Sized,
        L: Deref<Target = List>,
    {
        let actions = &list[0];
        let acx = ActionContext::new(cx, irq);
        let answer = match &actions.first.action.call {
            Call::Word(f, word) => f(*word, &acx),
            Call::Shared(f) => f(&acx),
            &Call::EndFirst(f, word) => {
                drop(list);
                return (self.end_first(ending, f, word, &acx), None);
            }
        };
        let (answer, by) = if actions.rest.is_empty() {
            (answer, FIRST)
        } else {
            actions.run_rest(answer, &acx)
        };
        if answer != Answer::Handled {
            return (self.settle(ending, list, &acx, answer, by), None);
        }
        drop(list);
        let next = ending.end_and_next(cx);
        let outcome = Outcome {
            taken: Taken::Handled,
            bits: acx.bits(),
        };
        (outcome, next)
    }

    /// Ends the interrupt, then calls its only action.
    #[inline]
    fn end_first<F>(
        &self,
        ending: Ending<'_, F>,
        f: WordFn,
        word: usize,
        cx: &ActionContext<'_>,
    ) -> Outcome
    where
        F: Flow + Lines + ?Sized,
    {
        let flow = ending.flow;
        drop(ending);
        // The call may come back on another CPU: nothing reads the entry's proof after it. What
        // is left needs the number of the CPU that took the interrupt, and counts that any CPU
        // may add to.
        let taken = match f(word, cx) {
            Answer::NotMine => {
                self.note_unhandled(flow, cx.entry(), cx.irq(), false);
                Taken::Unhandled
            }
            _ => Taken::Handled,
        };
        Outcome {
            taken,
            bits: cx.bits(),
        }
    }

    /// What is left to do for an interrupt that was not plainly handled.
    #[cold]
    fn settle<F, L>(
        &self,
        ending: Ending<'_, F>,
        list: L,
        cx: &ActionContext<'_>,
        answer: Answer,
        by: u64,
    ) -> Outcome
    where
        F: Flow + Lines + ?Sized,
        L: Deref<Target = List>,
    {
        let kept = match answer {
            Answer::NotMine => {
                drop(list);
                let unhandled = self.unhandled(ending, cx.entry(), cx.irq());
                return Outcome {
                    bits: cx.bits(),
                    ..unhandled
                };
            }
            Answer::Handled => None,
            Answer::HandedOver => ending.hand_over().then_some(Taken::HandedOver),
            Answer::Deferred => ending.defer().then_some(Taken::Deferred),
        };
        if kept == Some(Taken::Deferred)
            && let Ok((_, upkeep)) = self.upkeep(cx.irq())
            && let Some(line) = self.line(upkeep, cx.cpu())
        {
            // Release: pairs with the acquire in `Control::complete_deferred`, so that the completion
            // comes after the deferral. The list is still noted: whoever completes before this
            // mark waits for it. Every change of a mark is an update: each finds what the one
            // before it left.
            let by = if by == FIRST { list[0].first.id } else { by };
            line.deferred.swap(by, Release);
        }
        drop(list);
        let taken = kept.unwrap_or(Taken::Handled);
        Outcome {
            taken,
            bits: cx.bits(),
        }
    }

    #[cold]
    fn nothing(&self, cx: &IrqContext<'_>) -> Outcome {
        if let Some(block) = self.descriptors.block(cx.cpu()) {
            block.count_nothing();
        }
        Outcome {
            taken: Taken::Nothing,
            bits: Bits::NONE,
        }
    }

    /// Ends an interrupt that nobody owned up to, and looks whether these are too many.
    #[cold]
    fn unhandled<F>(&self, ending: Ending<'_, F>, cx: &IrqContext<'_>, irq: Irq) -> Outcome
    where
        F: Flow + Lines + ?Sized,
    {
        let flow = ending.flow;
        drop(ending);
        self.note_unhandled(flow, cx, irq, true);
        Outcome::UNHANDLED
    }

    /// `stayed` says that this still runs on the CPU of `cx`.
    #[cold]
    fn note_unhandled<F>(&self, lines: &F, cx: &IrqContext<'_>, irq: Irq, stayed: bool)
    where
        F: Lines + ?Sized,
    {
        let cpu = cx.cpu();
        let Ok((index, upkeep)) = self.upkeep(irq) else {
            return;
        };
        let tally = match self.descriptors.data(index) {
            Some(&Place::Own(place)) => {
                let block = self.descriptors.block(cpu);
                block.and_then(|block| block.tally(place))
            }
            Some(&Place::Shared(place)) => self.shared.get(place as usize).map(|tally| &**tally),
            None => None,
        };
        if let Some(tally) = tally {
            tally.count_unhandled();
        }
        let Some(detector) = &self.detector else {
            return;
        };
        // Before the first registration a line is only counted. And the mask of a private line
        // is that of the CPU that masks.
        if !upkeep.registered.load(Relaxed) || (upkeep.private.is_some() && !stayed) {
            return;
        }
        let counts = match upkeep.private {
            Some(_) => self.counts_on(irq, cpu),
            None => self.counts(irq),
        };
        let taken = counts.unwrap_or_default().taken;
        if let Some(line) = self.line(upkeep, cpu)
            && let Some((taken, unhandled)) = line.window.unhandled(detector, taken)
        {
            let masked = lines.mask(irq);
            if masked.is_ok() {
                line.window.shut_off();
            }
            let report = Report {
                irq,
                cpu,
                taken,
                unhandled,
                masked,
            };
            (detector.report)(detector.word, &report);
        }
    }
}

/// What became of an interrupt, and the one that came with it.
type Served<F> = (Outcome, Option<(Irq, <F as Flow>::Active)>);

/// Ends an acknowledged interrupt when dropped, also by an unwind.
struct Ending<'f, F: Flow + ?Sized> {
    flow: &'f F,
    active: F::Active,
}

impl<F: Flow + ?Sized> Ending<'_, F> {
    /// Ends it, and takes what came with it.
    #[inline]
    fn end_and_next(self, cx: &IrqContext<'_>) -> Option<(Irq, F::Active)> {
        let (flow, active) = (self.flow, self.active);
        mem::forget(self);
        flow.end_and_next(cx, active)
    }

    /// Defers it instead. If the controller cannot, it is ended.
    fn defer(self) -> bool {
        let deferred = self.flow.defer(self.active).is_ok();
        if deferred {
            mem::forget(self);
        }
        deferred
    }

    /// Hands it over instead. If the controller cannot, it is ended.
    fn hand_over(self) -> bool {
        let handed = self.flow.hand_over(self.active).is_ok();
        if handed {
            mem::forget(self);
        }
        handed
    }
}

impl<F: Flow + ?Sized> Drop for Ending<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.flow.end(self.active);
    }
}

/// The controller of what has none.
struct Bypass;

const BYPASSED: Error = Error::Unsupported {
    feature: "control over what bypasses the controller",
};

impl Flow for Bypass {
    type Active = ();

    fn ack(&self, _: &IrqContext<'_>) -> Option<(Irq, ())> {
        None
    }

    fn end(&self, (): ()) {}

    fn defer(&self, (): ()) -> Result<(), Error> {
        Err(BYPASSED)
    }

    fn hand_over(&self, (): ()) -> Result<(), Error> {
        Err(BYPASSED)
    }
}

impl Lines for Bypass {
    fn mask(&self, _: Irq) -> Result<(), Error> {
        Err(BYPASSED)
    }

    fn unmask(&self, _: Irq) -> Result<(), Error> {
        Err(BYPASSED)
    }

    fn set_trigger(&self, _: Irq, _: Trigger) -> Result<(), Error> {
        Err(BYPASSED)
    }

    fn retrigger(&self, _: Irq) -> Result<(), Error> {
        Err(BYPASSED)
    }

    fn complete(&self, _: Irq) -> Result<(), Error> {
        Err(BYPASSED)
    }

    fn state(&self, _: Irq) -> Result<LineState, Error> {
        Err(BYPASSED)
    }
}
