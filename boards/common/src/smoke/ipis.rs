// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPIs one at a time, and remote calls: each arrives once, and counts on its target's node.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use irq_core::cpu::{CpuSet, NodeId};
use irq_core::{IpiCounts, Sent, SentMany};
use irq_hal::{CpuIndex, percpu};

use super::{PATIENCE_MS, nodes};
use crate::bench::Bench;
use crate::crew::{Crew, online};
use crate::kinds::{PROBE, probes};
use crate::protocol::metric;
use crate::time::{Progress, wait_for};
use crate::verdict::{OrFail, Stop, Verdict};
use crate::{check, check_eq, fail};

/// How many PROBEs each CPU took, and the counts of each node.
pub struct Counted {
    probes: Vec<(CpuIndex, u64)>,
    nodes: Vec<(NodeId, IpiCounts)>,
}

impl Counted {
    pub(crate) fn now<B: Bench>(bench: B) -> Self {
        let counts = |node| bench.interrupts().ipi_counts(node).unwrap_or_default();
        Self {
            probes: online(bench)
                .into_iter()
                .map(|cpu| (cpu, probes(cpu)))
                .collect(),
            nodes: nodes(bench)
                .into_iter()
                .map(|node| (node, counts(node)))
                .collect(),
        }
    }

    /// Waits until each CPU has taken as many more as `expected` says; then each node's
    /// descriptor must have counted exactly those, each of them rung for.
    pub(crate) fn grew_by<B: Bench>(
        &self,
        bench: B,
        expected: impl Fn(CpuIndex) -> u64,
    ) -> Verdict {
        for &(cpu, before) in &self.probes {
            let due = before + expected(cpu);
            wait_for(bench.machine(), PATIENCE_MS, || probes(cpu) >= due);
            check_eq!(probes(cpu) - before, expected(cpu), "IPIs that {cpu} took");
        }
        let topology = bench.interrupts().topology();
        for &(node, before) in &self.nodes {
            let Some(after) = bench.interrupts().ipi_counts(node) else {
                fail!("{node} has no descriptor")
            };
            let members = self.probes.iter().map(|&(cpu, _)| cpu);
            let members = members.filter(|&cpu| topology.node_of(cpu) == Some(node));
            let due: u64 = members.map(&expected).sum();
            let grew = [
                after.sent - before.sent,
                after.rung - before.rung,
                after.coalesced - before.coalesced,
                after.taken - before.taken,
            ];
            check_eq!(
                grew,
                [due, due, 0, due],
                "sent, rung, coalesced, taken on {node}"
            );
        }
        Ok(())
    }
}

/// Every CPU sends an IPI to every CPU, itself included, one at a time.
///
/// # Errors
/// What went wrong.
pub fn every_cpu_reaches_every_cpu<B: Bench>(bench: &B) -> Verdict {
    let bench = *bench;
    let cpus = online(bench);
    let mut progress = Progress::new(bench.machine());
    for (&from, done) in cpus.iter().zip(0..) {
        progress.say(bench.machine(), "senders", done, cpus.len() as u64);
        Crew::on(bench, from, 4 * PATIENCE_MS, move |_| {
            let before = Counted::now(bench);
            for &(to, taken) in &before.probes {
                let sent = bench.send(to, PROBE).or_fail("send")?;
                check_eq!(sent, Sent::Rung, "a send to {to}");
                let arrived = wait_for(bench.machine(), PATIENCE_MS, || probes(to) > taken);
                check!(arrived, "the IPI to {to} never arrived");
            }
            before.grew_by(bench, |_| 1)
        })?;
    }
    metric("ipis", (cpus.len() * cpus.len()) as u64, "count");
    Ok(())
}

/// One send to all CPUs of a node, for each node, reaches these and no other. Where one
/// write of a register reaches several, the number of writes is a metric.
///
/// # Errors
/// What went wrong.
pub fn a_multicast_reaches_the_cpus_of_a_node<B: Bench>(bench: &B) -> Verdict {
    let (bench, interrupts) = (*bench, bench.interrupts());
    for node in nodes(bench) {
        let before = Counted::now(bench);
        let Some(domain) = interrupts.topology().node(node) else {
            fail!("{node} has no CPU")
        };
        let sent = percpu::masked(bench.machine(), |on| {
            interrupts.send_mask(bench.controller(), on, &domain, PROBE)
        });
        check_eq!(sent, Ok(all_rung(domain.count())), "a send to {node}");
        before.grew_by(bench, |cpu| domain.contains(cpu).into())?;
        if let Some(writes) = bench.multicast_writes(&domain) {
            let name = format!("node{}.writes", node.get());
            metric(&name, writes.into(), "count");
        }
    }
    Ok(())
}

