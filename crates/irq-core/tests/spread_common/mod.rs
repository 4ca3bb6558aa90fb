// SPDX-License-Identifier: MIT OR Apache-2.0
//! Masks from lists and lists from masks, and what CPUs share from a table.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeSet;

use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::spread::{Machine, Request, Shared, Sharing, Spread};
use irq_hal::Error;

/// What each CPU shares, by its index.
#[derive(Clone, Debug)]
pub struct Table(pub Vec<Shared>);

impl Sharing for Table {
    fn shared(&self, cpu: CpuIndex) -> Shared {
        self.0[cpu.index()]
    }
}

pub fn shared(node: u32, cluster: Option<u32>, core: Option<u32>) -> Shared {
    Shared {
        node: NodeId::new(node),
        cluster,
        core,
    }
}

/// A mask with room for a few more than its members.
pub fn mask(members: impl IntoIterator<Item = u32>) -> CpuMask {
    let members = BTreeSet::from_iter(members);
    let mut mask = CpuMask::try_new(members.last().map_or(1, |last| last + 100)).unwrap();
    for member in members {
        mask.insert(CpuIndex::new(member)).unwrap();
    }
    mask
}

pub fn members(mask: &CpuMask) -> Vec<u32> {
    mask.iter().map(CpuIndex::get).collect()
}

/// Spreads over `possible` CPUs of which `present` are there; the default affinity is CPU 0.
pub fn spread(
    request: &Request<'_>,
    possible: &dyn CpuSet,
    present: &dyn CpuSet,
    sharing: &dyn Sharing,
) -> Result<Spread, Error> {
    let machine = Machine {
        cpus: 4096,
        possible,
        present,
        default: &mask([0]),
        sharing,
    };
    Spread::new(request, &machine)
}

/// The CPUs of each vector.
pub fn lists(spread: &Spread) -> Vec<Vec<u32>> {
    spread
        .iter()
        .map(|affinity| members(affinity.mask))
        .collect()
}
