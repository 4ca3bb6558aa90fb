// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far nodes are from each other.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::heap::try_vec;

use crate::cpu::{NodeId, bounded};

/// Farther than whatever firmware says.
const UNKNOWN: u16 = u8::MAX as u16 + 1;

/// The distance from each node to each other, in units of the embedder's own.
#[derive(Debug)]
pub struct Distances {
    nodes: u32,
    /// Row by row, from a node to each; empty if all that matters is whether they are the same.
    table: Vec<u8>,
}

impl Distances {
    /// The distances that `between` gives, from the first node to the second, as from ACPI's
    /// SLIT or a devicetree's `distance-map`. It is called here only, for each pair of the nodes
    /// below `nodes`, in any order; its answers are taken as they are.
    ///
    /// Memory: `nodes` squared bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `nodes` is 0 or more than [`MAX_CPUS`](crate::cpu::MAX_CPUS);
    /// [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(nodes: u32, between: impl Fn(NodeId, NodeId) -> u8) -> Result<Self, Error> {
        let count = bounded("number of nodes", nodes)?;
        let mut table = try_vec(count.saturating_mul(count))?;
        let all = || (0..nodes).map(NodeId::new);
        for from in all() {
            table.extend(all().map(|to| between(from, to)));
        }
        Ok(Self { nodes, table })
    }

    /// Every node is near to itself and equally far from all others. Nothing is allocated.
    ///
    /// # Errors
    /// [`Error::Invalid`] as in [`new`](Self::new).
    pub fn plain(nodes: u32) -> Result<Self, Error> {
        bounded("number of nodes", nodes)?;
        Ok(Self {
            nodes,
            table: Vec::new(),
        })
    }

    /// Whether `node` is unknown, or possible.
    pub(super) fn check(&self, node: Option<NodeId>) -> Result<(), Error> {
        match node {
            Some(node) if node.get() >= self.nodes => Err(Error::Invalid {
                what: "node",
                value: u64::from(node.get()),
            }),
            _ => Ok(()),
        }
    }

    /// What units are ordered by: the distance, or more than any if a node is unknown. Both are
    /// possible ones.
    pub(super) fn between(&self, from: Option<NodeId>, to: Option<NodeId>) -> u16 {
        let (Some(from), Some(to)) = (from, to) else {
            return UNKNOWN;
        };
        let at = from.index() * self.nodes as usize + to.index();
        match self.table.get(at) {
            Some(distance) => u16::from(*distance),
            None => u16::from(from != to),
        }
    }
}
