// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each register of the modelled GIC does.

mod kit;

use irq_hal::{Barrier, Bus};
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{Affinity, Are, Delay, Group, Region};
use irq_sim::{Fence, Unit};
use kit::*;

#[test]
fn typer_says_what_the_machine_has() {
    let (_, model) = machine(1, |gic| {
        gic.spis(988)
            .espis(64)
            .id_bits(16)
            .a3v(true)
            .no1n(true)
            .gicd_rss(true)
            .mbis(true)
    });
    let typer = r32(&model.gicd(), GICD_TYPER);
    assert_eq!(typer & 0x1f, 31);
    assert_eq!(typer >> 8 & 1, 1, "ESPI");
    assert_eq!(typer >> 10 & 1, 0, "SecurityExtn");
    assert_eq!(typer >> 16 & 1, 1, "MBIS");
    assert_eq!(typer >> 19 & 0x1f, 15, "IDbits");
    assert_eq!(typer >> 24 & 7, 7, "A3V, No1N, RSS");
    assert_eq!(typer >> 27, 1, "ESPI_range");
}

#[test]
fn the_identity_registers_answer() {
    let (_, model) = machine(1, |gic| gic.arch(4).iidr(0x0402_043b).typer2(0x10f));
    let gicd = model.gicd();
    assert_eq!(r32(&gicd, 0x0008), 0x0402_043b);
    assert_eq!(r32(&gicd, 0x000c), 0x10f);
    assert_eq!(r32(&gicd, 0xffe8) >> 4 & 0xf, 4);
    assert_eq!(r32(&model.gicr(0), 0x0004), 0x0402_043b);
    assert_eq!(r32(&model.gicr(0), 0xffe8) >> 4 & 0xf, 4);
    let (_, model) = machine(1, |gic| gic.typer2(0x10f));
    assert_eq!(r32(&model.gicd(), 0x000c), 0, "GICv3 has no TYPER2");
    let (_, model) = machine(1, |gic| gic.arch(2));
    assert_eq!(
        r32(&model.gicd(), 0xffe8) >> 4 & 0xf,
        2,
        "what a GICv3 driver must refuse"
    );
}

#[test]
fn the_qemu_preset_reads_as_qemu_does() {
    let (_, model) = machine(1, |gic| gic.qemu_virt());
    let gicd = model.gicd();
    assert_eq!(r32(&gicd, GICD_CTLR), 0x50);
    assert_eq!(r32(&gicd, 0x0008), 0x43b);
    assert_eq!(r32(&gicd, 0xffe8), 0x3b);
    assert_eq!(r32(&model.gicr(0), GICR_WAKER), 6);
    up(&model);
    let icc = model.icc(0);
    assert_eq!(icc.load(ICC_CTLR_EL1) & 0xff00, 0x8c00);
    assert_eq!(icc.load(ICC_PMR_EL1), 0xf8);
    icc.store(ICC_PMR_EL1, 1);
    assert_eq!(icc.load(ICC_PMR_EL1), 0);
    assert_eq!(icc.load(ICC_BPR1_EL1), 3, "BPR1 written 0");
    Bus::<u8>::store(&gicd, IPRIORITYR + 32, 0xa5);
    assert_eq!(
        Bus::<u8>::load(&gicd, IPRIORITYR + 32),
        0xa5,
        "all bits, unlike PMR"
    );
}

#[test]
fn enable_bits_are_set_and_cleared_by_ones_alone() {
    let (_, model) = plain(1);
    let gicd = model.gicd();
    w32(&gicd, ISENABLER + 4, 0b1010);
    w32(&gicd, ISENABLER + 4, 0b0100);
    assert_eq!(r32(&gicd, ISENABLER + 4), 0b1110);
    w32(&gicd, ICENABLER + 4, 0b0010);
    assert_eq!(
        r32(&gicd, ICENABLER + 4),
        0b1100,
        "both registers read the enables"
    );
    assert!(model.source(34).enabled && !model.source(33).enabled);
    w32(&gicd, ICENABLER + 4, r32(&gicd, ICENABLER + 4) | 1 << 2);
    assert_eq!(
        r32(&gicd, ISENABLER + 4),
        0,
        "a read-modify-write of the clear register"
    );
}

