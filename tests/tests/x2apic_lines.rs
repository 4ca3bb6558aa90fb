// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of lines: the local vector table of the CPU that runs, and vectors that have no mask.

use irq_core::{Irq, LineState, Lines, Trigger};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::apic::{ApicBuilder, msr};
use irq_tests::x2apic::{Machine, vector, with_ipi};
use irq_x2apic::Config;
use irq_x2apic::acpi::Inti;
use irq_x2apic::apic::{Delivery, Pin};
use irq_x2apic::regs::apic::*;
use irq_x2apic::regs::lvt::Polarity;

const MASK: u64 = 1 << 16;

/// A machine with every source of the local vector table on a vector.
fn all_sources(cpus: u32) -> Machine {
    let pin = |n| Pin::Vector {
        vector: vector(n),
        trigger: Trigger::Edge,
        polarity: Polarity::High,
    };
    let config = Config {
        perf: Some(Delivery::Vector(vector(0xf0))),
        thermal: Some(Delivery::Vector(vector(0xf1))),
        cmci: Some(vector(0xf2)),
        lint: [pin(0xf3), pin(0xf4)],
        ..with_ipi()
    };
    Machine::cold(cpus, |builder| builder, config)
}

const SOURCES: [(u8, usize); 7] = [
    (0xec, msr::IA32_X2APIC_LVT_TIMER),
    (0xf0, msr::IA32_X2APIC_LVT_PMI),
    (0xf1, msr::IA32_X2APIC_LVT_THERMAL),
    (0xf2, msr::IA32_X2APIC_LVT_CMCI),
    (0xf3, msr::IA32_X2APIC_LVT_LINT0),
    (0xf4, msr::IA32_X2APIC_LVT_LINT1),
    (0xfe, msr::IA32_X2APIC_LVT_ERROR),
];

fn masked(machine: &Machine, cpu: u32, register: usize) -> bool {
    machine.model.register(cpu, register) & MASK != 0
}

#[test]
fn a_source_is_masked_and_unmasked_by_its_entry_on_the_cpu_that_runs() {
    let machine = all_sources(2);
    (0..2).for_each(|cpu| machine.online(cpu).unwrap());
    for (number, register) in SOURCES {
        let irq = machine.irq(number);
        // All but errors are masked until somebody asks.
        assert_eq!(masked(&machine, 1, register), number != 0xfe, "{number:#x}");
        machine.sim.as_cpu(1, |_| machine.apic.unmask(irq)).unwrap();
        assert!(!masked(&machine, 1, register));
        assert_eq!(masked(&machine, 0, register), number != 0xfe);
        machine.model.raise_lvt(1, register);
        assert_eq!(machine.take(1), Some(number));
        machine.sim.as_cpu(1, |_| machine.apic.mask(irq)).unwrap();
        assert!(masked(&machine, 1, register));
        machine.model.raise_lvt(1, register);
        assert_eq!(machine.take(1), None);
        let entry = machine.model.register(1, register);
        assert_eq!(entry & 0xff, number.into(), "the vector stays");
    }
}

#[test]
fn sources_are_unmasked_once_for_all_cpus_that_come_and_the_one_that_asks() {
    let machine = all_sources(3);
    machine.online(0).unwrap();
    machine.online(1).unwrap();
    machine.apic.unmask_private(machine.irq(0xf1)).unwrap();
    machine.online(2).unwrap();
    let register = msr::IA32_X2APIC_LVT_THERMAL;
    let open = |cpu| !masked(&machine, cpu, register);
    // CPU 1 was online, and nobody reaches it from here.
    assert_eq!([0, 1, 2].map(open), [true, false, true]);
    machine
        .sim
        .as_cpu(1, |_| machine.apic.unmask(machine.irq(0xf1)))
        .unwrap();
    assert_eq!([0, 1, 2].map(open), [true, true, true]);
    machine.apic.mask_private(machine.irq(0xf1)).unwrap();
    machine.offline(2).unwrap();
    machine.online(2).unwrap();
    assert_eq!([0, 1, 2].map(open), [false, true, false]);
    // A vector that nothing masks needs nothing; nor can it be masked.
    machine.apic.unmask_private(machine.irq(0x40)).unwrap();
    let refused = machine.apic.mask_private(machine.irq(0x40));
    assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
}

