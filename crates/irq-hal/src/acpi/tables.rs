// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables by their signature.

use super::fields::{expect, field};
use super::{Root, Rsdp, Sdt, Signature, firmware};
use crate::{Error, PhysAddr};

/// The longest table that is read, in bytes: more than the SLIT of 2000 nodes needs.
pub const TABLE_MAX: usize = 4 << 20;

/// The tables of a machine, in memory that `memory` shows.
///
/// `memory(at, len)` gives the `len` bytes at the physical address `at`, or the embedder's error
/// where there are none; `len` is at most [`TABLE_MAX`]. It must be able to refuse: addresses
/// and lengths come from firmware. What it gave must not change while it is borrowed.
///
/// ```
/// use irq_hal::acpi::Tables;
/// use irq_hal::{Error, PhysAddr};
///
/// fn numa_of<'m>(
///     rsdp: PhysAddr,
///     memory: impl Fn(PhysAddr, usize) -> Result<&'m [u8], Error>,
/// ) -> Result<bool, Error> {
///     let tables = Tables::new(rsdp, memory)?;
///     Ok(tables.find(*b"SRAT")?.is_some())
/// }
/// ```
///
/// # Context
/// Any in which `memory` may be called.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'m, F> {
    memory: F,
    base: PhysAddr,
    root: Sdt<'m>,
    /// Bytes of an address in the root table.
    width: usize,
}

impl<'m, F: Fn(PhysAddr, usize) -> Result<&'m [u8], Error>> Tables<'m, F> {
    /// The tables below the RSDP at `rsdp`.
    ///
    /// # Errors
    /// [`Error::Firmware`] for an RSDP or a root table that is wrong; those of `memory`.
    pub fn new(rsdp: PhysAddr, memory: F) -> Result<Self, Error> {
        let root = read_rsdp(&memory, rsdp).map_err(|error| rebase(error, rsdp))?;
        let (signature, width, what) = match root {
            Root::Rsdt(_) => (*b"RSDT", 4, "no RSDT"),
            Root::Xsdt(_) => (*b"XSDT", 8, "no XSDT"),
        };
        let base = root.addr();
        let root = read_table(&memory, base)?
            .require(signature, Sdt::HEADER, what)
            .map_err(|error| rebase(error, base))?;
        Ok(Self {
            memory,
            base,
            root,
            width,
        })
    }

    /// The first table with this signature, or nothing.
    ///
    /// Addresses of 0 are passed over. Tables that cannot be reached do not hide a good one
    /// behind them; an error says that one might have been the table asked for.
    ///
    /// # Errors
    /// [`Error::Firmware`] if the table is there and wrong; those of `memory`.
    pub fn find(&self, signature: Signature) -> Result<Option<Sdt<'m>>, Error> {
        let addresses = &self.root.bytes()[Sdt::HEADER..];
        let mut failed = None;
        for address in addresses.chunks_exact(self.width) {
            let at = PhysAddr::new(match self.width {
                4 => field(address, 0).map_or(0, u32::from_le_bytes).into(),
                _ => field(address, 0).map_or(0, u64::from_le_bytes),
            });
            if at.get() == 0 {
                continue;
            }
            match read_head(&self.memory, at) {
                Ok((found, _)) if found == signature => {
                    return read_table(&self.memory, at).map(Some);
                }
                Ok(_) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    /// Where the root table is.
    pub const fn root(&self) -> PhysAddr {
        self.base
    }
}

/// Turns an offset in what is at `base` into an address.
fn rebase(error: Error, base: PhysAddr) -> Error {
    match error {
        Error::Firmware { what, at } => Error::Firmware {
            what,
            at: base.get().saturating_add(at),
        },
        other => other,
    }
}

fn show<'m, F: Fn(PhysAddr, usize) -> Result<&'m [u8], Error>>(
    memory: &F,
    at: PhysAddr,
    len: usize,
) -> Result<&'m [u8], Error> {
    if at.checked_add(len as u64).is_none() {
        return Err(firmware("address beyond all memory", 0));
    }
    memory(at, len)
}

fn read_rsdp<'m, F: Fn(PhysAddr, usize) -> Result<&'m [u8], Error>>(
    memory: &F,
    at: PhysAddr,
) -> Result<Root, Error> {
    let old = show(memory, at, Rsdp::LEN)?;
    if old.get(15).is_none_or(|&revision| revision < 2) {
        return Ok(Rsdp::new(old)?.root());
    }
    let head = show(memory, at, Rsdp::LEN_2)?;
    let len = u32::from_le_bytes(expect(head, 20, "RSDP is cut off", head.len())?) as usize;
    if !(Rsdp::LEN_2..=4096).contains(&len) {
        return Err(firmware("RSDP length", 20));
    }
    Ok(Rsdp::new(show(memory, at, len)?)?.root())
}

/// Signature and length of the table at `at`.
fn read_head<'m, F: Fn(PhysAddr, usize) -> Result<&'m [u8], Error>>(
    memory: &F,
    at: PhysAddr,
) -> Result<(Signature, usize), Error> {
    let read = || {
        let head = show(memory, at, Sdt::HEADER)?;
        let cut = "table is cut off";
        let signature = expect(head, 0, cut, head.len())?;
        let len = u32::from_le_bytes(expect(head, 4, cut, head.len())?) as usize;
        Ok((signature, len))
    };
    read().map_err(|error| rebase(error, at))
}

/// The whole table at `at`.
fn read_table<'m, F: Fn(PhysAddr, usize) -> Result<&'m [u8], Error>>(
    memory: &F,
    at: PhysAddr,
) -> Result<Sdt<'m>, Error> {
    let (_, len) = read_head(memory, at)?;
    let read = || {
        if !(Sdt::HEADER..=TABLE_MAX).contains(&len) {
            return Err(firmware("table length", 4));
        }
        Sdt::new(show(memory, at, len)?)
    };
    read().map_err(|error| rebase(error, at))
}
