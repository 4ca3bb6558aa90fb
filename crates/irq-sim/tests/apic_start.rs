// SPDX-License-Identifier: MIT OR Apache-2.0
//! How CPUs are started: INIT, start-up IPIs, what they find.

mod apic_kit;
mod kit;

use std::sync::{Arc, Mutex};

use apic_kit::*;
use irq_hal::{Barrier, Platform};
use irq_sim::apic::msr::*;
use irq_sim::apic::{ApicBuilder, ApicModel, Aps, Mode, Refusal, Stray};
use kit::refused;

const OTHERS: u64 = 3 << 18;

fn waiting(cpus: u32, describe: impl FnOnce(ApicBuilder) -> ApicBuilder) -> ApicModel {
    machine(cpus, |apic| {
        describe(apic.handed_over(0, Mode::X2apic).aps(Aps::Waiting))
    })
    .1
}

fn start(model: &ApicModel, cpu: u32) {
    send(model, cpu, INIT);
    send(model, cpu, SIPI | 0x9);
}

#[test]
fn a_start_up_ipi_starts_a_cpu_that_waits() {
    let model = waiting(3, |apic| apic);
    send(&model, 1, INIT);
    assert_eq!(model.started(1), None);
    send(&model, 1, SIPI | 0x9);
    assert_eq!(model.started(1), Some(0x9));
    assert_eq!((model.inits(1), model.sipis(1)), (1, 1));
    send(&model, 1, SIPI | 0xa);
    assert_eq!(model.started(1), Some(0x9), "the second one is ignored");
    assert_eq!(model.started(2), None);
}

#[test]
fn all_are_started_by_one_broadcast_each() {
    let model = waiting(8, |apic| apic.ids([0, 1, 2, 4, 5, 6, 8, 100]));
    send(&model, 0, OTHERS | INIT);
    send(&model, 0, OTHERS | SIPI | 0x10);
    assert!((1..8).all(|cpu| model.started(cpu) == Some(0x10)));
    assert_eq!(model.started(0), None);
    assert_eq!((model.inits(0), model.sipis(0)), (0, 0));
}

#[test]
fn a_started_cpu_runs_what_the_test_has_for_it() {
    let model = waiting(3, |apic| apic);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (notes, handle) = (seen.clone(), model.clone());
    model.when_started(move |cpu, page| {
        on(&handle, cpu, || {
            write(&handle, IA32_APIC_BASE, 0xfee0_0c00);
            write(&handle, IA32_X2APIC_SIVR, 0x1ff);
            let id = read(&handle, IA32_X2APIC_APICID);
            notes.lock().unwrap().push((cpu, page, id));
        });
    });
    start(&model, 2);
    start(&model, 1);
    assert_eq!(*seen.lock().unwrap(), [(2, 9, 2), (1, 9, 1)]);
}

#[test]
fn a_cpu_that_does_not_run_executes_nothing() {
    let (_, parked) = machine(2, |apic| apic.firmware());
    on(&parked, 1, || {
        refused("firmware has parked this CPU", || {
            read(&parked, IA32_APIC_BASE)
        });
    });
    let model = waiting(2, |apic| apic);
    on(&model, 1, || {
        refused("the CPU waits for a start-up IPI", || {
            read(&model, IA32_APIC_BASE)
        });
    });
    start(&model, 1);
    on(&model, 1, || read(&model, IA32_APIC_BASE));
}

#[test]
fn init_keeps_mode_and_id_and_resets_the_rest() {
    let (_, model) = running_with(2, |apic| apic.ids([0, 0x123]));
    on(&model, 1, || {
        write(&model, IA32_X2APIC_TPR, 0x80);
        write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
        write(&model, IA32_X2APIC_INIT_COUNT, 100);
        write(&model, IA32_X2APIC_SELF_IPI, 0x41);
    });
    send(&model, 0x123, INIT);
    send(&model, 0x123, SIPI | 1);
    assert_eq!(model.mode(1), Mode::X2apic);
    on(&model, 1, || {
        assert_eq!(read(&model, IA32_X2APIC_APICID), 0x123);
        assert_eq!(read(&model, IA32_X2APIC_SIVR), 0xff);
        assert_eq!(read(&model, IA32_X2APIC_TPR), 0);
        assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), MASKED);
        assert_eq!(read(&model, IA32_X2APIC_CUR_COUNT), 0);
    });
    assert_eq!(model.irr(1), []);
}

