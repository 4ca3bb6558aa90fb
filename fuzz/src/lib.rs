// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the targets share.

/// Sets the byte at `at` so that all of `bytes` sum to 0: without a right checksum, hardly an
/// input would get further than to it.
pub fn seal(bytes: &mut [u8], at: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = 0;
        let sum = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        bytes[at] = sum.wrapping_neg();
    }
}

/// The same for an ACPI table, whose length becomes that of `bytes`.
pub fn seal_table(bytes: &mut [u8]) {
    let len = bytes.len() as u32;
    if let Some(field) = bytes.get_mut(4..8) {
        field.copy_from_slice(&len.to_le_bytes());
    }
    seal(bytes, 9);
}

/// An error of a reader of `bytes` lies inside of them.
pub fn inside(bytes: &[u8], error: irq_hal::Error) {
    if let irq_hal::Error::Firmware { at, .. } = error {
        assert!(at <= bytes.len() as u64, "{error}");
    }
}
