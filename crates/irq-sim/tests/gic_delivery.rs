// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a wire to a CPU and back: signal, acknowledge, end, deactivate.

mod kit;

use irq_hal::{Barrier, Bus};
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{Affinity, Delay};
use kit::*;

const SPI: u32 = 40;

fn enable(model: &irq_sim::gic::GicModel, intid: u32) {
    w32(
        &model.gicd(),
        ISENABLER + intid as usize / 32 * 4,
        1 << (intid % 32),
    );
}

fn priority(model: &irq_sim::gic::GicModel, intid: u32, value: u8) {
    Bus::<u8>::store(&model.gicd(), IPRIORITYR + intid as usize, value);
}

#[test]
fn a_level_interrupt_follows_its_wire() {
    let (_, model) = running(1);
    let (icc, line) = (model.icc(0), model.line(SPI));
    enable(&model, SPI);
    line.assert();
    assert!(model.signalled(0));
    assert_eq!(ack(&icc), SPI.into());
    assert!(
        model.source(SPI).active && model.source(SPI).pending,
        "the wire is still high"
    );
    assert!(
        !model.signalled(0),
        "an active interrupt is not signalled again"
    );
    eoi(&icc, SPI.into());
    assert!(model.signalled(0), "the wire is still high: it fires again");
    line.deassert();
    assert!(!model.signalled(0));
    assert_eq!(ack(&icc), 1023);
}

#[test]
fn an_edge_interrupt_is_remembered_once() {
    let (_, model) = running(1);
    let (icc, line) = (model.icc(0), model.line(SPI));
    w32(&model.gicd(), ICFGR + 8, 2 << 16);
    line.pulse();
    line.pulse();
    assert!(!model.signalled(0), "pending and not enabled");
    enable(&model, SPI);
    assert_eq!(ack(&icc), SPI.into());
    line.pulse();
    eoi(&icc, SPI.into());
    assert_eq!(ack(&icc), SPI.into(), "an edge while active is kept");
    eoi(&icc, SPI.into());
    assert_eq!(ack(&icc), 1023);
}

#[test]
fn a_pulse_on_a_level_interrupt_is_lost() {
    let (_, model) = running(1);
    enable(&model, SPI);
    model.line(SPI).pulse();
    assert!(!model.source(SPI).pending);
}

#[test]
fn software_can_make_pending_and_take_it_back() {
    let (_, model) = running(1);
    enable(&model, SPI);
    w32(&model.gicd(), ISPENDR + 4, 1 << (SPI - 32));
    assert!(model.signalled(0));
    w32(&model.gicd(), ICPENDR + 4, 1 << (SPI - 32));
    assert!(!model.signalled(0));
}

#[test]
fn the_highest_priority_comes_first_and_ties_go_to_the_lowest_number() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    for intid in [50, 41, 60, 45] {
        enable(&model, intid);
        w32(&model.gicd(), ISPENDR + 4, 1 << (intid - 32));
    }
    for (intid, value) in [(60, 0x40), (50, 0x40)] {
        w32(&model.gicd(), ICENABLER + 4, 1 << (intid - 32));
        r32(&model.gicd(), GICD_CTLR);
        priority(&model, intid, value);
        enable(&model, intid);
    }
    let order: Vec<u64> = (0..4)
        .map(|_| {
            let intid = ack(&icc);
            eoi(&icc, intid);
            intid
        })
        .collect();
    assert_eq!(order, [50, 60, 41, 45]);
}

#[test]
fn the_priority_mask_holds_back_what_is_not_above_it() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    enable(&model, SPI);
    model.line(SPI).assert();
    icc.store(ICC_PMR_EL1, 0xa0);
    assert!(!model.signalled(0));
    assert_eq!(
        icc.load(ICC_HPPIR1_EL1),
        SPI.into(),
        "pending is told whatever the mask"
    );
    icc.store(ICC_PMR_EL1, 0xa8);
    assert!(model.signalled(0));
    assert_eq!(model.priorities(0), (0xa8, None));
}

