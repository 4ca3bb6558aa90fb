// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two security states, as the non-secure kernel and as firmware see them.

mod kit;

use irq_hal::{Barrier, Bus};
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{Are, GicModel, Group, Security};
use kit::*;

const SPI: u32 = 40;

fn two(fiq: bool) -> GicModel {
    machine(1, |gic| gic.security(Security::Two { fiq })).1
}

fn opened(model: &GicModel) {
    w32(&model.gicd(), GICD_CTLR, 1 << 4 | 2);
    interface_up(&model.icc(0));
}

#[test]
fn the_distributor_shows_each_view_its_own_layout() {
    let model = two(true);
    let (kernel, firmware) = (model.gicd(), model.gicd().secure());
    assert_eq!(r32(&kernel, GICD_CTLR), 1 << 4, "ARE_NS");
    assert_eq!(r32(&firmware, GICD_CTLR), 3 << 4, "ARE_S, ARE_NS");
    assert_eq!(r32(&kernel, GICD_TYPER) >> 10 & 1, 1, "SecurityExtn");
    w32(&kernel, GICD_CTLR, 1 << 4 | 2);
    assert_eq!(r32(&firmware, GICD_CTLR), 3 << 4 | 2, "EnableGrp1NS");
    w32(&firmware, GICD_CTLR, 3 << 4 | 7);
    assert_eq!(r32(&kernel, GICD_CTLR), 1 << 4 | 2);
    refused("reserved bits 0x40", || w32(&kernel, GICD_CTLR, 1 << 6));
}

#[test]
fn without_are_the_kernel_enables_group_1_by_bit_0() {
    let (_, model) = machine(1, |gic| {
        gic.security(Security::Two { fiq: true }).are(Are::Off)
    });
    let gicd = model.gicd();
    assert_eq!(r32(&gicd, GICD_CTLR), 0);
    w32(&gicd, GICD_CTLR, 1);
    assert_eq!(r32(&gicd, GICD_CTLR), 1);
    w32(&gicd, GICD_CTLR, 0);
    r32(&gicd, GICD_CTLR);
    w32(&gicd, GICD_CTLR, 1 << 4);
    r32(&gicd, GICD_CTLR);
    w32(&gicd, GICD_CTLR, 1 << 4 | 1);
    assert_eq!(
        r32(&gicd, GICD_CTLR),
        1 << 4,
        "with ARE_NS bit 0 does nothing"
    );
    w32(&gicd, GICD_CTLR, 1 << 4 | 3);
    assert_eq!(r32(&gicd, GICD_CTLR), 1 << 4 | 2);
}

#[test]
fn the_kernels_priorities_lie_in_the_upper_half() {
    let model = two(true);
    let (kernel, firmware) = (model.gicd(), model.gicd().secure());
    let at = IPRIORITYR + SPI as usize;
    Bus::<u8>::store(&kernel, at, 0xa0);
    assert_eq!(model.source(SPI).priority, 0xd0);
    assert_eq!(
        (Bus::<u8>::load(&kernel, at), Bus::<u8>::load(&firmware, at)),
        (0xa0, 0xd0)
    );
    Bus::<u8>::store(&kernel, at, 0xff);
    assert_eq!(
        (Bus::<u8>::load(&kernel, at), model.source(SPI).priority),
        (0xf0, 0xf8)
    );
    Bus::<u8>::store(&firmware, at, 0x40);
    assert_eq!(Bus::<u8>::load(&kernel, at), 0);
}

#[test]
fn secure_interrupts_are_zero_for_the_kernel() {
    let (_, model) = machine(1, |gic| {
        gic.security(Security::Two { fiq: true })
            .secure_sources(vec![8, 41])
    });
    let (kernel, firmware) = (model.gicd(), model.gicd().secure());
    w32(&firmware, ISENABLER + 4, 1 << 9);
    Bus::<u8>::store(&kernel, IPRIORITYR + 41, 0xa0);
    w32(&kernel, ISPENDR + 4, 3 << 8);
    w32(&kernel, ICENABLER + 4, !0);
    Bus::<u64>::store(&kernel, IROUTER + 8 * 41, 1);
    let source = model.source(41);
    assert_eq!(source.group, Group::Zero);
    assert!(source.enabled && !source.pending && source.priority == 0x80 && source.route == 0);
    assert!(model.source(40).pending);
    assert_eq!(r32(&kernel, ISENABLER + 4), 0);
    assert_eq!(r32(&firmware, ISENABLER + 4), 1 << 9);
    let gicr = model.gicr(0);
    w32(&gicr, SGI_BASE + ISENABLER, !0);
    assert_eq!(r32(&gicr, SGI_BASE + ISENABLER), !(1 << 8));
}

