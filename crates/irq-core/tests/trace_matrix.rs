// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which locks and lines a vector costs. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_matrix`.
#![cfg(irq_trace)]

mod common;

use common::Cpu;
use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask, NodeId};
use irq_core::matrix::{Entry, Matrix, Setup, Slot, Wanted};
use irq_core::placement::Among;
use irq_core::topology::Place;
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record, shared_lines};

static PLATFORM: Cpu = Cpu::new(0);

const NODES: u32 = 4;
const PER_NODE: u32 = 128;

fn matrix() -> Matrix {
    let cpus = NODES * PER_NODE;
    let matrix = Matrix::new(&Setup {
        nodes: NODES,
        ..Setup::new(cpus)
    });
    let matrix = matrix.unwrap();
    for cpu in (0..cpus).map(CpuIndex::new) {
        let place = Place {
            node: NodeId::new(cpu.get() / PER_NODE),
            ..Place::flat(cpu)
        };
        matrix.online(&PLATFORM, cpu, place).unwrap();
    }
    matrix
}

fn on_node(irq: u32, node: u32) -> Wanted<'static> {
    Wanted {
        irq: Irq::new(irq),
        among: Among::Node(NodeId::new(node)),
        near: None,
    }
}

/// What `f` does, on some CPU.
fn events(f: impl FnOnce()) -> Vec<Event> {
    record(|| on_cpu(CpuIndex::new(0), f))
}

fn locks(events: &[Event]) -> usize {
    let locks = events.iter().filter(|event| event.kind == Kind::Lock);
    locks.count()
}

#[test]
fn trace_shows_that_a_vector_takes_one_lock_to_allocate_and_one_to_free() {
    let matrix = matrix();
    let mut mask = CpuMask::try_new(NODES * PER_NODE).unwrap();
    mask.fill();
    matrix.reserve_managed(&PLATFORM, &mask).unwrap();
    // Other CPUs of each bank stay as they are, so that the least of a bank does not change.
    for (managed, among) in [
        (false, Among::Machine),
        (false, Among::Mask(&mask)),
        (true, Among::Mask(&mask)),
    ] {
        for irq in [3, 70, 300] {
            let irq = Irq::new(irq);
            let wanted = Wanted {
                irq,
                among,
                near: None,
            };
            let mut slot = None;
            let alloc = events(|| {
                slot = match managed {
                    true => matrix.alloc_managed(&PLATFORM, &wanted).ok(),
                    false => matrix.alloc(&PLATFORM, &wanted, false).ok(),
                };
            });
            let free = events(|| matrix.free(&PLATFORM, slot.unwrap(), irq).unwrap());
            assert_eq!((locks(&alloc), locks(&free)), (1, 1));
        }
    }
}

#[test]
fn trace_shows_that_an_entry_is_one_load() {
    let matrix = matrix();
    let slot = matrix.alloc(&PLATFORM, &on_node(7, 1), false).unwrap();
    let events = events(|| {
        let entry = matrix.entry(slot.cpu, slot.vector);
        assert_eq!(entry, Entry::Irq(Irq::new(7)));
    });
    assert_eq!(events.len(), 1);
    assert!(!events[0].kind.writes() && events[0].kind != Kind::Lock);
}

#[test]
fn trace_shows_that_cpus_of_two_nodes_write_no_line_that_the_other_touches() {
    let matrix = matrix();
    // Each bank has CPUs with one more and CPUs with one less than those that follow.
    let mut events = Vec::new();
    let mut allocs = Vec::<(Slot, Irq)>::new();
    for round in 0..20 {
        for node in 0..NODES {
            let wanted = on_node(node * PER_NODE + round, node);
            events.extend(record(|| {
                on_cpu(CpuIndex::new(node * PER_NODE), || {
                    let slot = matrix.alloc(&PLATFORM, &wanted, false).unwrap();
                    allocs.push((slot, wanted.irq));
                });
            }));
        }
    }
    for (slot, irq) in allocs {
        let first = slot.cpu.get() / PER_NODE * PER_NODE;
        events.extend(record(|| {
            on_cpu(CpuIndex::new(first), || {
                matrix.free(&PLATFORM, slot, irq).unwrap();
            });
        }));
    }
    assert!(locks(&events) >= 160);
    let shared = shared_lines(&events);
    assert!(shared.is_empty(), "{shared:?}");
}

#[test]
fn trace_shows_that_entries_of_two_cpus_are_on_lines_of_their_own() {
    let matrix = matrix();
    let mut events = Vec::new();
    for cpu in [0, 1, 2] {
        for vector in [0x20, 0x3f, 0xeb] {
            let cpu = CpuIndex::new(cpu);
            let irq = Irq::new(u32::from(vector));
            matrix.assign(&PLATFORM, cpu, vector, irq).unwrap();
            events.extend(record(|| {
                on_cpu(cpu, || {
                    matrix.entry(cpu, vector);
                });
            }));
        }
    }
    let lines = |cpu| {
        let events = events
            .iter()
            .filter(move |event| event.cpu == CpuIndex::new(cpu));
        events.map(|event| event.line)
    };
    for (one, other) in [(0, 1), (1, 2)] {
        assert!(lines(one).all(|line| lines(other).all(|there| there != line)));
    }
}
