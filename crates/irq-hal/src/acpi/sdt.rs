// SPDX-License-Identifier: MIT OR Apache-2.0
//! One whole table.

use super::fields::{expect, field, sum};
use super::{Entries, EntryHead, firmware};
use crate::Error;

/// The four letters that a table begins with, as `*b"APIC"`.
pub type Signature = [u8; 4];

/// A table whose length and checksum are right.
///
/// Source: ACPI Specification, "System Description Table Header".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sdt<'a> {
    bytes: &'a [u8],
}

impl<'a> Sdt<'a> {
    /// Bytes of the header that every table begins with.
    pub const HEADER: usize = 36;

    /// The table at the beginning of `bytes`, which may be followed by others.
    ///
    /// # Errors
    /// [`Error::Firmware`]: cut off, a length below that of the header, a checksum that is wrong.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let cut = firmware("table is cut off", bytes.len());
        if bytes.len() < Self::HEADER {
            return Err(cut);
        }
        let len = u32::from_le_bytes(field(bytes, 4).ok_or(cut)?) as usize;
        if len < Self::HEADER {
            return Err(firmware("table length", 4));
        }
        let bytes = bytes.get(..len).ok_or(cut)?;
        if sum(bytes) != 0 {
            return Err(firmware("table checksum", 9));
        }
        Ok(Self { bytes })
    }

    /// The table, if it is the one that `signature` names.
    ///
    /// # Errors
    /// [`Error::Firmware`] with `what` for another table, or one shorter than `fixed`: the bytes
    /// before its entries, header included.
    pub fn require(
        self,
        signature: Signature,
        fixed: usize,
        what: &'static str,
    ) -> Result<Self, Error> {
        if self.signature() != signature {
            return Err(firmware(what, 0));
        }
        if self.bytes.len() < fixed {
            return Err(firmware(what, 4));
        }
        Ok(self)
    }

    /// The four letters.
    pub fn signature(self) -> Signature {
        field(self.bytes, 0).unwrap_or_default()
    }

    /// The revision of the table's layout.
    pub fn revision(self) -> u8 {
        self.bytes[8]
    }

    /// The whole table, header included.
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The 4 bytes at `offset` of the table.
    ///
    /// # Errors
    /// [`Error::Firmware`] if they reach beyond the end.
    pub fn u32(self, offset: usize) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.field(offset)?))
    }

    /// The 8 bytes at `offset` of the table.
    ///
    /// # Errors
    /// As [`u32`](Self::u32).
    pub fn u64(self, offset: usize) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.field(offset)?))
    }

    fn field<const N: usize>(self, offset: usize) -> Result<[u8; N], Error> {
        expect(
            self.bytes,
            offset,
            "table too short for a field",
            self.bytes.len(),
        )
    }

    /// The entries from offset `first` to the end.
    pub fn entries<H: EntryHead>(self, first: usize) -> Entries<'a, H> {
        Entries::new(self.bytes, first)
    }
}
