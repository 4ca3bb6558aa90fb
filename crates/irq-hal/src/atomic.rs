// SPDX-License-Identifier: MIT OR Apache-2.0
//! The atomics of every crate of this project, so that tests can look at them.
//!
//! Normally these are core's. Under `--cfg loom` they are loom's, and every interleaving is
//! tried; under `--cfg irq_trace` they log CPU, cache line and kind of each access. No cargo
//! feature does either.

#[cfg(not(any(loom, irq_trace)))]
pub use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(irq_trace)]
pub use trace::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(irq_trace)]
pub use core::sync::atomic::{Ordering, fence};

#[cfg(irq_trace)]
pub mod trace;
