// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of lines: trigger, route, priority, pending, state, snapshot.

use irq_core::{LineState, Lines, Trigger};
use irq_gicv3::{Config, IntId, Mpidr, Priority};
use irq_hal::{CpuIndex, Error};
use irq_sim::SimPlatform;
use irq_sim::gic::{Affinity, Delay, GicModel};
use irq_sim::log::{Event, Unit};
use irq_tests::gicv3::{Machine, probe};

fn machine(cpus: u32) -> Machine {
    Machine::with(
        cpus,
        |builder| builder.espis(64).eppis(64),
        Config::default(),
    )
}

#[test]
fn a_trigger_changes_for_its_line_alone_and_while_it_is_disabled() {
    let machine = machine(1);
    for intid in [33, 255, 4097] {
        let irq = machine.irq(intid);
        machine.gic.unmask(irq).unwrap();
        machine.gic.set_trigger(irq, Trigger::Edge).unwrap();
        let around = |at: u32| machine.model.source(at);
        assert!(around(intid).edge && around(intid).enabled);
        assert!(!around(intid - 1).edge && !around(intid - 1).enabled);
        machine.gic.set_trigger(irq, Trigger::Level).unwrap();
        assert!(!around(intid).edge && around(intid).enabled);
    }
    for intid in [20, 27, 1056, 1119] {
        let irq = machine.irq(intid);
        machine.gic.unmask(irq).unwrap();
        machine.gic.set_trigger(irq, Trigger::Edge).unwrap();
        let source = machine.model.private_source(0, intid);
        assert!(source.edge && source.enabled, "{intid}");
    }
}

#[test]
fn an_sgi_is_an_edge_and_nothing_else() {
    let machine = machine(1);
    let irq = machine.irq(4);
    let trace = machine.trace(|| machine.gic.set_trigger(irq, Trigger::Edge).unwrap());
    assert_eq!(trace.accesses(), 0);
    let error = machine.gic.set_trigger(irq, Trigger::Level);
    assert!(matches!(error, Err(Error::Unsupported { .. })));
}

#[test]
fn a_route_changes_only_while_the_line_is_disabled_and_confirmed() {
    let machine = Machine::with(
        3,
        |builder| builder.espis(32).gicd_rwp(Delay::Polls(2)),
        Config::default(),
    );
    for intid in [32, 4100] {
        let irq = machine.irq(intid);
        machine.gic.unmask(irq).unwrap();
        let to = Mpidr::new(machine.model.mpidr(2));
        let trace = machine.trace(|| machine.gic.set_route(irq, to).unwrap());
        let order: Vec<_> = trace
            .on(Unit::Gicd)
            .events()
            .iter()
            .map(|event| match event {
                Event::Store(access) if access.width == 8 => "route",
                Event::Store(access) if matches!(access.offset, 0x180..0x200 | 0x1400..0x1600) => {
                    "disable"
                }
                Event::Store(_) => "enable",
                Event::Load(access) if access.offset == 0 => "ctlr",
                _ => "state",
            })
            .collect();
        assert_eq!(
            order,
            [
                "state", "disable", "ctlr", "ctlr", "ctlr", "route", "enable"
            ]
        );
        machine.model.line(intid).assert();
        assert_eq!(
            (0..3)
                .map(|cpu| machine.model.signalled(cpu))
                .collect::<Vec<_>>(),
            [false, false, true]
        );
        machine.model.line(intid).deassert();
        // One that is masked stays masked.
        machine.gic.mask(irq).unwrap();
        machine
            .gic
            .set_route(irq, Mpidr::new(machine.model.mpidr(1)))
            .unwrap();
        assert!(machine.gic.state(irq).unwrap().masked);
    }
}

#[test]
fn one_of_n_routing_goes_where_the_hardware_has_it_and_is_refused_elsewhere() {
    let one = machine(2);
    let irq = one.irq(40);
    one.gic.set_route_any(irq).unwrap();
    assert_eq!(one.model.source(40).route, 1 << 31);
    let refused = Machine::with(2, |builder| builder.no1n(true), Config::default());
    let trace = refused.trace(|| {
        let error = refused.gic.set_route_any(refused.irq(40));
        assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    });
    assert_eq!(trace.accesses(), 0);
}

#[test]
fn a_private_interrupt_has_no_route() {
    let machine = machine(1);
    let error = machine.gic.set_route(machine.irq(27), Mpidr::new(0));
    assert_eq!(
        error,
        Err(Error::Invalid {
            what: "shared INTID",
            value: 27
        })
    );
}

