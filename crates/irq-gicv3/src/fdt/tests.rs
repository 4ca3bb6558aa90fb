// SPDX-License-Identifier: MIT OR Apache-2.0
//! Good trees, and trees that are truncated or lie.

use std::string::String;
use std::vec::Vec;

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use proptest::prelude::*;

use super::*;

fn bytes(cells: &[u32]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
}

fn prop(node: &mut DeviceTreeNode, name: &str, cells: &[u32]) {
    node.add_property(DeviceTreeProperty::new(name, bytes(cells)).unwrap());
}

fn text(node: &mut DeviceTreeNode, name: &str, value: &str) {
    let mut value = Vec::from(value);
    value.push(0);
    node.add_property(DeviceTreeProperty::new(name, value).unwrap());
}

fn node(name: impl Into<String>) -> DeviceTreeNode {
    DeviceTreeNode::new(name).unwrap()
}

/// A controller like QEMU's `virt` with two regions, and `change` on top.
fn gic(change: impl FnOnce(&mut DeviceTreeNode)) -> DeviceTreeNode {
    let mut gic = node("intc@8000000");
    text(&mut gic, "compatible", "arm,gic-v3");
    prop(&mut gic, "phandle", &[0x8005]);
    prop(&mut gic, "#interrupt-cells", &[3]);
    prop(&mut gic, "#redistributor-regions", &[2]);
    prop(&mut gic, "interrupts", &[1, 9, 4]);
    let reg = [
        [0, 0x800_0000, 0, 0x1_0000],
        [0, 0x80a_0000, 0, 0xf6_0000],
        [0x40, 0, 0, 0x400_0000],
    ];
    prop(&mut gic, "reg", reg.as_flattened());
    change(&mut gic);
    gic
}

/// A machine with `gic`, two CPUs, a timer and a UART behind a bus.
fn machine(gic: DeviceTreeNode, change: impl FnOnce(&mut DeviceTreeNode)) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    let root = &mut tree.root;
    text(root, "compatible", "linux,dummy-virt");
    prop(root, "#address-cells", &[2]);
    prop(root, "#size-cells", &[2]);
    prop(root, "interrupt-parent", &[0x8005]);
    let mut cpus = node("cpus");
    prop(&mut cpus, "#address-cells", &[1]);
    for (name, reg) in [("cpu@0", 0), ("cpu@1", 0x101)] {
        let mut cpu = node(name);
        text(&mut cpu, "device_type", "cpu");
        prop(&mut cpu, "reg", &[reg]);
        cpus.add_child(cpu);
    }
    root.add_child(cpus);
    root.add_child(gic);
    let mut timer = node("timer");
    text(&mut timer, "compatible", "arm,armv8-timer");
    prop(
        &mut timer,
        "interrupts",
        &[1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4],
    );
    root.add_child(timer);
    let mut uart = node("pl011@9000000");
    text(&mut uart, "compatible", "arm,pl011");
    prop(&mut uart, "interrupts-extended", &[0x8005, 0, 1, 4]);
    root.add_child(uart);
    change(root);
    tree.to_dtb()
}

fn plain() -> Vec<u8> {
    machine(gic(|_| {}), |_| {})
}

fn window(base: u64, len: u64) -> Window {
    Window {
        base: PhysAddr::new(base),
        len,
    }
}

#[test]
fn a_machine_with_two_regions_is_described() {
    let blob = plain();
    let found = describe(&blob).unwrap();
    assert_eq!(found.distributor, window(0x800_0000, 0x1_0000));
    assert_eq!(
        found.redistributors,
        [
            window(0x80a_0000, 0xf6_0000),
            window(0x40_0000_0000, 0x400_0000)
        ]
    );
    assert_eq!(found.stride, None);
    assert_eq!(found.phandle, Some(0x8005));
    assert_eq!(found.interrupt_cells, 3);
    assert_eq!(
        found.maintenance,
        Some((IntId::ppi(9).unwrap(), Trigger::Level))
    );
    assert_eq!(found.cpus, [Mpidr::new(0), Mpidr::new(0x101)]);
    assert_eq!(found.compatible, ["linux,dummy-virt", "arm,gic-v3"]);
    assert!(found.properties.is_empty());
}

#[test]
fn a_description_is_mapped_window_by_window_or_not_at_all() {
    let blob = plain();
    let found = describe(&blob).unwrap();
    let description = found.mapped(|window| Ok(window.base.get())).unwrap();
    assert_eq!(description.distributor, 0x800_0000);
    assert_eq!(description.redistributors, [0x80a_0000, 0x40_0000_0000]);
    assert_eq!(description.cpus, found.cpus);
    let refused = Error::Unsupported {
        feature: "this window",
    };
    let map = |window: Window| {
        if window.len > 0x100_0000 {
            Err(refused)
        } else {
            Ok(())
        }
    };
    assert_eq!(found.mapped(map).map(|_| ()), Err(refused));
}

