// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions across CPUs: deferred here and completed there, removed while they run; and lines
//! that nobody owns up to.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use irq_core::{Action, Answer, Irq};

use super::{Completed, PATIENCE_MS, QUIET_MS, counting, exactly};
use crate::bench::{Bench, Source};
use crate::crew::{Crew, online};
use crate::live::Live;
use crate::lock::Masked;
use crate::lockup;
use crate::protocol::metric;
use crate::time::{pass, wait_for};
use crate::verdict::{OrFail, Stop, Verdict};
use crate::{check, check_eq, fail};

const ONE_CPU: Stop = Stop::Skip("there is one CPU");

/// A deferred source is completed by a CPU that did not take it, and fires again.
///
/// # Errors
/// What went wrong.
pub fn a_deferred_source_is_completed_on_another_cpu<B: Bench>(bench: &B) -> Verdict {
    let bench = *bench;
    let source = bench.deferred().map_err(Stop::Skip)?;
    let irq = source.irq();
    let this = bench.machine().this_cpu();
    let other = online(bench).into_iter().rfind(|&cpu| cpu != this);
    let other = other.ok_or(ONE_CPU)?;
    let (action, count) = counting(&bench, |_| Answer::Deferred);
    let _live = Live::new(&bench, irq, action)?;
    let control = bench.control();
    let _completed = Completed {
        lines: control,
        source,
    };
    for raise in 1..=3 {
        source.raise(&bench).or_fail("raise")?;
        exactly(&bench, "deferred", &count, raise)?;
        let state = control.state(irq).or_fail("state")?;
        check!(state.active, "a deferred source was ended: {state:?}");
        source.lower();
        Crew::on(bench, other, PATIENCE_MS, move |_| {
            control.complete(irq).or_fail("complete")
        })?;
        let state = control.state(irq).or_fail("state")?;
        check!(!state.active, "still active when completed: {state:?}");
    }
    Ok(())
}

/// An action is removed while its line fires on another CPU: when the removal returns, it is not
/// running, and it is not called any more.
///
/// # Errors
/// What went wrong.
pub fn an_action_is_removed_while_it_fires<B: Bench>(bench: &B) -> Verdict {
    /// Edges before the removal, and after it.
    const BEFORE: u32 = 20;
    const AFTER: u32 = 20;
    let bench = *bench;
    let irq = bench.spare_edge().map_err(Stop::Skip)?;
    let this = bench.machine().this_cpu();
    let other = online(bench).into_iter().rfind(|&cpu| cpu != this);
    let other = other.ok_or(ONE_CPU)?;
    bench.route(irq, other).or_fail("route")?;
    let running = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU32::new(0));
    // Not `counting`: the line must go on as long as the other CPU fires, and stops with it.
    let action = {
        let (machine, inside, calls) = (bench.machine(), running.clone(), count.clone());
        Action::new(move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            inside.store(true, Ordering::SeqCst);
            for _ in 0..100 {
                machine.relax();
            }
            inside.store(false, Ordering::SeqCst);
        })
    };
    let live = Masked::new(Some(Live::new(&bench, irq, action)?));
    let [removed, stop, over] = [const { AtomicBool::new(false) }; 3];
    let shared = (count.clone(), removed, stop, over);
    let before = bench.control().counts(irq).unwrap_or_default();
    let verdict = Crew::on_all(bench, 2 * PATIENCE_MS, move |cpu| {
        let (count, removed, stop, over) = &shared;
        let control = bench.control();
        if cpu == other {
            let fire = |times: u32, enough: &dyn Fn() -> bool| {
                for _ in 0..times {
                    if enough() {
                        break;
                    }
                    control.retrigger(irq)?;
                    bench.machine().relax();
                }
                Ok::<_, irq_hal::Error>(())
            };
            let removed = || removed.load(Ordering::SeqCst);
            while !removed() && !stop.load(Ordering::SeqCst) {
                fire(BEFORE, &removed).or_fail("retrigger")?;
            }
            let fired = fire(AFTER, &|| false);
            over.store(true, Ordering::SeqCst);
            return fired.or_fail("retrigger");
        }
        if cpu != this {
            return Ok(());
        }
        // Whatever goes wrong below, the other CPU is let go.
        let verdict = (|| {
            let fired = wait_for(bench.machine(), PATIENCE_MS, || {
                count.load(Ordering::SeqCst) >= BEFORE
            });
            check!(
                fired,
                "the line fired {} times",
                count.load(Ordering::SeqCst)
            );
            let Some(mut taken) = live.with(Option::take) else {
                fail!("no action")
            };
            taken.remove_action()?;
            let (calls, inside) = (count.load(Ordering::SeqCst), running.load(Ordering::SeqCst));
            removed.store(true, Ordering::SeqCst);
            let over = || over.load(Ordering::SeqCst);
            let over = wait_for(bench.machine(), PATIENCE_MS, over);
            pass(bench.machine(), QUIET_MS);
            check!(over, "{other} does not fire after the removal");
            check!(!inside, "the action runs when its removal has returned");
            check_eq!(
                count.load(Ordering::SeqCst),
                calls,
                "calls after the removal"
            );
            // Unmasked until all are done.
            live.with(|slot| *slot = Some(taken));
            Ok(())
        })();
        stop.store(true, Ordering::SeqCst);
        verdict
    });
    // The last edge may still be on its way into the counts.
    pass(bench.machine(), QUIET_MS);
    let after = bench.control().counts(irq).unwrap_or_default();
    bench.route(irq, this).or_fail("route")?;
    drain(bench, irq)?;
    verdict?;
    let calls = u64::from(count.load(Ordering::SeqCst));
    let (taken, unhandled) = (
        after.taken - before.taken,
        after.unhandled - before.unhandled,
    );
    check_eq!(taken - unhandled, calls, "handled interrupts");
    check!(unhandled > 0, "the line did not fire after the removal");
    metric("calls_before_removal", calls, "count");
    Ok(())
}