#[test]
fn an_extended_spi_is_not_sent_to_a_cpu_that_takes_none() {
    let machine = Machine::with(
        2,
        |builder| builder.espis(32).cpu_ext_range(1, false),
        Config::default(),
    );
    let to = |cpu| Mpidr::new(machine.model.mpidr(cpu));
    let error = machine.gic.set_route(machine.irq(4096), to(1));
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    machine.gic.set_route(machine.irq(4096), to(0)).unwrap();
    machine.gic.set_route(machine.irq(40), to(1)).unwrap();
}

#[test]
fn an_extended_spi_is_not_unmasked_while_it_goes_to_a_cpu_that_takes_none() {
    let machine = Machine::with(
        2,
        |builder| builder.espis(32).cpu_ext_range(0, false),
        Config::default(),
    );
    let irq = machine.irq(4096);
    // Its first route is the boot CPU.
    let error = machine.gic.unmask(irq);
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    let error = machine.gic.set_route_any(irq);
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    let other = Mpidr::new(machine.model.mpidr(1));
    machine.gic.set_route(irq, other).unwrap();
    machine.gic.unmask(irq).unwrap();
    machine.model.line(4096).assert();
    assert_eq!(machine.take(1), Some(4096));
}

#[test]
fn a_route_with_an_aff3_that_the_distributor_cannot_hold_is_refused() {
    let all = [Affinity::new(0, 0, 0, 0), Affinity::new(1, 0, 0, 0)];
    let sim = SimPlatform::new(2);
    let model = GicModel::builder(&sim).affinities(all).a3v(false).build();
    let gic = probe(&model, Config::default()).unwrap();
    let irq = gic.irq(IntId::spi(8).unwrap()).unwrap();
    let error = gic.set_route(irq, Mpidr::new(model.mpidr(1)));
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    assert_eq!(model.source(40).route, 0);
}

#[test]
fn a_line_whose_change_failed_is_enabled_as_it_was() {
    let machine = machine(1);
    let to = Mpidr::new(machine.model.mpidr(0));
    for intid in [27, 40] {
        let irq = machine.irq(intid);
        machine.gic.unmask(irq).unwrap();
        machine.model.set_gicd_rwp(Delay::Never);
        machine.model.set_gicr_rwp(Delay::Never);
        let failed = |error: Result<(), Error>| {
            assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
            assert!(!machine.gic.state(irq).unwrap().masked, "{intid}");
        };
        failed(machine.gic.set_trigger(irq, Trigger::Edge));
        if intid == 40 {
            failed(machine.gic.set_route(irq, to));
            failed(machine.gic.set_priority(irq, Priority::new(0xb0)));
        }
    }
}

#[test]
fn an_extended_ppi_is_not_enabled_on_a_cpu_that_takes_none() {
    let machine = Machine::with(
        2,
        |builder| builder.eppis(32).cpu_ext_range(1, false),
        Config::default(),
    );
    let irq = machine.irq(1060);
    machine.sim.as_cpu(0, |_| machine.gic.unmask(irq)).unwrap();
    let error = machine.sim.as_cpu(1, |_| machine.gic.unmask(irq));
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
}

#[test]
fn a_retriggered_line_is_pending_until_it_is_taken() {
    let machine = machine(1);
    for intid in [7, 27, 1056, 40, 4100] {
        let irq = machine.irq(intid);
        machine.gic.set_trigger(irq, Trigger::Edge).unwrap();
        let trace = machine.trace(|| machine.gic.retrigger(irq).unwrap());
        assert_eq!((trace.accesses(), trace.mmio()), (1, 1));
        let pending = LineState {
            masked: true,
            pending: true,
            active: false,
        };
        assert_eq!(machine.gic.state(irq), Ok(pending));
        machine.gic.unmask(irq).unwrap();
        let (taken, active) = machine.ack(0).unwrap();
        assert_eq!(taken, irq);
        let in_hand = LineState {
            masked: false,
            pending: false,
            active: true,
        };
        assert_eq!(machine.gic.state(irq), Ok(in_hand));
        machine.end(0, active);
        assert_eq!(machine.gic.state(irq), Ok(LineState::default()));
    }
}

#[test]
fn an_edge_that_comes_while_the_line_is_masked_is_kept() {
    let machine = machine(1);
    let irq = machine.irq(40);
    machine.gic.set_trigger(irq, Trigger::Edge).unwrap();
    machine.gic.unmask(irq).unwrap();
    machine.gic.mask(irq).unwrap();
    machine.model.line(40).pulse();
    assert_eq!(machine.take(0), None);
    machine.gic.unmask(irq).unwrap();
    assert_eq!(machine.take(0), Some(40));
}

