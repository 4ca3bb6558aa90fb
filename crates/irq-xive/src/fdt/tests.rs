// SPDX-License-Identifier: MIT OR Apache-2.0
//! Good trees, and trees that are truncated or lie.

use std::string::String;
use std::vec::Vec;

use irq_core::Trigger;
use irq_hal::NodeId;
use proptest::prelude::*;

use super::*;
use crate::ids::{Pir, SourceNumber};

fn bytes(cells: &[u32]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
}

fn prop(node: &mut TreeNode, name: &str, cells: &[u32]) {
    node.properties.push((name.into(), bytes(cells)));
}

fn text(node: &mut TreeNode, name: &str, value: &str) {
    let mut value = Vec::from(value);
    value.push(0);
    node.properties.push((name.into(), value));
}

fn node(name: impl Into<String>) -> TreeNode {
    TreeNode {
        name: name.into(),
        ..TreeNode::default()
    }
}

/// A node to be written: the names of this firmware's properties are too long for other writers.
#[derive(Clone, Default)]
struct TreeNode {
    name: String,
    properties: Vec<(String, Vec<u8>)>,
    children: Vec<TreeNode>,
}

impl TreeNode {
    fn remove_property(&mut self, name: &str) {
        self.properties.retain(|(other, _)| other != name);
    }

    fn add_child(&mut self, child: TreeNode) {
        self.children.push(child);
    }

    fn remove_child(&mut self, name: &str) {
        self.children.retain(|child| child.name != name);
    }

    fn child_mut(&mut self, name: &str) -> Option<&mut TreeNode> {
        self.children.iter_mut().find(|child| child.name == name)
    }

    fn write(&self, structure: &mut Vec<u8>, strings: &mut Vec<u8>) {
        let align = |to: &mut Vec<u8>| to.resize(to.len().next_multiple_of(4), 0);
        structure.extend(bytes(&[1]));
        structure.extend(self.name.bytes().chain([0]));
        align(structure);
        for (name, value) in &self.properties {
            structure.extend(bytes(&[3, value.len() as u32, strings.len() as u32]));
            strings.extend(name.bytes().chain([0]));
            structure.extend(value);
            align(structure);
        }
        for child in &self.children {
            child.write(structure, strings);
        }
        structure.extend(bytes(&[2]));
    }

    /// The tree below this node, flattened.
    fn to_dtb(&self) -> Vec<u8> {
        let (mut structure, mut strings) = (Vec::new(), Vec::new());
        self.write(&mut structure, &mut strings);
        structure.extend(bytes(&[9]));
        let at = |len: usize| len as u32;
        let head = 40 + 16;
        let (middle, end) = (head + at(structure.len()), at(strings.len()));
        let size = middle + end;
        let mut blob = bytes(&[0xd00d_feed, size, head, middle, 40, 17, 16, 0, end]);
        blob.extend(bytes(&[at(structure.len()), 0, 0, 0, 0]));
        blob.extend(structure);
        blob.extend(strings);
        blob
    }
}

/// The four pages of the TIMA.
fn pages() -> Vec<u32> {
    (0..4)
        .flat_map(|page| [0x60302, 0x0318_0000 + page * 0x1_0000, 0, 0x1_0000])
        .collect()
}

/// The presenter's node, as on POWER9, and `change` on top.
fn presenter(change: impl FnOnce(&mut TreeNode)) -> TreeNode {
    let mut pe = node("interrupt-controller@6030203180000");
    text(&mut pe, "compatible", "ibm,opal-xive-pe\0ibm,opal-intc");
    prop(&mut pe, "reg", &pages());
    prop(&mut pe, "ibm,xive-eq-sizes", &[12, 16, 21, 24]);
    prop(&mut pe, "ibm,xive-#priorities", &[8]);
    prop(&mut pe, "ibm,xive-provision-page-size", &[0x1_0000]);
    prop(&mut pe, "ibm,xive-provision-chips", &[0, 8]);
    change(&mut pe);
    pe
}

/// A core of two threads.
fn core(server: u32, chip: u32, numa: u32) -> TreeNode {
    let mut core = node(std::format!("PowerPC,POWER9@{server:x}"));
    text(&mut core, "device_type", "cpu");
    text(&mut core, "status", "okay");
    prop(&mut core, "reg", &[server]);
    prop(&mut core, "ibm,chip-id", &[chip]);
    prop(
        &mut core,
        "ibm,ppc-interrupt-server#s",
        &[server, server + 1],
    );
    prop(&mut core, "ibm,associativity", &[5, 0, 0, 0, numa, server]);
    core
}

