// SPDX-License-Identifier: MIT OR Apache-2.0
//! A placement allocates when it is made and never again, and can be refused memory.
#![cfg(not(loom))]

mod common;

use common::Cpu;
use common::heap::{Counting, Heap, UNTOUCHED, heap, with_memory_for};
use irq_core::cpu::{CpuIndex, CpuMask, NodeId};
use irq_core::placement::{Among, Class, Limits, Placement, Request};
use irq_hal::ErrorKind;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static PLATFORM: Cpu = Cpu::new(0);

fn limits(cpus: u32, nodes: u32) -> Limits {
    Limits {
        cpus,
        nodes,
        load: 200,
        threads: 2,
    }
}

#[test]
fn nothing_but_construction_touches_the_heap() {
    let (placement, made) = heap(|| Placement::new(limits(300, 3), || Ok(())).unwrap());
    assert_ne!(made.allocations, 0);
    let mut mask = CpuMask::try_new(300).unwrap();
    mask.fill();
    let ((), used) = heap(|| {
        for _ in 0..2 {
            for cpu in 0..300 {
                let (index, node) = (CpuIndex::new(cpu), NodeId::new(cpu % 3));
                placement
                    .online(&PLATFORM, index, cpu / 6 * 3 + cpu % 3, node)
                    .unwrap();
            }
            for turn in 0..2000 {
                let among = match turn % 3 {
                    0 => Among::Machine,
                    1 => Among::Node(NodeId::new(turn % 2)),
                    _ => Among::Mask(&mask),
                };
                let request = Request {
                    class: Class::Regular,
                    among,
                    near: None,
                    turn,
                };
                let cpu = placement.choose(&request).unwrap().cpu;
                placement
                    .update(&PLATFORM, cpu, |change, ()| change.place(Class::Regular, 1))
                    .unwrap();
            }
            for cpu in (0..300).map(CpuIndex::new) {
                placement.isolate(&PLATFORM, cpu, true).unwrap();
                placement.offline(&PLATFORM, cpu).unwrap();
            }
        }
    });
    assert_eq!(used, UNTOUCHED);
}

#[test]
fn a_placement_that_is_refused_memory_is_an_error_and_keeps_none() {
    let make = || Placement::new(limits(200, 2), || Ok(())).err();
    let (_, needed) = heap(make);
    for left in 0..needed.allocations {
        let (made, used) = with_memory_for(left, || heap(make));
        assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
        let Heap {
            allocations, frees, ..
        } = used;
        assert_eq!((allocations, frees), (left, left));
    }
}

#[test]
fn memory_is_a_bit_for_each_cpu_class_and_load_and_no_more_by_the_number_of_cpus() {
    let bytes = |cpus, nodes| {
        let (made, used) = heap(|| Placement::new(limits(cpus, nodes), || Ok(())));
        assert!(made.is_ok());
        used.bytes as f64 / f64::from(cpus)
    };
    // 200 own loads and 400 of cores, in two classes: 150 bytes.
    for (cpus, most) in [(64, 240.0), (4096, 200.0), (1 << 16, 200.0)] {
        let each = bytes(cpus, 1);
        assert!((150.0..most).contains(&each), "{each} for each of {cpus}");
    }
    // 16 nodes cost 40 bytes a bank each, and a vertex of their trees.
    let more = bytes(4096, 16) - bytes(4096, 1);
    assert!((9.0..25.0).contains(&more), "{more}");
}
