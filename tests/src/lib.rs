// SPDX-License-Identifier: MIT OR Apache-2.0
//! What host scenario tests share. The scenarios are in `tests/`, one file per lesson.

extern crate alloc;

pub mod bare;
pub mod gicv3;
pub mod heap;
pub mod hermit;
#[cfg(irq_trace)]
pub mod lines;
pub mod machine;
pub mod msrs;
pub mod naive;
pub mod pair;
pub mod pairwise;
pub mod peer;
pub mod plain;
pub mod refused;
pub mod scan;
pub mod storm;
pub mod system;
pub mod x2apic;
pub mod xive;

/// The example of the project's README, which has to compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
