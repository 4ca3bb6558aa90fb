// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go, several at once, and what they are given.

use irq_core::{Lines, Trigger};
use irq_gicv3::{Config, Gic, IntId, Mpidr, Priority, Sgi};
use irq_hal::{CpuIndex, Error, Platform};
use irq_sim::SimPlatform;
use irq_sim::gic::sysreg::{ICC_IGRPEN1_EL1, ICC_PMR_EL1};
use irq_sim::gic::{Affinity, Delay, GicBuilder, GicModel, Security};
use irq_sim::log::Unit;
use irq_tests::gicv3::{Machine, describe, icc, mpidrs, probe};

/// A machine whose CPUs are not online yet.
fn cold(cpus: u32) -> Machine {
    cold_with(cpus, |builder| builder.gic600().eppis(64))
}

fn cold_with(cpus: u32, change: impl FnOnce(GicBuilder) -> GicBuilder) -> Machine {
    let sim = SimPlatform::new(cpus);
    let model = change(GicModel::builder(&sim)).build();
    let gic = probe(&model, Config::default()).unwrap();
    Machine { sim, model, gic }
}

#[test]
fn private_interrupts_are_configured_once_for_cpus_present_and_future() {
    let machine = cold(3);
    let (timer, other, sgi) = (
        IntId::ppi(11).unwrap(),
        IntId::eppi(40).unwrap(),
        IntId::sgi(5).unwrap(),
    );
    machine.online(0).unwrap();
    let urgent = Priority::new(0xa0);
    machine
        .gic
        .configure_private(timer, Trigger::Level, urgent)
        .unwrap();
    machine
        .gic
        .configure_private(other, Trigger::Edge, Priority::new(0xb0))
        .unwrap();
    machine
        .gic
        .configure_private(sgi, Trigger::Edge, urgent)
        .unwrap();
    for intid in [timer, other, sgi] {
        machine.gic.unmask_private(intid).unwrap();
    }
    machine.online(2).unwrap();
    machine.online(1).unwrap();
    for cpu in 0..3 {
        let timer = machine.model.private_source(cpu, 27);
        assert!(
            timer.enabled && !timer.edge && timer.priority == 0xa0,
            "cpu{cpu}"
        );
        let other = machine.model.private_source(cpu, 1096);
        assert!(
            other.enabled && other.edge && other.priority == 0xb0,
            "cpu{cpu}"
        );
        let sgi = machine.model.private_source(cpu, 5);
        assert!(sgi.enabled && sgi.priority == 0xa0, "cpu{cpu}");
        let rest = machine.model.private_source(cpu, 28);
        assert!(!rest.enabled && rest.priority == 0xc0, "cpu{cpu}");
    }
    machine.gic.mask_private(timer).unwrap();
    assert!((0..3).all(|cpu| !machine.model.private_source(cpu, 27).enabled));
}

#[test]
fn indices_may_come_in_any_order_and_bind_to_any_cpu() {
    let sim = SimPlatform::new(3);
    let model = GicModel::builder(&sim).build();
    let gic = probe(
        &model,
        Config {
            cpus: Some(8),
            ..Config::default()
        },
    )
    .unwrap();
    let machine = Machine { sim, model, gic };
    for cpu in [2, 0, 1] {
        machine.online(cpu).unwrap();
    }
    let cpu = CpuIndex::new(7);
    assert_eq!(machine.gic.sgi_target(cpu), Err(Error::CpuOffline { cpu }));
}

#[test]
fn cpus_come_online_at_once_on_threads_of_their_own() {
    let machine = cold(8);
    machine.gic.unmask_private(IntId::sgi(1).unwrap()).unwrap();
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for cpu in 0..8 {
            let (machine, barrier) = (&machine, &barrier);
            scope.spawn(move || {
                barrier.wait();
                machine.online(cpu).unwrap();
                if cpu == 3 {
                    // A change while others are under way reaches all of them.
                    machine.sim.as_cpu(cpu, |_| {
                        machine.gic.unmask_private(IntId::ppi(11).unwrap()).unwrap();
                    });
                }
            });
        }
    });
    machine
        .sim
        .as_cpu(0, |_| machine.gic.send_sgi_others(Sgi::new(1).unwrap()));
    for cpu in 0..8 {
        assert!(machine.model.awake(cpu));
        assert!(machine.model.private_source(cpu, 27).enabled, "cpu{cpu}");
        assert_eq!(machine.take(cpu), (cpu != 0).then_some(1));
    }
}

