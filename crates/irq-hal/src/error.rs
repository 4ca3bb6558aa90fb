// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of every trait in this project.
//!
//! Small, `Copy`, with numbers inside; [`Error::kind`] is stable and maps to an errno or a
//! static string. A driver's own probe error converts into it.

use thiserror::Error as ThisError;

use crate::ids::{CpuIndex, NodeId};
use crate::wait::WaitFor;

/// What went wrong.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Error {
    /// A wait on hardware ended at its bound.
    #[error("timeout: {} never showed {} (last {last:#x})", .what.register, .what.state)]
    Timeout {
        /// The register and the state that was waited for.
        what: &'static WaitFor,
        /// The register's value at the last poll.
        last: u64,
    },
    /// A hardware interrupt number beyond what the controller implements.
    #[error("hardware interrupt {hwirq} is out of range, the last one is {last}")]
    HwirqOutOfRange {
        /// The number asked for, in the controller's numbering.
        hwirq: u32,
        /// The last number of that kind that exists.
        last: u32,
    },
    /// A hardware interrupt number that the architecture reserves or gives a special meaning.
    #[error("hardware interrupt {hwirq} is reserved or special")]
    HwirqReserved {
        /// The number asked for.
        hwirq: u32,
    },
    /// An interrupt number of ours that no range covers.
    #[error("irq {irq} is in no range")]
    NoSuchIrq {
        /// The number asked for.
        irq: u32,
    },
    /// A CPU that the hardware or the firmware tables do not have.
    #[error("{cpu} does not exist")]
    NoSuchCpu {
        /// The CPU asked for.
        cpu: CpuIndex,
    },
    /// A hardware CPU id for which there is no unit of the controller.
    #[error("no {block} for the CPU with hardware id {id:#x}")]
    NoUnitForCpu {
        /// The block that is missing.
        block: &'static str,
        /// The CPU's hardware id (MPIDR, APIC id, PIR).
        id: u64,
    },
    /// A CPU that exists and is not online.
    #[error("{cpu} is offline")]
    CpuOffline {
        /// The CPU asked for.
        cpu: CpuIndex,
    },
    /// A CPU that is online already.
    #[error("{cpu} is online already")]
    CpuIsOnline {
        /// The CPU asked for.
        cpu: CpuIndex,
    },
    /// A CPU that is online did not begin what it was asked for in time. The request is
    /// withdrawn.
    #[error("{cpu} does not answer")]
    NoAnswer {
        /// The CPU asked.
        cpu: CpuIndex,
    },
    /// A CPU began what it was asked for, and did not end it in time. It may yet.
    #[error("{cpu} has not finished")]
    Unfinished {
        /// The CPU asked.
        cpu: CpuIndex,
    },
    /// What a CPU was asked to run unwound there instead of returning.
    #[error("what {cpu} was asked to run unwound")]
    Unwound {
        /// The CPU asked.
        cpu: CpuIndex,
    },
    /// Memory was not to be had.
    #[error("no {bytes} bytes of memory on {node}")]
    OutOfMemory {
        /// How much was asked for.
        bytes: usize,
        /// Near which node.
        node: NodeId,
    },
    /// All of the fixed number of slots are taken.
    #[error("all {capacity} {what} are taken")]
    Full {
        /// What there is no more of.
        what: &'static str,
        /// How many there are.
        capacity: u32,
    },
    /// No CPU of those asked for can serve an interrupt.
    #[error("no CPU can serve it: {why}")]
    NoCpu {
        /// What keeps them from it.
        why: NoCpu,
    },
    /// It is there already.
    #[error("{what} exists already")]
    Exists {
        /// What is there.
        what: &'static str,
    },
    /// The hardware, or its configuration, cannot do it.
    #[error("{feature} is not supported")]
    Unsupported {
        /// What was asked for.
        feature: &'static str,
    },
    /// The hardware refused a setting: the register reads back something else.
    #[error("{register} reads back {value:#x}")]
    Refused {
        /// The register.
        register: &'static str,
        /// What it read back.
        value: u64,
    },
    /// A window or table too small for what it must hold.
    #[error("{what} has {len:#x} bytes and needs {need:#x}")]
    TooSmall {
        /// What is too small.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The length it needs.
        need: usize,
    },
    /// A firmware table says something that cannot be.
    #[error("firmware table: {what} at {at:#x}")]
    Firmware {
        /// What is wrong.
        what: &'static str,
        /// Where, or the offending value.
        at: u64,
    },
    /// The block of a CPU that was made from another setup.
    #[error("the block of {cpu} is of another setup")]
    WrongBlock {
        /// Whose block it would have been.
        cpu: CpuIndex,
    },
    /// An interrupt that waits for no completion.
    #[error("irq {irq} is not deferred")]
    NotDeferred {
        /// The number asked for.
        irq: u32,
    },
    /// An argument out of its documented range.
    #[error("{what} cannot be {value:#x}")]
    Invalid {
        /// The argument.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Not in this context: from inside the handler itself, or with a lock held.
    #[error("not allowed here: {what}")]
    Context {
        /// What was tried.
        what: &'static str,
    },
    /// Something still uses it.
    #[error("{what} is in use")]
    Busy {
        /// What is in use.
        what: &'static str,
    },
}

