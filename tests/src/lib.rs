// SPDX-License-Identifier: MIT OR Apache-2.0
//! What host scenario tests share. The scenarios are in `tests/`, one file per lesson.

pub mod gicv3;
