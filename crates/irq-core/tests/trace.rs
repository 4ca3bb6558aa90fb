// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines a dispatch writes. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace`.
#![cfg(irq_trace)]

mod common;

use common::{Always, Cpu, control, entry, machine, range};
use irq_core::cpu::CpuIndex;
use irq_core::{Action, ActionContext, Answer, Detector, Interrupts, Irq, Setup};
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record, shared_lines};

const CPUS: u32 = 4;

fn tick(_: usize, _: &ActionContext<'_>) -> Answer {
    Answer::Handled
}

/// Two rounds of interrupts: CPU `n` takes `irq(n)`.
fn rounds(interrupts: &Interrupts, irq: impl Fn(u32) -> Irq) -> Vec<Event> {
    record(|| {
        for cpu in (0..CPUS).chain(0..CPUS) {
            let dispatch = || _ = interrupts.dispatch(&Always(irq(cpu)), &entry(cpu));
            on_cpu(CpuIndex::new(cpu), dispatch);
        }
    })
}

#[test]
fn trace_shows_that_handled_interrupts_write_no_line_of_another_cpu_and_take_no_lock() {
    let interrupts = machine(CPUS, range(0, 16), &[range(0, 8)]);
    let cpu = Cpu::new(0);
    let _registered: Vec<_> = [Action::word(tick, 0), Action::end_first(tick, 0)]
        .into_iter()
        .cycle()
        .zip(interrupts.irqs().iter())
        .map(|(action, irq)| control(&interrupts, &cpu).register(irq, action).unwrap())
        .collect();
    for private in 0..8 {
        let events = rounds(&interrupts, |_| Irq::new(private));
        assert_eq!(shared_lines(&events), []);
        assert!(events.iter().all(|event| event.kind != Kind::Lock));
        // A note, its withdrawal and a count, in two rounds.
        let writes = events.iter().filter(|event| event.kind.writes()).count();
        assert_eq!(writes, 2 * 3 * CPUS as usize);
    }
    // Device interrupts, each routed to a CPU of its own.
    let events = rounds(&interrupts, |cpu| Irq::new(8 + cpu));
    assert_eq!(shared_lines(&events), []);
}

#[test]
fn trace_shows_that_with_the_detector_on_a_handled_interrupt_writes_its_note_and_its_count_alone() {
    for count_per_cpu in [false, true] {
        let interrupts = Interrupts::new(Setup {
            private: &[range(0, 8)],
            detector: Some(Detector::new(|_, _| (), 0)),
            count_per_cpu,
            ..Setup::new(CPUS, range(0, 16))
        })
        .unwrap();
        let cpu = Cpu::new(0);
        let _registered: Vec<_> = interrupts
            .irqs()
            .iter()
            .map(|irq| {
                let action = Action::word(tick, 0);
                control(&interrupts, &cpu).register(irq, action).unwrap()
            })
            .collect();
        for irq in [0, 8] {
            let events = rounds(&interrupts, |cpu| Irq::new(irq + cpu));
            assert_eq!(shared_lines(&events), []);
            for cpu in (0..CPUS).map(CpuIndex::new) {
                let writes = events
                    .iter()
                    .filter(|event| event.cpu == cpu && event.kind.writes());
                let mut lines: Vec<_> = writes.map(|event| event.line).collect();
                // In two rounds: a note, its withdrawal and a count.
                assert_eq!(lines.len(), 2 * 3);
                lines.sort_unstable();
                lines.dedup();
                // The notes stand on one line, the count on another.
                assert_eq!(lines.len(), 2);
            }
        }
    }
}

#[test]
fn trace_finds_the_count_of_a_device_interrupt_that_moves() {
    let interrupts = machine(CPUS, range(0, 4), &[]);
    let cpu = Cpu::new(0);
    let _uart = control(&interrupts, &cpu)
        .register(Irq::new(1), Action::word(tick, 0))
        .unwrap();
    assert_eq!(shared_lines(&rounds(&interrupts, |_| Irq::new(1))).len(), 1);
}
