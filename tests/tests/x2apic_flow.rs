// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledge and end: what is taken, what is not, in which order it ends.

use std::cell::RefCell;

use irq_core::{Flow, Irq, IrqContext};
use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::SimPlatform;
use irq_sim::apic::{ApicBuilder, ApicModel, Mode, msr};
use irq_tests::x2apic::{Machine, entry, probe, vector, with_ipi};
use irq_x2apic::Config;
use irq_x2apic::apic::{Counts, Delivery, Pin};
use irq_x2apic::local_apic::Errors;
use irq_x2apic::pic::Pics8259;
use irq_x2apic::regs::apic::*;

fn counts(machine: &Machine) -> Counts {
    machine.apic.counts(CpuIndex::new(0)).unwrap()
}

#[test]
fn every_vector_from_32_on_has_a_number_of_ours_and_comes_as_it() {
    let config = Config {
        base: Irq::new(1000),
        ..with_ipi()
    };
    let machine = Machine::with(1, |builder| builder, config);
    assert_eq!(machine.apic.irqs().first(), Irq::new(1000));
    assert_eq!(machine.apic.irqs().count(), 224);
    assert_eq!(machine.apic.private_irqs(), [machine.apic.irqs()]);
    for number in 32..=254 {
        assert!(machine.model.raise(0, number, false));
        assert_eq!(machine.take(0), Some(number));
        let irq = machine.irq(number);
        assert_eq!(irq.get(), 1000 + u32::from(number) - 32);
        assert_eq!(machine.apic.vector(irq), Ok(vector(number)));
    }
    assert_eq!(machine.apic.irq(vector(31)), None);
    for irq in [999, 1224] {
        let refused = Err(Error::NoSuchIrq { irq });
        assert_eq!(machine.apic.vector(Irq::new(irq)), refused);
    }
    assert_eq!(counts(&machine), Counts::default());
}

#[test]
fn nested_interrupts_end_in_reverse_order_each_its_own() {
    let machine = Machine::new(1);
    let order = RefCell::new(Vec::new());
    machine.model.raise(0, 0x40, false);
    machine.model.take(0, |on, outer| {
        let (_, outer_active) = machine.ack(on, outer).unwrap();
        // The handler lets interrupts in: a lower class waits, a higher one nests.
        machine.model.raise(0, 0x35, false);
        machine.model.raise(0, 0x90, false);
        machine.sim.set_masked(0, false);
        machine.model.take(0, |on, inner| {
            let (_, inner_active) = machine.ack(on, inner).unwrap();
            assert_eq!(machine.model.isr(0), [0x40, 0x90]);
            machine.apic.end(inner_active);
            order.borrow_mut().push(inner);
        });
        machine.sim.set_masked(0, true);
        assert_eq!(machine.model.isr(0), [0x40]);
        machine.apic.end(outer_active);
        order.borrow_mut().push(outer);
    });
    assert_eq!(*order.borrow(), [0x90, 0x40]);
    assert_eq!(machine.drain(0), [0x35]);
}

#[test]
fn a_spurious_interrupt_is_counted_and_retires_nobodys() {
    let machine = Machine::new(1);
    machine.model.raise(0, 0x40, false);
    machine.model.take(0, |on, vector| {
        let (_, active) = machine.ack(on, vector).unwrap();
        machine.model.inject_spurious(0);
        machine.sim.set_masked(0, false);
        // The model would not let an end pass here.
        assert!(machine.model.take(0, |on, vector| {
            assert_eq!(vector, 0xff);
            assert!(machine.ack(on, vector).is_none());
        }));
        machine.sim.set_masked(0, true);
        assert_eq!(machine.model.isr(0), [0x40]);
        machine.apic.end(active);
    });
    assert_eq!(counts(&machine).spurious, 1);
    assert_eq!(counts(&machine).unknown, 0);
}

#[test]
fn a_task_priority_raised_late_makes_a_spurious_interrupt_and_loses_none() {
    use irq_hal::Bus;
    let machine = Machine::new(1);
    machine.model.raise(0, 0x40, false);
    machine.on(0, |_| machine.model.msrs().store(IA32_X2APIC_TPR, 0x50));
    assert_eq!(machine.take(0), None);
    assert_eq!(counts(&machine).spurious, 1);
    machine.on(0, |_| machine.model.msrs().store(IA32_X2APIC_TPR, 0));
    assert_eq!(machine.take(0), Some(0x40));
}

#[test]
fn another_spurious_vector_is_as_good() {
    let config = Config {
        spurious: vector(0x7f),
        ..with_ipi()
    };
    let machine = Machine::with(1, |builder| builder, config);
    machine.model.inject_spurious(0);
    assert_eq!(machine.take(0), None);
    assert_eq!(counts(&machine).spurious, 1);
    // 255 is one like others then.
    machine.model.raise(0, 0xff, false);
    assert_eq!(machine.take(0), Some(0xff));
}

