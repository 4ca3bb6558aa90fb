// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries of the MADT.

use irq_hal::acpi::{Entries, Entry};
use irq_hal::{Error, PhysAddr};

use crate::ApicId;

/// What an entry says of its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CpuState {
    /// It is there, and can be started.
    Enabled,
    /// It is not there, and can be added while the machine runs: nothing may be sent to it
    /// before.
    OnlineCapable,
    /// An entry that stands for no CPU. Tables before revision 5 have no
    /// [`OnlineCapable`](Self::OnlineCapable), and may list CPUs so that can be added.
    Absent,
}

impl CpuState {
    const fn new(flags: u32) -> Self {
        match flags & 3 {
            0 => Self::Absent,
            2 => Self::OnlineCapable,
            _ => Self::Enabled,
        }
    }
}

/// When an interrupt line is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Polarity {
    /// As the bus has it: high for ISA.
    Bus,
    /// Active high.
    High,
    /// Active low.
    Low,
    /// The value that the specification reserves.
    Reserved,
}

/// How an interrupt line signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TriggerMode {
    /// As the bus has it: edge for ISA.
    Bus,
    /// By its edge.
    Edge,
    /// By its level.
    Level,
    /// The value that the specification reserves.
    Reserved,
}

/// The flags of an interrupt line.
///
/// Source: ACPI Specification, "MPS INTI Flags".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Inti(u16);

impl Inti {
    /// Decodes the flags.
    pub const fn new(flags: u16) -> Self {
        Self(flags)
    }

    /// When the line is active.
    pub const fn polarity(self) -> Polarity {
        match self.0 & 3 {
            0 => Polarity::Bus,
            1 => Polarity::High,
            3 => Polarity::Low,
            _ => Polarity::Reserved,
        }
    }

    /// How the line signals.
    pub const fn trigger(self) -> TriggerMode {
        match self.0 >> 2 & 3 {
            0 => TriggerMode::Bus,
            1 => TriggerMode::Edge,
            3 => TriggerMode::Level,
            _ => TriggerMode::Reserved,
        }
    }
}

/// One entry of the MADT, as it stands there.
///
/// Source: ACPI Specification, "Multiple APIC Description Table (MADT)".
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MadtEntry {
    /// Types 0 (local APIC) and 9 (x2APIC): a CPU. `id` is nothing where the entry holds the
    /// id that means all CPUs, FFH in type 0 and FFFFFFFFH in type 9.
    Cpu {
        /// The APIC id.
        id: Option<ApicId>,
        /// The CPU's ACPI id, which NMI entries go by.
        uid: u32,
        /// Whether it is there.
        state: CpuState,
    },
    /// Type 1: an I/O APIC.
    IoApic {
        /// What firmware says its id is; the register may differ, and nothing needs it.
        id: u8,
        /// Its registers.
        addr: PhysAddr,
        /// The global system interrupt of its first pin.
        gsi_base: u32,
    },
    /// Type 2: an ISA interrupt that comes in by another number than its own.
    Override {
        /// The bus, 0 for ISA.
        bus: u8,
        /// The interrupt on that bus.
        irq: u8,
        /// The global system interrupt.
        gsi: u32,
        /// Polarity and trigger mode.
        inti: Inti,
    },
    /// Type 3: an I/O APIC's pin that is an NMI.
    NmiSource {
        /// The global system interrupt.
        gsi: u32,
        /// Polarity and trigger mode.
        inti: Inti,
    },
    /// Types 4 and 0AH: a local APIC's pin that is an NMI.
    LocalNmi {
        /// The CPU's ACPI id; nothing for all CPUs.
        uid: Option<u32>,
        /// The pin, 0 or 1.
        lint: u8,
        /// Polarity and trigger mode.
        inti: Inti,
    },
    /// Type 5: where the local APIC's registers are in xAPIC mode, instead of what the table's
    /// fixed part says.
    LocalApicAddr(PhysAddr),
    /// Type 10H: CPUs that firmware started wait on a mailbox.
    Wakeup {
        /// The mailbox, 4 KiB.
        mailbox: PhysAddr,
        /// Where a CPU that is given back to firmware goes (version 1).
        reset: Option<PhysAddr>,
    },
}

impl MadtEntry {
    /// Decodes an entry; nothing for a type that is not known here.
    pub(super) fn read(entry: Entry<'_>) -> Result<Option<Self>, Error> {
        Ok(Some(match entry.kind() {
            0 => Self::Cpu {
                id: match entry.u8(3)? {
                    0xff => None,
                    id => ApicId::new(id.into()),
                },
                state: CpuState::new(entry.u32(4)?),
                uid: entry.u8(2)?.into(),
            },
            1 => Self::IoApic {
                gsi_base: entry.u32(8)?,
                addr: PhysAddr::new(entry.u32(4)?.into()),
                id: entry.u8(2)?,
            },
            2 => Self::Override {
                inti: Inti(entry.u16(8)?),
                gsi: entry.u32(4)?,
                irq: entry.u8(3)?,
                bus: entry.u8(2)?,
            },
            3 => Self::NmiSource {
                gsi: entry.u32(4)?,
                inti: Inti(entry.u16(2)?),
            },
            4 => Self::LocalNmi {
                lint: entry.u8(5)?,
                inti: Inti(entry.u16(3)?),
                uid: match entry.u8(2)? {
                    0xff => None,
                    uid => Some(uid.into()),
                },
            },
            5 => Self::LocalApicAddr(PhysAddr::new(entry.u64(4)?)),
            9 => Self::Cpu {
                uid: entry.u32(12)?,
                state: CpuState::new(entry.u32(8)?),
                id: ApicId::new(entry.u32(4)?),
            },
            0xa => Self::LocalNmi {
                lint: entry.u8(8)?,
                uid: match entry.u32(4)? {
                    u32::MAX => None,
                    uid => Some(uid),
                },
                inti: Inti(entry.u16(2)?),
            },
            0x10 => Self::Wakeup {
                mailbox: PhysAddr::new(entry.u64(8)?),
                reset: match entry.u16(2)? {
                    0 => None,
                    _ => Some(PhysAddr::new(entry.u64(16)?)),
                },
            },
            _ => return Ok(None),
        }))
    }
}

/// The entries of a MADT in their order, unknown types left out.
///
/// An entry too short for its type is an error, and the walk goes on behind it. One whose length
/// cannot be ends the walk.
#[derive(Clone, Debug)]
pub struct MadtEntries<'a>(Entries<'a>);

impl<'a> MadtEntries<'a> {
    pub(super) const fn new(entries: Entries<'a>) -> Self {
        Self(entries)
    }

    /// The next entry with its offset in the table.
    pub(super) fn next_at(&mut self) -> Option<Result<(usize, MadtEntry), Error>> {
        self.0.find_map(|entry| {
            let read = entry.and_then(|entry| Ok((entry.at(), MadtEntry::read(entry)?)));
            read.map(|(at, known)| Some((at, known?))).transpose()
        })
    }
}

impl Iterator for MadtEntries<'_> {
    type Item = Result<MadtEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_at()?.map(|(_, entry)| entry))
    }
}
