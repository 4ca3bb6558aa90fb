// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue affinity on machines small enough to see the answer.
#![cfg(not(loom))]

mod common;
mod spread_common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::spread::{Flat, Machine, Queue, Request, Shared, Sharing, Spread};
use irq_core::topology::{Place, Topology};
use spread_common::{Table, lists, mask, members, shared, spread};

static PLATFORM: Cpu = Cpu::new(0);

/// All CPUs of a table present, `groups` vectors, all of them spread.
fn groups(table: Vec<Shared>, groups: u32) -> Vec<Vec<u32>> {
    let all = mask(0..table.len() as u32);
    lists(&spread(&Request::new(groups), &all, &all, &Table(table)).unwrap())
}

/// One node, one CPU for each core number.
fn cores(numbers: impl Iterator<Item = u32>) -> Vec<Shared> {
    numbers.map(|core| shared(0, None, Some(core))).collect()
}

/// So many CPUs of each node, in rising order.
fn nodes(sizes: &[usize]) -> Vec<Shared> {
    let nodes = (0..).zip(sizes);
    let cpus = |(node, size): (u32, &usize)| vec![shared(node, None, None); *size];
    nodes.flat_map(cpus).collect()
}

#[test]
fn a_core_is_split_only_where_a_group_is_full() {
    assert_eq!(
        groups(cores((0..12).map(|cpu| cpu / 2)), 4),
        [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    );
    // With siblings far apart, each group begins with the lowest CPU that is left.
    assert_eq!(
        groups(cores((0..12).map(|cpu| cpu % 6)), 4),
        [[0, 1, 6], [2, 3, 8], [4, 5, 10], [7, 9, 11]]
    );
}

#[test]
fn no_core_is_split_if_all_groups_are_whole_cores() {
    assert_eq!(
        groups(cores((0..12).map(|cpu| cpu % 6)), 3),
        [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]
    );
    assert_eq!(
        groups(cores((0..16).map(|cpu| cpu % 4)), 4),
        [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]
    );
}

#[test]
fn a_cpu_without_a_core_has_no_siblings() {
    assert_eq!(
        groups(vec![Shared::FLAT; 5], 2),
        [vec![0, 1, 2], vec![3, 4]]
    );
    let mut table = vec![Shared::FLAT; 6];
    table[0].core = Some(7);
    table[5].core = Some(7);
    assert_eq!(groups(table, 3), [[0, 5], [1, 2], [3, 4]]);
    let table = [None, Some(1), None, Some(1)].map(|core| shared(0, None, core));
    assert_eq!(groups(table.into(), 2), [[0, 1], [2, 3]]);
}

#[test]
fn the_first_groups_are_the_larger_ones() {
    assert_eq!(
        groups(nodes(&[11]), 4),
        [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8], vec![9, 10]]
    );
}

#[test]
fn clusters_of_one_and_five_cpus_get_one_and_two_of_three_groups() {
    // The larger cluster has the lower CPUs and the lower id: small ones come first all the same.
    let of_cpu = |cpu: u32| shared(0, Some(if cpu < 5 { 10 } else { 90 }), None);
    assert_eq!(
        groups((0..6).map(of_cpu).collect(), 3),
        [vec![5], vec![0, 1, 2], vec![3, 4]]
    );
}

#[test]
fn equal_clusters_come_in_the_order_of_their_lowest_cpus() {
    let of_cpu = |cpu: u32| shared(0, Some(40 - cpu % 3), None);
    assert_eq!(
        groups((0..6).map(of_cpu).collect(), 3),
        [[0, 3], [1, 4], [2, 5]]
    );
}

#[test]
fn clusters_are_left_out_of_account_if_one_would_go_without_a_group() {
    let of_cpu = |cpu: u32| shared(0, Some(cpu % 3), Some(cpu / 2));
    assert_eq!(
        groups((0..6).map(of_cpu).collect(), 2),
        [[0, 1, 2], [3, 4, 5]]
    );
}

#[test]
fn a_core_counts_within_its_cluster_if_clusters_matter() {
    // Cores 0 and 1 have a thread in each cluster.
    let of_cpu = |cpu: u32| shared(0, Some(cpu / 4), Some(cpu % 2));
    assert_eq!(
        groups((0..8).map(of_cpu).collect(), 4),
        [[0, 2], [1, 3], [4, 6], [5, 7]]
    );
}

#[test]
fn the_cpus_of_a_node_without_cluster_are_one_cluster() {
    let clusters = [None, Some(0), None, Some(0), None, Some(0)];
    let table = clusters.map(|cluster| shared(0, cluster, None));
    assert_eq!(groups(table.into(), 2), [[0, 2, 4], [1, 3, 5]]);
}

#[test]
fn a_cluster_that_spans_nodes_is_one_in_each() {
    let of_cpu = |cpu: u32| shared(cpu / 4, Some(cpu % 2), None);
    assert_eq!(
        groups((0..8).map(of_cpu).collect(), 4),
        [[0, 2], [1, 3], [4, 6], [5, 7]]
    );
}

