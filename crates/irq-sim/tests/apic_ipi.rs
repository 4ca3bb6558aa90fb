// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interprocessor interrupts: what a command may say, whom it reaches, what precedes it.

mod apic_kit;
mod kit;

use apic_kit::*;
use irq_hal::{Barrier, CpuIndex};
use irq_sim::Unit;
use irq_sim::apic::msr::*;
use irq_sim::apic::{Mode, Refusal, Stray, Vendor};
use kit::refused;

const ALL: u64 = 2 << 18;
const OTHERS: u64 = 3 << 18;
const SELF: u64 = 1 << 18;

#[test]
fn a_physical_destination_is_one_apic_id() {
    let (_, model) = running_with(4, |apic| apic.ids([0, 5, 255, 0x1_0000]));
    send(&model, 5, FIXED | 0x40);
    assert_eq!(who(&model, 0x40), [1]);
    send(&model, 0xff, FIXED | 0x41);
    assert_eq!(who(&model, 0x41), [2], "FFH is no broadcast");
    send(&model, 0x1_0000, FIXED | 0x42);
    assert_eq!(who(&model, 0x42), [3]);
    send(&model, u32::MAX, FIXED | 0x43);
    assert_eq!(who(&model, 0x43), [0, 1, 2, 3]);
}

#[test]
fn a_logical_destination_is_a_cluster_and_a_set_in_it() {
    let (sim, model) = running_with(20, |apic| apic.ids((0..19).chain([0xf_fff1])));
    let mark = sim.log().mark();
    send(&model, 0x8006, LOGICAL | FIXED | 0x40);
    assert_eq!(who(&model, 0x40), [1, 2, 15]);
    send(&model, 1 << 16 | 5, LOGICAL | FIXED | 0x41);
    assert_eq!(who(&model, 0x41), [16, 18]);
    send(&model, 0xffff << 16 | 2, LOGICAL | FIXED | 0x42);
    assert_eq!(who(&model, 0x42), [19]);
    send(&model, u32::MAX, LOGICAL | FIXED | 0x43);
    assert_eq!(who(&model, 0x43).len(), 20);
    let unit = Unit::Apic(CpuIndex::new(0));
    assert_eq!(sim.log().since(mark).stores(unit), 4);
}

#[test]
fn an_id_above_a_million_has_no_logical_destination() {
    let (_, model) = running_with(2, |apic| apic.ids([0, 1 << 20 | 3]));
    on(&model, 1, || assert_eq!(read(&model, IA32_X2APIC_LDR), 8));
    send(&model, 8, LOGICAL | FIXED | 0x40);
    assert_eq!(who(&model, 0x40), []);
}

#[test]
fn shorthands_name_self_all_and_others() {
    let (_, model) = running(3);
    on(&model, 1, || {
        send(&model, 0, SELF | FIXED | 0x40);
        send(&model, 0, ALL | FIXED | 0x41);
        send(&model, 0, OTHERS | FIXED | 0x42);
    });
    assert_eq!(who(&model, 0x40), [1]);
    assert_eq!(who(&model, 0x41), [0, 1, 2]);
    assert_eq!(who(&model, 0x42), [0, 2]);
}

#[test]
fn a_self_ipi_is_an_edge_of_this_cpu() {
    let (_, model) = running(2);
    on(&model, 1, || write(&model, IA32_X2APIC_SELF_IPI, 0x40));
    assert_eq!(who(&model, 0x40), [1]);
    assert_eq!(model.tmr(1), []);
    assert_eq!(take(&model, 1), Some(0x40));
}

#[test]
fn an_ipi_to_nobody_is_a_stray() {
    let (_, model) = running(2);
    send(&model, 7, FIXED | 0x40);
    send(&model, 3 << 16 | 1, LOGICAL | FIXED | 0x40);
    let nobody = |destination, logical| Stray::NoCpu {
        destination,
        logical,
    };
    assert_eq!(
        model.strays(),
        [nobody(7, false), nobody(3 << 16 | 1, true)]
    );
}

