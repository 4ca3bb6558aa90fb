// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory is had when the object is made and never again, and can be refused.
#![cfg(not(loom))]

mod common;

use common::Cpu;
use common::heap::{Counting, UNTOUCHED, heap, with_memory_for};
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::proximity::{Affinity, CpuPlace, Distances, KeyLevel, Proximity, Unit, UnitIndex};
use irq_hal::ErrorKind;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static PLATFORM: Cpu = Cpu::new(0);

const CPUS: u32 = 300;
const UNITS: u32 = 8;

fn make() -> Result<Proximity, irq_hal::Error> {
    let distances = Distances::new(4, |from, to| from.get().abs_diff(to.get()) as u8)?;
    Proximity::new(CPUS, UNITS, distances)
}

fn affinity(number: u32) -> Affinity {
    Affinity::new(((number % 8) << 24) | ((number % 3) << 16))
}

fn unit(number: u32) -> Unit {
    Unit {
        affinity: affinity(number),
        level: KeyLevel::new(number % 4).unwrap(),
        node: Some(NodeId::new(number % 4)),
    }
}

fn place(number: u32) -> CpuPlace {
    CpuPlace {
        affinity: affinity(number),
        level: KeyLevel::new(number % 2).unwrap(),
        node: (!number.is_multiple_of(5)).then_some(NodeId::new(number % 4)),
    }
}

#[test]
fn nothing_but_construction_touches_the_heap() {
    let (proximity, made) = heap(|| make().unwrap());
    assert_ne!(made.allocations, 0);
    let mut served = 0;
    let ((), used) = heap(|| {
        for round in 0..2 {
            for index in (0..UNITS).map(UnitIndex::new) {
                let unit = unit(index.get() + round);
                proximity.add(&PLATFORM, index, unit).unwrap();
                assert!(proximity.add(&PLATFORM, index, unit).is_err());
            }
            for cpu in (0..CPUS).map(CpuIndex::new) {
                let place = place(cpu.get() + round);
                proximity.online(&PLATFORM, cpu, place).unwrap();
                assert!(proximity.online(&PLATFORM, cpu, place).is_err());
            }
            for index in (0..UNITS).map(UnitIndex::new) {
                proximity.remove(&PLATFORM, index).unwrap();
                assert!(proximity.remove(&PLATFORM, index).is_err());
                for cpu in (0..CPUS).map(CpuIndex::new) {
                    served += u32::from(proximity.unit(cpu).is_ok());
                    served += u32::from(proximity.settled(cpu).is_ok());
                }
            }
            for cpu in (0..CPUS).map(CpuIndex::new) {
                proximity.offline(&PLATFORM, cpu).unwrap();
            }
        }
    });
    assert_eq!(used, UNTOUCHED);
    // Until the last unit was gone.
    assert_eq!(served, 2 * 2 * CPUS * (UNITS - 1));
}

#[test]
fn a_refusal_of_memory_is_an_error_and_keeps_none() {
    let (made, needed) = heap(make);
    drop(made);
    for left in 0..needed.allocations {
        let (made, used) = with_memory_for(left, || heap(|| make().err()));
        assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
        assert_eq!((used.allocations, used.frees), (left, left));
    }
    let (plain, used) = heap(|| Distances::plain(1024));
    assert!(plain.is_ok());
    assert_eq!(used, UNTOUCHED);
}

#[test]
fn memory_is_a_line_and_some_24_bytes_for_each_possible_cpu() {
    let bytes = |cpus| {
        let (made, used) = heap(|| Proximity::new(cpus, 1, Distances::plain(1).unwrap()));
        assert!(made.is_ok());
        used.bytes
    };
    let line = align_of::<irq_hal::percpu::CachePadded<u8>>();
    for cpus in [64, 1024, 4096, 1 << 16] {
        let each = bytes(cpus) / cpus as usize;
        assert!((line + 20..=line + 32).contains(&each), "{each} for {cpus}");
    }
}
