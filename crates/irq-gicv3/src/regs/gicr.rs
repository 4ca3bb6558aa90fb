// SPDX-License-Identifier: MIT OR Apache-2.0
//! A redistributor's registers: `RD_base`, and `SGI_base` 64 KiB above it (IHI 0069, "The GIC
//! Redistributor register map"). Those of single interrupts are in [`bank`](super::bank).

use irq_hal::access::{Ro, Rw};
use tock_registers::LocalRegisterCopy;

use crate::regs::{Frame, PIDR2};

/// What the macro makes: its modules cannot carry a line of documentation on each item.
#[allow(missing_docs)]
mod fields {
    use tock_registers::register_bitfields;

    register_bitfields![u32,
        /// Redistributor control.
        pub GICR_CTLR [
            EnableLPIs OFFSET(0) NUMBITS(1) [],
            CES OFFSET(1) NUMBITS(1) [],
            IR OFFSET(2) NUMBITS(1) [],
            /// A write that this register tracks is not complete: bit 3, not 31 as in `GICD_CTLR`.
            RWP OFFSET(3) NUMBITS(1) [],
            DPG0 OFFSET(24) NUMBITS(1) [],
            DPG1NS OFFSET(25) NUMBITS(1) [],
            DPG1S OFFSET(26) NUMBITS(1) [],
            /// Upstream writes are pending: nothing that this driver waits for.
            UWP OFFSET(31) NUMBITS(1) []
        ],
        /// The wake handshake.
        pub GICR_WAKER [
            ProcessorSleep OFFSET(1) NUMBITS(1) [],
            ChildrenAsleep OFFSET(2) NUMBITS(1) []
        ],
        /// Power of a redistributor and its group (GIC-600, GIC-700 and relatives).
        pub GICR_PWRR [
            /// This redistributor is powered down.
            RDPD OFFSET(0) NUMBITS(1) [],
            /// The write is for the whole group.
            RDAG OFFSET(1) NUMBITS(1) [],
            /// The group's power is to be down.
            RDGPD OFFSET(2) NUMBITS(1) [],
            /// The group's power is down.
            RDGPO OFFSET(3) NUMBITS(1) []
        ]
    ];

    register_bitfields![u64,
        /// What a redistributor has, and whose it is.
        pub GICR_TYPER [
            PLPIS OFFSET(0) NUMBITS(1) [],
            /// It has the two frames for virtual LPIs.
            VLPIS OFFSET(1) NUMBITS(1) [],
            Dirty OFFSET(2) NUMBITS(1) [],
            DirectLPI OFFSET(3) NUMBITS(1) [],
            /// The last one of its region.
            Last OFFSET(4) NUMBITS(1) [],
            DPGS OFFSET(5) NUMBITS(1) [],
            MPAM OFFSET(6) NUMBITS(1) [],
            RVPEID OFFSET(7) NUMBITS(1) [],
            Processor_Number OFFSET(8) NUMBITS(16) [],
            CommonLPIAff OFFSET(24) NUMBITS(2) [],
            VSGI OFFSET(26) NUMBITS(1) [],
            /// 0: 16 PPIs; 1, 2: 32, 64 extended PPIs more.
            PPInum OFFSET(27) NUMBITS(5) [],
            /// Aff3.Aff2.Aff1.Aff0.
            Affinity_Value OFFSET(32) NUMBITS(32) []
        ]
    ];
}

pub use fields::{GICR_CTLR, GICR_PWRR, GICR_TYPER, GICR_WAKER};

/// A `GICR_TYPER` that was read.
pub type Typer = LocalRegisterCopy<u64, GICR_TYPER::Register>;

/// Offset of `GICR_CTLR` in `RD_base`, read-write.
pub const CTLR: usize = 0x0000;
/// Offset of `GICR_IIDR` in `RD_base`, read-only.
pub const IIDR: usize = 0x0004;
/// Offset of `GICR_TYPER` in `RD_base`, 64-bit, read-only.
pub const TYPER: usize = 0x0008;
/// Offset of `GICR_WAKER` in `RD_base`, read-write.
pub const WAKER: usize = 0x0014;
/// Offset of `GICR_PWRR` in `RD_base`, read-write, implementation defined.
pub const PWRR: usize = 0x0024;

/// A redistributor's frames over a bus that begins at `RD_base`.
#[derive(Debug)]
pub struct Gicr<B> {
    /// The bus, for the line registers.
    pub bus: B,
}

impl<B: Frame> Gicr<B> {
    /// `GICR_CTLR`.
    pub const fn ctlr(&self) -> Rw<'_, B, u32, GICR_CTLR::Register> {
        Rw::new(&self.bus, CTLR)
    }

    /// `GICR_IIDR`, the key of quirks.
    pub const fn iidr(&self) -> Ro<'_, B, u32> {
        Ro::new(&self.bus, IIDR)
    }

    /// `GICR_TYPER`.
    pub const fn typer(&self) -> Ro<'_, B, u64, GICR_TYPER::Register> {
        Ro::new(&self.bus, TYPER)
    }

    /// `GICR_WAKER`.
    pub const fn waker(&self) -> Rw<'_, B, u32, GICR_WAKER::Register> {
        Rw::new(&self.bus, WAKER)
    }

    /// `GICR_PWRR`, only where the implementation has it.
    pub const fn pwrr(&self) -> Rw<'_, B, u32, GICR_PWRR::Register> {
        Rw::new(&self.bus, PWRR)
    }

    /// `GICR_PIDR2`.
    pub const fn pidr2(&self) -> Ro<'_, B, u32> {
        Ro::new(&self.bus, PIDR2)
    }
}
