// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that a devicetree names, and where each stands.
//!
//! Node ids of firmware may be sparse, and a node may have memory and no CPU: ours count from 0,
//! in the order of theirs. `cpu-map` gives packages, clusters and cores; without it each CPU is a
//! core of its own and all CPUs of a node are together.

use alloc::vec::Vec;

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use irq_core::cpu::NodeId;
use irq_core::topology::Place;
use irq_hal::Error;
use irq_hal::heap::try_push;

use super::{Device, Tree};

/// A CPU that the tree names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Its `reg`: the CPU's name in hardware.
    pub hwid: u64,
    /// Where it stands.
    pub place: Place,
}

/// The CPUs of a machine, and how many nodes it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpus {
    /// The CPUs, in the order of the tree's nodes, without those that firmware calls failed.
    pub cpus: Vec<Cpu>,
    /// The number of nodes, of which some may have no CPU. At least 1.
    pub nodes: u32,
}

/// A leaf of `cpu-map`.
struct Leaf {
    phandle: u32,
    package: u32,
    group: u32,
    core: u32,
}

impl Cpus {
    /// What `tree` says.
    ///
    /// # Errors
    /// [`Error::Firmware`] for a CPU without `reg`, or for no CPU; [`Error::OutOfMemory`].
    pub fn find(tree: &Tree<'_>) -> Result<Self, Error> {
        let none = Error::Firmware {
            what: "no CPU",
            at: 0,
        };
        let parent = tree.fdt.find_node("/cpus").ok_or(none)?;
        let width = Device(parent).cell("#address-cells").unwrap_or(2) as usize;
        let ids = node_ids(tree, parent)?;
        let leaves = leaves(parent)?;
        let mut cpus = Vec::new();
        for node in cpu_nodes(parent) {
            let hwid = Device(node)
                .bytes("reg")
                .and_then(|reg| number(reg.get(..width * 4)?));
            let hwid = hwid.ok_or(Error::Firmware {
                what: "reg of a CPU",
                at: cpus.len() as u64,
            })?;
            let node_id = Device(node).cell(NODE_ID).unwrap_or(0);
            let rank = ids.binary_search(&node_id).unwrap_or(0) as u32;
            let phandle = Device(node).cell("phandle");
            let leaf = leaves.iter().find(|leaf| Some(leaf.phandle) == phandle);
            let place = match leaf {
                Some(leaf) => Place {
                    core: leaf.core,
                    l2: leaf.core,
                    group: leaf.group,
                    package: leaf.package,
                    node: NodeId::new(rank),
                },
                None => Place {
                    core: UNMAPPED + cpus.len() as u32,
                    l2: UNMAPPED + rank,
                    group: UNMAPPED + rank,
                    package: UNMAPPED + rank,
                    node: NodeId::new(rank),
                },
            };
            try_push(&mut cpus, Cpu { hwid, place })?;
        }
        match cpus.is_empty() {
            true => Err(none),
            false => Ok(Self {
                cpus,
                nodes: (ids.len() as u32).max(1),
            }),
        }
    }
}

const NODE_ID: &str = "numa-node-id";

/// First number for what `cpu-map` does not have: its own numbers count up from 0.
const UNMAPPED: u32 = 1 << 31;

fn cpu_nodes<'a>(parent: FdtNode<'a>) -> impl Iterator<Item = FdtNode<'a>> {
    parent.children().filter(|&node| {
        let device = Device(node);
        device.text("device_type") == Some("cpu") && device.text("status") != Some("fail")
    })
}

/// The ids of all nodes that have a CPU or memory, sorted.
fn node_ids(tree: &Tree<'_>, parent: FdtNode<'_>) -> Result<Vec<u32>, Error> {
    let memory = tree.fdt.root().children();
    let memory = memory.filter(|&node| Device(node).text("device_type") == Some("memory"));
    let mut ids = Vec::new();
    for node in cpu_nodes(parent).chain(memory) {
        if let Some(id) = Device(node).cell(NODE_ID)
            && let Err(at) = ids.binary_search(&id)
        {
            try_push(&mut ids, id)?;
            // `try_push` put it last: rotate it to its place.
            ids[at..].rotate_right(1);
        }
    }
    Ok(ids)
}

/// The CPUs of `cpu-map`. Each level's numbers count through the whole map.
///
/// A cluster within a cluster counts as the group of the CPUs in it. The depth is the
/// binding's: sockets, clusters, cores, threads.
fn leaves(parent: FdtNode<'_>) -> Result<Vec<Leaf>, Error> {
    let mut walk = Walk::default();
    if let Some(map) = parent.children().find(|node| node.name() == "cpu-map") {
        walk.visit(map, Leaf::NONE, 0)?;
    }
    Ok(walk.leaves)
}

impl Leaf {
    const NONE: Self = Self {
        phandle: 0,
        package: 0,
        group: 0,
        core: 0,
    };
}

/// More levels than the binding has: sockets, clusters in clusters, cores, threads.
const DEPTH_MAX: u32 = 8;

#[derive(Default)]
struct Walk {
    leaves: Vec<Leaf>,
    packages: u32,
    groups: u32,
    cores: u32,
}

