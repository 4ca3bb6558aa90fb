// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local APIC's model-specific registers (Intel SDM vol. 3, "x2APIC Register Address
//! Space").
//!
//! They have no address, so the bus takes the MSR's number for an offset.

use irq_hal::access::{Cmd, Ro, Rw};
use irq_hal::{Barrier, Bus};

use super::lvt::Lvt;

/// Mode and base address: `IA32_APIC_BASE`.
pub const IA32_APIC_BASE: usize = 0x1b;
/// The revision of the microcode, in bits 63:32 after a write of 0 and a CPUID of leaf 1.
pub const IA32_BIOS_SIGN_ID: usize = 0x8b;
/// Whether x2APIC mode can be left at all.
pub const IA32_XAPIC_DISABLE_STATUS: usize = 0xbd;
/// Bit 21 says that [`IA32_XAPIC_DISABLE_STATUS`] is there. Itself there by `CPUID.7:EDX[29]`.
pub const IA32_ARCH_CAPABILITIES: usize = 0x10a;
/// The absolute TSC value of the timer in TSC-deadline mode.
pub const IA32_TSC_DEADLINE: usize = 0x6e0;
/// The id, read-only.
pub const IA32_X2APIC_APICID: usize = 0x802;
/// Version and number of LVT entries.
pub const IA32_X2APIC_VERSION: usize = 0x803;
/// Task priority.
pub const IA32_X2APIC_TPR: usize = 0x808;
/// Processor priority, read-only.
pub const IA32_X2APIC_PPR: usize = 0x80a;
/// End of interrupt, write-only, 0.
pub const IA32_X2APIC_EOI: usize = 0x80b;
/// Logical destination, read-only.
pub const IA32_X2APIC_LDR: usize = 0x80d;
/// Spurious vector and software enable.
pub const IA32_X2APIC_SIVR: usize = 0x80f;
/// Vectors in service, 8 words of 32.
pub const IA32_X2APIC_ISR0: usize = 0x810;
/// Vectors that wait, 8 words of 32.
pub const IA32_X2APIC_IRR0: usize = 0x820;
/// Errors: a write of 0 latches them for the next read.
pub const IA32_X2APIC_ESR: usize = 0x828;
/// LVT entry of corrected machine checks.
pub const IA32_X2APIC_LVT_CMCI: usize = 0x82f;
/// Interrupt command: the only register of 64 bits.
pub const IA32_X2APIC_ICR: usize = 0x830;
/// LVT entry of the timer.
pub const IA32_X2APIC_LVT_TIMER: usize = 0x832;
/// LVT entry of the thermal sensor.
pub const IA32_X2APIC_LVT_THERMAL: usize = 0x833;
/// LVT entry of the performance counters.
pub const IA32_X2APIC_LVT_PMI: usize = 0x834;
/// LVT entry of pin 0.
pub const IA32_X2APIC_LVT_LINT0: usize = 0x835;
/// LVT entry of pin 1.
pub const IA32_X2APIC_LVT_LINT1: usize = 0x836;
/// LVT entry of errors.
pub const IA32_X2APIC_LVT_ERROR: usize = 0x837;
/// The timer's initial count.
pub const IA32_X2APIC_INIT_COUNT: usize = 0x838;
/// The timer's current count, read-only.
pub const IA32_X2APIC_CUR_COUNT: usize = 0x839;
/// The timer's divider.
pub const IA32_X2APIC_DIV_CONF: usize = 0x83e;
/// A fixed interrupt to the CPU that runs, write-only.
pub const IA32_X2APIC_SELF_IPI: usize = 0x83f;

/// The registers of x2APIC mode: 800H to 8FFH.
pub const X2APIC: core::ops::RangeInclusive<usize> = 0x800..=0x8ff;

/// Words of [`IA32_X2APIC_ISR0`] and [`IA32_X2APIC_IRR0`].
pub const WORDS: usize = 8;

/// What the macro makes: its modules cannot carry a line of documentation on each item.
#[allow(missing_docs)]
mod fields {
    use tock_registers::register_bitfields;

    register_bitfields![u64,
        pub IA32_APIC_BASE [
            /// This is the CPU that booted.
            BSP OFFSET(8) NUMBITS(1) [],
            /// x2APIC mode.
            EXTD OFFSET(10) NUMBITS(1) [],
            /// The local APIC is on.
            EN OFFSET(11) NUMBITS(1) []
        ],
        pub IA32_XAPIC_DISABLE_STATUS [
            LEGACY_XAPIC_DISABLED OFFSET(0) NUMBITS(1) []
        ],
        pub IA32_ARCH_CAPABILITIES [
            XAPIC_DISABLE_STATUS OFFSET(21) NUMBITS(1) []
        ],
        pub IA32_BIOS_SIGN_ID [
            Revision OFFSET(32) NUMBITS(32) []
        ],
        pub IA32_X2APIC_VERSION [
            Version OFFSET(0) NUMBITS(8) [],
            /// The number of LVT entries less one.
            MaxLvt OFFSET(16) NUMBITS(8) [],
            /// `SVR[12]` works.
            EoiSuppression OFFSET(24) NUMBITS(1) []
        ],
        pub IA32_X2APIC_SIVR [
            Vector OFFSET(0) NUMBITS(8) [],
            /// Software enable.
            Enable OFFSET(8) NUMBITS(1) []
        ]
    ];
}

