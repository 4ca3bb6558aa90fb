// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of the model-specific registers, as the manual names them.

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $name: usize = $number;
        )*

        /// The manual's name of an MSR.
        pub fn name(number: usize) -> String {
            match number {
                $($name => stringify!($name).to_string(),)*
                IA32_X2APIC_ISR0..IA32_X2APIC_TMR0 => format!("IA32_X2APIC_ISR{}", number - IA32_X2APIC_ISR0),
                IA32_X2APIC_TMR0..IA32_X2APIC_IRR0 => format!("IA32_X2APIC_TMR{}", number - IA32_X2APIC_TMR0),
                IA32_X2APIC_IRR0..IA32_X2APIC_ESR => format!("IA32_X2APIC_IRR{}", number - IA32_X2APIC_IRR0),
                _ => "an MSR without a name".to_string(),
            }
        }
    };
}

registers! {
    /// Mode, base address and the BSP bit of the local APIC.
    IA32_APIC_BASE = 0x1b;
    /// Revision of the microcode, after a write of 0 and CPUID leaf 1.
    IA32_BIOS_SIGN_ID = 0x8b;
    /// Whether xAPIC mode is locked out.
    IA32_XAPIC_DISABLE_STATUS = 0xbd;
    /// Which of the MSRs above there are.
    IA32_ARCH_CAPABILITIES = 0x10a;
    /// The deadline of the timer, in TSC ticks.
    IA32_TSC_DEADLINE = 0x6e0;
    /// The APIC id, read-only.
    IA32_X2APIC_APICID = 0x802;
    /// Version and number of LVT entries, read-only.
    IA32_X2APIC_VERSION = 0x803;
    /// Task priority.
    IA32_X2APIC_TPR = 0x808;
    /// Processor priority, read-only.
    IA32_X2APIC_PPR = 0x80a;
    /// End of interrupt, write-only, 0.
    IA32_X2APIC_EOI = 0x80b;
    /// Logical id, read-only.
    IA32_X2APIC_LDR = 0x80d;
    /// Spurious vector and software enable.
    IA32_X2APIC_SIVR = 0x80f;
    /// In service, first of eight, read-only.
    IA32_X2APIC_ISR0 = 0x810;
    /// Trigger mode, first of eight, read-only.
    IA32_X2APIC_TMR0 = 0x818;
    /// Requested, first of eight, read-only.
    IA32_X2APIC_IRR0 = 0x820;
    /// Errors.
    IA32_X2APIC_ESR = 0x828;
    /// LVT entry of corrected machine checks.
    IA32_X2APIC_LVT_CMCI = 0x82f;
    /// Interrupt command, 64 bits.
    IA32_X2APIC_ICR = 0x830;
    /// LVT entry of the timer.
    IA32_X2APIC_LVT_TIMER = 0x832;
    /// LVT entry of the thermal sensor.
    IA32_X2APIC_LVT_THERMAL = 0x833;
    /// LVT entry of the performance counters.
    IA32_X2APIC_LVT_PMI = 0x834;
    /// LVT entry of pin LINT0.
    IA32_X2APIC_LVT_LINT0 = 0x835;
    /// LVT entry of pin LINT1.
    IA32_X2APIC_LVT_LINT1 = 0x836;
    /// LVT entry of errors.
    IA32_X2APIC_LVT_ERROR = 0x837;
    /// Initial count of the timer.
    IA32_X2APIC_INIT_COUNT = 0x838;
    /// Current count of the timer, read-only.
    IA32_X2APIC_CUR_COUNT = 0x839;
    /// Divide configuration of the timer.
    IA32_X2APIC_DIV_CONF = 0x83e;
    /// Self IPI, write-only.
    IA32_X2APIC_SELF_IPI = 0x83f;
}
