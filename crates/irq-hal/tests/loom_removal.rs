// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of removal against reading handlers. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-hal --release --test loom_removal`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::Cpu;
use irq_hal::percpu::{OnCpu, PerCpu};
use irq_hal::platform::Ticks;
use irq_hal::removal::{Reader, Retired, Table, Using};
use irq_hal::wait::Bound;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

const FOREVER: Bound = Bound {
    ticks: Ticks(u64::MAX),
    polls: u32::MAX,
};

/// A value whose every access loom checks: a read that is not ordered before the write of
/// whoever reclaimed the value is found.
struct Checked(UnsafeCell<u32>);

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Sync for Checked {}
// SAFETY: as for `Sync`.
unsafe impl Send for Checked {}

impl Checked {
    fn boxed(value: u32) -> Box<Self> {
        let checked = Box::new(Self(UnsafeCell::new(0)));
        checked.write(value);
        checked
    }

    fn read(&self) -> u32 {
        // SAFETY: loom has checked that no write is concurrent.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, value: u32) {
        // SAFETY: loom has checked that no access is concurrent.
        self.0.with_mut(|at| unsafe { *at = value });
    }
}

struct World {
    table: Table<Checked, (), ()>,
}

impl World {
    /// Places with the values 1, 2, ...
    fn new(places: u32) -> Arc<Self> {
        let readers = PerCpu::new(2, |_| Reader::new(())).unwrap();
        let world = Self {
            table: Table::new(readers, places, |_| ()).unwrap(),
        };
        for place in 0..places {
            let value = Some(Checked::boxed(place + 1));
            let old = world.table.replace(&Cpu::new(0), place, value);
            assert!(old.is_ok_and(|old| old.is_none()));
        }
        Arc::new(world)
    }

    fn take(&self, cpu: &Cpu, place: u32, new: Option<Box<Checked>>) -> Option<Retired<Checked>> {
        match self.table.replace(cpu, place, new) {
            Ok(old) => old,
            Err((error, _)) => panic!("{error}"),
        }
    }

    /// Waits for the value, as a remover does, and writes to it as if it were freed.
    fn reclaim(&self, cpu: &Cpu, retired: Retired<Checked>) {
        match retired.reclaim(cpu, &self.table, FOREVER) {
            Ok(value) => value.write(0),
            Err((error, _)) => panic!("{error}"),
        }
    }

    fn using<'a>(&'a self, on: &'a OnCpu, place: u32, tag: u32) -> Option<Using<'a, Checked>> {
        self.table.here(on)?.at(place)?.read(tag)
    }
}

fn on(cpu: u32) -> OnCpu {
    // SAFETY: each test gives each of its threads an index of its own.
    unsafe { OnCpu::new(irq_hal::CpuIndex::new(cpu)) }
}

/// One read of `place` as an entry on CPU 0 does it.
fn read(world: &World, place: u32, tag: u32) -> Option<u32> {
    let on = on(0);
    let value = world.using(&on, place, tag);
    value.map(|value| value.read())
}

