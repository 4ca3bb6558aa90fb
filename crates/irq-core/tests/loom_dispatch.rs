// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of changes and completions against a dispatch. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_dispatch`.
//!
//! Which test fails when an ordering is `Relaxed`:
//! - in `removal`, the release that withdraws a note, the acquire that finds it withdrawn, and
//!   either fence left out: `after_a_removal_no_cpu_runs_the_action`;
//! - in `dispatch`, the release of the mark of a deferral, and in `control` the acquire of
//!   whoever takes it: `a_completion_comes_after_the_deferral_and_once`;
//! - in `control`, the release of who puts the mark back:
//!   `a_completion_that_failed_leaves_the_deferral_to_the_next`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::{Always, Cpu, control, entry, idle_lines, machine, range};
use irq_core::{Action, Answer, Flow, Interrupts, Irq, IrqContext, Kick, Taken};
use irq_hal::{Error, ErrorKind};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

static CPU: Cpu = Cpu::new(1);
const UART: Irq = Irq::new(0);

/// What an action uses. loom checks that each use comes before the write of whoever removed
/// the action.
struct Device(UnsafeCell<u32>);

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Sync for Device {}
// SAFETY: as for `Sync`.
unsafe impl Send for Device {}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn action(self: &Arc<Self>) -> Action {
        let device = self.clone();
        // SAFETY: loom has checked that no write is concurrent.
        Action::new(move |_| device.0.with(|value| assert_eq!(unsafe { *value }, 0))).shared()
    }

    fn gone(&self) {
        // SAFETY: loom has checked that no access is concurrent.
        self.0.with_mut(|value| unsafe { *value = 1 });
    }
}

/// A controller that defers and completes a source, and lets loom check that it is one after
/// the other.
struct Source {
    steps: UnsafeCell<u32>,
    /// Whether the next completion fails.
    fails: AtomicBool,
}

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Sync for Source {}
// SAFETY: as for `Sync`.
unsafe impl Send for Source {}

impl Source {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            steps: UnsafeCell::new(0),
            fails: AtomicBool::new(false),
        })
    }

    fn step(&self, from: u32) -> Result<(), Error> {
        // SAFETY: loom has checked that no access is concurrent.
        self.steps.with_mut(|steps| unsafe {
            assert_eq!(*steps, from);
            *steps += 1;
        });
        Ok(())
    }
}

impl Flow for Source {
    type Active = ();

    fn ack(&self, _: &IrqContext<'_>) -> Option<(Irq, ())> {
        Some((UART, ()))
    }

    fn end(&self, (): ()) {}

    fn defer(&self, (): ()) -> Result<(), Error> {
        self.step(0)
    }

    fn hand_over(&self, (): ()) -> Result<(), Error> {
        Ok(())
    }
}

impl Kick for Source {}

idle_lines!(Source, |source: &Source| {
    if source.fails.swap(false, Relaxed) {
        return Err(Error::Busy { what: "source" });
    }
    source.step(1)
});

/// An action that wakes its driver, which completes, and defers.
fn waking(woken: &Arc<AtomicBool>) -> Action {
    let woken = woken.clone();
    Action::new(move |_| {
        woken.store(true, Relaxed);
        Answer::Deferred
    })
}

#[test]
fn a_completion_comes_after_the_deferral_and_once() {
    loom::model(|| {
        let interrupts = Arc::new(machine(2, range(0, 1), &[]));
        let (source, woken) = (Source::new(), Arc::new(AtomicBool::new(false)));
        let control = interrupts.control(&CPU, &*source);
        // It stays: its owner forgets it.
        std::mem::forget(control.register(UART, waking(&woken)).unwrap());
        let cpu = thread::spawn({
            let (interrupts, source) = (interrupts.clone(), source.clone());
            move || _ = interrupts.dispatch(&*source, &entry(0))
        });
        if woken.load(Relaxed) {
            assert_eq!(control.complete(UART), Ok(()));
            assert!(control.complete(UART).is_err());
        } else {
            // The dispatch may not even have begun.
            let _ = control.complete(UART);
        }
        cpu.join().unwrap();
    });
}

#[test]
fn a_completion_that_failed_leaves_the_deferral_to_the_next() {
    loom::model(|| {
        let interrupts = Arc::new(machine(3, range(0, 1), &[]));
        let (source, woken) = (Source::new(), Arc::new(AtomicBool::new(false)));
        source.fails.store(true, Relaxed);
        let control = interrupts.control(&CPU, &*source);
        std::mem::forget(control.register(UART, waking(&woken)).unwrap());
        let failed = thread::spawn({
            let (interrupts, source) = (interrupts.clone(), source.clone());
            move || {
                let _ = interrupts.dispatch(&*source, &entry(0));
                let failed = interrupts.control(&Cpu::new(0), &*source).complete(UART);
                assert_ne!(failed, Ok(()));
            }
        });
        // Only what the other CPU put back: this must not be the one that fails.
        if !source.fails.load(Relaxed) {
            assert_ne!(
                control.complete(UART).map_err(|error| error.kind()),
                Err(ErrorKind::Busy)
            );
        }
        failed.join().unwrap();
    });
}

#[test]
fn an_action_that_is_removed_while_it_defers_leaves_a_completed_interrupt() {
    loom::model(|| {
        let interrupts = Arc::new(machine(2, range(0, 1), &[]));
        let (source, woken) = (Source::new(), Arc::new(AtomicBool::new(false)));
        let control = interrupts.control(&CPU, &*source);
        let user = control.register(UART, waking(&woken)).unwrap();
        let cpu = thread::spawn({
            let (interrupts, source) = (interrupts.clone(), source.clone());
            move || interrupts.dispatch(&*source, &entry(0)).taken
        });
        user.remove().unwrap();
        // SAFETY: loom has checked that no access is concurrent.
        let steps = source.steps.with(|steps| unsafe { *steps });
        match cpu.join().unwrap() {
            Taken::Deferred => assert_eq!(steps, 2),
            _ => assert_eq!(steps, 0),
        }
    });
}

/// Dispatches once on CPU 0 while `change` runs on CPU 1.
fn against(change: impl Fn(&Interrupts) -> Taken + Send + Sync + Copy + 'static) {
    loom::model(move || {
        let interrupts = Arc::new(machine(2, range(0, 1), &[]));
        let cpu = thread::spawn({
            let interrupts = interrupts.clone();
            move || _ = interrupts.dispatch(&Always(UART), &entry(0))
        });
        let after = change(&interrupts);
        cpu.join().unwrap();
        assert_eq!(interrupts.dispatch(&Always(UART), &entry(0)).taken, after);
        assert_eq!(interrupts.counts(UART).unwrap().taken, 2);
    });
}

#[test]
fn after_a_removal_no_cpu_runs_the_action() {
    against(|interrupts| {
        let device = Device::new();
        control(&interrupts, &CPU)
            .register(UART, device.action())
            .unwrap()
            .remove()
            .unwrap();
        device.gone();
        Taken::Unhandled
    });
}

#[test]
fn of_two_shared_actions_the_one_that_stays_runs_on_and_the_other_is_gone() {
    against(|interrupts| {
        let (first, second) = (Device::new(), Device::new());
        let one = control(&interrupts, &CPU)
            .register(UART, first.action())
            .unwrap();
        let other = control(&interrupts, &CPU)
            .register(UART, second.action())
            .unwrap();
        one.remove().unwrap();
        first.gone();
        // It stays: its owner forgets it.
        std::mem::forget(other);
        Taken::Handled
    });
}
