// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spreading over random machines: against a naive model, and what must hold of any answer.
#![cfg(not(loom))]

#[path = "spread_common/model.rs"]
mod model;
mod spread_common;

use std::collections::BTreeSet;

use irq_core::spread::{Request, Shared};
use model::{Cpus, by};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;
use spread_common::{Table, lists, mask, shared, spread};

#[derive(Clone, Debug)]
struct Case {
    table: Vec<Shared>,
    possible: Cpus,
    present: Cpus,
    before: u32,
    after: u32,
    sets: Vec<u32>,
}

/// Levels that nest and count up, as on most machines, with siblings near or far.
fn nested(cpus: u32) -> impl Strategy<Value = Vec<Shared>> {
    let shape = (1..9_u32, 1..9_u32, 1..5_u32, any::<bool>());
    shape.prop_map(move |(threads, cores, clusters, far)| {
        let all = cpus.div_ceil(threads);
        let of_cpu = |cpu| {
            let core = if far { cpu % all } else { cpu / threads };
            let cluster = core / cores;
            shared(cluster / clusters, Some(cluster), Some(core))
        };
        (0..cpus).map(of_cpu).collect()
    })
}

/// Any ids, few enough that CPUs share; levels that need not nest.
fn wild(cpus: u32) -> impl Strategy<Value = Vec<Shared>> {
    let pool = vec(any::<u32>(), 1..12);
    pool.prop_flat_map(move |pool| {
        let id = select(pool);
        let some = proptest::option::weighted(0.8, id.clone());
        let of_cpu = (id, some.clone(), some);
        let of_cpu = of_cpu.prop_map(|(node, cluster, core)| shared(node, cluster, core));
        vec(of_cpu, cpus as usize)
    })
}