impl Walk {
    /// `at` is the place of `node`: its `phandle` is not used.
    fn visit(&mut self, node: FdtNode<'_>, at: Leaf, depth: u32) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Firmware {
                what: "depth of cpu-map",
                at: depth.into(),
            });
        }
        if let Some(phandle) = Device(node).cell("cpu") {
            return try_push(&mut self.leaves, Leaf { phandle, ..at });
        }
        for child in node.children() {
            let mut place = Leaf { ..at };
            let name = child.name();
            let next = |counter: &mut u32| core::mem::replace(counter, *counter + 1);
            if name.starts_with("socket") {
                place.package = next(&mut self.packages);
            } else if name.starts_with("cluster") {
                place.group = next(&mut self.groups);
            } else if name.starts_with("core") {
                place.core = next(&mut self.cores);
            }
            self.visit(child, place, depth + 1)?;
        }
        Ok(())
    }
}

/// A big-endian number of one or two cells.
fn number(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        4 => Some(u32::from_be_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_be_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

    fn cells(name: &str, values: &[u32]) -> DeviceTreeProperty {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
        DeviceTreeProperty::new(name, bytes).unwrap()
    }

    fn text(name: &str, value: &str) -> DeviceTreeProperty {
        DeviceTreeProperty::new(name, [value.as_bytes(), b"\0"].concat()).unwrap()
    }

    fn node(name: &str, properties: Vec<DeviceTreeProperty>) -> DeviceTreeNode {
        let mut node = DeviceTreeNode::new(name).unwrap();
        for property in properties {
            node.add_property(property);
        }
        node
    }

    fn cpu(reg: u32, numa: Option<u32>) -> DeviceTreeNode {
        let mut node = node(
            &format!("cpu@{reg:x}"),
            vec![
                text("device_type", "cpu"),
                cells("reg", &[reg]),
                cells("phandle", &[0x100 + reg]),
            ],
        );
        if let Some(id) = numa {
            node.add_property(cells(NODE_ID, &[id]));
        }
        node
    }

    fn memory(at: u32, numa: u32) -> DeviceTreeNode {
        node(
            &format!("memory@{at:x}"),
            vec![text("device_type", "memory"), cells(NODE_ID, &[numa])],
        )
    }

    fn find(cpus: Vec<DeviceTreeNode>, others: Vec<DeviceTreeNode>) -> Result<Cpus, Error> {
        let mut tree = DeviceTree::new();
        let mut parent = node("cpus", vec![cells("#address-cells", &[1])]);
        for cpu in cpus {
            parent.add_child(cpu);
        }
        tree.root.add_child(parent);
        for other in others {
            tree.root.add_child(other);
        }
        Cpus::find(&Tree::new(&tree.to_dtb()).unwrap())
    }

    #[test]
    fn node_ids_that_are_sparse_or_without_cpus_count_from_0_in_their_order() {
        let cpus = vec![cpu(0, Some(9)), cpu(1, Some(2))];
        let found = find(cpus, vec![memory(0, 5), memory(1, 2)]).unwrap();
        assert_eq!(found.nodes, 3);
        let nodes: Vec<_> = found.cpus.iter().map(|cpu| cpu.place.node.get()).collect();
        assert_eq!(nodes, [2, 0]);
    }

    #[test]
    fn without_a_map_each_cpu_is_a_core_and_a_node_is_a_package() {
        let found = find(vec![cpu(0, None), cpu(0x100, None)], vec![]).unwrap();
        assert_eq!(found.nodes, 1);
        let [first, second] = [found.cpus[0], found.cpus[1]];
        assert_eq!((first.hwid, second.hwid), (0, 0x100));
        assert_ne!(first.place.core, second.place.core);
        assert_eq!(first.place.package, second.place.package);
    }

    #[test]
    fn cores_of_the_map_count_through_all_sockets_and_threads_share_theirs() {
        let thread = |name: &str, phandle| node(name, vec![cells("cpu", &[phandle])]);
        let with = |name: &str, children: Vec<DeviceTreeNode>| {
            let mut parent = node(name, vec![]);
            children
                .into_iter()
                .for_each(|child| parent.add_child(child));
            parent
        };
        let socket = |name: &str, first| {
            let core = with(
                "core0",
                vec![thread("thread0", first), thread("thread1", first + 1)],
            );
            with(name, vec![with("cluster0", vec![core])])
        };
        let map = with(
            "cpu-map",
            vec![socket("socket0", 0x100), socket("socket1", 0x102)],
        );
        let cpus = (0..4).map(|reg| cpu(reg, None)).chain([map]).collect();
        let found = find(cpus, vec![]).unwrap();
        let cores: Vec<_> = found.cpus.iter().map(|cpu| cpu.place.core).collect();
        assert_eq!(cores, [0, 0, 1, 1]);
        let packages: Vec<_> = found.cpus.iter().map(|cpu| cpu.place.package).collect();
        assert_eq!(packages, [0, 0, 1, 1]);
    }

    #[test]
    fn a_tree_without_cpus_and_one_with_a_cpu_without_reg_are_refused() {
        assert!(matches!(find(vec![], vec![]), Err(Error::Firmware { .. })));
        let nameless = node("cpu@0", vec![text("device_type", "cpu")]);
        let refused = find(vec![nameless], vec![]);
        assert!(matches!(
            refused,
            Err(Error::Firmware {
                what: "reg of a CPU",
                ..
            })
        ));
    }

    #[test]
    fn cpus_that_failed_are_left_out() {
        let mut failed = cpu(1, None);
        failed.add_property(text("status", "fail"));
        let found = find(vec![cpu(0, None), failed], vec![]).unwrap();
        assert_eq!(found.cpus.len(), 1);
    }
}
