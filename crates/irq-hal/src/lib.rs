// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam between interrupt-controller drivers and the machine they run on.
//!
//! Drivers are written against this crate alone: a [`Bus`] for each register
//! frame, the [`Platform`] trait for what only the embedding kernel can
//! do, [bounded waits](wait), [masking locks](lock), [per-CPU blocks](percpu) and one
//! [error type](error). Nothing here knows an interrupt controller.
//!
//! # Vocabulary
//! - *window*: a mapped piece of device address space, [`mmio::Mmio`].
//! - *frame*: one register bank inside a window, reached through a bus and an offset.
//! - *publish*: order earlier memory stores before a later device access (a doorbell).
//! - *mask*: make this CPU take no maskable interrupt until the saved state is restored.
#![cfg_attr(not(any(test, loom, irq_trace)), no_std)]

extern crate alloc;

pub mod access;
pub mod acpi;
pub mod atomic;
pub mod bus;
pub mod callback;
pub mod dma;
pub mod error;
pub mod exclusive;
pub mod heap;
pub mod ids;
pub mod lock;
pub mod log;
pub mod mmio;
pub mod percpu;
pub mod platform;
pub mod release;
pub mod removal;
pub mod wait;

pub use bus::{Barrier, Bus};
pub use error::{Error, ErrorKind, NoCpu};
pub use ids::{CpuIndex, NodeId, PhysAddr};
pub use mmio::Mmio;
pub use platform::Platform;
