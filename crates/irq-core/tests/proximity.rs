// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which unit serves a CPU: the rules one by one, and what other rules got wrong.
#![cfg(not(loom))]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::proximity::{
    Affinity, CpuPlace, Distances, KeyLevel, MAX_UNITS, Mismatch, Proximity, Rule, Settled, Unit,
    UnitIndex,
};
use irq_hal::{Error, ErrorKind};

static PLATFORM: Cpu = Cpu::new(0);

fn level(fields: u32) -> KeyLevel {
    KeyLevel::new(fields).unwrap()
}

fn unit(affinity: u32, fields: u32, node: Option<u32>) -> Unit {
    Unit {
        affinity: Affinity::new(affinity),
        level: level(fields),
        node: node.map(NodeId::new),
    }
}

fn place(affinity: u32, fields: u32, node: Option<u32>) -> CpuPlace {
    CpuPlace {
        affinity: Affinity::new(affinity),
        level: level(fields),
        node: node.map(NodeId::new),
    }
}

/// Room for 8 CPUs, 4 units and 4 nodes.
fn proximity() -> Proximity {
    Proximity::new(8, 4, Distances::plain(4).unwrap()).unwrap()
}

fn add(proximity: &Proximity, index: u32, unit: Unit) {
    proximity
        .add(&PLATFORM, UnitIndex::new(index), unit)
        .unwrap();
}

fn remove(proximity: &Proximity, index: u32) {
    proximity.remove(&PLATFORM, UnitIndex::new(index)).unwrap();
}

fn online(proximity: &Proximity, cpu: u32, place: CpuPlace) {
    proximity
        .online(&PLATFORM, CpuIndex::new(cpu), place)
        .unwrap();
}

fn settled(proximity: &Proximity, cpu: u32) -> Settled {
    let settled = proximity.settled(CpuIndex::new(cpu)).unwrap();
    assert_eq!(proximity.unit(CpuIndex::new(cpu)), Ok(settled.unit));
    settled
}

fn answer(proximity: &Proximity, cpu: u32) -> (u32, Rule) {
    let settled = settled(proximity, cpu);
    (settled.unit.get(), settled.rule)
}

/// Two sockets, Aff3 their number, with a unit each; CPUs 0 and 1 on the first, 2 and 3 on the
/// second.
const SOCKETS: [u32; 4] = [0x0000_0000, 0x0000_0100, 0x0100_0000, 0x0100_0100];

#[test]
fn each_cpu_is_served_by_the_unit_of_its_socket() {
    for first in [0, 1] {
        let proximity = proximity();
        // In either order of probing.
        for socket in [first, 1 - first] {
            add(&proximity, socket, unit(socket << 24, 1, None));
        }
        for (cpu, affinity) in (0..).zip(SOCKETS) {
            online(&proximity, cpu, place(affinity, 1, None));
            assert_eq!(answer(&proximity, cpu), (cpu / 2, Rule::OwnKey));
            assert_eq!(settled(&proximity, cpu).mismatch, None);
        }
    }
}

/// What kernels did: a CPU takes its table, and with it the unit, from a peer that is up, or from
/// a unit of its key that has one; else it allocates, and remembers no unit. Who remembers none
/// is served by the first of a list to which probing prepends.
fn last_probed_rule(probed: &[u32], has_table: bool) -> Vec<u32> {
    let mut remembered: Vec<(u32, Option<u32>)> = Vec::new();
    for affinity in SOCKETS {
        let socket = affinity >> 24;
        let peer = remembered.iter().find(|(peer, _)| peer >> 24 == socket);
        let own = match peer {
            Some((_, unit)) => *unit,
            None => has_table.then_some(socket),
        };
        remembered.push((affinity, own));
    }
    let fallback = *probed.last().unwrap();
    let unit = |(_, own): (u32, Option<u32>)| own.unwrap_or(fallback);
    remembered.into_iter().map(unit).collect()
}

