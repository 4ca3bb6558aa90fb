// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts whose TSC-deadline timer fires late or never without a microcode update, as data.
//!
//! Known from the vendor's specification updates for Haswell to Kaby Lake. A hypervisor hides
//! the revision, and has the update or not as its host has: nothing is asked there.

use tock_registers::interfaces::{Readable, Writeable};

use crate::cpuid::{Cpu, CpuId, Vendor};
use crate::regs::apic::{ApicBus, ApicRegs, BIOS_SIGN_ID};

/// One model, a range of its steppings, and the first microcode revision that is right.
struct Part {
    model: u32,
    steppings: core::ops::RangeInclusive<u32>,
    revision: u32,
}

const fn part(model: u32, first: u32, last: u32, revision: u32) -> Part {
    Part {
        model,
        steppings: first..=last,
        revision,
    }
}

/// Family 6.
const PARTS: [Part; 18] = [
    part(0x3c, 0, 15, 0x22),
    part(0x45, 0, 15, 0x20),
    part(0x46, 0, 15, 0x17),
    part(0x3f, 2, 2, 0x3a),
    part(0x3f, 4, 4, 0x0f),
    part(0x3d, 0, 15, 0x25),
    part(0x47, 0, 15, 0x17),
    part(0x4f, 0, 15, 0x0b00_0020),
    part(0x56, 2, 2, 0x11),
    part(0x56, 3, 3, 0x0700_000e),
    part(0x56, 4, 4, 0x0f00_000c),
    part(0x56, 5, 5, 0x0e00_0003),
    part(0x4e, 0, 15, 0xb2),
    part(0x5e, 0, 15, 0xb2),
    part(0x55, 3, 3, 0x0100_0136),
    part(0x55, 4, 4, 0x0200_0014),
    part(0x8e, 0, 15, 0x52),
    part(0x9e, 0, 15, 0x52),
];

/// The microcode revision from which on the deadline timer of this part is right, if it ever
/// was not.
pub(crate) fn revision_needed(signature: u32) -> Option<u32> {
    let stepping = signature & 0xf;
    let family = signature >> 8 & 0xf;
    let model = signature >> 4 & 0xf | signature >> 12 & 0xf0;
    let found = PARTS
        .iter()
        .find(|part| part.model == model && part.steppings.contains(&stepping));
    found.filter(|_| family == 6).map(|part| part.revision)
}

/// Whether the timer of this CPU can be relied on in TSC-deadline mode.
///
/// # Context
/// On that CPU. Asks for the microcode's revision on the models concerned only.
pub(crate) fn deadline_works<M: ApicBus>(msrs: &M, cpuid: &impl CpuId, cpu: &Cpu) -> bool {
    if !cpu.deadline {
        return false;
    }
    if cpu.vendor != Vendor::Intel || cpu.hypervisor {
        return true;
    }
    let Some(needed) = revision_needed(cpu.signature) else {
        return true;
    };
    // The register shows the revision after a write of 0 and a CPUID (Intel SDM vol. 3,
    // "Determining the Signature").
    let register = ApicRegs(msrs).bios_sign_id();
    register.set(0);
    let _ = cpuid.leaf(1, 0);
    register.read(BIOS_SIGN_ID::Revision) >= u64::from(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_needed_goes_by_model_and_stepping_of_family_6() {
        assert_eq!(revision_needed(0x3_06c3), Some(0x22)); // Haswell
        assert_eq!(revision_needed(0x3_06f2), Some(0x3a));
        assert_eq!(revision_needed(0x3_06f3), None);
        assert_eq!(revision_needed(0x5_0654), Some(0x0200_0014)); // Skylake-X
        assert_eq!(revision_needed(0x5_0657), None);
        assert_eq!(revision_needed(0x9_06e9), Some(0x52)); // Kaby Lake
        assert_eq!(revision_needed(0x80_0f12), None); // family 17H
    }
}
