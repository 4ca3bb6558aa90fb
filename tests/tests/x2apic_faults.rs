// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware that does not do what it is told: an error each, never a hang, and the CPU offline.

use irq_hal::{CpuIndex, Error};
use irq_sim::apic::{ApicBuilder, ApicModel, Mode};
use irq_sim::log::Unit;
use irq_sim::{SimPlatform, apic::msr};
use irq_tests::x2apic::{Machine, id, lapic, probe, probe_as, vector, with_ipi};
use irq_x2apic::local_apic::{SendOrder, Setup};
use irq_x2apic::regs::apic::*;
use irq_x2apic::regs::lvt::{Lvt, LvtEntry};
use irq_x2apic::{Description, LocalApic, Pics, ProbeError};

/// What `online` says on a machine of one CPU that is changed by `change`; it stays offline.
fn online(change: impl FnOnce(ApicBuilder) -> ApicBuilder) -> Error {
    let machine = Machine::cold(1, change, with_ipi());
    let error = machine.online(0).expect_err("it came online");
    let cpu = CpuIndex::new(0);
    assert_eq!(machine.apic.id(cpu), Err(Error::CpuOffline { cpu }));
    // It can be tried again, and says the same.
    assert_eq!(machine.online(0), Err(error));
    error
}

#[test]
fn a_mode_that_cannot_be_is_refused_by_the_probe_untouched() {
    let sim = SimPlatform::new(1);
    for base in [0xfee0_0400, !(1 << 11)] {
        let builder = ApicModel::builder(&sim).shows(0, IA32_APIC_BASE, base);
        let model = builder.build();
        let error = probe(&model, with_ipi()).err();
        assert_eq!(error, Some(ProbeError::Mode { base }));
    }
    assert_eq!(sim.log().all().stores(lapic(0)), 0);
}

#[test]
fn a_mode_that_cannot_be_gives_the_block_back_as_it_was() {
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim)
        .shows(0, IA32_APIC_BASE, 0xfee0_0500)
        .build();
    let found = LocalApic::new(model.msrs(), SendOrder::Plain);
    assert_eq!(found.mode(), None);
    let (found, error) = found.enter().expect_err("it came into x2APIC mode");
    assert_eq!(
        error,
        Error::Refused {
            register: "IA32_APIC_BASE",
            value: 0xfee0_0500
        }
    );
    assert_eq!(found.mode(), None);
    assert_eq!(sim.log().all().stores(lapic(0)), 0);
}

#[test]
fn a_mode_that_does_not_stick_is_an_error_with_what_is_read() {
    for (mode, base) in [(Mode::Xapic, 0xfee0_0900), (Mode::Disabled, 0xfee0_0100)] {
        let error = online(|builder| builder.mode(mode).ignores(0, IA32_APIC_BASE));
        let refused = Error::Refused {
            register: "IA32_APIC_BASE",
            value: base,
        };
        assert_eq!(error, refused);
    }
}

#[test]
fn the_id_that_means_everybody_is_no_cpus() {
    let all = u64::from(u32::MAX);
    let error = online(|builder| builder.shows(0, IA32_X2APIC_APICID, all));
    assert_eq!(
        error,
        Error::Refused {
            register: "IA32_X2APIC_APICID",
            value: all
        }
    );
}

#[test]
fn a_local_apic_that_cannot_be_enabled_is_an_error_and_stays_masked() {
    let change = |builder: ApicBuilder| builder.ignores(0, msr::IA32_X2APIC_SIVR);
    let machine = Machine::cold(1, change, with_ipi());
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    let refused = Error::Refused {
        register: "IA32_X2APIC_SIVR",
        value: 0xff,
    };
    assert_eq!(machine.online(0), Err(refused));
    for lvt in Lvt::ALL {
        let entry = machine.model.register(0, lvt.msr());
        assert_ne!(entry & 1 << 16, 0, "{lvt:?}");
    }
}

