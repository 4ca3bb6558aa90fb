// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priorities, entry and end: what a CPU takes and when, and what an EOI retires.

mod apic_kit;
mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use apic_kit::*;
use irq_hal::CpuIndex;
use irq_sim::apic::msr::*;
use kit::refused;

#[test]
fn the_highest_vector_is_taken_first() {
    let (_, model) = running(1);
    for vector in [0x31, 0x5f, 0x50] {
        write(&model, IA32_X2APIC_SELF_IPI, vector);
    }
    let order: Vec<u8> = std::iter::from_fn(|| take(&model, 0)).collect();
    assert_eq!(order, [0x5f, 0x50, 0x31]);
}

#[test]
fn two_edges_before_entry_are_one_and_a_third_waits_in_irr() {
    let (_, model) = running(1);
    let raise = || write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    raise();
    raise();
    model.take(0, |_, _| {
        raise();
        raise();
        assert_eq!((model.irr(0), model.isr(0)), (vec![0x40], vec![0x40]));
        eoi(&model);
    });
    assert_eq!(take(&model, 0), Some(0x40));
    assert_eq!(take(&model, 0), None);
}

#[test]
fn an_interrupt_nests_only_in_a_lower_class() {
    let (sim, model) = running(1);
    write(&model, IA32_X2APIC_SELF_IPI, 0x44);
    model.take(0, |_, _| {
        sim.set_masked(0, false);
        assert_eq!(read(&model, IA32_X2APIC_PPR), 0x40);
        write(&model, IA32_X2APIC_SELF_IPI, 0x4f);
        assert_eq!(model.pending(0), None, "the same class");
        write(&model, IA32_X2APIC_SELF_IPI, 0x50);
        assert_eq!(take(&model, 0), Some(0x50));
        eoi(&model);
        assert_eq!(take(&model, 0), Some(0x4f));
    });
    assert_eq!(model.isr(0), []);
}

#[test]
fn the_task_priority_holds_its_class_and_below() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_TPR, 0x53);
    assert_eq!(read(&model, IA32_X2APIC_PPR), 0x53);
    write(&model, IA32_X2APIC_SELF_IPI, 0x5f);
    assert_eq!(take(&model, 0), None);
    write(&model, IA32_X2APIC_SELF_IPI, 0x60);
    assert_eq!(take(&model, 0), Some(0x60));
    write(&model, IA32_X2APIC_TPR, 0);
    assert_eq!(take(&model, 0), Some(0x5f));
}

#[test]
fn a_masked_cpu_takes_nothing() {
    let (sim, model) = running(1);
    write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    sim.set_masked(0, true);
    assert_eq!(take(&model, 0), None);
    assert_eq!(model.pending(0), Some(0x40));
    sim.set_masked(0, false);
    assert_eq!(take(&model, 0), Some(0x40));
}

#[test]
fn registers_show_what_is_requested_in_service_and_level() {
    let (_, model) = running(1);
    assert!(model.raise(0, 0x45, true));
    assert_eq!(read(&model, IA32_X2APIC_IRR0 + 2), 1 << 5);
    assert_eq!(read(&model, IA32_X2APIC_TMR0 + 2), 1 << 5);
    model.take(0, |_, _| {
        assert_eq!(read(&model, IA32_X2APIC_IRR0 + 2), 0);
        assert_eq!(read(&model, IA32_X2APIC_ISR0 + 2), 1 << 5);
        eoi(&model);
    });
    assert_eq!(model.eoi_broadcasts(), [0x45]);
    assert!(model.raise(0, 0x45, false));
    assert_eq!(read(&model, IA32_X2APIC_TMR0 + 2), 0);
    assert_eq!(take(&model, 0), Some(0x45));
    assert_eq!(model.eoi_broadcasts(), [0x45], "an edge is not told on");
}

#[test]
fn the_end_of_a_level_interrupt_is_not_told_on_where_it_is_suppressed() {
    let (_, model) = running_with(1, |apic| apic.directed_eoi(true));
    write(&model, IA32_X2APIC_SIVR, 0x11ff);
    model.raise(0, 0x45, true);
    take(&model, 0);
    assert_eq!(model.eoi_broadcasts(), []);
}

#[test]
fn an_eoi_with_nothing_in_service_is_refused() {
    let (_, model) = running(1);
    refused("spurious EOI: nothing is in service", || eoi(&model));
}

#[test]
fn one_interrupt_is_ended_once() {
    let (sim, model) = running(1);
    write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    model.take(0, |_, _| {
        sim.set_masked(0, false);
        write(&model, IA32_X2APIC_SELF_IPI, 0x50);
        model.take(0, |_, _| {
            eoi(&model);
            refused(
                "second EOI for one interrupt: it retires vector 0x40",
                || eoi(&model),
            );
        });
        eoi(&model);
    });
    assert_eq!(model.isr(0), []);
}