#[test]
fn a_stale_vector_that_nobody_knows_is_ended_and_counted() {
    let machine = Machine::with(
        1,
        |builder| builder.stale_irr(0, &[0x12, 0x1f, 0x55]),
        with_ipi(),
    );
    // 55H has a number, for which irq-core counts and ends it; those below 32 have none.
    assert_eq!(machine.take(0), Some(0x55));
    assert_eq!(machine.take(0), None);
    assert_eq!(machine.take(0), None);
    assert_eq!(machine.model.isr(0), []);
    assert_eq!(counts(&machine).unknown, 2);
    // The class is free again.
    machine.model.raise(0, 0x1e, false);
    assert_eq!(machine.model.pending(0), Some(0x1e));
}

#[test]
fn an_entry_that_no_local_apic_gave_is_counted_and_not_ended() {
    let machine = Machine::new(1);
    machine.model.raise(0, 0x40, false);
    machine.model.take(0, |on, vector| {
        let (_, active) = machine.ack(on, vector).unwrap();
        let trace = machine.trace(|| {
            // An exception's vector, a number that is none, and no vector at all.
            assert!(machine.ack(on, 0x0e).is_none());
            // SAFETY: `on` promises the same, and the context does not outlive it.
            let here = || unsafe { OnCpu::new(on.cpu()) };
            let beyond = IrqContext::new(here(), None, Some(0x1_0040));
            assert!(machine.apic.ack(&beyond).is_none());
            let none = IrqContext::new(here(), None, None);
            assert!(machine.apic.ack(&none).is_none());
            assert!(machine.ack(on, 0x1e).is_none());
        });
        assert_eq!(
            trace.stored(irq_tests::x2apic::lapic(0), IA32_X2APIC_EOI),
            []
        );
        assert_eq!(machine.model.isr(0), [0x40]);
        machine.apic.end(active);
    });
    assert_eq!(counts(&machine).unknown, 4);
}

#[test]
fn an_interrupt_of_an_8259_that_is_kept_going_is_not_ended_in_the_local_apic() {
    // LINT0 leads an 8259 to this CPU; its vectors begin at 30H.
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim).mode(Mode::X2apic).build();
    let config = Config {
        lint: [Pin::ExtInt, Pin::Masked],
        ..with_ipi()
    };
    sim.set_masked(0, true);
    let pics = Pics8259::new(model.ports());
    let silent = pics.shut_down(vector(0x30)).unwrap();
    let apic = probe(&model, config).unwrap();
    let machine = Machine { sim, model, apic };
    machine.online(0).unwrap();
    machine.model.raise(0, 0x29, false);
    machine.sim.set_masked(0, false);
    // The master gives line 7 for nothing, while a handler of a lower class runs.
    machine.model.take(0, |on, vector| {
        let (_, active) = machine.ack(on, vector).unwrap();
        machine.model.pic_spurious(7);
        machine.sim.set_masked(0, false);
        assert!(machine.model.take(0, |_, number| {
            assert_eq!(number, 0x37);
            assert_eq!(silent.end(irq_tests::x2apic::vector(number)), Some(false));
        }));
        machine.sim.set_masked(0, true);
        assert_eq!(machine.model.isr(0), [0x29]);
        machine.apic.end(active);
    });
}

