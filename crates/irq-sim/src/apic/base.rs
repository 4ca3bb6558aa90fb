// SPDX-License-Identifier: MIT OR Apache-2.0
//! `IA32_APIC_BASE`: the machine of modes, and the lock that newer parts put on it.

use super::State;
use super::call::Call;
use super::machine::{Lock, Mode, Vendor};

/// Bits of `IA32_APIC_BASE`.
const BSP: u64 = 1 << 8;
const EXTD: u64 = 1 << 10;
const EN: u64 = 1 << 11;

impl State {
    pub fn apic_base(&mut self, call: &Call, cpu: usize) -> u64 {
        let old = self.cpus[cpu].base;
        let Some(value) = call.store else {
            return old;
        };
        let page = (1 << self.machine.phys_bits) - 0x1000;
        let extd = if self.machine.x2apic { EXTD } else { 0 };
        call.reserved(value, BSP | extd | EN | page);
        if (value ^ old) & BSP != 0 {
            call.forbid("the BSP bit changes: write back what was read");
        }
        if (value ^ old) & page != 0 {
            call.forbid("the base address changes: write back what was read");
        }
        let from = self.cpus[cpu].mode();
        let to = match (value & EN != 0, value & EXTD != 0) {
            (false, false) => Mode::Disabled,
            (true, false) => Mode::Xapic,
            (true, true) => Mode::X2apic,
            (false, true) => call.fault("EXTD without EN is no mode"),
        };
        match (from, to) {
            (Mode::Disabled, Mode::X2apic) => {
                call.fault("disabled to x2APIC: xAPIC mode lies between")
            }
            (Mode::X2apic, Mode::Xapic) => call.fault("x2APIC to xAPIC: only through disabled"),
            (Mode::X2apic, Mode::Disabled) if self.machine.lock == Lock::Locked => {
                call.fault("x2APIC mode is locked (IA32_XAPIC_DISABLE_STATUS[0])")
            }
            _ => {}
        }
        let apic = &mut self.cpus[cpu];
        apic.base = value;
        match (from, to) {
            (Mode::Xapic, Mode::X2apic) => apic.icr &= 0xffff_ffff,
            (Mode::Xapic | Mode::X2apic, Mode::Disabled) if !self.machine.keeps_registers => {
                apic.reset_registers();
            }
            _ => {}
        }
        0
    }

    /// `IA32_BIOS_SIGN_ID`: CPUID leaf 1 loads it.
    pub fn bios_sign_id(&mut self, call: &Call, cpu: usize) -> u64 {
        if self.machine.vendor != Vendor::Intel {
            call.fault("the register is Intel's");
        }
        let revision = u64::from(self.machine.microcode) << 32;
        let apic = &mut self.cpus[cpu];
        match call.store {
            None if apic.signed => return revision,
            None => return 0,
            Some(0) => apic.signed = false,
            Some(_) => call.fault("only 0 may be written"),
        }
        0
    }

    pub fn arch_capabilities(&self, call: &Call) -> u64 {
        match self.machine.lock {
            Lock::Absent => call.fault("CPUID.7:EDX[29] is 0: there is no IA32_ARCH_CAPABILITIES"),
            Lock::Unsupported => call.read_only(0),
            Lock::Open | Lock::Locked => call.read_only(1 << 21),
        }
    }

    pub fn disable_status(&self, call: &Call) -> u64 {
        match self.machine.lock {
            Lock::Absent | Lock::Unsupported => {
                call.fault("IA32_ARCH_CAPABILITIES[21] is 0: there is no such register")
            }
            Lock::Open => call.read_only(0),
            Lock::Locked => call.read_only(1),
        }
    }
}
