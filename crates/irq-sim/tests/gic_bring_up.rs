// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waking, powering, finding redistributors; opening the CPU interface; going to sleep.

mod kit;

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus};
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{Affinity, Delay, GicModel, Region};
use kit::*;

#[test]
fn a_redistributor_wakes_after_as_many_polls_as_told() {
    let (_, model) = machine(1, |gic| gic.wake(Delay::Polls(3)));
    let gicr = model.gicr(0);
    assert_eq!(r32(&gicr, GICR_WAKER), 6);
    w32(&gicr, GICR_WAKER, 4);
    let waker: Vec<u32> = (0..5).map(|_| r32(&gicr, GICR_WAKER)).collect();
    assert_eq!(waker, [4, 4, 4, 0, 0]);
    assert!(model.awake(0));
}

#[test]
fn a_redistributor_may_never_wake() {
    let (_, model) = machine(1, |gic| gic.wake(Delay::Never));
    w32(&model.gicr(0), GICR_WAKER, 0);
    assert!((0..1000).all(|_| r32(&model.gicr(0), GICR_WAKER) == 4));
    assert!(!model.awake(0));
}

#[test]
fn nothing_private_works_before_the_wake_up_is_complete() {
    let (_, model) = machine(1, |gic| gic.wake(Delay::Polls(3)));
    let (gicr, icc) = (model.gicr(0), model.icc(0));
    let private = || w32(&gicr, SGI_BASE + ICENABLER, !0);
    refused("before the redistributor woke", private);
    w32(&gicr, GICR_WAKER, 0);
    r32(&gicr, GICR_WAKER);
    refused("before the redistributor woke", private);
    icc.store(ICC_SRE_EL1, 7);
    icc.synchronize();
    icc.store(ICC_AP1R0_EL1, 0);
    icc.synchronize();
    refused("before this CPU's redistributor woke", || {
        icc.store(ICC_IGRPEN1_EL1, 1)
    });
    refused("before this CPU's redistributor woke", || {
        icc.load(ICC_IAR1_EL1)
    });
    icc.publish();
    refused("before this CPU's redistributor woke", || {
        icc.store(ICC_SGI1R_EL1, 1)
    });
    while r32(&gicr, GICR_WAKER) & 4 != 0 {}
    private();
    icc.store(ICC_IGRPEN1_EL1, 1);
}

#[test]
fn a_redistributor_is_woken_by_its_own_cpu_alone() {
    let (sim, model) = machine(2, |gic| gic.gic600());
    let own = "only a redistributor's own CPU wakes it";
    refused(own, || w32(&model.gicr(0), 0x2_0000 + GICR_PWRR, 0));
    let (_, woken) = plain(2);
    refused(own, || w32(&woken.gicr(0), 0x2_0000 + GICR_WAKER, 0));
    assert_eq!(
        r32(&woken.gicr(0), 0x2_0000 + GICR_WAKER),
        6,
        "looking is free"
    );
    sim.as_cpu(1, |_| refused(own, || w32(&model.gicr(0), GICR_PWRR, 0)));
}

#[test]
fn early_use_can_be_allowed() {
    let (_, model) = machine(2, |gic| gic.early_use(true));
    w32(&model.gicr(0), SGI_BASE + ICENABLER, !0);
    w32(&model.gicr(0), 0x2_0000 + GICR_WAKER, 0);
}

#[test]
fn sleep_needs_closed_groups() {
    let (_, model) = running(1);
    let (gicr, icc) = (model.gicr(0), model.icc(0));
    icc.store(ICC_CTLR_EL1, 0);
    refused("while a group of the CPU interface is enabled", || {
        w32(&gicr, GICR_WAKER, 2)
    });
    icc.store(ICC_IGRPEN1_EL1, 0);
    // Without an isb it may still be.
    refused("while a group of the CPU interface is enabled", || {
        w32(&gicr, GICR_WAKER, 2)
    });
    icc.synchronize();
    w32(&gicr, GICR_WAKER, 2);
    assert_eq!([r32(&gicr, GICR_WAKER), r32(&gicr, GICR_WAKER)], [2, 6]);
    model.power_off_cpu(0);
    cpu_up(&model, 0);
}

#[test]
fn a_second_bring_up_clears_active_priorities_again() {
    let (_, model) = running(1);
    let (gicr, icc) = (model.gicr(0), model.icc(0));
    icc.store(ICC_IGRPEN1_EL1, 0);
    icc.synchronize();
    w32(&gicr, GICR_WAKER, 2);
    while r32(&gicr, GICR_WAKER) & 4 == 0 {}
    wake(&model, 0);
    refused("ICC_AP1R<n> were all cleared", || {
        icc.store(ICC_IGRPEN1_EL1, 1)
    });
}