#[test]
fn pending_and_active_bits_are_set_and_cleared_by_ones_alone() {
    let (_, model) = plain(1);
    let gicd = model.gicd();
    for (set, clear) in [(ISPENDR, ICPENDR), (ISACTIVER, ICACTIVER)] {
        w32(&gicd, set + 8, 0x8000_0001);
        assert_eq!(
            (r32(&gicd, set + 8), r32(&gicd, clear + 8)),
            (0x8000_0001, 0x8000_0001)
        );
        w32(&gicd, clear + 8, 1);
        assert_eq!(r32(&gicd, set + 8), 0x8000_0000);
    }
    assert!(model.source(95).pending && model.source(95).active);
}

#[test]
fn a_private_frame_has_the_same_banks_and_extended_ppis_after_them() {
    let (_, model) = machine(2, |gic| gic.eppis(64));
    let gicr = model.gicr(0);
    let sgi = 0x2_0000 + SGI_BASE;
    assert_eq!(
        Bus::<u64>::load(&gicr, 0x2_0000 + GICR_TYPER) >> 27 & 0x1f,
        2
    );
    wake(&model, 1);
    w32(&gicr, sgi + ISENABLER, 1 << 27);
    w32(&gicr, sgi + ISENABLER + 8, 1 << 31);
    Bus::<u8>::store(&gicr, sgi + IPRIORITYR + 32, 0xc0);
    w32(&gicr, sgi + ICFGR + 8, 2);
    assert!(model.private_source(1, 27).enabled);
    assert!(model.private_source(1, 1119).enabled);
    assert_eq!(model.private_source(1, 1056).priority, 0xc0);
    assert!(model.private_source(1, 1056).edge && !model.private_source(1, 1057).edge);
    assert!(
        !model.private_source(0, 27).enabled,
        "the other CPU's are its own"
    );
}

#[test]
fn extended_spis_have_banks_of_their_own() {
    let (_, model) = machine(1, |gic| gic.espis(64));
    let gicd = model.gicd();
    w32(&gicd, 0x1000 + 4, 1);
    w32(&gicd, 0x1200 + 4, 1);
    w32(&gicd, 0x1600 + 4, 1);
    w32(&gicd, 0x1a00 + 4, 1);
    Bus::<u8>::store(&gicd, 0x2000 + 33, 0x80);
    w32(&gicd, 0x3000 + 8, 2 << 2);
    Bus::<u64>::store(&gicd, 0x8000 + 8 * 33, 0x01_0002_0304);
    let first = model.source(4096 + 32);
    assert!(first.enabled && first.pending && first.active);
    assert_eq!(first.group, Group::One);
    let second = model.source(4096 + 33);
    assert_eq!((second.priority, second.edge), (0x80, true));
    assert_eq!(second.route, 0x01_0002_0304);
    w32(&gicd, 0x1400 + 4, 1);
    w32(&gicd, 0x1800 + 4, 1);
    w32(&gicd, 0x1c00 + 4, 1);
    let first = model.source(4096 + 32);
    assert!(!first.enabled && !first.pending && !first.active);
}

#[test]
fn priorities_keep_the_implemented_bits() {
    for bits in 4..=8 {
        let (_, model) = machine(1, |gic| gic.priority_bits(bits));
        let gicd = model.gicd();
        Bus::<u8>::store(&gicd, IPRIORITYR + 40, 0xff);
        let mask = 0xff_u8 << (8 - bits);
        assert_eq!(Bus::<u8>::load(&gicd, IPRIORITYR + 40), mask);
        assert_eq!(r32(&gicd, IPRIORITYR + 40), mask.into());
        w32(&gicd, IPRIORITYR + 40, 0x4020_8010);
        assert_eq!(model.source(43).priority, 0x40);
        assert_eq!(model.source(41).priority, 0x80);
    }
}

#[test]
fn the_binary_point_has_a_least_value() {
    for (bits, least) in [(4, 4), (5, 3), (6, 2), (7, 1), (8, 1)] {
        let (_, model) = machine(1, |gic| gic.priority_bits(bits).sre_on(true));
        let icc = model.icc(0);
        icc.store(ICC_BPR1_EL1, 0);
        icc.store(ICC_BPR0_EL1, 0);
        assert_eq!(
            (icc.load(ICC_BPR1_EL1), icc.load(ICC_BPR0_EL1)),
            (least, least - 1)
        );
        icc.store(ICC_BPR1_EL1, 6);
        assert_eq!(icc.load(ICC_BPR1_EL1), 6);
        icc.store(ICC_CTLR_EL1, 1);
        assert_eq!(icc.load(ICC_BPR1_EL1), least, "CBPR: BPR0 + 1 counts");
    }
}