#[test]
fn a_cpu_that_goes_offline_sleeps_with_its_interface_off_and_comes_back() {
    let machine = cold(2);
    machine.gic.unmask_private(IntId::sgi(1).unwrap()).unwrap();
    for _ in 0..3 {
        (0..2).for_each(|cpu| machine.online(cpu).unwrap());
        machine
            .gic
            .send_sgi(Sgi::new(1).unwrap(), CpuIndex::new(1))
            .unwrap();
        assert_eq!(machine.take(1), Some(1));
        (0..2).for_each(|cpu| machine.offline(cpu).unwrap());
        assert!(!machine.model.awake(1));
        machine.model.power_off_cpu(1);
        let cpu = CpuIndex::new(1);
        let error = machine.gic.send_sgi(Sgi::new(1).unwrap(), cpu);
        assert_eq!(error, Err(Error::CpuOffline { cpu }));
    }
}

#[test]
fn offline_touches_the_cpus_own_units_and_sleeps_last() {
    let machine = cold(2);
    (0..2).for_each(|cpu| machine.online(cpu).unwrap());
    let trace = machine.trace(|| machine.offline(1).unwrap());
    let own = Unit::Gicr(machine.model.rd_of(1).unwrap());
    assert_eq!(trace.stored(own, 0x14), [2]);
    assert_eq!(
        trace.on(own).accesses() + trace.on(icc(1)).accesses(),
        trace.accesses()
    );
    let first = trace.events()[0].access().unwrap();
    assert_eq!(
        first.unit,
        icc(1),
        "the group is closed before the redistributor sleeps"
    );
}

#[test]
fn online_touches_the_cpus_own_units_alone_and_asks_for_no_cpu_number() {
    let machine = cold(4);
    machine.gic.unmask_private(IntId::ppi(11).unwrap()).unwrap();
    let trace = machine.trace(|| machine.online(3).unwrap());
    let own = Unit::Gicr(machine.model.rd_of(3).unwrap());
    assert_eq!(
        trace.on(own).accesses() + trace.on(icc(3)).accesses(),
        trace.accesses()
    );
}

#[test]
fn a_failed_online_can_be_repeated_with_the_right_affinity() {
    let machine = cold(1);
    let wrong = machine
        .sim
        .as_cpu(0, |on| machine.gic.cpu_online(on, Mpidr::new(0x500)));
    assert_eq!(
        wrong,
        Err(Error::NoUnitForCpu {
            block: "GICR",
            id: 0x500
        })
    );
    machine.online(0).unwrap();
}

#[test]
fn a_sleeping_redistributor_that_is_slow_is_waited_for_both_ways() {
    let machine = Machine::with(
        1,
        |builder| builder.wake(Delay::Polls(30)),
        Config::default(),
    );
    machine.offline(0).unwrap();
    machine.online(0).unwrap();
    machine.gic.unmask(machine.irq(40)).unwrap();
    machine.model.line(40).assert();
    assert_eq!(machine.take(0), Some(40));
}

#[test]
fn a_cpu_whose_group_0_firmware_left_on_can_go_offline() {
    let machine = Machine::with(1, |builder| builder.left_over(true), Config::default());
    machine.offline(0).unwrap();
    assert!(!machine.model.awake(0));
}

#[test]
fn a_redistributor_belongs_to_one_cpu_until_that_one_goes_or_fails() {
    let machine = cold_with(2, |builder| builder.early_use(true));
    let [first, second] = [0, 1].map(|cpu| Mpidr::new(machine.model.mpidr(cpu)));
    let online = |cpu, mpidr| {
        machine
            .sim
            .as_cpu(cpu, |on| machine.gic.cpu_online(on, mpidr))
    };
    machine.online(0).unwrap();
    machine.gic.unmask(machine.irq(27)).unwrap();
    let error = online(1, first);
    assert!(matches!(error, Err(Error::Exists { .. })), "{error:?}");
    assert!(machine.model.private_source(0, 27).enabled);
    // A CPU that failed has let go of what it had.
    machine.model.set_gicr_rwp(Delay::Never);
    let error = online(1, second);
    assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
    machine.model.set_gicr_rwp(Delay::Polls(0));
    online(1, second).unwrap();
    // And so has one that went, even if its redistributor would not sleep.
    machine.offline(1).unwrap();
    online(1, second).unwrap();
    machine.model.set_wake(Delay::Never);
    let error = machine.offline(1);
    assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
    let error = online(1, second);
    assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
}

