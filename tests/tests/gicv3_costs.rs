// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each path of the GICv3 driver may cost, exactly, in accesses to the device.

use irq_core::Lines;
use irq_gicv3::regs::icc::{ICC_DIR_EL1, ICC_EOIR1_EL1, ICC_IAR1_EL1, ICC_SGI1R_EL1};
use irq_gicv3::{Config, EoiMode, IntId, Sgi, SgiTarget};
use irq_hal::CpuIndex;
use irq_sim::log::{Event, Fence, Trace, Unit};
use irq_tests::gicv3::{Machine, icc};

/// Loads and stores of system registers in `trace`, as (register, is a store).
fn system(trace: &Trace) -> Vec<(usize, bool)> {
    trace
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Load(access) => Some((access.offset, false)),
            Event::Store(access) => Some((access.offset, true)),
            _ => None,
        })
        .collect()
}

fn split() -> Config<'static> {
    Config {
        eoi_mode: EoiMode::Split,
        ..Config::default()
    }
}

/// One interrupt through acknowledge and end, on a machine where `fire` makes it pending.
fn cost_of_one(config: Config<'static>, intid: u32, fire: impl Fn(&Machine)) -> Trace {
    let machine = Machine::with(1, |builder| builder.espis(32).eppis(32), config);
    machine.gic.unmask(machine.irq(intid)).unwrap();
    fire(&machine);
    let locks = machine.sim.irq_saves(0);
    let trace = machine.trace(|| assert_eq!(machine.take(0), Some(intid)));
    assert_eq!(machine.sim.irq_saves(0), locks, "a lock was taken");
    assert_eq!(trace.mmio(), 0, "{trace}");
    trace
}

const ACK_END: [(usize, bool); 2] = [(ICC_IAR1_EL1, false), (ICC_EOIR1_EL1, true)];
const ACK_END_DIR: [(usize, bool); 3] = [
    (ICC_IAR1_EL1, false),
    (ICC_EOIR1_EL1, true),
    (ICC_DIR_EL1, true),
];

fn send_to_self(machine: &Machine) {
    machine
        .gic
        .send_sgi(Sgi::new(3).unwrap(), CpuIndex::new(0))
        .unwrap();
}

#[test]
fn an_sgi_costs_one_iar_and_one_eoir_to_receive_and_no_mmio() {
    assert_eq!(
        system(&cost_of_one(Config::default(), 3, send_to_self)),
        ACK_END
    );
    assert_eq!(system(&cost_of_one(split(), 3, send_to_self)), ACK_END_DIR);
}

#[test]
fn a_ppi_costs_one_iar_and_one_eoir_and_no_mmio() {
    let fire = |machine: &Machine| machine.model.private_line(0, 27).assert();
    assert_eq!(system(&cost_of_one(Config::default(), 27, fire)), ACK_END);
    assert_eq!(system(&cost_of_one(split(), 27, fire)), ACK_END_DIR);
    let fire = |machine: &Machine| machine.model.private_line(0, 1060).assert();
    assert_eq!(system(&cost_of_one(Config::default(), 1060, fire)), ACK_END);
}

#[test]
fn an_spi_costs_one_iar_and_one_eoir_and_no_mmio() {
    let fire = |machine: &Machine| machine.model.line(40).assert();
    assert_eq!(system(&cost_of_one(Config::default(), 40, fire)), ACK_END);
    assert_eq!(system(&cost_of_one(split(), 40, fire)), ACK_END_DIR);
    let fire = |machine: &Machine| machine.model.line(4100).assert();
    assert_eq!(system(&cost_of_one(Config::default(), 4100, fire)), ACK_END);
    assert_eq!(system(&cost_of_one(split(), 4100, fire)), ACK_END_DIR);
}

/// Barriers and register accesses of `trace`, by name.
fn order(trace: &Trace) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::Barrier { fence, .. } => match fence {
            Fence::Publish => "dsb ishst",
            Fence::Complete => "dsb sy",
            Fence::Synchronize => "isb",
        },
        event => match event.access().map(|access| access.offset) {
            Some(ICC_IAR1_EL1) => "iar",
            Some(ICC_EOIR1_EL1) => "eoir",
            Some(ICC_DIR_EL1) => "dir",
            _ => "other",
        },
    };
    trace.events().iter().map(name).collect()
}

#[test]
fn barriers_stand_where_the_architecture_wants_them() {
    let timer = |machine: &Machine| machine.model.private_line(0, 27).assert();
    // The redistributor sees the acknowledge before the handler runs; what the handler wrote
    // to its device, or to its timer, comes before the end; the drop before the deactivation.
    let level = ["iar", "dsb sy", "isb", "dsb sy", "isb", "eoir"];
    assert_eq!(order(&cost_of_one(Config::default(), 27, timer)), level);
    let mut both = Vec::from(level);
    both.extend(["isb", "dir"]);
    assert_eq!(order(&cost_of_one(split(), 27, timer)), both);
    // No device holds an SGI up.
    let edge = ["iar", "dsb sy", "isb", "eoir"];
    assert_eq!(
        order(&cost_of_one(Config::default(), 3, send_to_self)),
        edge
    );
}

