// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driver for the local APIC of x86-64 CPUs, in x2APIC mode.
//!
//! # Vocabulary
//! - *vector*: the CPU's number of an interrupt, [`Vector`]; *irq* is ours, dense. Each CPU has
//!   all vectors for itself.
//! - *id*: the hardware's name of a CPU, [`ApicId`]; never an index.
//! - *cluster*: the CPUs whose ids agree in all but the lower 4 bits; one write reaches those of
//!   a cluster.
//! - *LVT*: the local vector table, what the CPU's own sources (timer, errors, pins, counters,
//!   sensors) deliver.
//! - *waits* (IRR): a vector was accepted; *in service* (ISR): the CPU took it; *EOI* ends the
//!   highest one in service.
//! - *disabled by software*: `SVR[8]` is 0. No vector is accepted, every LVT entry is masked.
//!
//! # Parts
//! Each block works alone, with hardware numbers: [`LocalApic`], [`timer::Timer`],
//! [`pic::Pics8259`], [`start::Starter`]. [`Apic`] puts them together under irq-core's traits.
//!
//! ```text
//!          Apic  (irq numbers, Flow, Kick, Lines, CPUs)
//!   LocalApic    timer::Timer    start::Starter    pic::Pics8259
//!         regs::apic, regs::lvt, ipi                     ports
//!                irq_hal::Bus (hardware, model)
//! ```
//!
//! `boards/q35/src/interrupts.rs` of this project's repository is a worked example: a kernel's
//! use of all of it, from the firmware's tables to the entry.
//!
//! Facts come from Intel's Software Developer's Manual, volume 3, chapter "Advanced Programmable
//! Interrupt Controller (APIC)", which is cited by section title.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod apic;
pub mod cpuid;
mod errata;
pub mod error;
pub mod id;
pub mod ipi;
pub mod local_apic;
pub mod mode;
pub mod msrs;
pub mod pic;
pub mod regs;
pub mod start;
pub mod timer;
pub mod vector;

pub use apic::{Apic, Config, Description};
pub use cpuid::{CpuId, NativeCpuId};
pub use error::ProbeError;
pub use id::ApicId;
pub use local_apic::LocalApic;
pub use msrs::{Msrs, Ports};
pub use pic::Pics;
pub use vector::Vector;

/// The example of the README, which has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
