// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario `ipistorm`: every CPU sends as fast as it can, and the counts still agree.
//!
//! ```text
//! storm, own node      each CPU sends 10,000 times to the next CPU of its node
//! storm, next node     each CPU sends 10,000 times to a CPU of the next node that has CPUs
//! paced                each CPU sends 1,000 times to the next CPU of its node, each time when
//!                      the last one was taken
//! ```
//! With one node both storms stay in it; a CPU that is alone sends to itself. What holds on
//! each node's descriptor: sent = rung + coalesced, taken <= rung, and no send is without a run
//! after it; paced: rung = sent. Rates are indications only: on an emulator they say nothing.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use irq_core::cpu::NodeId;
use irq_core::{IpiCounts, Sent};
use irq_hal::CpuIndex;

use crate::bench::Bench;
use crate::crew::{Crew, online};
use crate::kinds::{PROBE, probes};
use crate::lock::Masked;
use crate::protocol::metric;
use crate::scenario::Scenario;
use crate::smoke::{Counted, PATIENCE_MS, QUIET_MS, nodes};
use crate::time::{Progress, millis_since, pass, wait_for};
use crate::verdict::{OrFail, Stop, Verdict};
use crate::{check, check_eq, println, tests};

/// Sends of a CPU in a storm.
const STORM: u64 = 10_000;
/// Paced sends of a CPU.
const PACED: u64 = 1_000;
/// Bound of the wait for all CPUs to begin, in milliseconds.
const GATE_MS: u32 = 10_000;
/// Bound of a CPU's part, in milliseconds: many CPUs share few of the host's.
const PART_MS: u32 = 120_000;

/// `ipistorm`.
pub const fn scenario<B: Bench>() -> Scenario<B> {
    Scenario {
        name: "ipistorm",
        tests: tests![
            storm_inside_each_node,
            storm_to_the_next_node,
            paced_sends_ring_each_time
        ],
    }
}

fn storm_inside_each_node<B: Bench>(bench: &B) -> Verdict {
    storm(*bench, &targets(*bench, 0))
}

fn storm_to_the_next_node<B: Bench>(bench: &B) -> Verdict {
    storm(*bench, &targets(*bench, 1))
}

/// A sender and its target.
type Pair = (CpuIndex, CpuIndex);

/// Each CPU with a target in the node that is `distance` nodes on. Within a node the target is
/// the next CPU; in another node the one at the sender's place, as far as there are enough.
fn targets<B: Bench>(bench: B, distance: usize) -> Vec<Pair> {
    let topology = bench.interrupts().topology();
    let members = |node| topology.node(node).into_iter().flat_map(|node| node.iter());
    let groups: Vec<Vec<CpuIndex>> = nodes(bench)
        .into_iter()
        .map(|node| members(node).collect())
        .collect();
    let mut pairs = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let to = &groups[(at + distance) % groups.len()];
        let shift = usize::from(core::ptr::eq(to, group));
        for (place, &cpu) in group.iter().enumerate() {
            pairs.push((cpu, to[(place + shift) % to.len()]));
        }
    }
    pairs
}

/// Every CPU arrives, then the counts are read, then all go on.
struct Gate {
    missing: AtomicU32,
    open: AtomicBool,
    before: Masked<Vec<(NodeId, IpiCounts)>>,
}

impl Gate {
    fn new(cpus: usize) -> Self {
        Self {
            missing: AtomicU32::new(cpus as u32),
            open: AtomicBool::new(false),
            before: Masked::new(Vec::new()),
        }
    }

    /// `keeper` is one of the CPUs that pass. The IPIs that gave the job are over when the
    /// counts are read: a CPU is here after it took its own.
    fn pass<B: Bench>(&self, bench: B, keeper: bool) -> Verdict {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        if keeper {
            let all = || self.missing.load(Ordering::Acquire) == 0;
            if wait_for(bench.machine(), GATE_MS, all) {
                let counts = counts(bench);
                self.before.with(|before| *before = counts);
            }
            // Else they are let go, and fail.
            self.open.store(true, Ordering::Release);
        }
        let open = || self.open.load(Ordering::Acquire);
        let opened = wait_for(bench.machine(), 2 * GATE_MS, open);
        let missing = self.missing.load(Ordering::Acquire);
        check!(
            opened && missing == 0,
            "{missing} CPUs did not come to the gate"
        );
        Ok(())
    }
}

/// The counts of each node that has CPUs.
fn counts<B: Bench>(bench: B) -> Vec<(NodeId, IpiCounts)> {
    let of = |node| bench.interrupts().ipi_counts(node).unwrap_or_default();
    let nodes = nodes(bench).into_iter();
    nodes.map(|node| (node, of(node))).collect()
}

