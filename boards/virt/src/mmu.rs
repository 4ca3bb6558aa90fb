// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identity page tables: 2 MiB blocks, from a fixed pool of tables.
//!
//! Start-up maps the image, the devicetree's block and the console before the MMU is on, so
//! that all Rust code runs with caches on: atomics on Device memory are undefined. The rest is
//! added here, once it is known. Entries only ever go from invalid to valid, so nothing needs
//! break-before-make or a TLB invalidation, and there is no table to free: that is why this is
//! a small table of our own and not a page-table library, which would want a heap before the
//! heap's memory is mapped, and a second set of tables to switch to.
//!
//! 39 bits of address (512 GiB) in one level-1 table, level 2 below it.
//!
//! Sources: descriptors in DDI 0487, chapter "The AArch64 Virtual Memory System Architecture",
//! "Translation table descriptor formats"; registers in its chapter "AArch64 System Register
//! Descriptions", under their names.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use aarch64_cpu::asm::barrier;
use boards_common::lock::Masked;
use irq_hal::Error;

/// Bytes that a level-2 entry maps.
pub const BLOCK: u64 = 1 << 21;
/// Bytes that a level-1 entry covers.
const GIB: u64 = 1 << 30;
/// Entries of a table.
const ENTRIES: usize = 512;
/// First address beyond the tables' reach.
const LIMIT: u64 = ENTRIES as u64 * GIB;

/// Bit 0 of a descriptor; bit 1 clear makes it a block.
const VALID: u64 = 1;
/// Descriptor bits of a pointer to a table.
pub const TABLE: u64 = 0b11;
/// AF: an access causes no fault.
const ACCESSED: u64 = 1 << 10;
/// SH, bits 9 and 8.
const INNER_SHAREABLE: u64 = 0b11 << 8;
/// AP\[2:1\], bits 7 and 6: read-only at EL1, nothing at EL0.
const READ_ONLY_AP: u64 = 0b10 << 6;
/// UXN and PXN.
const NEVER_EXECUTE: u64 = 1 << 54 | 1 << 53;
/// UXN alone.
const USER_NEVER_EXECUTE: u64 = 1 << 54;
/// AttrIndx, bits 4 to 2: the attributes in byte 1 of [`MAIR`].
const DEVICE_ATTR: u64 = 1 << 2;
/// Address of the next table, bits 47 to 12 of a descriptor with the 4 KiB granule.
const NEXT_TABLE: u64 = 0xffff_ffff_f000;

/// Block attributes: Normal write-back memory, data.
pub const READ_WRITE: u64 = VALID | ACCESSED | INNER_SHAREABLE | NEVER_EXECUTE;
/// Block attributes: Normal write-back memory, constant.
pub const READ_ONLY: u64 = READ_WRITE | READ_ONLY_AP;
/// Block attributes: Normal write-back memory, code and constants.
pub const CODE: u64 = VALID | ACCESSED | INNER_SHAREABLE | READ_ONLY_AP | USER_NEVER_EXECUTE;
/// Block attributes: Device-nGnRnE.
pub const DEVICE: u64 = VALID | ACCESSED | NEVER_EXECUTE | DEVICE_ATTR;

/// `MAIR_EL1`: byte 0 (0xff) is Normal, write-back, allocating; byte 1 (0x00) Device-nGnRnE.
pub const MAIR: u64 = 0xff;
/// `TCR_EL1`: 39 bits by TTBR0, 4 KiB granule, write-back inner-shareable walks, no TTBR1.
/// Start-up adds the physical address size.
/// In this order: T0SZ (64 - 39), IRGN0, ORGN0, SH0, EPD1.
pub const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 0b11 << 12 | 1 << 23;
/// `SCTLR_EL1` with the bits that Armv8.0 reserves as one (29, 28, 23, 22, 20, 11), all else off.
pub const SCTLR_OFF: u64 = 0x30d0_0800;
/// Likewise with MMU (M), data cache (C), stack alignment check (SA), instruction cache (I).
pub const SCTLR_ON: u64 = SCTLR_OFF | 1 | 1 << 2 | 1 << 3 | 1 << 12;

/// A translation table.
#[repr(C, align(4096))]
pub struct Table([AtomicU64; ENTRIES]);

impl Table {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }
}

/// Level 1, level 2 of the first GiB (devices) and of the second (RAM), and spare ones.
pub static TABLES: [Table; 16] = [const { Table::empty() }; 16];

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
    CHANGE.with(|()| {
        let mut at = base & !(BLOCK - 1);
        while at < end {
            let (level, slot) = slot(at, at.is_multiple_of(GIB) && end - at >= GIB)?;
            let first = at & !(level - 1);
            let entry = first | attributes;
            match slot.load(Ordering::Relaxed) {
                0 => slot.store(entry, Ordering::Relaxed),
                old if old == entry => {}
                // The image's own blocks, within a bank of memory that is mapped as a whole.
                old if attributes == READ_WRITE && old & DEVICE_ATTR == 0 => {}
                _ => {
                    return Err(Error::Exists {
                        what: "mapping with other attributes",
                    });
                }
            }
            at = first + level;
        }
        // The stores above, before any access that walks the tables.
        barrier::dsb(barrier::ISHST);
        barrier::isb(barrier::SY);
        Ok(())
    })
}

/// The entry that maps `at`: of level 1 if `whole` GiB is asked for and nothing finer is there,
/// else of level 2. With it, the bytes that the entry covers.
fn slot(at: u64, whole: bool) -> Result<(u64, &'static AtomicU64), Error> {
    let [level1, ..] = &TABLES;
    let upper = &level1.0[(at / GIB) as usize];
    let old = upper.load(Ordering::Relaxed);
    if old & TABLE == VALID || old == 0 && whole {
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
