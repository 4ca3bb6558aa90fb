// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every CPU: online, in its place, with a timer of its own.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use irq_core::Action;
use irq_core::cpu::{CpuSet, NodeId};
use irq_core::topology::Level;
use irq_hal::Error;
use irq_hal::percpu::PerCpu;
use irq_hal::platform::Ticks;

use super::{PATIENCE_MS, QUIET_MS, STORM};
use crate::asked::Asked;
use crate::bench::Bench;
use crate::crew::{Crew, Status, online};
use crate::live::Live;
use crate::protocol::metric;
use crate::time::{pass, wait_for};
use crate::verdict::{OrFail, Verdict};
use crate::{check, check_eq, fail};

/// Ticks of the timer test, and their distance.
const TICKS: u32 = 10;
const PERIOD_US: u32 = 2_000;

/// Every CPU that firmware names is online, but for those beyond the possible ones, which are
/// refused.
///
/// # Errors
/// The CPUs that are not, with the reason.
pub fn every_cpu_is_online<B: Bench>(bench: &B) -> Verdict {
    let topology = bench.interrupts().topology();
    let mut wrong = String::new();
    let mut refused = 0;
    for (cpu, status) in bench.crew().iter() {
        let possible = cpu.get() < bench.possible_cpus();
        let _ = match status {
            Status::Up if topology.is_online(cpu) && possible => Ok(()),
            Status::Refused(Error::NoSuchCpu { .. }) if !possible => {
                refused += 1;
                Ok(())
            }
            Status::Up => write!(wrong, " {cpu} came up and is not online;"),
            Status::Silent => write!(wrong, " {cpu} never started;"),
            Status::Refused(error) => write!(wrong, " {cpu}: {error};"),
        };
    }
    check!(wrong.is_empty(), "{}", wrong.trim_matches([' ', ';']));
    if let Some(asked) = Asked::get().cpus {
        let named = bench.crew().iter().count();
        check_eq!(named, asked as usize, "CPUs that firmware names");
    }
    metric("cpus", topology.online_cpus().count().into(), "count");
    metric("refused", refused, "count");
    Ok(())
}

/// Each CPU is in the mask of its domain of each level, the nodes' masks are all CPUs, and the
/// nodes that have one, and no others, have a descriptor of IPIs. Where all CPUs are online,
/// nodes and cores have as many as were asked for.
///
/// # Errors
/// What went wrong.
pub fn each_cpu_is_in_its_domains<B: Bench>(bench: &B) -> Verdict {
    let topology = bench.interrupts().topology();
    let cpus = online(*bench);
    for &cpu in &cpus {
        for level in Level::ALL {
            let Some(domain) = topology.domain(cpu, level) else {
                fail!("{cpu} has no {level}")
            };
            check!(domain.contains(cpu), "{cpu} is not in its {level}");
        }
    }
    let (mut with, mut members) = (0, 0);
    for node in (0..topology.nodes()).map(NodeId::new) {
        let count = topology.node(node).map_or(0, |domain| domain.count());
        let described = bench.interrupts().ipi_counts(node).is_some();
        check_eq!(
            described,
            count != 0,
            "a descriptor of {node}, which has {count} CPUs"
        );
        with += u64::from(described);
        members += count;
    }
    check_eq!(members as usize, cpus.len(), "CPUs of all nodes");
    let asked = Asked::get();
    if asked.cpus == Some(members) {
        if let Some(nodes) = asked.nodes {
            check_eq!(with, u64::from(nodes), "nodes that have CPUs");
        }
        let of_node = asked.nodes.and_then(|nodes| members.checked_div(nodes));
        for (level, each) in [(Level::Thread, asked.threads), (Level::Node, of_node)] {
            for &cpu in &cpus {
                let count = topology.domain(cpu, level).map(|domain| domain.count());
                let as_asked = each.is_none() || count == each;
                check!(
                    as_asked,
                    "{count:?} CPUs in the {level} of {cpu}, not {each:?}"
                );
            }
        }
    }
    metric("nodes", topology.nodes().into(), "count");
    metric("nodes_with_cpus", with, "count");
    Ok(())
}

/// One CPU's part of the timer test.
struct Tick {
    due: AtomicU64,
    ticks: AtomicU32,
    early: AtomicU32,
}

/// On each CPU, all at once, the timer fires ten times, each at its deadline and not before, and
/// then no more.
///
/// # Errors
/// What went wrong.
pub fn ten_timer_ticks<B: Bench>(bench: &B) -> Verdict {
    let (bench, machine, timer) = (*bench, bench.machine(), bench.timer());
    let period = machine.ticks_in(PERIOD_US).0;
    let state = PerCpu::new(bench.interrupts().cpus(), |_| Tick {
        due: AtomicU64::new(0),
        ticks: AtomicU32::new(0),
        early: AtomicU32::new(0),
    });
    let state = Arc::new(state.or_fail("counts")?);
    let shared = state.clone();
    let action = Action::new(move |cx| {
        let Some(own) = shared.get(cx.cpu()) else {
            return;
        };
        let tick = own.ticks.fetch_add(1, Relaxed) + 1;
        let deadline = own.due.load(Relaxed);
        if (machine.now().0.wrapping_sub(deadline) as i64) < 0 {
            own.early.fetch_add(1, Relaxed);
        }
        if tick < TICKS {
            let next = deadline.wrapping_add(period);
            own.due.store(next, Relaxed);
            timer.arm(Ticks(next));
        } else {
            timer.stop();
        }
        if tick > STORM {
            // If that fails too, the silence of the image tells.
            let _ = bench.control().mask(cx.irq());
        }
    });
    let _live = Live::masked(&bench, timer.irq(), action)?;
    Crew::on_all(bench, 2 * PATIENCE_MS, move |cpu| {
        let control = bench.control();
        let counts = || control.counts_on(timer.irq(), cpu).unwrap_or_default();
        let Some(own) = state.get(cpu) else {
            fail!("no counts")
        };
        let before = counts();
        // The line is private: this CPU's.
        let maskable = bench.maskable(timer.irq());
        if maskable {
            control.unmask(timer.irq()).or_fail("unmask")?;
        }
        let start = machine.now();
        let first = start.0.wrapping_add(period);
        own.due.store(first, Relaxed);
        timer.arm(Ticks(first));
        wait_for(machine, PATIENCE_MS, || own.ticks.load(Relaxed) >= TICKS);
        let took = machine.now().since(start).0;
        pass(machine, QUIET_MS);
        timer.stop();
        if maskable {
            control.mask(timer.irq()).or_fail("mask")?;
        }
        check_eq!(own.ticks.load(Relaxed), TICKS, "ticks");
        check_eq!(own.early.load(Relaxed), 0, "ticks before their deadline");
        check!(
            took >= period * u64::from(TICKS),
            "ten ticks in {took} counts of the clock"
        );
        let after = counts();
        let counted = after.taken - before.taken;
        check_eq!(counted, u64::from(TICKS), "ticks that were counted");
        check_eq!(after.unhandled, before.unhandled, "ticks without a handler");
        Ok(())
    })?;
    let ticks = u64::from(TICKS) * online(bench).len() as u64;
    metric("ticks", ticks, "count");
    Ok(())
}
