// SPDX-License-Identifier: MIT OR Apache-2.0
use std::vec::Vec;

use irq_core::cpu::CpuMask;

use super::*;

const V: Vector = Vector::SPURIOUS;

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn target(id: u32) -> Target {
    let id = ApicId::new(id).unwrap();
    Target::new(id, id.logical().unwrap_or(0))
}

fn set(cpus: &[u32]) -> CpuMask {
    let mut set = CpuMask::try_new(64).unwrap();
    for index in cpus {
        set.insert(cpu(*index)).unwrap();
    }
    set
}

/// What is sent to `cpus`, and who was posted to.
fn kick(targets: &Targets, cpus: &[u32]) -> (Vec<u64>, Vec<u32>) {
    let (mut sent, mut posted) = (Vec::new(), Vec::new());
    let post = |cpu: CpuIndex| {
        posted.push(cpu.get());
        true
    };
    let _ = targets.kick(&set(cpus), V, post, |command| sent.push(command.get()));
    (sent, posted)
}

#[test]
fn an_id_is_one_cpus_while_that_is_online() {
    let targets = Targets::new(3, 1).unwrap();
    targets.online(cpu(0), target(5)).unwrap();
    let exists = Error::Exists {
        what: "a CPU that is online by this APIC id",
    };
    assert_eq!(targets.online(cpu(1), target(5)), Err(exists));
    assert_eq!(targets.get(cpu(1)), Err(Error::CpuOffline { cpu: cpu(1) }));
    // It moves to another index when it has gone; the old one is bound to nothing.
    targets.offline(cpu(0));
    targets.online(cpu(1), target(5)).unwrap();
    assert_eq!(kick(&targets, &[0, 1]).1, [1]);
    targets.online(cpu(0), target(6)).unwrap();
    let (sent, mut posted) = kick(&targets, &[0, 1]);
    posted.sort_unstable();
    assert_eq!((sent.len(), posted), (1, [0, 1].into()));
}

#[test]
fn clusters_that_want_the_same_slot_have_one_each() {
    // 3, 7 and 11 are 3 modulo 4; the last one wraps round.
    let targets = Targets::new(4, 4).unwrap();
    for (index, cluster) in [3, 7, 11, 2].into_iter().enumerate() {
        targets
            .online(cpu(index as u32), target(cluster * 16 + 1))
            .unwrap();
    }
    let (sent, posted) = kick(&targets, &[0, 1, 2, 3]);
    let clusters: Vec<_> = sent.iter().map(|icr| icr >> 48).collect();
    assert_eq!(clusters, [3, 7, 11, 2]);
    assert_eq!(posted, [0, 1, 2, 3]);
    let full = Error::Full {
        what: "clusters of CPUs",
        capacity: 4,
    };
    targets.offline(cpu(0));
    assert_eq!(targets.online(cpu(0), target(0x500)), Err(full));
    // Its own is kept.
    targets.online(cpu(0), target(3 * 16 + 9)).unwrap();
}

#[test]
fn more_clusters_than_one_walk_keeps_apart_are_each_served_once() {
    let cpus = CLUSTERS_AT_ONCE as u32 + 3;
    let targets = Targets::new(cpus, cpus as usize).unwrap();
    let mut all = CpuMask::try_new(cpus).unwrap();
    for index in 0..cpus {
        // From the last cluster to the first.
        let id = (cpus - 1 - index) * 16;
        targets.online(cpu(index), target(id)).unwrap();
        all.insert(cpu(index)).unwrap();
    }
    let mut posts = std::vec![0; cpus as usize];
    let mut rings = 0;
    let post = |cpu: CpuIndex| {
        posts[cpu.index()] += 1;
        true
    };
    targets.kick(&all, V, post, |_| rings += 1).unwrap();
    assert_eq!(rings, cpus);
    assert!(posts.iter().all(|posts| *posts == 1));
}

#[test]
fn an_error_in_a_set_of_many_clusters_is_reported_once_all_are_served() {
    let targets = Targets::new(8, 8).unwrap();
    targets.online(cpu(1), target(0x70)).unwrap();
    let mut posted = 0;
    let post = |_| {
        posted += 1;
        true
    };
    let result = targets.kick(&set(&[0, 1, 9]), V, post, |_| {});
    assert_eq!(result, Err(Error::CpuOffline { cpu: cpu(0) }));
    assert_eq!(posted, 1);
}