#[test]
fn a_cpu_whose_interface_holds_no_aff3_is_refused_where_affinities_need_it() {
    let near = Affinity::new(0, 0, 0, 0);
    let far = Affinity::new(1, 0, 0, 0);
    for all in [[near, far], [far, near]] {
        let machine = cold_with(2, |builder| builder.affinities(all).cpu_a3v(1, false));
        machine.online(0).unwrap();
        let error = machine.online(1);
        assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
        let cpu = CpuIndex::new(1);
        assert_eq!(machine.gic.sgi_target(cpu), Err(Error::CpuOffline { cpu }));
    }
    // Where no CPU has an Aff3 nothing is lost.
    let machine = cold_with(2, |builder| builder.cpu_a3v(1, false));
    machine.online(0).unwrap();
    machine.online(1).unwrap();
}

#[test]
fn firmware_that_kept_interrupts_for_any_cpu_away_is_overruled() {
    let machine = cold_with(1, |builder| {
        builder.dpgs(true).awake(true).gicr_rwp(Delay::Polls(3))
    });
    machine.sim.as_cpu(0, |_| {
        let gicr = machine.model.gicr(0);
        irq_hal::Bus::<u32>::store(&gicr, 0, 7 << 24);
        while irq_hal::Bus::<u32>::load(&gicr, 0) & 1 << 3 != 0 {}
    });
    machine.online(0).unwrap();
    let irq = machine.irq(40);
    machine.gic.set_route_any(irq).unwrap();
    machine.gic.unmask(irq).unwrap();
    machine.model.line(40).assert();
    assert_eq!(machine.take(0), Some(40));
}

#[test]
fn private_lines_of_a_cpu_whose_interface_failed_are_those_of_an_offline_cpu() {
    /// The model's interfaces, but that of CPU 1 has its priority mask held down.
    struct Held(irq_sim::gic::IccBus, SimPlatform);
    impl irq_hal::Bus<u64> for Held {
        fn load(&self, offset: usize) -> u64 {
            let held = self.1.this_cpu() == CpuIndex::new(1) && offset == ICC_PMR_EL1;
            if held { 0 } else { self.0.load(offset) }
        }
        fn store(&self, offset: usize, value: u64) {
            let on = offset == ICC_IGRPEN1_EL1 && value != 0;
            assert!(!on || self.1.this_cpu() == CpuIndex::new(0));
            self.0.store(offset, value);
        }
    }
    impl irq_hal::Barrier for Held {
        fn publish(&self) {
            self.0.publish();
        }
        fn complete(&self) {
            self.0.complete();
        }
        fn synchronize(&self) {
            self.0.synchronize();
        }
    }
    let sim = SimPlatform::new(2);
    // The view of a CPU with a mask held down is that of SCR_EL3.FIQ=1.
    let model = GicModel::builder(&sim)
        .security(Security::Two { fiq: true })
        .build();
    let cpus = mpidrs(&model);
    let held = Held(model.sysregs(), sim.clone());
    let gic = Gic::probe(
        sim.clone(),
        describe(&model, &cpus),
        held,
        Config::default(),
    )
    .unwrap();
    let timer = IntId::ppi(11).unwrap();
    let online = |cpu: u32| sim.as_cpu(cpu, |on| gic.cpu_online(on, cpus[cpu as usize]));
    online(0).unwrap();
    assert_eq!(
        online(1),
        Err(Error::Refused {
            register: "ICC_PMR_EL1",
            value: 0
        })
    );
    let cpu = CpuIndex::new(1);
    let irq = gic.irq(timer).unwrap();
    let unmasked = sim.as_cpu(1, |_| gic.unmask(irq));
    assert_eq!(unmasked, Err(Error::CpuOffline { cpu }));
    gic.unmask_private(timer).unwrap();
    let enabled = [0, 1].map(|cpu| model.private_source(cpu, 27).enabled);
    assert_eq!(enabled, [true, false]);
}
