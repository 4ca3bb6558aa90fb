// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines the x2APIC driver writes when it sends and receives. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-tests --test trace_x2apic`.
#![cfg(irq_trace)]

use irq_core::{ActionContext, Kick, Kind as IpiKind};
use irq_hal::CpuIndex;
use irq_hal::atomic::trace::{Event, on_cpu, record, shared_lines};
use irq_tests::gicv3::cpu_set;
use irq_tests::lines::Seen;
use irq_tests::x2apic::{Machine, Plan, System};

const CPUS: u32 = 40;

fn play(cpu: u32, f: impl FnOnce()) {
    on_cpu(CpuIndex::new(cpu), f);
}

/// Every CPU sends to its neighbour, and to all, and takes what it got.
fn storm(machine: &Machine) {
    let all = cpu_set(0..CPUS);
    for cpu in 0..CPUS {
        play(cpu, || {
            machine.on(cpu, |_| {
                let next = CpuIndex::new((cpu + 1) % CPUS);
                machine.apic.kick(next, || true).unwrap();
                machine.apic.kick_mask(&all, |_| true).unwrap();
            });
        });
    }
    for cpu in 0..CPUS {
        play(cpu, || assert!(machine.take(cpu).is_some()));
    }
}

#[test]
fn trace_shows_that_neither_a_send_nor_a_receive_writes_a_line_of_the_driver() {
    let machine = Machine::new(CPUS);
    let events = record(|| storm(&machine));
    assert!(!events.is_empty(), "the driver's atomics are traced");
    let writes = |event: &&Event| event.kind.writes();
    assert_eq!(events.iter().find(writes), None);
}

#[test]
fn trace_shows_that_senders_read_no_line_that_a_cpu_writes_about_itself() {
    let machine = Machine::new(CPUS);
    let events = record(|| {
        storm(&machine);
        for cpu in 0..CPUS {
            play(cpu, || {
                // It counts what is spurious and its errors, and changes its timer and entries.
                machine.model.inject_spurious(cpu);
                assert_eq!(machine.take(cpu), None);
                machine.model.inject_error(cpu, 7);
                machine.on(cpu, |on| {
                    machine.apic.take_errors(on).unwrap();
                    machine.apic.timer(on).unwrap().periodic(9).unwrap();
                    irq_core::Lines::unmask(&machine.apic, machine.irq(0xec)).unwrap();
                });
            });
        }
        storm(&machine);
    });
    assert!(events.iter().any(|event| event.kind.writes()));
    assert_eq!(shared_lines(&events), []);
}

#[test]
fn trace_finds_the_line_of_a_cpu_that_comes_online_while_others_send() {
    let machine = Machine::new(CPUS);
    let events = record(|| {
        storm(&machine);
        machine.offline(3).unwrap();
        play(3, || machine.online(3).unwrap());
        storm(&machine);
    });
    // Its target and its place in its cluster: what senders read.
    let shared = shared_lines(&events);
    assert!((1..=3).contains(&shared.len()), "{shared:?}");
    for line in shared {
        assert_eq!(line.writers, [CpuIndex::new(3)]);
    }
}

fn nothing(_: usize, _: &ActionContext<'_>) {}

#[test]
fn trace_shows_that_an_ipi_writes_no_line_that_another_cpu_touches_but_the_mailbox() {
    let kinds = [IpiKind::new(nothing, 0)];
    let system = System::new(&Plan {
        kinds: &kinds,
        ..Plan::new(CPUS, 2)
    });
    let seen = Seen::storm(&system, 2, 20);
    let (sends, receives) = (seen.sends(), seen.receives());
    assert_eq!((sends.shared, sends.others, sends.locks), (1.0, 0.0, 0));
    assert_eq!(
        (receives.shared, receives.others, receives.locks),
        (1.0, 0.0, 0)
    );
    let mailboxes = seen.shared.len();
    assert_eq!(mailboxes, CPUS as usize, "one each, and nothing else");
}