#[test]
fn sleep_may_not_be_there_at_all() {
    let (_, model) = machine(1, |gic| gic.sleep_sticks(false));
    let gicr = model.gicr(0);
    wake(&model, 0);
    w32(&gicr, GICR_WAKER, 2);
    assert_eq!(r32(&gicr, GICR_WAKER), 0);
}

#[test]
fn a_cpu_does_not_vanish_with_its_redistributor_awake() {
    let (_, model) = running(1);
    refused("powered off with its redistributor awake", || {
        model.power_off_cpu(0)
    });
}

#[test]
fn the_mediatek_redistributor_forgets_priorities_when_it_sleeps() {
    let (_, model) = machine(1, |gic| gic.mediatek());
    up(&model);
    assert_eq!(model.private_source(0, 20).priority, 0xa0);
    model.icc(0).store(ICC_IGRPEN1_EL1, 0);
    model.icc(0).synchronize();
    w32(&model.gicr(0), GICR_WAKER, 2);
    while r32(&model.gicr(0), GICR_WAKER) & 4 == 0 {}
    assert_eq!(model.private_source(0, 20).priority, 0);
}

#[test]
fn power_comes_up_by_its_handshake() {
    let (_, model) = machine(1, |gic| {
        gic.gic600().power(Delay::Polls(1), Delay::Polls(2))
    });
    let gicr = model.gicr(0);
    let pwrr = || r32(&gicr, GICR_PWRR);
    refused("while the group changes its state", || {
        w32(&gicr, GICR_PWRR, 0)
    });
    assert_eq!([pwrr(), pwrr()], [0b0101, 0b1101]);
    w32(&gicr, GICR_PWRR, 0);
    assert_eq!([pwrr(), pwrr(), pwrr(), pwrr()], [0b1001, 0b1001, 0, 0]);
    wake(&model, 0);
    assert!(model.awake(0));
}

#[test]
fn power_may_never_come_or_never_settle() {
    let (_, model) = machine(1, |gic| gic.power(Delay::Polls(0), Delay::Never));
    assert_eq!(r32(&model.gicr(0), GICR_PWRR), 0b1101);
    w32(&model.gicr(0), GICR_PWRR, 0);
    assert!((0..1000).all(|_| r32(&model.gicr(0), GICR_PWRR) & 1 != 0));
    let (_, model) = machine(1, |gic| gic.power(Delay::Never, Delay::Polls(0)));
    assert!((0..1000).all(|_| r32(&model.gicr(0), GICR_PWRR) >> 2 & 3 == 1));
}

#[test]
fn a_redistributor_without_power_shows_its_identity_only() {
    for gic in [0x0200_043b_u32, 0x0300_043b, 0x0400_043b] {
        let (_, model) = machine(1, |builder| match gic {
            0x0200_043b => builder.gic600(),
            0x0300_043b => builder.gic600ae(),
            _ => builder.gic700(),
        });
        let gicr = model.gicr(0);
        assert_eq!(r32(&gicr, 0x4), gic);
        assert_eq!(r32(&model.gicd(), 0x8), gic);
        Bus::<u64>::load(&gicr, GICR_TYPER);
        r32(&gicr, 0xffe8);
        refused("powered off", || r32(&gicr, GICR_WAKER));
        refused("powered off", || w32(&gicr, GICR_WAKER, 0));
        refused("powered off", || r32(&gicr, GICR_CTLR));
        refused("powered off", || r32(&gicr, SGI_BASE + ISENABLER));
    }
}

#[test]
fn msm8996_hangs_at_its_waker() {
    let (_, model) = machine(1, |gic| gic.msm8996());
    refused("hangs", || r32(&model.gicr(0), GICR_WAKER));
    refused("hangs", || w32(&model.gicr(0), GICR_WAKER, 0));
    w32(&model.gicr(0), SGI_BASE + ICENABLER, !0);
}

#[test]
fn cavium_aborts_at_typer2_and_hisilicon_claims_espis() {
    let (_, model) = machine(1, |gic| gic.cavium_38539());
    assert_eq!(r32(&model.gicd(), 0x8), 0xa000_034c);
    refused("synchronous abort", || r32(&model.gicd(), 0xc));
    for (model, iidr) in [
        (machine(1, |gic| gic.hip06()).1, 0x0204_043b),
        (machine(1, |gic| gic.hip07()).1, 0),
    ] {
        assert_eq!(r32(&model.gicd(), 0x8), iidr);
        assert_eq!(r32(&model.gicd(), GICD_TYPER) >> 8 & 1, 1);
        refused("0 extended SPIs end before", || {
            w32(&model.gicd(), 0x1400, !0)
        });
    }
}

