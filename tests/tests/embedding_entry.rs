// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an entry and a registration cost a kernel, and what they never ask of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use irq_core::{Action, Answer, Detector, Interrupts, Kind, Report, Setup, Taken};
use irq_sim::SimPlatform;
use irq_sim::log::Event;
use irq_tests::gicv3::{Machine, icc};
use irq_tests::system::{Plan, System, entry};

const SPI: u32 = 40;

fn ignore(_: usize, _: &irq_core::ActionContext<'_>) {}

fn report(_: usize, report: &Report) {
    panic!("{} was shut off", report.irq);
}

/// How often the platform was asked which CPU runs, over all CPUs.
fn asked(sim: &SimPlatform) -> u64 {
    (0..sim.cpus()).map(|cpu| sim.this_cpu_calls(cpu)).sum()
}

#[test]
fn neither_bring_up_nor_an_entry_nor_a_send_asks_which_cpu_it_is_on() {
    let kinds = [Kind::new(ignore, 0)];
    let system = System::cold(&Plan {
        kinds: &kinds,
        ..Plan::new(4, 2)
    });
    let sim = &system.machine.sim;
    let before = asked(sim);
    for cpu in [2, 0, 3, 1] {
        system.online(cpu).unwrap();
    }
    assert_eq!(asked(sim), before, "online");

    let irq = system.irq(SPI);
    let action = Action::new(|_| Answer::Handled);
    let registration = system.control().register(irq, action).unwrap();
    system.control().unmask(irq).unwrap();
    system.machine.model.line(SPI).pulse();
    system.control().retrigger(irq).unwrap();
    let before = asked(sim);
    system.send(1, 0, 0).unwrap();
    system.send(0, 0, 0).unwrap();
    system.send(0, 3, 0).unwrap();
    assert!(system.settle() >= 2);
    assert_eq!(asked(sim), before, "entries and sends");
    assert_eq!(system.interrupts.counts(irq).unwrap().taken, 1);
    registration.remove().unwrap();
}

#[test]
fn registering_touches_no_device_so_that_a_line_stays_masked_until_it_is_unmasked() {
    let system = System::new(&Plan::new(2, 1));
    let machine = &system.machine;
    let irq = system.irq(SPI);
    // Configured, raised and left alone for a while, with interrupts on.
    machine.model.line(SPI).assert();
    assert_eq!(system.settle(), 0);
    assert!(!machine.sim.masked(0));
    let ran = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ran);
    let line = machine.model.line(SPI);
    let action = Action::new(move |_| {
        flag.store(true, Relaxed);
        line.deassert();
    });
    let mut registration = None;
    let trace = machine.trace(|| {
        registration = Some(system.control().register(irq, action).unwrap());
    });
    assert_eq!(trace.accesses(), 0);
    assert_eq!(system.settle(), 0);
    assert!(system.control().state(irq).unwrap().masked);
    system.control().unmask(irq).unwrap();
    assert_eq!(system.settle(), 1);
    assert!(ran.load(Relaxed));
    registration.unwrap().remove().unwrap();
}

#[test]
fn what_somebody_else_acknowledged_is_ended_and_not_acknowledged_again() {
    let system = System::new(&Plan::new(1, 1));
    let machine = &system.machine;
    let irq = system.irq(SPI);
    let action = Action::new(|_| Answer::Handled);
    let registration = system.control().register(irq, action).unwrap();
    system.control().unmask(irq).unwrap();
    system.control().retrigger(irq).unwrap();
    let (taken, active) = machine.ack(0).expect("an interrupt");
    assert_eq!(taken, irq);
    let trace = machine.trace(|| {
        system.on(0, |on| {
            let (flow, cx) = (&machine.gic, entry(on));
            let outcome = system
                .interrupts
                .dispatch_acknowledged(flow, &cx, irq, active);
            assert_eq!(outcome.taken, Taken::Handled);
        });
    });
    assert_eq!((trace.loads(icc(0)), trace.stores(icc(0))), (0, 1));
    assert_eq!(machine.model.handling(0), []);
    registration.remove().unwrap();
}

/// What one handled PPI and one handled SPI did to the machine.
fn handled(machine: &Machine, interrupts: &Interrupts) -> (Vec<Event>, u64) {
    let (ppi, spi) = (machine.irq(27), machine.irq(SPI));
    let control = interrupts.control(&machine.sim, &machine.gic);
    let kept = [ppi, spi].map(|irq| {
        let action = Action::new(|_| Answer::Handled);
        let registration = control.register(irq, action).unwrap();
        machine.sim.as_cpu(0, |_| {
            control.unmask(irq).unwrap();
            control.retrigger(irq).unwrap();
        });
        registration
    });
    let saves = machine.sim.irq_saves(0);
    let trace = machine.trace(|| {
        for _ in 0..2 {
            machine.sim.as_cpu(0, |on| {
                let outcome = interrupts.dispatch(&machine.gic, &entry(on));
                assert_eq!(outcome.taken, Taken::Handled);
            });
        }
    });
    let saves = machine.sim.irq_saves(0) - saves;
    for registration in kept {
        registration.remove().unwrap();
    }
    (trace.events().to_vec(), saves)
}

#[test]
fn what_a_kernel_does_not_use_costs_an_interrupt_nothing_and_neither_does_what_it_uses() {
    let machine = || Machine::with(2, |builder| builder, irq_tests::gicv3::with_ipi());
    let plain = machine();
    // The two arguments are all that is required.
    let least = Interrupts::new(Setup::new(2, plain.gic.irqs())).unwrap();
    let full = System::new(&Plan {
        kinds: &[Kind::new(ignore, 0), Kind::last(ignore, 1)],
        detector: Some(Detector::new(report, 0)),
        ..Plan::new(2, 2)
    });
    let least = handled(&plain, &least);
    let full = handled(&full.machine, &full.interrupts);
    assert_eq!(least, full);
    assert_eq!(least.1, 0, "no lock");
    assert!(!least.0.is_empty());
}
