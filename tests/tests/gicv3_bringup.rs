// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bring-up of the GICv3 on machines of many shapes.

use irq_core::{Irq, Lines, Trigger};
use irq_gicv3::cpu_interface::CpuSetup;
use irq_gicv3::gic::Counts;
use irq_gicv3::priority::PriorityView;
use irq_gicv3::{
    Config, CpuInterface, EoiMode, Gic, IntId, Mpidr, Priority, ProbeError, Route, Sgi,
};
use irq_hal::{CpuIndex, Error};
use irq_sim::gic::{Affinity, Are, Delay, Group, Region, Security};
use irq_sim::log::{Event, Unit};
use irq_sim::{SimPlatform, gic::GicModel};
use irq_tests::gicv3::{Machine, describe, mpidrs, probe};

/// A timer and a device interrupt arrive on each CPU.
fn works(machine: &Machine) {
    let timer = IntId::ppi(11).unwrap();
    let low = Priority::DEFAULT;
    machine
        .gic
        .configure_private(timer, Trigger::Level, low)
        .unwrap();
    machine.gic.unmask_private(timer).unwrap();
    machine.gic.unmask_private(IntId::sgi(1).unwrap()).unwrap();
    let spi = machine.irq(40);
    machine.gic.unmask(spi).unwrap();
    for cpu in 0..machine.sim.cpus() {
        let line = machine.model.private_line(cpu, 27);
        line.assert();
        assert!(machine.model.signalled(cpu), "cpu{cpu}");
        let (irq, active) = machine.ack(cpu).unwrap();
        assert_eq!(machine.gic.intid(irq), Ok(timer));
        line.deassert();
        machine.end(cpu, active);

        machine
            .gic
            .set_route(spi, Mpidr::new(machine.model.mpidr(cpu)))
            .unwrap();
        let line = machine.model.line(40);
        line.assert();
        let (irq, active) = machine.ack(cpu).unwrap();
        assert_eq!(irq, spi);
        line.deassert();
        machine.end(cpu, active);

        machine
            .gic
            .send_sgi(Sgi::new(1).unwrap(), CpuIndex::new(cpu))
            .unwrap();
        assert_eq!(machine.take(cpu), Some(1));
        assert_eq!(machine.take(cpu), None);
        assert_eq!(
            machine.gic.counts(CpuIndex::new(cpu)),
            Ok(Counts {
                spurious: 1,
                special: 0,
                unknown: 0
            })
        );
    }
    assert!(machine.model.strays().is_empty());
}

fn plain() -> Config<'static> {
    Config::default()
}

fn split() -> Config<'static> {
    Config {
        eoi_mode: EoiMode::Split,
        ..Config::default()
    }
}

#[test]
fn a_plain_machine_takes_interrupts_in_both_end_modes() {
    works(&Machine::with(3, |builder| builder, plain()));
    works(&Machine::with(3, |builder| builder, split()));
}

#[test]
fn what_earlier_software_left_is_cleared_away() {
    let machine = Machine::with(2, |builder| builder.left_over(true).spis(988), plain());
    for intid in 32..1020 {
        let source = machine.model.source(intid);
        assert!(
            !source.enabled && !source.active && !source.edge,
            "{intid}: {source:?}"
        );
        assert_eq!(
            (source.group, source.priority),
            (Group::One, 0xc0),
            "{intid}"
        );
        assert_eq!(source.route, 0, "{intid}");
    }
    for (cpu, intid) in [0, 1]
        .into_iter()
        .flat_map(|cpu| (0..32).map(move |id| (cpu, id)))
    {
        let source = machine.model.private_source(cpu, intid);
        assert!(!source.enabled && !source.active, "{intid}: {source:?}");
        assert_eq!(
            (source.group, source.priority),
            (Group::One, 0xc0),
            "{intid}"
        );
    }
}

#[test]
fn affinity_routing_is_set_where_it_is_off_and_kept_where_it_is_on() {
    for are in [Are::Off, Are::On, Are::Fixed] {
        for security in [Security::One, Security::Two { fiq: false }] {
            let busy = Delay::Polls(2);
            works(&Machine::with(
                2,
                |builder| {
                    builder
                        .are(are)
                        .security(security)
                        .left_over(true)
                        .gicd_rwp(busy)
                },
                plain(),
            ));
        }
    }
}

#[test]
fn a_non_secure_kernel_works_under_either_routing_of_fiqs() {
    for fiq in [false, true] {
        let machine = Machine::with(
            2,
            |builder| builder.security(Security::Two { fiq }),
            plain(),
        );
        let view = machine.gic.priority_view();
        assert_eq!(view == PriorityView::Same, fiq);
        works(&machine);
        // As the hardware compares them, interrupts are more urgent than the mask, and both
        // lie in the non-secure half.
        let (mask, _) = machine.model.priorities(0);
        let priority = machine.model.source(40).priority;
        assert!(
            0x80 <= priority && priority < mask,
            "{priority:#x} {mask:#x}"
        );
        // What the kernel sees of a running interrupt is what it asked for.
        assert_eq!(machine.model.private_source(1, 27).priority, priority);
    }
}

