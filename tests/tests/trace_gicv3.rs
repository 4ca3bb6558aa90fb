// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines the GICv3 driver writes when it sends and receives. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-tests --test trace_gicv3`.
#![cfg(irq_trace)]

use irq_core::Kick;
use irq_gicv3::IntId;
use irq_hal::CpuIndex;
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record, shared_lines};
use irq_tests::gicv3::{Machine, cpu_set, with_ipi};

const CPUS: u32 = 40;

fn machine() -> Machine {
    Machine::with(CPUS, |builder| builder.rss(true), with_ipi())
}

fn play(cpu: u32, f: impl FnOnce()) {
    on_cpu(CpuIndex::new(cpu), f);
}

/// Every CPU sends to its neighbour, and to all, and takes what it got.
fn storm(machine: &Machine) {
    let all = cpu_set(0..CPUS);
    for cpu in 0..CPUS {
        play(cpu, || {
            machine.sim.as_cpu(cpu, |_| {
                let next = CpuIndex::new((cpu + 1) % CPUS);
                machine.gic.kick(next, || true).unwrap();
                machine.gic.kick_mask(&all, |_| true).unwrap();
            });
        });
    }
    for cpu in 0..CPUS {
        play(cpu, || assert!(machine.take(cpu).is_some()));
    }
}

#[test]
fn trace_shows_that_neither_a_send_nor_a_receive_writes_a_line_of_the_driver() {
    let machine = machine();
    let events = record(|| storm(&machine));
    assert!(!events.is_empty(), "the driver's atomics are traced");
    let writes = |event: &&Event| event.kind.writes();
    assert_eq!(events.iter().find(writes), None);
}

#[test]
fn trace_shows_that_senders_read_no_line_that_a_cpu_writes_about_itself() {
    let machine = machine();
    let ppi = IntId::ppi(11).unwrap();
    let irq = machine.gic.irq(ppi).unwrap();
    let events = record(|| {
        storm(&machine);
        for cpu in 0..CPUS {
            play(cpu, || {
                // It counts what is spurious, and takes its redistributor's lock.
                assert_eq!(machine.ack(cpu), None);
                machine.sim.as_cpu(cpu, |_| {
                    irq_core::Lines::unmask(&machine.gic, irq).unwrap();
                });
            });
        }
    });
    assert!(events.iter().any(|event| event.kind == Kind::Lock));
    assert_eq!(shared_lines(&events), []);
}

#[test]
fn trace_finds_the_line_of_a_cpu_that_comes_online_while_others_send() {
    let machine = machine();
    let events = record(|| {
        storm(&machine);
        machine.offline(3).unwrap();
        play(3, || machine.online(3).unwrap());
        storm(&machine);
    });
    // Its target and its place in its cluster: what senders read.
    let shared = shared_lines(&events);
    assert!((1..=2).contains(&shared.len()), "{shared:?}");
    for line in shared {
        assert_eq!(line.writers, [CpuIndex::new(3)]);
    }
}
