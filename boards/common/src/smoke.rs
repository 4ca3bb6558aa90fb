// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of scenario `smoke` that every machine has: CPUs and timers, IPIs, device lines,
//! mask, edges, removal, deferral, an entry for nothing, lines that nobody owns up to, CPUs that
//! go and that do not answer.
//!
//! Counts are exact. Each wait for something that must come is bounded; after it a test lets a
//! little time pass in which nothing more may come.

mod actions;
mod cpus;
mod faults;
mod ipis;
mod stacks;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::cpu::{CpuSet, NodeId};
use irq_core::{Action, Answer, Control, Taken};
use irq_hal::percpu;

use crate::bench::{Bench, Source};
use crate::live::Live;
use crate::protocol::metric;
use crate::time::{pass, wait_for};
use crate::verdict::{Failure, OrFail, Stop, Verdict};
use crate::{check, check_eq};

pub use actions::*;
pub use cpus::*;
pub use faults::*;
pub use ipis::*;
pub use stacks::*;

/// Bound of a wait for an interrupt, in milliseconds: an emulator on a busy host is slow.
pub const PATIENCE_MS: u32 = 5_000;
/// Time in which nothing more may come, in milliseconds.
pub const QUIET_MS: u32 = 2;

/// Far more interrupts than any test expects of a line.
const STORM: u32 = 1_000;

/// The nodes that have a CPU online.
pub fn nodes<B: Bench>(bench: B) -> Vec<NodeId> {
    let topology = bench.interrupts().topology();
    let has_cpus = |&node: &NodeId| topology.node(node).is_some_and(|node| !node.is_empty());
    (0..topology.nodes())
        .map(NodeId::new)
        .filter(has_cpus)
        .collect()
}

/// Waits until `count` is `expected`, then lets a little time pass in which it must stay so.
///
/// # Errors
/// [`Stop::Fail`] with what it is instead, at the caller's place.
#[track_caller]
pub fn exactly<B: Bench>(bench: &B, what: &str, count: &AtomicU32, expected: u32) -> Verdict {
    let platform = bench.machine();
    if wait_for(platform, PATIENCE_MS, || count.load(Relaxed) >= expected) {
        pass(platform, QUIET_MS);
    }
    let got = count.load(Relaxed);
    if got == expected {
        return Ok(());
    }
    let text = format_args!("{what}: {got} interrupts instead of {expected}");
    Err(Stop::Fail(Failure::here(text)))
}

/// An action that counts its calls, and the count. `serve` gets the number of the call, from 1.
///
/// A line that does not stop would leave the test no time to notice: after far more calls than
/// any test expects it is masked.
pub fn counting<B, R>(
    bench: &B,
    serve: impl Fn(u32) -> R + Send + Sync + 'static,
) -> (Action, Arc<AtomicU32>)
where
    B: Bench,
    R: Into<Answer>,
{
    let lines = bench.control();
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let action = Action::new(move |cx| {
        let call = counted.fetch_add(1, Relaxed) + 1;
        if call > STORM {
            // If that fails too, the silence of the image tells.
            let _ = lines.mask(cx.irq());
        }
        serve(call)
    });
    (action, count)
}

/// Each raise of a device's line, which the handler lowers before the end, is one interrupt.
///
/// # Errors
/// What went wrong.
pub fn a_device_line_fires_once_per_raise<B: Bench>(bench: &B) -> Verdict {
    const RAISES: u32 = 5;
    let device = bench.device().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, move |_| device.lower());
    let _live = Live::new(bench, device.irq(), action)?;
    for raise in 1..=RAISES {
        check!(device.ready(), "the device is not ready to raise its line");
        device.raise();
        exactly(bench, "device", &count, raise)?;
    }
    metric("device_interrupts", u64::from(count.load(Relaxed)), "count");
    Ok(())
}

/// A level-triggered line fires again after each end, until its handler lowers it.
///
/// # Errors
/// What went wrong.
pub fn a_level_line_fires_until_it_is_lowered<B: Bench>(bench: &B) -> Verdict {
    const ENTRIES: u32 = 3;
    let device = bench.device().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, move |entry| {
        if entry >= ENTRIES {
            device.lower();
        }
    });
    let _live = Live::new(bench, device.irq(), action)?;
    device.raise();
    exactly(bench, "device", &count, ENTRIES).inspect_err(|_| device.lower())
}

/// A masked line does not fire, says that it is pending where the controller can, and fires once
/// when it is unmasked.
///
/// # Errors
/// What went wrong.
pub fn a_masked_line_fires_once_when_it_is_unmasked<B: Bench>(bench: &B) -> Verdict {
    let device = bench.device().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, move |_| device.lower());
    let _live = Live::new(bench, device.irq(), action)?;
    bench.control().mask(device.irq()).or_fail("mask")?;
    device.raise();
    pass(bench.machine(), QUIET_MS);
    check_eq!(count.load(Relaxed), 0, "interrupts of a masked line");
    let state = bench.control().state(device.irq()).or_fail("state")?;
    check!(
        state.masked && (state.pending || !bench.shows_masked_levels()),
        "state of a masked line that is high: {state:?}"
    );
    bench.control().unmask(device.irq()).or_fail("unmask")?;
    exactly(bench, "device", &count, 1).inspect_err(|_| device.lower())
}

