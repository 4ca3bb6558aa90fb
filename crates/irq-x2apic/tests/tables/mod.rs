// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of QEMU's q35 (see `fixtures/README.md`), and ones made by hand.
#![allow(dead_code, reason = "each test program uses a part")]

use irq_hal::Error;
use irq_x2apic::ApicId;

/// The bytes of a table in `fixtures`.
macro_rules! fixture {
    ($name:literal) => {
        &include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/",
            $name
        ))[..]
    };
}
pub(crate) use fixture;

/// Sets length and checksum of a table to what it holds.
pub fn seal(table: &mut [u8]) {
    let len = table.len() as u32;
    table[4..8].copy_from_slice(&len.to_le_bytes());
    table[9] = 0;
    let sum = table.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    table[9] = sum.wrapping_neg();
}

/// A table with a header, the fixed part `fixed` and these entries.
pub fn table(signature: &[u8; 4], revision: u8, fixed: &[u8], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut table = vec![0; 36];
    table[..4].copy_from_slice(signature);
    table[8] = revision;
    table.extend_from_slice(fixed);
    table.extend(entries.iter().flatten());
    seal(&mut table);
    table
}

pub fn id(id: u32) -> ApicId {
    ApicId::new(id).unwrap()
}

pub fn wrong<T>(what: &'static str, at: u64) -> Result<T, Error> {
    Err(Error::Firmware { what, at })
}
