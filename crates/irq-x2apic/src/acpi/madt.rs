// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multiple APIC description table.

use irq_hal::acpi::{ByteHead, Sdt, Signature};
use irq_hal::{Error, PhysAddr};

use super::firmware;
use super::madt_entry::{CpuState, Inti, MadtEntries, MadtEntry};
use crate::ApicId;

/// The most entries that a table may have: 4096 CPUs, each listed in both types and with an NMI
/// entry of its own, and as many of other types.
///
/// CPUs are told apart without memory, by looking at the entries before each: a whole walk of
/// [`Madt::cpus`] costs half the square of the number of entries.
pub const MADT_ENTRIES_MAX: usize = 16384;

/// One CPU of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Cpu {
    /// Its APIC id.
    pub id: ApicId,
    /// Its ACPI id.
    pub uid: u32,
}

/// The table `APIC`: the machine's interrupt controllers.
///
/// Source: ACPI Specification, "Multiple APIC Description Table (MADT)".
#[derive(Clone, Copy, Debug)]
pub struct Madt<'a>(Sdt<'a>);

impl<'a> Madt<'a> {
    /// What the table begins with, for [`irq_hal::acpi::Tables::find`].
    pub const SIGNATURE: Signature = *b"APIC";
    /// Bytes before the entries.
    const FIXED: usize = 44;

    /// The table at the beginning of `bytes`, which may be followed by others.
    ///
    /// # Errors
    /// Those of [`Sdt::new`] and [`Madt::from_sdt`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::from_sdt(Sdt::new(bytes)?)
    }

    /// The table, from one that was found.
    ///
    /// # Errors
    /// [`Error::Firmware`] for another table, one without its fixed part, or one with more than
    /// [`MADT_ENTRIES_MAX`] entries. Entries are judged where they are walked.
    pub fn from_sdt(sdt: Sdt<'a>) -> Result<Self, Error> {
        let table = sdt.require(Self::SIGNATURE, Self::FIXED, "no MADT")?;
        match table.entries::<ByteHead>(Self::FIXED).count() {
            ..=MADT_ENTRIES_MAX => Ok(Self(table)),
            _ => Err(firmware("MADT with too many entries", Self::FIXED)),
        }
    }

    /// All entries of known types, in their order.
    pub fn entries(&self) -> MadtEntries<'a> {
        MadtEntries::new(self.0.entries(Self::FIXED))
    }

    /// Whether there are two 8259s too (`PCAT_COMPAT`): they must be shut down.
    pub fn has_8259(&self) -> bool {
        self.0.u32(40).is_ok_and(|flags| flags & 1 != 0)
    }

    /// Where the local APIC's registers are in xAPIC mode.
    ///
    /// # Errors
    /// [`Error::Firmware`] for a table that cannot be walked.
    pub fn local_apic_addr(&self) -> Result<PhysAddr, Error> {
        for entry in self.entries() {
            if let MadtEntry::LocalApicAddr(addr) = entry? {
                return Ok(addr);
            }
        }
        Ok(PhysAddr::new(self.0.u32(36)?.into()))
    }

    /// The CPUs that are there, in the order of the table, each id once, however often and in
    /// whichever types it is listed. Ids that mean all CPUs are left out. Errors are as those of
    /// [`entries`](Self::entries).
    pub fn cpus(&self) -> Cpus<'a> {
        Cpus {
            all: self.entries(),
            rest: self.entries(),
            wanted: CpuState::Enabled,
        }
    }

    /// As [`cpus`](Self::cpus), the CPUs that are not there and can be added: they must not be
    /// started before they are. Tables before revision 5 cannot say so, and list none.
    pub fn addable_cpus(&self) -> Cpus<'a> {
        Cpus {
            wanted: CpuState::OnlineCapable,
            ..self.cpus()
        }
    }

    /// How many CPUs there are, in a table that can be walked to its end and has the CPU
    /// `running`, which asks, among them.
    ///
    /// # Errors
    /// [`Error::NoUnitForCpu`] for a table without the running CPU, [`Error::Firmware`] for one
    /// that cannot be walked.
    pub fn check(&self, running: ApicId) -> Result<usize, Error> {
        let (mut count, mut found) = (0, false);
        for cpu in self.cpus() {
            found |= cpu?.id == running;
            count += 1;
        }
        match found {
            true => Ok(count),
            false => Err(Error::NoUnitForCpu {
                block: "MADT entry",
                id: running.get().into(),
            }),
        }
    }

    /// What the entries say of the pins LINT0 and LINT1 of the CPU with the ACPI id `uid`: those
    /// that are NMIs, with polarity and trigger mode. An entry of the CPU's own counts before one
    /// for all CPUs, and the first of several.
    ///
    /// # Errors
    /// [`Error::Firmware`] for a pin that does not exist, or a table that cannot be walked.
    pub fn nmi_pins(&self, uid: u32) -> Result<[Option<Inti>; 2], Error> {
        let (mut own, mut all) = ([None; 2], [None; 2]);
        let mut entries = self.entries();
        while let Some(entry) = entries.next_at() {
            let (
                at,
                MadtEntry::LocalNmi {
                    uid: of,
                    lint,
                    inti,
                },
            ) = entry?
            else {
                continue;
            };
            let pins = match of {
                None => &mut all,
                Some(of) if of == uid => &mut own,
                Some(_) => continue,
            };
            let Some(pin) = pins.get_mut(usize::from(lint)) else {
                return Err(firmware("NMI on a pin that does not exist", at));
            };
            *pin = pin.or(Some(inti));
        }
        Ok([own[0].or(all[0]), own[1].or(all[1])])
    }
}

/// The walk of [`Madt::cpus`] and [`Madt::addable_cpus`].
#[derive(Clone, Debug)]
pub struct Cpus<'a> {
    all: MadtEntries<'a>,
    rest: MadtEntries<'a>,
    wanted: CpuState,
}

impl Cpus<'_> {
    /// Whether another entry speaks for the CPU `of`, wanted at `here`: an earlier one of the
    /// wanted state, or any that says that the CPU is there.
    fn is_repeated(&self, of: ApicId, here: usize) -> bool {
        let mut all = self.all.clone();
        while let Some(entry) = all.next_at() {
            let Ok((at, MadtEntry::Cpu { id, state, .. })) = entry else {
                continue;
            };
            let earlier = at < here;
            if !earlier && self.wanted == CpuState::Enabled {
                return false;
            }
            let speaks = state == CpuState::Enabled || (earlier && state == self.wanted);
            if id == Some(of) && speaks {
                return true;
            }
        }
        false
    }
}

impl Iterator for Cpus<'_> {
    type Item = Result<Cpu, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (at, entry) = match self.rest.next_at()? {
                Ok(next) => next,
                Err(error) => return Some(Err(error)),
            };
            if let MadtEntry::Cpu {
                id: Some(id),
                uid,
                state,
            } = entry
                && state == self.wanted
                && !self.is_repeated(id, at)
            {
                return Some(Ok(Cpu { id, uid }));
            }
        }
    }
}