#[test]
fn bytes_behind_the_blob_do_not_matter() {
    let mut blob = plain();
    blob.extend([0xff; 100]);
    assert!(describe(&blob).is_ok());
}

#[test]
fn the_stride_and_four_cells_are_read() {
    let blob = machine(
        gic(|gic| {
            prop(gic, "redistributor-stride", &[0, 0x4_0000]);
            prop(gic, "#interrupt-cells", &[4]);
            prop(gic, "interrupts", &[1, 9, 4, 0]);
            gic.add_property(
                DeviceTreeProperty::new("mediatek,broken-save-restore-fw", "").unwrap(),
            );
        }),
        |_| {},
    );
    let found = describe(&blob).unwrap();
    assert_eq!(found.stride, Some(0x4_0000));
    assert_eq!(found.interrupt_cells, 4);
    assert_eq!(found.properties, ["mediatek,broken-save-restore-fw"]);
    assert_eq!(
        found.machine().properties,
        ["mediatek,broken-save-restore-fw"]
    );
}

#[test]
fn addresses_are_translated_by_the_buses_above() {
    let mut bus = node("soc");
    prop(&mut bus, "#address-cells", &[1]);
    prop(&mut bus, "#size-cells", &[1]);
    prop(&mut bus, "ranges", &[0x1000_0000, 0x8, 0, 0x1000_0000]);
    bus.add_child(gic(|gic| {
        prop(gic, "#redistributor-regions", &[1]);
        prop(gic, "reg", &[0x1000_0000, 0x1_0000, 0x1010_0000, 0x10_0000]);
    }));
    let mut tree = DeviceTree::new();
    prop(&mut tree.root, "#address-cells", &[2]);
    tree.root.add_child(bus);
    let blob = tree.to_dtb();
    let found = describe(&blob).unwrap();
    assert_eq!(found.distributor, window(0x8_0000_0000, 0x1_0000));
    assert_eq!(found.redistributors, [window(0x8_0010_0000, 0x10_0000)]);
}

#[test]
fn interrupts_of_devices_are_found_by_either_property() {
    let blob = plain();
    let gic = describe(&blob).unwrap();
    let get = |device, index| interrupt(&blob, &gic, device, index);
    let ppi = |n| (IntId::ppi(n).unwrap(), Trigger::Level);
    assert_eq!(get(Device::Compatible("arm,armv8-timer"), 2), Ok(ppi(11)));
    assert_eq!(get(Device::Path("/timer"), 1), Ok(ppi(14)));
    let uart = Ok((IntId::spi(1).unwrap(), Trigger::Level));
    assert_eq!(get(Device::Compatible("arm,pl011"), 0), uart);
    assert_eq!(get(Device::Path("/pl011@9000000"), 0), uart);
    let what = "no such interrupt of the device";
    assert_eq!(
        get(Device::Path("/timer"), 4),
        Err(Error::Firmware { what, at: 4 })
    );
    let what = "no such device";
    assert_eq!(
        get(Device::Path("/nothing"), 0),
        Err(Error::Firmware { what, at: 0 })
    );
}

#[test]
fn an_interrupt_of_another_controller_is_refused_with_its_phandle() {
    let blob = machine(gic(|_| {}), |root| {
        let mut gpio = node("gpio");
        prop(&mut gpio, "phandle", &[7]);
        prop(&mut gpio, "#interrupt-cells", &[2]);
        root.add_child(gpio);
        let mut key = node("key");
        prop(&mut key, "interrupt-parent", &[7]);
        prop(&mut key, "interrupts", &[3, 1]);
        root.add_child(key);
        let mut both = node("both");
        prop(
            &mut both,
            "interrupts-extended",
            &[7, 3, 1, 0x8005, 0, 9, 1],
        );
        root.add_child(both);
    });
    let gic = describe(&blob).unwrap();
    let what = "interrupt parent is another controller";
    let other = Err(Error::Firmware { what, at: 7 });
    assert_eq!(interrupt(&blob, &gic, Device::Path("/key"), 0), other);
    assert_eq!(interrupt(&blob, &gic, Device::Path("/both"), 0), other);
    assert_eq!(
        interrupt(&blob, &gic, Device::Path("/both"), 1),
        Ok((IntId::spi(9).unwrap(), Trigger::Edge))
    );
}

#[test]
fn a_machine_without_the_node_says_so() {
    let mut tree = DeviceTree::new();
    assert_eq!(
        describe(&tree.to_dtb()).map(|_| ()),
        Err(Error::Firmware {
            what: "no arm,gic-v3 node",
            at: 0
        })
    );
    let mut old = node("intc");
    text(&mut old, "compatible", "arm,cortex-a15-gic");
    tree.root.add_child(old);
    let error = describe(&tree.to_dtb()).map(|_| ());
    assert_eq!(error, Err(Error::Unsupported { feature: "GICv2" }));
}

#[test]
fn a_disabled_controller_is_none() {
    let blob = machine(gic(|gic| text(gic, "status", "disabled")), |_| {});
    let what = "no arm,gic-v3 node";
    assert_eq!(
        describe(&blob).map(|_| ()),
        Err(Error::Firmware { what, at: 0 })
    );
}

