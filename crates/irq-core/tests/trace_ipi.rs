// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines IPIs write. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_ipi`.
#![cfg(irq_trace)]

mod common;
mod ipi_common;

use std::collections::BTreeSet;

use common::heap::{Counting, UNTOUCHED, heap};
use common::{Cpu, on};
use ipi_common::{Machine, cpu, kind};
use irq_core::{ActionContext, Kind, Sent, Taken};
use irq_hal::atomic::trace::{Event, Kind as Access, on_cpu, record, shared_lines};

const CPUS: u32 = 352;
const NODES: u32 = 4;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn nothing(_: usize, _: &ActionContext<'_>) {}

fn machine() -> Machine {
    Machine::new(
        CPUS,
        NODES,
        &[Kind::new(nothing, 0), Kind::last(nothing, 0)],
    )
}

/// The next CPU, on the next node: each CPU is the target of one other.
fn target(index: u32) -> u32 {
    (index + CPUS / NODES) % CPUS
}

/// What `f` does as each CPU, one after the other.
fn each_cpu(f: impl Fn(u32)) -> Vec<Event> {
    record(|| (0..CPUS).for_each(|index| on_cpu(cpu(index), || f(index))))
}

fn lines(events: &[Event], index: u32, access: impl Fn(Access) -> bool) -> BTreeSet<usize> {
    let own = |event: &&Event| event.cpu == cpu(index) && access(event.kind);
    events.iter().filter(own).map(|event| event.line).collect()
}

fn no_lock(events: &[Event]) {
    assert!(events.iter().all(|event| event.kind != Access::Lock));
}

#[test]
fn trace_shows_that_a_send_and_a_take_share_the_mailbox_of_the_receiver_and_nothing_else() {
    let machine = machine();
    // Each CPU has two senders: one that rings, and one that does not.
    let other = |index: u32| target((index + 1) % CPUS);
    let sends = each_cpu(|index| {
        let first = machine.send(index, target(index), 0).unwrap();
        machine.send(index, other(index), 1).unwrap();
        assert_eq!(first == Sent::Rung, index == 0);
    });
    let takes = each_cpu(|index| assert_eq!(machine.dispatch(index).taken, Taken::Handled));
    let all: Vec<_> = sends.iter().chain(&takes).copied().collect();
    no_lock(&all);
    // One line for each CPU: its mailbox, which its senders and itself write.
    let mut expected = BTreeSet::new();
    for index in 0..CPUS {
        let receiver = cpu(target(index));
        let mut cpus = [receiver, cpu(index), cpu((index + CPUS - 1) % CPUS)];
        cpus.sort();
        expected.insert(cpus.to_vec());
    }
    let shared = shared_lines(&all);
    assert_eq!(shared.len(), CPUS as usize);
    for line in shared {
        assert_eq!(line.writers, line.cpus);
        assert!(expected.remove(&line.cpus), "{line:?}");
    }
    // The receiver writes its mailbox and its own count.
    for index in 0..CPUS {
        assert_eq!(lines(&takes, index, Access::writes).len(), 2);
    }
}

#[test]
fn trace_shows_that_a_receive_alone_shares_nothing() {
    let machine = machine();
    for index in 0..CPUS {
        machine.send(index, target(index), 0).unwrap();
    }
    let takes = each_cpu(|index| assert_eq!(machine.dispatch(index).taken, Taken::Handled));
    assert_eq!(shared_lines(&takes), []);
    no_lock(&takes);
    // Its mailbox and its count.
    let writes = takes.iter().filter(|event| event.kind.writes()).count();
    assert_eq!(writes, 2 * CPUS as usize);
}

#[test]
fn trace_shows_that_broadcasts_share_mailboxes_only_and_take_no_lock() {
    let machine = machine();
    let senders = [0, 87, 88, 351];
    let sends = record(|| {
        for index in senders {
            on_cpu(cpu(index), || {
                machine
                    .interrupts
                    .broadcast_others(&machine.bell, &on(index), kind(0))
                    .unwrap();
            });
        }
    });
    no_lock(&sends);
    // Every CPU's mailbox was written by several.
    assert_eq!(shared_lines(&sends).len(), CPUS as usize);
}

#[test]
fn trace_counts_no_allocation_for_sends_takes_and_calls() {
    let machine = machine();
    let mask = {
        let mut mask = irq_core::cpu::CpuMask::try_new(CPUS).unwrap();
        mask.fill();
        mask
    };
    let (platform, here) = (Cpu::impatient(3), on(3));
    let interrupts = &machine.interrupts;
    let ((), used) = heap(|| {
        machine.send(3, 90, 0).unwrap();
        _ = interrupts.send_mask(&machine.bell, &here, &mask, kind(1));
        _ = interrupts.broadcast_others(&machine.bell, &here, kind(1));
        machine.drain(90);
        _ = machine.call(&platform, 3, 90, |word, _| word, 1);
        _ = interrupts.call_mask(&platform, &machine.bell, &here, &mask, |word, _| word, 1);
        machine.offline(90).unwrap();
    });
    assert_eq!(used, UNTOUCHED);
    // The count works.
    let ((), used) = heap(|| drop(Box::new(platform.tick)));
    assert_eq!(used.allocations, 1);
}