/// A machine of two chips, 0 and 8, on firmware's nodes 3 and 5, with memory on node 4 too.
fn machine(pe: TreeNode, change: impl FnOnce(&mut TreeNode)) -> Vec<u8> {
    let mut tree = node("");
    let root = &mut tree;
    prop(root, "#address-cells", &[2]);
    prop(root, "#size-cells", &[2]);
    let mut cpus = node("cpus");
    cpus.add_child(core(0x800, 8, 5));
    cpus.add_child(core(4, 0, 3));
    root.add_child(cpus);
    let mut memory = node("memory@0");
    text(&mut memory, "device_type", "memory");
    prop(&mut memory, "ibm,associativity", &[4, 0, 0, 0, 4]);
    root.add_child(memory);
    let mut opal = node("ibm,opal");
    prop(&mut opal, "ibm,associativity-reference-points", &[4, 4, 2]);
    prop(&mut opal, "opal-interrupts", &[0xffff0, 0xffff8]);
    text(
        &mut opal,
        "opal-interrupts-names",
        "psi#0:fsp\0psi#0:lpc-uart",
    );
    root.add_child(opal);
    let mut vc = node("interrupt-controller@0");
    text(&mut vc, "compatible", "ibm,opal-xive-vc\0IBM,opal-xics");
    prop(&mut vc, "phandle", &[0x80]);
    prop(&mut vc, "#interrupt-cells", &[2]);
    root.add_child(vc);
    root.add_child(pe);
    let mut uart = node("serial@i3f8");
    text(&mut uart, "compatible", "ns16550");
    prop(&mut uart, "interrupt-parent", &[0x80]);
    prop(&mut uart, "interrupts", &[0xffff8, 1, 0xfe020, 0]);
    root.add_child(uart);
    change(root);
    tree.to_dtb()
}

fn plain() -> Vec<u8> {
    machine(presenter(|_| {}), |_| {})
}

fn thread(pir: u32, chip: u32, node: u32) -> Thread {
    Thread {
        pir: Pir::new(pir),
        chip: ChipId::new(chip),
        node: NodeId::new(node),
    }
}

