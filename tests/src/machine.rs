// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines on paper, and numbers that look random and are not.

use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::spread::{Shared, Sharing};
use irq_core::topology::Place;

/// How many CPUs, and where they stand. Nodes are as large as they can be made equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// CPUs.
    pub cpus: u32,
    /// Nodes.
    pub nodes: u32,
    /// Threads of a core.
    pub threads: u32,
    /// The threads of core `i` are `i`, `i + cores` and so on; otherwise they are neighbours.
    pub apart: bool,
}

impl Machine {
    /// The cores; the last may have fewer threads.
    pub const fn cores(&self) -> u32 {
        self.cpus.div_ceil(self.threads)
    }

    /// The core of a CPU.
    pub const fn core(&self, cpu: u32) -> u32 {
        match self.apart {
            true => cpu % self.cores(),
            false => cpu / self.threads,
        }
    }

    /// The node of a CPU.
    pub const fn node(&self, cpu: u32) -> u32 {
        self.core(cpu) * self.nodes / self.cores()
    }

    /// Where a CPU stands. Its second-level cache is its core's, its package its node.
    pub const fn place(&self, cpu: u32) -> Place {
        Place {
            core: self.core(cpu),
            l2: self.core(cpu),
            group: self.node(cpu),
            package: self.node(cpu),
            node: NodeId::new(self.node(cpu)),
        }
    }

    /// The CPUs.
    pub fn each(&self) -> impl Iterator<Item = CpuIndex> + use<> {
        (0..self.cpus).map(CpuIndex::new)
    }
}

/// Numbers from a seed (SplitMix64: each is a hash of a counter).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Always the same from the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `end`, which is not 0.
    pub const fn below(&mut self, end: u32) -> u32 {
        (((self.bits() >> 32) * end as u64) >> 32) as u32
    }

    /// True once in `of` times.
    pub const fn once_in(&mut self, of: u32) -> bool {
        self.below(of) == 0
    }
}

impl Sharing for Machine {
    fn shared(&self, cpu: CpuIndex) -> Shared {
        Shared {
            node: NodeId::new(self.node(cpu.get())),
            cluster: None,
            core: Some(self.core(cpu.get())),
        }
    }
}
