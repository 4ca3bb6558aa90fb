// SPDX-License-Identifier: MIT OR Apache-2.0
//! The root system description pointer.

use super::fields::{expect, field, sum};
use super::firmware;
use crate::{Error, PhysAddr};

/// Where the root table is, and how wide its entries are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Root {
    /// An RSDT: addresses of 4 bytes.
    Rsdt(PhysAddr),
    /// An XSDT: addresses of 8 bytes.
    Xsdt(PhysAddr),
}

impl Root {
    /// The table's address.
    pub const fn addr(self) -> PhysAddr {
        match self {
            Self::Rsdt(addr) | Self::Xsdt(addr) => addr,
        }
    }
}

/// The structure that firmware hands over, or that is found by its signature.
///
/// Source: ACPI Specification, "Root System Description Pointer (RSDP)".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rsdp {
    revision: u8,
    root: Root,
}

impl Rsdp {
    /// What it begins with; firmware that hands over no address leaves it on a boundary of 16
    /// bytes in the first KiB of the EBDA, or from E0000H to FFFFFH.
    pub const SIGNATURE: [u8; 8] = *b"RSD PTR ";
    /// Bytes of revisions 0 and 1.
    pub const LEN: usize = 20;
    /// Bytes from revision 2 on, at least.
    pub const LEN_2: usize = 36;

    /// Reads the structure at the beginning of `bytes`, which may be followed by others.
    ///
    /// From revision 2 on the XSDT counts; some firmware of that revision leaves its address 0,
    /// and then the RSDT does.
    ///
    /// # Errors
    /// [`Error::Firmware`]: cut off, another signature, a checksum that is wrong, no root table.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let cut = "RSDP is cut off";
        let old: [u8; Self::LEN] = expect(bytes, 0, cut, bytes.len())?;
        if field(&old, 0) != Some(Self::SIGNATURE) {
            return Err(firmware("RSDP signature", 0));
        }
        if sum(&old) != 0 {
            return Err(firmware("RSDP checksum", 8));
        }
        let revision = old[15];
        let rsdt = u64::from(u32::from_le_bytes(expect(&old, 16, cut, 16)?));
        let xsdt = if revision >= 2 {
            let len = u32::from_le_bytes(expect(bytes, 20, cut, bytes.len())?) as usize;
            if len < Self::LEN_2 {
                return Err(firmware("RSDP length", 20));
            }
            let whole = bytes.get(..len).ok_or(firmware(cut, bytes.len()))?;
            if sum(whole) != 0 {
                return Err(firmware("RSDP extended checksum", 32));
            }
            u64::from_le_bytes(expect(whole, 24, cut, 24)?)
        } else {
            0
        };
        let root = match (xsdt, rsdt) {
            (0, 0) => return Err(firmware("RSDP without a root table", 16)),
            (0, rsdt) => Root::Rsdt(PhysAddr::new(rsdt)),
            (xsdt, _) => Root::Xsdt(PhysAddr::new(xsdt)),
        };
        Ok(Self { revision, root })
    }

    /// 0 for ACPI 1.0, 2 for all since.
    pub const fn revision(self) -> u8 {
        self.revision
    }

    /// The root table.
    pub const fn root(self) -> Root {
        self.root
    }
}
