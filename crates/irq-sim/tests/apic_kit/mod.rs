// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the local APIC model share: raw register steps, without any driver.
#![allow(dead_code, reason = "each test binary uses a part")]

use irq_hal::{Barrier, Bus};
use irq_sim::SimPlatform;
use irq_sim::apic::msr::*;
use irq_sim::apic::{ApicBuilder, ApicModel, Mode};

/// A command word of the ICR: fixed mode, asserted.
pub const FIXED: u64 = 0x4000;
pub const NMI: u64 = 0x4400;
pub const INIT: u64 = 0x4500;
pub const SIPI: u64 = 0x4600;
pub const LOGICAL: u64 = 1 << 11;
/// The mask bit of an LVT entry.
pub const MASKED: u64 = 1 << 16;

/// A machine with `cpus` CPUs, described by `describe`.
pub fn machine(
    cpus: u32,
    describe: impl FnOnce(ApicBuilder) -> ApicBuilder,
) -> (SimPlatform, ApicModel) {
    let sim = SimPlatform::new(cpus);
    let model = describe(ApicModel::builder(&sim)).build();
    (sim, model)
}

/// A machine in x2APIC mode, all APICs enabled by software.
pub fn running_with(
    cpus: u32,
    describe: impl FnOnce(ApicBuilder) -> ApicBuilder,
) -> (SimPlatform, ApicModel) {
    let (sim, model) = machine(cpus, |apic| describe(apic.mode(Mode::X2apic)));
    for cpu in 0..cpus {
        on(&model, cpu, || write(&model, IA32_X2APIC_SIVR, 0x1ff));
    }
    (sim, model)
}

/// A plain machine in x2APIC mode, all APICs enabled by software.
pub fn running(cpus: u32) -> (SimPlatform, ApicModel) {
    running_with(cpus, |apic| apic)
}

/// Runs `act` as `cpu`.
pub fn on<R>(model: &ApicModel, cpu: u32, act: impl FnOnce() -> R) -> R {
    model.sim().as_cpu(cpu, |_| act())
}

/// Reads an MSR.
pub fn read(model: &ApicModel, msr: usize) -> u64 {
    model.msrs().load(msr)
}

/// Writes an MSR.
pub fn write(model: &ApicModel, msr: usize, value: u64) {
    model.msrs().store(msr, value);
}

/// Publishes, and writes a command to the ICR.
pub fn send(model: &ApicModel, destination: u32, command: u64) {
    model.msrs().publish();
    write(
        model,
        IA32_X2APIC_ICR,
        u64::from(destination) << 32 | command,
    );
}

/// The errors, by the protocol.
pub fn errors(model: &ApicModel) -> u64 {
    write(model, IA32_X2APIC_ESR, 0);
    read(model, IA32_X2APIC_ESR)
}

/// Ends the interrupt in service.
pub fn eoi(model: &ApicModel) {
    write(model, IA32_X2APIC_EOI, 0);
}

/// `cpu` takes one interrupt and ends it: its vector.
pub fn take(model: &ApicModel, cpu: u32) -> Option<u8> {
    let mut taken = None;
    model.take(cpu, |_, vector| {
        taken = Some(vector);
        eoi(model);
    });
    taken
}

/// Who has `vector` requested.
pub fn who(model: &ApicModel, vector: u8) -> Vec<u32> {
    (0..model.sim().cpus())
        .filter(|cpu| model.irr(*cpu).contains(&vector))
        .collect()
}
