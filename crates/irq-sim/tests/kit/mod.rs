// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model's own tests share: raw register steps, written down without any driver.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use irq_hal::{Barrier, Bus};
use irq_sim::SimPlatform;
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{GicBuilder, GicBus, GicModel, IccBus};

pub const GICD_CTLR: usize = 0x0000;
pub const GICD_TYPER: usize = 0x0004;
pub const IROUTER: usize = 0x6000;
pub const GICR_CTLR: usize = 0x0000;
pub const GICR_TYPER: usize = 0x0008;
pub const GICR_WAKER: usize = 0x0014;
pub const GICR_PWRR: usize = 0x0024;
pub const SGI_BASE: usize = 0x1_0000;
pub const IGROUPR: usize = 0x0080;
pub const ISENABLER: usize = 0x0100;
pub const ICENABLER: usize = 0x0180;
pub const ISPENDR: usize = 0x0200;
pub const ICPENDR: usize = 0x0280;
pub const ISACTIVER: usize = 0x0300;
pub const ICACTIVER: usize = 0x0380;
pub const IPRIORITYR: usize = 0x0400;
pub const ICFGR: usize = 0x0c00;
pub const IGRPMODR: usize = 0x0d00;

/// A 32-bit load.
pub fn r32(bus: &GicBus, offset: usize) -> u32 {
    Bus::<u32>::load(bus, offset)
}

/// A 32-bit store.
pub fn w32(bus: &GicBus, offset: usize, value: u32) {
    Bus::<u32>::store(bus, offset, value);
}

/// Asserts that `act` is refused with a message that contains `rule`.
#[track_caller]
pub fn refused<R>(rule: &str, act: impl FnOnce() -> R) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(act)) else {
        panic!("the model let it pass; expected: {rule}")
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let text = text.expect("a panic with a text");
    assert!(text.contains(rule), "expected {rule:?} in {text:?}");
}

/// A plain machine with `cpus` CPUs.
pub fn plain(cpus: u32) -> (SimPlatform, GicModel) {
    machine(cpus, |gic| gic)
}

/// A machine with `cpus` CPUs, described by `describe`.
pub fn machine(
    cpus: u32,
    describe: impl FnOnce(GicBuilder) -> GicBuilder,
) -> (SimPlatform, GicModel) {
    let sim = SimPlatform::new(cpus);
    let model = describe(GicModel::builder(&sim)).build();
    (sim, model)
}

/// Wakes the redistributor of `cpu`, on that CPU; redistributors are two frames each, in the
/// first region, in the order of CPUs.
pub fn wake(model: &GicModel, cpu: u32) {
    let gicr = model.gicr(0);
    let waker = cpu as usize * 0x2_0000 + GICR_WAKER;
    model.sim().as_cpu(cpu, |_| {
        w32(&gicr, waker, 0);
        let awake = (0..100).any(|_| r32(&gicr, waker) & 4 == 0);
        assert!(awake, "the redistributor of cpu{cpu} stays asleep");
    });
}

/// Brings the CPU interface up, all priorities let through.
pub fn interface_up(icc: &IccBus) {
    icc.store(ICC_SRE_EL1, 7);
    icc.synchronize();
    icc.store(ICC_PMR_EL1, 0xff);
    icc.store(ICC_BPR1_EL1, 0);
    icc.store(ICC_AP1R0_EL1, 0);
    icc.synchronize();
    icc.store(ICC_IGRPEN1_EL1, 1);
    icc.synchronize();
}

/// Brings the whole machine up: one security state, ARE fixed, two-frame redistributors in
/// one region. Everything is Group 1, priority 0xa0, disabled; SPIs go to CPU 0.
pub fn up(model: &GicModel) {
    let gicd = model.gicd();
    let spis = (r32(&gicd, GICD_TYPER) & 0x1f) as usize;
    w32(&gicd, GICD_CTLR, 1 << 4);
    for word in 1..=spis {
        w32(&gicd, IGROUPR + 4 * word, !0);
        for quad in 0..8 {
            w32(&gicd, IPRIORITYR + 32 * word + 4 * quad, 0xa0a0_a0a0);
        }
    }
    w32(&gicd, GICD_CTLR, 1 << 4 | 1 << 1);
    for cpu in 0..model.sim().cpus() {
        model.sim().as_cpu(cpu, |_| cpu_up(model, cpu));
    }
}

/// Brings one CPU up, on that CPU.
pub fn cpu_up(model: &GicModel, cpu: u32) {
    let gicr = model.gicr(0);
    let rd = cpu as usize * 0x2_0000;
    wake(model, cpu);
    w32(&gicr, rd + SGI_BASE + IGROUPR, !0);
    for quad in 0..8 {
        w32(&gicr, rd + SGI_BASE + IPRIORITYR + 4 * quad, 0xa0a0_a0a0);
    }
    interface_up(&model.sysregs());
}

/// A plain machine that is up.
pub fn running(cpus: u32) -> (SimPlatform, GicModel) {
    let (sim, model) = plain(cpus);
    up(&model);
    (sim, model)
}

/// Acknowledges, with the barriers that the handler needs.
pub fn ack(icc: &IccBus) -> u64 {
    let intid = icc.load(ICC_IAR1_EL1);
    icc.complete();
    icc.synchronize();
    intid
}

/// Ends.
pub fn eoi(icc: &IccBus, intid: u64) {
    icc.store(ICC_EOIR1_EL1, intid);
}

/// Sends an SGI the right way.
pub fn send(icc: &IccBus, value: u64) {
    icc.publish();
    icc.store(ICC_SGI1R_EL1, value);
    icc.synchronize();
}
