// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule of the modelled GIC stops the test that breaks it.

mod kit;

use irq_hal::{Barrier, Bus};
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{Are, Delay};
use kit::*;

#[test]
fn an_offset_that_is_not_modelled_is_refused() {
    let (_, model) = plain(1);
    let (gicd, gicr, icc) = (model.gicd(), model.gicr(0), model.icc(0));
    refused("cpu0 loads from GICD_STATUSR (GICD+0x10, 4 bytes)", || {
        r32(&gicd, 0x10)
    });
    refused("no register is modelled", || w32(&gicd, 0xffd0, 0));
    refused("of Distributor, of which it has 0x10000 bytes", || {
        r32(&gicd, 0x1_0000)
    });
    refused("GICR_PROPBASER", || Bus::<u64>::load(&gicr, 0x70));
    refused("no register is modelled", || r32(&gicr, SGI_BASE + 0xe00));
    refused("no register is modelled", || r32(&gicr, GICR_PWRR));
    icc.store(ICC_SRE_EL1, 7);
    icc.synchronize();
    refused(
        "ICC_NMIAR1_EL1: this system register is not modelled",
        || icc.load(ICC_NMIAR1_EL1),
    );
    refused("S3_4_C12_C11_0", || icc.load(sysreg(3, 4, 12, 11, 0)));
}

#[test]
fn a_wrong_width_is_refused() {
    let (_, model) = plain(1);
    let (gicd, gicr) = (model.gicd(), model.gicr(0));
    wake(&model, 0);
    refused("wrong width", || Bus::<u64>::load(&gicd, 0));
    refused("wrong width", || Bus::<u64>::store(&gicd, ISENABLER + 8, 0));
    refused("wrong width", || Bus::<u8>::load(&gicd, ISENABLER + 4));
    refused("wrong width", || Bus::<u64>::load(&gicd, IPRIORITYR + 32));
    refused("wrong width", || {
        Bus::<u16>::store(&gicd, IPRIORITYR + 32, 0)
    });
    refused("wrong width", || Bus::<u16>::load(&gicd, IROUTER + 8 * 32));
    refused("wrong width", || {
        Bus::<u8>::store(&gicr, SGI_BASE + ICFGR + 4, 0)
    });
    refused("wrong width", || Bus::<u64>::load(&gicr, GICR_CTLR));
    refused("wrong width", || Bus::<u16>::load(&gicr, GICR_CTLR));
}

#[test]
fn a_misaligned_access_is_refused() {
    let (_, model) = plain(1);
    refused("not aligned", || r32(&model.gicd(), IPRIORITYR + 33));
    refused("not aligned", || {
        Bus::<u64>::load(&model.gicd(), IROUTER + 8 * 32 + 4)
    });
}

#[test]
fn a_register_that_cannot_be_written_or_read_says_so() {
    let (_, model) = machine(1, |gic| gic.mbis(true));
    up(&model);
    let (gicd, gicr, icc) = (model.gicd(), model.gicr(0), model.icc(0));
    for offset in [0x4, 0x8, 0xc, 0xffe8] {
        refused("read-only", || w32(&gicd, offset, 0));
    }
    for offset in [0x4, 0x8, 0xc, 0xffe8] {
        refused("read-only", || w32(&gicr, offset, 0));
    }
    refused("GICR_ICFGR0 is read-only", || {
        w32(&gicr, SGI_BASE + ICFGR, 0)
    });
    for register in [ICC_IAR1_EL1, ICC_HPPIR1_EL1, ICC_RPR_EL1, ICC_IAR0_EL1] {
        refused("read-only", || icc.store(register, 0));
    }
    for register in [ICC_EOIR1_EL1, ICC_DIR_EL1, ICC_SGI1R_EL1] {
        refused("write-only", || icc.load(register));
    }
    refused("write-only", || r32(&gicd, 0x40));
}