#[test]
fn groups_are_firmwares() {
    let model = two(true);
    let (kernel, firmware) = (model.gicd(), model.gicd().secure());
    assert_eq!(r32(&kernel, IGROUPR + 4), 0, "reads as zero");
    w32(&kernel, IGROUPR + 4, 0);
    assert_eq!(r32(&firmware, IGROUPR + 4), !0);
    w32(&firmware, IGROUPR + 4, !1);
    w32(&firmware, IGRPMODR + 4, 1);
    assert_eq!(model.source(32).group, Group::OneSecure);
    w32(&kernel, IGRPMODR + 4, 0);
    assert_eq!(model.source(32).group, Group::OneSecure);
}

#[test]
fn the_kernel_finds_its_redistributor_awake_and_waker_zero() {
    let model = two(true);
    let gicr = model.gicr(0);
    assert!(model.awake(0));
    assert_eq!(r32(&gicr, GICR_WAKER), 0);
    w32(&gicr, GICR_WAKER, 2);
    assert_eq!(
        r32(&gicr.clone().secure(), GICR_WAKER),
        0,
        "written by nobody"
    );
    w32(&gicr.secure(), GICR_WAKER, 2);
    let (_, open) = machine(1, |gic| {
        gic.security(Security::Two { fiq: true }).ns_waker(true)
    });
    w32(&open.gicr(0), GICR_WAKER, 2);
    assert_ne!(r32(&open.gicr(0), GICR_WAKER), 0);
}

/// The mask and the priority that a kernel reads after writing both.
fn mask_and_running(model: &GicModel, pmr: u64, distributor: u8) -> (u64, u64) {
    let icc = model.icc(0);
    opened(model);
    Bus::<u8>::store(&model.gicd(), IPRIORITYR + SPI as usize, distributor);
    w32(&model.gicd(), ISENABLER + 4, 1 << (SPI - 32));
    icc.store(ICC_PMR_EL1, pmr);
    model.line(SPI).assert();
    if !model.signalled(0) {
        return (icc.load(ICC_PMR_EL1), 0xff);
    }
    assert_eq!(ack(&icc), SPI.into());
    (icc.load(ICC_PMR_EL1), icc.load(ICC_RPR_EL1))
}

#[test]
fn with_fiq_1_mask_and_running_priority_are_shifted_like_the_distributor() {
    assert_eq!(mask_and_running(&two(true), 0xe0, 0xc0), (0xe0, 0xc0));
    assert_eq!(
        mask_and_running(&two(true), 0xc0, 0xc0),
        (0xc0, 0xff),
        "masked by its own value"
    );
}

#[test]
fn with_fiq_0_only_the_distributor_is_shifted() {
    assert_eq!(
        mask_and_running(&two(false), 0xe0, 0xc0),
        (0xe0, 0xff),
        "0xe0 is not above 0xe0"
    );
    assert_eq!(mask_and_running(&two(false), 0xe8, 0xc0), (0xe8, 0xe0));
    assert_eq!(
        mask_and_running(&two(false), 0xe0, 0x80),
        (0xe0, 0xc0),
        "programmed as p << 1"
    );
}

#[test]
fn group_0_is_visible_by_the_lowest_mask_bit() {
    for (security, visible) in [
        (Security::One, true),
        (Security::Two { fiq: false }, true),
        (Security::Two { fiq: true }, false),
    ] {
        for bits in 4..=8 {
            let (_, model) = machine(1, |gic| {
                gic.security(security).priority_bits(bits).sre_on(true)
            });
            let icc = model.icc(0);
            icc.store(ICC_PMR_EL1, 1 << (8 - bits));
            assert_eq!(
                icc.load(ICC_PMR_EL1) != 0,
                visible,
                "{security:?} with {bits} bits"
            );
        }
    }
}

