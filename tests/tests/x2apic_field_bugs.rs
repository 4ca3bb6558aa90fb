// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs that public local APIC drivers had in the field, one test each: what hardware makes of
//! the mistake, and that this driver does not make it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use irq_core::Kick;
use irq_hal::{Barrier, Bus, CpuIndex};
use irq_sim::SimPlatform;
use irq_sim::apic::{ApicBuilder, ApicModel, Mode, MsrBus, Vendor};
use irq_sim::log::{Event, Trace};
use irq_tests::gicv3::cpu_set;
use irq_tests::x2apic::{Machine, lapic, probe, vector, with_ipi};
use irq_x2apic::apic::{Delivery, Pin};
use irq_x2apic::pic::Pics8259;
use irq_x2apic::regs::apic::*;
use irq_x2apic::regs::lvt::{Lvt, Polarity};
use irq_x2apic::{Config, ProbeError};

const MASK: u64 = 1 << 16;

/// What hardware, or the model for it, objects to in `f`.
fn objection(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("nobody objects");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast::<&str>()
            .map_or(String::new(), |text| text.to_string()),
    }
}

/// A local APIC without a driver, in x2APIC mode.
fn bare(change: impl FnOnce(ApicBuilder) -> ApicBuilder) -> (ApicModel, MsrBus) {
    let sim = SimPlatform::new(2);
    let model = change(ApicModel::builder(&sim).mode(Mode::X2apic)).build();
    let msrs = model.msrs();
    (model, msrs)
}

fn stores(trace: &Trace, cpu: u32) -> Vec<(usize, u64)> {
    let store = |event: &Event| match event {
        Event::Store(access) if access.unit == lapic(cpu) => Some((access.offset, access.value)),
        _ => None,
    };
    trace.events().iter().filter_map(store).collect()
}

/// A machine with every source in use, from its first CPU's online to its offline.
fn a_whole_life() -> Trace {
    let config = Config {
        perf: Some(Delivery::Vector(vector(0xf0))),
        thermal: Some(Delivery::Nmi),
        cmci: Some(vector(0xf2)),
        lint: [Pin::Masked, Pin::Nmi(Polarity::High)],
        ..with_ipi()
    };
    let machine = Machine::cold(2, |builder| builder, config);
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    machine.trace(|| {
        (0..2).for_each(|cpu| machine.online(cpu).unwrap());
        machine.on(0, |on| {
            let timer = machine.apic.timer(on).unwrap();
            timer.periodic(10).unwrap();
            timer.deadline(1).unwrap();
            timer.stop();
            machine.apic.send_self(on, vector(0x40)).unwrap();
        });
        machine.apic.kick(CpuIndex::new(1), || true).unwrap();
        machine.apic.kick_mask(&cpu_set(0..2), |_| true).unwrap();
        machine.apic.kick_urgent(CpuIndex::new(1)).unwrap();
        machine.offline(0).unwrap();
    })
}

// x86.md 1.4: the spurious vector and the software enable.

#[test]
fn the_spurious_vector_is_not_one_of_an_exception() {
    let (_, msrs) = bare(|builder| builder);
    let text = objection(|| msrs.store(IA32_X2APIC_SIVR, 0x10f));
    assert!(text.contains("exception"), "{text}");
    assert!(irq_x2apic::Vector::new(0).is_none() && irq_x2apic::Vector::new(15).is_none());
    let config = Config {
        spurious: vector(0x1f),
        ..with_ipi()
    };
    let sim = SimPlatform::new(1);
    let refused = probe(&ApicModel::builder(&sim).build(), config).err();
    assert!(matches!(refused, Some(ProbeError::Vector { .. })));
}

#[test]
fn a_spurious_interrupt_is_not_ended() {
    let machine = Machine::new(1);
    let msrs = machine.model.msrs();
    let nested = |end: &dyn Fn()| {
        machine.model.raise(0, 0x40, false);
        machine.model.take(0, |on, vector| {
            let (_, active) = machine.ack(on, vector).unwrap();
            machine.model.inject_spurious(0);
            machine.sim.set_masked(0, false);
            machine.model.take(0, |on, vector| {
                assert!(machine.ack(on, vector).is_none());
                end();
            });
            machine.sim.set_masked(0, true);
            assert_eq!(machine.model.isr(0), [0x40]);
            irq_core::Flow::end(&machine.apic, active);
        });
    };
    nested(&|| {});
    let text = objection(|| nested(&|| msrs.store(IA32_X2APIC_EOI, 0)));
    assert!(text.contains("spurious"), "{text}");
}

