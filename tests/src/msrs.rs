// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSRs that are plain memory: for tests that count allocations, since the model keeps a log and
//! so allocates.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use irq_hal::{Barrier, Bus};
use irq_x2apic::CpuId;
use irq_x2apic::regs::apic::{IA32_APIC_BASE, IA32_X2APIC_APICID, IA32_X2APIC_VERSION};

/// Registers that keep what is written.
pub struct PlainMsrs(Vec<AtomicU64>);

impl PlainMsrs {
    /// The local APIC of a boot CPU with this id, in xAPIC mode, with all LVT entries.
    pub fn new(id: u32) -> Self {
        let msrs = Self((0..0x900).map(|_| AtomicU64::new(0)).collect());
        msrs.store(IA32_APIC_BASE, 0xfee0_0900);
        msrs.store(IA32_X2APIC_APICID, id.into());
        msrs.store(IA32_X2APIC_VERSION, 0x6_0015);
        msrs
    }
}

impl Bus<u64> for PlainMsrs {
    fn load(&self, offset: usize) -> u64 {
        self.0[offset].load(Relaxed)
    }

    fn store(&self, offset: usize, value: u64) {
        self.0[offset].store(value, Relaxed);
    }
}

impl Barrier for PlainMsrs {
    fn publish(&self) {}
    fn complete(&self) {}
    fn synchronize(&self) {}
}

/// CPUID of an Intel CPU with this 8-bit id, x2APIC mode and a TSC-deadline timer.
#[derive(Clone, Copy)]
pub struct PlainCpuId(pub u8);

impl CpuId for PlainCpuId {
    fn leaf(&self, leaf: u32, _: u32) -> [u32; 4] {
        match leaf {
            0 => [1, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
            1 => [0xb_06f2, u32::from(self.0) << 24, 1 << 21 | 1 << 24, 1 << 9],
            _ => [0; 4],
        }
    }
}
