// SPDX-License-Identifier: MIT OR Apache-2.0
//! One access on its way through the model, and how the model objects to it.

use std::fmt;

use irq_hal::CpuIndex;

use super::msr;
use crate::log::Unit;

/// An access under judgement. `store` holds the value of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub cpu: CpuIndex,
    pub unit: Unit,
    pub offset: usize,
    pub store: Option<u64>,
    /// Whether the CPU masks interrupts.
    pub masked: bool,
}

impl Call {
    /// Stops the test: the access breaks `rule`, and hardware would not tell.
    #[track_caller]
    pub fn forbid(&self, rule: impl fmt::Display) -> ! {
        panic!("{self}: {rule}")
    }

    /// Stops the test: hardware raises a general-protection fault for the access.
    #[track_caller]
    pub fn fault(&self, rule: impl fmt::Display) -> ! {
        panic!("{self}: #GP: {rule}")
    }

    /// A read of the register, whose value is `value`; a write of it is a fault.
    #[track_caller]
    pub fn read_only(&self, value: u64) -> u64 {
        if self.store.is_some() {
            self.fault("the register is read-only");
        }
        value
    }

    /// The value of a write; a read is a fault.
    #[track_caller]
    pub fn write_only(&self) -> u64 {
        self.store
            .unwrap_or_else(|| self.fault("the register is write-only"))
    }

    /// Ones in bits of `value` that are not `allowed`.
    #[track_caller]
    pub fn reserved(&self, value: u64, allowed: u64) {
        if value & !allowed != 0 {
            self.fault(format_args!(
                "reserved bits {:#x} written as ones",
                value & !allowed
            ));
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, offset) = (self.cpu, self.offset);
        match self.store {
            Some(value) => write!(f, "{cpu} writes {value:#x} to ")?,
            None => write!(f, "{cpu} reads ")?,
        }
        match self.unit {
            Unit::Apic(_) => write!(f, "{} (MSR {offset:X}H)", msr::name(offset)),
            _ => write!(f, "port {offset:X}H"),
        }
    }
}