/// Offsets of redistributors, as a walk by `Last` and `VLPIS` finds them.
fn walk(model: &GicModel, region: usize, stride: Option<usize>) -> Vec<(usize, u32)> {
    let gicr = model.gicr(region);
    let mut found = Vec::new();
    let mut at = 0;
    while at < gicr.extent() {
        let typer = Bus::<u64>::load(&gicr, at + GICR_TYPER);
        found.push((at, (typer >> 32) as u32));
        if typer & 1 << 4 != 0 {
            break;
        }
        at += stride.unwrap_or(if typer & 2 != 0 { 0x4_0000 } else { 0x2_0000 });
    }
    found
}

#[test]
fn regions_mix_both_strides_and_end_at_last() {
    let regions = [
        Region::new()
            .rd(Affinity(2))
            .vlpi_rd(Affinity(0))
            .rd(Affinity(7))
            .tail(0x4_0000),
        Region::new().vlpi_rd(Affinity(1)),
    ];
    let (_, model) = machine(3, |gic| {
        gic.affinities([0, 1, 2].map(Affinity)).regions(regions)
    });
    assert_eq!(
        walk(&model, 0, None),
        [(0, 2), (0x2_0000, 0), (0x6_0000, 7)]
    );
    assert_eq!(walk(&model, 1, None), [(0, 1)]);
    assert_eq!(model.gicr(0).extent(), 0xc_0000);
    assert_eq!(
        [0, 1, 2].map(|cpu| model.rd_of(cpu)),
        [Some(1), Some(3), Some(0)]
    );
    refused("there is no redistributor", || {
        r32(&model.gicr(0), 0x8_0000)
    });
    refused("the VLPI frame is not modelled", || {
        r32(&model.gicr(1), 0x2_0070)
    });
}

#[test]
fn a_firmware_stride_leaves_holes() {
    let region = Region::new()
        .rd(Affinity(0))
        .rd(Affinity(1))
        .stride(0x8_0000);
    let (_, model) = machine(2, |gic| gic.regions([region]));
    assert_eq!(walk(&model, 0, Some(0x8_0000)), [(0, 0), (0x8_0000, 1)]);
    refused("there is no redistributor", || {
        r32(&model.gicr(0), 0x2_0000 + GICR_TYPER)
    });
}

#[test]
fn every_view_is_last_and_a_region_may_have_no_last() {
    let row = || Region::new().rds([0, 1].map(Affinity));
    let (_, model) = machine(2, |gic| gic.regions([row().every_rd_is_last()]));
    let last = |model: &GicModel, at| r32(&model.gicr(0), at + GICR_TYPER) >> 4 & 1;
    assert_eq!([last(&model, 0), last(&model, 0x2_0000)], [1, 1]);
    let (_, model) = machine(2, |gic| gic.regions([row().no_rd_is_last()]));
    assert_eq!([last(&model, 0), last(&model, 0x2_0000)], [0, 0]);
    assert_eq!(walk(&model, 0, None).len(), 2);
}

#[test]
fn a_window_may_be_cut_short() {
    let (_, model) = plain(2);
    let (gicd, gicr) = (model.gicd().cut(0x1000), model.gicr(0).cut(0x3_0000));
    assert_eq!((gicd.extent(), gicr.extent()), (0x1000, 0x3_0000));
    refused("of which it has 0x1000 bytes", || r32(&gicd, 0xffe8));
    r32(&gicr, 0x2_0000 + GICR_WAKER);
    refused("Region(0), of which it has 0x30000 bytes", || {
        r32(&gicr, 0x3_0000 + ISENABLER)
    });
    refused("of which it has", || r32(&gicr, usize::MAX));
}

#[test]
fn hardware_may_begin_to_fail_after_the_first_bring_up() {
    let (sim, model) = plain(2);
    wake(&model, 0);
    model.set_wake(Delay::Never);
    model.set_gicd_rwp(Delay::Never);
    model.set_gicr_rwp(Delay::Polls(1));
    model.set_sre_sticks(false);
    sim.as_cpu(1, |_| {
        w32(&model.gicr(0), 0x2_0000 + GICR_WAKER, 0);
        assert!((0..100).all(|_| r32(&model.gicr(0), 0x2_0000 + GICR_WAKER) == 4));
        model.icc(1).store(ICC_SRE_EL1, 7);
        model.icc(1).synchronize();
        assert_eq!(model.icc(1).load(ICC_SRE_EL1) & 1, 0);
    });
    w32(&model.gicd(), ICENABLER + 4, 1);
    assert!((0..100).all(|_| r32(&model.gicd(), GICD_CTLR) >> 31 == 1));
    w32(&model.gicr(0), SGI_BASE + ICENABLER, 1);
    assert_eq!(
        [
            r32(&model.gicr(0), GICR_CTLR),
            r32(&model.gicr(0), GICR_CTLR)
        ],
        [8, 0]
    );
}

