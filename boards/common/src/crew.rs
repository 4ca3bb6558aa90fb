// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs of a machine under test, and jobs that run on them.
//!
//! ```text
//! boot CPU                          every other CPU
//! Crew::new                         comes up in the board's start-up
//! gather: bounded, names the        report: up, or the error
//!   silent ones
//! on, on_all: a job, then an IPI    work: sleeps until there is a job, runs it
//! dismiss                           work returns: the board takes the CPU down
//! ```
//! A CPU that has no job sleeps. A job that does not end in time is a failure that names its
//! CPU; that CPU gets no other job until it has ended.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use irq_core::cpu::CpuSet;
use irq_hal::percpu::{self, PerCpu};
use irq_hal::{CpuIndex, Error};

use crate::bench::Bench;
use crate::kinds::{self, WAKE};
use crate::lock::Masked;
use crate::machine::Machine;
use crate::println;
use crate::time::wait_for;
use crate::verdict::{Failure, OrFail, Stop, Verdict};

/// Milliseconds without any CPU that reports, after which the silent ones are given up.
const SILENCE_MS: u32 = 5_000;

/// What a CPU runs: it gets the CPU's index, and returns or the CPU is lost.
pub type Job = Arc<dyn Fn(CpuIndex) -> Verdict + Send + Sync>;

/// What is known of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It was not heard of.
    Silent,
    /// It is up, and takes jobs.
    Up,
    /// It could not be started, or refused to come up.
    Refused(Error),
}

enum Order {
    Run(Job),
    Leave,
}

struct Member {
    status: Masked<Status>,
    order: Masked<Option<Order>>,
    verdict: Masked<Verdict>,
    /// Whether there is an order that is not done.
    busy: AtomicBool,
    /// The IPIs for which it had an order. Written by the CPU itself.
    seen: AtomicU64,
}

/// The CPUs that firmware names.
pub struct Crew {
    members: PerCpu<Member>,
}

