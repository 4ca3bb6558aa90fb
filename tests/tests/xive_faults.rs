// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware that does not answer, and firmware that describes what cannot be.

use irq_core::{Flow, Kick, Lines, Trigger};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::xive::{Gen, SourceSpec, call};
use irq_tests::xive::{GENERATIONS, Machine, hardware, probe};
use irq_xive::{Config, ProbeError, SourceNumber};

const DEAD: Error = Error::Refused {
    register: "ESB",
    value: u64::MAX,
};

#[test]
fn a_source_that_reads_all_ones_is_idle_and_nothing_loops_on_it() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let [dead, alive] = [machine.device(0), machine.device(0)];
        let number = machine.number(dead);
        machine.fire(dead);
        machine.fire(alive);
        let (_, active) = machine.ack(0).unwrap();
        machine.model.fail_esb(number, true);
        let trace = machine.trace(|| machine.end(0, active));
        assert!(trace.accesses() <= 4, "{trace}");
        assert_eq!(machine.drain(0), [alive]);
        assert_eq!(machine.xive.mask(dead), Err(DEAD));
        let state = machine.xive.state(dead).unwrap();
        assert!(!state.active && !state.pending, "{state:?}");
        assert_eq!(machine.xive.off(dead), Err(DEAD));
        // It can be given back all the same.
        machine.xive.free(dead).unwrap();
    }
}

#[test]
fn an_entry_for_devices_that_carries_the_number_of_ipis_is_passed_and_counted() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let [odd, device] = [machine.device(0), machine.device(0)];
        // As if firmware had routed a source so, behind the driver's back.
        let (number, pir) = (machine.number(odd), machine.model.pir(0));
        let route = [number.into(), pir.into(), 6, 1, 0, 0, 0];
        assert_eq!(machine.model.opal(call::SET_IRQ_CONFIG, route), 0);
        machine.fire(odd);
        machine.fire(device);
        assert_eq!(machine.drain(0), [device]);
        let counts = machine.xive.counts(CpuIndex::new(0)).unwrap();
        assert_eq!(counts.unknown, 1);
    }
}

#[test]
fn a_source_that_answers_again_is_used_again() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        let number = machine.number(irq);
        machine.model.fail_esb(number, true);
        assert_eq!(machine.xive.mask(irq), Err(DEAD));
        machine.model.fail_esb(number, false);
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq], "it was not left half masked");
    }
}

#[test]
fn a_source_that_is_dead_from_the_start_is_refused() {
    let machine = Machine::with(Gen::One, 1, 1, |b| b.msi(0), Config::default());
    let number = machine.model.msis()[0];
    machine.model.fail_esb(number, true);
    let adopted = machine.xive.adopt(SourceNumber::new(number), Trigger::Edge);
    assert_eq!(adopted, Err(DEAD));
    assert_eq!(machine.xive.load(CpuIndex::new(0)), Ok((0, 0)));
    machine.model.fail_esb(number, false);
    let adopted = machine.xive.adopt(SourceNumber::new(number), Trigger::Edge);
    assert!(adopted.is_ok());
}

#[test]
fn a_reserved_source_that_is_dead_is_counted_and_the_cpu_opens_all_the_same() {
    let machine = Machine::new(Gen::Two, 1);
    let again = machine.model.allocated(0)[1];
    let irqs = [machine.device(0), machine.device(0)];
    irqs.iter().for_each(|&irq| machine.fire(irq));
    machine.model.fail_esb(again, true);
    assert_eq!(machine.take(0), Some(irqs[0]));
    assert_eq!(machine.model.cppr(0), 0xff);
    assert_eq!(machine.xive.counts(CpuIndex::new(0)).unwrap().dead, 1);
    machine.model.fail_esb(again, false);
    // The next event brings what was left behind.
    machine.fire(irqs[0]);
    assert_eq!(machine.drain(0), [irqs[1], irqs[0]]);
}

