// SPDX-License-Identifier: MIT OR Apache-2.0
//! A domain as readers see it.

use core::fmt;

use super::domains::Words;
use super::{Level, Topology};
use crate::cpu::{CpuIndex, CpuSet, Ranges, cpus_of, word_and_bit};

/// A domain: as a set, its online CPUs. Live: it changes while it is read.
#[derive(Clone, Copy)]
pub struct Domain<'a> {
    topology: &'a Topology,
    level: Level,
    slot: u32,
}

impl<'a> Domain<'a> {
    pub(super) const fn new(topology: &'a Topology, level: Level, slot: u32) -> Self {
        Self {
            topology,
            level,
            slot,
        }
    }

    /// Its level.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The id that its CPUs gave in their [`Place`](super::Place).
    pub fn id(&self) -> u32 {
        self.topology.levels[self.level.index()].id(self.slot)
    }

    /// The members, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = CpuIndex> + use<'a> {
        self.words().flat_map(|(first, bits)| cpus_of(first, bits))
    }

    /// Whether both, of any levels, have the same members.
    pub fn same_cpus(&self, other: &Domain<'_>) -> bool {
        self.words().eq(other.words())
    }

    fn words(&self) -> Words<'a> {
        self.topology.levels[self.level.index()].words(self.slot)
    }
}

impl CpuSet for Domain<'_> {
    /// As for every set; at no cost that depends on the domain's size.
    fn contains(&self, cpu: CpuIndex) -> bool {
        let Some(known) = self.topology.bound(cpu) else {
            return false;
        };
        let (_, bit) = word_and_bit(cpu);
        known.slot(self.level) == self.slot
            && self.topology.levels[self.level.index()].holds(known.chunk(self.level), bit)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        self.words().for_each(|(first, bits)| f(first, bits));
    }

    fn first(&self) -> Option<CpuIndex> {
        self.iter().next()
    }
}

impl fmt::Display for Domain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level, self.id())
    }
}

impl fmt::Debug for Domain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:?}", Ranges(self))
    }
}