#[test]
fn the_unit_probed_last_is_the_wrong_one_for_half_of_the_cpus_that_allocated_their_table() {
    let near = vec![0, 0, 1, 1];
    for probed in [[0, 1], [1, 0]] {
        let proximity = proximity();
        for socket in probed {
            add(&proximity, socket, unit(socket << 24, 1, None));
        }
        for (cpu, affinity) in (0..).zip(SOCKETS) {
            online(&proximity, cpu, place(affinity, 1, None));
        }
        let ours: Vec<_> = (0..4).map(|cpu| answer(&proximity, cpu).0).collect();
        assert_eq!(ours, near);
        assert_eq!(last_probed_rule(&probed, true), near);
        assert_eq!(last_probed_rule(&probed, false), [probed[1]; 4]);
    }
}

#[test]
fn keys_of_each_side_at_its_own_level_match_across_sockets_where_they_are_zero() {
    let proximity = proximity();
    let units = [(0x0000_0000, 2), (0x0101_0000, 2)];
    for (index, (affinity, fields)) in (0..).zip(units) {
        add(&proximity, index, unit(affinity, fields, None));
    }
    let (affinity, fields) = (0x0101_0000_u32, 0);
    let own_level =
        |value: u32, fields: u32| value & !u32::MAX.checked_shr(8 * fields).unwrap_or(0);
    let wrong = units
        .iter()
        .position(|(unit, theirs)| own_level(*unit, *theirs) == own_level(affinity, fields));
    assert_eq!(wrong, Some(0));
    online(&proximity, 0, place(affinity, fields, None));
    assert_eq!(answer(&proximity, 0), (1, Rule::OwnKey));
}

#[test]
fn each_level_compares_its_fields_from_the_highest_on() {
    let fields = [
        0x0102_0304,
        0x0102_0300,
        0x0102_0004,
        0x0100_0304,
        0x0002_0304,
    ];
    // How many of the unit's levels serve a CPU that differs from it there.
    for (affinity, levels) in fields.into_iter().zip([3, 3, 2, 1, 0]) {
        for of_unit in 0..=3 {
            let proximity = proximity();
            add(&proximity, 1, unit(0x0102_0304, of_unit, None));
            online(&proximity, 0, place(affinity, 3, None));
            let rule = match of_unit {
                0 => Rule::LowestIndex,
                _ if of_unit <= levels => Rule::OwnKey,
                _ => Rule::LowestIndex,
            };
            assert_eq!(answer(&proximity, 0), (1, rule), "{affinity:#x} {of_unit}");
        }
    }
}

#[test]
fn a_key_of_zeros_is_one_and_no_key_is_none() {
    let affinity = Affinity::new(0x0000_00ff);
    assert_eq!(affinity.key(level(0)), None);
    assert_eq!(affinity.key(level(3)), Some(0));
    let affinity = Affinity::new(0x0102_0304);
    let keys = [1, 2, 3].map(|fields| affinity.key(level(fields)));
    assert_eq!(keys, [Some(0x01), Some(0x0102), Some(0x01_0203)]);
    assert_eq!(format!("{affinity:?}"), "1.2.3.4");
}

#[test]
fn of_several_units_of_the_key_the_nearest_serves_and_of_those_the_lowest() {
    // From the first node the third is nearer than the second; it is not so back.
    let distances = [[10, 40, 20], [15, 10, 30], [30, 20, 10]];
    let between = |from: NodeId, to: NodeId| distances[from.index()][to.index()];
    let distances = Distances::new(3, between).unwrap();
    let proximity = Proximity::new(8, 4, distances).unwrap();
    for (index, node) in (0..).zip([None, Some(1), Some(2), Some(2)]) {
        add(&proximity, index, unit(0, 1, node));
    }
    for (cpu, node) in (0..).zip([Some(0), Some(1), Some(2), None]) {
        online(&proximity, cpu, place(cpu, 1, node));
    }
    let all = || [0, 1, 2, 3].map(|cpu| answer(&proximity, cpu).0);
    assert_eq!(all(), [2, 1, 2, 0]);
    remove(&proximity, 2);
    assert_eq!(all(), [3, 1, 3, 0]);
    remove(&proximity, 3);
    assert_eq!(all(), [1, 1, 1, 0]);
    // Whose node is unknown is farther than what is as far as can be said.
    remove(&proximity, 1);
    assert_eq!(all(), [0, 0, 0, 0]);
}

#[test]
fn a_unit_of_unknown_node_is_farther_than_any_distance() {
    let proximity = Proximity::new(1, 2, Distances::new(2, |_, _| u8::MAX).unwrap()).unwrap();
    add(&proximity, 0, unit(0, 1, None));
    add(&proximity, 1, unit(0, 1, Some(1)));
    online(&proximity, 0, place(0, 1, Some(0)));
    assert_eq!(answer(&proximity, 0), (1, Rule::OwnKey));
}

