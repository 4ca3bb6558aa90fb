// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distributor's registers: one frame of 64 KiB (IHI 0069, "The GIC Distributor register
//! map"). Those of single interrupts are in [`bank`](super::bank).

use crate::regs::{Frame, PIDR2};
use irq_hal::access::{Ro, Rw};

/// What the macro makes: its modules cannot carry a line of documentation on each item.
#[allow(missing_docs)]
mod fields {
    use tock_registers::register_bitfields;

    register_bitfields![u32,
        /// Distributor control. The meaning of bits 0 and 1 depends on who reads.
        pub GICD_CTLR [
            /// Group 0, or in a non-secure view Group 1 while `ARE_NS=0`.
            EnableGrp0 OFFSET(0) NUMBITS(1) [],
            /// `EnableGrp1` with one security state, `EnableGrp1A` in a non-secure view with
            /// `ARE_NS=1`: the same bit, and the one that we set.
            EnableGrp1 OFFSET(1) NUMBITS(1) [],
            /// Affinity routing: `ARE`, or `ARE_NS` in a non-secure view.
            ARE OFFSET(4) NUMBITS(1) [],
            /// The other one, in a secure view of two security states; reads 0 elsewhere.
            ARE_NS OFFSET(5) NUMBITS(1) [],
            /// One security state.
            DS OFFSET(6) NUMBITS(1) [],
            /// 1-of-N wake-up.
            E1NWF OFFSET(7) NUMBITS(1) [],
            /// SGIs without an active state (v4.1, one security state only).
            nASSGIreq OFFSET(8) NUMBITS(1) [],
            /// A write that this register tracks is not complete.
            RWP OFFSET(31) NUMBITS(1) []
        ],
        /// What the distributor has.
        pub GICD_TYPER [
            /// INTIDs below `32 * (N + 1)` exist, at most 1020.
            ITLinesNumber OFFSET(0) NUMBITS(5) [],
            /// Extended SPIs.
            ESPI OFFSET(8) NUMBITS(1) [],
            /// Non-maskable interrupts.
            NMI OFFSET(9) NUMBITS(1) [],
            /// Two security states.
            SecurityExtn OFFSET(10) NUMBITS(1) [],
            num_LPIs OFFSET(11) NUMBITS(5) [],
            /// Message-based SPIs.
            MBIS OFFSET(16) NUMBITS(1) [],
            LPIS OFFSET(17) NUMBITS(1) [],
            DVIS OFFSET(18) NUMBITS(1) [],
            /// INTID bits less one.
            IDbits OFFSET(19) NUMBITS(5) [],
            /// Aff3 may be other than zero.
            A3V OFFSET(24) NUMBITS(1) [],
            /// Routing to "any CPU" is not supported.
            No1N OFFSET(25) NUMBITS(1) [],
            /// The range selector of SGIs is supported.
            RSS OFFSET(26) NUMBITS(1) [],
            /// `32 * (N + 1)` extended SPIs.
            ESPI_range OFFSET(27) NUMBITS(5) []
        ]
    ];
}

pub use fields::{GICD_CTLR, GICD_TYPER};

/// Offset of `GICD_CTLR`, read-write.
pub const CTLR: usize = 0x0000;
/// Offset of `GICD_TYPER`, read-only.
pub const TYPER: usize = 0x0004;
/// Offset of `GICD_IIDR`, read-only.
pub const IIDR: usize = 0x0008;
/// Offset of `GICD_TYPER2`, read-only; v4 only, and not on every part.
pub const TYPER2: usize = 0x000c;

/// The distributor's frame over a bus.
#[derive(Debug)]
pub struct Gicd<B> {
    /// The bus, for the line registers.
    pub bus: B,
}

impl<B: Frame> Gicd<B> {
    /// `GICD_CTLR`.
    pub const fn ctlr(&self) -> Rw<'_, B, u32, GICD_CTLR::Register> {
        Rw::new(&self.bus, CTLR)
    }

    /// `GICD_TYPER`.
    pub const fn typer(&self) -> Ro<'_, B, u32, GICD_TYPER::Register> {
        Ro::new(&self.bus, TYPER)
    }

    /// `GICD_IIDR`, the key of quirks.
    pub const fn iidr(&self) -> Ro<'_, B, u32> {
        Ro::new(&self.bus, IIDR)
    }

    /// `GICD_TYPER2`.
    pub const fn typer2(&self) -> Ro<'_, B, u32> {
        Ro::new(&self.bus, TYPER2)
    }

    /// `GICD_PIDR2`.
    pub const fn pidr2(&self) -> Ro<'_, B, u32> {
        Ro::new(&self.bus, PIDR2)
    }
}
