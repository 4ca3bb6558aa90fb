// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a choice reads, and what a change writes. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_placement`.
#![cfg(irq_trace)]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuMask, NodeId};
use irq_core::placement::{Among, Class, Limits, Placement, Request};
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record, shared_lines};

static PLATFORM: Cpu = Cpu::new(0);

/// All CPUs online, two threads a core, with one interrupt each.
fn machine(cpus: u32, nodes: u32) -> Placement<()> {
    let limits = Limits {
        cpus,
        nodes,
        load: 10,
        threads: 2,
    };
    let placement = Placement::new(limits, || Ok(())).unwrap();
    for cpu in 0..cpus {
        let node = NodeId::new((u64::from(cpu) * u64::from(nodes) / u64::from(cpus)) as u32);
        placement
            .online(&PLATFORM, CpuIndex::new(cpu), cpu / 2, node)
            .unwrap();
        place(&placement, cpu, 1);
    }
    placement
}

fn place(placement: &Placement<()>, cpu: u32, count: i32) {
    placement
        .update(&PLATFORM, CpuIndex::new(cpu), |change, ()| {
            change.place(Class::Regular, count);
        })
        .unwrap();
}

fn choose(placement: &Placement<()>, among: Among<'_>, turn: u32) -> Vec<Event> {
    let request = Request {
        class: Class::Regular,
        among,
        near: None,
        turn,
    };
    record(|| {
        on_cpu(CpuIndex::new(0), || {
            assert!(placement.choose(&request).is_ok());
        })
    })
}

fn all(events: &[Event], kind: Kind) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

#[test]
fn trace_shows_that_a_choice_reads_and_that_the_machine_or_a_node_costs_its_levels() {
    let mut node = Vec::new();
    let mut whole = Vec::new();
    for cpus in [64, 4096, 64 * 4096] {
        let placement = machine(cpus, 4.min(cpus / 64));
        for turn in [0, 63, cpus / 2, cpus - 1] {
            for (among, reads) in [
                (Among::Machine, &mut whole),
                (Among::Node(NodeId::FLAT), &mut node),
            ] {
                let events = choose(&placement, among, turn);
                assert_eq!(all(&events, Kind::Read), events.len());
                reads.push(events.len());
            }
        }
    }
    // The root's key, then a word for each vertex and two for the bank; a node's bank says which
    // node it is of.
    assert!(whole[..4].iter().all(|reads| *reads <= 4), "{whole:?}");
    assert!(whole[4..8].iter().all(|reads| *reads <= 6), "{whole:?}");
    assert!(whole[8..].iter().all(|reads| *reads <= 8), "{whole:?}");
    assert!(node[8..].iter().all(|reads| *reads <= 10), "{node:?}");
}

#[test]
fn trace_shows_that_a_mask_costs_a_few_reads_a_word() {
    let placement = machine(4096, 16);
    let mut mask = CpuMask::try_new(4096).unwrap();
    for cpu in (0..4096).step_by(8) {
        mask.insert(CpuIndex::new(cpu)).unwrap();
        // No CPU of the mask has the machine's least load, so that all words are looked at.
        place(&placement, cpu, 1);
    }
    for turn in [0, 1, 77, 4095] {
        let events = choose(&placement, Among::Mask(&mask), turn);
        assert_eq!(all(&events, Kind::Read), events.len());
        // Four words of each of 64 banks, and a closer look at the first.
        assert!(
            (4 * 64..4 * 64 + 30).contains(&events.len()),
            "{}",
            events.len()
        );
    }
}

#[test]
fn trace_shows_that_cpus_of_two_nodes_write_no_line_in_common() {
    let placement = machine(128, 2);
    let events = record(|| {
        for _ in 0..3 {
            for cpu in [3, 77] {
                on_cpu(CpuIndex::new(cpu), || {
                    let node = NodeId::new(cpu / 64);
                    choose_on(&placement, node, cpu);
                    place(&placement, cpu, 1);
                    place(&placement, cpu, -1);
                });
            }
        }
    });
    assert!(all(&events, Kind::Write) > 20);
    assert_eq!(all(&events, Kind::Lock), 12);
    let shared = shared_lines(&events);
    assert!(shared.is_empty(), "{shared:?}");
}

fn choose_on(placement: &Placement<()>, node: NodeId, turn: u32) {
    let request = Request {
        class: Class::Regular,
        among: Among::Node(node),
        near: None,
        turn,
    };
    assert_eq!(placement.choose(&request).unwrap().cpu.get(), turn);
}

#[test]
fn trace_shows_that_a_vertex_is_locked_only_when_the_least_key_below_it_changes() {
    let placement = machine(128, 2);
    let locks = |cpu, count| {
        let change = || on_cpu(CpuIndex::new(cpu), || place(&placement, cpu, count));
        all(&record(change), Kind::Lock)
    };
    // Its bank's, while others of it have as little.
    for cpu in 0..62 {
        assert_eq!(locks(cpu, 1), 1, "{cpu}");
    }
    // The last core's: first the least core's load of the bank rises, then the least own load.
    // The machine's vertex has another bank that is as it was; the node's has not.
    assert_eq!((locks(62, 1), locks(63, 1)), (3, 3));
    assert_eq!(locks(5, -1), 3);
    assert_eq!(locks(5, 1), 3);
}
