// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUID, as far as it speaks of interrupt controllers, with its traps.

use super::ApicModel;
use super::Lock;
use super::local::LocalApic;
use super::machine::{Machine, Mode, Vendor};

/// CPUID of whichever CPU asks. A handle, cheap to clone.
#[derive(Clone, Debug)]
pub struct Cpuid {
    model: ApicModel,
}

impl Cpuid {
    pub(super) fn new(model: ApicModel) -> Self {
        Self { model }
    }

    /// EAX, EBX, ECX, EDX of sub-leaf `sub` of `leaf`.
    ///
    /// A basic leaf above the highest one answers with the data of the highest one (Intel), or
    /// with zeros.
    pub fn leaf(&self, leaf: u32, sub: u32) -> [u32; 4] {
        let cpu = self.model.sim().current();
        let mut state = self.model.state();
        if leaf == 1 {
            state.cpus[cpu.index()].signed = true;
        }
        answer(&state.machine, &state.cpus[cpu.index()], leaf, sub)
    }
}

fn answer(machine: &Machine, apic: &LocalApic, leaf: u32, sub: u32) -> [u32; 4] {
    let id = apic.id();
    let intel = machine.vendor == Vendor::Intel;
    let highest = machine.max_leaf;
    match leaf {
        0x8000_0000.. => extended(machine, id, leaf),
        0x4000_0000..0x8000_0000 if machine.hypervisor => match leaf {
            0x4000_0000 => [0x4000_0001, text(b"TCGT"), text(b"CGTC"), text(b"GTCG")],
            _ => [0; 4],
        },
        _ if leaf > highest && intel => answer(machine, apic, highest, sub),
        _ if leaf > highest => [0; 4],
        0 => {
            let (b, d, c) = match machine.vendor {
                Vendor::Intel => (b"Genu", b"ineI", b"ntel"),
                Vendor::Amd => (b"Auth", b"enti", b"cAMD"),
                Vendor::Hygon => (b"Hygo", b"nGen", b"uine"),
            };
            [highest, text(b), text(c), text(d)]
        }
        1 => {
            let ecx = u32::from(machine.x2apic) << 21
                | u32::from(machine.deadline) << 24
                | u32::from(machine.hypervisor) << 31;
            let edx = u32::from(apic.mode() != Mode::Disabled) << 9;
            let threads = 1 << machine.core_shift;
            [
                machine.signature,
                (id & 0xff) << 24 | threads << 16,
                ecx,
                edx,
            ]
        }
        6 => [u32::from(machine.arat) << 2, 0, 0, 0],
        7 if sub == 0 => [0, 0, 0, u32::from(machine.lock != Lock::Absent) << 29],
        0xb if machine.topology => topology(machine, id, sub),
        // XSAVE areas: an unchecked reader takes EDX for an id.
        0xd => [0x7, 0x340, 0x340, 0x5a5a],
        0x1f if machine.topology => topology(machine, id, sub),
        _ => [0; 4],
    }
}

/// Leaves 0BH and 1FH.
fn topology(machine: &Machine, id: u32, sub: u32) -> [u32; 4] {
    let (shift, kind) = match sub {
        0 => (machine.smt_shift, 1),
        1 => (machine.core_shift, 2),
        _ => return [0, 0, sub & 0xff, id],
    };
    [shift.into(), 1 << shift, kind << 8 | sub, id]
}

fn extended(machine: &Machine, id: u32, leaf: u32) -> [u32; 4] {
    let amd = machine.vendor != Vendor::Intel;
    match leaf {
        0x8000_0000 if amd => [0x8000_001e, 0, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0008 => [machine.phys_bits.into(), 0, 0, 0],
        0x8000_001e if amd => [id, ((1 << machine.smt_shift) - 1) << 8, 0, 0],
        _ => [0; 4],
    }
}

fn text(four: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*four)
}
