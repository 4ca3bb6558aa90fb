// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel in the shape of Hermit on aarch64, with our crates taken in.
//!
//! ```text
//! platform       what the kernel gives to the drivers: the Platform impl
//! with_core      the glue with irq-core
//! driver_alone   the glue with the driver's blocks and nothing of irq-core
//! kernel         the rest of the kernel, played by a modelled machine
//! ```
//! The first three are the glue that `docs/embedding.md` shows, word for word: a test compares
//! them. They use the kernel through `kernel` alone and know nothing of the model behind it.

pub mod driver_alone;
pub mod kernel;
pub mod platform;
pub mod with_core;