#[test]
fn an_entry_that_is_unmasked_before_the_software_enable_is_unmasked_after_it() {
    // Hardware forces the mask meanwhile: the timer would be lost.
    let (model, msrs) = bare(|builder| builder);
    msrs.store(IA32_X2APIC_LVT_TIMER, 0xec);
    msrs.store(IA32_X2APIC_SIVR, 0x1ff);
    assert_eq!(model.register(0, IA32_X2APIC_LVT_TIMER), MASK | 0xec);
    let trace = a_whole_life();
    for cpu in 0..2 {
        let stores = stores(&trace, cpu);
        let enable = stores.iter().position(|s| *s == (IA32_X2APIC_SIVR, 0x1ff));
        let is_open = |(register, value): &(usize, u64)| {
            Lvt::ALL.iter().any(|lvt| lvt.msr() == *register) && value & MASK == 0
        };
        let open = stores.iter().position(is_open);
        assert!(enable < open, "cpu{cpu}");
    }
}

// x86.md 1.5: the local vector table.

#[test]
fn an_entry_is_not_switched_off_by_writing_0_which_arms_vector_0() {
    let (model, msrs) = bare(|builder| builder);
    msrs.store(IA32_X2APIC_SIVR, 0x1ff);
    for arms in [0, MASK] {
        msrs.store(IA32_X2APIC_LVT_LINT0, arms);
        msrs.store(IA32_X2APIC_ESR, 0);
        // The local APIC may complain even of a masked one.
        assert_eq!(model.register(0, IA32_X2APIC_ESR), 1 << 6);
    }
    let trace = a_whole_life();
    let entries = (0..2).flat_map(|cpu| stores(&trace, cpu));
    let entries = entries.filter(|(r, _)| Lvt::ALL.iter().any(|lvt| lvt.msr() == *r));
    let vectors: Vec<_> = entries.map(|(_, entry)| entry & 0xff).collect();
    assert!(vectors.len() > 20 && vectors.iter().all(|vector| *vector >= 16));
}

#[test]
fn an_nmi_pin_is_an_edge_and_no_vector() {
    let config = Config {
        lint: [Pin::Masked, Pin::Nmi(Polarity::High)],
        ..with_ipi()
    };
    let machine = Machine::with(1, |builder| builder, config);
    assert_eq!(machine.model.register(0, IA32_X2APIC_LVT_LINT1), 0x4ff);
    machine.model.set_pin(0, 1, true);
    assert_eq!((machine.model.nmis(0), machine.model.pending(0)), (1, None));
}

#[test]
fn entries_that_the_hardware_does_not_have_are_not_touched() {
    let (_, msrs) = bare(|builder| builder.max_lvt(4));
    let text = objection(|| msrs.store(IA32_X2APIC_LVT_THERMAL, MASK | 0xff));
    assert!(text.contains("#GP"), "{text}");
    let machine = Machine::with(1, |builder| builder.max_lvt(4), with_ipi());
    machine.offline(0).unwrap();
}

// x86.md 2.1: the interrupt command.

#[test]
fn a_send_waits_for_no_delivery_status_which_is_not_there() {
    let machine = Machine::new(40);
    let trace = machine.trace(|| {
        machine.apic.kick(CpuIndex::new(1), || true).unwrap();
        machine.apic.kick_mask(&cpu_set(0..40), |_| true).unwrap();
        machine.apic.kick_urgent(CpuIndex::new(1)).unwrap();
    });
    assert_eq!(trace.loads(lapic(0)), 0);
    assert_eq!(machine.sim.relaxes(0), 0);
}

