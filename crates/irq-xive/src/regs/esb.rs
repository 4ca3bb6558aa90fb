// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a source. An operation is chosen by the offset into a page; every access is 8
//! bytes wide. Loads change the state, but for [`GET`].

/// Loads: the state becomes what an end makes of it, and a source with a line looks at the line.
pub const LOAD_EOI: usize = 0x000;
/// Stores: an end, of sources that have [`Flags::STORE_EOI`](crate::opal::Flags::STORE_EOI).
pub const STORE_EOI: usize = 0x400;
/// Loads: the state, and nothing else happens.
pub const GET: usize = 0x800;
/// Loads: the state before; it becomes P=0 Q=0. The others follow 0x100 apart, by P and Q.
pub const SET_PQ_00: usize = 0xc00;
/// To be added to the offset of a load that must not overtake an earlier [`STORE_EOI`].
pub const ORDERED: usize = 0x40;
/// Stores to the trigger page: an event.
pub const TRIGGER: usize = 0x000;

/// What a frame covers at least.
pub const FRAME: usize = 0x1000;
/// P in what a load gives.
pub const P: u64 = 0x2;
/// Q in what a load gives.
pub const Q: u64 = 0x1;
