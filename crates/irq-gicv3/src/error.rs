// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there is no driver for this machine.

use irq_hal::Error;
use thiserror::Error as ThisError;

/// What a probe found. Unless it is [`Hardware`](Self::Hardware), nothing has been written to
/// distributor and redistributors. The CPU interface was switched to system registers at most,
/// and its priority mask is as before.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ProbeError {
    /// A window does not cover the frames of its block.
    #[error("the window of {block} has {len:#x} bytes and needs {need:#x}")]
    WindowTooShort {
        /// The block, `GICD` or `GICR`.
        block: &'static str,
        /// The window's length in bytes.
        len: usize,
        /// The length it needs.
        need: usize,
    },
    /// The description names no redistributor region.
    #[error("no redistributor region is described")]
    NoRegions,
    /// There is to be no CPU at all.
    #[error("the number of possible CPUs is zero")]
    NoCpus,
    /// The block is none of a GICv3 or GICv4: an older controller, or nothing at all.
    #[error("{register} reads {value:#x}, which is neither GICv3 nor GICv4")]
    NotGicv3 {
        /// `GICD_PIDR2` or `GICR_PIDR2`.
        register: &'static str,
        /// What it reads.
        value: u32,
    },
    /// A stride from the firmware that no redistributor can have.
    #[error("a redistributor stride of {stride:#x} is impossible")]
    Stride {
        /// The stride in bytes.
        stride: u64,
    },
    /// Two redistributors show the same affinity, or a region is described twice.
    #[error("two redistributors have the affinity {affinity:#x}")]
    SameAffinity {
        /// `GICR_TYPER[63:32]`.
        affinity: u32,
    },
    /// A priority that the view of this kernel does not allow, or that its mask would block.
    #[error("priority {priority:#x} cannot be had here")]
    Priority {
        /// The priority asked for.
        priority: u8,
    },
    /// The numbers of ours do not fit a `u32` from the base that was asked for.
    #[error("{count} irqs do not fit behind {base}")]
    Base {
        /// The base asked for.
        base: u32,
        /// How many numbers there are.
        count: u32,
    },
    /// The controller did not do what it was told, or memory ran out.
    #[error(transparent)]
    Hardware(#[from] Error),
}

impl From<ProbeError> for Error {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::WindowTooShort { block, len, need } => Error::TooSmall {
                what: block,
                len,
                need,
            },
            ProbeError::NoRegions => Error::Invalid {
                what: "number of redistributor regions",
                value: 0,
            },
            ProbeError::NoCpus => Error::Invalid {
                what: "number of CPUs",
                value: 0,
            },
            ProbeError::NotGicv3 { register, value } => Error::Refused {
                register,
                value: u64::from(value),
            },
            ProbeError::Stride { stride } => Error::Invalid {
                what: "redistributor stride",
                value: stride,
            },
            ProbeError::SameAffinity { affinity } => Error::Firmware {
                what: "two redistributors with one affinity",
                at: u64::from(affinity),
            },
            ProbeError::Priority { priority } => Error::Invalid {
                what: "priority",
                value: u64::from(priority),
            },
            ProbeError::Base { base, .. } => Error::Invalid {
                what: "base of irqs",
                value: u64::from(base),
            },
            ProbeError::Hardware(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use irq_hal::ErrorKind;

    #[test]
    fn a_probe_error_names_register_and_value_and_keeps_them_as_a_common_error() {
        let error = ProbeError::NotGicv3 {
            register: "GICD_PIDR2",
            value: 0x2b,
        };
        assert_eq!(
            std::format!("{error}"),
            "GICD_PIDR2 reads 0x2b, which is neither GICv3 nor GICv4"
        );
        let common = Error::from(error);
        assert_eq!(
            common,
            Error::Refused {
                register: "GICD_PIDR2",
                value: 0x2b
            }
        );
        assert_eq!(common.kind(), ErrorKind::Hardware);
    }
}
