// SPDX-License-Identifier: MIT OR Apache-2.0
//! What switches stacks, as a kernel's scheduler does in its timer's and its wake-up's interrupt:
//! an action that is ended first, and the last kind of an IPI.
//!
//! ```text
//! interrupted code  --interrupt-->  action  --switch-->  second stack: interrupts in, the body
//!        goes on    <---return----  action  <--switch--  masked again
//! ```

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use irq_core::{Action, ActionContext, Answer, Sent};
use irq_hal::percpu;

use super::{PATIENCE_MS, counting, exactly};
use crate::bench::{Bench, Stacks};
use crate::kinds::{PROBE, SWITCH, probes};
use crate::live::Live;
use crate::lock::Masked;
use crate::machine;
use crate::time::wait_for;
use crate::verdict::{OrFail, Stop, Verdict};
use crate::{check, check_eq};

/// The code on the second stack, and where both sides stand while the other one runs.
struct Fiber {
    stacks: &'static dyn Stacks,
    interrupted: AtomicUsize,
    own: AtomicUsize,
    body: Box<dyn Fn() -> Verdict + Send + Sync>,
    verdict: Masked<Option<Verdict>>,
}

/// The one that the next switch goes to.
static NEXT: Masked<Option<&'static Fiber>> = Masked::new(None);

/// Bytes of the second stack.
const STACK: usize = 32 * 1024;

#[repr(C, align(16))]
struct Memory([u8; STACK]);

/// Lets the next switch run `body` on a stack of its own, which is never given back.
fn prepare<B: Bench>(
    bench: B,
    body: impl Fn() -> Verdict + Send + Sync + 'static,
) -> Result<&'static Fiber, Stop> {
    let stacks = bench.stacks().map_err(Stop::Skip)?;
    // SAFETY: the type is bytes, for which zeros are a value.
    let memory = unsafe { Box::<Memory>::new_zeroed().assume_init() };
    let memory = NonNull::from(Box::leak(memory)).cast::<u8>();
    // SAFETY: one past the end of the block.
    let top = unsafe { memory.add(STACK) };
    // SAFETY: the stack is fresh, aligned, and leaked: nobody else ever uses it.
    let first = unsafe { stacks.prepare(top, on_second_stack, 0) };
    let fiber = Box::leak(Box::new(Fiber {
        stacks,
        interrupted: AtomicUsize::new(0),
        own: AtomicUsize::new(first),
        body: Box::new(body),
        verdict: Masked::new(None),
    }));
    NEXT.with(|next| *next = Some(fiber));
    Ok(fiber)
}

impl Fiber {
    /// Waits until the code has run and the interrupted code goes on: this one.
    fn finish<B: Bench>(&self, bench: B) -> Verdict {
        let over = || self.verdict.with(|verdict| verdict.is_some());
        let over = wait_for(bench.machine(), PATIENCE_MS, over);
        let verdict = self.verdict.with(Option::take);
        check!(over, "the second stack's code never ran");
        verdict.unwrap_or(Ok(()))
    }
}

/// The action: runs masked on the interrupted code's stack, and leaves it, once for each fiber.
fn switch_away() {
    let Some(fiber) = NEXT.with(|next| *next) else {
        return;
    };
    let to = fiber.own.load(Ordering::Relaxed);
    // SAFETY: `own` was prepared, and is switched to once, since `on_second_stack` empties
    // `NEXT`. The cell is a static one. Interrupts are masked in an action.
    unsafe { (fiber.stacks).switch(NonNull::from(&fiber.interrupted).cast(), to) };
}

/// The second stack's code: begins masked, as the interrupt left the CPU.
extern "C" fn on_second_stack(_: usize) -> ! {
    let (Some(fiber), Some(machine)) = (NEXT.with(Option::take), machine::get()) else {
        unreachable!("a switch without a fiber");
    };
    machine.unmask();
    let verdict = (fiber.body)();
    let _ = machine.irq_save();
    fiber.verdict.with(|slot| *slot = Some(verdict));
    let to = fiber.interrupted.load(Ordering::Relaxed);
    // SAFETY: `switch_away` stored `interrupted` on its way here; interrupts are masked again.
    unsafe { (fiber.stacks).switch(NonNull::from(&fiber.own).cast(), to) };
    unreachable!("nobody switches to the second stack again")
}

fn end_first(_: usize, _: &ActionContext<'_>) -> Answer {
    switch_away();
    Answer::Handled
}

/// What [`SWITCH`] runs.
pub(crate) fn on_switch(_: usize, _: &ActionContext<'_>) {
    switch_away();
}

/// On the second stack the CPU takes its timer's interrupt and an IPI.
fn takes_interrupts<B: Bench>(bench: B) -> Verdict {
    let (machine, timer) = (bench.machine(), bench.timer());
    let (tick, ticked) = counting(&bench, move |_| timer.stop());
    let _live = Live::new(&bench, timer.irq(), tick)?;
    timer.arm(machine.now());
    exactly(&bench, "timer on the second stack", &ticked, 1).inspect_err(|_| timer.stop())?;
    let this = machine.this_cpu();
    let before = probes(this);
    bench.send(this, PROBE).or_fail("send")?;
    let arrived = wait_for(machine, PATIENCE_MS, || probes(this) > before);
    check!(arrived, "no IPI on the second stack");
    Ok(())
}

/// An action that is ended before its call switches to another stack, where the CPU takes
/// further interrupts, the same line's too, while the interrupted code waits; then it switches
/// back, and the interrupted code goes on.
///
/// # Errors
/// What went wrong.
pub fn an_end_first_action_switches_stacks<B: Bench>(bench: &B) -> Verdict {
    let (bench, control) = (*bench, bench.control());
    let irq = bench.spare_edge().map_err(Stop::Skip)?;
    let fiber = prepare(bench, move || {
        let state = control.state(irq).or_fail("state")?;
        check!(
            !state.active,
            "the source is active in its end-first action"
        );
        // With no fiber left, this one's action does nothing.
        let before = control.counts(irq).unwrap_or_default().taken;
        control.retrigger(irq).or_fail("retrigger")?;
        let taken = || control.counts(irq).unwrap_or_default().taken > before;
        let again = wait_for(bench.machine(), PATIENCE_MS, taken);
        check!(again, "the line does not fire on the second stack");
        takes_interrupts(bench)
    })?;
    let _live = Live::new(&bench, irq, Action::end_first(end_first, 0))?;
    control.retrigger(irq).or_fail("retrigger")?;
    fiber.finish(bench)
}

/// A kind of IPI that is the last to run switches stacks likewise; what was sent beside it has
/// run before.
///
/// # Errors
/// What went wrong.
pub fn the_last_kind_of_an_ipi_switches_stacks<B: Bench>(bench: &B) -> Verdict {
    let bench = *bench;
    let this = bench.machine().this_cpu();
    let before = probes(this);
    let fiber = prepare(bench, move || {
        check_eq!(
            probes(this) - before,
            1,
            "kinds that ran before the last one"
        );
        takes_interrupts(bench)
    })?;
    let sent = percpu::masked(bench.machine(), |_| {
        // The last one first: what counts is the order in which they run.
        [bench.send(this, SWITCH), bench.send(this, PROBE)]
    });
    check_eq!(
        sent,
        [Ok(Sent::Rung), Ok(Sent::Coalesced)],
        "sends to oneself"
    );
    fiber.finish(bench)
}
