// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of the CPU that runs, on hardware: MSRs and ports.

/// The bus of the running CPU's local APIC: `rdmsr` and `wrmsr`, the offset is the MSR's number.
/// A bus on x86-64 only; elsewhere just a name.
///
/// An offset that is no register of this driver is a failed assertion in debug builds; in
/// release builds it reads 0, and a write to it is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Msrs(());

impl Msrs {
    /// The MSRs of whichever CPU makes an access.
    ///
    /// # Safety
    /// - Code that uses the value runs at privilege level 0.
    /// - Nothing but this driver, and what it is told to do, changes the mode of the local APIC
    ///   or sends through it.
    #[cfg_attr(not(target_arch = "x86_64"), doc(hidden))]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// The I/O ports of the machine: `in` and `out` of bytes, the offset is the port's number. A bus
/// on x86-64 only; elsewhere just a name.
///
/// An offset that is no port (above FFFFH) is a failed assertion in debug builds; in release
/// builds it reads all ones, and a write to it is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Ports(());

impl Ports {
    /// All ports.
    ///
    /// # Safety
    /// - Code that uses the value may access ports (privilege level 0, or IOPL).
    /// - The ports that it is used for belong to the user, and an access to them changes no
    ///   memory that Rust knows: an 8259, a UART; no DMA controller.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
mod hardware {
    use core::arch::asm;

    use irq_hal::{Barrier, Bus, bus};

    use super::{Msrs, Ports};
    use crate::regs::apic::*;

    /// Whether this driver knows the register.
    #[inline(always)]
    fn known(offset: usize) -> bool {
        X2APIC.contains(&offset)
            || matches!(
                offset,
                IA32_APIC_BASE
                    | IA32_BIOS_SIGN_ID
                    | IA32_XAPIC_DISABLE_STATUS
                    | IA32_ARCH_CAPABILITIES
                    | IA32_TSC_DEADLINE
            )
    }

    impl Bus<u64> for Msrs {
        #[inline(always)]
        fn load(&self, offset: usize) -> u64 {
            if !known(offset) {
                debug_assert!(false, "no MSR of the local APIC {offset:#x}");
                return 0;
            }
            let (low, high): (u32, u32);
            // SAFETY: whoever made `self` promised privilege level 0; these registers' reads
            // touch no memory. Not `nomem`: they stay where they are among other accesses.
            unsafe {
                asm!(
                    "rdmsr",
                    in("ecx") offset as u32,
                    out("eax") low,
                    out("edx") high,
                    options(nostack, preserves_flags)
                );
            }
            u64::from(high) << 32 | u64::from(low)
        }

        #[inline(always)]
        fn store(&self, offset: usize, value: u64) {
            if !known(offset) {
                debug_assert!(false, "no MSR of the local APIC {offset:#x}");
                return;
            }
            // SAFETY: whoever made `self` promised privilege level 0 and lets the driver change
            // the local APIC. Not `nomem`: sends and ends order what is around them.
            unsafe {
                asm!(
                    "wrmsr",
                    in("ecx") offset as u32,
                    in("eax") value as u32,
                    in("edx") (value >> 32) as u32,
                    options(nostack, preserves_flags)
                );
            }
        }
    }

    impl Barrier for Msrs {
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

    impl Bus<u8> for Ports {
        #[inline(always)]
        fn load(&self, offset: usize) -> u8 {
            let Ok(port) = u16::try_from(offset) else {
                debug_assert!(false, "no port {offset:#x}");
                return u8::MAX;
            };
            let value: u8;
            // SAFETY: whoever made `self` promised the right to the port, and that an access to
            // it changes no memory that Rust knows. Not `nomem`: it stays in order.
            unsafe {
                asm!(
                    "in al, dx",
                    in("dx") port,
                    out("al") value,
                    options(nostack, preserves_flags)
                );
            }
            value
        }

        #[inline(always)]
        fn store(&self, offset: usize, value: u8) {
            let Ok(port) = u16::try_from(offset) else {
                debug_assert!(false, "no port {offset:#x}");
                return;
            };
            // SAFETY: as for `load`.
            unsafe {
                asm!(
                    "out dx, al",
                    in("dx") port,
                    in("al") value,
                    options(nostack, preserves_flags)
                );
            }
        }
    }
}