/// An interrupt whose only action answers that it is not its own counts as unhandled; at the
/// detector's threshold the line is shut off, and reported once.
///
/// # Errors
/// What went wrong.
pub fn a_line_that_nobody_owns_up_to_is_shut_off<B: Bench>(bench: &B) -> Verdict {
    let (bench, control) = (*bench, bench.control());
    let source = bench.unclaimed().map_err(Stop::Skip)?;
    let irq = source.irq();
    // Of a private line, this CPU's.
    let this = bench.machine().this_cpu();
    let own = move || control.counts_on(irq, this);
    let counts = move || own().or_else(|| control.counts(irq)).unwrap_or_default();
    let (action, count) = counting(&bench, |_| Answer::NotMine);
    let live = Live::new(&bench, irq, action)?;
    lockup::take_report();
    let before = counts();
    let mut edges = 0;
    let mut report = None;
    while report.is_none() && edges < 2 * lockup::WINDOW {
        edges += 1;
        source.raise(&bench).or_fail("raise")?;
        exactly_soon(bench, &count, edges)?;
        report = lockup::take_report();
    }
    let Some(report) = report else {
        fail!("{edges} unhandled interrupts, and the line was not shut off")
    };
    check_eq!(report.irq, irq, "the line of the report");
    check_eq!(report.masked, Ok(()), "masking");
    check!(
        report.unhandled >= lockup::THRESHOLD.into() && report.taken <= lockup::WINDOW.into(),
        "{} of {} not handled, the threshold is {} of {}",
        report.unhandled,
        report.taken,
        lockup::THRESHOLD,
        lockup::WINDOW
    );
    check!(
        control.state(irq).or_fail("state")?.masked,
        "the line is not masked"
    );
    source.raise(&bench).or_fail("raise")?;
    pass(bench.machine(), QUIET_MS);
    check_eq!(
        count.load(Ordering::Relaxed),
        edges,
        "calls of a line that is shut off"
    );
    let after = counts();
    check_eq!(
        after.unhandled - before.unhandled,
        u64::from(edges),
        "unhandled"
    );
    check_eq!(after.taken - before.taken, u64::from(edges), "taken");
    check!(
        lockup::take_report().is_none(),
        "the line was reported twice"
    );
    metric("shut_off_after", u64::from(edges), "count");
    drop(live);
    source.lower();
    let kept = drain(bench, irq)?;
    // A timer's edge is lost when it expires masked.
    let due = matches!(source, Source::Edge(_)) && bench.keeps_edges().is_ok();
    check_eq!(kept, u32::from(due), "edges that were kept");
    Ok(())
}

/// Takes the edge that `irq` may have kept while it was masked, so that the next test of the
/// line does not. Returns how many there were.
fn drain<B: Bench>(bench: B, irq: Irq) -> Result<u32, Stop> {
    let (action, count) = counting(&bench, |_| ());
    let _live = Live::new(&bench, irq, action)?;
    pass(bench.machine(), QUIET_MS);
    lockup::take_report();
    Ok(count.load(Ordering::Relaxed))
}

/// As [`exactly`] without the time in which nothing more may come.
fn exactly_soon<B: Bench>(bench: B, count: &AtomicU32, expected: u32) -> Verdict {
    let count = || count.load(Ordering::Relaxed);
    wait_for(bench.machine(), PATIENCE_MS, || count() >= expected);
    check_eq!(count(), expected, "calls");
    Ok(())
}
