// SPDX-License-Identifier: MIT OR Apache-2.0
//! Little-endian fields at any alignment.

use super::firmware;
use crate::Error;

/// The `N` bytes at `offset` of `bytes`, or nothing if they reach beyond the end.
pub(super) fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// As [`field`], with an error that names the first byte of the field: `base` is where `bytes`
/// begin in their table.
pub(super) fn expect<const N: usize>(
    bytes: &[u8],
    offset: usize,
    what: &'static str,
    base: usize,
) -> Result<[u8; N], Error> {
    field(bytes, offset).ok_or(firmware(what, base))
}

/// The sum of `bytes`, which is 0 in a structure whose checksum is right.
pub(super) fn sum(bytes: &[u8]) -> u8 {
    bytes
        .iter()
        .fold(0, |sum: u8, &byte| sum.wrapping_add(byte))
}