#[test]
fn a_send_does_not_overtake_what_it_is_sent_for() {
    let (_, msrs) = bare(|builder| builder);
    let text = objection(|| msrs.store(IA32_X2APIC_ICR, 1 << 32 | 0x40fd));
    assert!(text.contains("publish"), "{text}");
    // A fence that orders stores and not the send is none.
    let (_, msrs) = bare(|builder| builder);
    let text = objection(|| {
        msrs.complete();
        msrs.store(IA32_X2APIC_ICR, 1 << 32 | 0x40fd);
    });
    assert!(text.contains("publish"), "{text}");
    Machine::new(2)
        .apic
        .kick(CpuIndex::new(1), || true)
        .unwrap();
}

#[test]
fn reserved_bits_of_a_command_are_0_and_its_level_bit_is_1() {
    let (_, msrs) = bare(|builder| builder);
    let (_, amd) = bare(|builder| builder.vendor(Vendor::Amd));
    let text = objection(|| amd.store(IA32_X2APIC_ICR, 1 << 32 | 0x50fd));
    assert!(text.contains("#GP"), "{text}");
    for wrong in [1_u64 << 13, 1 << 16, 1 << 17, 1 << 20, 1 << 31] {
        msrs.publish();
        let text = objection(|| msrs.store(IA32_X2APIC_ICR, 1 << 32 | 0x40fd | wrong));
        assert!(text.contains("#GP"), "{text}");
    }
    let trace = a_whole_life();
    let sent = trace.stored(lapic(0), IA32_X2APIC_ICR);
    assert_eq!(sent.len(), 3);
    for command in sent {
        assert_eq!(command & 0xfff3_3000, 0, "{command:#x}");
        assert_ne!(command & 1 << 14, 0, "{command:#x}");
    }
}

#[test]
fn a_broadcast_does_not_reach_cpus_that_are_offline() {
    let machine = Machine::new(3);
    machine.offline(2).unwrap();
    let msrs = machine.model.msrs();
    msrs.publish();
    msrs.store(IA32_X2APIC_ICR, 0xc_40fd);
    // What a shorthand does, the offline one refuses, and counts as refused.
    assert_eq!(machine.model.strays().len(), 1);
    machine.apic.kick_mask(&cpu_set(0..2), |_| true).unwrap();
    assert_eq!(machine.model.strays().len(), 1);
}

#[test]
fn ids_are_not_cut_to_8_bits() {
    let change = |builder: ApicBuilder| builder.mode(Mode::X2apic).ids([1, 0x101]);
    let machine = Machine::with(2, change, with_ipi());
    machine.apic.kick(CpuIndex::new(1), || true).unwrap();
    assert_eq!(
        (machine.model.pending(0), machine.model.pending(1)),
        (None, Some(0xfd))
    );
}

// x86.md 3.1: the timer.

#[test]
fn a_stop_in_deadline_mode_does_not_rely_on_the_count_or_the_mask() {
    let (model, msrs) = bare(|builder| builder);
    msrs.store(IA32_X2APIC_SIVR, 0x1ff);
    msrs.store(IA32_X2APIC_LVT_TIMER, 0x4_00ec);
    msrs.store(IA32_TSC_DEADLINE, 0x10_0000);
    msrs.store(IA32_X2APIC_INIT_COUNT, 0);
    msrs.store(IA32_X2APIC_LVT_TIMER, MASK | 0x4_00ec);
    assert_ne!(model.register(0, IA32_TSC_DEADLINE), 0, "armed still");
    let machine = Machine::new(1);
    machine.on(0, |on| {
        let timer = machine.apic.timer(on).unwrap();
        timer.deadline(0x10_0000).unwrap();
        timer.stop();
    });
    assert_eq!(machine.model.register(0, IA32_TSC_DEADLINE), 0);
}

#[test]
fn a_cpu_that_goes_offline_leaves_no_deadline_armed() {
    let machine = Machine::new(1);
    machine.on(0, |on| {
        let timer = machine.apic.timer(on).unwrap();
        timer.deadline(0x10_0000).unwrap();
    });
    // By a write of its own: neither the mask nor a change of the mode is relied on.
    let trace = machine.trace(|| machine.offline(0).unwrap());
    assert_eq!(trace.stored(lapic(0), IA32_TSC_DEADLINE), [0]);
    assert_eq!(machine.model.register(0, IA32_TSC_DEADLINE), 0);
}

