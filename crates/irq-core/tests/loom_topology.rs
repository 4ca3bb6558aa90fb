// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that bind the same new domains at once, and readers beside them. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_topology`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuSet, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_hal::ErrorKind;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

/// In words of their own, so that the lists of their domains grow: in front, between, behind.
const LOW: u32 = 3;
const MIDDLE: u32 = 64;
const HIGH: u32 = 128;

/// A core of its own; a domain at each other level that all CPUs share.
fn place(cpu: u32) -> Place {
    Place {
        core: cpu,
        l2: 7,
        group: 7,
        package: 7,
        node: NodeId::FLAT,
    }
}

fn online(topology: &Topology, cpu: u32) -> Result<(), ErrorKind> {
    let platform = Cpu::new(cpu);
    topology
        .online(&platform, CpuIndex::new(cpu), place(cpu))
        .map_err(|error| error.kind())
}

fn topology() -> Arc<Topology> {
    Arc::new(Topology::new(HIGH + 1, 1).unwrap())
}

/// Reads while `change` runs on another CPU. loom hands a reader that comes late any value that
/// is not ordered before it: that it comes late, and is ordered by nothing, is the flag's part.
fn read_beside(topology: Arc<Topology>, change: fn(&Topology), read: impl FnOnce(&Topology)) {
    let late = Arc::new(AtomicBool::new(false));
    let other = thread::spawn({
        let (topology, late) = (topology.clone(), late.clone());
        move || {
            change(&topology);
            late.store(true, Relaxed);
        }
    });
    late.load(Relaxed);
    read(&topology);
    other.join().unwrap();
}

#[test]
fn two_cpus_bind_the_same_new_domains_once() {
    loom::model(|| {
        let topology = topology();
        let other = thread::spawn({
            let topology = topology.clone();
            move || online(&topology, LOW).unwrap()
        });
        online(&topology, HIGH).unwrap();
        other.join().unwrap();
        for level in [Level::L2, Level::Node] {
            let domain = topology.domain(CpuIndex::new(HIGH), level).unwrap();
            assert!(domain.iter().map(CpuIndex::get).eq([LOW, HIGH]));
            assert_eq!(domain.count(), 2);
        }
    });
}

#[test]
fn two_calls_for_the_same_new_cpu_bind_it_once_and_one_of_them_wins() {
    loom::model(|| {
        let topology = topology();
        let other = thread::spawn({
            let topology = topology.clone();
            move || online(&topology, LOW)
        });
        let mut results = [online(&topology, LOW), other.join().unwrap()];
        results.sort_by_key(|result| result.is_err());
        assert_eq!(results[0], Ok(()));
        assert!(matches!(
            results[1],
            Err(ErrorKind::Exists | ErrorKind::Busy)
        ));
        let node = topology.node(NodeId::FLAT).unwrap();
        assert_eq!(node.count(), 1);
    });
}

/// `before` are online while `change` brings `new` online.
fn a_reader_of_a_mask(before: &'static [u32], new: u32, change: fn(&Topology)) {
    loom::model(move || {
        let topology = topology();
        for cpu in before {
            online(&topology, *cpu).unwrap();
        }
        read_beside(topology, change, |topology| {
            let known = CpuIndex::new(before[0]);
            let l2 = topology.domain(known, Level::L2).unwrap();
            let seen: Vec<_> = l2.iter().map(CpuIndex::get).collect();
            // In order, with all of those that stay.
            assert!(
                seen.is_sorted() && before.iter().all(|cpu| seen.contains(cpu)),
                "{seen:?}"
            );
            if seen.len() > before.len() {
                // Its place, its count, and the larger domains, which it joined before.
                let new = CpuIndex::new(new);
                assert_eq!(topology.place(new), Some(place(new.get())));
                assert!(l2.count() as usize >= seen.len());
                assert!(topology.domain(new, Level::Node).unwrap().contains(new));
            }
        });
    });
}

#[test]
fn a_reader_that_walks_to_a_new_cpu_in_front_misses_no_other_and_sees_its_place() {
    a_reader_of_a_mask(&[HIGH], LOW, |topology| online(topology, LOW).unwrap());
}

#[test]
fn a_reader_that_walks_to_a_new_cpu_between_misses_no_other_and_sees_its_place() {
    let change = |topology: &Topology| online(topology, MIDDLE).unwrap();
    a_reader_of_a_mask(&[HIGH, LOW], MIDDLE, change);
}

#[test]
fn a_reader_that_walks_to_a_new_cpu_behind_misses_no_other_and_sees_its_place() {
    a_reader_of_a_mask(&[LOW], HIGH, |topology| online(topology, HIGH).unwrap());
}

#[test]
fn a_reader_that_finds_a_cpu_online_finds_it_in_each_domain() {
    loom::model(|| {
        let low = CpuIndex::new(LOW);
        let change = |topology: &Topology| online(topology, LOW).unwrap();
        read_beside(topology(), change, |topology| {
            if topology.is_online(low) {
                for level in Level::ALL {
                    assert!(topology.domain(low, level).unwrap().contains(low));
                }
            }
        });
    });
}

#[test]
fn a_reader_that_misses_a_cpu_in_a_domain_misses_it_among_the_online_ones() {
    loom::model(|| {
        let (topology, low) = (topology(), CpuIndex::new(LOW));
        online(&topology, LOW).unwrap();
        let change = |topology: &Topology| topology.offline(CpuIndex::new(LOW)).unwrap();
        read_beside(topology, change, |topology| {
            let thread = topology.domain(low, Level::Thread).unwrap();
            if !thread.contains(low) {
                assert!(!topology.is_online(low));
            }
        });
    });
}

#[test]
fn a_cpu_called_online_while_it_goes_is_in_all_masks_or_in_none() {
    loom::model(|| {
        let (topology, low) = (topology(), CpuIndex::new(LOW));
        online(&topology, LOW).unwrap();
        let other = thread::spawn({
            let topology = topology.clone();
            move || topology.offline(CpuIndex::new(LOW)).unwrap()
        });
        let came = online(&topology, LOW).is_ok();
        other.join().unwrap();
        let node = topology.node(NodeId::FLAT).unwrap();
        assert_eq!((node.count() == 1, node.contains(low)), (came, came));
        assert_eq!(topology.is_online(low), came);
    });
}