#[test]
fn active_priority_registers_exist_by_priority_bits() {
    for (bits, count) in [(4, 1), (5, 1), (6, 2), (7, 4), (8, 4)] {
        let (_, model) = machine(1, |gic| gic.priority_bits(bits).sre_on(true));
        let icc = model.icc(0);
        for index in 0..count {
            icc.store(ICC_AP1R0_EL1 + index, 0);
            icc.store(ICC_AP0R0_EL1 + index, 0);
        }
        if count < 4 {
            refused("undefined", || icc.load(ICC_AP1R0_EL1 + count));
            refused("undefined", || icc.store(ICC_AP0R0_EL1 + count, 0));
        }
    }
}

#[test]
fn routes_are_written_whole_or_by_halves() {
    let (_, model) = plain(1);
    let gicd = model.gicd();
    let at = IROUTER + 8 * 32;
    Bus::<u64>::store(&gicd, at, 0x12_0034_5678);
    assert_eq!(model.source(32).route, 0x12_0034_5678);
    assert_eq!((r32(&gicd, at), r32(&gicd, at + 4)), (0x0034_5678, 0x12));
    w32(&gicd, at, 1);
    w32(&gicd, at + 4, 2);
    assert_eq!(Bus::<u64>::load(&gicd, at), 0x02_0000_0001);
    Bus::<u64>::store(&gicd, at, 1 << 31);
    assert_eq!(model.source(32).route, 1 << 31);
}

#[test]
fn a_disable_shows_in_rwp_for_as_long_as_it_takes() {
    let (_, model) = machine(1, |gic| gic.gicd_rwp(Delay::Polls(2)));
    let gicd = model.gicd();
    w32(&gicd, ISENABLER + 4, 1);
    assert_eq!(r32(&gicd, GICD_CTLR) >> 31, 0, "enables are not tracked");
    w32(&gicd, ICENABLER + 4, 1);
    let rwp: Vec<u32> = (0..4).map(|_| r32(&gicd, GICD_CTLR) >> 31).collect();
    assert_eq!(rwp, [1, 1, 0, 0]);
    Bus::<u64>::store(&gicd, IROUTER + 8 * 32, 0);
    w32(&gicd, ISPENDR + 4, 1);
    w32(&gicd, ICACTIVER + 4, 1);
    assert_eq!(
        r32(&gicd, GICD_CTLR) >> 31,
        0,
        "nor are routes, pending, active"
    );
}

#[test]
fn a_redistributor_has_rwp_at_bit_3_and_bit_31_is_another() {
    let (_, model) = machine(2, |gic| gic.gicr_rwp(Delay::Polls(2)).uwp(true));
    let gicr = model.gicr(0);
    wake(&model, 0);
    w32(&gicr, SGI_BASE + ISENABLER, 1 << 20);
    w32(&gicr, SGI_BASE + ICENABLER, 1 << 20);
    assert_eq!(
        r32(&gicr, 0x2_0000 + GICR_CTLR) >> 3 & 1,
        0,
        "the other one has nothing to do"
    );
    let ctlr: Vec<u32> = (0..3).map(|_| r32(&gicr, GICR_CTLR)).collect();
    assert_eq!(ctlr, [1 << 31 | 8, 1 << 31 | 8, 1 << 31]);
}

#[test]
fn a_unit_that_never_finishes_keeps_rwp() {
    let (_, model) = machine(1, |gic| gic.gicd_rwp(Delay::Never).gicr_rwp(Delay::Never));
    w32(&model.gicd(), ICENABLER + 4, !0);
    wake(&model, 0);
    w32(&model.gicr(0), SGI_BASE + ICENABLER, !0);
    assert!((0..1000).all(|_| r32(&model.gicd(), GICD_CTLR) >> 31 == 1));
    assert!((0..1000).all(|_| r32(&model.gicr(0), GICR_CTLR) & 8 != 0));
}

