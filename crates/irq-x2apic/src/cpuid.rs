// SPDX-License-Identifier: MIT OR Apache-2.0
//! What CPUID says of the local APIC.

use crate::id::ApicId;

/// CPUID of the CPU that runs.
pub trait CpuId {
    /// `eax`, `ebx`, `ecx`, `edx` of a leaf and sub-leaf.
    fn leaf(&self, leaf: u32, sub: u32) -> [u32; 4];
}

impl<C: CpuId + ?Sized> CpuId for &C {
    fn leaf(&self, leaf: u32, sub: u32) -> [u32; 4] {
        (**self).leaf(leaf, sub)
    }
}

/// The CPU's own instruction. A [`CpuId`] on x86-64 only; elsewhere just a name.
#[derive(Clone, Copy, Default, Debug)]
pub struct NativeCpuId;

#[cfg(target_arch = "x86_64")]
impl CpuId for NativeCpuId {
    fn leaf(&self, leaf: u32, sub: u32) -> [u32; 4] {
        let found = core::arch::x86_64::__cpuid_count(leaf, sub);
        [found.eax, found.ebx, found.ecx, found.edx]
    }
}

/// Who made the CPU, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Vendor {
    /// `GenuineIntel`.
    Intel,
    /// `AuthenticAMD` and `HygonGenuine`.
    Amd,
    /// Anybody else.
    Other,
}

/// What CPUID says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Cpu {
    /// Who made it.
    pub vendor: Vendor,
    /// Family, model and stepping: `eax` of leaf 1.
    pub signature: u32,
    /// There is a local APIC, and it is on.
    pub apic: bool,
    /// It has x2APIC mode.
    pub x2apic: bool,
    /// The timer has TSC-deadline mode.
    pub deadline: bool,
    /// The timer runs on in every idle state (ARAT). Without it a kernel has to wake idle CPUs
    /// by other means.
    pub always_running_timer: bool,
    /// A hypervisor says it is there.
    pub hypervisor: bool,
    /// `IA32_ARCH_CAPABILITIES` can be read.
    pub arch_capabilities: bool,
}

impl Cpu {
    /// Asks `cpuid`.
    ///
    /// # Context
    /// Any.
    pub fn of(cpuid: &impl CpuId) -> Self {
        let [last, b, c, d] = cpuid.leaf(0, 0);
        let vendor = match (b, d, c) {
            (0x756e_6547, 0x4965_6e69, 0x6c65_746e) => Vendor::Intel,
            (0x6874_7541, 0x6974_6e65, 0x444d_4163) => Vendor::Amd,
            (0x6f67_7948, 0x6e65_476e, 0x656e_6975) => Vendor::Amd,
            _ => Vendor::Other,
        };
        let [signature, _, features, more] = cpuid.leaf(1, 0);
        let from = |leaf: u32| {
            if last >= leaf {
                cpuid.leaf(leaf, 0)
            } else {
                [0; 4]
            }
        };
        Self {
            vendor,
            signature,
            apic: more & 1 << 9 != 0,
            x2apic: features & 1 << 21 != 0,
            deadline: features & 1 << 24 != 0,
            always_running_timer: from(6)[0] & 1 << 2 != 0,
            hypervisor: features & 1 << 31 != 0,
            arch_capabilities: from(7)[3] & 1 << 29 != 0,
        }
    }
}

/// The id of the CPU that runs, in any mode: the 32-bit one where a leaf has it, else the 8-bit
/// one. A CPU that starts finds out who it is by this.
///
/// Leaves above the last one that leaf 0 names are not asked: some emulators answer them with
/// another leaf's words.
pub fn apic_id(cpuid: &impl CpuId) -> Option<ApicId> {
    let [last, ..] = cpuid.leaf(0, 0);
    for leaf in [0x1f, 0xb] {
        if last >= leaf {
            let [_, b, _, id] = cpuid.leaf(leaf, 0);
            if b & 0xffff != 0 {
                return ApicId::new(id);
            }
        }
    }
    let [_, b, ..] = cpuid.leaf(1, 0);
    ApicId::new(b >> 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves by number; others read as the highest one does.
    struct Fake(&'static [(u32, [u32; 4])]);

    impl CpuId for Fake {
        fn leaf(&self, leaf: u32, _: u32) -> [u32; 4] {
            let found = self.0.iter().find(|(number, _)| *number == leaf);
            found.or(self.0.last()).map_or([0; 4], |(_, words)| *words)
        }
    }

    #[test]
    fn leaves_above_the_last_one_are_not_believed() {
        let cpu = Fake(&[
            (0, [1, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
            (1, [0x306c3, 5 << 24, 1 << 21, 1 << 9]),
            (0xd, [u32::MAX; 4]),
        ]);
        assert_eq!(apic_id(&cpu).map(ApicId::get), Some(5));
        let found = Cpu::of(&cpu);
        assert!(!found.always_running_timer && !found.arch_capabilities);
        assert!(found.x2apic && found.apic && !found.deadline);
        assert_eq!(found.vendor, Vendor::Intel);
    }

    #[test]
    fn the_32_bit_id_comes_from_leaf_0bh_where_leaf_1fh_is_empty() {
        let cpu = Fake(&[
            (0, [0x1f, 0, 0, 0]),
            (1, [0, 7 << 24, 0, 0]),
            (0xb, [0, 1, 0, 0x1_0007]),
            (0x1f, [0, 0, 0, 9]),
        ]);
        assert_eq!(apic_id(&cpu).map(ApicId::get), Some(0x1_0007));
    }
}
