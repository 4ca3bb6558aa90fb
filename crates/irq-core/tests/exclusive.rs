// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions that change what they own.
#![cfg(not(loom))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use common::{Always, Cpu, control, entry, machine, range};
use irq_core::{Action, Answer, Interrupts, Irq, Taken};

const UART: Irq = Irq::new(33);

static CPU: Cpu = Cpu::new(0);

fn interrupts() -> Interrupts {
    machine(2, range(32, 4), &[])
}

fn taken(interrupts: &Interrupts, cpu: u32) -> Taken {
    interrupts.dispatch(&Always(UART), &entry(cpu)).taken
}

#[test]
fn an_exclusive_action_changes_what_it_owns() {
    let (interrupts, sum) = (interrupts(), Arc::new(AtomicU32::new(0)));
    let (mut calls, total) = (0, sum.clone());
    let action = Action::exclusive(move |cx| {
        assert_eq!(cx.irq(), UART);
        calls += 1;
        total.fetch_add(calls, SeqCst);
    });
    let _uart = control(&interrupts, &CPU).register(UART, action).unwrap();
    for cpu in [0, 1, 0] {
        assert_eq!(taken(&interrupts, cpu), Taken::Handled);
    }
    assert_eq!(sum.load(SeqCst), 1 + 2 + 3);
}

#[test]
fn what_an_exclusive_action_answers_counts() {
    let interrupts = interrupts();
    for (answer, expected) in [
        (Answer::NotMine, Taken::Unhandled),
        (Answer::Handled, Taken::Handled),
        (Answer::Deferred, Taken::Deferred),
        (Answer::HandedOver, Taken::HandedOver),
    ] {
        let action = Action::exclusive(move |_| answer);
        let uart = control(&interrupts, &CPU).register(UART, action).unwrap();
        assert_eq!(taken(&interrupts, 0), expected);
        uart.remove().unwrap();
    }
}

#[test]
fn an_interrupt_that_nests_in_its_exclusive_action_lets_it_run_once_more() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let interrupts = INTERRUPTS.get_or_init(interrupts);
    let mut inside = false;
    let action = Action::exclusive(move |_| {
        assert!(!inside, "two at a time");
        inside = true;
        if CALLS.fetch_add(1, SeqCst) == 0 {
            // Two entries nest: one run more serves both.
            for _ in 0..2 {
                assert_eq!(taken(INTERRUPTS.get().unwrap(), 0), Taken::Handled);
            }
        }
        inside = false;
    });
    let uart = control(interrupts, &CPU).register(UART, action).unwrap();
    assert_eq!(taken(interrupts, 0), Taken::Handled);
    assert_eq!(CALLS.load(SeqCst), 2);
    uart.remove().unwrap();
}

#[test]
fn an_interrupt_on_another_cpu_is_handled_at_once_and_served_where_the_action_runs() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let interrupts = interrupts();
    let mut last = None;
    let action = Action::exclusive(move |cx| {
        assert_eq!(*last.get_or_insert(cx.cpu()), cx.cpu());
        CALLS.fetch_add(1, SeqCst);
        STARTED.store(true, SeqCst);
        while !RELEASE.load(SeqCst) {
            std::thread::yield_now();
        }
    });
    let _uart = control(&interrupts, &CPU).register(UART, action).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| taken(&interrupts, 1));
        while !STARTED.load(SeqCst) {
            std::thread::yield_now();
        }
        // Nobody waits here.
        assert_eq!(taken(&interrupts, 0), Taken::Handled);
        assert_eq!(CALLS.load(SeqCst), 1);
        RELEASE.store(true, SeqCst);
    });
    assert_eq!(CALLS.load(SeqCst), 2);
}

#[test]
fn an_exclusive_action_that_unwound_is_called_again() {
    let (interrupts, calls) = (interrupts(), Arc::new(AtomicU32::new(0)));
    let counted = calls.clone();
    let action = Action::exclusive(move |_| {
        assert!(counted.fetch_add(1, SeqCst) > 0, "the first call fails");
    });
    let uart = control(&interrupts, &CPU).register(UART, action).unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| taken(&interrupts, 0))).is_err();
    assert!(unwound);
    assert_eq!(taken(&interrupts, 1), Taken::Handled);
    assert_eq!(calls.load(SeqCst), 2);
    uart.remove().unwrap();
    assert_eq!(Arc::strong_count(&calls), 1);
}

#[test]
fn no_event_is_lost_between_two_cpus() {
    const EVENTS: u32 = 20_000;
    let interrupts = interrupts();
    let (raised, served) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (events, total) = (raised.clone(), served.clone());
    let mut sum = 0;
    let action = Action::exclusive(move |_| {
        sum += events.swap(0, SeqCst);
        total.store(sum, SeqCst);
    });
    let _uart = control(&interrupts, &CPU).register(UART, action).unwrap();
    std::thread::scope(|scope| {
        for cpu in [0, 1] {
            let (interrupts, raised) = (&interrupts, &raised);
            scope.spawn(move || {
                for _ in 0..EVENTS {
                    raised.fetch_add(1, SeqCst);
                    assert_eq!(taken(interrupts, cpu), Taken::Handled);
                }
            });
        }
    });
    assert_eq!(served.load(SeqCst), 2 * EVENTS);
}