#[test]
fn equal_nodes_come_in_the_order_of_their_ids() {
    for count in 1..40 {
        // Two CPUs of each, and the higher CPUs have the lower nodes.
        let of_cpu = |cpu: u32| shared(count - 1 - cpu / 2, None, None);
        let table: Vec<_> = (0..2 * count).map(of_cpu).collect();
        let pairs = (0..count).rev().map(|pair| vec![2 * pair, 2 * pair + 1]);
        // With as many groups as nodes, and one more, that the last node gets.
        assert!(groups(table.clone(), count).into_iter().eq(pairs.clone()));
        let mut more: Vec<_> = pairs.take(count as usize - 1).collect();
        more.extend([vec![0], vec![1]]);
        assert_eq!(groups(table, count + 1), more);
    }
}

#[test]
fn nodes_share_the_groups_by_their_cpus_and_small_ones_come_first() {
    let sizes = |sizes: &[usize], count| -> Vec<_> {
        groups(nodes(sizes), count)
            .iter()
            .map(|cpus| (cpus[0], cpus.len()))
            .collect()
    };
    // Six eighths of four groups are three.
    assert_eq!(sizes(&[6, 2], 4), [(6, 2), (0, 2), (2, 2), (4, 2)]);
    // A node with too few CPUs for a share has one group; the largest gets what is left.
    assert_eq!(
        sizes(&[10, 1, 1, 1], 5),
        [(10, 1), (11, 1), (12, 1), (0, 5), (5, 5)]
    );
    // 5 * 3 / 10 = 1 for the smaller one, 4 for the other.
    assert_eq!(sizes(&[3, 7], 5), [(0, 3), (3, 2), (5, 2), (7, 2), (9, 1)]);
}

#[test]
fn nodes_join_the_groups_in_turn_if_there_are_fewer_groups() {
    assert_eq!(
        groups(nodes(&[3, 1, 1, 2, 1]), 2),
        [vec![0, 1, 2, 4, 7], vec![3, 5, 6]]
    );
    assert_eq!(groups(nodes(&[2, 1, 1]), 3), [vec![0, 1], vec![2], vec![3]]);
}

