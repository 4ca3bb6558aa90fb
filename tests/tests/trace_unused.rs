// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel does not use costs a handled interrupt no atomic access. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-tests --test trace_unused`.
#![cfg(irq_trace)]

use irq_core::{Action, Answer, Detector, Interrupts, Kind, Setup, Taken};
use irq_hal::CpuIndex;
use irq_hal::atomic::trace::{self, on_cpu, record};
use irq_tests::gicv3::{Machine, with_ipi};
use irq_tests::system::{Plan, System, entry};

/// The atomic accesses of one handled SPI, in order.
fn handled(machine: &Machine, interrupts: &Interrupts) -> Vec<trace::Kind> {
    let control = interrupts.control(&machine.sim, &machine.gic);
    let irq = machine.irq(40);
    let registration = control.register(irq, Action::new(|_| Answer::Handled));
    let registration = registration.unwrap();
    control.unmask(irq).unwrap();
    control.retrigger(irq).unwrap();
    let events = record(|| {
        on_cpu(CpuIndex::new(0), || {
            machine.sim.as_cpu(0, |on| {
                let outcome = interrupts.dispatch(&machine.gic, &entry(on));
                assert_eq!(outcome.taken, Taken::Handled);
            });
        });
    });
    registration.remove().unwrap();
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn trace_shows_that_nodes_ipis_and_the_detector_add_no_access_to_a_handled_interrupt() {
    let plain = Machine::with(2, |builder| builder, with_ipi());
    let least = Interrupts::new(Setup::new(2, plain.gic.irqs())).unwrap();
    let least = handled(&plain, &least);
    let full = System::new(&Plan {
        kinds: &[Kind::new(|_, _| (), 0)],
        detector: Some(Detector::new(|_, _| (), 0)),
        ..Plan::new(2, 2)
    });
    let full = handled(&full.machine, &full.interrupts);
    assert!(!least.is_empty(), "irq-core's atomics are traced");
    assert_eq!(least, full);
}
