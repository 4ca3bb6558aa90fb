// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU interface's system registers (IHI 0069, "AArch64 System register descriptions").
//!
//! They have no address, so the bus takes an encoding for an offset: [`sysreg`].

use irq_hal::access::{Cmd, Pop, Ro, Rw};
use irq_hal::{Barrier, Bus};

/// The encoding of a system register as the offset on a `Bus<u64>`:
/// `op0<<14 | op1<<11 | CRn<<7 | CRm<<3 | op2`.
pub const fn sysreg(op0: usize, op1: usize, crn: usize, crm: usize, op2: usize) -> usize {
    op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}

/// Priority mask: `S3_0_C4_C6_0`.
pub const ICC_PMR_EL1: usize = sysreg(3, 0, 4, 6, 0);
/// Active priorities of Group 0, word 0: `S3_0_C12_C8_4`.
pub const ICC_AP0R0_EL1: usize = sysreg(3, 0, 12, 8, 4);
/// Active priorities of Group 0, word 1: `S3_0_C12_C8_5`.
pub const ICC_AP0R1_EL1: usize = sysreg(3, 0, 12, 8, 5);
/// Active priorities of Group 0, word 2: `S3_0_C12_C8_6`.
pub const ICC_AP0R2_EL1: usize = sysreg(3, 0, 12, 8, 6);
/// Active priorities of Group 0, word 3: `S3_0_C12_C8_7`.
pub const ICC_AP0R3_EL1: usize = sysreg(3, 0, 12, 8, 7);
/// Active priorities of Group 1, word 0: `S3_0_C12_C9_0`.
pub const ICC_AP1R0_EL1: usize = sysreg(3, 0, 12, 9, 0);
/// Active priorities of Group 1, word 1: `S3_0_C12_C9_1`.
pub const ICC_AP1R1_EL1: usize = sysreg(3, 0, 12, 9, 1);
/// Active priorities of Group 1, word 2: `S3_0_C12_C9_2`.
pub const ICC_AP1R2_EL1: usize = sysreg(3, 0, 12, 9, 2);
/// Active priorities of Group 1, word 3: `S3_0_C12_C9_3`.
pub const ICC_AP1R3_EL1: usize = sysreg(3, 0, 12, 9, 3);
/// Deactivation: `S3_0_C12_C11_1`.
pub const ICC_DIR_EL1: usize = sysreg(3, 0, 12, 11, 1);
/// Running priority: `S3_0_C12_C11_3`.
pub const ICC_RPR_EL1: usize = sysreg(3, 0, 12, 11, 3);
/// SGIs of Group 1, fields as in [`sgi`](crate::sgi): `S3_0_C12_C11_5`.
pub const ICC_SGI1R_EL1: usize = sysreg(3, 0, 12, 11, 5);
/// Acknowledge of Group 1: `S3_0_C12_C12_0`.
pub const ICC_IAR1_EL1: usize = sysreg(3, 0, 12, 12, 0);
/// End of Group 1: `S3_0_C12_C12_1`.
pub const ICC_EOIR1_EL1: usize = sysreg(3, 0, 12, 12, 1);
/// Highest pending interrupt of Group 1: `S3_0_C12_C12_2`.
pub const ICC_HPPIR1_EL1: usize = sysreg(3, 0, 12, 12, 2);
/// Binary point of Group 1: `S3_0_C12_C12_3`.
pub const ICC_BPR1_EL1: usize = sysreg(3, 0, 12, 12, 3);
/// Control: `S3_0_C12_C12_4`.
pub const ICC_CTLR_EL1: usize = sysreg(3, 0, 12, 12, 4);
/// System register enable: `S3_0_C12_C12_5`.
pub const ICC_SRE_EL1: usize = sysreg(3, 0, 12, 12, 5);
/// Enable of Group 0: `S3_0_C12_C12_6`.
pub const ICC_IGRPEN0_EL1: usize = sysreg(3, 0, 12, 12, 6);
/// Enable of Group 1: `S3_0_C12_C12_7`.
pub const ICC_IGRPEN1_EL1: usize = sysreg(3, 0, 12, 12, 7);
/// System register enable of EL2: `S3_4_C12_C9_5`.
pub const ICC_SRE_EL2: usize = sysreg(3, 4, 12, 9, 5);

/// What the macro makes: its modules cannot carry a line of documentation on each item.
#[allow(missing_docs)]
mod fields {
    use tock_registers::register_bitfields;

    register_bitfields![u64,
        pub ICC_CTLR_EL1 [
            /// One binary point for both groups.
            CBPR OFFSET(0) NUMBITS(1) [],
            /// 1: EOIR drops the priority only, DIR deactivates.
            EOImode OFFSET(1) NUMBITS(1) [],
            PMHE OFFSET(6) NUMBITS(1) [],
            /// Priority bits less one.
            PRIbits OFFSET(8) NUMBITS(3) [],
            IDbits OFFSET(11) NUMBITS(3) [],
            SEIS OFFSET(14) NUMBITS(1) [],
            A3V OFFSET(15) NUMBITS(1) [],
            /// SGIs can use the range selector.
            RSS OFFSET(18) NUMBITS(1) [],
            /// The interface takes extended PPIs and SPIs.
            ExtRange OFFSET(19) NUMBITS(1) []
        ],
        /// `ICC_SRE_EL1` and `ICC_SRE_EL2`.
        pub ICC_SRE [
            SRE OFFSET(0) NUMBITS(1) [],
            DFB OFFSET(1) NUMBITS(1) [],
            DIB OFFSET(2) NUMBITS(1) [],
            /// EL1 may touch its own (`ICC_SRE_EL2` only).
            Enable OFFSET(3) NUMBITS(1) []
        ]
    ];
}