#[test]
fn a_cpu_whose_unit_names_only_its_peer_shares_the_peers_unit() {
    let proximity = proximity();
    // The CPUs say that they share within Aff3; the unit, that only Aff2 = 1 does.
    add(&proximity, 0, unit(0x0200_0000, 1, None));
    add(&proximity, 1, unit(0x0101_0000, 2, None));
    online(&proximity, 0, place(0x0102_0000, 1, None));
    assert_eq!(answer(&proximity, 0), (0, Rule::LowestIndex));
    assert_eq!(settled(&proximity, 0).mismatch, None);
    online(&proximity, 1, place(0x0101_0000, 1, None));
    let mismatch = Some(Mismatch {
        cpu: level(1),
        unit: level(2),
    });
    for (cpu, rule) in [(1, Rule::OwnKey), (0, Rule::PeerKey)] {
        assert_eq!(answer(&proximity, cpu), (1, rule));
        assert_eq!(settled(&proximity, cpu).mismatch, mismatch);
    }
    // The last CPU with the unit's key takes that away again, and not before.
    online(&proximity, 2, place(0x0101_0100, 1, None));
    for (cpu, unit) in [(1, (1, Rule::PeerKey)), (2, (0, Rule::LowestIndex))] {
        proximity.offline(&PLATFORM, CpuIndex::new(cpu)).unwrap();
        assert_eq!(answer(&proximity, 0), unit);
    }
}

#[test]
fn a_peer_without_a_unit_of_its_own_hands_on_nothing() {
    let proximity = proximity();
    add(&proximity, 0, unit(0, 0, None));
    add(&proximity, 1, unit(0, 3, None));
    // The second is a peer of the first, and the third of the second, but not of the first.
    online(&proximity, 0, place(0x0000_0000, 3, None));
    online(&proximity, 1, place(0x0001_0000, 1, None));
    online(&proximity, 2, place(0x0001_0100, 2, None));
    assert_eq!(answer(&proximity, 0), (1, Rule::OwnKey));
    assert_eq!(answer(&proximity, 1), (1, Rule::PeerKey));
    assert_eq!(answer(&proximity, 2), (0, Rule::LowestIndex));
}

#[test]
fn to_a_cpu_of_level_zero_every_cpu_is_a_peer_and_the_nearest_of_their_units_serves() {
    let proximity = proximity();
    let units = [
        unit(0x0900_0000, 1, Some(1)),
        unit(0x0100_0000, 1, Some(0)),
        unit(0x0200_0000, 2, Some(1)),
        unit(0x0200_0000, 0, Some(1)),
    ];
    for (index, unit) in (0..).zip(units) {
        add(&proximity, index, unit);
    }
    online(&proximity, 0, place(0x0300_0000, 0, Some(1)));
    // No CPU has a key of the first, which is nothing to this one but a unit of its node.
    assert_eq!(answer(&proximity, 0), (0, Rule::Node));
    online(&proximity, 1, place(0x0100_0000, 1, Some(0)));
    assert_eq!(answer(&proximity, 0), (1, Rule::PeerKey));
    online(&proximity, 2, place(0x0200_0000, 3, Some(1)));
    assert_eq!(answer(&proximity, 0), (2, Rule::PeerKey));
}

#[test]
fn without_keys_the_node_decides_and_without_nodes_the_index() {
    let proximity = proximity();
    for (index, node) in (0..).zip([2, 1, 1]) {
        add(&proximity, index, Unit::on_node(NodeId::new(node)));
    }
    online(&proximity, 0, CpuPlace::on_node(NodeId::new(1)));
    online(&proximity, 1, CpuPlace::on_node(NodeId::new(2)));
    online(&proximity, 2, CpuPlace::on_node(NodeId::new(3)));
    online(&proximity, 3, place(0, 0, None));
    let all = || [0, 1, 2, 3].map(|cpu| answer(&proximity, cpu));
    let (node, lowest) = (Rule::Node, Rule::LowestIndex);
    assert_eq!(all(), [(1, node), (0, node), (0, lowest), (0, lowest)]);
    remove(&proximity, 1);
    assert_eq!(all(), [(2, node), (0, node), (0, lowest), (0, lowest)]);
    remove(&proximity, 0);
    assert_eq!(all(), [(2, node), (2, lowest), (2, lowest), (2, lowest)]);
    add(&proximity, 0, unit(0, 0, None));
    assert_eq!(all(), [(2, node), (0, lowest), (0, lowest), (0, lowest)]);
}