#[test]
fn group_enables_and_are_are_kept() {
    let (_, model) = machine(1, |gic| gic.are(Are::Off));
    let gicd = model.gicd();
    assert_eq!(r32(&gicd, GICD_CTLR), 1 << 6);
    w32(&gicd, GICD_CTLR, 1 << 4);
    assert_eq!(r32(&gicd, GICD_CTLR), 1 << 6 | 1 << 4);
    w32(&gicd, GICD_CTLR, 1 << 4 | 3);
    assert_eq!(r32(&gicd, GICD_CTLR), 1 << 6 | 1 << 4 | 3);
    w32(&gicd, GICD_CTLR, 1 << 4 | 2);
    assert_eq!(
        r32(&gicd, GICD_CTLR),
        1 << 6 | 1 << 4 | 2,
        "Polls(0): done at the first read"
    );
}

#[test]
fn messages_raise_spis() {
    let (_, model) = machine(1, |gic| gic.mbis(true));
    let gicd = model.gicd();
    w32(&gicd, ICFGR + 8, 2);
    w32(&gicd, 0x0040, 32);
    assert!(model.source(32).pending);
    w32(&gicd, 0x0040, 33);
    assert!(model.source(33).pending);
    w32(&gicd, 0x0048, 33);
    assert!(
        !model.source(33).pending,
        "a level message can be taken back"
    );
}

#[test]
fn sgis_are_edges_and_ppi_triggers_may_be_fixed() {
    let (_, model) = machine(1, |gic| gic.fixed_ppi_triggers(true));
    let gicr = model.gicr(0);
    wake(&model, 0);
    assert_eq!(r32(&gicr, SGI_BASE + ICFGR), 0xaaaa_aaaa);
    w32(&gicr, SGI_BASE + ICFGR + 4, 0xaaaa_aaaa);
    assert_eq!(r32(&gicr, SGI_BASE + ICFGR + 4), 0);
}

#[test]
fn typer_of_a_redistributor_can_be_read_whole_or_by_halves() {
    let cpu = Affinity::new(1, 2, 3, 4);
    let (_, model) = machine(1, |gic| {
        gic.affinities([cpu])
            .regions([Region::new().rd(Affinity(9)).vlpi_rd(cpu)])
    });
    let gicr = model.gicr(0);
    let typer = Bus::<u64>::load(&gicr, 0x2_0000 + GICR_TYPER);
    assert_eq!(typer, 0x0102_0304_u64 << 32 | 1 << 8 | 1 << 4 | 1 << 1);
    assert_eq!(r32(&gicr, 0x2_0000 + GICR_TYPER + 4), 0x0102_0304);
    assert_eq!(r32(&gicr, 0x2_0000 + GICR_TYPER), typer as u32);
    assert_eq!(model.rd_of(0), Some(1));
    assert_eq!(model.mpidr(0), 0x01_8002_0304);
}

#[test]
fn the_log_has_each_access_with_its_cpu_unit_width_and_charge() {
    let sim = irq_sim::SimPlatform::builder(2).nodes(&[0, 1]).build();
    let model = irq_sim::gic::GicModel::builder(&sim).build();
    let mark = sim.log().mark();
    sim.as_cpu(1, |_| {
        w32(&model.gicd(), ISENABLER + 4, 2);
        wake(&model, 1);
        model.gicd().complete();
        model.icc(1).store(ICC_SRE_EL1, 7);
    });
    let seen = sim.log().since(mark);
    assert_eq!((seen.stores(Unit::Gicd), seen.loads(Unit::Gicd)), (1, 0));
    assert_eq!(
        (seen.stores(Unit::Gicr(1)), seen.loads(Unit::Gicr(1))),
        (1, 2)
    );
    assert_eq!((seen.mmio(), seen.system(), seen.accesses()), (4, 1, 5));
    assert_eq!(seen.barriers(Fence::Complete), 1);
    assert_eq!(seen.stored(Unit::Gicd, ISENABLER + 4), [2]);
    assert_eq!(seen.cost(), 850 + 3 * 750);
    assert_eq!(seen.by(irq_hal::CpuIndex::new(0)).events(), []);
    let first = *seen.events()[0].access().unwrap();
    assert_eq!((first.width, first.value, first.cpu.get()), (4, 2, 1));
    assert_eq!(first.to_string(), "cpu1 GICD+0x104 4 bytes 0x2");
}
