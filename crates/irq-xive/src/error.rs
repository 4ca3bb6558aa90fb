// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there is no driver for this machine, and what firmware said.

use irq_hal::Error;
use thiserror::Error as ThisError;

use crate::opal::Call;

/// An OPAL call that failed: which one, and the code it returned. Calls that stay busy are an
/// [`Error::Timeout`] instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error("{} returned {code}", .call.name())]
pub struct OpalError {
    /// The call.
    pub call: Call,
    /// What it returned: [`code`](crate::opal::code) names the values.
    pub code: i64,
}

impl From<OpalError> for Error {
    /// [`Error::Refused`] with the call's name and the code as 64 bits.
    fn from(error: OpalError) -> Self {
        Self::Refused {
            register: error.call.name(),
            value: error.code as u64,
        }
    }
}

/// What a probe found. Unless it is [`Hardware`](Self::Hardware), nothing has been touched; if it
/// is, everything was given back, and the controller was reset if it had been touched.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ProbeError {
    /// There is to be no CPU at all.
    #[error("the number of CPUs is zero")]
    NoCpus,
    /// Two CPUs are described with one hardware thread.
    #[error("two CPUs have the pir {pir:#x}")]
    SamePir {
        /// The thread's name.
        pir: u32,
    },
    /// A thread's name that no thread can have: firmware gives those numbers another meaning.
    #[error("no hardware thread can have the pir {pir:#x}")]
    Pir {
        /// The thread's name.
        pir: u32,
    },
    /// A priority that the hardware lacks.
    #[error("priority {priority} is beyond the {priorities} that there are")]
    Priority {
        /// The priority asked for.
        priority: u8,
        /// How many there are.
        priorities: u8,
    },
    /// Interrupts between CPUs must be more favoured than those of devices.
    #[error("IPIs at priority {ipi} are not more favoured than devices at {device}")]
    Order {
        /// The priority of IPIs.
        ipi: u8,
        /// The priority of devices.
        device: u8,
    },
    /// The hardware has no event queue of that size.
    #[error("no event queue of 2^{log2} bytes can be had here")]
    QueueSize {
        /// The base-2 logarithm of the bytes.
        log2: u32,
    },
    /// More sources than events can name, or numbers of ours that do not fit a `u32`.
    #[error("{count} irqs do not fit behind {base}")]
    Base {
        /// The base asked for.
        base: u32,
        /// How many numbers there are.
        count: u32,
    },
    /// The controller, or firmware, did not do what it was told, or memory ran out.
    #[error(transparent)]
    Hardware(#[from] Error),
}

impl From<OpalError> for ProbeError {
    fn from(error: OpalError) -> Self {
        Self::Hardware(error.into())
    }
}

impl From<ProbeError> for Error {
    fn from(error: ProbeError) -> Self {
        let invalid = |what, value: u32| Self::Invalid {
            what,
            value: u64::from(value),
        };
        match error {
            ProbeError::NoCpus => invalid("number of CPUs", 0),
            ProbeError::SamePir { pir } => Self::Firmware {
                what: "two CPUs with one pir",
                at: u64::from(pir),
            },
            ProbeError::Pir { pir } => invalid("pir", pir),
            ProbeError::Priority { priority, .. } => invalid("priority", priority.into()),
            ProbeError::Order { ipi, .. } => invalid("priority of IPIs", ipi.into()),
            ProbeError::QueueSize { log2 } => invalid("size of an event queue", log2),
            ProbeError::Base { base, .. } => invalid("base of irqs", base),
            ProbeError::Hardware(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opal::code;
    use irq_hal::ErrorKind;

    #[test]
    fn a_failed_call_is_named_with_its_code_and_stays_so_as_a_common_error() {
        let error = OpalError {
            call: Call::AllocateIrq,
            code: code::RESOURCE,
        };
        assert_eq!(
            std::format!("{error}"),
            "OPAL_XIVE_ALLOCATE_IRQ returned -10"
        );
        let common = Error::from(error);
        assert_eq!(
            common,
            Error::Refused {
                register: "OPAL_XIVE_ALLOCATE_IRQ",
                value: -10_i64 as u64
            }
        );
        assert_eq!(common.kind(), ErrorKind::Hardware);
        assert_eq!(ProbeError::from(error), ProbeError::Hardware(common));
    }

    #[test]
    fn a_refusal_keeps_its_value_as_a_common_error() {
        let order = ProbeError::Order { ipi: 6, device: 6 };
        assert_eq!(
            std::format!("{order}"),
            "IPIs at priority 6 are not more favoured than devices at 6"
        );
        assert_eq!(
            Error::from(order),
            Error::Invalid {
                what: "priority of IPIs",
                value: 6
            }
        );
        assert_eq!(
            Error::from(ProbeError::QueueSize { log2: 13 }).kind(),
            ErrorKind::Invalid
        );
    }
}
