// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology: what each call says and does.
#![cfg(not(loom))]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, MAX_CPUS, NodeId};
use irq_core::topology::{Level, LevelSet, Place, Topology};
use irq_hal::{Error, ErrorKind};

static PLATFORM: Cpu = Cpu::new(0);

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn place(ids: [u32; 5]) -> Place {
    let [core, l2, group, package, node] = ids;
    Place {
        core,
        l2,
        group,
        package,
        node: NodeId::new(node),
    }
}

fn members(set: &dyn CpuSet) -> Vec<u32> {
    let mut members = Vec::new();
    set.each(&mut |cpu| members.push(cpu.get()));
    members
}

fn snapshot(topology: &Topology) -> String {
    let mut text = String::new();
    topology.snapshot(&mut text).unwrap();
    text
}

#[test]
fn a_machine_without_cpus_or_nodes_or_with_absurdly_many_is_an_error() {
    for absurd in [0, MAX_CPUS + 1, u32::MAX] {
        for (cpus, nodes) in [(absurd, 1), (1, absurd), (absurd, absurd)] {
            let error = Topology::new(cpus, nodes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{cpus} {nodes}");
        }
    }
    let topology = Topology::new(3, 70_000).unwrap();
    assert_eq!((topology.cpus(), topology.nodes()), (3, 70_000));
}

#[test]
fn one_cpu_is_a_machine() {
    let topology = Topology::new(1, 1).unwrap();
    let only = cpu(0);
    topology.online(&PLATFORM, only, Place::flat(only)).unwrap();
    assert_eq!(members(topology.online_cpus()), [0]);
    let all = LevelSet::of(&Level::ALL);
    assert!(topology.levels(only).map(|level| level.levels).eq([all]));
    assert!(topology.merged_levels().eq([all]));
    topology.offline(only).unwrap();
    assert!(topology.online_cpus().is_empty());
    assert_eq!(topology.levels(only).count(), 0);
    assert_eq!(topology.merged_levels().count(), 0);
}

#[test]
fn an_unknown_cpu_has_no_place_no_domains_and_no_levels() {
    let topology = Topology::new(2, 1).unwrap();
    topology
        .online(&PLATFORM, cpu(0), Place::flat(cpu(0)))
        .unwrap();
    for unknown in [1, 2, u32::MAX].map(cpu) {
        assert_eq!(topology.place(unknown), None);
        assert_eq!(topology.node_of(unknown), None);
        assert!(!topology.is_online(unknown));
        assert!(topology.domain(unknown, Level::Node).is_none());
        assert_eq!(topology.levels(unknown).count(), 0);
        let package = topology.domain(cpu(0), Level::Package).unwrap();
        assert!(!package.contains(unknown));
    }
}

#[test]
fn a_cpu_beyond_the_possible_ones_is_refused() {
    let topology = Topology::new(65, 1).unwrap();
    let mut mask = CpuMask::try_new(65).unwrap();
    for beyond in [65, 127, 128, u32::MAX].map(cpu) {
        let refused = Err(Error::NoSuchCpu { cpu: beyond });
        let online = topology.online(&PLATFORM, beyond, Place::flat(beyond));
        assert_eq!(online, refused);
        assert_eq!(topology.offline(beyond), refused);
        assert_eq!(topology.core_mask(beyond, &mut mask), refused);
    }
    assert_eq!(snapshot(&topology), "0 of 65 online: \n");
}

#[test]
fn a_node_beyond_the_possible_ones_is_refused_and_binds_nothing() {
    let topology = Topology::new(4, 2).unwrap();
    for node in [2, u32::MAX] {
        let beyond = topology.online(&PLATFORM, cpu(1), place([7, 7, 7, 7, node]));
        let value = u64::from(node);
        assert_eq!(
            beyond,
            Err(Error::Invalid {
                what: "node",
                value
            })
        );
        assert_eq!(topology.place(cpu(1)), None);
        assert!(topology.node(NodeId::new(node)).is_none());
    }
    // It is free to be bound to where it is.
    let right = place([7, 7, 7, 7, 1]);
    topology.online(&PLATFORM, cpu(1), right).unwrap();
    assert_eq!(topology.place(cpu(1)), Some(right));
}

#[test]
fn a_node_without_cpus_has_no_domain_until_one_comes_and_an_empty_one_when_all_went() {
    let topology = Topology::new(2, 3).unwrap();
    let (first, late) = (NodeId::new(0), NodeId::new(2));
    topology
        .online(&PLATFORM, cpu(0), Place::flat(cpu(0)))
        .unwrap();
    assert!(topology.node(late).is_none());
    topology
        .online(&PLATFORM, cpu(1), place([1, 1, 0, 0, 2]))
        .unwrap();
    assert_eq!(members(&topology.node(late).unwrap()), [1]);
    assert!(topology.node(NodeId::new(1)).is_none());
    topology.offline(cpu(0)).unwrap();
    assert!(topology.node(first).unwrap().is_empty());
    assert_eq!(topology.node(first).unwrap().count(), 0);
}

#[test]
fn an_online_cpu_cannot_come_online_nor_an_offline_one_go() {
    let topology = Topology::new(4, 1).unwrap();
    let offline = Err(Error::CpuOffline { cpu: cpu(2) });
    assert_eq!(topology.offline(cpu(2)), offline);
    let here = Place::flat(cpu(2));
    topology.online(&PLATFORM, cpu(2), here).unwrap();
    let twice = topology.online(&PLATFORM, cpu(2), here).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Exists);
    assert_eq!(topology.node(NodeId::FLAT).unwrap().count(), 1);
    topology.offline(cpu(2)).unwrap();
    assert_eq!(topology.offline(cpu(2)), offline);
    assert_eq!(topology.node(NodeId::FLAT).unwrap().count(), 0);
    assert_eq!(topology.place(cpu(2)), Some(here));
    topology.online(&PLATFORM, cpu(2), here).unwrap();
}

