// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of remote calls. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_call`.
#![cfg(loom)]

mod common;
mod ipi_common;

use std::sync::Arc;

use common::{Cpu, on};
use ipi_common::{Machine, cpu};
use irq_core::Kick;
use irq_core::cpu::{CpuIndex, CpuSet};
use irq_hal::Error;
use irq_hal::platform::Ticks;
use irq_hal::wait::Bound;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// What a function uses that its caller lent it. loom checks that each use comes after the
/// caller's last one, and before its next.
#[derive(Default)]
struct Lent {
    value: UnsafeCell<u32>,
    runs: AtomicU32,
}

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Sync for Lent {}
// SAFETY: as for `Sync`.
unsafe impl Send for Lent {}

impl Lent {
    /// Adds one, and returns the sum.
    fn add(&self) -> u32 {
        self.value.with_mut(|value| {
            // SAFETY: loom has checked that no access is concurrent.
            let value = unsafe { &mut *value };
            *value += 1;
            *value
        })
    }

    fn word(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }
}

/// Adds one to what `word` points at, and returns the sum.
fn add(word: usize, _: CpuIndex) -> usize {
    // SAFETY: the word came from `Lent::word`, and each test keeps the value.
    let lent = unsafe { &*(word as *const Lent) };
    lent.runs.fetch_add(1, Ordering::Relaxed);
    lent.add() as usize
}

/// Loom's exploration, bounded: the waits are loops.
fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(f);
}

/// Fails when the release of `Slot`'s countdown, or the acquire of `Slot::left`, becomes
/// Relaxed: the caller uses what it lent before the function is done with it.
#[test]
fn two_masked_cpus_that_call_each_other_both_get_their_answer() {
    model(3, || {
        let machine = Arc::new(Machine::new(2, 1, &[]));
        let done = Arc::new(AtomicU32::new(0));
        let caller = |index: u32| {
            let (machine, done) = (machine.clone(), done.clone());
            move || {
                let lent = Arc::new(Lent::default());
                lent.add();
                let sum = machine.call(&Cpu::new(index), index, 1 - index, add, lent.word());
                assert_eq!(sum, Ok(2));
                assert_eq!(lent.add(), 3);
                // The other one may still need this CPU, now with interrupts on.
                done.fetch_add(1, Ordering::Release);
                while done.load(Ordering::Acquire) < 2 {
                    machine.drain(index);
                    thread::yield_now();
                }
            }
        };
        let other = thread::spawn(caller(1));
        caller(0)();
        other.join().unwrap();
    });
}

/// Fails when a claim does not look whether the call was withdrawn, or a withdrawal whether it
/// was claimed: a call runs that its caller was told never would.
#[test]
fn a_call_that_is_given_up_either_never_runs_or_is_known_to_run() {
    model(3, || {
        let machine = Arc::new(Machine::new(2, 1, &[]));
        let lent = Arc::new(Lent::default());
        let target = thread::spawn({
            let machine = machine.clone();
            move || machine.drain(1)
        });
        let platform = Cpu::new(0);
        let on = on(0);
        let bound = Bound {
            ticks: Ticks(1_000),
            polls: 2,
        };
        let remote = machine
            .interrupts
            .remote(&platform, &machine.bell, &on)
            .within(bound);
        lent.add();
        let called = remote.call(cpu(1), add, lent.word());
        match called {
            // What was lent is the caller's again.
            Ok(sum) => assert_eq!((sum, lent.add()), (2, 3)),
            Err(Error::NoAnswer { cpu: silent }) => {
                assert_eq!(silent, cpu(1));
                lent.add();
            }
            Err(error) => assert_eq!(error, Error::Unfinished { cpu: cpu(1) }),
        }
        target.join().unwrap();
        machine.drain(1);
        let ran = lent.runs.load(Ordering::Relaxed);
        let withdrawn = matches!(called, Err(Error::NoAnswer { .. }));
        assert_eq!(ran, u32::from(!withdrawn));
        // Whatever happened, the slot is free by now.
        let silent = Err(Error::NoAnswer { cpu: cpu(1) });
        assert_eq!(remote.call(cpu(1), add, lent.word()), silent);
    });
}

/// A controller on which CPU 1 answers before its ring returns.
struct Prompt<'a>(&'a Machine);

impl Kick for Prompt<'_> {
    fn kick(&self, to: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        self.0.bell.kick(to, post)?;
        if to == cpu(1) {
            self.0.drain(1);
        }
        Ok(())
    }
}

/// Fails when the release of `Caller::claim` or of `Caller::ended`, or the acquire of
/// `Caller::withdraw` or of `Caller::is_running`, becomes Relaxed: the caller does not see who
/// runs its function, and names one that has ended.
#[test]
fn of_several_cpus_the_one_that_has_not_finished_is_named() {
    model(3, || {
        let machine = Arc::new(Machine::new(3, 1, &[]));
        let target = thread::spawn({
            let machine = machine.clone();
            move || machine.drain(2)
        });
        let (platform, on) = (Cpu::new(0), on(0));
        // One look: loom lets no old value be read after a yield.
        let bound = Bound {
            ticks: Ticks(1_000),
            polls: 1,
        };
        let called = machine
            .interrupts
            .remote(&platform, &Prompt(&machine), &on)
            .within(bound)
            .call_mask(&Both, |_, _| 0, 0);
        match called {
            Ok(count) => assert_eq!(count, 2),
            Err(Error::Unfinished { cpu: named } | Error::NoAnswer { cpu: named }) => {
                assert_eq!(named, cpu(2));
            }
            Err(error) => panic!("{error}"),
        }
        target.join().unwrap();
    });
}

/// CPUs 1 and 2.
struct Both;

impl CpuSet for Both {
    fn contains(&self, cpu: CpuIndex) -> bool {
        matches!(cpu.get(), 1 | 2)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        f(cpu(0), 0b110);
    }
}

/// Fails when the release of `Caller::join`, or the acquire of `Caller::claim`, becomes Relaxed:
/// a CPU that finds its caller on the way offline runs something else.
#[test]
fn a_cpu_that_goes_offline_answers_or_the_call_never_runs() {
    model(3, || {
        let machine = Arc::new(Machine::new(2, 1, &[]));
        let lent = Arc::new(Lent::default());
        let leaving = thread::spawn({
            let machine = machine.clone();
            move || machine.offline(1).unwrap()
        });
        lent.add();
        let called = machine.call(&Cpu::new(0), 0, 1, add, lent.word());
        match called {
            Ok(sum) => assert_eq!((sum, lent.add()), (2, 3)),
            Err(error) => {
                assert_eq!(error, Error::CpuOffline { cpu: cpu(1) });
                lent.add();
            }
        }
        leaving.join().unwrap();
        machine.drain(1);
        assert_eq!(lent.runs.load(Ordering::Relaxed), u32::from(called.is_ok()));
    });
}
