// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timer: one-shot, periodic, TSC deadline; what arms and what disarms it.

mod apic_kit;
mod kit;

use apic_kit::*;
use irq_sim::apic::msr::*;
use kit::refused;

const PERIODIC: u64 = 1 << 17;
const DEADLINE: u64 = 2 << 17;
/// Divide by one.
const BY_1: u64 = 0b1011;

fn count(model: &irq_sim::apic::ApicModel) -> u64 {
    read(model, IA32_X2APIC_CUR_COUNT)
}

#[test]
fn a_one_shot_timer_fires_once() {
    let (_, model) = running(2);
    write(&model, IA32_X2APIC_DIV_CONF, BY_1);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 100);
    model.advance(99);
    assert_eq!((count(&model), model.pending(0)), (1, None));
    model.advance(1);
    assert_eq!((count(&model), take(&model, 0)), (0, Some(0x40)));
    model.advance(1000);
    assert_eq!(model.pending(0), None);
    assert_eq!(model.pending(1), None, "each CPU has its own");
}

#[test]
fn a_periodic_timer_fires_until_it_is_stopped() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_DIV_CONF, BY_1);
    write(&model, IA32_X2APIC_LVT_TIMER, PERIODIC | 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 100);
    for _ in 0..3 {
        model.advance(100);
        assert_eq!(take(&model, 0), Some(0x40));
    }
    model.advance(350);
    assert_eq!((take(&model, 0), take(&model, 0)), (Some(0x40), None));
    assert_eq!(count(&model), 50);
    write(&model, IA32_X2APIC_INIT_COUNT, 0);
    model.advance(1000);
    assert_eq!(take(&model, 0), None);
}

#[test]
fn the_clock_is_divided() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_TIMER, MASKED | 0x40);
    let codes = [
        (0b0000, 2),
        (0b0001, 4),
        (0b0010, 8),
        (0b0011, 16),
        (0b1000, 32),
        (0b1001, 64),
        (0b1010, 128),
        (0b1011, 1),
    ];
    for (code, divisor) in codes {
        write(&model, IA32_X2APIC_DIV_CONF, code);
        write(&model, IA32_X2APIC_INIT_COUNT, 1000);
        model.advance(10 * divisor - 1);
        assert_eq!(count(&model), 991, "divide by {divisor}");
        model.advance(1);
        assert_eq!(count(&model), 990, "divide by {divisor}");
    }
}

#[test]
fn a_new_count_begins_a_whole_division() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_INIT_COUNT, 10);
    model.advance(1);
    write(&model, IA32_X2APIC_INIT_COUNT, 10);
    model.advance(1);
    assert_eq!(count(&model), 10);
    model.advance(1);
    assert_eq!(count(&model), 9);
}

#[test]
fn masking_does_not_stop_the_count() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_DIV_CONF, BY_1);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 100);
    write(&model, IA32_X2APIC_LVT_TIMER, MASKED | 0x40);
    model.advance(60);
    assert_eq!(count(&model), 40);
    model.advance(60);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    model.advance(1000);
    assert_eq!(take(&model, 0), None, "it fired while masked: lost");
}

#[test]
fn one_shot_and_periodic_change_over_without_a_stop() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_DIV_CONF, BY_1);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 100);
    model.advance(30);
    write(&model, IA32_X2APIC_LVT_TIMER, PERIODIC | 0x40);
    assert_eq!(count(&model), 70);
    model.advance(170);
    assert_eq!(count(&model), 100);
}

#[test]
fn to_and_from_deadline_mode_disarms() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 100);
    write(&model, IA32_X2APIC_LVT_TIMER, DEADLINE | 0x40);
    assert_eq!(count(&model), 0);
    write(&model, IA32_TSC_DEADLINE, model.tsc() + 100);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    assert_eq!(read(&model, IA32_TSC_DEADLINE), 0);
    model.advance(1000);
    assert_eq!(take(&model, 0), None);
}

#[test]
fn a_deadline_fires_once_and_clears_itself() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_TIMER, DEADLINE | 0x40);
    let at = model.tsc() + 100;
    write(&model, IA32_TSC_DEADLINE, at);
    model.advance(99);
    assert_eq!(
        (take(&model, 0), read(&model, IA32_TSC_DEADLINE)),
        (None, at)
    );
    model.advance(1);
    assert_eq!(read(&model, IA32_TSC_DEADLINE), 0);
    assert_eq!(take(&model, 0), Some(0x40));
    write(&model, IA32_TSC_DEADLINE, model.tsc() - 1);
    assert_eq!(take(&model, 0), Some(0x40), "in the past: at once");
    write(&model, IA32_TSC_DEADLINE, model.tsc() + 10);
    write(&model, IA32_TSC_DEADLINE, 0);
    model.advance(1000);
    assert_eq!(take(&model, 0), None);
}

#[test]
fn deadline_mode_ignores_the_count_and_other_modes_the_deadline() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_TIMER, DEADLINE | 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 10);
    assert_eq!(count(&model), 0);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_TSC_DEADLINE, model.tsc() + 10);
    assert_eq!(read(&model, IA32_TSC_DEADLINE), 0);
    model.advance(1000);
    assert_eq!(take(&model, 0), None);
}

#[test]
fn a_masked_deadline_stays_armed_until_zero_is_written() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_TIMER, DEADLINE | 0x40);
    let at = model.tsc() + 100;
    write(&model, IA32_TSC_DEADLINE, at);
    write(&model, IA32_X2APIC_LVT_TIMER, DEADLINE | MASKED | 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 0);
    assert_eq!(model.register(0, IA32_TSC_DEADLINE), at);
    write(&model, IA32_TSC_DEADLINE, 0);
    assert_eq!(model.register(0, IA32_TSC_DEADLINE), 0);
}

#[test]
fn without_the_feature_the_deadline_register_faults() {
    let (_, model) = running_with(1, |apic| apic.deadline(false));
    let rule = "#GP: CPUID.1:ECX[24] is 0";
    refused(rule, || read(&model, IA32_TSC_DEADLINE));
    refused(rule, || write(&model, IA32_TSC_DEADLINE, 0));
}

#[test]
fn a_deadline_may_pass_without_an_interrupt() {
    let (_, model) = running_with(1, |apic| apic.dead_deadline(true));
    write(&model, IA32_X2APIC_LVT_TIMER, DEADLINE | 0x40);
    write(&model, IA32_TSC_DEADLINE, model.tsc() + 10);
    model.advance(100);
    assert_eq!(take(&model, 0), None);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_X2APIC_INIT_COUNT, 10);
    model.advance(100);
    assert_eq!(take(&model, 0), Some(0x40));
}