#[test]
fn a_unit_that_goes_or_comes_back_moves_the_cpus_that_it_concerns() {
    let proximity = proximity();
    for socket in 0..2 {
        add(&proximity, socket, unit(socket << 24, 1, Some(socket)));
    }
    for (cpu, affinity) in (0..).zip(SOCKETS) {
        online(&proximity, cpu, place(affinity, 1, None));
    }
    let all = || [0, 1, 2, 3].map(|cpu| answer(&proximity, cpu));
    let (own, lowest) = (Rule::OwnKey, Rule::LowestIndex);
    let before = [(0, own), (0, own), (1, own), (1, own)];
    assert_eq!(all(), before);
    remove(&proximity, 0);
    assert_eq!(all(), [(1, lowest), (1, lowest), (1, own), (1, own)]);
    add(&proximity, 0, unit(0, 1, Some(0)));
    assert_eq!(all(), before);
}

#[test]
fn a_unit_may_come_back_as_another_and_a_cpu_at_another_place() {
    let proximity = proximity();
    add(&proximity, 0, unit(0, 1, None));
    add(&proximity, 1, unit(0x0100_0000, 1, None));
    online(&proximity, 0, place(0x0100_0000, 1, None));
    remove(&proximity, 1);
    add(&proximity, 1, unit(0x0200_0000, 1, None));
    assert_eq!(answer(&proximity, 0), (0, Rule::LowestIndex));
    proximity.offline(&PLATFORM, CpuIndex::new(0)).unwrap();
    online(&proximity, 0, place(0x0200_0000, 1, None));
    assert_eq!(answer(&proximity, 0), (1, Rule::OwnKey));
}

#[test]
fn without_a_unit_a_cpu_comes_online_and_its_lookup_is_an_error() {
    let proximity = proximity();
    let cpu = CpuIndex::new(0);
    let none = Error::NoUnitForCpu {
        block: "unit",
        id: 0xffff_fffe,
    };
    online(&proximity, 0, place(0xffff_fffe, 3, None));
    for index in [3, 0] {
        assert_eq!(proximity.unit(cpu), Err(none));
        assert_eq!(proximity.settled(cpu), Err(none));
        add(&proximity, index, unit(0xffff_ff00, 3, None));
        assert_eq!(answer(&proximity, 0), (index, Rule::OwnKey));
        remove(&proximity, index);
    }
    assert_eq!(proximity.unit(cpu), Err(none));
    proximity.offline(&PLATFORM, cpu).unwrap();
    assert_eq!(proximity.unit(cpu), Err(Error::CpuOffline { cpu }));
    assert_eq!(proximity.settled(cpu), Err(Error::CpuOffline { cpu }));
}

#[test]
fn levels_that_differ_are_reported_unless_the_unit_claims_nothing() {
    for (of_cpu, of_unit) in (0..=3).flat_map(|cpu| (0..=3).map(move |unit| (cpu, unit))) {
        let proximity = proximity();
        add(&proximity, 0, unit(0, of_unit, None));
        online(&proximity, 0, place(0, of_cpu, None));
        let mismatch = Mismatch {
            cpu: level(of_cpu),
            unit: level(of_unit),
        };
        let reported = (of_unit != 0 && of_unit != of_cpu).then_some(mismatch);
        assert_eq!(settled(&proximity, 0).mismatch, reported);
    }
}

