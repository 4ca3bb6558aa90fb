// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing touches the heap while interrupts move and CPUs come and go; and construction can be
//! refused memory.
#![cfg(not(loom))]

mod common;
mod hotplug_common;

use common::heap::{Counting, Heap, UNTOUCHED, heap, with_memory_for};
use hotplug_common::mask;
use hotplug_common::platform::Player;
use hotplug_common::quiet::Quiet;
use hotplug_common::rig::{cpu, on};
use irq_core::hotplug::{Affinity, Hotplug, NewIrq, Removal};
use irq_core::{Irq, IrqRange};
use irq_hal::ErrorKind;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn new(cpus: u32, irqs: u32) -> Result<Hotplug<u32>, irq_hal::Error> {
    Hotplug::new(cpus, IrqRange::new(Irq::new(0), irqs).unwrap())
}

#[test]
fn nothing_but_construction_touches_the_heap() {
    let (mover, platform) = (Quiet::default(), Player::new(0));
    let (hotplug, made) = heap(|| new(64, 40).unwrap());
    assert_ne!(made.allocations, 0);
    let changes = hotplug.changes(&platform, &mover);
    let mut affinities: Vec<Affinity> = (0..40).map(|irq| mask(&[irq, irq + 1])).collect();
    let mut others: Vec<Affinity> = (0..40).map(|irq| mask(&[irq + 20])).collect();
    let mut removed = Vec::with_capacity(40);
    let ((), used) = heap(|| {
        for index in 0..64 {
            changes.online(cpu(index)).unwrap();
        }
        for irq in (0..40).rev() {
            let affinity = affinities.pop().unwrap();
            let new = match irq % 2 {
                0 => NewIrq::managed(affinity),
                _ => NewIrq {
                    affinity,
                    ..NewIrq::regular()
                },
            };
            changes.add(Irq::new(irq), new).unwrap();
            changes.start(Irq::new(irq)).unwrap();
        }
        for irq in 0..40 {
            let moved = changes.set_affinity(Irq::new(irq), &mut others[irq as usize]);
            assert_eq!(moved.is_ok(), irq % 2 == 1);
            changes.arrived(&on(irq + 20), Irq::new(irq));
        }
        let mut shut = 0;
        for index in 0..50 {
            shut += changes.offline(&on(index)).unwrap().shut;
        }
        assert_eq!(shut, 20);
        for index in (0..50).rev() {
            changes.online(cpu(index)).unwrap();
        }
        for irq in 0..40 {
            assert_eq!(changes.remove(Irq::new(irq)), Ok(Removal::Draining));
        }
        // What is pending is forgotten with the CPUs.
        for index in 0..64 {
            assert_eq!(changes.clean(&on(index)), changes.clean(&on(index)));
            changes.offline(&on(index)).unwrap();
        }
        for irq in 0..40 {
            // The affinity comes back, and is freed by who gets it: here, later.
            match changes.remove(Irq::new(irq)) {
                Ok(Removal::Done(affinity)) => removed.push(affinity),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(used, UNTOUCHED);
    assert_eq!(removed.len(), 40);
}

#[test]
fn memory_that_is_refused_is_an_error_and_none_is_kept() {
    let (made, needed) = heap(|| new(100, 100));
    drop(made);
    for left in 0..needed.allocations {
        let make = || new(100, 100).err();
        let (made, used) = with_memory_for(left, || heap(make));
        assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
        let Heap {
            allocations, frees, ..
        } = used;
        assert_eq!((allocations, frees), (left, left));
    }
}

#[test]
fn memory_is_some_150_bytes_for_each_irq_and_70_for_each_cpu() {
    let bytes = |cpus, irqs| {
        let (made, used) = heap(|| new(cpus, irqs));
        assert!(made.is_ok());
        used.bytes
    };
    let irq = bytes(64, 2000) - bytes(64, 1000);
    let cpu = bytes(4096, 10) - bytes(64, 10);
    let each = (irq / 1000, cpu / 4032);
    assert!((120..=180).contains(&each.0), "{each:?}");
    assert!((60..=85).contains(&each.1), "{each:?}");
}
