// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology allocates when it is made and never again, and can be refused memory.
#![cfg(not(loom))]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;
use std::ptr::null_mut;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_hal::ErrorKind;

struct Counting;

std::thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u32> = const { Cell::new(0) };
    static FREES: Cell<u32> = const { Cell::new(0) };
    /// After so many allocations there is no memory.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

// SAFETY: every call goes to the system's allocator, or says that there is no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(left) = LEFT.get().checked_sub(1) else {
            return null_mut();
        };
        LEFT.set(left);
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        FREES.set(FREES.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static PLATFORM: Cpu = Cpu::new(0);

/// Allocations and frees that `f` makes on this thread.
fn heap<R>(f: impl FnOnce() -> R) -> (R, u32, u32) {
    let before = (ALLOCATIONS.get(), FREES.get());
    let result = f();
    let (allocations, frees) = (ALLOCATIONS.get(), FREES.get());
    (result, allocations - before.0, frees - before.1)
}

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
    let (topology, allocations, _) = heap(|| Topology::new(300, 4).unwrap());
    assert_ne!(allocations, 0);
    let mut mask = CpuMask::try_new(300).unwrap();
    let mut sink = Sink(0);
    let ((), allocations, frees) = heap(|| {
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
    assert_eq!((allocations, frees), (0, 0));
    assert_ne!(sink.0, 0);
}

#[test]
fn a_topology_or_mask_that_is_refused_memory_is_an_error_and_keeps_none() {
    let (made, needed, _) = heap(|| Topology::new(1000, 8));
    drop(made);
    for left in 0..needed {
        LEFT.set(left);
        let (made, allocations, frees) = heap(|| Topology::new(1000, 8).err());
        LEFT.set(u32::MAX);
        assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
        assert_eq!((allocations, frees), (left, left));
    }
    LEFT.set(0);
    let made = CpuMask::try_new(1000).map_err(|error| error.kind());
    LEFT.set(u32::MAX);
    assert_eq!(made.err(), Some(ErrorKind::OutOfMemory));
}

#[test]
fn memory_is_some_250_bytes_for_each_possible_cpu_and_16_for_each_node() {
    let bytes = |cpus, nodes| {
        BYTES.set(0);
        drop(Topology::new(cpus, nodes).unwrap());
        BYTES.get()
    };
    for cpus in [64, 1024, 4096, 1 << 16] {
        let each = bytes(cpus, 1) / cpus as usize;
        assert!((200..=260).contains(&each), "{each} for each of {cpus}");
    }
    assert_eq!(bytes(1, 1001) - bytes(1, 1), 16_000);
}
