// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers, in the manual's spelling: field layouts, offsets, and the kind of access
//! that each allows. No sequence and no opinion.

pub mod bank;
pub mod gicd;
pub mod gicr;
pub mod icc;

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus};

/// A bus for a memory-mapped frame of the GIC: 8, 32 and 64-bit accesses, barriers, a length.
/// Implemented by whatever has them.
pub trait Frame: Bus<u8> + Bus<u32> + Bus<u64> + Barrier + Extent {}

impl<B: Bus<u8> + Bus<u32> + Bus<u64> + Barrier + Extent> Frame for B {}

/// One frame is 64 KiB.
pub const FRAME: usize = 0x1_0000;

/// `GICD_PIDR2` and `GICR_PIDR2`: bits 7:4 hold the architecture's revision, 3 or 4.
pub const PIDR2: usize = 0xffe8;

/// The architecture's revision in a PIDR2 value, if it is one that this driver knows.
pub(crate) fn arch_revision(pidr2: u32) -> Option<u32> {
    let revision = pidr2 >> 4 & 0xf;
    matches!(revision, 3 | 4).then_some(revision)
}