fn refusal(blob: &[u8]) -> (&'static str, u64) {
    match describe(blob) {
        Err(Error::Firmware { what, at }) => (what, at),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_of_two_chips_is_described_with_its_threads_in_the_order_of_the_tree() {
    let found = describe(&plain()).unwrap();
    assert_eq!(found.tima, PhysAddr::new(0x6_0302_0319_0000));
    assert_eq!(found.queue_sizes, [12, 16, 21, 24]);
    assert_eq!(found.priorities, 8);
    assert_eq!(found.provision_page, 0x1_0000);
    assert_eq!(found.provision_chips, [ChipId::new(0), ChipId::new(8)]);
    assert_eq!(found.phandle, Some(0x80), "that of the sources");
    let threads = [(0x800, 8, 2), (0x801, 8, 2), (4, 0, 0), (5, 0, 0)];
    assert_eq!(
        found.threads,
        threads.map(|(pir, chip, node)| thread(pir, chip, node))
    );
    let description = found.description();
    assert_eq!(description.threads.len(), 4);
    assert_eq!(description.provision.page, 0x1_0000);
}

#[test]
fn nodes_are_firmwares_by_associativity_not_chips_and_one_without_a_cpu_counts() {
    let found = describe(&plain()).unwrap();
    assert_eq!(found.nodes, [3, 4, 5]);
    // Another reference point is another node.
    let blob = machine(presenter(|_| {}), |root| {
        let opal = root.child_mut("ibm,opal").unwrap();
        opal.remove_property("ibm,associativity-reference-points");
        prop(opal, "ibm,associativity-reference-points", &[1]);
    });
    assert_eq!(describe(&blob).unwrap().nodes, [0]);
}

#[test]
fn a_tree_without_reference_points_is_one_node() {
    let blob = machine(presenter(|_| {}), |root| {
        let opal = root.child_mut("ibm,opal").unwrap();
        opal.remove_property("ibm,associativity-reference-points");
    });
    let found = describe(&blob).unwrap();
    assert_eq!(found.nodes, [0]);
    assert!(
        found
            .threads
            .iter()
            .all(|thread| thread.node == NodeId::FLAT)
    );
}

#[test]
fn a_node_for_both_parts_is_described_as_on_power10() {
    let blob = machine(
        presenter(|pe| {
            pe.remove_property("compatible");
            text(
                pe,
                "compatible",
                "ibm,opal-xive-pe\0ibm,opal-xive-vc\0ibm,opal-intc",
            );
            prop(pe, "phandle", &[0x99]);
        }),
        |root| {
            root.remove_child("interrupt-controller@0");
        },
    );
    assert_eq!(describe(&blob).unwrap().phandle, Some(0x99));
}

#[test]
fn a_cpu_without_a_chip_is_refused_with_its_reg() {
    let blob = machine(presenter(|_| {}), |root| {
        let mut odd = core(0x40, 0, 3);
        odd.remove_property("ibm,chip-id");
        root.child_mut("cpus").unwrap().add_child(odd);
    });
    assert_eq!(refusal(&blob), ("a CPU without ibm,chip-id", 0x40));
}

#[test]
fn a_cpu_that_is_disabled_or_failed_is_left_out_and_what_it_lacks_does_not_matter() {
    for status in ["disabled", "fail", "fail-bad", ""] {
        let blob = machine(presenter(|_| {}), |root| {
            let mut absent = core(0x40, 0, 7);
            absent.remove_property("status");
            absent.remove_property("ibm,chip-id");
            text(&mut absent, "status", status);
            root.child_mut("cpus").unwrap().add_child(absent);
        });
        let found = describe(&blob).unwrap();
        assert_eq!(found.threads.len(), 4, "{status:?}");
        assert_eq!(found.nodes, [3, 4, 5]);
    }
}

#[test]
fn a_tree_without_cpus_has_no_threads_which_the_probe_refuses() {
    let blob = machine(presenter(|_| {}), |root| {
        root.remove_child("cpus");
    });
    assert!(describe(&blob).unwrap().threads.is_empty());
}

#[test]
fn threads_that_firmware_names_twice_or_not_at_all_are_refused() {
    let blob = machine(presenter(|_| {}), |root| {
        root.child_mut("cpus").unwrap().add_child(core(0x801, 8, 5));
    });
    assert_eq!(
        refusal(&blob),
        ("two threads with one server number", 0x801)
    );
    for servers in [None, Some(&[][..])] {
        let blob = machine(presenter(|_| {}), |root| {
            let mut odd = core(0x40, 0, 3);
            odd.remove_property("ibm,ppc-interrupt-server#s");
            if let Some(servers) = servers {
                prop(&mut odd, "ibm,ppc-interrupt-server#s", servers);
            }
            root.child_mut("cpus").unwrap().add_child(odd);
        });
        assert_eq!(refusal(&blob), ("ibm,ppc-interrupt-server#s", 0x40));
    }
}

#[test]
fn associativity_that_is_short_or_miscounted_is_refused() {
    for (list, expect) in [
        (&[3, 0, 0, 0][..], ("ibm,associativity-reference-points", 4)),
        (&[5, 0, 0, 0, 1][..], ("ibm,associativity", 5)),
        (&[][..], ("ibm,associativity", 0)),
    ] {
        let blob = machine(presenter(|_| {}), |root| {
            let mut odd = core(0x40, 0, 3);
            odd.remove_property("ibm,associativity");
            prop(&mut odd, "ibm,associativity", list);
            root.child_mut("cpus").unwrap().add_child(odd);
        });
        assert_eq!(refusal(&blob), expect);
    }
}

#[test]
fn a_controller_node_that_lies_is_refused_with_the_value() {
    let of = |change: &dyn Fn(&mut TreeNode)| refusal(&machine(presenter(change), |_| {}));
    let set = |name: &'static str, cells: &'static [u32]| {
        of(&move |pe: &mut TreeNode| {
            pe.remove_property(name);
            prop(pe, name, cells);
        })
    };
    let reg = "reg of ibm,opal-xive-pe";
    assert_eq!(set("reg", &[0, 0, 0, 0x1_0000]), (reg, 1));
    let short = &[0, 0, 0, 0x1_0000, 0, 0x1_0000, 0, 0xffff];
    assert_eq!(set("reg", short), (reg, 0x1_0000));
    let odd = &[0, 0, 0, 0x1_0000, 0, 0x1_1000, 0, 0x1_0000];
    assert_eq!(set("reg", odd), (reg, 0x1_1000));
    assert_eq!(set("reg", &[0, 0, 0]), ("reg", 3));
    assert_eq!(set("ibm,xive-eq-sizes", &[]), ("ibm,xive-eq-sizes", 0));
    assert_eq!(set("ibm,xive-eq-sizes", &[13]), ("ibm,xive-eq-sizes", 0));
    let priorities = "ibm,xive-#priorities";
    assert_eq!(set(priorities, &[0]), (priorities, 0));
    assert_eq!(set(priorities, &[9]), (priorities, 9));
    assert_eq!(set(priorities, &[8, 8]), (priorities, 8));
    let page = "ibm,xive-provision-page-size";
    assert_eq!(set(page, &[0x3000]), (page, 0x3000));
}

#[test]
fn interrupts_of_devices_and_of_firmware_are_found() {
    let blob = plain();
    let found = describe(&blob).unwrap();
    let get = |device, index| interrupt(&blob, &found, device, index);
    let uart = Ok((SourceNumber::new(0xffff8), Trigger::Level));
    assert_eq!(get(Device::Compatible("ns16550"), 0), uart);
    assert_eq!(get(Device::Path("/serial@i3f8"), 0), uart);
    let message = Ok((SourceNumber::new(0xfe020), Trigger::Edge));
    assert_eq!(get(Device::Path("/serial@i3f8"), 1), message);
    let what = "no such interrupt of the device";
    assert_eq!(
        get(Device::Path("/serial@i3f8"), 2),
        Err(Error::Firmware { what, at: 2 })
    );
    let number = SourceNumber::new(0xffff8);
    assert_eq!(opal_interrupt(&blob, "lpc-uart"), Ok(number));
    let what = "no such interrupt of firmware";
    assert_eq!(
        opal_interrupt(&blob, "lpc-uart2"),
        Err(Error::Firmware { what, at: 2 })
    );
}

#[test]
fn an_interrupt_of_another_controller_is_refused_with_its_phandle() {
    let blob = machine(presenter(|_| {}), |root| {
        let mut gpio = node("gpio");
        prop(&mut gpio, "phandle", &[7]);
        prop(&mut gpio, "#interrupt-cells", &[1]);
        root.add_child(gpio);
        let mut key = node("key");
        prop(&mut key, "interrupt-parent", &[7]);
        prop(&mut key, "interrupts", &[3, 1]);
        root.add_child(key);
        let mut both = node("both");
        prop(&mut both, "interrupts-extended", &[7, 3, 0x80, 0x10, 1]);
        root.add_child(both);
    });
    let found = describe(&blob).unwrap();
    let what = "interrupt parent is another controller";
    let other = Err(Error::Firmware { what, at: 7 });
    assert_eq!(interrupt(&blob, &found, Device::Path("/key"), 0), other);
    assert_eq!(interrupt(&blob, &found, Device::Path("/both"), 0), other);
    assert_eq!(
        interrupt(&blob, &found, Device::Path("/both"), 1),
        Ok((SourceNumber::new(0x10), Trigger::Level))
    );
}

#[test]
fn a_machine_without_the_node_says_which_other_one_it_has() {
    let mut tree = node("");
    assert_eq!(refusal(&tree.to_dtb()), ("no ibm,opal-xive-pe node", 0));
    for (compatible, feature) in [
        ("IBM,ppc-xicp", "XICS"),
        ("ibm,power-ivpe", "XIVE of a hypervisor's guest"),
    ] {
        let mut other = node("interrupt-controller");
        text(&mut other, "compatible", compatible);
        tree.remove_child("interrupt-controller");
        tree.add_child(other);
        let error = describe(&tree.to_dtb());
        assert_eq!(error.map(|_| ()), Err(Error::Unsupported { feature }));
    }
    let disabled = machine(presenter(|pe| text(pe, "status", "disabled")), |root| {
        root.remove_child("interrupt-controller@0");
    });
    assert_eq!(refusal(&disabled), ("no ibm,opal-xive-pe node", 0));
}

#[test]
fn a_truncated_tree_is_an_error_at_every_length() {
    let blob = plain();
    assert!(checked(&blob).is_ok());
    for len in 0..blob.len() {
        let error = describe(&blob[..len]);
        assert!(
            matches!(error, Err(Error::Firmware { .. })),
            "{len} bytes: {error:?}"
        );
    }
}

#[test]
fn bytes_behind_the_blob_do_not_matter_and_are_cut_off() {
    let plain = plain();
    let mut blob = plain.clone();
    blob.extend([0xff; 100]);
    assert_eq!(checked(&blob), Ok(&plain[..]));
    assert_eq!(describe(&blob), describe(&plain));
}

#[test]
fn a_structure_that_does_not_pair_up_is_an_error_with_its_offset() {
    let with = |structure: &[u32]| {
        let mut blob = bytes(&[0xd00d_feed, 0, 56, 0, 40, 17, 16, 0, 2, 0, 0, 0, 0, 0]);
        blob.extend(bytes(structure));
        let strings = blob.len() as u32;
        blob.extend(b"a\0");
        let size = blob.len() as u32;
        for (at, value) in [(4, size), (12, strings), (36, strings - 56)] {
            blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        match checked(&blob) {
            Ok(_) => None,
            Err(Error::Firmware { what, at }) => Some((what, at)),
            Err(error) => panic!("{error}"),
        }
    };
    let named = 0x6e00_0000;
    let token = |at| Some(("devicetree token", at));
    assert_eq!(with(&[1, 0, 2, 9]), None);
    assert_eq!(with(&[1, 0, 3, 0, 0, 4, 1, named, 2, 2, 9]), None);
    assert_eq!(with(&[9]), token(56), "no root");
    assert_eq!(with(&[1, 0, 2, 2, 9]), token(68), "an end too many");
    assert_eq!(with(&[1, 0, 9]), token(64), "an end too few");
    assert_eq!(with(&[1, 0, 2, 1, 0, 2, 9]).unwrap().1, 72, "two roots");
    assert_eq!(with(&[1, named, 2, 9]).unwrap().1, 60, "a root with a name");
    assert_eq!(
        with(&[1, 0, 1, 0, 2, 2, 9]).unwrap().1,
        68,
        "a child without"
    );
    let late = [1, 0, 1, named, 2, 3, 0, 0, 2, 9];
    assert_eq!(with(&late), token(76), "a property behind a child");
    assert_eq!(with(&[1, 0, 5, 9]), token(64));
    assert_eq!(with(&[1, 0, 3, 0, 2, 2, 9]).unwrap().1, 64, "no such name");
    assert_eq!(with(&[1, 0, 3, 0, 1, 2, 9]).unwrap().1, 64, "an empty name");
    let long = with(&[1, 0, 3, 0x100, 0, 2, 9]);
    assert_eq!(long, Some(("devicetree length", 64)));
}

/// Everything that reads the blob; the answers do not matter, that there are some does.
fn read_all(blob: &[u8]) {
    if let Ok(found) = describe(blob) {
        let _ = interrupt(blob, &found, Device::Compatible("ns16550"), 0);
        let _ = interrupt(blob, &found, Device::Path("/serial@i3f8"), usize::MAX);
    }
    let _ = opal_interrupt(blob, "uart");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(blob in proptest::collection::vec(any::<u8>(), 0..256)) {
        read_all(&blob);
    }

    #[test]
    fn a_header_over_arbitrary_bytes_never_panics(
        body in proptest::collection::vec(any::<u8>(), 36..256),
    ) {
        let mut blob = Vec::from(0xd00d_feed_u32.to_be_bytes());
        blob.extend(u32::try_from(body.len() + 8).unwrap().to_be_bytes());
        blob.extend(&body);
        read_all(&blob);
    }

    #[test]
    fn mutated_trees_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut blob = plain();
        for (at, value) in changes {
            let at = at.index(blob.len());
            blob[at] = value;
        }
        read_all(&blob);
    }

    #[test]
    fn words_that_lie_never_panic(
        at in any::<prop::sample::Index>(),
        value in prop_oneof![Just(u32::MAX), Just(0x7fff_ffff), Just(0), any::<u32>()],
    ) {
        let mut blob = plain();
        let at = at.index(blob.len() / 4) * 4;
        blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
        read_all(&blob);
    }
}