#[test]
fn an_interrupt_that_stays_in_service_whatever_is_ended_is_an_error_in_bounded_time() {
    let change = |builder: ApicBuilder| builder.mode(Mode::X2apic).stuck_isr(0, &[0x31, 0x80]);
    let machine = Machine::cold(1, change, with_ipi());
    let trace = machine.trace(|| {
        let refused = Error::Refused {
            register: "IA32_X2APIC_ISR",
            value: 2,
        };
        assert_eq!(machine.online(0), Err(refused));
    });
    let ends = trace.stored(lapic(0), IA32_X2APIC_EOI);
    assert!(ends.len() <= 256, "{} ends", ends.len());
    assert_eq!(machine.sim.relaxes(0), 0);
}

#[test]
fn a_logical_destination_that_is_not_the_ids_is_not_relied_on() {
    // Seen on a hypervisor that derived it from something else than the id.
    let change = |builder: ApicBuilder| {
        builder
            .ids([0, 1, 2, 3])
            .mode(Mode::X2apic)
            .shows(2, msr::IA32_X2APIC_LDR, 0x0001_0001)
    };
    let machine = Machine::with(4, change, with_ipi());
    let trace = machine.trace(|| {
        let all = irq_tests::gicv3::cpu_set(0..4);
        irq_core::Kick::kick_mask(&machine.apic, &all, |_| true).unwrap();
    });
    let sent = trace.stored(lapic(0), IA32_X2APIC_ICR);
    assert_eq!(sent, [0x2_0000_40fd, 0x0000_000b_0000_48fd]);
}

#[test]
fn a_block_alone_reports_what_its_bring_up_found() {
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim)
        .mode(Mode::X2apic)
        .ids([0x1234])
        .max_lvt(5)
        .stale_isr(0, &[0x40])
        .build();
    let msrs = model.msrs();
    let apic = LocalApic::assume_x2(&msrs, SendOrder::Fenced);
    sim.set_masked(0, true);
    let filler = LvtEntry::fixed(vector(0xff)).masked();
    let setup = Setup {
        spurious: vector(0xff),
        entries: [filler; 7],
    };
    let found = apic.bring_up(&setup).unwrap();
    assert_eq!(
        (found.id, found.max_lvt, found.leftovers),
        (id(0x1234), 5, 1)
    );
    assert_eq!(apic.entry(Lvt::Cmci), None);
    assert_eq!(apic.entry(Lvt::Thermal), Some(filler));
    apic.shut_down(vector(0xff));
    assert_eq!(model.register(0, msr::IA32_X2APIC_SIVR), 0xff);
}

#[test]
fn a_local_apic_whose_registers_outlive_a_disable_is_set_up_all_over() {
    let change = |builder: ApicBuilder| {
        builder
            .mode(Mode::Disabled)
            .keeps_registers(true)
            .left(0, msr::IA32_X2APIC_SIVR, 0x10f)
            .left(0, msr::IA32_X2APIC_LVT_LINT1, 0x400)
            .left(0, msr::IA32_X2APIC_LVT_THERMAL, 0x45)
            .left(0, msr::IA32_X2APIC_TPR, 0xff)
    };
    let machine = Machine::with(1, change, with_ipi());
    let register = |number| machine.model.register(0, number);
    assert_eq!(register(msr::IA32_X2APIC_SIVR), 0x1ff);
    assert_eq!(register(msr::IA32_X2APIC_TPR), 0);
    for lvt in [msr::IA32_X2APIC_LVT_LINT1, msr::IA32_X2APIC_LVT_THERMAL] {
        assert_eq!(register(lvt), 0x1_00ff);
    }
}

#[test]
fn too_many_cpus_for_memory_are_an_error_and_not_a_panic() {
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim).build();
    let config = irq_x2apic::Config {
        cpus: Some(u32::MAX),
        ..with_ipi()
    };
    let error = probe_as(&model, Description::new(Pics::absent()), config).err();
    assert!(matches!(
        error,
        Some(ProbeError::Other(
            Error::OutOfMemory { .. } | Error::Invalid { .. }
        ))
    ));
    assert_eq!(sim.log().all().on(Unit::Pic).events(), []);
}
