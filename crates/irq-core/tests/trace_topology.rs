// SPDX-License-Identifier: MIT OR Apache-2.0
//! What online and offline write, and that the size of the machine is no part of it. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_topology`.
#![cfg(irq_trace)]

mod common;

use std::collections::BTreeSet;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record};

static PLATFORM: Cpu = Cpu::new(0);

const LEVELS: usize = Level::ALL.len();

/// Machines: CPUs, and CPUs of a node.
const MACHINES: [(u32, u32); 4] = [(64, 64), (64, 16), (4096, 4096), (4096, 256)];

/// Eight threads a core, two cores a group, one package a node.
fn place(cpu: u32, node: u32) -> Place {
    Place {
        core: cpu / 8,
        l2: cpu / 8,
        group: cpu / 16,
        package: node,
        node: NodeId::new(node),
    }
}

fn events(cpu: u32, f: impl FnOnce()) -> Vec<Event> {
    record(|| on_cpu(CpuIndex::new(cpu), f))
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

fn writes(events: &[Event]) -> Vec<Event> {
    events
        .iter()
        .filter(|event| event.kind.writes())
        .copied()
        .collect()
}

fn lines(events: &[Event]) -> Vec<usize> {
    events.iter().map(|event| event.line).collect()
}

/// What each CPU of a machine does to come online for the first time, to go, and to come back.
fn machine(cpus: u32, per_node: u32) -> Vec<[Vec<Event>; 3]> {
    let topology = Topology::new(cpus, cpus.div_ceil(per_node)).unwrap();
    let online = |cpu| {
        let place = place(cpu, cpu / per_node);
        events(cpu, || {
            topology
                .online(&PLATFORM, CpuIndex::new(cpu), place)
                .unwrap()
        })
    };
    let offline = |cpu| events(cpu, || topology.offline(CpuIndex::new(cpu)).unwrap());
    let first: Vec<_> = (0..cpus).map(online).collect();
    let gone: Vec<_> = (0..cpus).map(offline).collect();
    let back = (0..cpus).rev().map(online).collect::<Vec<_>>();
    first
        .into_iter()
        .zip(gone)
        .zip(back.into_iter().rev())
        .map(|((first, gone), back)| [first, gone, back])
        .collect()
}

#[test]
fn trace_shows_that_online_and_offline_write_one_word_per_level_and_the_machines() {
    // The CPU's state is claimed; a word of the mask of each of its domains, and of the
    // machine's; the CPU's state is set.
    let mut expected = vec![Kind::Update];
    expected.extend([Kind::Update; LEVELS + 1]);
    expected.push(Kind::Write);
    for (cpus, per_node) in MACHINES {
        for [first, gone, back] in machine(cpus, per_node) {
            assert_eq!(kinds(&writes(&gone)), expected);
            assert_eq!(kinds(&writes(&back)), expected);
            // Both write the same words, in opposite order.
            let mut there = lines(&writes(&gone));
            there.reverse();
            assert_eq!(lines(&writes(&back)), there);
            // So does the first call: binding ends with the CPU's state.
            let first = writes(&first);
            let bound = &first[first.len() - expected.len()..];
            assert_eq!(bound[0].kind, Kind::Write);
            assert_eq!(bound[1..], writes(&back)[1..]);
            assert_eq!(lines(bound), lines(&writes(&back)));
        }
    }
}

#[test]
fn trace_shows_that_the_cost_of_online_and_offline_is_that_of_any_machine() {
    let small = machine(64, 64);
    let [_, gone, back] = &small[0];
    assert!([gone, back].iter().all(|e| !kinds(e).contains(&Kind::Lock)));
    for (cpus, per_node) in MACHINES {
        for [_, gone_here, back_here] in machine(cpus, per_node) {
            assert_eq!(kinds(&gone_here), kinds(gone));
            assert_eq!(kinds(&back_here), kinds(back));
        }
    }
}

#[test]
fn trace_shows_that_a_first_online_takes_one_lock_and_binds_in_a_few_writes() {
    for (cpus, per_node) in MACHINES {
        let (mut domains, mut words) = (BTreeSet::new(), BTreeSet::new());
        for (cpu, [first, ..]) in (0..cpus).zip(machine(cpus, per_node)) {
            let place = place(cpu, cpu / per_node);
            let mut expected = 0;
            for level in Level::ALL {
                let domain = (level, place.id(level));
                // Which domain, which word of its mask.
                expected += 2;
                // Of a new domain its lowest CPU and its id, which nodes have from the start.
                let new = domains.insert(domain);
                expected += usize::from(new) + usize::from(new && level != Level::Node);
                // Of a new word its number and what follows, and both ends of the list.
                expected += 4 * usize::from(words.insert((domain, cpu / 64)));
            }
            // The lock before it, and what each online call writes.
            expected += 1 + LEVELS + 3;
            assert_eq!(writes(&first).len(), expected, "{cpu} of {cpus}");
            let locks = kinds(&first);
            let locks = locks.iter().filter(|kind| **kind == Kind::Lock);
            assert_eq!(locks.count(), 1);
        }
    }
}

#[test]
fn trace_shows_that_a_first_online_in_rising_order_searches_no_list_of_words() {
    let reads = |cpus: u32| {
        let [first, ..] = machine(cpus, cpus).pop().unwrap();
        first.len() - writes(&first).len()
    };
    // The difference is what the tables of ids find on their way.
    assert!(
        reads(4096).abs_diff(reads(64)) < 16,
        "{} {}",
        reads(4096),
        reads(64)
    );
}