#[test]
fn an_apic_that_is_off_does_not_accept_an_ipi() {
    let (_, model) = running(3);
    on(&model, 1, || write(&model, IA32_X2APIC_SIVR, 0xff));
    on(&model, 2, || write(&model, IA32_APIC_BASE, 0xfee0_0000));
    send(&model, 0, OTHERS | FIXED | 0x40);
    let refused = |cpu, why| Stray::Refused {
        cpu,
        vector: 0x40,
        why,
    };
    assert_eq!(
        model.strays(),
        [
            refused(1, Refusal::SoftDisabled),
            refused(2, Refusal::Disabled)
        ]
    );
    on(&model, 1, || {
        write(&model, IA32_X2APIC_SELF_IPI, 0x40);
        write(&model, IA32_X2APIC_SIVR, 0x1ff);
    });
    assert_eq!(model.irr(1), [], "what was refused does not come later");
}

#[test]
fn an_apic_that_is_off_still_sends_and_takes_nmis() {
    let (_, model) = running(2);
    on(&model, 1, || {
        write(&model, IA32_X2APIC_SIVR, 0xff);
        send(&model, 0, FIXED | 0x40);
    });
    assert_eq!(who(&model, 0x40), [0]);
    send(&model, 1, NMI);
    assert_eq!(model.nmis(1), 1);
}

#[test]
fn illegal_vectors_are_errors_at_both_ends_and_never_delivered() {
    let (_, model) = running(2);
    send(&model, 1, FIXED | 15);
    assert_eq!(errors(&model), 1 << 5);
    on(&model, 1, || assert_eq!(errors(&model), 1 << 6));
    assert_eq!(model.irr(1), []);
    write(&model, IA32_X2APIC_SELF_IPI, 3);
    assert_eq!(errors(&model), 1 << 5 | 1 << 6);
    assert_eq!(model.pending(0), None);
}

#[test]
fn an_nmi_ignores_masks_and_priorities_and_one_more_is_kept() {
    let (sim, model) = running(2);
    on(&model, 1, || write(&model, IA32_X2APIC_TPR, 0xff));
    sim.set_masked(1, true);
    send(&model, 1, NMI);
    let nested = model.take_nmi(1, |_| {
        send_from(&model, 0, 1);
        send_from(&model, 0, 1);
        assert!(!model.take_nmi(1, |_| ()), "not inside of one");
    });
    assert!(nested);
    assert!(model.take_nmi(1, |_| ()), "the one that was kept");
    assert!(!model.take_nmi(1, |_| ()));
    assert_eq!((model.nmis(1), model.isr(1)), (3, vec![]));
}

fn send_from(model: &irq_sim::apic::ApicModel, from: u32, to: u32) {
    on(model, from, || send(model, to, NMI));
}

#[test]
fn the_command_is_judged() {
    let (_, model) = running(2);
    let sends = |rule: &str, command: u64| refused(rule, || send(&model, 1, command));
    sends("delivery mode 011 is reserved", FIXED | 3 << 8 | 0x40);
    sends("delivery mode 111 is reserved", FIXED | 7 << 8 | 0x40);
    sends("level must be 1 (assert)", 0x40);
    sends("level must be 1 (assert)", NMI & !FIXED);
    sends("level must be 1 (assert)", INIT & !FIXED);
    sends(
        "trigger mode level is for INIT only",
        FIXED | 1 << 15 | 0x40,
    );
    sends("the vector of INIT and SMI must be 0", INIT | 0x40);
    sends("takes fixed mode only", ALL | NMI);
    sends("takes fixed mode only", SELF | NMI);
    sends("takes fixed mode only", ALL | INIT);
    sends("system management belongs to firmware", FIXED | 2 << 8);
    sends("#GP: reserved bits", FIXED | 1 << 13 | 0x40);
}

#[test]
fn the_status_bit_of_the_command_is_ignored_by_intel_and_faults_on_amd() {
    let (_, intel) = running(2);
    send(&intel, 1, FIXED | 1 << 12 | 0x40);
    assert_eq!(who(&intel, 0x40), [1]);
    assert_eq!(read(&intel, IA32_X2APIC_ICR), 1 << 32 | FIXED | 0x40);
    let (_, amd) = running_with(2, |apic| apic.vendor(Vendor::Amd));
    refused("#GP: reserved bits 0x1000", || {
        send(&amd, 1, FIXED | 1 << 12 | 0x40)
    });
}