/// Some of the CPUs: all, as often as not.
fn some(cpus: u32) -> impl Strategy<Value = Cpus> {
    prop_oneof![
        Just((0..cpus).collect()),
        (1..=cpus).prop_map(|count| (0..count).collect()),
        btree_set(0..cpus, 1..=cpus as usize),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    (1..160_u32).prop_flat_map(|cpus| {
        let table = prop_oneof![nested(cpus), wild(cpus)];
        let size = prop_oneof![4 => 0..cpus + 1, 2 => 0..9_u32, 1 => 0..2 * cpus + 1];
        let unspread = (0..3_u32, 0..3_u32);
        (table, some(cpus), some(cpus), unspread, vec(size, 1..4)).prop_map(
            |(table, possible, present, (before, after), sets)| Case {
                table,
                possible,
                present,
                // A vector there must be.
                before: before.max(u32::from(sets.iter().all(|size| *size == 0))),
                after,
                sets,
            },
        )
    })
}

/// The managed masks of each set, after a look at all that is not managed.
fn answer(case: &Case) -> Vec<Vec<Cpus>> {
    let request = Request {
        vectors: case.before + case.after + case.sets.iter().sum::<u32>(),
        before: case.before,
        after: case.after,
        sets: &case.sets,
    };
    let (possible, present) = (
        mask(case.possible.iter().copied()),
        mask(case.present.iter().copied()),
    );
    let spread = spread(&request, &possible, &present, &Table(case.table.clone())).unwrap();
    assert_eq!(spread.vectors(), request.vectors);

    let mut queues = Vec::new();
    queues.extend((0..case.before).map(|_| None));
    for (set, size) in (0..).zip(&case.sets) {
        queues.extend((0..*size).map(|group| Some((set, group))));
    }
    queues.extend((0..case.after).map(|_| None));
    let mut sets = vec![Vec::new(); case.sets.len()];
    for ((affinity, queue), cpus) in spread.iter().zip(queues).zip(lists(&spread)) {
        let own = affinity.queue.map(|queue| (queue.set, queue.group));
        assert_eq!(own, queue);
        match queue {
            Some((set, group)) if group < case.possible.len() as u32 => {
                assert!(affinity.managed);
                sets[set as usize].push(Cpus::from_iter(cpus));
            }
            _ => assert_eq!((affinity.managed, cpus), (false, vec![0])),
        }
    }
    let managed = spread.iter().filter(|affinity| affinity.managed).count();
    assert_eq!(
        request.useful(&possible),
        Ok(case.before + case.after + managed as u32)
    );
    sets
}

/// Whether the sizes differ by one at most.
fn even(sizes: impl Iterator<Item = usize> + Clone) -> bool {
    sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1
}

/// Of CPUs that were divided directly: even groups, and no core is split but where one is full.
fn check_block(groups: &[Cpus], block: &Cpus, table: &[Shared]) {
    let parts = groups.iter().map(|group| group & block);
    let parts: Vec<Cpus> = parts.filter(|part| !part.is_empty()).collect();
    assert!(even(parts.iter().map(Cpus::len)), "{parts:?}");
    let cores = by(block, |cpu| match table[cpu as usize].core {
        Some(core) => (Some(core), 0),
        None => (None, cpu),
    });
    // Threads are taken from the lowest on: of one core at most are some left for later.
    for part in &parts {
        let left = |core: &&Cpus| !core.is_disjoint(part) && core.last() != (*core & part).last();
        assert!(cores.values().filter(left).count() <= 1, "{part:?}");
    }
    let threads = cores.values().next().unwrap().len();
    let fits = |cpus: &Cpus| cpus.len().is_multiple_of(threads);
    if cores.values().all(|core| core.len() == threads) && parts.iter().all(fits) {
        let whole = |core: &Cpus| parts.iter().any(|part| core.is_subset(part));
        assert!(cores.values().all(whole), "{parts:?}");
    }
}

/// What holds of one pass.
fn check_pass(groups: &[Cpus], pass: &Cpus, table: &[Shared]) {
    let groups: Vec<Cpus> = groups.iter().map(|group| group & pass).collect();
    let nodes = by(pass, |cpu| table[cpu as usize].node);
    if groups.len() <= nodes.len() {
        // Every group has a node, no node is split, and the groups have them in turn.
        let count = |group: &Cpus| by(group, |cpu| table[cpu as usize].node).len();
        assert!(even(groups.iter().map(count)));
        for node in nodes.values() {
            assert!(groups.iter().any(|group| node.is_subset(group)));
        }
        return;
    }
    for node in nodes.values() {
        let mut of_node = groups.iter().filter(|group| !group.is_disjoint(node));
        assert!(of_node.clone().all(|group| group.is_subset(node)));
        let clusters = by(node, |cpu| table[cpu as usize].cluster);
        if clusters.len() > of_node.clone().count() {
            check_block(&groups, node, table);
            continue;
        }
        let one = |group: &Cpus| clusters.values().any(|cluster| group.is_subset(cluster));
        assert!(of_node.all(one), "a group crosses clusters");
        for cluster in clusters.values() {
            check_block(&groups, cluster, table);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_answer_agrees_with_a_naive_model(case in case()) {
        for (ours, size) in answer(&case).iter().zip(&case.sets) {
            let size = *size as usize;
            let theirs = model::groups(size, &case.possible, &case.present, &case.table);
            let (theirs, empty) = theirs.split_at(ours.len());
            prop_assert_eq!(ours, theirs);
            prop_assert!(empty.iter().all(Cpus::is_empty));
        }
    }

    #[test]
    fn each_cpu_is_in_exactly_one_group_of_each_set_and_no_group_is_empty(case in case()) {
        for (groups, size) in answer(&case).iter().zip(&case.sets) {
            prop_assert_eq!(groups.len(), case.possible.len().min(*size as usize));
            prop_assert!(groups.iter().all(|group| !group.is_empty()));
            let all: Cpus = groups.iter().flatten().copied().collect();
            let members: usize = groups.iter().map(Cpus::len).sum();
            if *size != 0 {
                prop_assert_eq!((&all, members), (&case.possible, all.len()));
            }
        }
    }

    #[test]
    fn groups_are_even_and_keep_nodes_clusters_and_cores_together(case in case()) {
        let present = &case.possible & &case.present;
        let absent = &case.possible - &case.present;
        for groups in answer(&case).iter().filter(|groups| !groups.is_empty()) {
            for pass in [&present, &absent] {
                if !pass.is_empty() {
                    check_pass(groups, pass, &case.table);
                }
            }
        }
    }

    #[test]
    fn present_cpus_are_in_as_many_groups_as_there_can_be(case in case()) {
        let present = &case.possible & &case.present;
        for groups in answer(&case) {
            let count = present.len().min(groups.len());
            for (number, group) in groups.iter().enumerate() {
                prop_assert_eq!(group.is_disjoint(&present), number >= count);
            }
        }
    }

    /// Nothing is left over from the set before, and no id of a cluster or core but as a name.
    #[test]
    fn a_set_does_not_depend_on_other_sets_or_on_what_clusters_and_cores_are_called(
        case in case(),
        salt in any::<u32>(),
    ) {
        let rename = |id: Option<u32>| id.map(|id| id.rotate_left(7) ^ salt);
        let together = answer(&case);
        let mut alone = case.clone();
        for shared in &mut alone.table {
            shared.cluster = rename(shared.cluster);
            shared.core = rename(shared.core);
        }
        for (set, size) in together.iter().zip(&case.sets) {
            alone.sets = vec![*size];
            alone.before = 1;
            prop_assert_eq!(&answer(&alone)[0], set);
        }
    }
}

#[test]
fn the_machines_looked_at_are_of_every_kind() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut kinds = BTreeSet::new();
    for _ in 0..512 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let absent = &case.possible - &case.present;
        let nodes = by(&case.possible, |cpu| case.table[cpu as usize].node).len();
        let clusters = by(&case.possible, |cpu| case.table[cpu as usize].cluster).len();
        for size in &case.sets {
            let size = *size as usize;
            if size > 0 && size < nodes {
                kinds.insert("fewer groups than nodes");
            }
            if size > nodes && size < case.possible.len() && nodes > 1 {
                kinds.insert("more groups than nodes");
                if clusters > nodes && clusters < size {
                    kinds.insert("clusters that matter");
                }
            }
            if size > case.possible.len() {
                kinds.insert("more groups than CPUs");
            }
            if !absent.is_empty() && case.possible.len() - absent.len() < size {
                kinds.insert("groups of absent CPUs alone");
            }
        }
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}