#[test]
fn a_spurious_interrupt_has_no_eoi() {
    let (sim, model) = running(1);
    model.inject_spurious(0);
    assert_eq!(model.pending(0), Some(0xff));
    let taken = model.take(0, |_, vector| {
        assert_eq!((vector, model.isr(0)), (0xff, vec![]));
        refused("spurious EOI: nothing is in service", || eoi(&model));
    });
    assert!(taken);
    assert_eq!(model.pending(0), None);
    write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    model.take(0, |_, _| {
        sim.set_masked(0, false);
        model.inject_spurious(0);
        model.take(0, |_, _| {
            refused(
                "EOI for a spurious interrupt: it retires vector 0x40",
                || eoi(&model),
            );
        });
        eoi(&model);
    });
}

#[test]
fn a_raised_task_priority_makes_what_was_signalled_spurious() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    write(&model, IA32_X2APIC_TPR, 0xff);
    assert!(model.take(0, |_, vector| assert_eq!(vector, 0xff)));
    assert_eq!(model.irr(0), [0x40], "it stays requested");
    write(&model, IA32_X2APIC_TPR, 0);
    write(&model, IA32_X2APIC_TPR, 0xff);
    write(&model, IA32_X2APIC_TPR, 0);
    assert_eq!(take(&model, 0), Some(0x40), "lowered in time");
    assert_eq!(model.pending(0), None);
}

#[test]
fn stale_bits_of_earlier_software_are_there_at_the_hand_over() {
    let (_, model) = running_with(1, |apic| {
        apic.stale_irr(0, &[0x37, 0x91]).stale_isr(0, &[0x30, 0xa0])
    });
    assert_eq!(model.pending(0), None, "held by what is in service");
    eoi(&model);
    assert_eq!(model.pending(0), Some(0x91));
    eoi(&model);
    assert_eq!(take(&model, 0), Some(0x91));
    assert_eq!(take(&model, 0), Some(0x37));
}

#[test]
fn a_bit_may_be_stuck_in_service() {
    let (_, model) = running_with(1, |apic| apic.stuck_isr(0, &[0x90]));
    for _ in 0..300 {
        eoi(&model);
    }
    assert_eq!(model.isr(0), [0x90]);
}

#[test]
fn pending_bits_survive_the_software_disable() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    write(&model, IA32_X2APIC_SIVR, 0xff);
    assert_eq!(model.irr(0), [0x40]);
    assert!(!model.raise(0, 0x41, false));
    write(&model, IA32_X2APIC_SIVR, 0x1ff);
    assert_eq!(take(&model, 0), Some(0x40));
}

#[test]
fn level_pins_fire_again_until_they_are_quiet() {
    let (_, model) = running(1);
    model.set_pin(0, 0, true);
    write(&model, IA32_X2APIC_LVT_LINT0, 1 << 15 | 0x40);
    assert_eq!(read(&model, IA32_X2APIC_LVT_LINT0) >> 14 & 1, 1);
    assert_eq!(take(&model, 0), Some(0x40));
    model.take(0, |_, _| {
        write(&model, IA32_X2APIC_LVT_LINT1, MASKED | 0xff);
        assert_eq!(model.irr(0), [], "not again before its end");
        model.set_pin(0, 0, false);
        eoi(&model);
    });
    assert_eq!(take(&model, 0), None);
    assert_eq!(read(&model, IA32_X2APIC_LVT_LINT0), 1 << 15 | 0x40);
}

#[test]
fn an_edge_on_a_masked_pin_is_lost_and_an_nmi_pin_has_no_vector() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_LINT1, MASKED | 0x40);
    model.set_pin(0, 1, true);
    write(&model, IA32_X2APIC_LVT_LINT1, 0x40);
    assert_eq!(take(&model, 0), None);
    model.set_pin(0, 1, false);
    write(&model, IA32_X2APIC_LVT_LINT1, 0x8400);
    model.set_pin(0, 1, true);
    assert_eq!((model.nmis(0), model.irr(0)), (1, vec![]));
}

#[test]
fn each_cpu_may_be_a_thread() {
    const CPUS: u32 = 4;
    let (sim, model) = running(CPUS);
    let taken: Arc<Vec<AtomicU64>> = Arc::new((0..CPUS).map(|_| AtomicU64::new(0)).collect());
    let sent = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for cpu in 0..CPUS {
            let (model, taken, sent) = (model.clone(), taken.clone(), sent.clone());
            let sim = sim.clone();
            scope.spawn(move || {
                let drain = || {
                    while model.take(cpu, |on, vector| {
                        assert_eq!((on.cpu(), vector), (CpuIndex::new(cpu), 0x40));
                        taken[cpu as usize].fetch_add(1, Ordering::Relaxed);
                        eoi(&model);
                    }) {}
                };
                for _ in 0..100 {
                    sim.as_cpu(cpu, |_| send(&model, (cpu + 1) % CPUS, FIXED | 0x40));
                    sent.fetch_add(1, Ordering::Release);
                    drain();
                }
                while sent.load(Ordering::Acquire) < u64::from(CPUS) * 100 {
                    thread::yield_now();
                }
                drain();
            });
        }
    });
    assert!(
        taken
            .iter()
            .all(|count| (1..=100).contains(&count.load(Ordering::Relaxed)))
    );
    assert!((0..CPUS).all(|cpu| model.irr(cpu).is_empty() && model.isr(cpu).is_empty()));
}