#[test]
fn ones_in_reserved_bits_are_refused() {
    let (_, model) = machine(1, |gic| gic.a3v(false).mbis(true));
    up(&model);
    let (gicd, gicr, icc) = (model.gicd(), model.gicr(0), model.icc(0));
    refused("reserved bits 0x4", || w32(&gicd, GICD_CTLR, 1 << 4 | 4));
    refused("reserved bits 0x100", || w32(&gicd, GICD_CTLR, 1 << 8));
    refused("reserved bits", || {
        Bus::<u64>::store(&gicd, IROUTER + 8 * 32, 1 << 24)
    });
    refused("reserved bits", || {
        Bus::<u64>::store(&gicd, IROUTER + 8 * 32, 1 << 32)
    });
    refused("reserved bits 0x1", || w32(&gicd, ICFGR + 8, 1));
    refused("reserved bits", || w32(&gicd, 0x40, 1 << 16 | 32));
    refused("reserved bits 0x1", || w32(&gicr, GICR_WAKER, 1));
    refused("reserved bits", || w32(&gicr, GICR_CTLR, 1 << 24));
    refused("reserved bits", || icc.store(ICC_CTLR_EL1, 1 << 2));
    refused("reserved bits", || icc.store(ICC_PMR_EL1, 0x100));
    refused("reserved bits", || icc.store(ICC_BPR1_EL1, 8));
    refused("reserved bits", || icc.store(ICC_IGRPEN1_EL1, 2));
    refused("reserved bits", || icc.store(ICC_EOIR1_EL1, 1 << 24));
    let (_, lax) = machine(1, |gic| gic.strict(false));
    w32(&lax.gicd(), GICD_CTLR, 1 << 4 | 4);
    assert_eq!(r32(&lax.gicd(), GICD_CTLR), 0x50);
}

#[test]
fn registers_beyond_the_last_interrupt_are_refused() {
    let (_, model) = machine(1, |gic| gic.spis(64).espis(32).eppis(32));
    let (gicd, gicr) = (model.gicd(), model.gicr(0));
    wake(&model, 0);
    r32(&gicd, ISENABLER + 8);
    refused("64 SPIs end before", || r32(&gicd, ISENABLER + 12));
    refused("64 SPIs end before", || {
        Bus::<u8>::load(&gicd, IPRIORITYR + 96)
    });
    refused("no SPI 96", || Bus::<u64>::load(&gicd, IROUTER + 8 * 96));
    refused("32 extended SPIs end before", || w32(&gicd, 0x1204, 0));
    refused("no SPI 4128", || Bus::<u64>::load(&gicd, 0x8000 + 8 * 32));
    r32(&gicr, SGI_BASE + ISENABLER + 4);
    refused("32 extended PPIs", || r32(&gicr, SGI_BASE + ISENABLER + 8));
}

#[test]
fn interrupts_1020_to_1023_are_zero_in_the_last_word() {
    let (_, model) = machine(1, |gic| gic.spis(988));
    let gicd = model.gicd();
    refused("reserved bits 0xf0000000", || {
        w32(&gicd, ISENABLER + 4 * 31, !0)
    });
    refused("reserved bits 0xff", || w32(&gicd, IPRIORITYR + 1020, 0xff));
    w32(&gicd, ISENABLER + 4 * 31, !0 >> 4);
    assert_eq!(r32(&gicd, ISENABLER + 4 * 31), 0x0fff_ffff);
    assert_eq!(Bus::<u8>::load(&gicd, IPRIORITYR + 1020), 0);
    refused("no SPI 1020", || {
        Bus::<u64>::load(&gicd, IROUTER + 8 * 1020)
    });
}

#[test]
fn the_distributor_has_no_private_interrupts() {
    let (_, model) = plain(1);
    let gicd = model.gicd();
    for offset in [
        IGROUPR,
        ISENABLER,
        ICENABLER,
        ICPENDR,
        ICACTIVER,
        IPRIORITYR + 31,
        ICFGR + 4,
    ] {
        refused("redistributor's SGI frame", || {
            if offset == IPRIORITYR + 31 {
                Bus::<u8>::store(&gicd, offset, 0);
            } else {
                w32(&gicd, offset, 0);
            }
        });
    }
    refused("reserved with ARE=1", || w32(&gicd, 0x820, 0x0101_0101));
    refused("reserved with ARE=1", || w32(&gicd, 0xf00, 0));
}