impl Crew {
    /// `cpus` CPUs, none of which was heard of.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(cpus: u32) -> Result<Self, Error> {
        let members = PerCpu::new(cpus, |_| Member {
            status: Masked::new(Status::Silent),
            order: Masked::new(None),
            verdict: Masked::new(Ok(())),
            busy: AtomicBool::new(false),
            seen: AtomicU64::new(0),
        })?;
        Ok(Self { members })
    }

    /// All of them, with what is known.
    pub fn iter(&self) -> impl Iterator<Item = (CpuIndex, Status)> {
        let members = self.members.iter();
        members.map(|(cpu, member)| (cpu, member.status.with(|status| *status)))
    }

    /// Notes what became of starting `cpu`: from that CPU, or from the one that starts it.
    pub fn report(&self, cpu: CpuIndex, result: Result<(), Error>) {
        self.set(cpu, result.map_or_else(Status::Refused, |()| Status::Up));
    }

    /// Forgets what is known of `cpu`, before it is started again.
    pub fn forget(&self, cpu: CpuIndex) {
        self.set(cpu, Status::Silent);
    }

    fn set(&self, cpu: CpuIndex, to: Status) {
        if let Some(member) = self.members.get(cpu) {
            member.status.with(|status| *status = to);
        }
    }

    /// Waits until `cpu` has reported, at most five seconds. Says whether it is up.
    pub fn came_up(&self, machine: &dyn Machine, cpu: CpuIndex) -> bool {
        let Some(member) = self.members.get(cpu) else {
            return false;
        };
        let status = || member.status.with(|status| *status);
        wait_for(machine, SILENCE_MS, || status() != Status::Silent);
        status() == Status::Up
    }

    /// Waits until each CPU has reported; gives up when none did for five seconds. Says on the
    /// console which CPUs are silent or refused.
    pub fn gather(&self, machine: &dyn Machine) {
        let silent = || {
            let is_silent = |&(_, status): &(_, Status)| status == Status::Silent;
            self.iter().filter(is_silent).count()
        };
        let mut left = silent();
        while left != 0 && wait_for(machine, SILENCE_MS, || silent() < left) {
            left = silent();
        }
        for (cpu, status) in self.iter() {
            match status {
                Status::Up => {}
                Status::Silent => println!("{cpu} never started"),
                Status::Refused(error) => println!("{cpu} was refused: {error}"),
            }
        }
    }

    /// What a CPU does from start-up on: sleeps, and runs jobs. Returns when it is dismissed.
    ///
    /// # Context
    /// On `cpu`, which has reported, interrupts unmasked.
    pub fn work(&self, machine: &dyn Machine, cpu: CpuIndex) {
        let Some(member) = self.members.get(cpu) else {
            return;
        };
        // A job begins when its IPI was taken, and counted on both sides: none comes within a
        // job that counts.
        loop {
            let seen = member.seen.load(Ordering::Relaxed);
            let woken = kinds::wakes(cpu);
            if woken == seen {
                percpu::masked(machine, |_| {
                    if kinds::wakes(cpu) == seen {
                        machine.sleep(None);
                    }
                });
                continue;
            }
            let Some(order) = member.order.with(Option::take) else {
                // Whoever sent the IPI is about to leave the order.
                machine.relax();
                continue;
            };
            member.seen.store(woken, Ordering::Relaxed);
            match order {
                Order::Run(job) => {
                    let verdict = job(cpu);
                    drop(job);
                    member.verdict.with(|last| *last = verdict);
                    // Release: pairs with the acquire in `finish`.
                    member.busy.store(false, Ordering::Release);
                }
                Order::Leave => {
                    member.busy.store(false, Ordering::Release);
                    return;
                }
            }
        }
    }

    /// Runs `job` on `cpu`, and waits for its end, at most `millis` milliseconds.
    ///
    /// # Errors
    /// What the job returned; [`Stop::Fail`] with the CPU if it did not end.
    pub fn on<B: Bench>(
        bench: B,
        cpu: CpuIndex,
        millis: u32,
        job: impl Fn(CpuIndex) -> Verdict + Send + Sync + 'static,
    ) -> Verdict {
        if bench.machine().this_cpu() == cpu {
            return job(cpu);
        }
        let crew = bench.crew();
        crew.give(bench, cpu, Order::Run(Arc::new(job)))?;
        crew.finish(bench, cpu, millis)
    }

    /// Runs `job` on every online CPU at once, this one included, and waits for the end of all,
    /// at most `millis` milliseconds for each.
    ///
    /// # Errors
    /// As for [`on`](Self::on), of the first CPU.
    pub fn on_all<B: Bench>(
        bench: B,
        millis: u32,
        job: impl Fn(CpuIndex) -> Verdict + Send + Sync + 'static,
    ) -> Verdict {
        let job: Job = Arc::new(job);
        let crew = bench.crew();
        let this = bench.machine().this_cpu();
        let mut given = Vec::new();
        let mut result = Ok(());
        for cpu in online(bench).into_iter().filter(|&cpu| cpu != this) {
            match crew.give(bench, cpu, Order::Run(job.clone())) {
                Ok(()) => given.push(cpu),
                Err(stop) => result = result.and(Err(stop)),
            }
        }
        result = result.and(job(this));
        for cpu in given {
            result = result.and(crew.finish(bench, cpu, millis));
        }
        result
    }

    /// Lets [`work`](Self::work) return on `cpu`, which is not this one.
    ///
    /// # Errors
    /// [`Stop::Fail`] if the CPU is at a job.
    pub fn dismiss<B: Bench>(bench: B, cpu: CpuIndex, millis: u32) -> Verdict {
        let crew = bench.crew();
        crew.give(bench, cpu, Order::Leave)?;
        crew.finish(bench, cpu, millis)
    }

    fn give<B: Bench>(&self, bench: B, cpu: CpuIndex, order: Order) -> Verdict {
        let member = self.members.get(cpu).ok_or(Error::NoSuchCpu { cpu });
        let member = member.or_fail("job")?;
        if member.busy.swap(true, Ordering::Relaxed) {
            let text = format_args!("{cpu} is still at an earlier job");
            return Err(Stop::Fail(Failure::here(text)));
        }
        if let Err(error) = bench.send(cpu, WAKE) {
            member.busy.store(false, Ordering::Relaxed);
            return Err(error).or_fail("wake");
        }
        member.order.with(|slot| *slot = Some(order));
        Ok(())
    }

    fn finish<B: Bench>(&self, bench: B, cpu: CpuIndex, millis: u32) -> Verdict {
        let Some(member) = self.members.get(cpu) else {
            return Ok(());
        };
        // Acquire: pairs with the release in `work`, so that the verdict is there.
        let done = || !member.busy.load(Ordering::Acquire);
        if !wait_for(bench.machine(), millis, done) {
            let text = format_args!("{cpu} did not end its job in {millis} ms");
            return Err(Stop::Fail(Failure::here(text)));
        }
        let verdict = member.verdict.with(|last| core::mem::replace(last, Ok(())));
        verdict.map_err(|stop| stop.on(cpu))
    }
}

/// The CPUs that are online, in order.
pub fn online<B: Bench>(bench: B) -> Vec<CpuIndex> {
    let mut cpus = Vec::new();
    let set = bench.interrupts().topology().online_cpus();
    set.each(&mut |cpu| cpus.push(cpu));
    cpus
}
