// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hypervisor page of the thread interrupt management area, as far as it is used here: the
//! ring PHYS of the thread that makes the access. Each register has one width.

/// CPPR of the ring, 1 byte, store. What is above 7 becomes 0xff.
pub const PHYS_CPPR: usize = 0x31;
/// Byte 0 of the ring's word 2, 1 byte, load and store.
pub const PHYS_WORD2: usize = 0x38;
/// In [`PHYS_WORD2`]: the thread's virtual processor is valid.
pub const VT: u8 = 0x80;
/// Acknowledges the hypervisor's interrupt, 2 bytes, load: the NSR before in the high byte, CPPR
/// after in the low one.
pub const ACK_HV: usize = 0x830;

/// In an acknowledge: what was pending. 0 is nothing, and then CPPR is as before.
pub const HE: u16 = 0xc000;
/// In [`HE`]: something of the ring PHYS.
pub const HE_PHYS: u16 = 0x8000;

/// What the page covers at least.
pub const FRAME: usize = 0x1000;
