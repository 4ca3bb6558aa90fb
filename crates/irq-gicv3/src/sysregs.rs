// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU interface of the CPU that runs, through its system registers.

/// The bus of the running CPU's interface: `mrs` and `msr` by the encodings of
/// [`regs::icc`](crate::regs::icc). A bus on aarch64 only; elsewhere just a name.
///
/// An offset that is no register of this driver is a failed assertion in debug builds; in release
/// builds it reads 0, and a write to it is dropped.
///
/// The CPU must have the interface (`ID_AA64PFR0_EL1.GIC` other than 0), and the code must run
/// at EL1 or EL2 with access to it, or an access is an exception.
#[derive(Clone, Copy, Default, Debug)]
pub struct SysRegs;

#[cfg(target_arch = "aarch64")]
mod hardware {
    use core::arch::asm;

    use irq_hal::{Barrier, Bus, bus};

    use super::SysRegs;
    use crate::regs::icc::*;

    macro_rules! mrs {
        ($reg:literal) => {{
            let value: u64;
            // SAFETY: a read of a CPU interface register touches no memory that Rust knows.
            // Not `nomem`: an acknowledge orders what follows.
            unsafe {
                asm!(concat!("mrs {}, ", $reg), out(reg) value, options(nostack, preserves_flags));
            }
            value
        }};
    }

    macro_rules! msr {
        ($reg:literal, $value:expr) => {{
            let value: u64 = $value;
            // SAFETY: a write of a CPU interface register touches no memory that Rust knows.
            // Not `nomem`: masks, ends and sent interrupts order what is around them.
            unsafe {
                asm!(concat!("msr ", $reg, ", {}"), in(reg) value, options(nostack, preserves_flags));
            }
        }};
    }

    impl Bus<u64> for SysRegs {
        #[inline(always)]
        fn load(&self, offset: usize) -> u64 {
            match offset {
                ICC_IAR1_EL1 => mrs!("S3_0_C12_C12_0"),
                ICC_PMR_EL1 => mrs!("S3_0_C4_C6_0"),
                ICC_AP0R0_EL1 => mrs!("S3_0_C12_C8_4"),
                ICC_AP0R1_EL1 => mrs!("S3_0_C12_C8_5"),
                ICC_AP0R2_EL1 => mrs!("S3_0_C12_C8_6"),
                ICC_AP0R3_EL1 => mrs!("S3_0_C12_C8_7"),
                ICC_AP1R0_EL1 => mrs!("S3_0_C12_C9_0"),
                ICC_AP1R1_EL1 => mrs!("S3_0_C12_C9_1"),
                ICC_AP1R2_EL1 => mrs!("S3_0_C12_C9_2"),
                ICC_AP1R3_EL1 => mrs!("S3_0_C12_C9_3"),
                ICC_RPR_EL1 => mrs!("S3_0_C12_C11_3"),
                ICC_HPPIR1_EL1 => mrs!("S3_0_C12_C12_2"),
                ICC_BPR1_EL1 => mrs!("S3_0_C12_C12_3"),
                ICC_CTLR_EL1 => mrs!("S3_0_C12_C12_4"),
                ICC_SRE_EL1 => mrs!("S3_0_C12_C12_5"),
                ICC_IGRPEN0_EL1 => mrs!("S3_0_C12_C12_6"),
                ICC_IGRPEN1_EL1 => mrs!("S3_0_C12_C12_7"),
                ICC_SRE_EL2 => mrs!("S3_4_C12_C9_5"),
                _ => {
                    debug_assert!(false, "no readable system register {offset:#x}");
                    0
                }
            }
        }

        #[inline(always)]
        fn store(&self, offset: usize, value: u64) {
            match offset {
                ICC_EOIR1_EL1 => msr!("S3_0_C12_C12_1", value),
                ICC_DIR_EL1 => msr!("S3_0_C12_C11_1", value),
                ICC_SGI1R_EL1 => msr!("S3_0_C12_C11_5", value),
                ICC_PMR_EL1 => msr!("S3_0_C4_C6_0", value),
                ICC_AP0R0_EL1 => msr!("S3_0_C12_C8_4", value),
                ICC_AP0R1_EL1 => msr!("S3_0_C12_C8_5", value),
                ICC_AP0R2_EL1 => msr!("S3_0_C12_C8_6", value),
                ICC_AP0R3_EL1 => msr!("S3_0_C12_C8_7", value),
                ICC_AP1R0_EL1 => msr!("S3_0_C12_C9_0", value),
                ICC_AP1R1_EL1 => msr!("S3_0_C12_C9_1", value),
                ICC_AP1R2_EL1 => msr!("S3_0_C12_C9_2", value),
                ICC_AP1R3_EL1 => msr!("S3_0_C12_C9_3", value),
                ICC_BPR1_EL1 => msr!("S3_0_C12_C12_3", value),
                ICC_CTLR_EL1 => msr!("S3_0_C12_C12_4", value),
                ICC_SRE_EL1 => msr!("S3_0_C12_C12_5", value),
                ICC_IGRPEN0_EL1 => msr!("S3_0_C12_C12_6", value),
                ICC_IGRPEN1_EL1 => msr!("S3_0_C12_C12_7", value),
                ICC_SRE_EL2 => msr!("S3_4_C12_C9_5", value),
                _ => debug_assert!(false, "no writable system register {offset:#x}"),
            }
        }
    }

    impl Barrier for SysRegs {
        #[inline(always)]
        fn publish(&self) {
            bus::arch::publish();
        }

        #[inline(always)]
        fn complete(&self) {
            bus::arch::complete();
        }

        #[inline(always)]
        fn synchronize(&self) {
            bus::arch::synchronize();
        }
    }
}
