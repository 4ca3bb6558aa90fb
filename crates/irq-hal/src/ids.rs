// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that every crate shares: CPUs, nodes, physical addresses.

use core::fmt;

/// A possible CPU as the embedding kernel counts them: dense, from 0.
///
/// Hardware names (MPIDR, APIC id, PIR) are types of their drivers and never indices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CpuIndex(u32);

impl CpuIndex {
    /// The CPU with this dense index.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index as a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The index for a slice with one element per possible CPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// A memory node as the embedding kernel counts them: dense, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NodeId(u32);

impl NodeId {
    /// The only node of a machine that has, or knows, no others.
    pub const FLAT: Self = Self(0);

    /// The node with this dense number.
    pub const fn new(node: u32) -> Self {
        Self(node)
    }

    /// The node as a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The index for a slice with one element per node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}

/// An address as a device or the memory controller sees it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PhysAddr(u64);

impl PhysAddr {
    /// The physical address `addr`.
    pub const fn new(addr: u64) -> Self {
        Self(addr)
    }

    /// The address as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + bytes`, or nothing if that wraps.
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(addr) => Some(Self(addr)),
            None => None,
        }
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