#[test]
fn routes_are_indexed_by_intid() {
    let (_, model) = plain(1);
    refused("the first one, of INTID 32, is at 0x6100", || {
        Bus::<u64>::store(&model.gicd(), IROUTER, 0)
    });
    refused("at 0x6100", || Bus::<u64>::store(&model.gicd(), 0x60f8, 0));
}

#[test]
fn one_of_n_routing_needs_its_support() {
    let (_, model) = machine(1, |gic| gic.no1n(true));
    refused("1-of-N is not supported", || {
        Bus::<u64>::store(&model.gicd(), IROUTER + 8 * 32, 1 << 31)
    });
}

#[test]
fn are_is_set_alone_and_never_cleared() {
    let off = || machine(1, |gic| gic.are(Are::Off)).1.gicd();
    refused("write ARE alone first", || {
        w32(&off(), GICD_CTLR, 1 << 4 | 2)
    });
    let enabled = off();
    w32(&enabled, GICD_CTLR, 2);
    refused("ARE changes while a group is enabled", || {
        w32(&enabled, GICD_CTLR, 1 << 4)
    });
    w32(&enabled, GICD_CTLR, 0);
    refused("or RWP is still 1", || w32(&enabled, GICD_CTLR, 1 << 4));
    assert_eq!(r32(&enabled, GICD_CTLR) >> 31, 0);
    refused("IROUTER is reserved while ARE is 0", || {
        Bus::<u64>::store(&enabled, IROUTER + 8 * 32, 0)
    });
    w32(&enabled, GICD_CTLR, 1 << 4);
    let route = || Bus::<u64>::store(&enabled, IROUTER + 8 * 32, 0);
    refused("before RWP is 0 after the change of ARE", || {
        w32(&enabled, GICD_CTLR, 1 << 4 | 2)
    });
    refused("before RWP is 0 after the change of ARE", route);
    r32(&enabled, GICD_CTLR);
    route();
    w32(&enabled, GICD_CTLR, 1 << 4 | 2);
    refused("ARE goes from 1 to 0", || w32(&enabled, GICD_CTLR, 0));
    let (_, on) = machine(1, |gic| gic.are(Are::On));
    refused("ARE goes from 1 to 0", || w32(&on.gicd(), GICD_CTLR, 0));
    w32(&plain(1).1.gicd(), GICD_CTLR, 0);
}

#[test]
fn triggers_and_priorities_change_only_while_disabled() {
    let (_, model) = machine(1, |gic| gic.gicd_rwp(Delay::Polls(1)));
    let gicd = model.gicd();
    w32(&gicd, ISENABLER + 4, 1);
    refused("UNPREDICTABLE: the trigger of interrupt 32", || {
        w32(&gicd, ICFGR + 8, 2)
    });
    refused("the priority of interrupt 32", || {
        Bus::<u8>::store(&gicd, IPRIORITYR + 32, 0x80)
    });
    refused("the group of interrupt 32", || w32(&gicd, IGROUPR + 4, 1));
    w32(&gicd, ICFGR + 8, 2 << 2);
    Bus::<u8>::store(&gicd, IPRIORITYR + 33, 0x80);
    w32(&gicd, ICENABLER + 4, 1);
    refused("its disable is not complete", || {
        w32(&gicd, ICFGR + 8, 2 << 2 | 2)
    });
    refused("its disable is not complete", || {
        w32(&gicd, IPRIORITYR + 32, 0x80)
    });
    while r32(&gicd, GICD_CTLR) >> 31 != 0 {}
    w32(&gicd, ICFGR + 8, 2);
    Bus::<u8>::store(&gicd, IPRIORITYR + 32, 0x80);
    let (_, lax) = machine(1, |gic| gic.strict_priority(false));
    w32(&lax.gicd(), ISENABLER + 4, 1);
    Bus::<u8>::store(&lax.gicd(), IPRIORITYR + 32, 0x80);
}

