// SPDX-License-Identifier: MIT OR Apache-2.0
//! What CPUs share, as far as spreading asks.

use crate::cpu::{CpuIndex, NodeId};
use crate::topology::Topology;

/// What a CPU shares with others: those that name the same id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shared {
    /// Its node. Any id will do, also one that no other part of the kernel knows.
    pub node: NodeId,
    /// Its cluster, which counts within the node. The CPUs of a node that have none count as
    /// one cluster.
    pub cluster: Option<u32>,
    /// Its core, which counts within the node, and within the cluster where clusters matter. A
    /// CPU that has none is a core of its own.
    pub core: Option<u32>,
}

impl Shared {
    /// Of a CPU of which nothing is known: one node, no clusters, a core of its own.
    pub const FLAT: Self = Self {
        node: NodeId::FLAT,
        cluster: None,
        core: None,
    };
}

/// Who knows what CPUs share: a [`Topology`], firmware tables, or nobody ([`Flat`]).
///
/// ```
/// use irq_core::cpu::{CpuIndex, NodeId};
/// use irq_core::spread::{Shared, Sharing};
///
/// /// From a firmware table: the hardware id of each CPU, and the node of each eight of them.
/// struct Table<'a> {
///     ids: &'a [u32],
///     nodes: &'a [NodeId],
/// }
///
/// impl Sharing for Table<'_> {
///     fn shared(&self, cpu: CpuIndex) -> Shared {
///         let Some(id) = self.ids.get(cpu.index()) else {
///             return Shared::FLAT;
///         };
///         let node = self.nodes.get((id >> 3) as usize);
///         Shared {
///             node: node.copied().unwrap_or(NodeId::FLAT),
///             cluster: None,
///             core: Some(id >> 1),
///         }
///     }
/// }
/// ```
pub trait Sharing {
    /// What `cpu` shares.
    ///
    /// It is asked once for each possible CPU, in no order to rely on, and need not say the same
    /// when it is asked again for another device.
    ///
    /// # Context
    /// That of [`Spread::new`](super::Spread::new).
    fn shared(&self, cpu: CpuIndex) -> Shared;
}

/// Nothing is known of any CPU: each is [`Shared::FLAT`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flat;

impl Sharing for Flat {
    fn shared(&self, _: CpuIndex) -> Shared {
        Shared::FLAT
    }
}

/// The node, the second-level cache as the cluster, and the core. A CPU that was never online
/// has no place in a topology yet and counts as [`Shared::FLAT`]: in the first node, a core of
/// its own; so answers before and after its first online call may differ. A kernel that knows
/// better implements [`Sharing`] over what it knows.
impl Sharing for Topology {
    fn shared(&self, cpu: CpuIndex) -> Shared {
        self.place(cpu).map_or(Shared::FLAT, |place| Shared {
            node: place.node,
            cluster: Some(place.l2),
            core: Some(place.core),
        })
    }
}