pub use fields::{ICC_CTLR_EL1, ICC_SRE};

/// The bus of the CPU interface. Implemented by whatever has 64-bit accesses and barriers.
pub trait IccBus: Bus<u64> + Barrier {}

impl<C: Bus<u64> + Barrier> IccBus for C {}

/// The CPU interface's registers over a bus.
#[derive(Clone, Copy, Debug)]
pub struct Icc<C> {
    /// The bus, for barriers.
    pub bus: C,
}

impl<C: IccBus> Icc<C> {
    /// Priority mask.
    #[inline(always)]
    pub const fn pmr(&self) -> Rw<'_, C, u64> {
        Rw::new(&self.bus, ICC_PMR_EL1)
    }

    /// Acknowledge of Group 1: hands out an INTID, and it becomes active.
    #[inline(always)]
    pub const fn iar1(&self) -> Pop<'_, C, u64> {
        Pop::new(&self.bus, ICC_IAR1_EL1)
    }

    /// End of a Group 1 interrupt: drops the priority, and with `EOImode=0` deactivates.
    #[inline(always)]
    pub const fn eoir1(&self) -> Cmd<'_, C, u64> {
        Cmd::new(&self.bus, ICC_EOIR1_EL1)
    }

    /// Deactivation, with `EOImode=1` only.
    #[inline(always)]
    pub const fn dir(&self) -> Cmd<'_, C, u64> {
        Cmd::new(&self.bus, ICC_DIR_EL1)
    }

    /// Sends Group 1 SGIs.
    #[inline(always)]
    pub const fn sgi1r(&self) -> Cmd<'_, C, u64> {
        Cmd::new(&self.bus, ICC_SGI1R_EL1)
    }

    /// Running priority.
    pub const fn rpr(&self) -> Ro<'_, C, u64> {
        Ro::new(&self.bus, ICC_RPR_EL1)
    }

    /// The INTID that an acknowledge would hand out.
    pub const fn hppir1(&self) -> Ro<'_, C, u64> {
        Ro::new(&self.bus, ICC_HPPIR1_EL1)
    }

    /// Binary point of Group 1.
    pub const fn bpr1(&self) -> Rw<'_, C, u64> {
        Rw::new(&self.bus, ICC_BPR1_EL1)
    }

    /// Control.
    pub const fn ctlr(&self) -> Rw<'_, C, u64, ICC_CTLR_EL1::Register> {
        Rw::new(&self.bus, ICC_CTLR_EL1)
    }

    /// System register enable.
    pub const fn sre(&self) -> Rw<'_, C, u64, ICC_SRE::Register> {
        Rw::new(&self.bus, ICC_SRE_EL1)
    }

    /// System register enable of EL2, from EL2 only.
    pub const fn sre_el2(&self) -> Rw<'_, C, u64, ICC_SRE::Register> {
        Rw::new(&self.bus, ICC_SRE_EL2)
    }

    /// Group 0 enable, bit 0. A trap where Group 0 is not ours.
    pub const fn igrpen0(&self) -> Rw<'_, C, u64> {
        Rw::new(&self.bus, ICC_IGRPEN0_EL1)
    }

    /// Group 1 enable, bit 0.
    pub const fn igrpen1(&self) -> Rw<'_, C, u64> {
        Rw::new(&self.bus, ICC_IGRPEN1_EL1)
    }

    /// Active priorities of Group 0, `n` 0 to 3.
    pub const fn ap0r(&self, n: usize) -> Rw<'_, C, u64> {
        debug_assert!(n < 4);
        Rw::new(&self.bus, ICC_AP0R0_EL1 + n)
    }

    /// Active priorities of Group 1, `n` 0 to 3.
    pub const fn ap1r(&self, n: usize) -> Rw<'_, C, u64> {
        debug_assert!(n < 4);
        Rw::new(&self.bus, ICC_AP1R0_EL1 + n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_of_the_manual() {
        // S3_0_C12_C12_0 and S3_4_C12_C9_5, packed by hand.
        assert_eq!(ICC_IAR1_EL1, 0xc000 | 12 << 7 | 12 << 3);
        assert_eq!(ICC_SRE_EL2, 0xc000 | 4 << 11 | 12 << 7 | 9 << 3 | 5);
        assert_eq!(ICC_PMR_EL1, 0xc000 | 4 << 7 | 6 << 3);
        assert_eq!(ICC_AP1R3_EL1, ICC_AP1R0_EL1 + 3);
        assert_eq!(ICC_AP0R3_EL1, ICC_AP0R0_EL1 + 3);
    }
}
