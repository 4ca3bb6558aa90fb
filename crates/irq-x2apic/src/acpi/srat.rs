// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system resource affinity table.

use irq_hal::acpi::{ByteHead, Entries, Entry, Sdt, Signature};
use irq_hal::{Error, NodeId, PhysAddr};

use super::firmware;
use crate::ApicId;

/// A proximity domain: firmware's name of a node. Sparse, and never an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Domain(u32);

impl Domain {
    /// The domain with this number.
    pub const fn new(domain: u32) -> Self {
        Self(domain)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A piece of physical address space of one domain. Its last byte has an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemoryRange {
    /// Whose it is.
    pub domain: Domain,
    /// Its first address.
    pub base: PhysAddr,
    /// Its length in bytes, not 0.
    pub len: u64,
    /// Memory may be added and removed here while the machine runs: there need be none now.
    pub hot_pluggable: bool,
}

/// An entry of the SRAT that is in use.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SratEntry {
    /// Types 0 and 2: a CPU, which may be one that is not there yet.
    Cpu {
        /// Its APIC id.
        id: ApicId,
        /// Where it stands.
        domain: Domain,
    },
    /// Type 1: memory.
    Memory(MemoryRange),
}

impl SratEntry {
    /// The domain that the entry speaks of.
    pub const fn domain(self) -> Domain {
        match self {
            Self::Cpu { domain, .. } => domain,
            Self::Memory(range) => range.domain,
        }
    }

    /// Decodes an entry; nothing for one that is switched off or says nothing, or whose type is
    /// not known here. `wide`: domains have 32 bits in the types where they began with 8.
    fn read(entry: Entry<'_>, wide: bool) -> Result<Option<Self>, Error> {
        let narrowed = |domain: u32| Domain(if wide { domain } else { domain & 0xff });
        Ok(match entry.kind() {
            0 => {
                let upper = [entry.u8(9)?, entry.u8(10)?, entry.u8(11)?];
                let domain = u32::from_le_bytes([entry.u8(2)?, upper[0], upper[1], upper[2]]);
                let id = entry.u8(3)?;
                match ApicId::new(id.into()) {
                    Some(id) if entry.u32(4)? & 1 != 0 && id.get() != 0xff => Some(Self::Cpu {
                        id,
                        domain: narrowed(domain),
                    }),
                    _ => None,
                }
            }
            1 => {
                let flags = entry.u32(28)?;
                let (base, len) = (entry.u64(8)?, entry.u64(16)?);
                if flags & 1 == 0 || len == 0 {
                    return Ok(None);
                }
                if base.checked_add(len - 1).is_none() {
                    return Err(firmware("memory beyond all addresses", entry.at()));
                }
                Some(Self::Memory(MemoryRange {
                    domain: narrowed(entry.u32(2)?),
                    base: PhysAddr::new(base),
                    len,
                    hot_pluggable: flags & 2 != 0,
                }))
            }
            2 => match (ApicId::new(entry.u32(8)?), entry.u32(12)? & 1) {
                (Some(id), 1) => Some(Self::Cpu {
                    id,
                    domain: Domain(entry.u32(4)?),
                }),
                _ => None,
            },
            _ => None,
        })
    }
}

/// The table `SRAT`: which CPUs and which memory are near each other.
///
/// Domains without CPUs occur, as do CPUs that no entry names.
///
/// Source: ACPI Specification, "System Resource Affinity Table (SRAT)".
#[derive(Clone, Copy, Debug)]
pub struct Srat<'a>(Sdt<'a>);

impl<'a> Srat<'a> {
    /// What the table begins with, for [`irq_hal::acpi::Tables::find`].
    pub const SIGNATURE: Signature = *b"SRAT";
    /// Bytes before the entries.
    const FIXED: usize = 48;

    /// The table at the beginning of `bytes`, which may be followed by others.
    ///
    /// # Errors
    /// Those of [`Sdt::new`] and [`Srat::from_sdt`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::from_sdt(Sdt::new(bytes)?)
    }

    /// The table, from one that was found.
    ///
    /// # Errors
    /// [`Error::Firmware`] for another table, or one without its fixed part. Entries are judged
    /// where they are walked.
    pub fn from_sdt(sdt: Sdt<'a>) -> Result<Self, Error> {
        Ok(Self(sdt.require(
            Self::SIGNATURE,
            Self::FIXED,
            "no SRAT",
        )?))
    }

    /// All entries in use, in their order.
    pub fn entries(&self) -> SratEntries<'a> {
        SratEntries {
            entries: self.0.entries(Self::FIXED),
            // In revision 1 the upper bytes are reserved, and some firmware leaves rubbish.
            wide: self.0.revision() >= 2,
        }
    }

    /// The memory, in the order of the table. Errors are as those of [`entries`](Self::entries).
    pub fn memory(&self) -> impl Iterator<Item = Result<MemoryRange, Error>> + use<'a> {
        self.entries().filter_map(|entry| match entry {
            Ok(SratEntry::Memory(range)) => Some(Ok(range)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Where a CPU stands: the first entry that names it; nothing if none does.
    ///
    /// # Errors
    /// [`Error::Firmware`] for a table that cannot be walked so far.
    pub fn domain_of(&self, cpu: ApicId) -> Result<Option<Domain>, Error> {
        for entry in self.entries() {
            match entry? {
                SratEntry::Cpu { id, domain } if id == cpu => return Ok(Some(domain)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Numbers the domains that have CPUs or memory: the smallest is node 0, and so on. `room`
    /// holds them, one element for each node that the embedder is built for.
    ///
    /// # Errors
    /// [`Error::Full`] for more domains than there is room for; [`Error::Firmware`] for a table
    /// that cannot be walked.
    pub fn domains<'r>(&self, room: &'r mut [Domain]) -> Result<Domains<'r>, Error> {
        let mut len = 0;
        for entry in self.entries() {
            let domain = entry?.domain();
            let Err(place) = room[..len].binary_search(&domain) else {
                continue;
            };
            if len == room.len() {
                return Err(Error::Full {
                    what: "nodes",
                    capacity: len as u32,
                });
            }
            room.copy_within(place..len, place + 1);
            room[place] = domain;
            len += 1;
        }
        Ok(Domains(&room[..len]))
    }
}

/// The entries of an SRAT that are in use, in their order.
///
/// An entry too short for its type, or of memory that cannot be, is an error, and the walk goes
/// on behind it. One whose length cannot be ends the walk.
#[derive(Clone, Debug)]
pub struct SratEntries<'a> {
    entries: Entries<'a, ByteHead>,
    wide: bool,
}

impl Iterator for SratEntries<'_> {
    type Item = Result<SratEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let wide = self.wide;
        self.entries.find_map(|entry| {
            let read = entry.and_then(|entry| SratEntry::read(entry, wide));
            read.transpose()
        })
    }
}

/// The dense numbers of sparse domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domains<'r>(&'r [Domain]);

impl<'r> Domains<'r> {
    /// The node of a domain; nothing for one without CPUs and memory.
    pub fn node(self, domain: Domain) -> Option<NodeId> {
        let index = self.0.binary_search(&domain).ok()?;
        Some(NodeId::new(index as u32))
    }

    /// The domain of each node, ascending.
    pub const fn as_slice(self) -> &'r [Domain] {
        self.0
    }
}
