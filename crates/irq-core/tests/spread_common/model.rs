// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spreading the slow way, with a set for everything.

use std::collections::{BTreeMap, BTreeSet};

use irq_core::spread::Shared;

pub type Cpus = BTreeSet<u32>;

/// The groups of one set.
pub fn groups(count: usize, possible: &Cpus, present: &Cpus, table: &[Shared]) -> Vec<Cpus> {
    let mut groups = vec![Cpus::new(); count];
    if count == 0 {
        return groups;
    }
    let done = pass(&mut groups, 0, possible & present, table);
    let next = if done >= count { 0 } else { done };
    pass(&mut groups, next, possible - present, table);
    groups
}

/// How many groups got CPUs.
fn pass(groups: &mut [Cpus], first: usize, cpus: Cpus, table: &[Shared]) -> usize {
    let nodes: Vec<Cpus> = by(&cpus, |cpu| table[cpu as usize].node)
        .into_values()
        .collect();
    let count = groups.len();
    if count <= nodes.len() {
        for (number, node) in nodes.into_iter().enumerate() {
            groups[(first + number) % count].extend(node);
        }
        return count;
    }
    let mut next = first;
    for (node, share) in divide(nodes, count.min(cpus.len())) {
        for group in inside_a_node(node, share, table) {
            groups[next % count].extend(group);
            next += 1;
        }
    }
    next - first
}

fn inside_a_node(node: Cpus, groups: usize, table: &[Shared]) -> Vec<Cpus> {
    let clusters = by(&node, |cpu| table[cpu as usize].cluster);
    if clusters.len() > groups {
        return fill(node, groups, table);
    }
    // By their lowest CPUs.
    let clusters: BTreeSet<Vec<u32>> = clusters
        .into_values()
        .map(|cluster| cluster.into_iter().collect())
        .collect();
    let clusters = clusters.into_iter().map(Cpus::from_iter).collect();
    divide(clusters, groups)
        .into_iter()
        .flat_map(|(cluster, share)| fill(cluster, share, table))
        .collect()
}

/// Parts in the order that ties shall have, and how many groups each gets.
fn divide(mut parts: Vec<Cpus>, mut groups: usize) -> Vec<(Cpus, usize)> {
    // Equal ones stay in order.
    parts.sort_by_key(Cpus::len);
    let mut cpus: usize = parts.iter().map(Cpus::len).sum();
    let mut shares = Vec::new();
    for part in parts {
        let share = usize::max(1, groups * part.len() / cpus);
        groups -= share;
        cpus -= part.len();
        shares.push((part, share));
    }
    shares
}

fn fill(mut free: Cpus, groups: usize, table: &[Shared]) -> Vec<Cpus> {
    let (size, rest) = (free.len() / groups, free.len() % groups);
    let mut filled = Vec::new();
    for number in 0..groups {
        let size = if number < rest { size + 1 } else { size };
        let mut group = Cpus::new();
        while group.len() < size {
            let lowest = free.pop_first().unwrap();
            group.insert(lowest);
            let core = table[lowest as usize].core;
            for cpu in free.clone() {
                let sibling = core.is_some() && table[cpu as usize].core == core;
                if sibling && group.len() < size {
                    free.remove(&cpu);
                    group.insert(cpu);
                }
            }
        }
        filled.push(group);
    }
    filled
}

/// The CPUs in sets of those that have the same key, in the order of the keys.
pub fn by<K: Ord>(cpus: &Cpus, key: impl Fn(u32) -> K) -> BTreeMap<K, Cpus> {
    let mut sets = BTreeMap::<K, Cpus>::new();
    for cpu in cpus {
        sets.entry(key(*cpu)).or_default().insert(*cpu);
    }
    sets
}
