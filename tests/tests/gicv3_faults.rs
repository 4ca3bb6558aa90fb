// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware that does not answer and firmware that lies: an error each, never a hang.

use irq_core::{Irq, Lines, Trigger};
use irq_gicv3::{Config, Description, Gic, IntId, Mpidr, Priority, ProbeError, RedistributorMap};
use irq_hal::bus::Part;
use irq_hal::wait::WaitFor;
use irq_hal::{CpuIndex, Error};
use irq_sim::gic::{Affinity, Delay, GicBuilder, GicModel, Region, Security};
use irq_sim::{SimPlatform, log::Unit};
use irq_tests::gicv3::{Machine, SimGic, describe, probe};

fn build(cpus: u32, change: impl FnOnce(GicBuilder) -> GicBuilder) -> (SimPlatform, GicModel) {
    let sim = SimPlatform::new(cpus);
    let model = change(GicModel::builder(&sim)).build();
    (sim, model)
}

fn probed(cpus: u32, change: impl FnOnce(GicBuilder) -> GicBuilder) -> Machine {
    let (sim, model) = build(cpus, change);
    let gic = probe(&model, Config::default()).unwrap();
    Machine { sim, model, gic }
}

/// Register and state of a timeout.
fn timeout(error: Option<Error>) -> (&'static str, &'static str) {
    match error {
        Some(Error::Timeout {
            what: WaitFor { register, state },
            ..
        }) => (register, state),
        other => panic!("{other:?}"),
    }
}

