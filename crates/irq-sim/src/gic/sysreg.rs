// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of the system registers of a CPU interface.

/// A system register as a bus offset: `op0<<14 | op1<<11 | crn<<7 | crm<<3 | op2`, the fields
/// of the `S<op0>_<op1>_C<crn>_C<crm>_<op2>` spelling.
pub const fn sysreg(op0: usize, op1: usize, crn: usize, crm: usize, op2: usize) -> usize {
    op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}

macro_rules! registers {
    ($($name:ident = $op0:literal $op1:literal $crn:literal $crm:literal $op2:literal;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $name: usize = sysreg($op0, $op1, $crn, $crm, $op2);
        )*

        /// The manual's name of a system register.
        pub fn name(offset: usize) -> String {
            match offset {
                $($name => stringify!($name).to_string(),)*
                other => format!(
                    "S{}_{}_C{}_C{}_{}",
                    other >> 14 & 3, other >> 11 & 7, other >> 7 & 15, other >> 3 & 15, other & 7
                ),
            }
        }
    };
}

registers! {
    ICC_PMR_EL1 = 3 0 4 6 0;
    ICC_IAR0_EL1 = 3 0 12 8 0;
    ICC_EOIR0_EL1 = 3 0 12 8 1;
    ICC_HPPIR0_EL1 = 3 0 12 8 2;
    ICC_BPR0_EL1 = 3 0 12 8 3;
    ICC_AP0R0_EL1 = 3 0 12 8 4;
    ICC_AP0R1_EL1 = 3 0 12 8 5;
    ICC_AP0R2_EL1 = 3 0 12 8 6;
    ICC_AP0R3_EL1 = 3 0 12 8 7;
    ICC_AP1R0_EL1 = 3 0 12 9 0;
    ICC_AP1R1_EL1 = 3 0 12 9 1;
    ICC_AP1R2_EL1 = 3 0 12 9 2;
    ICC_AP1R3_EL1 = 3 0 12 9 3;
    ICC_NMIAR1_EL1 = 3 0 12 9 5;
    ICC_DIR_EL1 = 3 0 12 11 1;
    ICC_RPR_EL1 = 3 0 12 11 3;
    ICC_SGI1R_EL1 = 3 0 12 11 5;
    ICC_ASGI1R_EL1 = 3 0 12 11 6;
    ICC_SGI0R_EL1 = 3 0 12 11 7;
    ICC_IAR1_EL1 = 3 0 12 12 0;
    ICC_EOIR1_EL1 = 3 0 12 12 1;
    ICC_HPPIR1_EL1 = 3 0 12 12 2;
    ICC_BPR1_EL1 = 3 0 12 12 3;
    ICC_CTLR_EL1 = 3 0 12 12 4;
    ICC_SRE_EL1 = 3 0 12 12 5;
    ICC_IGRPEN0_EL1 = 3 0 12 12 6;
    ICC_IGRPEN1_EL1 = 3 0 12 12 7;
    ICC_SRE_EL2 = 3 4 12 9 5;
}
