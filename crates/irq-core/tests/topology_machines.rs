// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines as they are built: their levels, and what merges when threads go offline.
#![cfg(not(loom))]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId, Ranges};
use irq_core::topology::Level::{Group, L2, Node, Package, Thread};
use irq_core::topology::{Level, LevelSet, Place, Topology};

static PLATFORM: Cpu = Cpu::new(0);

/// All of a machine's CPUs online.
fn machine(cpus: u32, nodes: u32, place: fn(u32) -> Place) -> Topology {
    let topology = Topology::new(cpus, nodes).unwrap();
    for cpu in 0..cpus {
        topology
            .online(&PLATFORM, CpuIndex::new(cpu), place(cpu))
            .unwrap();
    }
    topology
}

/// Takes the CPUs offline that `stays` does not name, and the others online.
fn keep(topology: &Topology, stays: impl Fn(u32) -> bool) {
    for cpu in 0..topology.cpus() {
        let index = CpuIndex::new(cpu);
        match (topology.is_online(index), stays(cpu)) {
            (true, false) => topology.offline(index).unwrap(),
            (false, true) => {
                let place = topology.place(index).unwrap();
                topology.online(&PLATFORM, index, place).unwrap();
            }
            _ => {}
        }
    }
}

/// The machine's merged levels, which are each online CPU's too; and how many CPUs each of its
/// masks has.
fn assert_levels(topology: &Topology, expected: &[(&[Level], u32)]) {
    let sets = || expected.iter().map(|(levels, _)| LevelSet::of(levels));
    assert!(
        topology.merged_levels().eq(sets()),
        "{:?}",
        topology.merged_levels()
    );
    for cpu in topology.online_cpus().iter() {
        assert!(topology.levels(cpu).map(|level| level.levels).eq(sets()));
        for (level, (_, count)) in topology.levels(cpu).zip(expected) {
            assert_eq!(level.domain.count(), *count, "{cpu} {:?}", level.levels);
            assert!(level.domain.contains(cpu));
        }
    }
}

fn ranges(topology: &Topology, cpu: u32, level: Level) -> String {
    let domain = topology.domain(CpuIndex::new(cpu), level).unwrap();
    Ranges(&domain).to_string()
}

/// 16 nodes of 8 cores of 8 threads; a cache for each core, groups of two cores. Ids as firmware
/// gives them: the number of the first thread, chip ids with gaps.
fn of_1024(cpu: u32) -> Place {
    let node = cpu / 64;
    Place {
        core: cpu & !7,
        l2: 0x1000_0000 | cpu & !7,
        group: cpu / 16,
        package: node / 4 * 16 + node % 4,
        node: NodeId::new(node),
    }
}

#[test]
fn of_1024_cpus_with_8_threads_a_core_smt_off_leaves_one_cpu_a_core() {
    let topology = machine(1024, 16, of_1024);
    let large: &[_] = &[Package, Node];
    assert_levels(
        &topology,
        &[(&[Thread, L2], 8), (&[Group], 16), (large, 64)],
    );
    assert_eq!(ranges(&topology, 1023, Node), "960-1023");
    for threads in [4, 2, 1] {
        keep(&topology, |cpu| cpu % 8 < threads);
        let expected = [
            (&[Thread, L2][..], threads),
            (&[Group], 2 * threads),
            (large, 8 * threads),
        ];
        assert_levels(&topology, &expected);
    }
    assert_eq!(
        ranges(&topology, 960, Node),
        "960,968,976,984,992,1000,1008,1016"
    );
    assert_eq!(topology.online_cpus().count(), 128);
    let mut text = String::new();
    topology.snapshot(&mut text).unwrap();
    let lines: Vec<_> = text.lines().collect();
    // The machine, 16 nodes, 64 groups, and one line for all cores.
    assert_eq!(lines.len(), 1 + 16 + 64 + 1);
    assert_eq!(lines[2], "node 1, package 1: 64,72,80,88,96,104,112,120");
    assert_eq!(
        lines[5],
        "node 4, package 16: 256,264,272,280,288,296,304,312"
    );
    assert_eq!(lines[81], "thread+l2: one CPU each");
    keep(&topology, |_| true);
    assert_levels(
        &topology,
        &[(&[Thread, L2], 8), (&[Group], 16), (large, 64)],
    );
}

/// 2 nodes of 32 cores of 2 threads: the second threads are numbered behind all first ones. Four
/// cores share the next cache.
fn of_128(cpu: u32) -> Place {
    let core = cpu % 64;
    Place {
        core,
        l2: core,
        group: core / 4,
        package: core / 32,
        node: NodeId::new(core / 32),
    }
}