#[test]
fn a_cpu_whose_source_of_ipis_is_dead_does_not_come_online() {
    for generation in GENERATIONS {
        let machine = Machine::cold(generation, 2, 1, |builder| builder, Config::default());
        machine.online(1).unwrap();
        let ipi = machine.model.allocated(0)[0];
        machine.model.fail_esb(ipi, true);
        assert_eq!(machine.online(0), Err(DEAD));
        assert_eq!(machine.model.cppr(0), 0);
        let cpu = CpuIndex::new(0);
        let kicked = machine
            .sim
            .as_cpu(1, |_| machine.xive.kick(cpu, || panic!("posted")));
        assert_eq!(kicked, Err(Error::CpuOffline { cpu }));
        machine.model.fail_esb(ipi, false);
        machine.online(0).unwrap();
    }
}

#[test]
fn sources_that_need_what_early_power9_needs_are_refused_untouched() {
    for flags in [0x08, 0x10, 0x08 | 0x20] {
        let machine = Machine::with(
            Gen::One,
            1,
            1,
            |b| b.source(SourceSpec::msi(Gen::One, 0).flags(flags)),
            Config::default(),
        );
        let number = machine.model.extra()[0];
        let trace = machine.trace(|| {
            let adopted = machine.xive.adopt(SourceNumber::new(number), Trigger::Edge);
            assert_eq!(adopted.unwrap_err().kind(), ErrorKind::Unsupported);
        });
        let unit = irq_sim::log::Unit::Esb(number);
        assert_eq!(trace.on(unit).accesses(), 0, "{trace}");
    }
}

#[test]
fn the_store_of_old_power9_firmware_is_not_trusted() {
    let machine = Machine::with(
        Gen::One,
        1,
        1,
        |b| b.source(SourceSpec::msi(Gen::One, 0).flags(0x02)),
        Config::default(),
    );
    let number = machine.model.extra()[0];
    let irq = machine
        .xive
        .adopt(SourceNumber::new(number), Trigger::Edge)
        .unwrap();
    machine.xive.unmask(irq).unwrap();
    machine.model.line(number).pulse();
    let trace = machine.trace(|| assert_eq!(machine.drain(0), [irq]));
    let unit = irq_sim::log::Unit::Esb(number);
    assert_eq!(trace.stores(unit), 0, "{trace}");
}

#[test]
fn pages_that_cannot_be_mapped_leave_nothing_of_a_source() {
    let machine = Machine::new(Gen::One, 1);
    let before = machine.model.allocated(0);
    machine.model.fail_map(true);
    assert!(machine.xive.alloc_source(CpuIndex::new(0)).is_err());
    assert_eq!(machine.model.allocated(0), before);
    machine.model.fail_map(false);
    let irq = machine.device(0);
    machine.fire(irq);
    assert_eq!(machine.drain(0), [irq]);
}

#[test]
fn a_machine_whose_ipis_cannot_be_ended_by_the_cpu_is_refused_with_nothing_left() {
    let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
    let blocks = sim.memory().live_blocks();
    model.fail_map(true);
    let error = probe(&model, Config::default()).map(drop).unwrap_err();
    assert!(matches!(error, ProbeError::Hardware(_)));
    assert_eq!(sim.memory().live_blocks(), blocks);
    model.fail_map(false);
}

#[test]
fn an_active_of_another_driver_or_of_a_cpu_that_is_none_ends_nothing() {
    let machine = Machine::new(Gen::One, 2);
    let other = Machine::new(Gen::One, 1);
    let kicked = machine
        .sim
        .as_cpu(0, |_| machine.xive.kick(CpuIndex::new(1), || true));
    kicked.unwrap();
    let (_, active) = machine.ack(1).unwrap();
    let trace = other.trace(|| other.xive.end(active));
    assert_eq!(trace.accesses(), 0, "{trace}");
    machine.end(1, active);
}