#[test]
fn numbers_that_nothing_can_be_made_for_are_errors() {
    let plain = || Distances::plain(1).unwrap();
    let invalid = Some(ErrorKind::Invalid);
    for cpus in [0, irq_core::cpu::MAX_CPUS + 1, u32::MAX] {
        let error = Proximity::new(cpus, 1, plain()).err();
        assert_eq!(error.map(|error| error.kind()), invalid);
    }
    for units in [0, MAX_UNITS + 1, u32::MAX] {
        let error = Proximity::new(1, units, plain()).err();
        assert_eq!(error.map(|error| error.kind()), invalid);
    }
    for nodes in [0, u32::MAX] {
        let error = Distances::plain(nodes).err();
        assert_eq!(error.map(|error| error.kind()), invalid);
        let error = Distances::new(nodes, |_, _| 10).err();
        assert_eq!(error.map(|error| error.kind()), invalid);
    }
    for fields in [4, 5, 32, u32::MAX] {
        let error = Error::Invalid {
            what: "level of an affinity key",
            value: u64::from(fields),
        };
        assert_eq!(KeyLevel::new(fields), Err(error));
    }
}

#[test]
fn the_unit_of_the_highest_possible_index_serves_like_any_other() {
    let proximity = Proximity::new(1, MAX_UNITS, Distances::plain(1).unwrap()).unwrap();
    assert_eq!((proximity.cpus(), proximity.units()), (1, MAX_UNITS));
    online(&proximity, 0, place(u32::MAX, 3, None));
    add(&proximity, MAX_UNITS - 1, unit(u32::MAX, 2, None));
    let settled = settled(&proximity, 0);
    assert_eq!(settled.unit.get(), MAX_UNITS - 1);
    assert_eq!(settled.unit.to_string(), "unit65535");
    let mismatch = settled.mismatch.unwrap();
    assert_eq!((mismatch.cpu.get(), mismatch.unit.get()), (3, 2));
}

#[test]
fn a_call_with_absurd_arguments_is_an_error_and_changes_nothing() {
    let proximity = proximity();
    add(&proximity, 1, unit(0, 1, None));
    online(&proximity, 0, place(0x0100_0000, 1, Some(3)));
    let before = settled(&proximity, 0);
    let serves = unit(0x0100_0000, 1, Some(3));
    let add = |index, unit| proximity.add(&PLATFORM, UnitIndex::new(index), unit);
    let remove = |index| proximity.remove(&PLATFORM, UnitIndex::new(index));
    let online = |cpu, place| proximity.online(&PLATFORM, CpuIndex::new(cpu), place);
    let offline = |cpu| proximity.offline(&PLATFORM, CpuIndex::new(cpu));
    let no_unit = |value| Error::Invalid {
        what: "unit",
        value,
    };
    let no_node = Error::Invalid {
        what: "node",
        value: 4,
    };
    let far = unit(0x0100_0000, 1, Some(4));
    let exists = Error::Exists { what: "the unit" };
    assert_eq!(add(4, serves), Err(no_unit(4)));
    assert_eq!(add(u32::MAX, serves), Err(no_unit(u64::from(u32::MAX))));
    assert_eq!(add(1, serves), Err(exists));
    assert_eq!(add(0, far), Err(no_node));
    assert_eq!(remove(0), Err(no_unit(0)));
    assert_eq!(remove(4), Err(no_unit(4)));
    for cpu in [8, u32::MAX] {
        let error = Error::NoSuchCpu {
            cpu: CpuIndex::new(cpu),
        };
        assert_eq!(online(cpu, place(0, 1, None)), Err(error));
        assert_eq!(offline(cpu), Err(error));
        assert_eq!(proximity.unit(CpuIndex::new(cpu)), Err(error));
        assert_eq!(proximity.settled(CpuIndex::new(cpu)), Err(error));
    }
    let cpu = CpuIndex::new(1);
    // With the unit's key: a CPU that counted would show.
    assert_eq!(online(1, place(0, 1, Some(4))), Err(no_node));
    assert_eq!(proximity.unit(cpu), Err(Error::CpuOffline { cpu }));
    assert_eq!(offline(1), Err(Error::CpuOffline { cpu }));
    let again = Error::CpuIsOnline {
        cpu: CpuIndex::new(0),
    };
    assert_eq!(online(0, place(0, 1, None)), Err(again));
    assert_eq!(settled(&proximity, 0), before);
    // The free index can still be used, and only once.
    assert_eq!(add(0, serves), Ok(()));
    assert_eq!(add(0, serves), Err(exists));
    assert_eq!(answer(&proximity, 0), (0, Rule::OwnKey));
    assert_eq!(remove(0), Ok(()));
    assert_eq!(remove(0), Err(no_unit(0)));
    assert_eq!(settled(&proximity, 0), before);
}