#[test]
fn of_128_cpus_in_two_nodes_smt_off_leaves_the_lower_half() {
    let topology = machine(128, 2, of_128);
    let large: &[_] = &[Package, Node];
    assert_levels(&topology, &[(&[Thread, L2], 2), (&[Group], 8), (large, 64)]);
    assert_eq!(ranges(&topology, 70, Thread), "6,70");
    assert_eq!(ranges(&topology, 0, Group), "0-3,64-67");
    assert_eq!(ranges(&topology, 0, Node), "0-31,64-95");
    let mut cores = CpuMask::try_new(128).unwrap();
    topology.core_mask(CpuIndex::new(127), &mut cores).unwrap();
    assert_eq!(Ranges(&cores).to_string(), "32-63,96-127");

    keep(&topology, |cpu| cpu < 64);
    assert_levels(&topology, &[(&[Thread, L2], 1), (&[Group], 4), (large, 32)]);
    assert_eq!(ranges(&topology, 0, Node), "0-31");
    let mut text = String::new();
    topology.snapshot(&mut text).unwrap();
    assert!(text.starts_with(
        "64 of 128 online: 0-63\n\
         node 0, package 0: 0-31\n\
         node 1, package 1: 32-63\n\
         group 0: 0-3\n"
    ));
    assert!(text.ends_with("group 15: 60-63\nthread+l2: one CPU each\n"));
    // All of them again; then the upper half alone.
    keep(&topology, |_| true);
    assert_levels(&topology, &[(&[Thread, L2], 2), (&[Group], 8), (large, 64)]);
    keep(&topology, |cpu| cpu >= 64);
    assert_levels(&topology, &[(&[Thread, L2], 1), (&[Group], 4), (large, 32)]);
    assert_eq!(ranges(&topology, 0, Node), "64-95");
}

#[test]
fn levels_that_become_equal_merge_and_part_again() {
    // A core of 8 threads in two halves, each with its own first-level caches.
    let topology = machine(32, 1, |cpu| Place {
        core: cpu / 4,
        l2: cpu / 8,
        ..Place::flat(CpuIndex::new(cpu))
    });
    let large: &[_] = &[Group, Package, Node];
    assert_levels(&topology, &[(&[Thread], 4), (&[L2], 8), (large, 32)]);
    keep(&topology, |cpu| cpu % 8 == 0);
    assert_levels(&topology, &[(&[Thread, L2], 1), (large, 4)]);
    // One core has both halves again: that is so for its CPUs alone.
    keep(&topology, |cpu| cpu % 8 == 0 || cpu == 4);
    let halves = [&[Thread][..], &[L2], large].map(LevelSet::of);
    assert!(topology.merged_levels().eq(halves));
    let levels = |cpu| {
        topology
            .levels(CpuIndex::new(cpu))
            .map(|level| level.levels)
    };
    assert!(levels(4).eq(halves));
    assert!(levels(8).eq([&[Thread, L2][..], large].map(LevelSet::of)));
    keep(&topology, |cpu| cpu == 20);
    assert_levels(&topology, &[(&Level::ALL, 1)]);
    keep(&topology, |_| true);
    assert_levels(&topology, &[(&[Thread], 4), (&[L2], 8), (large, 32)]);
}

#[test]
fn a_node_smaller_than_a_package_merges_with_the_group_that_it_equals() {
    // Two packages, each cut into two nodes.
    let topology = machine(32, 4, |cpu| Place {
        core: cpu / 2,
        l2: cpu / 2,
        group: cpu / 8,
        package: cpu / 16,
        node: NodeId::new(cpu / 8),
    });
    let expected: [(&[_], _); 3] = [(&[Thread, L2], 2), (&[Group, Node], 8), (&[Package], 16)];
    assert_levels(&topology, &expected);
    let mut text = String::new();
    topology.snapshot(&mut text).unwrap();
    assert!(text.starts_with(
        "32 of 32 online: 0-31\n\
         package 0: 0-15\n\
         package 1: 16-31\n\
         node 0, group 0: 0-7\n"
    ));
}

#[test]
fn a_kernel_that_knows_nothing_has_cores_and_one_domain_of_all() {
    let topology = machine(130, 1, |cpu| Place::flat(CpuIndex::new(cpu)));
    let all: &[_] = &[L2, Group, Package, Node];
    assert_levels(&topology, &[(&[Thread], 1), (all, 130)]);
    let mut text = String::new();
    topology.snapshot(&mut text).unwrap();
    assert_eq!(
        text,
        "130 of 130 online: 0-129\n\
         node 0, package 0, group 0, l2 0: 0-129\n\
         thread: one CPU each\n"
    );
}

#[test]
fn a_node_that_appears_late_takes_nothing_from_the_others() {
    let topology = Topology::new(128, 16).unwrap();
    let online = |cpu: u32, node: u32| {
        let place = Place {
            node: NodeId::new(node),
            package: node,
            ..Place::flat(CpuIndex::new(cpu))
        };
        topology.online(&PLATFORM, CpuIndex::new(cpu), place)
    };
    (0..64).for_each(|cpu| online(cpu, 0).unwrap());
    online(70, 15).unwrap();
    online(69, 15).unwrap();
    assert_eq!(ranges(&topology, 69, Node), "69-70");
    assert_eq!(ranges(&topology, 69, Package), "69-70");
    assert_eq!(ranges(&topology, 0, Node), "0-63");
    assert!(topology.node(NodeId::new(14)).is_none());
    assert_eq!(topology.node_of(CpuIndex::new(70)), Some(NodeId::new(15)));
}
