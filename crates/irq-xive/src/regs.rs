// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers: offsets, fields, and the kind of access that each allows. No sequence and no
//! opinion. All are big-endian; frames are 64 KiB, or 4 KiB for some sources.

pub mod esb;
pub mod tima;