#[test]
fn only_a_higher_group_priority_preempts() {
    let (_, model) = plain(1);
    up(&model);
    let icc = model.icc(0);
    for (intid, value) in [(40, 0x80), (41, 0x60), (42, 0x40)] {
        priority(&model, intid, value);
        enable(&model, intid);
    }
    icc.store(ICC_BPR1_EL1, 6); // Group priority is bits 7:6.
    model.line(40).assert();
    assert_eq!(ack(&icc), 40);
    assert_eq!(icc.load(ICC_RPR_EL1), 0x80);
    model.line(41).assert();
    assert!(model.signalled(0), "0x60 is of group 0x40");
    assert_eq!(ack(&icc), 41);
    assert_eq!(icc.load(ICC_RPR_EL1), 0x40);
    model.line(42).assert();
    assert!(!model.signalled(0), "the same group does not preempt");
    assert_eq!(model.handling(0), [40, 41]);
    eoi(&icc, 41);
    assert_eq!(icc.load(ICC_RPR_EL1), 0x80);
    assert!(model.signalled(0));
    model.line(42).deassert();
    model.line(41).deassert();
    eoi(&icc, 40);
    assert_eq!(icc.load(ICC_RPR_EL1), 0xff, "idle");
}

#[test]
fn a_shared_interrupt_goes_where_its_route_points() {
    let cpus = [Affinity::new(0, 0, 0, 0), Affinity::new(1, 2, 3, 4)];
    let (sim, model) = machine(2, |gic| gic.affinities(cpus));
    up(&model);
    enable(&model, SPI);
    model.line(SPI).assert();
    assert_eq!((model.signalled(0), model.signalled(1)), (true, false));
    Bus::<u64>::store(&model.gicd(), IROUTER + 8 * SPI as usize, cpus[1].route());
    assert_eq!((model.signalled(0), model.signalled(1)), (false, true));
    sim.as_cpu(1, |_| {
        assert_eq!(ack(&model.icc(1)), SPI.into());
        eoi(&model.icc(1), SPI.into());
    });
}

#[test]
fn one_of_n_goes_to_those_who_take_part_and_the_first_gets_it() {
    let (sim, model) = machine(3, |gic| gic.dpgs(true));
    up(&model);
    enable(&model, SPI);
    Bus::<u64>::store(&model.gicd(), IROUTER + 8 * SPI as usize, 1 << 31);
    w32(&model.gicr(0), 0x4_0000 + GICR_CTLR, 1 << 25);
    model.line(SPI).assert();
    let who = [0, 1, 2].map(|cpu| model.signalled(cpu));
    assert_eq!(who, [true, true, false], "CPU 2 opted out by DPG1NS");
    sim.as_cpu(1, |_| assert_eq!(ack(&model.icc(1)), SPI.into()));
    assert_eq!(ack(&model.icc(0)), 1023);
}

#[test]
fn eoimode_1_drops_the_priority_and_leaves_the_interrupt_active() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    icc.store(ICC_CTLR_EL1, 2);
    for intid in [40, 41] {
        enable(&model, intid);
        model.line(intid).assert();
    }
    assert_eq!(ack(&icc), 40);
    eoi(&icc, 40);
    assert_eq!(icc.load(ICC_RPR_EL1), 0xff);
    assert!(model.source(40).active);
    assert_eq!(ack(&icc), 41, "the priority is free again");
    eoi(&icc, 41);
    assert!(!model.signalled(0), "both are active");
    icc.store(ICC_DIR_EL1, 40);
    assert!(!model.source(40).active && model.source(41).active);
    assert!(model.signalled(0));
}

#[test]
fn a_disable_is_effective_only_when_rwp_was_seen_clear() {
    let (_, model) = machine(1, |gic| gic.gicd_rwp(Delay::Polls(1)));
    up(&model);
    let gicd = model.gicd();
    enable(&model, SPI);
    model.line(SPI).assert();
    w32(&gicd, ICENABLER + 4, 1 << (SPI - 32));
    assert!(model.signalled(0), "still on its way");
    assert_ne!(r32(&gicd, GICD_CTLR) >> 31, 0);
    assert!(model.signalled(0));
    assert_eq!(r32(&gicd, GICD_CTLR) >> 31, 0);
    assert!(!model.signalled(0));
}