#[test]
fn a_deadline_written_before_its_mode_is_lost_and_so_is_not() {
    let (model, msrs) = bare(|builder| builder);
    msrs.store(IA32_X2APIC_SIVR, 0x1ff);
    msrs.store(IA32_TSC_DEADLINE, 1);
    msrs.store(IA32_X2APIC_LVT_TIMER, 0x4_00ec);
    assert_eq!(
        (model.pending(0), model.register(0, IA32_TSC_DEADLINE)),
        (None, 0)
    );
    let machine = Machine::new(1);
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    machine.on(0, |on| machine.apic.timer(on).unwrap().deadline(1).unwrap());
    assert_eq!(machine.take(0), Some(0xec));
}

#[test]
fn a_count_that_ran_before_does_not_fire_in_the_new_mode() {
    let machine = Machine::new(1);
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    machine.on(0, |on| {
        let timer = machine.apic.timer(on).unwrap();
        timer.one_shot(3);
        let trace = machine.trace(|| timer.periodic(100).unwrap());
        // Between the entry and the new count, nothing counts.
        let at = |what| stores(&trace, 0).iter().position(|store| *store == what);
        let stopped = at((IA32_X2APIC_INIT_COUNT, 0)).unwrap();
        assert!(stopped < at((IA32_X2APIC_LVT_TIMER, 0x2_00ec)).unwrap());
    });
    machine.model.advance(99);
    assert_eq!(machine.model.pending(0), None);
}

// x86.md 3.3: the 8259s.

#[test]
fn the_pin_of_the_8259s_is_not_masked_before_they_are() {
    let pc = || {
        let sim = SimPlatform::new(1);
        let model = ApicModel::builder(&sim).firmware().build();
        sim.set_masked(0, true);
        model.pic_line(0, true);
        model
    };
    // A kernel that says there are none, and lies.
    let model = pc();
    let apic = probe(&model, with_ipi()).unwrap();
    let machine = Machine {
        sim: model.sim().clone(),
        model,
        apic,
    };
    let text = objection(|| machine.online(0).unwrap());
    assert!(text.contains("8259"), "{text}");
    // One that shut them down.
    let model = pc();
    let silent = Pics8259::new(model.ports()).shut_down(vector(0x20));
    assert!(silent.is_ok());
    let apic = probe(&model, with_ipi()).unwrap();
    let machine = Machine {
        sim: model.sim().clone(),
        model,
        apic,
    };
    machine.online(0).unwrap();
    assert_eq!(machine.model.pending(0), None);
}

#[test]
fn the_8259s_vectors_are_not_left_on_exceptions() {
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim).build();
    sim.set_masked(0, true);
    assert!(
        Pics8259::new(model.ports())
            .shut_down(vector(0x18))
            .is_err()
    );
    let silent = Pics8259::new(model.ports()).shut_down(vector(0x20));
    assert!(silent.is_ok());
    let trace = sim.log().all();
    let bases = [0x21, 0xa1].map(|port| trace.stored(irq_sim::log::Unit::Pic, port)[1]);
    assert_eq!(bases, [0x20, 0x28]);
}

// Others of the field.

#[test]
fn the_page_of_xapic_mode_is_never_fallen_back_to_and_no_bit_of_the_mode_is_taken_away() {
    let trace = a_whole_life();
    for cpu in 0..2 {
        for base in trace.stored(lapic(cpu), IA32_APIC_BASE) {
            assert_eq!(base & 3 << 10, 3 << 10);
            assert_eq!(
                base & 1 << 8,
                u64::from(cpu == 0) << 8,
                "the boot CPU's flag"
            );
        }
    }
    assert_eq!(trace.mmio(), 0);
}

#[test]
fn errors_are_not_read_without_the_write_that_latches_them() {
    let machine = Machine::new(1);
    machine.model.inject_error(0, 6);
    let msrs = machine.model.msrs();
    assert_eq!(machine.on(0, |_| msrs.load(IA32_X2APIC_ESR)), 0, "stale");
    let errors = machine.on(0, |on| machine.apic.take_errors(on).unwrap());
    assert_eq!(errors.bits(), 1 << 6);
}