/// Lets `part(target)` run on every sender of `pairs`, all at once, and waits until all is
/// quiet. Returns what each node's descriptor counted meanwhile.
fn measure<B: Bench>(
    bench: B,
    pairs: &[Pair],
    part: fn(B, CpuIndex) -> Verdict,
) -> Result<Vec<(NodeId, IpiCounts)>, Stop> {
    let machine = bench.machine();
    let gate = Arc::new(Gate::new(pairs.len()));
    let (shared, keeper) = (Arc::<[Pair]>::from(pairs), machine.this_cpu());
    let passed = gate.clone();
    let begun = machine.now();
    Crew::on_all(bench, PART_MS, move |cpu| {
        let Some(&(_, to)) = shared.iter().find(|(from, _)| *from == cpu) else {
            return Ok(());
        };
        passed.pass(bench, cpu == keeper)?;
        part(bench, to)
    })?;
    // Each sender has seen its last send run, so that this is what remains: interrupts that
    // find nothing.
    pass(machine, QUIET_MS);
    let ms = millis_since(machine, begun);
    let after = counts(bench);
    let before = gate.before.with(core::mem::take);
    let grew = |(&(node, after), (_, before)): (&(NodeId, IpiCounts), (NodeId, IpiCounts))| {
        let counts = IpiCounts {
            sent: after.sent - before.sent,
            rung: after.rung - before.rung,
            coalesced: after.coalesced - before.coalesced,
            taken: after.taken - before.taken,
        };
        (node, counts)
    };
    let grew: Vec<_> = after.iter().zip(before).map(grew).collect();
    let sends: u64 = grew.iter().map(|(_, counts)| counts.sent).sum();
    println!(
        "{} CPUs sent {sends} times in {ms} ms: an indication only, on an emulator",
        pairs.len()
    );
    for (node, counts) in &grew {
        report(*node, counts);
    }
    Ok(grew)
}

fn report(node: NodeId, counts: &IpiCounts) {
    let values = [
        ("sent", counts.sent),
        ("rung", counts.rung),
        ("coalesced", counts.coalesced),
        ("taken", counts.taken),
    ];
    for (what, value) in values {
        metric(&format!("node{}.{what}", node.get()), value, "count");
    }
}

/// How many sends go to `node`, when each sender of `pairs` sends `each` times.
fn due<B: Bench>(bench: B, pairs: &[Pair], node: NodeId, each: u64) -> u64 {
    let topology = bench.interrupts().topology();
    let on_node = |&&(_, to): &&Pair| topology.node_of(to) == Some(node);
    pairs.iter().filter(on_node).count() as u64 * each
}

/// Every CPU sends [`STORM`] times to its target, all at once.
fn storm<B: Bench>(bench: B, pairs: &[Pair]) -> Verdict {
    let grew = measure(bench, pairs, |bench, to| {
        let mut seen = 0;
        for _ in 0..STORM {
            seen = probes(to);
            bench.send(to, PROBE).map(drop).or_fail("send")?;
        }
        let answered = wait_for(bench.machine(), PART_MS, || probes(to) > seen);
        check!(answered, "the last send to {to} was not answered");
        Ok(())
    })?;
    for (node, counts) in grew {
        let IpiCounts {
            sent,
            rung,
            coalesced,
            taken,
        } = counts;
        check_eq!(sent, due(bench, pairs, node, STORM), "sent to {node}");
        check_eq!(sent, rung + coalesced, "sent to {node}, of its parts");
        check!(
            (1..=rung).contains(&taken),
            "{taken} taken of {rung} rung on {node}"
        );
    }
    nothing_is_unanswered(bench)
}

/// No mailbox holds what nobody rang for: one more send to each CPU rings, and is taken.
fn nothing_is_unanswered<B: Bench>(bench: B) -> Verdict {
    let before = Counted::now(bench);
    for to in online(bench) {
        check_eq!(
            bench.send(to, PROBE),
            Ok(Sent::Rung),
            "one more send to {to}"
        );
    }
    before.grew_by(bench, |_| 1)
}

fn paced_sends_ring_each_time<B: Bench>(bench: &B) -> Verdict {
    let (bench, pairs) = (*bench, targets(*bench, 0));
    let grew = measure(bench, &pairs, |bench, to| {
        // Within a node each CPU has one sender, so these are this one's.
        let base = probes(to);
        let mut progress = Progress::new(bench.machine());
        let speaks = online(bench).first() == Some(&bench.machine().this_cpu());
        for taken in 1..=PACED {
            if speaks {
                progress.say(bench.machine(), "paced sends", taken, PACED);
            }
            bench.send(to, PROBE).map(drop).or_fail("send")?;
            let arrived = wait_for(bench.machine(), PATIENCE_MS, || probes(to) - base >= taken);
            check!(arrived, "send {taken} to {to} was not taken");
        }
        Ok(())
    })?;
    for (node, counts) in grew {
        let sent = due(bench, &pairs, node, PACED);
        let expected = IpiCounts {
            sent,
            rung: sent,
            coalesced: 0,
            taken: sent,
        };
        check_eq!(counts, expected, "paced sends to {node}");
    }
    nothing_is_unanswered(bench)
}
