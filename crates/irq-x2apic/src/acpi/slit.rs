// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system locality distance information table.

use irq_hal::Error;
use irq_hal::acpi::{Sdt, Signature};

use super::{Domain, firmware};

/// The table `SLIT`: how far domains are from each other.
///
/// Source: ACPI Specification, "System Locality Information Table (SLIT)".
#[derive(Clone, Copy, Debug)]
pub struct Slit<'a> {
    count: usize,
    matrix: &'a [u8],
}

impl<'a> Slit<'a> {
    /// What the table begins with, for [`irq_hal::acpi::Tables::find`].
    pub const SIGNATURE: Signature = *b"SLIT";
    /// The distance of a domain from itself.
    pub const LOCAL: u8 = 10;
    /// The distance between domains that cannot reach each other.
    pub const UNREACHABLE: u8 = 255;
    /// Bytes before the matrix.
    const FIXED: usize = 44;

    /// The table at the beginning of `bytes`, which may be followed by others.
    ///
    /// # Errors
    /// Those of [`Sdt::new`] and [`Slit::from_sdt`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::from_sdt(Sdt::new(bytes)?)
    }

    /// The table, from one that was found.
    ///
    /// # Errors
    /// [`Error::Firmware`] for another table, for one that does not hold its matrix, and for
    /// distances that cannot be: below [`LOCAL`](Self::LOCAL), or of a domain from itself
    /// another one. Nothing of such a table can be relied on.
    pub fn from_sdt(sdt: Sdt<'a>) -> Result<Self, Error> {
        let sdt = sdt.require(Self::SIGNATURE, Self::FIXED, "no SLIT")?;
        let bad = firmware("SLIT count", 36);
        let count = usize::try_from(sdt.u64(36)?).map_err(|_| bad)?;
        let cells = count.checked_mul(count).ok_or(bad)?;
        let matrix = sdt.bytes()[Self::FIXED..].get(..cells).ok_or(bad)?;
        for (i, &distance) in matrix.iter().enumerate() {
            let itself = i / count == i % count;
            if distance < Self::LOCAL || (itself && distance != Self::LOCAL) {
                return Err(firmware("SLIT distance", Self::FIXED + i));
            }
        }
        Ok(Self { count, matrix })
    }

    /// How many domains it has distances of: those numbered from 0 on.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// How far `to` is from `from`, in tenths of a local access; nothing for domains beyond the
    /// matrix. The other direction may differ.
    pub fn distance(&self, from: Domain, to: Domain) -> Option<u8> {
        let [from, to] = [from.get() as usize, to.get() as usize];
        if from >= self.count || to >= self.count {
            return None;
        }
        self.matrix.get(from * self.count + to).copied()
    }
}
