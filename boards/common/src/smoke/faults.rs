// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that are not there when they are needed: offline, and silent.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use irq_core::cpu::CpuMask;
use irq_core::{Sent, SentMany};
use irq_hal::wait::Bound;
use irq_hal::{Error, percpu};

use super::PATIENCE_MS;
use super::ipis::{Counted, call, mixed};
use crate::bench::Bench;
use crate::crew::{Crew, online};
use crate::kinds::{PROBE, probes};
use crate::protocol::metric;
use crate::time::{millis_since, wait_for};
use crate::verdict::{OrFail, Stop, Verdict};
use crate::{check, check_eq};

const ONE_CPU: Stop = Stop::Skip("there is one CPU");

/// How long the call to a silent CPU waits, in microseconds.
const PATIENCE_US: u32 = 100_000;

/// An IPI or a remote call to a CPU that was taken offline is a typed error and reaches nobody;
/// a CPU that comes back takes them again.
///
/// # Errors
/// What went wrong.
pub fn a_cpu_goes_offline_and_comes_back<B: Bench>(bench: &B) -> Verdict {
    let (bench, machine, interrupts) = (*bench, bench.machine(), bench.interrupts());
    let topology = interrupts.topology();
    let this = machine.this_cpu();
    let gone = online(bench).into_iter().rfind(|&cpu| cpu != this);
    let gone = gone.ok_or(ONE_CPU)?;
    Crew::dismiss(bench, gone, PATIENCE_MS)?;
    let off = wait_for(machine, PATIENCE_MS, || {
        !topology.is_online(gone) && bench.is_off(gone) == Ok(true)
    });
    check!(off, "{gone} does not go");
    let before = Counted::now(bench);
    let offline = Error::CpuOffline { cpu: gone };
    check_eq!(bench.send(gone, PROBE), Err(offline), "a send");
    check_eq!(call(bench, gone, 0), Err(offline), "a call");
    let mut all = CpuMask::try_new(interrupts.cpus()).or_fail("mask")?;
    all.copy_from(topology.online_cpus()).or_fail("mask")?;
    all.insert(gone).or_fail("mask")?;
    let sent = percpu::masked(machine, |on| {
        interrupts.send_mask(bench.controller(), on, &all, PROBE)
    });
    let rung = online(bench).len() as u32;
    let expected = SentMany {
        rung,
        offline: 1,
        ..SentMany::default()
    };
    check_eq!(sent, Ok(expected), "a send to all, one of them offline");
    before.grew_by(bench, |_| 1)?;

    bench.start(gone).or_fail("start")?;
    check!(
        bench.crew().came_up(machine, gone),
        "{gone} did not come back"
    );
    check!(topology.is_online(gone), "{gone} is not online");
    let taken = probes(gone);
    check_eq!(bench.send(gone, PROBE), Ok(Sent::Rung), "a send to {gone}");
    let arrived = wait_for(machine, PATIENCE_MS, || probes(gone) > taken);
    check!(arrived, "the IPI to {gone} never arrived");
    let value = call(bench, gone, 7).or_fail("call")?;
    check_eq!(value, mixed(7, gone), "the value from {gone}");
    Ok(())
}

/// A remote call to a CPU that holds still with interrupts masked ends with an error that names
/// it; once the CPU takes interrupts again, it answers the next call.
///
/// # Errors
/// What went wrong.
pub fn a_call_to_a_silent_cpu_times_out<B: Bench>(bench: &B) -> Verdict {
    let (bench, machine) = (*bench, bench.machine());
    let this = machine.this_cpu();
    let silent = online(bench).into_iter().rfind(|&cpu| cpu != this);
    let silent = silent.ok_or(ONE_CPU)?;
    let (still, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let shared = Arc::new((still, over));
    Crew::on_all(bench, 4 * PATIENCE_MS, move |cpu| {
        let (still, over) = &*shared;
        if cpu == silent {
            percpu::masked(machine, |_| {
                still.store(true, Ordering::Release);
                wait_for(machine, 2 * PATIENCE_MS, || over.load(Ordering::Acquire));
            });
            return Ok(());
        }
        if cpu != this {
            return Ok(());
        }
        let held = wait_for(machine, PATIENCE_MS, || still.load(Ordering::Acquire));
        let start = machine.now();
        let answer = percpu::masked(machine, |on| {
            let bound = Bound::new(machine, PATIENCE_US, u32::MAX);
            bench
                .interrupts()
                .remote(machine, bench.controller(), on)
                .within(bound)
                .call(silent, mixed, 1)
        });
        metric("timeout", millis_since(machine, start), "ms");
        over.store(true, Ordering::Release);
        check!(held, "{silent} takes no job");
        check_eq!(answer, Err(Error::NoAnswer { cpu: silent }), "the call");
        let value = call(bench, silent, 2).or_fail("call")?;
        check_eq!(value, mixed(2, silent), "the value from {silent}");
        Ok(())
    })
}
