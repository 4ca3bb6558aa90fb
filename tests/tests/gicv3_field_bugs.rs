// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs that public GICv3 drivers had in the field, one test each.

use irq_core::{Lines, Trigger};
use irq_gicv3::regs::icc::{ICC_DIR_EL1, ICC_EOIR1_EL1};
use irq_gicv3::{Config, EoiMode, IntId, Mpidr, Priority, Sgi};
use irq_hal::CpuIndex;
use irq_sim::gic::{Affinity, Delay, Region};
use irq_sim::log::{Event, Unit};
use irq_tests::gicv3::{Machine, icc};

fn plain() -> Config<'static> {
    Config::default()
}

#[test]
fn the_stride_is_not_fixed_at_128k_where_redistributors_have_four_frames() {
    let all = [0, 1, 2].map(|cpu| Affinity::new(0, 0, 0, cpu));
    let machine = Machine::with(
        3,
        |builder| {
            let region = all.into_iter().fold(Region::new(), Region::vlpi_rd);
            builder.arch(4).affinities(all).regions([region])
        },
        plain(),
    );
    assert!((0..3).all(|cpu| machine.model.awake(cpu)));
}

#[test]
fn every_cpu_programs_its_own_redistributor_and_not_the_first_one() {
    let machine = Machine::new(4);
    let timer = IntId::ppi(14).unwrap();
    machine.gic.unmask_private(timer).unwrap();
    for cpu in 0..4 {
        assert!(machine.model.private_source(cpu, 30).enabled, "cpu{cpu}");
        machine
            .sim
            .as_cpu(cpu, |_| machine.gic.mask(machine.irq(30)))
            .unwrap();
        assert!(!machine.model.private_source(cpu, 30).enabled, "cpu{cpu}");
    }
}

#[test]
fn the_boot_cpu_need_not_have_the_first_redistributor() {
    let [a, b] = [Affinity::new(0, 0, 1, 0), Affinity::new(0, 0, 0, 0)];
    let machine = Machine::with(
        2,
        |builder| {
            builder
                .affinities([a, b])
                .regions([Region::new().rds([b, a])])
        },
        plain(),
    );
    let trace = machine.trace(|| machine.gic.unmask(machine.irq(27)).unwrap());
    assert_eq!(trace.stores(Unit::Gicr(1)), 1);
    assert!(machine.model.private_source(0, 27).enabled);
    assert!(!machine.model.private_source(1, 27).enabled);
}

#[test]
fn bit_31_of_mpidr_takes_no_part_in_finding_a_redistributor() {
    let machine = Machine::new(1);
    assert_ne!(machine.model.mpidr(0) & 1 << 31, 0);
    let cpu = Mpidr::new(machine.model.mpidr(0) | 1 << 30 | 1 << 24);
    assert!(machine.gic.redistributors().contains(cpu));
}

#[test]
fn aff3_takes_part_in_finding_routing_and_sending() {
    let all = [Affinity::new(0, 0, 0, 1), Affinity::new(3, 0, 0, 1)];
    let machine = Machine::with(2, |builder| builder.affinities(all), plain());
    machine.gic.unmask_private(IntId::sgi(1).unwrap()).unwrap();
    machine
        .gic
        .send_sgi(Sgi::new(1).unwrap(), CpuIndex::new(1))
        .unwrap();
    assert_eq!(
        [0, 1].map(|cpu| machine.model.signalled(cpu)),
        [false, true]
    );
    let irq = machine.irq(50);
    machine
        .gic
        .set_route(irq, Mpidr::new(machine.model.mpidr(1)))
        .unwrap();
    assert_eq!(machine.model.source(50).route, 3 << 32 | 1);
    let other = Mpidr::from_affinity(4, 0, 0, 1);
    assert!(!machine.gic.redistributors().contains(other));
}