#[test]
fn an_sgi_costs_one_register_write_to_send_between_publish_and_isb() {
    let machine = Machine::new(2);
    let locks = machine.sim.irq_saves(0);
    let trace = machine.trace(|| {
        machine
            .gic
            .send_sgi(Sgi::new(1).unwrap(), CpuIndex::new(1))
            .unwrap();
    });
    assert_eq!(machine.sim.irq_saves(0), locks, "a lock was taken");
    let cpu = CpuIndex::new(0);
    let [publish, send, isb] = trace.events() else {
        panic!("{trace}")
    };
    assert_eq!(
        *publish,
        Event::Barrier {
            cpu,
            fence: Fence::Publish
        }
    );
    assert!(matches!(send, Event::Store(access) if access.offset == ICC_SGI1R_EL1));
    assert_eq!(
        *isb,
        Event::Barrier {
            cpu,
            fence: Fence::Synchronize
        }
    );
}

#[test]
fn an_sgi_to_all_others_costs_one_register_write() {
    let machine = Machine::new(20);
    let trace = machine.trace(|| machine.gic.send_sgi_others(Sgi::new(1).unwrap()));
    assert_eq!((trace.accesses(), trace.stores(icc(0))), (1, 1));
}

#[test]
fn an_sgi_to_many_costs_one_register_write_per_cluster_and_no_lock() {
    // 40 CPUs are three clusters of 16, 16 and 8.
    let machine = Machine::new(40);
    // In an order that hops between them: 7 and 40 have no common divisor.
    let mut targets: Vec<SgiTarget> = (0..40)
        .map(|i| machine.gic.sgi_target(CpuIndex::new(i * 7 % 40)).unwrap())
        .collect();
    let locks = machine.sim.irq_saves(0);
    let trace = machine.trace(|| {
        machine
            .gic
            .send_sgi_many(Sgi::new(1).unwrap(), &mut targets)
            .unwrap();
    });
    assert_eq!((trace.accesses(), trace.stores(icc(0))), (3, 3), "{trace}");
    assert_eq!(trace.barriers(Fence::Publish), 1);
    assert_eq!(trace.barriers(Fence::Synchronize), 1);
    assert_eq!(machine.sim.irq_saves(0), locks, "a lock was taken");
    assert!((0..40).all(|cpu| machine.model.private_source(cpu, 1).pending));
}

#[test]
fn masking_an_spi_costs_one_store_and_the_loads_until_rwp_is_zero() {
    for polls in [0, 3] {
        let machine = Machine::with(
            1,
            |builder| {
                builder
                    .espis(32)
                    .gicd_rwp(irq_sim::gic::Delay::Polls(polls))
            },
            Config::default(),
        );
        for intid in [32, 255, 4096] {
            let irq = machine.irq(intid);
            machine.gic.unmask(irq).unwrap();
            let trace = machine.trace(|| machine.gic.mask(irq).unwrap());
            let loads = 1 + polls as usize;
            assert_eq!(
                (trace.stores(Unit::Gicd), trace.loads(Unit::Gicd)),
                (1, loads)
            );
            assert_eq!(trace.accesses(), 1 + loads, "{trace}");
        }
    }
}

#[test]
fn masking_a_ppi_costs_one_store_and_the_loads_until_rwp_is_zero() {
    for polls in [0, 3] {
        let machine = Machine::with(
            2,
            |builder| {
                builder
                    .eppis(32)
                    .gicr_rwp(irq_sim::gic::Delay::Polls(polls))
            },
            Config::default(),
        );
        for intid in [5, 27, 1056] {
            let irq = machine.irq(intid);
            machine.gic.unmask(irq).unwrap();
            let trace = machine.trace(|| machine.gic.mask(irq).unwrap());
            let loads = 1 + polls as usize;
            let rd = Unit::Gicr(machine.model.rd_of(0).unwrap());
            assert_eq!((trace.stores(rd), trace.loads(rd)), (1, loads));
            assert_eq!(trace.accesses(), 1 + loads, "{trace}");
        }
    }
}

#[test]
fn unmasking_costs_one_store() {
    let machine = Machine::with(1, |builder| builder.espis(32).eppis(32), Config::default());
    for intid in [0, 27, 1060, 40, 4100] {
        let irq = machine.irq(intid);
        let trace = machine.trace(|| machine.gic.unmask(irq).unwrap());
        assert_eq!((trace.accesses(), trace.mmio()), (1, 1), "{trace}");
        assert!(matches!(trace.events(), [Event::Store(_)]));
    }
}

#[test]
fn every_wait_sleeps_by_relax_between_polls() {
    let machine = Machine::with(
        1,
        |builder| builder.gicd_rwp(irq_sim::gic::Delay::Polls(5)),
        Config::default(),
    );
    let irq = machine.irq(32);
    machine.gic.unmask(irq).unwrap();
    let before = machine.sim.relaxes(0);
    machine.gic.mask(irq).unwrap();
    assert_eq!(machine.sim.relaxes(0) - before, 5);
}

#[test]
fn a_spurious_entry_costs_one_iar() {
    let machine = Machine::new(1);
    let trace = machine.trace(|| assert_eq!(machine.ack(0), None));
    assert_eq!(system(&trace), [(ICC_IAR1_EL1, false)]);
    assert!(IntId::new(1023).is_err());
}
