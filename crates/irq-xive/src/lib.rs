// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driver for the XIVE interrupt controllers of POWER9 and POWER10, under OPAL firmware.
//!
//! # Vocabulary
//! - *source*: whatever can raise an interrupt. Firmware names it by a [`SourceNumber`]; *irq* is
//!   our number, dense.
//! - *ESB*: the pages of a source, [`Esb`], with its two bits P (an event is under way) and Q
//!   (another one came meanwhile).
//! - *EAS*: where a source's events go: a CPU, a priority, and a number of ours.
//! - *queue*: memory in which the controller leaves those numbers, [`EventQueue`]; one for each
//!   CPU. IPIs do without: their priority says it all.
//! - *TIMA*: the page through which a CPU takes interrupts, [`Tima`]; each CPU sees its own
//!   state there.
//! - *CPPR*: a CPU's current priority, part of that state. What is not more favoured than it
//!   waits; 0 lets nothing in, 0xff everything.
//! - *MSI, LSI*: a source raised by messages, or as long as a line is high.
//! - *park*: keep a source's events from the CPU and remember them; *off* forgets them.
//!
//! # Parts
//! Each block works alone, with hardware numbers: [`Opal`], [`Esb`], [`EventQueue`], [`Tima`].
//! [`Xive`] puts them together under irq-core's traits.
//!
//! ```text
//!            Xive  (irq numbers, Flow, Kick, Lines, CPUs)
//!   Opal          Esb            Tima          EventQueue
//!   Firmware      regs::esb      regs::tima    irq_hal::dma
//!                 irq_hal::Bus (hardware, model)
//! ```
//! Two *ends* belong to an interrupt: the one of its source, at the ESB, and the CPU's, which is a
//! store to CPPR. Neither replaces the other.
//!
//! `boards/powernv/src/interrupts.rs` of this project's repository is a worked example: a
//! kernel's use of all of it, from the devicetree to the entry.
//!
//! IBM publishes no manual of the controller. Facts come from firmware, kernels and emulators in
//! the open, and are named as they name them.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod error;
pub mod esb;
pub mod fdt;
pub mod firmware;
pub mod ids;
pub mod layout;
pub mod opal;
pub mod queue;
pub mod regs;
pub mod tima;
pub mod xive;

pub use error::{OpalError, ProbeError};
pub use esb::{Eoi, Esb, Pq};
pub use firmware::{Firmware, Window};
pub use ids::{ChipId, Pir, Priority, SourceNumber};
pub use opal::Opal;
pub use queue::EventQueue;
pub use tima::Tima;
pub use xive::{Config, Description, Provision, Thread, Xive};

/// The example of the README, which has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