#[test]
fn the_template_can_be_set_before_any_cpu_is_online() {
    let machine = all_sources(1);
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    machine.apic.mask_private(machine.irq(0xfe)).unwrap();
    machine.online(0).unwrap();
    assert!(!masked(&machine, 0, msr::IA32_X2APIC_LVT_TIMER));
    assert!(masked(&machine, 0, msr::IA32_X2APIC_LVT_ERROR));
}

#[test]
fn a_vector_without_a_source_is_always_open_and_cannot_be_masked() {
    let machine = Machine::new(1);
    let irq = machine.irq(0x40);
    assert_eq!(machine.apic.unmask(irq), Ok(()));
    assert_eq!(machine.apic.set_trigger(irq, Trigger::Edge), Ok(()));
    let level = machine.apic.set_trigger(irq, Trigger::Level);
    for refused in [machine.apic.mask(irq), level, machine.apic.complete(irq)] {
        assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
    }
    assert_eq!(machine.apic.state(irq), Ok(LineState::default()));
}

#[test]
fn the_spurious_vector_has_no_source_though_entries_without_a_vector_hold_it() {
    let machine = Machine::new(1);
    let irq = machine.irq(0xff);
    let trace = machine.trace(|| {
        machine.sim.as_cpu(0, |_| {
            assert_eq!(machine.apic.unmask(irq), Ok(()));
            assert_eq!(machine.apic.unmask_private(irq), Ok(()));
            for refused in [machine.apic.mask(irq), machine.apic.mask_private(irq)] {
                assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
            }
        });
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn an_irq_out_of_the_range_is_refused_by_every_call() {
    let machine = Machine::new(1);
    let irq = Irq::new(224);
    let apic = &machine.apic;
    let trace = machine.trace(|| {
        let calls = [
            apic.mask(irq),
            apic.unmask(irq),
            apic.set_trigger(irq, Trigger::Edge),
            apic.retrigger(irq),
            apic.complete(irq),
            apic.state(irq).map(drop),
            apic.unmask_private(irq),
            apic.mask_private(irq),
        ];
        for refused in calls {
            assert_eq!(refused, Err(Error::NoSuchIrq { irq: 224 }));
        }
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn a_cpu_that_is_offline_has_no_lines() {
    let machine = Machine::with(2, |builder| builder, with_ipi());
    machine.offline(1).unwrap();
    let cpu = CpuIndex::new(1);
    let trace = machine.trace(|| {
        machine.sim.as_cpu(1, |_| {
            let irq = machine.irq(0xec);
            let apic = &machine.apic;
            let calls = [
                apic.mask(irq),
                apic.unmask(irq),
                apic.retrigger(irq),
                apic.state(irq).map(drop),
            ];
            for refused in calls {
                assert_eq!(refused, Err(Error::CpuOffline { cpu }));
            }
        });
    });
    assert_eq!(trace.accesses(), 0);
}

#[test]
fn a_retrigger_makes_a_line_pending_and_its_state_follows() {
    let machine = Machine::new(1);
    for number in [0x40, 0xec, 0xfe] {
        let irq = machine.irq(number);
        let state = || {
            let state = machine.apic.state(irq).unwrap();
            (state.pending, state.active)
        };
        assert_eq!(state(), (false, false));
        machine.apic.retrigger(irq).unwrap();
        assert_eq!(state(), (true, false));
        machine.model.take(0, |on, vector| {
            let (taken, active) = machine.ack(on, vector).unwrap();
            assert_eq!(taken, irq);
            assert_eq!(state(), (false, true));
            machine.apic.retrigger(irq).unwrap();
            assert_eq!(state(), (true, true));
            irq_core::Flow::end(&machine.apic, active);
        });
        assert_eq!(state(), (true, false));
        assert_eq!(machine.drain(0), [number]);
        assert_eq!(state(), (false, false));
    }
}

#[test]
fn the_spurious_vector_is_never_sent() {
    let machine = Machine::new(1);
    let irq = machine.irq(0xff);
    let trace = machine.trace(|| {
        let refused = machine.apic.retrigger(irq);
        assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
    });
    assert_eq!(trace.accesses(), 0);
}

#[test]
fn pins_are_nmis_level_lines_or_masked_as_the_embedder_says_per_cpu() {
    let config = Config {
        lint: [Pin::Masked, Pin::Nmi(Polarity::High)],
        ..with_ipi()
    };
    let machine = Machine::with(3, |builder| builder, config);
    for cpu in 0..3 {
        machine.model.set_pin(cpu, 1, true);
        assert_eq!(machine.model.nmis(cpu), 1, "cpu{cpu}");
    }
    // One CPU is told otherwise: its NMI is on pin 0, low.
    machine.on(2, |on| {
        machine.apic.set_lint(on, 1, Pin::Masked).unwrap();
        let low = Pin::Nmi(Polarity::Low);
        machine.model.set_pin(2, 0, true);
        machine.apic.set_lint(on, 0, low).unwrap();
    });
    machine.model.set_pin(2, 0, false);
    assert_eq!(machine.model.nmis(2), 2);
    machine.model.set_pin(2, 1, false);
    machine.model.set_pin(2, 1, true);
    assert_eq!(machine.model.nmis(2), 2);
}

#[test]
fn what_the_madt_says_of_a_pin_is_what_it_does() {
    let pin = |flags: Option<u16>| Pin::nmi(flags.map(Inti::new));
    assert_eq!(pin(None), Pin::Masked);
    // Polarity: as the bus has it, high, low.
    assert_eq!(pin(Some(0)), Pin::Nmi(Polarity::High));
    assert_eq!(pin(Some(5)), Pin::Nmi(Polarity::High));
    assert_eq!(pin(Some(7)), Pin::Nmi(Polarity::Low));
}

#[test]
fn a_level_pin_comes_again_until_it_is_low() {
    let machine = Machine::new(1);
    machine.on(0, |on| {
        let pin = Pin::Vector {
            vector: vector(0x60),
            trigger: Trigger::Edge,
            polarity: Polarity::High,
        };
        machine.apic.set_lint(on, 1, pin).unwrap();
    });
    let irq = machine.irq(0x60);
    machine.apic.unmask(irq).unwrap();
    machine.apic.set_trigger(irq, Trigger::Level).unwrap();
    assert_eq!(machine.model.register(0, IA32_X2APIC_LVT_LINT1), 0x8060);
    machine.model.set_pin(0, 1, true);
    assert_eq!(machine.take(0), Some(0x60));
    assert_eq!(machine.take(0), Some(0x60));
    machine.apic.mask(irq).unwrap();
    // It was accepted before the mask.
    assert_eq!(machine.drain(0), [0x60]);
    machine.apic.unmask(irq).unwrap();
    assert_eq!(machine.take(0), Some(0x60));
    machine.model.set_pin(0, 1, false);
    assert_eq!(machine.drain(0).len(), 1);
    machine.apic.set_trigger(irq, Trigger::Edge).unwrap();
    assert_eq!(machine.model.register(0, IA32_X2APIC_LVT_LINT1), 0x60);
}

#[test]
fn a_pin_that_cannot_be_is_refused() {
    let machine = Machine::with(1, |builder: ApicBuilder| builder, with_ipi());
    machine.on(0, |on| {
        let with = |n| Pin::Vector {
            vector: vector(n),
            trigger: Trigger::Edge,
            polarity: Polarity::High,
        };
        let trace = machine.trace(|| {
            // An exception, the spurious one, the one for IPIs, the timer's.
            for number in [0x1f, 0xff, 0xfd, 0xec] {
                let invalid = Error::Invalid {
                    what: "vector of a LINT pin",
                    value: number.into(),
                };
                assert_eq!(machine.apic.set_lint(on, 0, with(number)), Err(invalid));
            }
            let invalid = Error::Invalid {
                what: "LINT pin",
                value: 2,
            };
            assert_eq!(machine.apic.set_lint(on, 2, Pin::Masked), Err(invalid));
        });
        assert_eq!(trace.accesses(), 0);
        // The vector that it has already is no other's.
        machine.apic.set_lint(on, 0, with(0x70)).unwrap();
        machine.apic.set_lint(on, 0, with(0x70)).unwrap();
    });
}

#[test]
fn an_edge_at_a_masked_entry_is_lost_and_one_accepted_before_is_taken() {
    // What the driver says of its masks: no local APIC keeps an edge.
    let machine = all_sources(1);
    machine.online(0).unwrap();
    let irq = machine.irq(0xf1);
    machine.apic.unmask(irq).unwrap();
    machine.model.raise_lvt(0, msr::IA32_X2APIC_LVT_THERMAL);
    machine.apic.mask(irq).unwrap();
    machine.model.raise_lvt(0, msr::IA32_X2APIC_LVT_THERMAL);
    assert_eq!(machine.drain(0), [0xf1]);
    machine.apic.unmask(irq).unwrap();
    assert_eq!(machine.drain(0), []);
}