#[test]
fn a_truncated_tree_is_an_error_at_every_length() {
    let blob = plain();
    for len in 0..blob.len() {
        let error = describe(&blob[..len]).map(|_| ());
        assert!(
            matches!(error, Err(Error::Firmware { .. })),
            "{len} bytes: {error:?}"
        );
    }
}

#[test]
fn a_tree_that_lies_about_sizes_is_an_error_with_the_value() {
    let what_of = |change: &dyn Fn(&mut DeviceTreeNode)| {
        let blob = machine(gic(change), |_| {});
        match describe(&blob).map(|_| ()) {
            Err(Error::Firmware { what, at }) => (what, at),
            Err(Error::TooSmall { what, len, .. }) => (what, len as u64),
            other => panic!("{other:?}"),
        }
    };
    // More regions than there are windows, none, and a count that is no number.
    assert_eq!(
        what_of(&|gic| prop(gic, "#redistributor-regions", &[3])),
        ("#redistributor-regions", 3)
    );
    assert_eq!(
        what_of(&|gic| prop(gic, "#redistributor-regions", &[0])),
        ("#redistributor-regions", 0)
    );
    assert_eq!(
        what_of(&|gic| prop(gic, "#redistributor-regions", &[u32::MAX])),
        ("#redistributor-regions", u64::from(u32::MAX))
    );
    // A window that wraps, one of no length, a piece of one.
    let ones = u32::MAX;
    assert_eq!(
        what_of(&|gic| prop(gic, "reg", &[ones, ones - 0xffff, 1, 0])),
        ("reg of a length that cannot be", 0xffff_ffff_ffff_0000)
    );
    assert_eq!(
        what_of(&|gic| prop(gic, "reg", &[0, 0x800_0000, 0, 0])),
        ("reg of a length that cannot be", 0x800_0000)
    );
    assert_eq!(what_of(&|gic| prop(gic, "reg", &[0, 0, 0])), ("reg", 3));
    // Too short for their frames, and one over the other.
    let two = |first_len, base, len| {
        move |gic: &mut DeviceTreeNode| {
            prop(gic, "#redistributor-regions", &[1]);
            prop(gic, "reg", &[0, 0x800_0000, 0, first_len, 0, base, 0, len]);
        }
    };
    assert_eq!(
        what_of(&two(0xfff, 0x80a_0000, 0x2_0000)),
        ("reg of GICD", 0xfff)
    );
    assert_eq!(
        what_of(&two(0x1_0000, 0x80a_0000, 0x1_0000)),
        ("reg of GICR", 0x1_0000)
    );
    assert_eq!(
        what_of(&two(0x1_0000, 0x800_8000, 0x2_0000)),
        ("reg windows overlap", 0x800_8000)
    );
    // Cells.
    assert_eq!(
        what_of(&|gic| prop(gic, "#interrupt-cells", &[2])),
        ("#interrupt-cells", 2)
    );
    assert_eq!(
        what_of(&|gic| prop(gic, "interrupts", &[1, 16, 4])),
        ("interrupt specifier: number", 16)
    );
    assert_eq!(
        what_of(&|gic| prop(gic, "interrupts", &[1, 9])),
        ("interrupts", 2)
    );
}

#[test]
fn a_cpu_without_a_proper_reg_is_an_error() {
    let blob = machine(gic(|_| {}), |root| {
        let cpus = root.child_mut("cpus").unwrap();
        let mut cpu = node("cpu@2");
        text(&mut cpu, "device_type", "cpu");
        prop(&mut cpu, "reg", &[0, 2]);
        cpus.add_child(cpu);
    });
    let what = "reg of a CPU";
    assert_eq!(
        describe(&blob).map(|_| ()),
        Err(Error::Firmware { what, at: 8 })
    );
}

#[test]
fn a_tree_deeper_than_any_machine_ends_the_walk() {
    let mut inner = gic(|_| {});
    for _ in 0..200 {
        let mut outer = node("n");
        prop(&mut outer, "ranges", &[]);
        outer.add_child(inner);
        inner = outer;
    }
    let mut tree = DeviceTree::new();
    tree.root.add_child(inner);
    let what = "no arm,gic-v3 node";
    assert_eq!(
        describe(&tree.to_dtb()).map(|_| ()),
        Err(Error::Firmware { what, at: 0 })
    );
}

/// Everything that reads the blob; the answers do not matter, that there are some does.
fn read_all(blob: &[u8]) {
    if let Ok(gic) = describe(blob) {
        for device in ["arm,armv8-timer", "arm,pl011"] {
            let _ = interrupt(blob, &gic, Device::Compatible(device), 0);
        }
        let _ = interrupt(blob, &gic, Device::Path("/timer"), usize::MAX);
        let _ = interrupt(blob, &gic, Device::Path("/pl011"), 1);
    }
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
