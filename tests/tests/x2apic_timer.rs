// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local APIC's timer: armed, re-armed, changed, stopped.

use irq_core::Lines;
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::apic::{ApicBuilder, Vendor, msr};
use irq_sim::log::{Event, Trace};
use irq_tests::x2apic::{Machine, lapic, with_ipi};
use irq_x2apic::Config;
use irq_x2apic::regs::apic::*;
use irq_x2apic::timer::{Deadline, Divide, Timer};

const TIMER: u8 = 0xec;

fn machine(change: impl FnOnce(ApicBuilder) -> ApicBuilder) -> Machine {
    let machine = Machine::cold(2, change, with_ipi());
    machine.apic.unmask_private(machine.irq(TIMER)).unwrap();
    (0..2).for_each(|cpu| machine.online(cpu).unwrap());
    machine
}

/// Runs `f` on the timer of `cpu`.
fn timer<R>(
    machine: &Machine,
    cpu: u32,
    f: impl FnOnce(Timer<'_, irq_sim::apic::MsrBus>) -> R,
) -> R {
    machine.on(cpu, |on| f(machine.apic.timer(on).unwrap()))
}

fn stores(trace: &Trace) -> Vec<(usize, u64)> {
    let store = |event: &Event| match event {
        Event::Store(access) => Some((access.offset, access.value)),
        _ => None,
    };
    trace.events().iter().filter_map(store).collect()
}

/// How many timer interrupts `cpu` takes in `ticks`, looked at after each tick.
fn fired(machine: &Machine, cpu: u32, ticks: u64) -> Vec<u64> {
    let mut at = Vec::new();
    for tick in 1..=ticks {
        machine.model.advance(1);
        while let Some(vector) = machine.take(cpu) {
            assert_eq!(vector, TIMER);
            at.push(tick);
        }
    }
    at
}

#[test]
fn a_one_shot_fires_once_on_its_own_cpu() {
    let machine = machine(|builder| builder);
    timer(&machine, 1, |timer| timer.one_shot(10));
    timer(&machine, 1, |timer| assert_eq!(timer.current(), 10));
    assert_eq!(fired(&machine, 0, 5), []);
    timer(&machine, 1, |timer| assert_eq!(timer.current(), 5));
    assert_eq!(fired(&machine, 1, 100), [5]);
    assert_eq!(machine.take(0), None);
    // A count of 0 would be none.
    timer(&machine, 1, |timer| timer.one_shot(0));
    assert_eq!(fired(&machine, 1, 10), [1]);
}

#[test]
fn a_period_fires_again_and_again_until_it_is_stopped() {
    let machine = machine(|builder| builder);
    timer(&machine, 0, |timer| timer.periodic(7).unwrap());
    assert_eq!(fired(&machine, 0, 30), [7, 14, 21, 28]);
    timer(&machine, 0, |timer| timer.stop());
    assert_eq!(fired(&machine, 0, 100), []);
    let none = timer(&machine, 0, |timer| timer.periodic(0));
    let invalid = Error::Invalid {
        what: "period of the timer",
        value: 0,
    };
    assert_eq!(none, Err(invalid));
}

#[test]
fn a_deadline_fires_when_the_tsc_is_there_and_at_once_if_it_has_been() {
    let machine = machine(|builder| builder);
    let now = machine.model.tsc();
    timer(&machine, 0, |timer| timer.deadline(now + 20).unwrap());
    assert_eq!(fired(&machine, 0, 50), [20]);
    timer(&machine, 0, |timer| timer.deadline(now).unwrap());
    assert_eq!(machine.drain(0), [TIMER]);
    // A deadline of 0 would disarm.
    timer(&machine, 0, |timer| timer.deadline(0).unwrap());
    assert_eq!(machine.drain(0), [TIMER]);
}

#[test]
fn the_entry_is_written_before_the_count_or_the_deadline() {
    let machine = machine(|builder| builder);
    let trace = machine.trace(|| timer(&machine, 0, |timer| timer.deadline(5).unwrap()));
    let stop = [(IA32_X2APIC_INIT_COUNT, 0), (IA32_TSC_DEADLINE, 0)];
    let armed = [(IA32_X2APIC_LVT_TIMER, 0x4_00ec), (IA32_TSC_DEADLINE, 5)];
    assert_eq!(stores(&trace), [stop, armed].concat());
    let trace = machine.trace(|| timer(&machine, 0, |timer| timer.one_shot(5)));
    let armed = [(IA32_X2APIC_LVT_TIMER, 0xec), (IA32_X2APIC_INIT_COUNT, 5)];
    assert_eq!(stores(&trace), [stop, armed].concat());
}

#[test]
fn a_change_of_the_mode_lets_nothing_of_the_old_one_fire() {
    let machine = machine(|builder| builder);
    timer(&machine, 0, |timer| {
        timer.periodic(3).unwrap();
        timer.one_shot(10);
    });
    assert_eq!(fired(&machine, 0, 40), [10]);
    timer(&machine, 0, |timer| {
        timer.one_shot(3);
        timer.periodic(10).unwrap();
    });
    assert_eq!(fired(&machine, 0, 25), [10, 20]);
    let now = machine.model.tsc();
    timer(&machine, 0, |timer| timer.deadline(now + 10).unwrap());
    assert_eq!(fired(&machine, 0, 30), [10]);
    timer(&machine, 0, |timer| {
        timer.deadline(now + 100).unwrap();
        timer.one_shot(200);
    });
    assert_eq!(fired(&machine, 0, 300), [200]);
}

#[test]
fn the_same_mode_again_keeps_the_entry_as_it_is() {
    let machine = machine(|builder| builder);
    timer(&machine, 0, |timer| timer.one_shot(100));
    machine.apic.mask(machine.irq(TIMER)).unwrap();
    timer(&machine, 0, |timer| timer.one_shot(2));
    assert_eq!(machine.model.register(0, IA32_X2APIC_LVT_TIMER), 0x1_00ec);
    assert_eq!(fired(&machine, 0, 10), [], "masked");
    // Masked or not is kept over a change of the mode, too.
    timer(&machine, 0, |timer| timer.periodic(2).unwrap());
    assert_eq!(fired(&machine, 0, 10), []);
    machine.apic.unmask(machine.irq(TIMER)).unwrap();
    assert_eq!(fired(&machine, 0, 4), [2, 4]);
}

#[test]
fn a_masked_timer_is_to_be_armed_again() {
    let machine = machine(|builder| builder);
    let irq = machine.irq(TIMER);
    timer(&machine, 0, |timer| timer.one_shot(5));
    machine.apic.mask(irq).unwrap();
    assert_eq!(fired(&machine, 0, 10), []);
    machine.apic.unmask(irq).unwrap();
    assert_eq!(
        fired(&machine, 0, 10),
        [],
        "what fired while masked is lost"
    );
    timer(&machine, 0, |timer| timer.one_shot(5));
    assert_eq!(fired(&machine, 0, 10), [5]);
}

#[test]
fn a_stop_writes_0_to_count_and_deadline_whatever_the_mode() {
    let machine = machine(|builder| builder);
    let both = [(IA32_X2APIC_INIT_COUNT, 0), (IA32_TSC_DEADLINE, 0)];
    let stop = |machine: &Machine| {
        let trace = machine.trace(|| timer(machine, 0, |timer| timer.stop()));
        stores(&trace)
    };
    assert_eq!(stop(&machine), both);
    let later = machine.model.tsc() + 10;
    timer(&machine, 0, |timer| timer.deadline(later).unwrap());
    assert_eq!(stop(&machine), both);
    assert_eq!(fired(&machine, 0, 20), []);
    // A masked entry leaves a deadline armed; a stop does not.
    timer(&machine, 0, |timer| timer.deadline(later + 100).unwrap());
    machine.apic.mask(machine.irq(TIMER)).unwrap();
    assert_ne!(machine.model.register(0, IA32_TSC_DEADLINE), 0);
    stop(&machine);
    assert_eq!(machine.model.register(0, IA32_TSC_DEADLINE), 0);
}

#[test]
fn without_tsc_deadline_mode_its_register_is_never_touched() {
    let machine = machine(|builder| builder.deadline(false));
    assert_eq!(machine.apic.deadline(), Deadline::Absent);
    timer(&machine, 0, |timer| {
        let refused = timer.deadline(1).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Unsupported));
        timer.one_shot(5);
        timer.stop();
        timer.periodic(5).unwrap();
    });
    assert_eq!(fired(&machine, 0, 12), [5, 10]);
    machine.offline(0).unwrap();
    let all = machine.sim.log().all();
    assert_eq!(all.stored(lapic(0), IA32_TSC_DEADLINE), []);
}