#[test]
fn a_cpu_may_have_no_redistributor() {
    let (_, model) = machine(2, |gic| gic.regions([Region::new().rd(Affinity(0))]));
    assert_eq!((model.rd_of(0), model.rd_of(1)), (Some(0), None));
}

#[test]
fn odd_affinities_of_known_machines() {
    let (_, model) = machine(2, |gic| gic.asr8601());
    assert_eq!(model.mpidr(1), 1 << 31 | 1 << 8);
    assert_eq!(walk(&model, 0, None)[1].1, 1);
    let cpus = [Affinity::new(0, 0, 1, 0), Affinity::new(0, 0, 1, 1)];
    let (_, model) = machine(2, |gic| gic.affinities(cpus).cortex_r52());
    assert_eq!(model.mpidr(1), 1 << 31 | 0x101);
    assert_eq!(walk(&model, 0, None)[1].1, 1);
}

#[test]
fn system_registers_need_sre_and_an_isb() {
    let (_, model) = plain(1);
    let icc = model.icc(0);
    refused("SRE is 0", || icc.load(ICC_PMR_EL1));
    icc.store(ICC_SRE_EL1, 7);
    refused("no isb between the write of ICC_SRE", || {
        icc.load(ICC_SRE_EL1)
    });
    refused("no isb between the write of ICC_SRE", || {
        icc.store(ICC_PMR_EL1, 0)
    });
    icc.synchronize();
    assert_eq!(icc.load(ICC_SRE_EL1) & 1, 1);
    icc.store(ICC_PMR_EL1, 0xf0);
    refused("goes from 1 to 0", || icc.store(ICC_SRE_EL1, 0));
    refused("undefined at EL1", || icc.load(ICC_SRE_EL2));
}

#[test]
fn sre_may_be_forbidden_by_a_higher_level() {
    let (_, model) = machine(1, |gic| gic.sre_sticks(false));
    let icc = model.icc(0);
    icc.store(ICC_SRE_EL1, 7);
    icc.synchronize();
    assert_eq!(icc.load(ICC_SRE_EL1) & 1, 0);
    refused("SRE is 0", || icc.load(ICC_CTLR_EL1));
}

#[test]
fn at_el2_its_own_sre_comes_first() {
    let (_, model) = machine(1, |gic| gic.el2(true));
    let icc = model.icc(0);
    refused("ICC_SRE_EL2.SRE and Enable", || icc.load(ICC_SRE_EL1));
    icc.store(ICC_SRE_EL2, 0xf);
    icc.synchronize();
    assert_eq!(icc.load(ICC_SRE_EL2), 0xf);
    icc.store(ICC_SRE_EL1, 7);
    icc.synchronize();
    icc.load(ICC_CTLR_EL1);
}

#[test]
fn a_group_opens_after_its_active_priorities_and_an_isb() {
    let (_, model) = machine(1, |gic| gic.priority_bits(6).sre_on(true));
    wake(&model, 0);
    let icc = model.icc(0);
    let open = || icc.store(ICC_IGRPEN1_EL1, 1);
    refused("before ICC_AP1R<n> were all cleared", open);
    icc.store(ICC_AP1R0_EL1, 0);
    icc.synchronize();
    refused("before ICC_AP1R<n> were all cleared", open);
    icc.store(ICC_AP1R0_EL1 + 1, 0);
    refused("no isb between the set-up", open);
    icc.synchronize();
    open();
    assert_eq!(icc.load(ICC_IGRPEN1_EL1), 1);
    refused("no isb between the change of a group enable", || {
        icc.load(ICC_IAR1_EL1)
    });
    icc.synchronize();
    assert_eq!(icc.load(ICC_IAR1_EL1), 1023);
}

#[test]
fn left_over_state_is_what_a_driver_must_undo() {
    let (_, model) = machine(1, |gic| gic.left_over(true).sre_on(true));
    let spi = model.source(36);
    assert!(spi.enabled && spi.pending && spi.active && spi.edge);
    assert_ne!(spi.route, 0);
    let ppi = model.private_source(0, 24);
    assert!(ppi.enabled && ppi.pending && ppi.active && ppi.edge);
    let icc = model.icc(0);
    assert_eq!(icc.load(ICC_CTLR_EL1) & 2, 2);
    // CBPR=1: BPR1 shows BPR0's value and ignores writes, until it is 0.
    assert_eq!(icc.load(ICC_CTLR_EL1) & 1, 1);
    icc.store(ICC_BPR1_EL1, 0);
    icc.store(ICC_CTLR_EL1, 0);
    assert_eq!(icc.load(ICC_BPR1_EL1), 7);
    assert_eq!(icc.load(ICC_IGRPEN0_EL1), 1);
    assert_ne!(icc.load(ICC_AP1R0_EL1), 0);
    assert_eq!(r32(&model.gicd(), GICD_CTLR) & 2, 2);
}