#[test]
fn a_group_that_is_switched_off_passes_until_rwp_was_seen_clear() {
    let (_, model) = running(1);
    enable(&model, SPI);
    model.line(SPI).assert();
    w32(&model.gicd(), GICD_CTLR, 1 << 4);
    assert!(model.signalled(0));
    r32(&model.gicd(), GICD_CTLR);
    assert!(!model.signalled(0));
}

#[test]
fn private_interrupts_reach_their_own_cpu() {
    let (sim, model) = running(2);
    for cpu in 0..2 {
        w32(
            &model.gicr(0),
            cpu * 0x2_0000 + SGI_BASE + ISENABLER,
            1 << 27,
        );
    }
    model.private_line(1, 27).assert();
    assert_eq!((model.signalled(0), model.signalled(1)), (false, true));
    sim.as_cpu(1, |_| {
        assert_eq!(ack(&model.icc(1)), 27);
        assert!(model.private_source(1, 27).active && !model.private_source(0, 27).active);
        eoi(&model.icc(1), 27);
    });
}

#[test]
fn a_sleeping_redistributor_signals_nothing() {
    let (_, model) = running(1);
    let (icc, gicr) = (model.icc(0), model.gicr(0));
    enable(&model, SPI);
    model.line(SPI).assert();
    icc.store(ICC_IGRPEN1_EL1, 0);
    icc.synchronize();
    w32(&gicr, GICR_WAKER, 2);
    while r32(&gicr, GICR_WAKER) & 4 == 0 {}
    assert!(!model.signalled(0) && !model.awake(0));
}

#[test]
fn stale_active_priorities_block_everything() {
    let (_, model) = machine(1, |gic| gic.left_over(true));
    let icc = model.icc(0);
    let gicd = model.gicd();
    for register in [ICENABLER, ICACTIVER, ICPENDR] {
        (1..8).for_each(|word| w32(&gicd, register + 4 * word, !0));
    }
    r32(&gicd, GICD_CTLR);
    let gicr = model.gicr(0);
    wake(&model, 0);
    for register in [ICENABLER, ICACTIVER, ICPENDR] {
        w32(&gicr, SGI_BASE + register, !0);
    }
    r32(&gicr, GICR_CTLR);
    (1..8).for_each(|word| w32(&gicd, ICFGR + 8 * word, 0));
    up(&model);
    Bus::<u64>::store(&gicd, IROUTER + 8 * SPI as usize, 0);
    enable(&model, SPI);
    model.line(SPI).assert();
    assert!(!model.signalled(0), "Group 0's active priority is above");
    icc.store(ICC_AP0R0_EL1, 0);
    assert!(model.signalled(0));
}

#[test]
fn group_0_is_an_fiq_with_registers_of_its_own() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    w32(&model.gicd(), IGROUPR + 4, !(1 << (SPI - 32)));
    w32(&model.gicd(), GICD_CTLR, 1 << 4 | 3);
    icc.store(ICC_IGRPEN0_EL1, 1);
    icc.synchronize();
    enable(&model, SPI);
    model.line(SPI).assert();
    assert_eq!((model.signalled(0), model.signalled_fiq(0)), (false, true));
    assert_eq!(icc.load(ICC_IAR1_EL1), 1023);
    assert_eq!(icc.load(ICC_HPPIR0_EL1), SPI.into());
    assert_eq!(icc.load(ICC_IAR0_EL1), SPI.into());
    irq_hal::Barrier::complete(&icc);
    irq_hal::Barrier::synchronize(&icc);
    refused("another group", || eoi(&icc, SPI.into()));
    icc.store(ICC_EOIR0_EL1, SPI.into());
    assert!(!model.source(SPI).active);
}

#[test]
fn an_irq_is_taken_masked_and_only_where_it_is_signalled() {
    let (sim, model) = running(2);
    enable(&model, SPI);
    model.line(SPI).assert();
    assert!(!model.take_irq(1, |_| panic!("nothing is signalled to CPU 1")));
    sim.set_masked(0, true);
    assert!(!model.take_irq(0, |_| panic!("CPU 0 masks interrupts")));
    sim.set_masked(0, false);
    let taken = model.take_irq(0, |on| {
        assert!(on.cpu().get() == 0 && sim.masked(0));
        assert_eq!(ack(&model.icc(0)), SPI.into());
        model.line(SPI).deassert();
        eoi(&model.icc(0), SPI.into());
    });
    assert!(taken && !sim.masked(0) && !model.signalled(0));
}