/// One send to all other CPUs reaches them, and not the sender.
///
/// # Errors
/// What went wrong.
pub fn a_broadcast_reaches_all_others<B: Bench>(bench: &B) -> Verdict {
    let bench = *bench;
    let from = bench.machine().this_cpu();
    let before = Counted::now(bench);
    let sent = percpu::masked(bench.machine(), |on| {
        bench
            .interrupts()
            .broadcast_others(bench.controller(), on, PROBE)
    });
    let others = before.probes.len() as u32 - 1;
    check_eq!(sent, Ok(all_rung(others)), "a broadcast");
    before.grew_by(bench, |cpu| (cpu != from).into())
}

fn all_rung(rung: u32) -> SentMany {
    SentMany {
        rung,
        ..SentMany::default()
    }
}

/// What a remote call computes from its word and the CPU that runs it.
pub(crate) fn mixed(word: usize, cpu: CpuIndex) -> usize {
    word ^ (cpu.index() << 8)
}

/// Calls `to` from this CPU.
pub(crate) fn call<B: Bench>(bench: B, to: CpuIndex, word: usize) -> Result<usize, irq_hal::Error> {
    percpu::masked(bench.machine(), |on| {
        let (machine, controller) = (bench.machine(), bench.controller());
        bench
            .interrupts()
            .call(machine, controller, on, to, mixed, word)
    })
}

/// A remote call runs on the CPU that is called, this one included, and its value comes back.
///
/// # Errors
/// What went wrong.
pub fn a_remote_call_returns_a_value<B: Bench>(bench: &B) -> Verdict {
    let bench = *bench;
    let cpus = online(bench);
    for (&to, word) in cpus.iter().zip(1_000..) {
        let value = call(bench, to, word).or_fail("call")?;
        check_eq!(value, mixed(word, to), "the value from {to}");
    }
    metric("calls", cpus.len() as u64, "count");
    Ok(())
}

/// CPUs that have run the function of the test below.
static CALLED: AtomicU32 = AtomicU32::new(0);

fn note_called(_: usize, _: CpuIndex) -> usize {
    CALLED.fetch_add(1, Ordering::Relaxed);
    0
}

/// A call to a set of CPUs returns when all of them have run it.
///
/// # Errors
/// What went wrong.
pub fn a_call_to_many_returns_when_all_have_run_it<B: Bench>(bench: &B) -> Verdict {
    let (machine, interrupts) = (bench.machine(), bench.interrupts());
    let before = CALLED.load(Ordering::Relaxed);
    let online = interrupts.topology().online_cpus();
    let ran = percpu::masked(machine, |on| {
        interrupts.call_mask(machine, bench.controller(), on, online, note_called, 0)
    });
    let called = CALLED.load(Ordering::Relaxed) - before;
    check_eq!(ran, Ok(online.count()), "CPUs that the call counts");
    check_eq!(called, online.count(), "CPUs that ran it");
    Ok(())
}

/// Two CPUs that call each other with interrupts masked both get their value.
///
/// # Errors
/// What went wrong.
pub fn two_cpus_that_call_each_other_masked_both_return<B: Bench>(bench: &B) -> Verdict {
    const CALLS: usize = 20;
    let bench = *bench;
    let cpus = online(bench);
    let (Some(&first), Some(&last)) = (cpus.first(), cpus.last()) else {
        return Ok(());
    };
    if first == last {
        return Err(Stop::Skip("there is one CPU"));
    }
    let masked = Arc::new(AtomicU32::new(0));
    Crew::on_all(bench, 2 * PATIENCE_MS, move |cpu| {
        let other = match cpu {
            _ if cpu == first => last,
            _ if cpu == last => first,
            _ => return Ok(()),
        };
        let machine = bench.machine();
        percpu::masked(machine, |_| {
            // Neither calls before both are masked, so that each answers while it waits itself.
            masked.fetch_add(1, Ordering::AcqRel);
            let both = || masked.load(Ordering::Acquire) == 2;
            check!(
                wait_for(machine, PATIENCE_MS, both),
                "{other} does not come"
            );
            for word in 0..CALLS {
                let value = call(bench, other, word).or_fail("call")?;
                check_eq!(value, mixed(word, other), "the value from {other}");
            }
            Ok(())
        })
    })
}