#[test]
fn a_removed_value_is_not_freed_under_a_reading_handler() {
    loom::model(|| {
        let world = World::new(1);
        let entry = thread::spawn({
            let world = world.clone();
            move || assert!(matches!(read(&world, 0, 1), Some(1) | None))
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, None).unwrap();
        world.reclaim(&cpu, old);
        entry.join().unwrap();
    });
}

#[test]
fn a_handler_that_reads_during_a_replacement_sees_the_old_or_the_new_value() {
    loom::model(|| {
        let world = World::new(1);
        let entry = thread::spawn({
            let world = world.clone();
            move || {
                let first = read(&world, 0, 1).unwrap();
                let second = read(&world, 0, 2).unwrap();
                assert!(matches!((first, second), (1, 1) | (1, 7) | (7, 7)));
            }
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, Some(Checked::boxed(7))).unwrap();
        world.reclaim(&cpu, old);
        entry.join().unwrap();
    });
}

#[test]
fn a_value_that_was_put_in_place_of_another_is_protected_as_well() {
    loom::model(|| {
        let world = World::new(1);
        let entry = thread::spawn({
            let world = world.clone();
            move || assert!(matches!(read(&world, 0, 1), Some(1 | 7) | None))
        });
        let cpu = Cpu::new(1);
        let first = world.take(&cpu, 0, Some(Checked::boxed(7))).unwrap();
        let second = world.take(&cpu, 0, None).unwrap();
        world.reclaim(&cpu, second);
        world.reclaim(&cpu, first);
        entry.join().unwrap();
    });
}

#[test]
fn a_value_that_comes_back_at_the_same_address_is_seen_whole() {
    loom::model(|| {
        let world = World::new(1);
        let entry = thread::spawn({
            let world = world.clone();
            move || assert!(matches!(read(&world, 0, 1), Some(1 | 9) | None))
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, None).unwrap();
        let Ok(again) = old.reclaim(&cpu, &world.table, FOREVER) else {
            unreachable!()
        };
        again.write(9);
        assert!(world.take(&cpu, 0, Some(again)).is_none());
        entry.join().unwrap();
    });
}

#[test]
fn a_remover_sees_whole_what_another_cpu_published() {
    loom::model(|| {
        let world = World::new(1);
        let other = thread::spawn({
            let world = world.clone();
            move || {
                let cpu = Cpu::new(0);
                if let Some(old) = world.take(&cpu, 0, Some(Checked::boxed(7))) {
                    world.reclaim(&cpu, old);
                }
            }
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, None).unwrap();
        world.reclaim(&cpu, old);
        other.join().unwrap();
    });
}

#[test]
fn a_note_that_replaced_an_earlier_one_says_that_the_earlier_use_is_over() {
    loom::model(|| {
        let world = World::new(2);
        let entry = thread::spawn({
            let world = world.clone();
            move || {
                assert!(matches!(read(&world, 0, 1), Some(1) | None));
                assert_eq!(read(&world, 1, 1), Some(2));
            }
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, None).unwrap();
        world.reclaim(&cpu, old);
        entry.join().unwrap();
    });
}

#[test]
fn a_later_use_of_the_same_place_says_that_the_earlier_one_is_over() {
    loom::model(|| {
        let world = World::new(1);
        let entry = thread::spawn({
            let world = world.clone();
            move || {
                assert!(matches!(read(&world, 0, 1), Some(1 | 7)));
                assert!(matches!(read(&world, 0, 2), Some(1 | 7)));
            }
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, Some(Checked::boxed(7))).unwrap();
        world.reclaim(&cpu, old);
        entry.join().unwrap();
    });
}

#[test]
fn a_wait_for_uses_comes_after_them_and_later_ones_see_what_was_before_it() {
    loom::model(|| {
        let world = World::new(1);
        let (before, during) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let entry = thread::spawn({
            let (world, before, during) = (world.clone(), before.clone(), during.clone());
            move || {
                let on = on(0);
                let using = world.using(&on, 0, 1).unwrap();
                let seen = before.load(Relaxed);
                during.store(1, Relaxed);
                drop(using);
                seen
            }
        });
        let cpu = Cpu::new(1);
        before.store(1, Relaxed);
        world.table.synchronize(&cpu, 0, FOREVER).unwrap();
        let over = during.load(Relaxed) == 1;
        // Either the wait was for this use, or the use sees what came before the wait.
        assert!(entry.join().unwrap() == 1 || over);
    });
}

#[test]
fn of_two_removers_one_gets_the_value() {
    loom::model(|| {
        let world = World::new(1);
        let other = thread::spawn({
            let world = world.clone();
            move || {
                let cpu = Cpu::new(0);
                let old = world.take(&cpu, 0, None);
                old.map(|old| world.reclaim(&cpu, old)).is_some()
            }
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, None);
        let got = old.map(|old| world.reclaim(&cpu, old)).is_some();
        assert_ne!(got, other.join().unwrap());
    });
}

#[test]
fn a_use_beyond_the_notes_is_waited_for_too() {
    loom::model(|| {
        let world = World::new(5);
        let on = on(0);
        // The notes of this CPU are all taken, by uses of values that nobody removes.
        let held: Vec<_> = (1..5)
            .map(|slot| world.using(&on, slot, 1).unwrap())
            .collect();
        let remover = thread::spawn({
            let world = world.clone();
            move || {
                let cpu = Cpu::new(1);
                let old = world.take(&cpu, 0, None).unwrap();
                world.reclaim(&cpu, old);
            }
        });
        assert!(matches!(read(&world, 0, 1), Some(1) | None));
        remover.join().unwrap();
        drop(held);
    });
}

#[test]
fn a_use_beyond_the_notes_sees_a_replacement_whole() {
    loom::model(|| {
        let world = World::new(5);
        let on = on(0);
        let held: Vec<_> = (1..5)
            .map(|slot| world.using(&on, slot, 1).unwrap())
            .collect();
        let remover = thread::spawn({
            let world = world.clone();
            move || {
                let cpu = Cpu::new(1);
                let old = world.take(&cpu, 0, Some(Checked::boxed(7))).unwrap();
                world.reclaim(&cpu, old);
            }
        });
        assert!(matches!(read(&world, 0, 1), Some(1 | 7)));
        remover.join().unwrap();
        drop(held);
    });
}

#[test]
fn an_inner_use_that_ends_leaves_the_outer_one_protected() {
    loom::model(|| {
        let world = World::new(1);
        let entry = thread::spawn({
            let world = world.clone();
            move || {
                let on = on(0);
                let outer = world.using(&on, 0, 1);
                assert!(matches!(read(&world, 0, 1), Some(1) | None));
                if let Some(outer) = outer {
                    assert_eq!(outer.read(), 1);
                }
            }
        });
        let cpu = Cpu::new(1);
        let old = world.take(&cpu, 0, None).unwrap();
        world.reclaim(&cpu, old);
        entry.join().unwrap();
    });
}