#[test]
fn init_stops_a_running_cpu_again() {
    let model = waiting(2, |apic| apic);
    start(&model, 1);
    send(&model, 1, INIT);
    assert_eq!(model.started(1), None);
    on(&model, 1, || {
        refused("waits for a start-up IPI", || read(&model, IA32_APIC_BASE));
    });
}

#[test]
fn the_boot_cpu_is_never_sent_init() {
    let (_, model) = running_with(2, |apic| apic.boot_cpu(1));
    refused("INIT reaches cpu1, the boot CPU", || send(&model, 1, INIT));
    refused("INIT reaches cpu1, the boot CPU", || {
        send(&model, u32::MAX, INIT)
    });
}

#[test]
fn init_deassert_does_nothing() {
    let (_, model) = running(2);
    send(&model, 1, 0x8500);
    assert_eq!(model.inits(1), 0);
}

#[test]
fn the_start_page_is_in_low_memory() {
    let model = waiting(2, |apic| apic);
    send(&model, 1, INIT);
    for page in [0xa0, 0xc0, 0xff] {
        refused("the start-up page is not in the first 640 KiB", || {
            send(&model, 1, SIPI | page)
        });
    }
    send(&model, 1, SIPI | 0x9f);
    assert_eq!(model.started(1), Some(0x9f));
}

#[test]
fn a_cpu_may_never_start_or_need_the_second_start_up_ipi() {
    let model = waiting(3, |apic| apic.never_starts(1).second_sipi(2));
    for _ in 0..2 {
        start(&model, 1);
        start(&model, 2);
    }
    assert_eq!((model.started(1), model.started(2)), (None, None));
    assert_eq!((model.inits(1), model.inits(2)), (2, 2));
    send(&model, 1, SIPI | 9);
    send(&model, 2, SIPI | 9);
    assert_eq!((model.started(1), model.started(2)), (None, Some(9)));
}

#[test]
fn an_old_cpu_takes_its_time_after_init() {
    let model = waiting(2, |apic| apic.init_ticks(10_000));
    start(&model, 1);
    assert_eq!(model.started(1), None);
    while model.sim().peek_clock().0 < 20_000 {
        model.sim().relax();
    }
    send(&model, 1, SIPI | 9);
    assert_eq!(model.started(1), Some(9));
}

#[test]
fn the_trampoline_is_published_before_the_start_up_ipi() {
    let rule = "payload not published: no mfence; lfence before the start-up IPI";
    let model = waiting(3, |apic| apic);
    let icr = |destination: u64, command| {
        write(&model, IA32_X2APIC_ICR, destination << 32 | command);
    };
    icr(1, INIT);
    refused(rule, || icr(1, SIPI | 9));
    model.msrs().publish();
    icr(1, INIT);
    icr(2, INIT);
    icr(1, SIPI | 9);
    icr(2, SIPI | 9);
    icr(1, SIPI | 9);
    icr(1, INIT);
    refused(rule, || icr(1, SIPI | 9));
}

#[test]
fn a_cpu_that_waits_takes_neither_fixed_ipis_nor_nmis() {
    let model = waiting(2, |apic| apic);
    send(&model, 1, FIXED | 0x40);
    send(&model, 1, NMI);
    let stray = |vector| Stray::Refused {
        cpu: 1,
        vector,
        why: Refusal::Waiting,
    };
    assert_eq!(model.strays(), [stray(0x40), stray(0)]);
    assert_eq!(model.nmis(1), 0);
}

#[test]
fn a_cpu_that_firmware_parked_must_not_be_interrupted() {
    let (_, model) = machine(3, |apic| {
        apic.firmware()
            .handed_over(0, Mode::X2apic)
            .left(1, IA32_X2APIC_SIVR, 0x1ff)
    });
    refused("cpu1 takes the NMI, which firmware parked", || {
        send(&model, 0, OTHERS | NMI)
    });
    refused("cpu1 takes the IPI, which firmware parked", || {
        send(&model, 0, OTHERS | FIXED | 0x40)
    });
    send(&model, 2, FIXED | 0x40);
    start(&model, 1);
    assert_eq!(model.started(1), Some(9));
}

#[test]
fn stale_bits_come_back_with_init() {
    let model = waiting(2, |apic| apic.stale_irr(1, &[55]).stale_isr(1, &[0x31]));
    assert_eq!((model.irr(1), model.isr(1)), (vec![55], vec![0x31]));
    start(&model, 1);
    assert_eq!((model.irr(1), model.isr(1)), (vec![55], vec![0x31]));
}
