// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology allocates when it is made and never again, and can be refused memory.
#![cfg(not(loom))]

mod common;

use std::fmt;

use common::Cpu;
use common::heap::{Counting, Heap, UNTOUCHED, heap, with_memory_for};
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_hal::ErrorKind;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static PLATFORM: Cpu = Cpu::new(0);

struct Sink(usize);

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

fn place(cpu: u32) -> Place {
    Place {
        core: (cpu / 2).wrapping_mul(0x0101_0101),
        l2: cpu / 2,
        group: !(cpu / 16),
        package: cpu % 3,
        node: NodeId::new(cpu % 4),
    }
}

#[test]
fn nothing_but_construction_touches_the_heap() {
    let (topology, made) = heap(|| Topology::new(300, 4).unwrap());
    assert_ne!(made.allocations, 0);
    let mut mask = CpuMask::try_new(300).unwrap();
    let mut sink = Sink(0);
    let ((), used) = heap(|| {
        for round in 0..2 {
            // Not in order, so that lists of chunks grow in their middle.
            for cpu in (0..300).map(|cpu| cpu * 7 % 300) {
                let index = CpuIndex::new(cpu);
                topology.online(&PLATFORM, index, place(cpu)).unwrap();
                assert!(topology.online(&PLATFORM, index, place(cpu)).is_err());
                assert!(topology.online(&PLATFORM, index, place(cpu + 1)).is_err());
            }
            topology.snapshot(&mut sink).unwrap();
            for cpu in (0..300).map(CpuIndex::new) {
                assert_ne!(topology.levels(cpu).count(), 0);
                topology.core_mask(cpu, &mut mask).unwrap();
                let node = topology.domain(cpu, Level::Node).unwrap();
                mask.intersect_with(&node);
                assert_eq!(mask.contains(cpu), topology.is_online(cpu));
                topology.offline(cpu).unwrap();
            }
            assert_eq!(topology.online_cpus().count(), 0, "{round}");
        }
    });
    assert_eq!(used, UNTOUCHED);
    assert_ne!(sink.0, 0);
}

#[test]
fn a_topology_or_mask_that_is_refused_memory_is_an_error_and_keeps_none() {
    let (made, needed) = heap(|| Topology::new(1000, 8));
    drop(made);
    for left in 0..needed.allocations {
        let make = || Topology::new(1000, 8).err();
        let (made, used) = with_memory_for(left, || heap(make));
        assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
        let Heap {
            allocations, frees, ..
        } = used;
        assert_eq!((allocations, frees), (left, left));
    }
    let made = with_memory_for(0, || CpuMask::try_new(1000).err());
    assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
}

#[test]
fn memory_is_some_225_bytes_for_each_possible_cpu_and_16_for_each_node() {
    let bytes = |cpus, nodes| {
        let (made, used) = heap(|| Topology::new(cpus, nodes));
        assert!(made.is_ok());
        used.bytes
    };
    for (cpus, most) in [
        (64, 225),
        (1000, 227),
        (1025, 260),
        (4096, 225),
        (1 << 16, 225),
    ] {
        let each = bytes(cpus, 1) / cpus as usize;
        assert!((220..=most).contains(&each), "{each} for each of {cpus}");
    }
    assert_eq!(bytes(1, 1001) - bytes(1, 1), 16_000);
}