#[test]
fn a_second_place_is_refused_whichever_id_differs() {
    let topology = Topology::new(4, 2).unwrap();
    let here = [5, 6, 7, 8, 0];
    topology.online(&PLATFORM, cpu(3), place(here)).unwrap();
    for online in [true, false] {
        let before = snapshot(&topology);
        for level in 0..5 {
            let mut there = here;
            there[level] += 1;
            let error = topology
                .online(&PLATFORM, cpu(3), place(there))
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exists, "{level}");
            assert_eq!(topology.place(cpu(3)), Some(place(here)));
            assert_eq!(snapshot(&topology), before);
        }
        assert_eq!(topology.offline(cpu(3)).is_ok(), online);
    }
}

#[test]
fn any_id_names_a_domain_the_largest_and_equal_ones_of_other_levels_too() {
    let topology = Topology::new(3, 1).unwrap();
    for (index, id) in [0, u32::MAX, u32::MAX - 1].into_iter().enumerate() {
        let index = cpu(index as u32);
        topology
            .online(&PLATFORM, index, place([id, id, id, id, 0]))
            .unwrap();
        for level in [Level::Thread, Level::L2, Level::Group, Level::Package] {
            let domain = topology.domain(index, level).unwrap();
            assert_eq!((domain.id(), domain.level()), (id, level));
            assert_eq!(members(&domain), [index.get()]);
        }
    }
}

#[test]
fn cpus_that_come_in_falling_order_are_told_in_rising_order() {
    let topology = Topology::new(400, 1).unwrap();
    for index in [399, 130, 200, 0, 64, 399 - 64, 131, 1] {
        topology
            .online(&PLATFORM, cpu(index), Place::flat(cpu(index)))
            .unwrap();
    }
    let node = topology.node(NodeId::FLAT).unwrap();
    assert_eq!(members(&node), [0, 1, 64, 130, 131, 200, 335, 399]);
    let cores = topology.domains(Level::Thread).map(|core| core.id());
    assert!(cores.eq([0, 1, 64, 130, 131, 200, 335, 399]));
    assert_eq!(node.first(), Some(cpu(0)));
}