/// Why no CPU of a set can serve an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NoCpu {
    /// The set names no possible CPU.
    #[error("none is asked for")]
    EmptyMask,
    /// None of the set is online.
    #[error("none of them is online")]
    Offline,
    /// Those that are online have no room.
    #[error("none of them has room")]
    Full,
}

impl From<NoCpu> for Error {
    fn from(why: NoCpu) -> Self {
        Self::NoCpu { why }
    }
}

/// The stable kind of an [`Error`], for an errno or a message.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ErrorKind {
    /// Hardware, or another CPU, did not answer in time (`ETIMEDOUT`).
    Timeout,
    /// No such interrupt, CPU or unit (`ENOENT`, `ENXIO`).
    NotFound,
    /// Offline at the moment (`EAGAIN`).
    Offline,
    /// No memory (`ENOMEM`).
    OutOfMemory,
    /// No room in a fixed table (`ENOSPC`).
    Full,
    /// There already (`EEXIST`).
    Exists,
    /// Not supported (`EOPNOTSUPP`).
    Unsupported,
    /// Hardware or firmware misbehaves (`EIO`).
    Hardware,
    /// A wrong argument (`EINVAL`).
    Invalid,
    /// Called in the wrong context (`EDEADLK`).
    Context,
    /// In use (`EBUSY`).
    Busy,
    /// Begun and given up (`ECANCELED`).
    Aborted,
}

impl ErrorKind {
    /// The kind in two or three words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timed out",
            Self::NotFound => "not found",
            Self::Offline => "offline",
            Self::OutOfMemory => "out of memory",
            Self::Full => "no room",
            Self::Exists => "exists already",
            Self::Unsupported => "not supported",
            Self::Hardware => "hardware fault",
            Self::Invalid => "invalid argument",
            Self::Context => "wrong context",
            Self::Busy => "in use",
            Self::Aborted => "given up",
        }
    }
}