#[test]
fn the_running_priority_reads_as_it_was_configured_in_every_view() {
    let securities = [
        Security::One,
        Security::Two { fiq: false },
        Security::Two { fiq: true },
    ];
    for security in securities {
        let machine = Machine::with(1, |builder| builder.security(security), plain());
        let irq = machine.irq(40);
        machine.gic.set_priority(irq, Priority::new(0xa0)).unwrap();
        machine.gic.unmask(irq).unwrap();
        machine.model.line(40).assert();
        let _ = machine.ack(0).unwrap();
        let rpr = machine.sim.as_cpu(0, |_| {
            irq_hal::Bus::<u64>::load(&machine.model.sysregs(), irq_gicv3::regs::icc::ICC_RPR_EL1)
        });
        assert_eq!(rpr, 0xa0, "{security:?}");
    }
}

#[test]
fn looking_at_the_priority_view_leaves_the_mask_as_it_was() {
    for security in [Security::One, Security::Two { fiq: true }] {
        let sim = SimPlatform::new(1);
        let model = GicModel::builder(&sim).security(security).build();
        sim.as_cpu(0, |_| {
            let before = model.priorities(0).0;
            let features = CpuInterface::new(model.sysregs()).probe().unwrap();
            assert_eq!(model.priorities(0).0, before);
            assert_eq!(features.group0, security == Security::One);
        });
    }
}

#[test]
fn a_priority_of_the_secure_side_is_refused_where_the_view_shows_it() {
    let security = Security::Two { fiq: false };
    let machine = Machine::with(1, |builder| builder.security(security), plain());
    let error = Error::Invalid {
        what: "priority",
        value: 0x40,
    };
    assert_eq!(
        machine
            .gic
            .set_priority(machine.irq(40), Priority::new(0x40)),
        Err(error)
    );
    let config = Config {
        priority: Priority::new(0x40),
        ..plain()
    };
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).security(security).build();
    assert_eq!(
        probe(&model, config).err(),
        Some(ProbeError::Priority { priority: 0x40 })
    );
    assert_untouched(&model);
    // The distributor alone refuses it too.
    let quirks = irq_gicv3::quirks::Quirks::default();
    let mut distributor = irq_gicv3::Distributor::new(model.gicd(), &quirks).unwrap();
    let setup = irq_gicv3::distributor::Setup {
        priority: Priority::new(0x40),
        group0: true,
        route: Mpidr::new(0).route(),
    };
    assert_eq!(distributor.init(&sim, &setup), Err(error));
    assert_untouched(&model);
}

/// Nothing was written to distributor and redistributors.
fn assert_untouched(model: &GicModel) {
    let stores = model.sim().log().all().filter(|event| match event {
        Event::Store(access) => matches!(access.unit, Unit::Gicd | Unit::Gicr(_)),
        _ => false,
    });
    assert_eq!(stores.events().len(), 0, "{stores}");
}

#[test]
fn a_first_route_to_no_cpu_is_refused_before_anything_is_written() {
    let route = |mpidr| Config {
        route: Some(Mpidr::new(mpidr)),
        ..plain()
    };
    let sim = SimPlatform::new(2);
    let model = GicModel::builder(&sim).build();
    let missing = Error::NoUnitForCpu {
        block: "GICR",
        id: 0x500,
    };
    assert_eq!(
        probe(&model, route(0x500)).err(),
        Some(ProbeError::Hardware(missing))
    );
    assert_untouched(&model);
    assert!(probe(&model, route(model.mpidr(1))).is_ok());
    assert_eq!(model.source(40).route, model.mpidr(1) & 0xff_00ff_ffff);

    // A redistributor with an Aff3 that the distributor cannot hold.
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim)
        .affinities([Affinity::new(1, 0, 0, 0)])
        .a3v(false)
        .build();
    let error = probe(&model, route(model.mpidr(0))).err();
    assert!(
        matches!(error, Some(ProbeError::Hardware(Error::Unsupported { .. }))),
        "{error:?}"
    );
    assert_untouched(&model);
}

#[test]
fn a_priority_that_the_mask_would_block_is_refused_before_anything_is_touched() {
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).build();
    let config = Config {
        priority: Priority::UNMASKED,
        ..plain()
    };
    assert_eq!(
        probe(&model, config).err(),
        Some(ProbeError::Priority { priority: 0xe0 })
    );
    assert_eq!(sim.log().all().accesses(), 0);
}