pub use fields::{
    IA32_APIC_BASE as APIC_BASE, IA32_ARCH_CAPABILITIES as ARCH_CAPABILITIES,
    IA32_BIOS_SIGN_ID as BIOS_SIGN_ID, IA32_X2APIC_SIVR as SIVR, IA32_X2APIC_VERSION as VERSION,
    IA32_XAPIC_DISABLE_STATUS as XAPIC_DISABLE_STATUS,
};

/// The bus of the local APIC of the CPU that runs. Implemented by whatever has 64-bit accesses
/// and barriers.
pub trait ApicBus: Bus<u64> + Barrier {}

impl<M: Bus<u64> + Barrier> ApicBus for M {}

/// The local APIC's registers over a bus. Those from 800H on exist in x2APIC mode only.
#[derive(Clone, Copy, Debug)]
pub struct ApicRegs<'m, M>(pub &'m M);

impl<'m, M: ApicBus> ApicRegs<'m, M> {
    /// Mode and base address. In any mode.
    #[inline(always)]
    pub const fn base(&self) -> Rw<'m, M, u64, APIC_BASE::Register> {
        Rw::new(self.0, IA32_APIC_BASE)
    }

    /// Capabilities, where `CPUID.7:EDX[29]` says so. In any mode.
    pub const fn arch_capabilities(&self) -> Ro<'m, M, u64, ARCH_CAPABILITIES::Register> {
        Ro::new(self.0, IA32_ARCH_CAPABILITIES)
    }

    /// Whether x2APIC mode is for good, where the capabilities say so. In any mode.
    pub const fn disable_status(&self) -> Ro<'m, M, u64, XAPIC_DISABLE_STATUS::Register> {
        Ro::new(self.0, IA32_XAPIC_DISABLE_STATUS)
    }

    /// Microcode revision. In any mode.
    pub const fn bios_sign_id(&self) -> Rw<'m, M, u64, BIOS_SIGN_ID::Register> {
        Rw::new(self.0, IA32_BIOS_SIGN_ID)
    }

    /// The timer's deadline, where `CPUID.1:ECX[24]` says so. In any mode.
    #[inline(always)]
    pub const fn deadline(&self) -> Rw<'m, M, u64> {
        Rw::new(self.0, IA32_TSC_DEADLINE)
    }

    /// The id.
    pub const fn id(&self) -> Ro<'m, M, u64> {
        Ro::new(self.0, IA32_X2APIC_APICID)
    }

    /// Version and number of LVT entries.
    pub const fn version(&self) -> Ro<'m, M, u64, VERSION::Register> {
        Ro::new(self.0, IA32_X2APIC_VERSION)
    }

    /// Task priority.
    pub const fn tpr(&self) -> Rw<'m, M, u64> {
        Rw::new(self.0, IA32_X2APIC_TPR)
    }

    /// Processor priority.
    pub const fn ppr(&self) -> Ro<'m, M, u64> {
        Ro::new(self.0, IA32_X2APIC_PPR)
    }

    /// End of the interrupt in service with the highest vector. Takes 0.
    #[inline(always)]
    pub const fn eoi(&self) -> Cmd<'m, M, u64> {
        Cmd::new(self.0, IA32_X2APIC_EOI)
    }

    /// Logical destination.
    pub const fn ldr(&self) -> Ro<'m, M, u64> {
        Ro::new(self.0, IA32_X2APIC_LDR)
    }

    /// Spurious vector and software enable.
    pub const fn sivr(&self) -> Rw<'m, M, u64, SIVR::Register> {
        Rw::new(self.0, IA32_X2APIC_SIVR)
    }

    /// Word `n`, 0 to 7, of the vectors in service.
    pub const fn isr(&self, n: usize) -> Ro<'m, M, u64> {
        debug_assert!(n < WORDS);
        Ro::new(self.0, IA32_X2APIC_ISR0 + n)
    }

    /// Word `n`, 0 to 7, of the vectors that wait.
    pub const fn irr(&self, n: usize) -> Ro<'m, M, u64> {
        debug_assert!(n < WORDS);
        Ro::new(self.0, IA32_X2APIC_IRR0 + n)
    }

    /// Errors. Takes 0, which latches what came since for the next read.
    pub const fn esr(&self) -> Rw<'m, M, u64> {
        Rw::new(self.0, IA32_X2APIC_ESR)
    }

    /// An LVT entry.
    #[inline(always)]
    pub const fn lvt(&self, lvt: Lvt) -> Rw<'m, M, u64> {
        Rw::new(self.0, lvt.msr())
    }

    /// Interrupt command: each write sends.
    #[inline(always)]
    pub const fn icr(&self) -> Cmd<'m, M, u64> {
        Cmd::new(self.0, IA32_X2APIC_ICR)
    }

    /// A fixed interrupt to this CPU: takes its vector.
    #[inline(always)]
    pub const fn self_ipi(&self) -> Cmd<'m, M, u64> {
        Cmd::new(self.0, IA32_X2APIC_SELF_IPI)
    }

    /// The timer's initial count.
    #[inline(always)]
    pub const fn initial_count(&self) -> Rw<'m, M, u64> {
        Rw::new(self.0, IA32_X2APIC_INIT_COUNT)
    }

    /// The timer's current count.
    pub const fn current_count(&self) -> Ro<'m, M, u64> {
        Ro::new(self.0, IA32_X2APIC_CUR_COUNT)
    }

    /// The timer's divider.
    pub const fn divide(&self) -> Rw<'m, M, u64> {
        Rw::new(self.0, IA32_X2APIC_DIV_CONF)
    }
}
