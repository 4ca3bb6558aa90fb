// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each path of the x2APIC driver may cost, exactly, in accesses to the device.

use irq_core::{Kick, Lines};
use irq_hal::CpuIndex;
use irq_sim::log::{Event, Trace};
use irq_tests::gicv3::cpu_set;
use irq_tests::x2apic::{IPI, Machine, irq_saves, lapic, vector, with_ipi};
use irq_x2apic::Config;
use irq_x2apic::apic::Delivery;
use irq_x2apic::regs::apic::*;

/// Loads and stores in `trace`, as (register, is a store).
fn accesses(trace: &Trace) -> Vec<(usize, bool)> {
    trace
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Load(access) => Some((access.offset, false)),
            Event::Store(access) => Some((access.offset, true)),
            _ => None,
        })
        .collect()
}

const EOI: [(usize, bool); 1] = [(IA32_X2APIC_EOI, true)];

/// One interrupt through acknowledge and end.
fn cost_of_one(machine: &Machine, vector: u8) -> Trace {
    let mut trace = Trace::default();
    let asked = machine.sim.this_cpu_calls(0);
    let locks = irq_saves(machine, 0, || {
        trace = machine.trace(|| assert_eq!(machine.take(0), Some(vector)));
    });
    assert_eq!(locks, 0, "a lock was taken");
    assert_eq!(machine.sim.this_cpu_calls(0), asked);
    assert_eq!(trace.mmio(), 0, "{trace}");
    trace
}

#[test]
fn an_ipi_costs_one_eoi_write_to_receive() {
    let machine = Machine::new(2);
    machine
        .sim
        .as_cpu(1, |_| machine.apic.kick(CpuIndex::new(0), || true))
        .unwrap();
    let trace = cost_of_one(&machine, IPI.get());
    assert_eq!(accesses(&trace), EOI);
    assert_eq!(trace.events().len(), 1, "no barrier");
}

#[test]
fn a_message_of_a_device_costs_one_eoi_write() {
    let machine = Machine::new(1);
    for level in [false, true] {
        machine.model.raise(0, 0x31, level);
        let trace = cost_of_one(&machine, 0x31);
        assert_eq!(accesses(&trace), EOI);
        assert_eq!(trace.events().len(), 1, "no barrier");
    }
    // Edges are no matter of the I/O APICs.
    assert_eq!(machine.model.eoi_broadcasts(), [0x31]);
}

#[test]
fn a_timer_interrupt_costs_one_eoi_write_and_arming_it_one_write() {
    let machine = Machine::new(1);
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    machine.on(0, |on| {
        let timer = machine.apic.timer(on).unwrap();
        timer.one_shot(1);
        let again = machine.trace(|| timer.one_shot(10));
        assert_eq!(accesses(&again), [(IA32_X2APIC_INIT_COUNT, true)]);
    });
    machine.model.advance(10);
    assert_eq!(accesses(&cost_of_one(&machine, 0xec)), EOI);
    machine.on(0, |on| {
        let timer = machine.apic.timer(on).unwrap();
        timer.deadline(1).unwrap();
        let again = machine.trace(|| timer.deadline(1).unwrap());
        assert_eq!(accesses(&again), [(IA32_TSC_DEADLINE, true)]);
    });
    assert_eq!(accesses(&cost_of_one(&machine, 0xec)), EOI);
}

#[test]
fn a_spurious_entry_costs_no_access() {
    let machine = Machine::new(1);
    machine.model.inject_spurious(0);
    let trace = machine.trace(|| assert_eq!(machine.take(0), None));
    assert_eq!(trace.events(), []);
    let counts = machine.apic.counts(CpuIndex::new(0)).unwrap();
    assert_eq!(counts.spurious, 1);
}

#[test]
fn an_ipi_costs_one_register_write_to_send() {
    let machine = Machine::new(2);
    let locks = irq_saves(&machine, 0, || {
        let trace = machine.trace(|| machine.apic.kick(CpuIndex::new(1), || true).unwrap());
        assert_eq!(accesses(&trace), [(IA32_X2APIC_ICR, true)]);
        let trace = machine.trace(|| {
            let sent = |on: &_| machine.apic.send_self(on, vector(0x77));
            machine.sim.as_cpu(0, sent).unwrap();
        });
        assert_eq!(accesses(&trace), [(IA32_X2APIC_SELF_IPI, true)]);
        let to = CpuIndex::new(1);
        let trace = machine.trace(|| machine.apic.send(vector(0x77), to).unwrap());
        assert_eq!(accesses(&trace), [(IA32_X2APIC_ICR, true)]);
    });
    assert_eq!(locks, 0, "a lock was taken");
}

#[test]
fn an_ipi_to_many_costs_one_icr_write_per_cluster_and_no_lock() {
    // 40 CPUs are three clusters of 16, 16 and 8.
    let machine = Machine::new(40);
    let locks = irq_saves(&machine, 0, || {
        let all = cpu_set(0..40);
        let kick = machine.trace(|| machine.apic.kick_mask(&all, |_| true).unwrap());
        assert_eq!((kick.accesses(), kick.stores(lapic(0))), (3, 3), "{kick}");
        assert_eq!(machine.apic.kick_writes(&all), Some(3), "as foretold");
        let send = machine.trace(|| machine.apic.send_mask(vector(0x40), &all).unwrap());
        assert_eq!((send.accesses(), send.stores(lapic(0))), (3, 3), "{send}");
        // In an order that hops between them: 7 and 40 have no common divisor.
        let of = |n: u32| machine.apic.id(CpuIndex::new(n * 7 % 40)).unwrap();
        let mut ids: Vec<_> = (0..40).map(of).collect();
        let many = machine.trace(|| machine.apic.send_many(vector(0x41), &mut ids));
        assert_eq!((many.accesses(), many.stores(lapic(0))), (3, 3), "{many}");
        assert_eq!(many.barriers(irq_sim::log::Fence::Publish), 1);
    });
    assert_eq!(locks, 0, "a lock was taken");
    assert!((0..40).all(|cpu| machine.model.irr(cpu) == [0x40, 0x41, IPI.get()]));
}

#[test]
fn masking_and_unmasking_cost_one_write_each() {
    let machine = Machine::new(1);
    for vector in [0xec, 0xfe] {
        let irq = machine.irq(vector);
        for change in [Lines::mask, Lines::unmask] {
            let trace = machine.trace(|| change(&machine.apic, irq).unwrap());
            assert!(matches!(trace.events(), [Event::Store(_)]), "{trace}");
        }
    }
    // A vector that nothing masks.
    let trace = machine.trace(|| machine.apic.unmask(machine.irq(0x50)).unwrap());
    assert_eq!(trace.accesses(), 0);
}

#[test]
fn a_counters_interrupt_costs_one_write_more_which_opens_its_entry_again() {
    let config = Config {
        perf: Some(Delivery::Vector(vector(0xf0))),
        ..with_ipi()
    };
    let machine = Machine::with(1, |builder| builder, config);
    machine.apic.unmask(machine.irq(0xf0)).unwrap();
    machine.model.raise_lvt(0, IA32_X2APIC_LVT_PMI);
    let trace = cost_of_one(&machine, 0xf0);
    let wanted = [(IA32_X2APIC_EOI, true), (IA32_X2APIC_LVT_PMI, true)];
    assert_eq!(accesses(&trace), wanted);
}
