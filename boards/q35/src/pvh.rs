// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the loader hands over: command line, memory map, where the ACPI tables are.
//!
//! Source: Xen's page "x86/HVM direct boot ABI", "hvm_start_info".

use core::ffi::CStr;
use core::ops::Range;

use irq_hal::{Error, NodeId, PhysAddr};

use crate::mmu;

/// Firmware's part of memory, behind the BIOS data area. What the loader hands over must lie
/// there: what is above becomes image and heap.
const LOW: Range<u64> = 0x500..0x10_0000;

/// The start info begins with it.
const MAGIC: u32 = 0x336e_c578;
/// From this version on there is a memory map.
const VERSION: u32 = 1;
/// Type of a bank that is memory.
const MEMORY: u32 = 1;
/// The longest command line, in bytes.
const LINE: u64 = 4096;

/// The structure as the loader lays it out.
#[repr(C)]
struct Raw {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    map: u64,
    map_entries: u32,
    reserved: u32,
}

/// An entry of the memory map, likewise.
#[repr(C)]
struct MapEntry {
    base: u64,
    len: u64,
    kind: u32,
    reserved: u32,
}

/// A bank of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bank {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

/// What the loader handed over.
#[derive(Clone, Copy)]
pub struct StartInfo {
    line: &'static str,
    map: &'static [MapEntry],
    rsdp: u64,
    /// Bytes of the structures above: from the first to the last.
    spans: [(u64, u64); 3],
}

impl StartInfo {
    /// Reads the structure at `address`.
    ///
    /// # Errors
    /// [`Error::Firmware`] for another structure, or one that lies outside of firmware's memory.
    pub fn read(address: usize) -> Result<Self, Error> {
        let own = (address as u64, size_of::<Raw>() as u64);
        // SAFETY: any bytes are a value of the type.
        let raw: &Raw = &unsafe { show(own, 1) }?[0];
        if raw.magic != MAGIC || raw.version < VERSION {
            return Err(Error::Firmware {
                what: "magic or version of the start info",
                at: own.0,
            });
        }
        let line = match raw.command_line {
            0 => "",
            at => {
                // SAFETY: likewise.
                let bytes = unsafe { show((at, LINE.min(LOW.end.saturating_sub(at))), 0)? };
                let text = CStr::from_bytes_until_nul(bytes).ok();
                text.and_then(|text| text.to_str().ok())
                    .ok_or(Error::Firmware {
                        what: "command line",
                        at,
                    })?
            }
        };
        let map_len = u64::from(raw.map_entries) * size_of::<MapEntry>() as u64;
        // SAFETY: likewise.
        let map = unsafe { show((raw.map, map_len), raw.map_entries as usize)? };
        Ok(Self {
            line,
            map,
            rsdp: raw.rsdp,
            spans: [
                own,
                (line.as_ptr().addr() as u64, line.len() as u64),
                (raw.map, map_len),
            ],
        })
    }

    /// The command line, empty where there is none.
    pub fn command_line(&self) -> &'static str {
        self.line
    }

    /// The banks of memory, in the loader's order.
    pub fn memory(&self) -> impl Iterator<Item = Bank> + use<> {
        let entries = self.map.iter().filter(|entry| entry.kind == MEMORY);
        entries.map(|entry| Bank {
            base: entry.base,
            len: entry.len,
        })
    }

    /// Where the RSDP is.
    ///
    /// # Errors
    /// [`Error::Firmware`] without one.
    pub fn rsdp(&self) -> Result<PhysAddr, Error> {
        match self.rsdp {
            0 => Err(Error::Firmware {
                what: "RSDP in the start info",
                at: 0,
            }),
            at => Ok(PhysAddr::new(at)),
        }
    }

    /// A page below 1 MiB that is memory and in nobody's use: the last one but what the loader
    /// handed over.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn spare_page(&self) -> Result<u64, Error> {
        const PAGE: u64 = 4096;
        let free = |page: u64| {
            let apart = |&(at, len): &(u64, u64)| at + len <= page || page + PAGE <= at;
            self.spans.iter().all(apart)
        };
        let pages = self.memory().flat_map(|bank| {
            let end = bank.base.saturating_add(bank.len).min(LOW.end);
            let first = bank.base.clamp(LOW.start, LOW.end).div_ceil(PAGE);
            (first as u32..(end / PAGE) as u32).rev()
        });
        pages
            .map(|number| u64::from(number) * PAGE)
            .find(|&page| free(page))
            .ok_or(Error::OutOfMemory {
                bytes: PAGE as usize,
                node: NodeId::FLAT,
            })
    }

    /// What firmware keeps at `at`, for the readers of its tables: any memory but what became
    /// image and heap.
    ///
    /// # Errors
    /// [`Error::Firmware`] for that; those of [`mmu::map`].
    pub fn firmware(&self, at: PhysAddr, len: usize) -> Result<&'static [u8], Error> {
        let wrong = Error::Firmware {
            what: "table in memory that is not firmware's",
            at: at.get(),
        };
        let end = at.get().checked_add(len as u64).ok_or(wrong)?;
        let ours =
            |bank: Bank| bank.base >= LOW.end && at.get() < bank.base + bank.len && bank.base < end;
        if at.get() < LOW.start || self.memory().any(ours) {
            return Err(wrong);
        }
        mmu::map(at.get(), len as u64, mmu::READ_WRITE)?;
        // SAFETY: mapped in the line above, and in nobody's use: firmware has run, and the image
        // keeps to the banks of memory that are excluded.
        Ok(unsafe { core::slice::from_raw_parts(at.get() as *const u8, len) })
    }
}

/// The `count` values at the beginning of `span` (address and length), for 0 as many as it holds.
///
/// # Safety
/// - Any bytes are a value of `T`.
unsafe fn show<T>(span: (u64, u64), count: usize) -> Result<&'static [T], Error> {
    let (at, len) = span;
    let count = match count {
        0 => len as usize / size_of::<T>(),
        count => count,
    };
    let inside = LOW.contains(&at) && at.checked_add(len).is_some_and(|end| end <= LOW.end);
    if !inside || !at.is_multiple_of(align_of::<T>() as u64) {
        return Err(Error::Firmware {
            what: "address in the start info",
            at,
        });
    }
    // SAFETY: start-up mapped the first block; the span lies in firmware's part of it, which
    // nobody writes: `spare_page` keeps away from it.
    Ok(unsafe { core::slice::from_raw_parts(at as *const T, count) })
}
