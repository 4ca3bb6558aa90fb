// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mode of a local APIC, and the way into x2APIC mode.
//!
//! | from \ to | disabled | xAPIC | x2APIC |
//! |---|---|---|---|
//! | disabled | yes | yes | **fault** |
//! | xAPIC | yes | yes | yes |
//! | x2APIC | yes, unless locked | **fault** | yes |
//!
//! (Intel SDM vol. 3, "x2APIC State Transitions".) Firmware, or the kernel before, may hand over
//! in any mode. Here bits are only ever added, and all others are written as they were read: so
//! there is no forbidden transition, the flag of the boot CPU stays, and x2APIC mode is never
//! left, locked or not.

use irq_hal::Error;
use tock_registers::LocalRegisterCopy;
use tock_registers::interfaces::{Readable, Writeable};

use crate::regs::apic::{APIC_BASE, ApicBus, ApicRegs};

/// A mode that a local APIC can be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Mode {
    /// Off: `CPUID.1:EDX[9]` reads 0 then.
    Disabled,
    /// Registers in memory.
    Xapic,
    /// Registers are MSRs.
    X2apic,
}

impl Mode {
    /// The mode that a value of `IA32_APIC_BASE` says; nothing for x2APIC mode of an APIC that
    /// is off, which no hardware can be in.
    pub const fn of(base: u64) -> Option<Self> {
        match (base & 1 << 11 != 0, base & 1 << 10 != 0) {
            (false, false) => Some(Self::Disabled),
            (true, false) => Some(Self::Xapic),
            (true, true) => Some(Self::X2apic),
            (false, true) => None,
        }
    }
}

const fn refused(base: u64) -> Error {
    Error::Refused {
        register: "IA32_APIC_BASE",
        value: base,
    }
}

/// Brings the local APIC of this CPU into x2APIC mode, and says in which it was found.
///
/// # Errors
/// [`Error::Refused`] if the register shows a mode that cannot be, or does not take the new one.
///
/// # Context
/// On that CPU, masked. The CPU has x2APIC mode.
pub fn enter_x2apic<M: ApicBus>(msrs: &M) -> Result<Mode, Error> {
    let register = ApicRegs(msrs).base();
    let base = register.get();
    let found = Mode::of(base).ok_or(refused(base))?;
    let mut value = LocalRegisterCopy::<u64, APIC_BASE::Register>::new(base);
    if found == Mode::X2apic {
        return Ok(found);
    }
    if found == Mode::Disabled {
        // x2APIC mode cannot be entered from here.
        value.modify(APIC_BASE::EN::SET);
        register.set(value.get());
    }
    value.modify(APIC_BASE::EXTD::SET);
    register.set(value.get());
    let now = register.get();
    match Mode::of(now) {
        Some(Mode::X2apic) => Ok(found),
        _ => Err(refused(now)),
    }
}

/// Whether x2APIC mode cannot be left on this CPU. `readable` is
/// [`Cpu::arch_capabilities`](crate::cpuid::Cpu::arch_capabilities).
///
/// # Context
/// Any. Writes nothing.
pub fn locked<M: ApicBus>(msrs: &M, readable: bool) -> bool {
    use crate::regs::apic::{ARCH_CAPABILITIES, XAPIC_DISABLE_STATUS};

    let registers = ApicRegs(msrs);
    readable
        && registers
            .arch_capabilities()
            .is_set(ARCH_CAPABILITIES::XAPIC_DISABLE_STATUS)
        && registers
            .disable_status()
            .is_set(XAPIC_DISABLE_STATUS::LEGACY_XAPIC_DISABLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_four_combinations_of_the_two_bits_are_modes() {
        let of = |en: u64, extd: u64| Mode::of(0xfee0_0000 | en << 11 | extd << 10);
        assert_eq!(of(0, 0), Some(Mode::Disabled));
        assert_eq!(of(1, 0), Some(Mode::Xapic));
        assert_eq!(of(1, 1), Some(Mode::X2apic));
        assert_eq!(of(0, 1), None);
    }
}
