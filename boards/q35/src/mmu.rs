// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identity page tables: 2 MiB pages, and 1 GiB ones where the CPU has them, from a fixed pool of
//! tables.
//!
//! Start-up maps the image and the first block before paging is on: long mode has no other way.
//! The rest is added here, once it is known. Entries only ever go from invalid to valid, which no
//! CPU caches, so nothing needs an invalidation, and there is no table to free: that is why this
//! is a small table of our own and not a page-table library, which would want a heap before the
//! heap's memory is mapped, and a second set of tables to switch to.
//!
//! 512 GiB in one level-3 table, level 2 below it.
//!
//! Source: Intel SDM vol. 3, "4-Level Paging and 5-Level Paging" and "Page Attribute Table".

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use boards_common::lock::Masked;
use irq_hal::Error;
use irq_x2apic::{CpuId, NativeCpuId};

/// Bytes that a level-2 entry maps.
pub const BLOCK: u64 = 1 << 21;
/// Bytes that a level-3 entry covers.
const GIB: u64 = 1 << 30;
/// Entries of a table.
const ENTRIES: usize = 512;
/// First address beyond the tables' reach.
const LIMIT: u64 = ENTRIES as u64 * GIB;

/// P.
const PRESENT: u64 = 1;
/// R/W.
const WRITABLE: u64 = 1 << 1;
/// PWT and PCD: entry 3 of the page attribute table, which is uncacheable from reset on.
const UNCACHED: u64 = 1 << 3 | 1 << 4;
/// A and D: set by us, so that no CPU writes them.
const USED: u64 = 1 << 5 | 1 << 6;
/// PS: a page, not a table.
const PAGE: u64 = 1 << 7;
/// XD.
const NEVER_EXECUTE: u64 = 1 << 63;
/// Address of the next table, bits 51 to 12.
const NEXT_TABLE: u64 = 0x000f_ffff_ffff_f000;

/// A pointer to a table.
pub const TABLE: u64 = PRESENT | WRITABLE | 1 << 5;
/// Attributes of memory: data.
pub const READ_WRITE: u64 = PRESENT | WRITABLE | USED | PAGE | NEVER_EXECUTE;
/// Attributes of memory: code and constants.
pub const CODE: u64 = PRESENT | USED | PAGE;
/// Attributes of a device: uncached.
pub const DEVICE: u64 = READ_WRITE | UNCACHED;

/// A translation table.
#[repr(C, align(4096))]
pub struct Table([AtomicU64; ENTRIES]);

impl Table {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }
}

/// Level 4, level 3, level 2 of the first GiB, and spare ones.
pub static TABLES: [Table; 19] = [const { Table::empty() }; 19];

/// The next spare table.
static NEXT: AtomicUsize = AtomicUsize::new(3);

/// One CPU at a time adds entries.
static CHANGE: Masked<()> = Masked::new(());

/// Maps the blocks that hold `base..base + len`, at their own address, with `attributes`.
/// Blocks that are mapped so already are left alone.
///
/// # Errors
/// [`Error::Invalid`] beyond 512 GiB, [`Error::Exists`] where a block is mapped with other
/// attributes, [`Error::Full`] when no table is left. Blocks before the offending one stay
/// mapped.
pub fn map(base: u64, len: u64, attributes: u64) -> Result<(), Error> {
    let end = base.checked_add(len).filter(|&end| end <= LIMIT);
    let end = end.ok_or(Error::Invalid {
        what: "address to map",
        value: base,
    })?;
    let whole = has_gib_pages();
    CHANGE.with(|()| {
        let mut at = base & !(BLOCK - 1);
        while at < end {
            let whole = whole && at.is_multiple_of(GIB) && end - at >= GIB;
            let (size, slot) = slot(at, whole)?;
            let first = at & !(size - 1);
            let entry = first | attributes;
            match slot.load(Ordering::Relaxed) {
                0 => slot.store(entry, Ordering::Relaxed),
                old if old == entry => {}
                // The image's own blocks, within a bank of memory that is mapped as a whole.
                old if attributes == READ_WRITE && old & UNCACHED == 0 => {}
                _ => {
                    return Err(Error::Exists {
                        what: "mapping with other attributes",
                    });
                }
            }
            at = first + size;
        }
        Ok(())
    })
}

/// CPUID 8000_0001H:EDX\[26\]; start-up has seen that there is this leaf.
fn has_gib_pages() -> bool {
    let [.., edx] = NativeCpuId.leaf(0x8000_0001, 0);
    edx & 1 << 26 != 0
}

/// The entry that maps `at`: of level 3 if `whole` GiB is asked for and nothing finer is there,
/// else of level 2. With it, the bytes that the entry covers.
fn slot(at: u64, whole: bool) -> Result<(u64, &'static AtomicU64), Error> {
    let [_, level3, ..] = &TABLES;
    let upper = &level3.0[(at / GIB) as usize];
    let old = upper.load(Ordering::Relaxed);
    if old & PAGE != 0 || old == 0 && whole {
        return Ok((GIB, upper));
    }
    let table = if old == 0 {
        let taken = NEXT.load(Ordering::Relaxed);
        let full = Error::Full {
            what: "page tables",
            capacity: TABLES.len() as u32,
        };
        let table = TABLES.get(taken).ok_or(full)?;
        NEXT.store(taken + 1, Ordering::Relaxed);
        upper.store(&raw const *table as u64 | TABLE, Ordering::Relaxed);
        table
    } else {
        let address = old & NEXT_TABLE;
        TABLES
            .iter()
            .find(|table| &raw const **table as u64 == address)
            .ok_or(Error::Exists {
                what: "foreign page table",
            })?
    };
    Ok((BLOCK, &table.0[(at % GIB / BLOCK) as usize]))
}
