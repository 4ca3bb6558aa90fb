// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there is no driver for this machine.

use irq_hal::Error;
use thiserror::Error as ThisError;

/// What a probe found. Nothing has been written to the local APIC, whatever it is.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ProbeError {
    /// CPUID knows no local APIC.
    #[error("there is no local APIC")]
    NoApic,
    /// There is a local APIC, and it has no x2APIC mode: it needs another driver.
    #[error("the local APIC has xAPIC mode only")]
    XapicOnly,
    /// Firmware asks to stay in xAPIC mode (DMAR, X2APIC_OPT_OUT), and nothing forces x2APIC
    /// mode yet.
    #[error("firmware asks for xAPIC mode")]
    OptedOut,
    /// `IA32_APIC_BASE` shows x2APIC mode of an APIC that is off.
    #[error("IA32_APIC_BASE reads {base:#x}, which is no mode")]
    Mode {
        /// What it reads.
        base: u64,
    },
    /// There is to be no CPU at all.
    #[error("the number of possible CPUs is zero")]
    NoCpus,
    /// Two of the described CPUs have the same id.
    #[error("two CPUs have the id {id:#x}")]
    SameId {
        /// The id.
        id: u32,
    },
    /// The CPU that runs is not among the described ones.
    #[error("the CPU that runs, with id {id:#x}, is not described")]
    BootCpu {
        /// Its id.
        id: u32,
    },
    /// A vector that is an exception of the CPU, or has two purposes.
    #[error("vector {vector:#x} cannot be the one of {what}")]
    Vector {
        /// What it was to be for.
        what: &'static str,
        /// The vector asked for.
        vector: u8,
    },
    /// The numbers of ours do not fit a `u32` from the base that was asked for.
    #[error("{count} irqs do not fit behind {base}")]
    Base {
        /// The base asked for.
        base: u32,
        /// How many numbers there are.
        count: u32,
    },
    /// Memory ran out, or there are more CPUs than can be.
    #[error(transparent)]
    Other(#[from] Error),
}

impl From<ProbeError> for Error {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::NoApic => Error::Unsupported {
                feature: "a machine without local APIC",
            },
            ProbeError::XapicOnly => Error::Unsupported {
                feature: "a local APIC without x2APIC mode",
            },
            ProbeError::OptedOut => Error::Unsupported {
                feature: "x2APIC mode against firmware's wish",
            },
            ProbeError::Mode { base } => Error::Refused {
                register: "IA32_APIC_BASE",
                value: base,
            },
            ProbeError::NoCpus => Error::Invalid {
                what: "number of CPUs",
                value: 0,
            },
            ProbeError::SameId { id } => Error::Firmware {
                what: "two CPUs with one APIC id",
                at: u64::from(id),
            },
            ProbeError::BootCpu { id } => Error::Firmware {
                what: "no entry for the boot CPU's APIC id",
                at: u64::from(id),
            },
            ProbeError::Vector { vector, .. } => Error::Invalid {
                what: "vector",
                value: u64::from(vector),
            },
            ProbeError::Base { base, .. } => Error::Invalid {
                what: "base of irqs",
                value: u64::from(base),
            },
            ProbeError::Other(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use irq_hal::ErrorKind;

    #[test]
    fn a_probe_error_names_what_it_found_and_keeps_it_as_a_common_error() {
        let error = ProbeError::Mode { base: 0xfee0_0400 };
        assert_eq!(
            std::format!("{error}"),
            "IA32_APIC_BASE reads 0xfee00400, which is no mode"
        );
        let common = Error::from(error);
        assert_eq!(
            common,
            Error::Refused {
                register: "IA32_APIC_BASE",
                value: 0xfee0_0400
            }
        );
        assert_eq!(common.kind(), ErrorKind::Hardware);
        assert_eq!(
            Error::from(ProbeError::XapicOnly).kind(),
            ErrorKind::Unsupported
        );
    }
}