#[test]
fn a_private_disable_completes_by_bit_3_of_its_own_redistributor() {
    let (_, model) = machine(2, |gic| gic.gicr_rwp(Delay::Polls(1)));
    let gicr = model.gicr(0);
    wake(&model, 0);
    wake(&model, 1);
    w32(&gicr, SGI_BASE + ISENABLER, 1 << 20);
    w32(&gicr, SGI_BASE + ICENABLER, 1 << 20);
    let set = || Bus::<u8>::store(&gicr, SGI_BASE + IPRIORITYR + 20, 0x40);
    // The distributor's RWP, the other redistributor's, and bit 31 of the right register.
    assert_eq!(r32(&model.gicd(), GICD_CTLR) >> 31, 0);
    assert_eq!(r32(&gicr, 0x2_0000 + GICR_CTLR) & 8, 0);
    assert_eq!(r32(&gicr, GICR_CTLR) >> 31, 0);
    refused("its disable is not complete", set);
    assert_eq!(r32(&gicr, GICR_CTLR) & 8, 0);
    set();
}

#[test]
fn messages_need_mbis_and_an_spi() {
    let (_, model) = plain(1);
    refused("MBIS is 0", || w32(&model.gicd(), 0x40, 32));
    let (_, model) = machine(1, |gic| gic.mbis(true));
    refused("no SPI of this machine", || w32(&model.gicd(), 0x40, 31));
    refused("no SPI of this machine", || w32(&model.gicd(), 0x40, 256));
}

#[test]
fn an_end_mirrors_its_acknowledge() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    for (intid, priority) in [(40_u32, 0xa0), (41, 0x40)] {
        Bus::<u8>::store(&model.gicd(), IPRIORITYR + intid as usize, priority);
        w32(&model.gicd(), ISENABLER + 4, 1 << (intid - 32));
    }
    refused("no acknowledge precedes", || eoi(&icc, 40));
    model.line(40).assert();
    ack(&icc);
    model.line(41).assert();
    assert_eq!(ack(&icc), 41);
    refused("interrupt 41 is the innermost one", || eoi(&icc, 40));
    eoi(&icc, 41);
    eoi(&icc, 40);
    refused("no acknowledge precedes", || eoi(&icc, 40));
}

#[test]
fn special_numbers_are_never_ended() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    assert_eq!(ack(&icc), 1023);
    for intid in 1020..1024 {
        refused("special interrupt numbers are never ended", || {
            eoi(&icc, intid)
        });
    }
}

#[test]
fn the_acknowledge_is_complete_before_the_end() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    w32(&model.gicd(), ISENABLER + 4, 1 << 8);
    model.line(40).assert();
    icc.load(ICC_IAR1_EL1);
    icc.synchronize();
    refused("no dsb sy", || eoi(&icc, 40));
    icc.publish();
    refused("no dsb sy", || eoi(&icc, 40));
    model.gicd().complete();
    refused("no isb after the dsb sy", || eoi(&icc, 40));
    icc.synchronize();
    eoi(&icc, 40);
}

#[test]
fn a_deactivation_of_its_own_needs_eoimode_1_and_an_active_interrupt() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    refused("EOImode 0", || icc.store(ICC_DIR_EL1, 40));
    icc.store(ICC_CTLR_EL1, 2);
    refused("not active", || icc.store(ICC_DIR_EL1, 40));
    refused("LPIs have no active state", || icc.store(ICC_DIR_EL1, 8192));
    refused("special", || icc.store(ICC_DIR_EL1, 1023));
    refused("no such interrupt", || icc.store(ICC_DIR_EL1, 900));
}

#[test]
fn eoimode_does_not_change_under_a_handler() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    w32(&model.gicd(), ISENABLER + 4, 1 << 8);
    model.line(40).assert();
    ack(&icc);
    refused("EOImode changes", || icc.store(ICC_CTLR_EL1, 2));
    icc.store(ICC_CTLR_EL1, 0);
}

#[test]
fn active_priorities_take_zero_or_what_they_read() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    icc.store(ICC_AP1R0_EL1, icc.load(ICC_AP1R0_EL1));
    refused("neither zero nor the value read before", || {
        icc.store(ICC_AP1R0_EL1, 1)
    });
}

#[test]
fn a_cpu_reaches_its_own_interface_only() {
    let (sim, model) = running(2);
    sim.as_cpu(1, |_| {
        refused("cpu1 uses ICC_PMR_EL1 of cpu0", || {
            model.icc(0).load(ICC_PMR_EL1)
        });
        assert_eq!(model.sysregs().load(ICC_PMR_EL1), 0xf8);
    });
}