#[test]
fn an_sgis_target_bit_is_of_the_affinity_and_not_of_the_cpu_index() {
    // CPU 0 has Aff0 5, CPU 1 has Aff0 0 in another cluster.
    let all = [Affinity::new(0, 0, 0, 5), Affinity::new(0, 0, 7, 0)];
    let machine = Machine::with(2, |builder| builder.affinities(all), plain());
    machine.gic.unmask_private(IntId::sgi(1).unwrap()).unwrap();
    for cpu in 0..2 {
        machine
            .gic
            .send_sgi(Sgi::new(1).unwrap(), CpuIndex::new(cpu))
            .unwrap();
        assert_eq!(machine.take(cpu), Some(1));
    }
    assert!(machine.model.strays().is_empty());
}

#[test]
fn waits_use_neither_the_clock_nor_the_scheduler() {
    let slow = Delay::Polls(50);
    let sim = irq_sim::SimPlatform::new(1);
    let model = irq_sim::gic::GicModel::builder(&sim)
        .gic600()
        .wake(slow)
        .gicd_rwp(slow)
        .gicr_rwp(slow)
        .left_over(true)
        .build();
    sim.stop_clock();
    let gic = irq_tests::gicv3::probe(&model, plain()).unwrap();
    let machine = Machine { sim, model, gic };
    machine.online(0).unwrap();
}

#[test]
fn the_special_numbers_are_no_interrupts() {
    let machine = Machine::new(1);
    for intid in 1020..1024 {
        machine.model.inject_acknowledge(0, intid);
        assert_eq!(machine.ack(0), None);
    }
}

#[test]
fn a_spurious_acknowledge_is_not_ended() {
    let config = Config {
        eoi_mode: EoiMode::Split,
        ..plain()
    };
    let machine = Machine::with(1, |builder| builder, config);
    let trace = machine.trace(|| assert_eq!(machine.ack(0), None));
    assert!(trace.stored(icc(0), ICC_EOIR1_EL1).is_empty());
    assert!(trace.stored(icc(0), ICC_DIR_EL1).is_empty());
}

#[test]
fn disabling_one_interrupt_leaves_the_others_of_its_word_enabled() {
    let machine = Machine::with(1, |builder| builder.espis(32), plain());
    for base in [64, 4096, 0] {
        let all: Vec<_> = (base..base + 32).map(|intid| machine.irq(intid)).collect();
        all.iter().for_each(|&irq| machine.gic.unmask(irq).unwrap());
        machine.gic.mask(all[9]).unwrap();
        let enabled: Vec<_> = all
            .iter()
            .map(|&irq| !machine.gic.state(irq).unwrap().masked)
            .collect();
        let expect: Vec<_> = (0..32).map(|bit| bit != 9).collect();
        assert_eq!(enabled, expect, "INTIDs from {base}");
    }
}

#[test]
fn the_route_of_spi_0_is_at_0x6100() {
    let machine = Machine::new(2);
    let to = Mpidr::new(machine.model.mpidr(1));
    let trace = machine.trace(|| machine.gic.set_route(machine.irq(32), to).unwrap());
    assert_eq!(trace.stored(Unit::Gicd, 0x6100), [1]);
    assert_eq!(machine.model.source(32).route, 1);
}

#[test]
fn an_acknowledged_number_is_not_cut_to_nine_or_ten_bits() {
    // Extended SPI 4096 + 40 is SPI 40 in ten bits.
    let machine = Machine::with(1, |builder| builder.espis(64), plain());
    let irq = machine.irq(4136);
    machine.gic.unmask(irq).unwrap();
    machine.model.line(4136).assert();
    let (taken, active) = machine.ack(0).unwrap();
    assert_eq!(taken, irq);
    machine.model.line(4136).deassert();
    machine.end(0, active);
}

#[test]
fn a_redistributors_wait_is_for_rwp_and_not_for_uwp() {
    // Bit 31 stays one for ever, bit 3 for three polls.
    let machine = Machine::with(
        1,
        |builder| builder.uwp(true).gicr_rwp(Delay::Polls(3)),
        plain(),
    );
    let irq = machine.irq(27);
    machine.gic.unmask(irq).unwrap();
    let trace = machine.trace(|| machine.gic.mask(irq).unwrap());
    assert_eq!(trace.loads(Unit::Gicr(0)), 4);
}

