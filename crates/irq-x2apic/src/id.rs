// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware's names of CPUs.

use core::fmt;

/// Members of a cluster: the bits of a logical destination (Intel SDM vol. 3, "Logical
/// Destination Mode in x2APIC Mode").
pub const CLUSTER: u32 = 16;

/// The ids below this one have a logical name: a cluster number has 16 bits.
const LOGICAL: u32 = 1 << 20;

/// A CPU's hardware name: its 32-bit x2APIC id. Never an index: ids are sparse, need not begin
/// at 0, and the boot CPU may have any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ApicId(u32);

impl ApicId {
    /// The CPU with this id, from a MADT entry, from CPUID or from the id register. Nothing for
    /// `FFFF_FFFFH`, which as a destination means every CPU.
    pub const fn new(id: u32) -> Option<Self> {
        if id == u32::MAX { None } else { Some(Self(id)) }
    }

    /// Back from [`get`](Self::get).
    pub(crate) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// The id.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number of its cluster: the CPUs that agree in all but the lower 4 bits.
    #[inline]
    pub const fn cluster(self) -> u32 {
        self.0 / CLUSTER
    }

    /// Its place in the cluster, 0 to 15.
    #[inline]
    pub const fn position(self) -> u32 {
        self.0 % CLUSTER
    }

    /// Its logical destination, which is what its LDR reads: the cluster's number in the upper
    /// half, one bit of the lower one. Nothing for ids from 2^20 on.
    #[inline]
    pub const fn logical(self) -> Option<u32> {
        if self.0 < LOGICAL {
            Some(self.cluster() << 16 | 1 << self.position())
        } else {
            None
        }
    }
}

impl fmt::Display for ApicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for ApicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApicId({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logical(id: u32) -> Option<u32> {
        ApicId::new(id).and_then(ApicId::logical)
    }

    #[test]
    fn a_logical_destination_is_the_cluster_above_one_bit_of_sixteen() {
        assert_eq!(logical(0), Some(0x0000_0001));
        assert_eq!(logical(0x13), Some(0x0001_0008));
        assert_eq!(logical(0x12f), Some(0x0012_8000));
    }

    #[test]
    fn ids_from_2_to_the_20_on_have_no_logical_destination() {
        assert_eq!(logical(0xf_ffff), Some(0xffff_8000));
        assert_eq!(logical(0x10_0000), None);
    }

    #[test]
    fn the_broadcast_destination_is_no_id() {
        assert_eq!(ApicId::new(u32::MAX), None);
        assert!(ApicId::new(0xff).is_some());
    }
}