#[test]
fn a_mask_that_rounds_down_to_the_priority_is_refused_before_anything_is_written() {
    let ask = |bits, security, mask| {
        let sim = SimPlatform::new(1);
        let model = GicModel::builder(&sim)
            .priority_bits(bits)
            .security(security)
            .build();
        let config = Config {
            priority: Priority::new(0xc0),
            priority_mask: Priority::new(mask),
            ..plain()
        };
        let gic = match probe(&model, config) {
            Ok(gic) => gic,
            Err(error) => {
                assert_eq!(error, ProbeError::Priority { priority: 0xc0 });
                assert_untouched(&model);
                return false;
            }
        };
        let machine = Machine { sim, model, gic };
        machine.online(0).unwrap();
        works(&machine);
        true
    };
    // What is accepted delivers, by one step of what the view shows.
    for (bits, one_state) in [(4, 0x10), (5, 8), (6, 4), (7, 2), (8, 1)] {
        for (security, step) in [
            (Security::One, one_state),
            (Security::Two { fiq: false }, one_state),
            (Security::Two { fiq: true }, one_state * 2),
        ] {
            assert!(ask(bits, security, 0xc0 + step), "{bits} {security:?}");
            assert!(!ask(bits, security, 0xc0 + step - 1), "{bits} {security:?}");
        }
    }
}

#[test]
fn the_priority_mask_is_the_one_that_was_asked_for() {
    for (mask, shown) in [(0xe0, 0xe0), (0xc8, 0xc8), (0xff, 0xf8)] {
        let config = Config {
            priority_mask: Priority::new(mask),
            ..plain()
        };
        let machine = Machine::with(1, |builder| builder.left_over(true), config);
        assert_eq!(machine.model.priorities(0), (shown, None));
    }
}

#[test]
fn a_distributor_alone_refuses_a_route_that_it_has_not_before_anything_is_written() {
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).no1n(true).a3v(false).build();
    let quirks = irq_gicv3::quirks::Quirks::default();
    for route in [Route::ANY, Mpidr::from_affinity(1, 0, 0, 0).route()] {
        let mut distributor = irq_gicv3::Distributor::new(model.gicd(), &quirks).unwrap();
        let setup = irq_gicv3::distributor::Setup {
            priority: Priority::DEFAULT,
            group0: true,
            route,
        };
        let error = distributor.init(&sim, &setup);
        assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    }
    assert_untouched(&model);
}

#[test]
fn priorities_work_with_any_number_of_bits() {
    for bits in 4..=8 {
        works(&Machine::with(
            1,
            |builder| builder.priority_bits(bits).left_over(true),
            plain(),
        ));
        let security = Security::Two { fiq: true };
        works(&Machine::with(
            1,
            |builder| builder.priority_bits(bits).security(security),
            plain(),
        ));
    }
}

fn affinities() -> [Affinity; 5] {
    [
        Affinity::new(0, 0, 0, 1),
        Affinity::new(1, 0, 0, 0),
        Affinity::new(0, 2, 0, 0),
        Affinity::new(1, 2, 3, 4),
        Affinity::new(0, 0, 0, 0),
    ]
}

#[test]
fn redistributors_are_found_by_affinity_over_several_regions_in_any_order() {
    let [a, b, c, d, e] = affinities();
    works(&Machine::with(
        5,
        |builder| {
            builder.affinities([a, b, c, d, e]).regions([
                Region::new().rds([d, a]),
                Region::new().rds([e]),
                Region::new().rds([c, b]),
            ])
        },
        plain(),
    ));
}

#[test]
fn redistributors_with_and_without_virtual_lpis_share_a_region() {
    let [a, b, c, d, e] = affinities();
    works(&Machine::with(
        5,
        |builder| {
            let region = Region::new().vlpi_rd(a).rd(b).vlpi_rd(c).vlpi_rd(d).rd(e);
            builder.affinities([a, b, c, d, e]).regions([region])
        },
        plain(),
    ));
}

#[test]
fn views_of_one_redistributor_each_are_regions_that_end_at_once() {
    let all = affinities();
    works(&Machine::with(
        5,
        |builder| {
            let view = |affinity| Region::new().rd(affinity).every_rd_is_last().tail(0x2_0000);
            builder.affinities(all).regions(all.map(view))
        },
        plain(),
    ));
}

#[test]
fn a_region_without_a_last_redistributor_ends_with_its_window() {
    let all = affinities();
    works(&Machine::with(
        5,
        |builder| {
            builder
                .affinities(all)
                .regions([Region::new().rds(all).no_rd_is_last()])
        },
        plain(),
    ));
}