/// An edge-triggered line fires once for each retrigger.
///
/// # Errors
/// What went wrong.
pub fn an_edge_fires_once_per_retrigger<B: Bench>(bench: &B) -> Verdict {
    const EDGES: u32 = 5;
    let irq = bench.spare_edge().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, |_| ());
    let _live = Live::new(bench, irq, action)?;
    for edge in 1..=EDGES {
        bench.control().retrigger(irq).or_fail("retrigger")?;
        exactly(bench, "edge", &count, edge)?;
    }
    Ok(())
}

/// An edge that comes while its line is masked is kept, and fires once when it is unmasked.
///
/// # Errors
/// What went wrong.
pub fn an_edge_is_kept_while_masked<B: Bench>(bench: &B) -> Verdict {
    let irq = bench.spare_edge().map_err(Stop::Skip)?;
    bench.keeps_edges().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, |_| ());
    let _live = Live::new(bench, irq, action)?;
    bench.control().mask(irq).or_fail("mask")?;
    bench.control().retrigger(irq).or_fail("retrigger")?;
    pass(bench.machine(), QUIET_MS);
    check_eq!(count.load(Relaxed), 0, "interrupts of a masked line");
    bench.control().unmask(irq).or_fail("unmask")?;
    exactly(bench, "edge kept while masked", &count, 1)
}

/// A removed action is not called any more: what its line still brings counts as unhandled.
///
/// # Errors
/// What went wrong.
pub fn a_removed_action_is_not_called<B: Bench>(bench: &B) -> Verdict {
    let irq = bench.spare_edge().map_err(Stop::Skip)?;
    let (action, count) = counting(bench, |_| ());
    let mut live = Live::new(bench, irq, action)?;
    bench.control().retrigger(irq).or_fail("retrigger")?;
    exactly(bench, "edge", &count, 1)?;
    live.remove_action()?;
    let unhandled = || bench.interrupts().counts(irq).unwrap_or_default().unhandled;
    let before = unhandled();
    bench.control().retrigger(irq).or_fail("retrigger")?;
    let came = wait_for(bench.machine(), PATIENCE_MS, || unhandled() != before);
    check!(came, "the line went quiet with its action");
    check_eq!(unhandled() - before, 1, "interrupts without an action");
    check_eq!(
        count.load(Relaxed),
        1,
        "calls of an action, one before and none after removal"
    );
    Ok(())
}

/// Completes a source that a test leaves active when it stops half-way.
struct Completed {
    lines: Control<'static>,
    source: Source,
}

impl Drop for Completed {
    fn drop(&mut self) {
        let irq = self.source.irq();
        self.source.lower();
        // Masked first, so that it is not taken and deferred again.
        let _ = self.lines.mask(irq);
        if self.lines.state(irq).is_ok_and(|state| state.active) {
            // What goes wrong here shows in the test that looks for what was left behind.
            let _ = self.lines.complete(irq);
        }
    }
}

/// A deferred source stays active and silent until it is completed, and other interrupts come
/// meanwhile. If it is raised again, or still, it fires when it is completed.
///
/// # Errors
/// What went wrong.
pub fn a_deferred_source_is_silent_until_completed<B: Bench>(bench: &B) -> Verdict {
    let source = bench.deferred().map_err(Stop::Skip)?;
    let irq = source.irq();
    let (action, count) = counting(bench, |_| Answer::Deferred);
    let _live = Live::new(bench, irq, action)?;
    let _completed = Completed {
        lines: bench.control(),
        source,
    };
    source.raise(bench).or_fail("raise")?;
    exactly(bench, "deferred", &count, 1)?;
    check!(
        bench.control().state(irq).or_fail("state")?.active,
        "a deferred source was ended"
    );
    source.raise(bench).or_fail("raise")?;
    let timer = bench.timer();
    let (tick, ticked) = counting(bench, move |_| timer.stop());
    let other = Live::new(bench, timer.irq(), tick)?;
    timer.arm(bench.machine().now());
    exactly(bench, "timer beside a deferred source", &ticked, 1).inspect_err(|_| timer.stop())?;
    drop(other);
    check_eq!(
        count.load(Relaxed),
        1,
        "interrupts of a source that is active"
    );
    bench.control().complete(irq).or_fail("complete")?;
    exactly(bench, "deferred again", &count, 2)?;
    source.lower();
    bench.control().complete(irq).or_fail("complete")?;
    exactly(bench, "deferred and lowered", &count, 2)?;
    check!(
        !bench.control().state(irq).or_fail("state")?.active,
        "still active when completed"
    );
    Ok(())
}

/// An entry for which nothing is pending takes nothing, and ends nothing: the timer's next
/// interrupt comes as ever.
///
/// # Errors
/// What went wrong.
pub fn an_entry_for_nothing_takes_nothing<B: Bench>(bench: &B) -> Verdict {
    const ENTRIES: u64 = 3;
    let platform = bench.machine();
    let (taken, counted) = percpu::masked(platform, |on| {
        let counts = || bench.interrupts().cpu_counts(on.cpu());
        let nothing = || counts().unwrap_or_default().nothing;
        let before = nothing();
        let mut taken = Taken::Nothing;
        for _ in 0..ENTRIES {
            let outcome = bench.enter(on);
            if outcome.taken != Taken::Nothing {
                taken = outcome.taken;
            }
        }
        (taken, nothing() - before)
    });
    check_eq!(taken, Taken::Nothing, "what an entry for nothing took");
    check_eq!(counted, ENTRIES, "entries for nothing");
    metric("spurious", counted, "count");
    ten_timer_ticks(bench)
}