#[test]
fn absent_cpus_go_on_at_the_group_behind_the_present_ones() {
    let (possible, present) = (mask(0..8), mask(0..4));
    let spread = |count| {
        let request = Request::new(count);
        lists(&spread(&request, &possible, &present, &Flat).unwrap())
    };
    // Groups 4 and 5 are of absent CPUs only.
    assert_eq!(
        spread(6),
        [vec![0, 6], vec![1, 7], vec![2], vec![3], vec![4], vec![5]]
    );
    // All groups have a present CPU: the absent ones begin at group 0 again.
    assert_eq!(spread(4), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(spread(3), [vec![0, 1, 4, 5], vec![2, 6], vec![3, 7]]);
}

#[test]
fn absent_nodes_join_from_the_group_behind_the_present_cpus() {
    let table = Table((0..5).map(|cpu: u32| shared(cpu, None, None)).collect());
    let (possible, present) = (mask(0..5), mask([4]));
    let spread = spread(&Request::new(3), &possible, &present, &table).unwrap();
    assert_eq!(lists(&spread), [vec![2, 4], vec![0, 3], vec![1]]);
}

#[test]
fn absent_cpus_begin_at_group_0_if_present_nodes_joined_all_groups() {
    let table = Table((0..5).map(|cpu: u32| shared(cpu, None, None)).collect());
    let (possible, present) = (mask(0..5), mask([2, 3, 4]));
    let spread = spread(&Request::new(2), &possible, &present, &table).unwrap();
    assert_eq!(lists(&spread), [vec![0, 2, 4], vec![1, 3]]);
}

#[test]
fn groups_of_absent_cpus_alone_are_managed_too() {
    let (possible, present) = (mask(0..4), mask([1]));
    let spread = spread(&Request::new(4), &possible, &present, &Flat).unwrap();
    assert_eq!(lists(&spread), [[1], [0], [2], [3]]);
    assert!(spread.iter().all(|affinity| affinity.managed));
}

#[test]
fn vectors_before_and_behind_the_sets_have_the_default_affinity() {
    let request = Request {
        before: 1,
        after: 2,
        sets: &[2, 0, 3],
        ..Request::new(8)
    };
    let all = mask(0..6);
    let machine = Machine {
        cpus: 6,
        possible: &all,
        present: &all,
        default: &mask([2, 5]),
        sharing: &Flat,
    };
    let spread = Spread::new(&request, &machine).unwrap();
    assert_eq!(spread.vectors(), 8);
    let queue = |set, group| Some(Queue { set, group });
    let expected = [
        (None, vec![2, 5]),
        (queue(0, 0), vec![0, 1, 2]),
        (queue(0, 1), vec![3, 4, 5]),
        (queue(2, 0), vec![0, 1]),
        (queue(2, 1), vec![2, 3]),
        (queue(2, 2), vec![4, 5]),
        (None, vec![2, 5]),
        (None, vec![2, 5]),
    ];
    assert_eq!(spread.iter().len(), 8);
    for (vector, (queue, cpus)) in (0..).zip(expected) {
        let affinity = spread.get(vector).unwrap();
        assert_eq!(spread.iter().nth(vector as usize), Some(affinity));
        assert_eq!(affinity.queue, queue, "{vector}");
        assert_eq!(affinity.managed, queue.is_some(), "{vector}");
        assert_eq!(members(affinity.mask), cpus, "{vector}");
    }
    assert_eq!(spread.get(8), None);
    assert_eq!(spread.get(u32::MAX), None);
}

#[test]
fn a_device_may_have_no_vector_to_spread() {
    let all = mask(0..6);
    for sets in [&[][..], &[0], &[0, 0]] {
        let request = Request {
            before: 2,
            after: 1,
            sets,
            ..Request::new(3)
        };
        let spread = spread(&request, &all, &all, &Flat).unwrap();
        assert_eq!(lists(&spread), [[0], [0], [0]]);
        assert!(spread.iter().all(|affinity| !affinity.managed));
        assert!(spread.iter().all(|affinity| affinity.queue.is_none()));
        assert_eq!(request.useful(&all), Ok(3));
    }
}

#[test]
fn what_a_set_has_beyond_its_cpus_has_the_default_affinity() {
    let request = Request {
        before: 1,
        sets: &[5, 2],
        ..Request::new(8)
    };
    let (possible, present) = (mask([1, 2, 3]), mask([2]));
    let spread = spread(&request, &possible, &present, &Flat).unwrap();
    let managed: Vec<_> = spread.iter().map(|affinity| affinity.managed).collect();
    assert_eq!(managed, [false, true, true, true, false, false, true, true]);
    assert_eq!(
        lists(&spread),
        [
            vec![0],
            vec![2],
            vec![1],
            vec![3],
            vec![0],
            vec![0],
            vec![2, 3],
            vec![1],
        ]
    );
    let queues = spread.iter().filter_map(|affinity| affinity.queue);
    let groups: Vec<_> = queues.map(|queue| (queue.set, queue.group)).collect();
    assert_eq!(
        groups,
        [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]
    );
}

#[test]
fn vectors_are_of_use_up_to_one_for_each_cpu_of_a_set() {
    let cpus = mask([3, 64, 100, 200]);
    let useful = |request: Request<'_>| request.useful(&cpus).unwrap();
    assert_eq!(useful(Request::new(3)), 3);
    assert_eq!(useful(Request::new(4)), 4);
    assert_eq!(useful(Request::new(64)), 4);
    let request = Request {
        before: 1,
        after: 2,
        ..Request::new(64)
    };
    assert_eq!(useful(request), 7);
    let sets = &[32, 2, 0, 27];
    assert_eq!(useful(Request { sets, ..request }), 1 + 4 + 2 + 4 + 2);
}

#[test]
fn only_possible_cpus_are_used_as_with_housekeeping_cpus_alone() {
    let (housekeeping, present) = (mask([1, 3, 5, 7]), mask([0, 1, 2, 3, 4]));
    let spread = spread(&Request::new(3), &housekeeping, &present, &Flat).unwrap();
    assert_eq!(lists(&spread), [vec![1, 7], vec![3], vec![5]]);
    // Even if none of them is there.
    let present = mask([0, 2]);
    let spread = spread_common::spread(&Request::new(2), &housekeeping, &present, &Flat).unwrap();
    assert_eq!(lists(&spread), [[1, 3], [5, 7]]);
}

#[test]
fn a_topology_says_node_cluster_and_core_of_each_cpu_that_was_online() {
    let topology = Topology::new(12, 3).unwrap();
    for cpu in (0..8).map(CpuIndex::new) {
        let place = Place {
            core: 100 + cpu.get() / 2,
            l2: 200 + cpu.get() / 4,
            group: 300,
            package: 400,
            node: NodeId::new(2 - cpu.get() / 4),
        };
        topology.online(&PLATFORM, cpu, place).unwrap();
    }
    topology.offline(CpuIndex::new(5)).unwrap();
    assert_eq!(
        topology.shared(CpuIndex::new(5)),
        shared(1, Some(201), Some(102))
    );
    for unknown in [8, 11, 12, u32::MAX] {
        assert_eq!(topology.shared(CpuIndex::new(unknown)), Shared::FLAT);
    }
    let all = mask(0..12);
    let request = Request::new(3);
    // Node 0 has the CPUs that were never online, node 1 the CPUs 4 to 7, node 2 0 to 3.
    let spread = |present| lists(&spread(&request, &all, present, &topology).unwrap());
    assert_eq!(spread(&all), [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]);
}

#[test]
fn nothing_need_be_known_of_the_cpus() {
    let all = mask([0, 2, 70, 71, 300]);
    let spread = spread(&Request::new(2), &all, &all, &Flat).unwrap();
    assert_eq!(lists(&spread), [vec![0, 2, 70], vec![71, 300]]);
}