#[test]
fn a_private_line_is_masked_on_the_cpu_that_asks() {
    let machine = machine(2);
    machine.gic.unmask_private(IntId::ppi(11).unwrap()).unwrap();
    let irq = machine.irq(27);
    machine.sim.as_cpu(1, |_| machine.gic.mask(irq)).unwrap();
    assert!(machine.model.private_source(0, 27).enabled);
    assert!(!machine.model.private_source(1, 27).enabled);
}

#[test]
fn registers_that_others_write_are_not_remembered() {
    // A guest's emulation shares the distributor: it unmasks behind the driver's back.
    let machine = machine(1);
    let irq = machine.irq(40);
    machine.gic.mask(irq).unwrap();
    machine.gic.distributor().with(&machine.sim, |gicd| {
        irq_hal::Bus::<u32>::store(&gicd.bus, 0x104, 1 << 8);
    });
    assert!(!machine.gic.state(irq).unwrap().masked);
    machine.gic.set_trigger(irq, Trigger::Edge).unwrap();
    assert!(machine.model.source(40).enabled);
}

#[test]
fn priorities_order_lines() {
    let machine = machine(1);
    for (intid, priority) in [(40, 0xb0), (4100, 0xa0), (33, 0xc0)] {
        let irq = machine.irq(intid);
        machine
            .gic
            .set_priority(irq, Priority::new(priority))
            .unwrap();
        machine.gic.unmask(irq).unwrap();
        machine.model.line(intid).assert();
    }
    let (first, active) = machine.ack(0).unwrap();
    assert_eq!(first, machine.irq(4100));
    machine.model.line(4100).deassert();
    machine.end(0, active);
    assert_eq!(machine.ack(0).map(|(irq, _)| irq), Some(machine.irq(40)));
}

#[test]
fn a_snapshot_prints_what_is_not_idle_without_a_lock() {
    let machine = machine(2);
    let irq = machine.irq(40);
    machine.gic.unmask(irq).unwrap();
    machine
        .gic
        .set_route(irq, Mpidr::new(machine.model.mpidr(1)))
        .unwrap();
    machine.model.line(4100).assert();
    machine.ack(1);
    let locks = machine.sim.irq_saves(0);
    let text = machine.gic.snapshot().to_string();
    assert_eq!(machine.sim.irq_saves(0), locks);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "GICv3 CTLR 0x52 TYPER 0x9780107 IIDR 0x43b quirks 0x0",
            "cpu0 affinity 0.0.0.0 spurious 0 special 0 unknown 0",
            "cpu1 affinity 0.0.0.1 spurious 1 special 0 unknown 0",
            "irq40 SPI8 (INTID 40) to 0.0.0.1",
            "irq324 eSPI4 (INTID 4100) masked pending to 0.0.0.0",
        ]
    );
}

#[test]
fn a_snapshot_can_be_printed_under_the_distributors_lock() {
    let machine = machine(1);
    let text = machine
        .gic
        .distributor()
        .with(&machine.sim, |_| machine.gic.snapshot().to_string());
    assert!(text.starts_with("GICv3"));
}

#[test]
fn a_line_of_an_offline_cpu_is_an_error() {
    let machine = machine(1);
    machine.offline(0).unwrap();
    let cpu = CpuIndex::new(0);
    assert_eq!(
        machine.gic.mask(machine.irq(27)),
        Err(Error::CpuOffline { cpu })
    );
}

#[test]
fn a_cleared_pending_state_is_gone_for_an_edge_and_comes_back_with_a_level() {
    let machine = machine(1);
    for number in [40, 4100] {
        let (irq, intid) = (machine.irq(number), IntId::new(number).unwrap());
        let distributor = machine.gic.distributor();
        let pending = || machine.gic.state(irq).unwrap().pending;
        machine.gic.set_trigger(irq, Trigger::Edge).unwrap();
        machine.model.line(number).pulse();
        assert!(pending());
        let trace = machine.trace(|| distributor.clear_pending(intid).unwrap());
        assert_eq!((trace.accesses(), trace.stores(Unit::Gicd)), (1, 1));
        assert!(!pending());
        machine.gic.unmask(irq).unwrap();
        assert_eq!(machine.take(0), None);

        // A device that holds its line up is pending all the same.
        machine.gic.mask(irq).unwrap();
        machine.gic.set_trigger(irq, Trigger::Level).unwrap();
        machine.model.line(number).assert();
        distributor.clear_pending(intid).unwrap();
        assert!(pending());
        machine.model.line(number).deassert();
        assert!(!pending());
    }
    let timer = IntId::ppi(11).unwrap();
    assert!(machine.gic.distributor().clear_pending(timer).is_err());
}
