// SPDX-License-Identifier: MIT OR Apache-2.0
//! What host scenario tests share. The scenarios are in `tests/`, one file per lesson.

pub mod gicv3;

/// The example of the project's README, which has to compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
