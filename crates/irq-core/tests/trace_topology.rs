// SPDX-License-Identifier: MIT OR Apache-2.0
//! What online and offline write, and that the size of the machine is no part of it. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_topology`.
#![cfg(irq_trace)]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record};

static PLATFORM: Cpu = Cpu::new(0);

/// Two threads a core, four cores a group, one package a node.
fn place(cpu: u32, node: u32) -> Place {
    Place {
        core: cpu / 2,
        l2: cpu / 2,
        group: cpu / 8,
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

fn writes(events: &[Event]) -> usize {
    events.iter().filter(|event| event.kind.writes()).count()
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
fn trace_shows_that_online_and_offline_write_one_bit_and_one_count_per_level() {
    let levels = Level::ALL.len();
    for (cpus, per_node) in [(64, 64), (64, 16), (4096, 4096), (4096, 256)] {
        for [_, gone, back] in machine(cpus, per_node) {
            for events in [&gone, &back] {
                // Those of its domains, the machine's bit; the CPU's state, claimed and set.
                assert_eq!(writes(events), 2 * levels + 1 + 2);
                assert!(events.iter().all(|event| event.kind != Kind::Lock));
            }
        }
    }
}

#[test]
fn trace_shows_that_the_cost_of_online_and_offline_is_that_of_any_machine() {
    let small = machine(64, 64);
    let [_, gone, back] = &small[0];
    for (cpus, per_node) in [(64, 16), (4096, 4096), (4096, 256)] {
        for [_, gone_here, back_here] in machine(cpus, per_node) {
            assert_eq!(kinds(&gone_here), kinds(gone));
            assert_eq!(kinds(&back_here), kinds(back));
        }
    }
}

#[test]
fn trace_shows_that_a_first_online_takes_one_lock_and_visits_no_other_cpu() {
    let most = |cpus, per_node| {
        let machine = machine(cpus, per_node);
        let firsts = || machine.iter().map(|[first, ..]| first);
        for first in firsts() {
            let locks = kinds(first);
            assert_eq!(locks.iter().filter(|kind| **kind == Kind::Lock).count(), 1);
        }
        firsts().map(|events| writes(events)).max()
    };
    // A CPU that begins a domain at each level writes most.
    let small = most(64, 64);
    for (cpus, per_node) in [(64, 16), (4096, 4096), (4096, 256)] {
        assert_eq!(most(cpus, per_node), small);
    }
    // In rising order nothing is searched from the start of a list, however long.
    let reads = |cpus: u32| {
        let [first, ..] = machine(cpus, cpus).pop().unwrap();
        first.len() - writes(&first)
    };
    assert!(
        reads(4096).abs_diff(reads(64)) < 16,
        "{} {}",
        reads(4096),
        reads(64)
    );
}