#[test]
fn a_lowest_priority_ipi_is_refused_or_goes_to_whom_hardware_likes() {
    let (_, model) = running(3);
    send(&model, 7, LOGICAL | FIXED | 1 << 8 | 0x40);
    assert_eq!(errors(&model), 1 << 4);
    assert_eq!(who(&model, 0x40), []);
    let (_, able) = running_with(3, |apic| apic.lowest_priority(true));
    send(&able, 7, LOGICAL | FIXED | 1 << 8 | 0x40);
    assert_eq!(who(&able, 0x40), [2]);
}

#[test]
fn the_payload_is_published_before_an_ipi_to_another_cpu() {
    let (_, model) = running(20);
    let msrs = model.msrs();
    let icr = |destination: u64, command| {
        write(&model, IA32_X2APIC_ICR, destination << 32 | command);
    };
    let rule = "payload not published";
    refused(rule, || icr(1, FIXED | 0x40));
    msrs.complete();
    refused(rule, || icr(1, FIXED | 0x40));
    for shorthand in [ALL, OTHERS] {
        refused(rule, || icr(0, shorthand | FIXED | 0x40));
    }
    refused(rule, || icr(3, LOGICAL | FIXED | 0x40));
    refused(rule, || icr(1, NMI));
    refused(rule, || icr(99, FIXED | 0x40));
    on(&model, 1, || msrs.publish());
    refused(rule, || icr(1, FIXED | 0x40));
}

#[test]
fn one_publish_covers_one_command_to_several_destinations() {
    let (_, model) = running(40);
    let msrs = model.msrs();
    let icr = |destination: u64, command| {
        write(&model, IA32_X2APIC_ICR, destination << 32 | command);
    };
    let rule = "payload not published";
    msrs.publish();
    icr(2, LOGICAL | FIXED | 0x40);
    icr(1 << 16 | 2, LOGICAL | FIXED | 0x40);
    icr(2, FIXED | 0x40);
    refused(rule, || icr(1 << 16 | 2, LOGICAL | FIXED | 0x40));
    refused(rule, || icr(2 << 16 | 2, LOGICAL | FIXED | 0x41));
    read(&model, IA32_X2APIC_TPR);
    refused(rule, || icr(2 << 16 | 2, LOGICAL | FIXED | 0x40));
    assert_eq!(who(&model, 0x40), [1, 2, 17]);
}

#[test]
fn an_interrupt_between_publish_and_send_changes_nothing() {
    let (_, model) = running(2);
    let icr = || write(&model, IA32_X2APIC_ICR, 1 << 32 | FIXED | 0x40);
    write(&model, IA32_X2APIC_SELF_IPI, 0x50);
    model.msrs().publish();
    model.take(0, |_, _| {
        refused("payload not published", icr);
        eoi(&model);
    });
    icr();
    assert_eq!(who(&model, 0x40), [1]);
}

#[test]
fn oneself_init_and_other_vendors_need_no_publish() {
    let (_, model) = running(2);
    write(&model, IA32_X2APIC_ICR, FIXED | 0x40);
    write(&model, IA32_X2APIC_ICR, 1 << 32 | LOGICAL | FIXED | 0x41);
    write(&model, IA32_X2APIC_ICR, SELF | FIXED | 0x42);
    write(&model, IA32_X2APIC_SELF_IPI, 0x43);
    write(&model, IA32_X2APIC_ICR, 1 << 32 | INIT);
    assert_eq!(model.irr(0), [0x40, 0x41, 0x42, 0x43]);
    for vendor in [Vendor::Amd, Vendor::Hygon] {
        let (_, model) = running_with(2, |apic| apic.vendor(vendor));
        write(&model, IA32_X2APIC_ICR, 1 << 32 | FIXED | 0x40);
        assert_eq!(who(&model, 0x40), [1]);
    }
}

#[test]
fn an_xapic_cpu_takes_ff_as_everybody() {
    let (_, model) = machine(3, |apic| {
        apic.handed_over(0, Mode::X2apic)
            .left(1, IA32_X2APIC_SIVR, 0x1ff)
    });
    send(&model, 0xff, FIXED | 0x40);
    assert_eq!(who(&model, 0x40), [1]);
    send(&model, 1, FIXED | 0x41);
    assert_eq!(who(&model, 0x41), [1]);
    let disabled = Stray::Refused {
        cpu: 2,
        vector: 0x40,
        why: Refusal::SoftDisabled,
    };
    assert_eq!(model.strays(), [disabled]);
}