#[test]
fn domains_are_told_in_the_order_of_their_lowest_cpus_whichever_came_first() {
    let topology = Topology::new(6, 1).unwrap();
    for (index, package) in [(5, 9), (4, 7), (1, 7), (0, 9)] {
        topology
            .online(&PLATFORM, cpu(index), place([index, index, 0, package, 0]))
            .unwrap();
    }
    let packages = || topology.domains(Level::Package).map(|package| package.id());
    assert!(packages().eq([9, 7]));
    // Also when that CPU is offline.
    topology.offline(cpu(0)).unwrap();
    assert!(packages().eq([9, 7]));
    topology.offline(cpu(5)).unwrap();
    assert!(packages().eq([7]));
}

#[test]
fn a_domain_whose_first_cpu_goes_while_domains_are_told_is_told_once() {
    let topology = Topology::new(8, 1).unwrap();
    for index in 0..8 {
        topology
            .online(
                &PLATFORM,
                cpu(index),
                place([index, index, 0, index / 4, 0]),
            )
            .unwrap();
    }
    let mut packages = topology.domains(Level::Package).map(|package| package.id());
    assert_eq!(packages.next(), Some(0));
    topology.offline(cpu(0)).unwrap();
    topology.offline(cpu(4)).unwrap();
    assert_eq!(packages.next(), Some(1));
    topology.offline(cpu(5)).unwrap();
    assert_eq!(packages.next(), None);
}

#[test]
fn two_sockets_in_one_node_stay_two_packages() {
    // 8 CPUs, 2 threads a core, 2 cores a socket, 2 sockets, one node.
    let topology = Topology::new(8, 1).unwrap();
    for index in 0..8 {
        let core = index / 2;
        topology
            .online(&PLATFORM, cpu(index), place([core, core, 0, index / 4, 0]))
            .unwrap();
    }
    let packages: Vec<_> = topology.domains(Level::Package).collect();
    assert_eq!(packages.len(), 2);
    let mut cores = CpuMask::try_new(8).unwrap();
    topology.core_mask(cpu(6), &mut cores).unwrap();
    assert_eq!(members(&cores), [4, 5, 6, 7]);
    // A snapshot: it does not follow.
    topology.offline(cpu(4)).unwrap();
    assert_eq!(members(&cores), [4, 5, 6, 7]);
    assert_eq!(members(&packages[1]), [5, 6, 7]);
    assert_eq!(
        snapshot(&topology),
        "7 of 8 online: 0-3,5-7\n\
         package 0: 0-3\n\
         package 1: 5-7\n\
         node 0, group 0: 0-3,5-7\n\
         l2 0, thread 0: 0-1\n\
         l2 1, thread 1: 2-3\n\
         l2 2, thread 2: 5\n\
         l2 3, thread 3: 6-7\n"
    );
}

#[test]
fn a_core_mask_is_refused_for_a_cpu_that_was_never_online_and_where_there_is_no_room() {
    let topology = Topology::new(8, 1).unwrap();
    let mut mask = CpuMask::try_new(4).unwrap();
    mask.insert(cpu(3)).unwrap();
    let unknown = Err(Error::CpuOffline { cpu: cpu(1) });
    assert_eq!(topology.core_mask(cpu(1), &mut mask), unknown);
    for index in [1, 6].map(cpu) {
        topology
            .online(&PLATFORM, index, Place::flat(index))
            .unwrap();
    }
    let room = Err(Error::NoSuchCpu { cpu: cpu(6) });
    assert_eq!(topology.core_mask(cpu(1), &mut mask), room);
    assert_eq!(members(&mask), [3]);
}
