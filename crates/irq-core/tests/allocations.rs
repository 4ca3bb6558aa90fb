// SPDX-License-Identifier: MIT OR Apache-2.0
//! What allocates, and what does not: counted by the allocator, for the thread that asks.
#![cfg(not(loom))]

mod common;

use std::fmt::{self, Write};

use common::heap::{Counting, heap};
use common::{Always, Cpu, control, entry, machine, on, range};
use irq_core::{Action, ActionContext, Answer, Bits, Irq, Taken};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and frees that `f` makes on this thread.
fn touched(f: impl FnOnce()) -> (u32, u32) {
    let ((), heap) = heap(f);
    (heap.allocations, heap.frees)
}

static CPU: Cpu = Cpu::new(0);
const UART: Irq = Irq::new(1);

fn tick(_: usize, cx: &ActionContext<'_>) -> Answer {
    cx.request(Bits::RESCHEDULE);
    Answer::Handled
}

#[test]
fn the_allocator_is_counted() {
    assert_eq!(touched(|| drop(Box::new(1))), (1, 1));
}

#[test]
fn no_dispatch_touches_the_heap() {
    let interrupts = machine(2, range(0, 4), &[range(0, 1)]);
    for action in [
        Action::new(|_| ()),
        Action::new(|_| Answer::NotMine).shared(),
        Action::new(|_| Answer::Deferred),
        Action::new(|_| Answer::HandedOver),
        Action::exclusive(|_| ()),
        Action::word(tick, 0),
        Action::end_first(tick, 0),
    ] {
        for irq in [Irq::new(0), UART] {
            let registered = control(&interrupts, &CPU)
                .register(irq, action.clone())
                .unwrap();
            let dispatch = || _ = interrupts.dispatch(&Always(irq), &entry(0));
            assert_eq!(touched(dispatch), (0, 0), "{action:?}");
            registered.remove().unwrap();
        }
    }
    let stray = || _ = interrupts.dispatch(&Always(Irq::new(9)), &entry(1));
    assert_eq!(touched(stray), (0, 0));
    let unhandled = || _ = interrupts.dispatch(&Always(UART), &entry(1));
    assert_eq!(touched(unhandled), (0, 0));
}

#[test]
fn removing_the_last_action_only_frees() {
    let interrupts = machine(1, range(0, 4), &[]);
    let registered = control(&interrupts, &CPU)
        .register(UART, Action::word(tick, 0))
        .unwrap();
    // The list, a box: a second action would stand in a vector.
    assert_eq!(touched(|| registered.remove().unwrap()), (0, 1));
}

#[test]
fn no_removal_of_a_shared_action_allocates() {
    let interrupts = machine(1, range(0, 4), &[]);
    let shared = || Action::word(tick, 0).shared();
    let mut registered: Vec<_> = (0..6)
        .map(|_| control(&interrupts, &CPU).register(UART, shared()).unwrap())
        .collect();
    for _ in 0..3 {
        let one = registered.remove(registered.len() / 2);
        assert_eq!(touched(|| one.remove().unwrap()).0, 0);
    }
    registered.push(control(&interrupts, &CPU).register(UART, shared()).unwrap());
    for one in registered {
        assert_eq!(touched(|| one.remove().unwrap()).0, 0);
    }
    assert_eq!(
        interrupts.dispatch(&Always(UART), &entry(0)).taken,
        Taken::Unhandled
    );
}

#[test]
fn a_snapshot_touches_no_heap() {
    struct Sink(usize);
    impl Write for Sink {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let interrupts = machine(1, range(0, 4), &[]);
    let _uart = control(&interrupts, &CPU)
        .register(UART, Action::word(tick, 0).named("uart"))
        .unwrap();
    let _ = interrupts.dispatch(&Always(Irq::new(2)), &entry(0));
    let (on, mut sink) = (on(0), Sink(0));
    assert_eq!(
        touched(|| interrupts.snapshot(&on, &mut sink).unwrap()),
        (0, 0)
    );
    assert_ne!(sink.0, 0);
}