#[test]
fn the_firmwares_stride_overrides_the_frames() {
    let sim = SimPlatform::new(3);
    let [a, b, c, ..] = affinities();
    let region = Region::new().rd(a).vlpi_rd(b).rd(c).stride(0x8_0000);
    let model = GicModel::builder(&sim)
        .affinities([a, b, c])
        .regions([region])
        .build();
    let cpus = mpidrs(&model);
    let mut description = describe(&model, &cpus);
    description.stride = Some(0x8_0000);
    let gic = Gic::probe(sim.clone(), description, model.sysregs(), plain()).unwrap();
    let machine = Machine { sim, model, gic };
    (0..3).for_each(|cpu| machine.online(cpu).unwrap());
    works(&machine);
}

#[test]
fn redistributors_that_are_powered_off_are_powered_on_first() {
    works(&Machine::with(2, |builder| builder.gic600(), plain()));
    works(&Machine::with(2, |builder| builder.gic600ae(), plain()));
    works(&Machine::with(2, |builder| builder.gic700(), plain()));
    works(&Machine::with(
        2,
        |builder| {
            builder
                .gic600()
                .power(Delay::Polls(7), Delay::Polls(9))
                .wake(Delay::Polls(5))
        },
        plain(),
    ));
}

#[test]
fn a_redistributor_that_is_awake_is_left_alone() {
    let machine = Machine::with(1, |builder| builder.awake(true), plain());
    let waker = machine.sim.log().all().stored(Unit::Gicr(0), 0x14);
    assert!(waker.is_empty());
    works(&machine);
}

#[test]
fn a_cpu_at_el2_gives_system_registers_to_both_levels() {
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).el2(true).awake(true).build();
    sim.as_cpu(0, |_| {
        let interface = CpuInterface::new(model.sysregs());
        interface.enable_el2().unwrap();
        let setup = CpuSetup {
            priority_mask: Priority::UNMASKED,
            eoi_mode: EoiMode::Combined,
        };
        let (on, features) = interface
            .enable(&setup)
            .map_err(|(_, error)| error)
            .unwrap();
        assert_eq!(features.priority_bits, 5);
        assert_eq!(on.peek().1, Priority::new(0xff));
    });
}

#[test]
fn extended_ranges_have_numbers_behind_the_others() {
    let machine = Machine::with(
        2,
        |builder| builder.spis(64).espis(1024).eppis(64),
        Config {
            base: Irq::new(1000),
            ..plain()
        },
    );
    assert_eq!(machine.gic.irqs().count(), 32 + 64 + 64 + 1024);
    for (intid, irq) in [
        (0, 1000),
        (32, 1032),
        (1056, 1096),
        (4096, 1160),
        (5119, 2183),
    ] {
        assert_eq!(machine.irq(intid), Irq::new(irq));
    }
    works(&machine);
}

#[test]
fn blocks_work_alone_with_hardware_numbers() {
    use irq_gicv3::distributor::Setup;
    use irq_gicv3::quirks::Quirks;
    use irq_gicv3::{Distributor, RedistributorMap};

    let sim = SimPlatform::new(2);
    let model = GicModel::builder(&sim).gic600().build();
    let quirks = Quirks::default();
    let cpu = Mpidr::new(model.mpidr(1));
    let mut distributor = Distributor::new(model.gicd(), &quirks).unwrap();
    let setup = Setup {
        priority: Priority::DEFAULT,
        group0: true,
        route: cpu.route(),
    };
    distributor.init(&sim, &setup).unwrap();
    let map = RedistributorMap::discover(vec![model.gicr(0)], None, &quirks).unwrap();
    let spi = IntId::spi(3).unwrap();
    sim.as_cpu(1, |_| {
        let rd = map
            .find(cpu)
            .unwrap()
            .wake(&sim)
            .map_err(|(_, error)| error)
            .unwrap();
        rd.reset(&sim, true, 0xc0).unwrap();
        let setup = CpuSetup {
            priority_mask: Priority::UNMASKED,
            eoi_mode: EoiMode::Split,
        };
        let (interface, _) = CpuInterface::new(model.icc(1))
            .enable(&setup)
            .map_err(|(_, error)| error)
            .unwrap();
        distributor.unmask(&sim, spi).unwrap();
        distributor.set_pending(spi).unwrap();
        let irq_gicv3::cpu_interface::Acknowledge::Interrupt(active) = interface.acknowledge()
        else {
            panic!("nothing")
        };
        assert_eq!(active.intid(), Ok(spi));
        interface.drop_priority(active);
        assert!(model.source(35).active);
        interface.complete(spi).unwrap();
        assert!(!model.source(35).active);
        interface.disable();
        rd.sleep(&sim).map_err(|(_, error)| error).unwrap();
        assert!(!model.awake(1));
    });
}
