// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed entries one behind the other.

use core::marker::PhantomData;

use super::fields::expect;
use super::firmware;
use crate::Error;

/// How the entries of a table begin: the one thing in which the walks differ.
pub trait EntryHead {
    /// Bytes of type and length together.
    const LEN: usize;

    /// Type, and length of the whole entry in bytes, from its first [`LEN`](Self::LEN) bytes.
    fn read(head: &[u8]) -> (u16, usize);
}

/// A type of one byte, then a length of one byte: MADT, SRAT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteHead;

impl EntryHead for ByteHead {
    const LEN: usize = 2;

    fn read(head: &[u8]) -> (u16, usize) {
        (head[0].into(), head[1].into())
    }
}

/// One entry, wholly inside its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    kind: u16,
    at: usize,
    bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Its type.
    pub const fn kind(self) -> u16 {
        self.kind
    }

    /// Its offset in the table.
    pub const fn at(self) -> usize {
        self.at
    }

    /// All its bytes, type and length included.
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The byte at `offset` of the entry.
    ///
    /// # Errors
    /// [`Error::Firmware`] at the entry if it is too short; so for the other widths.
    pub fn u8(self, offset: usize) -> Result<u8, Error> {
        Ok(u8::from_le_bytes(self.field(offset)?))
    }

    /// The 2 bytes at `offset` of the entry.
    ///
    /// # Errors
    /// As [`u8`](Self::u8).
    pub fn u16(self, offset: usize) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.field(offset)?))
    }

    /// The 4 bytes at `offset` of the entry.
    ///
    /// # Errors
    /// As [`u8`](Self::u8).
    pub fn u32(self, offset: usize) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.field(offset)?))
    }

    /// The 8 bytes at `offset` of the entry.
    ///
    /// # Errors
    /// As [`u8`](Self::u8).
    pub fn u64(self, offset: usize) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.field(offset)?))
    }

    fn field<const N: usize>(self, offset: usize) -> Result<[u8; N], Error> {
        expect(self.bytes, offset, "entry too short for its type", self.at)
    }
}

/// The walk over a table's entries, by their lengths.
///
/// It ends at the table's end, or behind the first error: an entry whose length is below that
/// of its head, 0 above all, or that reaches beyond the table. Each step moves on by at least
/// the head's length.
#[derive(Debug)]
pub struct Entries<'a, H = ByteHead> {
    table: &'a [u8],
    at: usize,
    head: PhantomData<H>,
}

impl<H> Clone for Entries<'_, H> {
    fn clone(&self) -> Self {
        Self {
            table: self.table,
            at: self.at,
            head: PhantomData,
        }
    }
}

impl<'a, H: EntryHead> Entries<'a, H> {
    /// The entries of `table` from offset `first` on.
    pub const fn new(table: &'a [u8], first: usize) -> Self {
        Self {
            table,
            at: first,
            head: PhantomData,
        }
    }

    fn step(&mut self) -> Result<Entry<'a>, Error> {
        let (at, end) = (self.at, self.table.len());
        // What follows an error cannot be told apart from it: the walk is over.
        self.at = end;
        let cut = firmware("entry reaches beyond the table", at);
        let rest = &self.table[at..];
        let (kind, len) = H::read(rest.get(..H::LEN).ok_or(cut)?);
        if len == 0 {
            return Err(firmware("entry of length 0", at));
        }
        if len < H::LEN {
            return Err(firmware("entry shorter than its head", at));
        }
        let bytes = rest.get(..len).ok_or(cut)?;
        self.at = at + len;
        Ok(Entry { kind, at, bytes })
    }
}

impl<'a, H: EntryHead> Iterator for Entries<'a, H> {
    type Item = Result<Entry<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.table.len()).then(|| self.step())
    }
}