#[test]
fn special_numbers_can_be_handed_out() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    enable(&model, SPI);
    model.line(SPI).assert();
    for special in [1020, 1021, 1022] {
        model.inject_acknowledge(0, special);
        assert_eq!(ack(&icc), special.into());
    }
    assert_eq!(ack(&icc), SPI.into());
}

#[test]
fn the_cavium_interface_repeats_a_number_without_an_active_priority() {
    let (_, model) = machine(1, |gic| gic.cavium_23154());
    up(&model);
    let (icc, line) = (model.icc(0), model.line(SPI));
    enable(&model, SPI);
    line.assert();
    assert_eq!(ack(&icc), SPI.into());
    line.deassert();
    eoi(&icc, SPI.into());
    let before = icc.load(ICC_AP1R0_EL1);
    assert_eq!(icc.load(ICC_IAR1_EL1), SPI.into(), "stale");
    assert_eq!(icc.load(ICC_AP1R0_EL1), before);
    refused("nothing is being handled", || eoi(&icc, SPI.into()));
    assert_eq!(icc.load(ICC_IAR1_EL1), 1023);
}

#[test]
fn gic700_loses_a_deactivation_from_another_cpu_than_the_target() {
    for split in [false, true] {
        let (sim, model) = machine(2, |gic| gic.gic700());
        for cpu in 0..2 {
            let (gicr, pwrr) = (model.gicr(0), cpu as usize * 0x2_0000 + GICR_PWRR);
            sim.as_cpu(cpu, |_| {
                while r32(&gicr, pwrr) >> 2 & 3 != 3 {}
                w32(&gicr, pwrr, 0);
                while r32(&gicr, pwrr) & 1 != 0 {}
            });
        }
        up(&model);
        enable(&model, SPI);
        model.line(SPI).assert();
        let icc = model.icc(0);
        icc.store(ICC_CTLR_EL1, u64::from(split) << 1);
        assert_eq!(ack(&icc), SPI.into());
        let away = Affinity::new(0, 0, 0, 1).route();
        Bus::<u64>::store(&model.gicd(), IROUTER + 8 * SPI as usize, away);
        eoi(&icc, SPI.into());
        if split {
            sim.as_cpu(0, |_| icc.store(ICC_DIR_EL1, SPI.into()));
        }
        assert!(model.source(SPI).active);
        assert_eq!(model.lost_deactivations(), 1);
        w32(&model.gicd(), ICACTIVER + 4, 1 << (SPI - 32));
        assert!(!model.source(SPI).active);
    }
}

#[test]
fn with_pmhe_a_lower_mask_is_seen_after_a_dsb() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    enable(&model, SPI);
    model.line(SPI).assert();
    icc.store(ICC_CTLR_EL1, 1 << 6);
    icc.store(ICC_PMR_EL1, 0x40);
    assert!(!model.signalled(0));
    icc.store(ICC_PMR_EL1, 0xf0);
    assert!(!model.signalled(0), "the redistributor does not know yet");
    irq_hal::Barrier::complete(&icc);
    assert!(model.signalled(0));
}

#[test]
fn an_extended_interrupt_at_a_cpu_without_extrange_is_unpredictable() {
    let (_, model) = machine(2, |gic| gic.espis(32).cpu_ext_range(1, false));
    up(&model);
    let gicd = model.gicd();
    w32(&gicd, 0x1000, !0);
    w32(&gicd, 0x1200, 1);
    model.line(4096).assert();
    assert_eq!(ack(&model.icc(0)), 4096);
    eoi(&model.icc(0), 4096);
    assert_eq!(model.icc(0).load(ICC_CTLR_EL1) >> 19 & 1, 1);
    Bus::<u64>::store(&gicd, 0x8000, 1);
    refused("ExtRange is 0", || model.signalled(1));
}