fn refused(model: &GicModel) -> Option<Error> {
    match probe(model, Config::default()) {
        Ok(_) => None,
        Err(ProbeError::Hardware(error)) => Some(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_redistributor_that_never_wakes_is_a_timeout_and_leaves_the_cpu_offline() {
    let machine = probed(2, |builder| builder.wake(Delay::Never));
    assert_eq!(
        timeout(machine.online(1).err()),
        ("GICR_WAKER", "ChildrenAsleep=0")
    );
    let cpu = CpuIndex::new(1);
    assert_eq!(machine.gic.sgi_target(cpu), Err(Error::CpuOffline { cpu }));
    // It can be tried again, and says the same.
    assert_eq!(
        timeout(machine.online(1).err()),
        ("GICR_WAKER", "ChildrenAsleep=0")
    );
}

#[test]
fn a_redistributor_that_never_powers_up_is_a_timeout() {
    let machine = probed(1, |builder| {
        builder.gic600().power(Delay::Polls(0), Delay::Never)
    });
    assert_eq!(timeout(machine.online(0).err()).0, "GICR_PWRR");
    let machine = probed(1, |builder| {
        builder.gic600().power(Delay::Never, Delay::Polls(0))
    });
    assert_eq!(timeout(machine.online(0).err()).0, "GICR_PWRR");
}

#[test]
fn a_missing_redistributor_is_an_error_with_the_affinity() {
    let [a, b] = [Affinity::new(0, 0, 0, 0), Affinity::new(2, 0, 0, 1)];
    let machine = probed(2, |builder| {
        builder.affinities([a, b]).regions([Region::new().rd(a)])
    });
    machine.online(0).unwrap();
    let error = Error::NoUnitForCpu {
        block: "GICR",
        id: 0x2_0000_0001,
    };
    assert_eq!(machine.online(1), Err(error));
    let mpidr = Mpidr::new(machine.model.mpidr(1));
    assert_eq!(machine.gic.set_route(machine.irq(40), mpidr), Err(error));
}

#[test]
fn a_tree_that_names_an_absent_cpu_does_not_keep_the_others_from_working() {
    let (sim, model) = build(1, |builder| builder);
    let cpus = [Mpidr::new(0x77), Mpidr::new(model.mpidr(0))];
    let gic: SimGic = Gic::probe(
        sim.clone(),
        describe(&model, &cpus),
        model.sysregs(),
        Config::default(),
    )
    .unwrap();
    let machine = Machine { sim, model, gic };
    machine.online(0).unwrap();
    // Shared interrupts go to a CPU that exists.
    assert_eq!(machine.model.source(32).route, 0);
    let error = machine.sim.as_cpu(0, |_| {
        // SAFETY: the test's only thread stands for a second CPU that is not there.
        let on = unsafe { irq_hal::percpu::OnCpu::new(CpuIndex::new(1)) };
        machine.gic.cpu_online(&on, cpus[0])
    });
    assert_eq!(
        error,
        Err(Error::NoUnitForCpu {
            block: "GICR",
            id: 0x77
        })
    );
}

#[test]
fn a_distributor_that_stays_busy_is_a_timeout_at_probe() {
    let (_, model) = build(1, |builder| builder.gicd_rwp(Delay::Never).left_over(true));
    assert_eq!(timeout(refused(&model)), ("GICD_CTLR", "RWP=0"));
}

#[test]
fn a_redistributor_that_stays_busy_is_a_timeout_at_online() {
    let machine = probed(1, |builder| builder.gicr_rwp(Delay::Never));
    assert_eq!(timeout(machine.online(0).err()), ("GICR_CTLR", "RWP=0"));
    let cpu = CpuIndex::new(0);
    assert_eq!(machine.gic.sgi_target(cpu), Err(Error::CpuOffline { cpu }));
    assert_eq!(
        machine.gic.unmask(machine.irq(27)),
        Err(Error::CpuOffline { cpu })
    );
}

#[test]
fn an_interface_that_refuses_system_registers_is_refused_at_probe_before_any_write() {
    let (sim, model) = build(1, |builder| builder.sre_sticks(false));
    assert_eq!(
        refused(&model),
        Some(Error::Refused {
            register: "ICC_SRE_EL1",
            value: 6
        })
    );
    let seen = sim.log().all();
    assert_eq!(
        (seen.stores(Unit::Gicd), seen.stores(Unit::Gicr(0))),
        (0, 0),
        "{seen}"
    );
}

#[test]
fn a_priority_mask_that_the_secure_side_holds_down_is_refused() {
    use irq_gicv3::cpu_interface::{CpuInterface, CpuSetup, EoiMode};
    use irq_gicv3::regs::icc::{ICC_IGRPEN1_EL1, ICC_PMR_EL1};

    // With SCR_EL3.FIQ=1 and a secure mask below 0x80, PMR reads zero and ignores writes.
    struct Held(std::cell::Cell<bool>);
    impl irq_hal::Bus<u64> for Held {
        fn load(&self, offset: usize) -> u64 {
            if offset == ICC_PMR_EL1 { 0 } else { 0x407 }
        }
        fn store(&self, offset: usize, value: u64) {
            if offset == ICC_IGRPEN1_EL1 {
                self.0.set(value != 0);
            }
        }
    }
    impl irq_hal::Barrier for Held {
        fn publish(&self) {}
        fn complete(&self) {}
        fn synchronize(&self) {}
    }
    let held = Held(std::cell::Cell::new(true));
    let setup = CpuSetup {
        priority_mask: Priority::UNMASKED,
        eoi_mode: EoiMode::Split,
    };
    let refused = CpuInterface::new(&held)
        .enable(&setup)
        .map_err(|(_, error)| error);
    let error = Error::Refused {
        register: "ICC_PMR_EL1",
        value: 0,
    };
    assert_eq!(refused.err(), Some(error));
    assert!(!held.0.get(), "the group is off");
}

#[test]
fn affinity_routing_that_does_not_stick_is_refused() {
    // A distributor that keeps only the group enables of what is written to GICD_CTLR.
    struct NoAre(irq_sim::gic::GicBus);
    macro_rules! pass {
        ($($t:ty),*) => { $(
            impl irq_hal::Bus<$t> for NoAre {
                fn load(&self, offset: usize) -> $t {
                    let value: $t = self.0.load(offset);
                    if offset == 0 { 0 } else { value }
                }
                fn store(&self, offset: usize, value: $t) {
                    if offset != 0 {
                        self.0.store(offset, value);
                    }
                }
            }
        )* };
    }
    pass!(u8, u32, u64);
    impl irq_hal::Barrier for NoAre {
        fn publish(&self) {}
        fn complete(&self) {}
        fn synchronize(&self) {}
    }
    impl irq_hal::bus::Extent for NoAre {
        fn extent(&self) -> usize {
            self.0.extent()
        }
    }
    let (sim, model) = build(1, |builder| builder);
    let description = Description::new(NoAre(model.gicd()), vec![NoAre(model.gicr(0))]);
    let error = Gic::probe(sim, description, model.sysregs(), Config::default()).err();
    let refused = Error::Refused {
        register: "GICD_CTLR",
        value: 0,
    };
    assert_eq!(error, Some(ProbeError::Hardware(refused)));
}

#[test]
fn a_clock_that_stands_still_does_not_make_a_wait_endless() {
    let machine = probed(1, |builder| builder.wake(Delay::Never));
    machine.sim.stop_clock();
    assert_eq!(timeout(machine.online(0).err()).0, "GICR_WAKER");
}

#[test]
fn slow_hardware_is_waited_for() {
    let slow = Delay::Polls(200);
    let machine = probed(1, |builder| {
        builder
            .gic600()
            .power(slow, slow)
            .wake(slow)
            .gicd_rwp(slow)
            .gicr_rwp(slow)
    });
    machine.online(0).unwrap();
}

#[test]
fn no_regions_and_no_cpus_are_refused_before_anything_is_touched() {
    let (sim, model) = build(1, |builder| builder);
    let description = Description::new(model.gicd(), Vec::new());
    let error = Gic::probe(sim.clone(), description, model.sysregs(), Config::default()).err();
    assert_eq!(error, Some(ProbeError::NoRegions));
    let none = Config {
        cpus: Some(0),
        ..Config::default()
    };
    assert_eq!(probe(&model, none).err(), Some(ProbeError::NoCpus));
    assert_eq!(sim.log().all().accesses(), 0);
}

#[test]
fn windows_too_short_are_refused_before_anything_is_touched() {
    let (sim, model) = build(1, |builder| builder);
    let part = |bus, len| Part::new(bus, 0, len).unwrap();
    let try_with = |gicd: usize, gicr: usize| {
        let description =
            Description::new(part(model.gicd(), gicd), vec![part(model.gicr(0), gicr)]);
        Gic::probe(sim.clone(), description, model.sysregs(), Config::default()).err()
    };
    let short = |block, len, need| Some(ProbeError::WindowTooShort { block, len, need });
    assert_eq!(try_with(0xffff, 0x2_0000), short("GICD", 0xffff, 0x1_0000));
    assert_eq!(
        try_with(0x1_0000, 0x1_0000),
        short("GICR", 0x1_0000, 0x2_0000)
    );
    assert_eq!(try_with(0, 0), short("GICD", 0, 0x1_0000));
    assert_eq!(sim.log().all().accesses(), 0);
    assert_eq!(try_with(0x1_0000, 0x2_0000), None);
}

#[test]
fn impossible_strides_are_refused_before_anything_is_touched() {
    let (sim, model) = build(1, |builder| builder);
    for stride in [0, 0x1_0000, 0x2_0001, 0x3_8000, (1 << 30) + 0x1_0000] {
        let mut description = Description::new(model.gicd(), vec![model.gicr(0)]);
        description.stride = Some(stride);
        let error = Gic::probe(sim.clone(), description, model.sysregs(), Config::default()).err();
        assert_eq!(error, Some(ProbeError::Stride { stride }));
    }
    assert_eq!(sim.log().all().accesses(), 0);
}

#[test]
fn an_older_or_unknown_controller_is_named_by_register_and_value_and_left_alone() {
    for (arch, value) in [(1, 0x1b), (2, 0x2b), (5, 0x5b)] {
        let (sim, model) = build(1, |builder| builder.arch(arch));
        let error = probe(&model, Config::default()).err().unwrap();
        assert_eq!(
            error,
            ProbeError::NotGicv3 {
                register: "GICD_PIDR2",
                value
            }
        );
        let seen = sim.log().all();
        assert_eq!((seen.accesses(), seen.loads(Unit::Gicd)), (1, 1), "{seen}");
    }
}

#[test]
fn a_region_with_no_redistributor_in_it_is_named() {
    let quirks = irq_gicv3::quirks::Quirks::default();
    let error = RedistributorMap::discover(vec![Zeroes], None, &quirks).err();
    let register = "GICR_PIDR2";
    assert_eq!(error, Some(ProbeError::NotGicv3 { register, value: 0 }));
}

/// Device space in which nothing answers.
struct Zeroes;

impl<T: Default> irq_hal::Bus<T> for Zeroes {
    fn load(&self, _: usize) -> T {
        T::default()
    }
    fn store(&self, offset: usize, _: T) {
        panic!("store to {offset:#x}")
    }
}

impl irq_hal::Barrier for Zeroes {
    fn publish(&self) {}
    fn complete(&self) {}
    fn synchronize(&self) {}
}

impl irq_hal::bus::Extent for Zeroes {
    fn extent(&self) -> usize {
        0x10_0000
    }
}

#[test]
fn a_region_longer_than_its_redistributors_is_no_endless_walk() {
    // Every PIDR2 and TYPER is right, and none is the last: the window ends the walk.
    let (_, model) = build(4, |builder| {
        let all = (0..4).map(|cpu| Affinity::new(0, 0, 0, cpu));
        builder.regions([Region::new().rds(all).no_rd_is_last()])
    });
    let quirks = irq_gicv3::quirks::Quirks::default();
    let map = RedistributorMap::discover(vec![model.gicr(0)], None, &quirks).unwrap();
    assert_eq!(map.len(), 4);
}

#[test]
fn numbers_out_of_range_reserved_or_special_are_typed_errors() {
    let machine = Machine::with(1, |builder| builder.spis(64), Config::default());
    let gic = &machine.gic;
    for intid in [1020, 1021, 1022, 1023, 1024, 5120] {
        assert_eq!(
            IntId::new(intid),
            Err(Error::HwirqReserved { hwirq: intid })
        );
    }
    let spi = IntId::spi(64).unwrap();
    let range = Error::HwirqOutOfRange {
        hwirq: 96,
        last: 95,
    };
    assert_eq!(gic.irq(spi), None);
    assert_eq!(gic.distributor().mask(&machine.sim, spi), Err(range));
    assert_eq!(gic.distributor().set_pending(spi), Err(range));
    let espi = IntId::espi(0).unwrap();
    assert!(matches!(
        gic.distributor().mask(&machine.sim, espi),
        Err(Error::HwirqOutOfRange { hwirq: 4096, .. })
    ));
    let eppi = IntId::eppi(0).unwrap();
    let error = Err(Error::HwirqOutOfRange {
        hwirq: 1056,
        last: 95,
    });
    assert_eq!(
        gic.configure_private(eppi, Trigger::Edge, Priority::DEFAULT),
        error
    );
    let ppi = IntId::ppi(0).unwrap();
    let error = Err(Error::Invalid {
        what: "shared INTID",
        value: 16,
    });
    assert_eq!(gic.distributor().mask(&machine.sim, ppi), error);
    let error = Err(Error::Invalid {
        what: "private INTID",
        value: 32,
    });
    assert_eq!(gic.unmask_private(IntId::spi(0).unwrap()), error);
    let irq = Irq::new(96);
    let none = Err(Error::NoSuchIrq { irq: 96 });
    assert_eq!(gic.mask(irq), none);
    assert_eq!(gic.unmask(irq), none);
    assert_eq!(gic.retrigger(irq), none);
    assert_eq!(gic.complete(irq), none);
    assert_eq!(gic.set_trigger(irq, Trigger::Edge), none);
    assert_eq!(gic.state(irq), Err(Error::NoSuchIrq { irq: 96 }));
}

#[test]
fn cpus_beyond_the_possible_ones_are_refused() {
    let machine = Machine::with(1, |builder| builder, Config::default());
    let cpu = CpuIndex::new(1);
    assert_eq!(machine.gic.sgi_target(cpu), Err(Error::NoSuchCpu { cpu }));
    // SAFETY: nothing of this CPU is touched: the call refuses the index.
    let on = unsafe { irq_hal::percpu::OnCpu::new(cpu) };
    let seen = machine.trace(|| {
        let error = machine.gic.cpu_online(&on, Mpidr::new(0));
        assert_eq!(error, Err(Error::NoSuchCpu { cpu }));
    });
    assert_eq!(seen.accesses(), 0);
    let cpu = CpuIndex::new(0);
    assert_eq!(machine.online(0), Err(Error::CpuIsOnline { cpu }));
}

#[test]
fn a_redistributor_that_never_sleeps_is_a_timeout_and_the_cpu_is_offline() {
    let machine = probed(1, |builder| builder.awake(true).wake(Delay::Never));
    machine.online(0).unwrap();
    assert_eq!(
        timeout(machine.offline(0).err()),
        ("GICR_WAKER", "ChildrenAsleep=1")
    );
    let cpu = CpuIndex::new(0);
    assert_eq!(machine.offline(0), Err(Error::CpuOffline { cpu }));
}

#[test]
fn hardware_without_power_management_goes_offline_without_a_wait() {
    let machine = Machine::with(1, |builder| builder.sleep_sticks(false), Config::default());
    let seen = machine.trace(|| machine.offline(0).unwrap());
    let rd = Unit::Gicr(0);
    assert_eq!((seen.loads(rd), seen.stores(rd)), (2, 1), "{seen}");
    let security = Security::Two { fiq: true };
    let machine = Machine::with(1, |builder| builder.security(security), Config::default());
    machine.offline(0).unwrap();
    machine.online(0).unwrap();
}

#[test]
fn a_fixed_trigger_is_an_error_that_names_the_register() {
    let machine = Machine::with(
        1,
        |builder| builder.fixed_ppi_triggers(true),
        Config::default(),
    );
    let error = machine.gic.set_trigger(machine.irq(27), Trigger::Edge);
    assert!(
        matches!(
            error,
            Err(Error::Refused {
                register: "GICR_ICFGR",
                ..
            })
        ),
        "{error:?}"
    );
    // Saying what is so already is no error.
    assert_eq!(
        machine.gic.set_trigger(machine.irq(27), Trigger::Level),
        Ok(())
    );
}
