// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cell of removal on one thread: errors, nesting, what is freed when. Its interleavings
//! are tried in `loom_removal.rs`.
#![cfg(not(loom))]

mod common;

use std::sync::Arc;

use common::Cpu;
use irq_hal::percpu::OnCpu;
use irq_hal::platform::Ticks;
use irq_hal::removal::{Readers, Slot};
use irq_hal::wait::Bound;
use irq_hal::{CpuIndex, Error, ErrorKind};

const SHORT: Bound = Bound {
    ticks: Ticks(u64::MAX),
    polls: 10,
};

fn on(cpu: u32) -> OnCpu {
    // SAFETY: a test is one thread and plays one CPU at a time.
    unsafe { OnCpu::new(CpuIndex::new(cpu)) }
}

fn put(readers: &Readers, slot: &Slot<Arc<u32>>, value: &Arc<u32>) {
    let old = slot.replace(&Cpu::new(1), readers, Some(Box::new(value.clone())));
    assert!(old.is_ok_and(|old| old.is_none()));
}

#[test]
fn an_empty_slot_and_an_unknown_cpu_read_nothing() {
    let readers = Readers::new(2).unwrap();
    let slot = readers.slot();
    assert!(slot.read(&readers, &on(0)).is_none());
    put(&readers, &slot, &Arc::new(5));
    assert_eq!(slot.read(&readers, &on(1)).map(|value| **value), Some(5));
    assert!(slot.read(&readers, &on(2)).is_none());
}

#[test]
fn readers_of_another_slot_are_refused() {
    let (readers, others) = (Readers::new(1).unwrap(), Readers::new(1).unwrap());
    let slot = readers.slot();
    put(&readers, &slot, &Arc::new(5));
    assert!(slot.read(&others, &on(0)).is_none());
    let (error, back) = slot
        .replace(&Cpu::new(0), &others, Some(Box::default()))
        .unwrap_err();
    assert_eq!((error.kind(), back.is_some()), (ErrorKind::Invalid, true));
    let old = slot.replace(&Cpu::new(0), &readers, None).unwrap().unwrap();
    let (error, old) = old.reclaim(&Cpu::new(0), &others, SHORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(**old.reclaim(&Cpu::new(0), &readers, SHORT).unwrap(), 5);
}

#[test]
fn readers_without_a_cpu_are_refused() {
    assert_eq!(
        Readers::new(0).unwrap_err(),
        Error::Invalid {
            what: "number of CPUs",
            value: 0
        }
    );
}

#[test]
fn readers_may_move_while_their_slots_live() {
    let readers = Readers::new(1).unwrap();
    let slot = readers.slot();
    put(&readers, &slot, &Arc::new(5));
    let moved = Box::new(readers);
    assert!(slot.read(&moved, &on(0)).is_some());
}

#[test]
fn a_value_in_use_is_not_reclaimed_until_the_use_ends_at_any_depth() {
    for depth in 1..8 {
        let readers = Readers::new(2).unwrap();
        let slot = readers.slot();
        let value = Arc::new(5);
        put(&readers, &slot, &value);
        let on = on(0);
        let mut uses: Vec<_> = (0..depth)
            .map(|_| slot.read(&readers, &on).unwrap())
            .collect();
        let remover = Cpu::new(1);
        let mut old = slot.replace(&remover, &readers, None).unwrap().unwrap();
        while let Some(last) = uses.pop() {
            let (error, back) = old.reclaim(&remover, &readers, SHORT).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert_eq!((**last, Arc::strong_count(&value)), (5, 2));
            old = back;
            drop(last);
        }
        drop(old.reclaim(&remover, &readers, SHORT).unwrap());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn a_use_of_another_value_does_not_hold_a_removal_up() {
    let readers = Readers::new(2).unwrap();
    let (slot, other) = (readers.slot(), readers.slot());
    put(&readers, &slot, &Arc::new(5));
    put(&readers, &other, &Arc::new(6));
    let on = on(0);
    let used = other.read(&readers, &on).unwrap();
    let old = slot.replace(&Cpu::new(1), &readers, None).unwrap().unwrap();
    assert!(old.reclaim(&Cpu::new(1), &readers, SHORT).is_ok());
    assert_eq!(**used, 6);
}

#[test]
fn replacing_from_inside_a_use_on_the_same_cpu_is_an_error_at_any_depth() {
    for depth in 1..7 {
        let readers = Readers::new(2).unwrap();
        let slot = readers.slot();
        put(&readers, &slot, &Arc::new(5));
        let on = on(0);
        let uses: Vec<_> = (0..depth)
            .map(|_| slot.read(&readers, &on).unwrap())
            .collect();
        assert!(readers.in_use_here(&Cpu::new(0)));
        let new = Some(Box::new(Arc::new(6)));
        let (error, back) = slot.replace(&Cpu::new(0), &readers, new).unwrap_err();
        assert_eq!(
            (error.kind(), back.map(|new| **new)),
            (ErrorKind::Context, Some(6))
        );
        assert!(!readers.in_use_here(&Cpu::new(1)));
        drop(uses);
        assert!(!readers.in_use_here(&Cpu::new(0)));
        assert!(slot.replace(&Cpu::new(0), &readers, None).is_ok());
    }
}

#[test]
fn a_slot_that_is_dropped_frees_its_value() {
    let readers = Readers::new(1).unwrap();
    let slot = readers.slot();
    let value = Arc::new(5);
    put(&readers, &slot, &value);
    drop(slot);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_retired_value_that_is_dropped_leaks() {
    let readers = Readers::new(1).unwrap();
    let slot = readers.slot();
    let value = Arc::new(5);
    put(&readers, &slot, &value);
    let _ = slot.replace(&Cpu::new(0), &readers, None).unwrap();
    assert_eq!(Arc::strong_count(&value), 2);
}