impl Error {
    /// The stable kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Timeout { .. } | Self::NoAnswer { .. } | Self::Unfinished { .. } => {
                ErrorKind::Timeout
            }
            Self::NoSuchIrq { .. } | Self::NoSuchCpu { .. } | Self::NoUnitForCpu { .. } => {
                ErrorKind::NotFound
            }
            Self::CpuOffline { .. } => ErrorKind::Offline,
            Self::NoCpu { why } => match why {
                NoCpu::EmptyMask => ErrorKind::Invalid,
                NoCpu::Offline => ErrorKind::Offline,
                NoCpu::Full => ErrorKind::Full,
            },
            Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::Full { .. } => ErrorKind::Full,
            Self::Exists { .. } | Self::CpuIsOnline { .. } => ErrorKind::Exists,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Refused { .. } | Self::Firmware { .. } => ErrorKind::Hardware,
            Self::HwirqOutOfRange { .. }
            | Self::HwirqReserved { .. }
            | Self::TooSmall { .. }
            | Self::WrongBlock { .. }
            | Self::NotDeferred { .. }
            | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Context { .. } => ErrorKind::Context,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Unwound { .. } => ErrorKind::Aborted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_small_and_names_register_and_state() {
        static WAKE: WaitFor = WaitFor {
            register: "GICR_WAKER",
            state: "ChildrenAsleep=0",
        };
        let error = Error::Timeout {
            what: &WAKE,
            last: 6,
        };
        assert_eq!(
            std::format!("{error}"),
            "timeout: GICR_WAKER never showed ChildrenAsleep=0 (last 0x6)"
        );
        assert_eq!(error.kind().as_str(), "timed out");
        assert!(size_of::<Error>() <= 40, "{}", size_of::<Error>());
    }
    #[test]
    fn each_error_prints_its_values_and_has_a_stable_kind() {
        let (cpu, node) = (CpuIndex::new(3), NodeId::new(1));
        for (error, text, kind) in [
            (
                Error::HwirqOutOfRange {
                    hwirq: 1020,
                    last: 287,
                },
                "hardware interrupt 1020 is out of range, the last one is 287",
                ErrorKind::Invalid,
            ),
            (
                Error::HwirqReserved { hwirq: 1023 },
                "hardware interrupt 1023 is reserved or special",
                ErrorKind::Invalid,
            ),
            (
                Error::NoSuchIrq { irq: 9 },
                "irq 9 is in no range",
                ErrorKind::NotFound,
            ),
            (
                Error::NoSuchCpu { cpu },
                "cpu3 does not exist",
                ErrorKind::NotFound,
            ),
            (
                Error::NoUnitForCpu {
                    block: "redistributor",
                    id: 0x1_0203,
                },
                "no redistributor for the CPU with hardware id 0x10203",
                ErrorKind::NotFound,
            ),
            (
                Error::CpuOffline { cpu },
                "cpu3 is offline",
                ErrorKind::Offline,
            ),
            (
                NoCpu::EmptyMask.into(),
                "no CPU can serve it: none is asked for",
                ErrorKind::Invalid,
            ),
            (
                NoCpu::Offline.into(),
                "no CPU can serve it: none of them is online",
                ErrorKind::Offline,
            ),
            (
                NoCpu::Full.into(),
                "no CPU can serve it: none of them has room",
                ErrorKind::Full,
            ),
            (
                Error::CpuIsOnline { cpu },
                "cpu3 is online already",
                ErrorKind::Exists,
            ),
            (
                Error::NoAnswer { cpu },
                "cpu3 does not answer",
                ErrorKind::Timeout,
            ),
            (
                Error::Unfinished { cpu },
                "cpu3 has not finished",
                ErrorKind::Timeout,
            ),
            (
                Error::Unwound { cpu },
                "what cpu3 was asked to run unwound",
                ErrorKind::Aborted,
            ),
            (
                Error::OutOfMemory { bytes: 65536, node },
                "no 65536 bytes of memory on node1",
                ErrorKind::OutOfMemory,
            ),
            (
                Error::Full {
                    what: "vectors",
                    capacity: 202,
                },
                "all 202 vectors are taken",
                ErrorKind::Full,
            ),
            (
                Error::Exists { what: "the table" },
                "the table exists already",
                ErrorKind::Exists,
            ),
            (
                Error::Unsupported {
                    feature: "EOImode 1",
                },
                "EOImode 1 is not supported",
                ErrorKind::Unsupported,
            ),
            (
                Error::Refused {
                    register: "GICD_CTLR",
                    value: 0x10,
                },
                "GICD_CTLR reads back 0x10",
                ErrorKind::Hardware,
            ),
            (
                Error::TooSmall {
                    what: "GICD",
                    len: 0x1000,
                    need: 0x1_0000,
                },
                "GICD has 0x1000 bytes and needs 0x10000",
                ErrorKind::Invalid,
            ),
            (
                Error::Firmware {
                    what: "no region",
                    at: 0x40,
                },
                "firmware table: no region at 0x40",
                ErrorKind::Hardware,
            ),
            (
                Error::WrongBlock { cpu },
                "the block of cpu3 is of another setup",
                ErrorKind::Invalid,
            ),
            (
                Error::NotDeferred { irq: 9 },
                "irq 9 is not deferred",
                ErrorKind::Invalid,
            ),
            (
                Error::Invalid {
                    what: "priority",
                    value: 0x100,
                },
                "priority cannot be 0x100",
                ErrorKind::Invalid,
            ),
            (
                Error::Context { what: "removal" },
                "not allowed here: removal",
                ErrorKind::Context,
            ),
            (
                Error::Busy { what: "the line" },
                "the line is in use",
                ErrorKind::Busy,
            ),
        ] {
            assert_eq!(
                (std::format!("{error}").as_str(), error.kind()),
                (text, kind)
            );
        }
    }
}
