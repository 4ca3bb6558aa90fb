// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driver for Arm's GICv3 and GICv4 interrupt controllers.
//!
//! # Vocabulary
//! - *INTID*: the controller's number of an interrupt, [`IntId`]; *irq* is ours, dense.
//! - *private*: of one CPU (SGI, PPI, extended PPI); *shared*: SPI, extended SPI.
//! - *distributor* (GICD): one for the machine; *redistributor* (GICR): one for each CPU;
//!   *CPU interface* (ICC): system registers of each CPU.
//! - *mask*: disable at the distributor or redistributor; the *priority mask* is another thing.
//!
//! # Parts
//! Each block works alone, with hardware numbers: [`Distributor`], [`RedistributorMap`] and
//! [`Redistributor`], [`CpuInterface`]. [`Gic`] puts them together under irq-core's traits.
//!
//! ```text
//!            Gic  (irq numbers, Flow, Kick, Lines, CPUs)
//!   Distributor   RedistributorMap -> Redistributor   CpuInterface
//!        regs::gicd, regs::bank   regs::gicr, regs::bank   regs::icc
//!                     irq_hal::Bus (hardware, model, qtest)
//! ```
//!
//! `boards/virt/src/interrupts.rs` of this project's repository is a worked example: a kernel's
//! use of all of it, from the devicetree to the entry.
//!
//! Facts come from the architecture specification, Arm IHI 0069, which is cited by section
//! title.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod affinity;
pub mod cpu_interface;
pub mod distributor;
pub mod error;
pub mod fdt;
pub mod gic;
pub mod intid;
pub mod layout;
pub mod priority;
pub mod quirks;
pub mod redistributor;
pub mod regs;
pub mod sgi;
pub mod sysregs;

pub use affinity::{Mpidr, Route};
pub use cpu_interface::{CpuInterface, EoiMode};
pub use distributor::Distributor;
pub use error::ProbeError;
pub use gic::{Config, Description, Gic};
pub use intid::{IntId, Kind};
pub use priority::Priority;
pub use redistributor::{Redistributor, RedistributorMap};
pub use sgi::{Sgi, SgiTarget};
pub use sysregs::SysRegs;

/// The example of the README, which has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