#[test]
fn nothing_is_deferred_or_handed_over() {
    let machine = Machine::new(1);
    machine.model.raise(0, 0x40, false);
    machine.model.take(0, |on, vector| {
        let (irq, active) = machine.ack(on, vector).unwrap();
        let trace = machine.trace(|| {
            for refused in [machine.apic.defer(active), machine.apic.hand_over(active)] {
                assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
            }
            let completed = irq_core::Lines::complete(&machine.apic, irq);
            assert_eq!(completed.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
        });
        assert_eq!(trace.events(), []);
        machine.apic.end(active);
    });
}

fn with_counters(delivery: Delivery) -> Machine {
    let config = Config {
        perf: Some(delivery),
        ..with_ipi()
    };
    let machine = Machine::cold(2, |builder| builder, config);
    machine.apic.unmask_private(machine.irq(0xf0)).unwrap();
    (0..2).for_each(|cpu| machine.online(cpu).unwrap());
    machine
}

#[test]
fn a_counters_entry_which_the_hardware_masks_is_open_again_after_the_end() {
    let machine = with_counters(Delivery::Vector(vector(0xf0)));
    for _ in 0..3 {
        machine.model.raise_lvt(0, msr::IA32_X2APIC_LVT_PMI);
        let state = irq_core::Lines::state(&machine.apic, machine.irq(0xf0)).unwrap();
        assert!(state.masked && state.pending);
        assert_eq!(machine.take(0), Some(0xf0));
    }
    // One that was masked by its handler stays so.
    machine.model.raise_lvt(0, msr::IA32_X2APIC_LVT_PMI);
    machine.model.take(0, |on, vector| {
        let (irq, active) = machine.ack(on, vector).unwrap();
        irq_core::Lines::mask(&machine.apic, irq).unwrap();
        machine.apic.end(active);
    });
    machine.model.raise_lvt(0, msr::IA32_X2APIC_LVT_PMI);
    assert_eq!(machine.model.pending(0), None);
}

#[test]
fn the_counters_vector_ends_like_any_other_where_there_is_no_entry_for_them() {
    let config = Config {
        perf: Some(Delivery::Vector(vector(0xf0))),
        ..with_ipi()
    };
    // MaxLvt 3 is four entries: timer, LINT0, LINT1, error.
    let machine = Machine::with(1, |builder| builder.max_lvt(3), config);
    machine.on(0, |on| machine.apic.send_self(on, vector(0xf0)).unwrap());
    assert_eq!(machine.take(0), Some(0xf0));
    assert_eq!(machine.take(0), None);
}

#[test]
fn counters_that_raise_an_nmi_are_opened_by_its_handler() {
    let machine = with_counters(Delivery::Nmi);
    for _ in 0..2 {
        machine.model.raise_lvt(1, msr::IA32_X2APIC_LVT_PMI);
        assert!(
            machine
                .model
                .take_nmi(1, |on| machine.apic.reopen_perf(on).unwrap())
        );
    }
    assert_eq!(machine.model.nmis(1), 2);
    // Where there is no such entry, nothing is touched.
    let config = Config {
        perf: Some(Delivery::Nmi),
        ..with_ipi()
    };
    let machine = Machine::with(1, |builder| builder.max_lvt(3), config);
    let trace = machine.trace(|| machine.on(0, |on| machine.apic.reopen_perf(on).unwrap()));
    assert_eq!(trace.events(), []);
}

#[test]
fn errors_are_latched_by_a_write_before_the_read_and_counted() {
    let machine = Machine::new(1);
    machine.model.inject_error(0, 5);
    machine.model.inject_error(0, 7);
    assert_eq!(machine.take(0), Some(0xfe));
    let take = || machine.on(0, |on| machine.apic.take_errors(on).unwrap());
    let errors = take();
    assert!(errors.contains(Errors::SEND_ILLEGAL_VECTOR));
    assert!(errors.contains(Errors::ILLEGAL_REGISTER));
    assert_eq!(errors.bits(), 1 << 5 | 1 << 7);
    // What was taken is gone, what comes is there.
    assert!(take().is_empty());
    machine.model.inject_error(0, 7);
    assert_eq!(take(), Errors::ILLEGAL_REGISTER);
    assert_eq!(counts(&machine).errors, [0, 0, 0, 0, 0, 1, 0, 2]);
}

#[test]
fn each_cpu_counts_on_its_own() {
    let machine = Machine::new(3);
    for cpu in [1, 1, 2] {
        machine.model.inject_spurious(cpu);
        machine.take(cpu);
    }
    let spurious = |cpu| machine.apic.counts(CpuIndex::new(cpu)).unwrap().spurious;
    assert_eq!([0, 1, 2].map(spurious), [0, 2, 1]);
    let cpu = CpuIndex::new(3);
    assert_eq!(machine.apic.counts(cpu), Err(Error::NoSuchCpu { cpu }));
}

#[test]
fn a_snapshot_names_cpus_counts_entries_and_vectors_and_reads_no_register_in_another_mode() {
    let machine = Machine::cold(2, |builder: ApicBuilder| builder.ids([0x21, 4]), with_ipi());
    let cold = machine.on(0, |_| format!("{}", machine.apic.snapshot()));
    assert_eq!(cold, "here: APIC_BASE 0xfee00900\n");
    machine.online(0).unwrap();
    machine.model.inject_spurious(0);
    machine.take(0);
    machine.model.raise(0, 0x40, false);
    machine.model.take(0, |on, vector| {
        let active = machine.apic.ack(&entry(on, vector));
        machine.model.raise(0, 0x31, false);
        let text = format!("{}", machine.apic.snapshot());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "cpu0 id 33 spurious 1 unknown 0 leftovers 0 errors 0"
        );
        assert!(lines[1].starts_with("here: APIC_BASE 0xfee00d00 id 0x21 SVR 0x1ff TPR 0x0 LVT"));
        assert!(lines[1].contains("error=0xfe") && lines[1].contains("timer=0x100ec"));
        assert_eq!(lines[2..], ["vector 0x31 waits", "vector 0x40 in service"]);
        let (_, active) = active.unwrap();
        machine.apic.end(active);
    });
}