#[test]
fn hidden_group_0_registers_trap() {
    let model = two(true);
    opened(&model);
    let icc = model.icc(0);
    for register in [ICC_AP0R0_EL1, ICC_BPR0_EL1, ICC_IGRPEN0_EL1] {
        refused("trap to EL3", || icc.store(register, 0));
    }
    refused("trap to EL3", || icc.load(ICC_IAR0_EL1));
    let model = two(false);
    opened(&model);
    model.icc(0).store(ICC_AP0R0_EL1, 0);
}

#[test]
fn a_secure_interrupt_is_an_fiq_that_the_kernel_does_not_acknowledge() {
    let (_, model) = machine(1, |gic| {
        gic.security(Security::Two { fiq: true })
            .secure_sources(vec![SPI])
    });
    let firmware = model.gicd().secure();
    w32(&firmware, IGRPMODR + 4, 1 << (SPI - 32));
    Bus::<u8>::store(&firmware, IPRIORITYR + SPI as usize, 0x40);
    w32(&firmware, ISENABLER + 4, 1 << (SPI - 32));
    w32(&firmware, GICD_CTLR, 3 << 4 | 4);
    opened(&model);
    let secure = model.icc(0).secure();
    secure.store(ICC_AP1R0_EL1, 0);
    secure.synchronize();
    secure.store(ICC_IGRPEN1_EL1, 1);
    secure.synchronize();
    model.line(SPI).assert();
    assert_eq!((model.signalled(0), model.signalled_fiq(0)), (false, true));
    assert_eq!(model.icc(0).load(ICC_IAR1_EL1), 1023);
    assert_eq!(ack(&secure), SPI.into());
    assert_eq!(
        (secure.load(ICC_RPR_EL1), model.icc(0).load(ICC_RPR_EL1)),
        (0x40, 0)
    );
    refused("another group", || eoi(&model.icc(0), SPI.into()));
    eoi(&secure, SPI.into());
}

#[test]
fn a_mask_of_the_secure_side_cannot_be_opened_by_the_kernel() {
    let model = two(true);
    opened(&model);
    let (kernel, firmware) = (model.icc(0), model.icc(0).secure());
    firmware.store(ICC_PMR_EL1, 0x40);
    assert_eq!(kernel.load(ICC_PMR_EL1), 0);
    kernel.store(ICC_PMR_EL1, 0xf0);
    assert_eq!(firmware.load(ICC_PMR_EL1), 0x40);
}

#[test]
fn on_rk3399_the_kernel_reaches_the_secure_layout_and_sets_ds() {
    let (_, model) = machine(1, |gic| gic.rk3399());
    let gicd = model.gicd();
    assert_eq!(r32(&gicd, GICD_CTLR), 3 << 4, "DS is clear");
    w32(&gicd, GICD_CTLR, 3 << 4 | 1 << 6);
    while r32(&gicd, GICD_CTLR) >> 31 != 0 {}
    assert_eq!(r32(&gicd, GICD_CTLR), 1 << 6 | 1 << 4);
    assert_eq!(
        r32(&gicd, GICD_TYPER) >> 10 & 1,
        0,
        "one security state now"
    );
    Bus::<u8>::store(&gicd, IPRIORITYR + SPI as usize, 0xa0);
    assert_eq!(model.source(SPI).priority, 0xa0);
}

#[test]
fn ds_does_not_change_under_an_enabled_group() {
    let model = two(true);
    let firmware = model.gicd().secure();
    w32(&firmware, GICD_CTLR, 3 << 4 | 2);
    refused("DS changes while a group is enabled", || {
        w32(&firmware, GICD_CTLR, 3 << 4 | 1 << 6)
    });
}

#[test]
fn an_sgi_of_the_kernel_does_not_reach_a_secure_one() {
    let model = two(true);
    opened(&model);
    let icc = model.icc(0);
    send(&icc, 8 << 24 | 1);
    send(&icc, 7 << 24 | 1);
    assert!(!model.private_source(0, 8).pending && model.private_source(0, 7).pending);
    assert_eq!(model.strays().len(), 1);
}