#[test]
fn a_disabled_line_does_not_fire_once_the_call_has_returned() {
    let machine = Machine::with(
        1,
        |builder| builder.gicd_rwp(Delay::Polls(3)).gicr_rwp(Delay::Polls(3)),
        plain(),
    );
    let shared = machine.irq(40);
    machine.gic.unmask(shared).unwrap();
    machine.gic.mask(shared).unwrap();
    machine.model.line(40).assert();
    assert!(!machine.model.signalled(0));
    let private = machine.irq(27);
    machine.gic.unmask(private).unwrap();
    machine.gic.mask(private).unwrap();
    machine.model.private_line(0, 27).assert();
    assert!(!machine.model.signalled(0));
}

#[test]
fn the_wake_up_is_written_in_the_rd_frame_and_polled_until_it_is_seen() {
    let sim = irq_sim::SimPlatform::new(1);
    let model = irq_sim::gic::GicModel::builder(&sim)
        .wake(Delay::Polls(4))
        .build();
    let gic = irq_tests::gicv3::probe(&model, plain()).unwrap();
    let machine = Machine { sim, model, gic };
    let trace = machine.trace(|| machine.online(0).unwrap());
    assert_eq!(trace.stored(Unit::Gicr(0), 0x14), [4]);
    let polls = trace.filter(|event| {
        matches!(event, Event::Load(access)
            if access.unit == Unit::Gicr(0) && access.offset == 0x14)
    });
    // Is it asleep; the old value to modify; five polls.
    assert_eq!(polls.events().len(), 7);
}

#[test]
fn all_redistributor_regions_are_used() {
    let all: Vec<_> = (0..6).map(|cpu| Affinity::new(0, 0, cpu, 0)).collect();
    let regions: Vec<_> = all
        .chunks(2)
        .map(|two| Region::new().rds(two.to_vec()))
        .collect();
    let machine = Machine::with(
        6,
        |builder| builder.affinities(all).regions(regions),
        plain(),
    );
    assert!((0..6).all(|cpu| machine.model.awake(cpu)));
}

#[test]
fn a_priority_left_by_earlier_software_does_not_block_the_cpu() {
    let machine = Machine::with(1, |builder| builder.left_over(true), plain());
    assert_eq!(machine.model.priorities(0).1, None);
    machine.gic.unmask(machine.irq(40)).unwrap();
    machine.model.line(40).assert();
    assert!(machine.model.signalled(0));
}

#[test]
fn a_nested_interrupt_of_higher_priority_preempts_although_firmware_left_a_large_binary_point() {
    let machine = Machine::with(1, |builder| builder.left_over(true), plain());
    let urgent = machine.irq(41);
    machine.gic.set_trigger(urgent, Trigger::Level).unwrap();
    machine
        .gic
        .set_priority(urgent, Priority::new(0xb8))
        .unwrap();
    machine.gic.unmask(machine.irq(40)).unwrap();
    machine.gic.unmask(urgent).unwrap();
    machine.model.line(40).assert();
    machine.ack(0).unwrap();
    machine.model.line(41).assert();
    assert!(machine.model.signalled(0));
}

#[test]
fn a_common_binary_point_left_by_firmware_is_given_up_before_ours_is_written() {
    use irq_gicv3::regs::icc::{ICC_BPR1_EL1, ICC_CTLR_EL1};
    let machine = Machine::with(1, |builder| builder.left_over(true), plain());
    let read = |register| {
        let bus = machine.model.sysregs();
        machine
            .sim
            .as_cpu(0, |_| irq_hal::Bus::<u64>::load(&bus, register))
    };
    assert_eq!(read(ICC_CTLR_EL1) & 1, 0, "CBPR");
    // The minimum of a CPU with five priority bits.
    assert_eq!(read(ICC_BPR1_EL1), 3);
}