#[test]
fn a_deadline_timer_without_its_microcode_update_is_not_used_and_is_disarmed() {
    // Haswell, of before and of after the update.
    let old = |builder: ApicBuilder| {
        builder
            .signature(0x3_06c3)
            .microcode(0x21)
            .dead_deadline(true)
            .left(0, msr::IA32_X2APIC_LVT_TIMER, 0x5_00ec)
            .left(0, msr::IA32_TSC_DEADLINE, 0x2000)
    };
    let broken = machine(old);
    assert_eq!(broken.apic.deadline(), Deadline::Broken);
    timer(&broken, 0, |timer| {
        let refused = timer.deadline(1).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Unsupported));
        timer.one_shot(5);
    });
    assert_eq!(broken.model.register(0, IA32_TSC_DEADLINE), 0);
    assert_eq!(fired(&broken, 0, 10), [5]);
    let updated = machine(|builder| builder.signature(0x3_06c3).microcode(0x22));
    assert_eq!(updated.apic.deadline(), Deadline::Works);
}

#[test]
fn the_microcodes_revision_is_asked_for_only_where_it_matters() {
    let asks = |change: fn(ApicBuilder) -> ApicBuilder| {
        let machine = machine(change);
        let all = machine.sim.log().all().on(lapic(0));
        let asked = |event: &Event| event.access().map(|access| access.offset) == Some(0x8b);
        (machine.apic.deadline(), all.events().iter().any(asked))
    };
    let works = (Deadline::Works, false);
    assert_eq!(asks(|builder| builder), works);
    assert_eq!(asks(|builder| builder.vendor(Vendor::Amd)), works);
    // A hypervisor hides it.
    let guest = asks(|builder| builder.signature(0x3_06c3).hypervisor(true));
    assert_eq!(guest, works);
    let old = asks(|builder| builder.signature(0x5_0654).microcode(0x0200_0014));
    assert_eq!(old, (Deadline::Works, true));
}

#[test]
fn the_divider_is_the_embedders() {
    for (divide, by) in [
        (Divide::By1, 1),
        (Divide::By2, 2),
        (Divide::By16, 16),
        (Divide::By128, 128),
    ] {
        let config = Config {
            divide,
            ..with_ipi()
        };
        let machine = Machine::cold(1, |builder| builder, config);
        machine.apic.unmask_private(machine.irq(TIMER)).unwrap();
        machine.online(0).unwrap();
        timer(&machine, 0, |timer| timer.one_shot(3));
        assert_eq!(fired(&machine, 0, 500), [3 * by]);
    }
}

#[test]
fn the_timer_of_a_cpu_that_is_offline_cannot_be_had() {
    let machine = machine(|builder| builder);
    machine.offline(1).unwrap();
    let cpu = CpuIndex::new(1);
    let gone = machine.on(1, |on| machine.apic.timer(on).map(drop));
    assert_eq!(gone, Err(Error::CpuOffline { cpu }));
}
