// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of removal on one thread: errors, nesting, what is freed when. Its interleavings
//! are tried in `loom_removal.rs`.
#![cfg(not(loom))]

mod common;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use common::Cpu;
use irq_hal::percpu::{CachePadded, OnCpu, PerCpu};
use irq_hal::platform::Ticks;
use irq_hal::removal::{Reader, Table, Using};
use irq_hal::wait::Bound;
use irq_hal::{CpuIndex, Error, ErrorKind};

const SHORT: Bound = Bound {
    ticks: Ticks(u64::MAX),
    polls: 10,
};

/// Places for counted values, each with its own index beside it.
type Places = Table<Arc<u32>, u32, ()>;

fn table(cpus: u32, places: u32) -> Places {
    let readers = PerCpu::new(cpus, |_| Reader::new(())).unwrap();
    Table::new(readers, places, |index| index).unwrap()
}

fn on(cpu: u32) -> OnCpu {
    // SAFETY: a test is one thread and plays one CPU at a time.
    unsafe { OnCpu::new(CpuIndex::new(cpu)) }
}

fn put(table: &Places, index: u32, value: &Arc<u32>) {
    let old = table.replace(&Cpu::new(1), index, Some(Box::new(value.clone())));
    assert!(old.is_ok_and(|old| old.is_none()));
}

fn read<'a>(table: &'a Places, index: u32, on: &'a OnCpu) -> Option<Using<'a, Arc<u32>>> {
    table.here(on)?.at(index)?.read(0)
}

#[test]
fn an_empty_place_an_unknown_place_and_an_unknown_cpu_read_nothing() {
    let table = table(2, 1);
    assert!(read(&table, 0, &on(0)).is_none());
    put(&table, 0, &Arc::new(5));
    assert_eq!(read(&table, 0, &on(1)).map(|value| **value), Some(5));
    assert!(read(&table, 1, &on(0)).is_none());
    assert!(table.here(&on(2)).is_none());
}

#[test]
fn an_empty_place_leaves_no_note() {
    let table = table(1, 1);
    let on = on(0);
    for _ in 0..10 {
        assert!(read(&table, 0, &on).is_none());
    }
    assert!(!table.in_use_here(&Cpu::new(0)));
}

#[test]
fn data_and_blocks_stand_where_they_were_put() {
    let readers = PerCpu::new(2, |cpu| Reader::new(cpu.get() + 10)).unwrap();
    let table: Table<(), u32, u32> = Table::new(readers, 3, |index| index * 2).unwrap();
    assert_eq!((table.len(), table.is_empty(), table.cpus()), (3, false, 2));
    assert_eq!((table.data(2), table.data(3)), (Some(&4), None));
    assert_eq!(table.block(CpuIndex::new(1)), Some(&11));
    assert_eq!(table.block(CpuIndex::new(2)), None);
    assert_eq!(table.blocks().copied().collect::<Vec<_>>(), [10, 11]);
    let on = on(1);
    let here = table.here(&on).unwrap();
    assert_eq!((*here.block(), *here.at(1).unwrap().data()), (11, 2));
}

#[test]
fn a_value_goes_back_to_its_own_table_only() {
    let (first, second) = (table(1, 1), table(1, 1));
    put(&first, 0, &Arc::new(5));
    let old = first.replace(&Cpu::new(0), 0, None).unwrap().unwrap();
    let (error, old) = old.reclaim(&Cpu::new(0), &second, SHORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(**old.reclaim(&Cpu::new(0), &first, SHORT).unwrap(), 5);
}

#[test]
fn a_place_that_is_not_there_is_an_error_and_the_value_comes_back() {
    let table = table(1, 1);
    let value = Some(Box::new(Arc::new(5)));
    let (error, back) = table.replace(&Cpu::new(0), 1, value).unwrap_err();
    assert_eq!((error.kind(), back.is_some()), (ErrorKind::Invalid, true));
    let error = table.synchronize(&Cpu::new(0), 1, SHORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_table_without_a_cpu_is_refused() {
    let none: PerCpu<Reader<()>> = PerCpu::new(0, |_| unreachable!()).unwrap();
    assert_eq!(
        Table::<(), (), ()>::new(none, 1, |_| ()).unwrap_err(),
        Error::Invalid {
            what: "number of CPUs",
            value: 0
        }
    );
}

#[test]
fn a_reader_serves_one_table_at_a_time() {
    let lend = || -> &'static CachePadded<Reader<()>> {
        Box::leak(Box::new(CachePadded::new(Reader::new(()))))
    };
    let (one, other) = (lend(), lend());
    let make = |readers: &[&'static CachePadded<Reader<()>>]| -> Result<Places, Error> {
        let readers = PerCpu::from_blocks(readers.iter().copied())?;
        Table::new(readers, 1, |index| index)
    };
    let busy = Some(Error::Busy {
        what: "the block of a CPU",
    });
    // Twice in a table: refused, and free again afterwards.
    assert_eq!(make(&[one, one]).err(), busy);
    let first = make(&[one]).unwrap();
    assert_eq!(make(&[other, one]).err(), busy);
    let second = make(&[other]).unwrap();
    drop(first);
    let both = make(&[one, other]);
    assert_eq!(both.err(), busy);
    drop(second);
    assert!(make(&[one, other]).is_ok());
}

#[test]
fn a_table_may_move_while_its_values_are_out() {
    let table = table(1, 1);
    put(&table, 0, &Arc::new(5));
    let old = table.replace(&Cpu::new(0), 0, None).unwrap().unwrap();
    let moved = Box::new(table);
    assert!(old.reclaim(&Cpu::new(0), &*moved, SHORT).is_ok());
}

#[test]
fn a_value_in_use_is_not_reclaimed_until_the_use_ends_at_any_depth() {
    for depth in 1..8 {
        let table = table(2, 1);
        let value = Arc::new(5);
        put(&table, 0, &value);
        let on = on(0);
        let mut uses: Vec<_> = (0..depth).map(|_| read(&table, 0, &on).unwrap()).collect();
        let remover = Cpu::new(1);
        let mut old = table.replace(&remover, 0, None).unwrap().unwrap();
        while let Some(last) = uses.pop() {
            let (error, back) = old.reclaim(&remover, &table, SHORT).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert_eq!((**last, Arc::strong_count(&value)), (5, 2));
            old = back;
            drop(last);
        }
        drop(old.reclaim(&remover, &table, SHORT).unwrap());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn a_use_on_any_cpu_in_any_note_or_beyond_them_is_waited_for() {
    for (cpu, depth) in (0..3).flat_map(|cpu| (0..5).map(move |depth| (cpu, depth))) {
        let table = table(4, 2);
        put(&table, 0, &Arc::new(5));
        put(&table, 1, &Arc::new(6));
        let (on, remover) = (on(cpu), Cpu::new(3));
        let others: Vec<_> = (0..depth).map(|_| read(&table, 1, &on).unwrap()).collect();
        let used = read(&table, 0, &on).unwrap();
        let old = table.replace(&remover, 0, None).unwrap().unwrap();
        let (error, old) = old.reclaim(&remover, &table, SHORT).unwrap_err();
        assert_eq!((error.kind(), **used), (ErrorKind::Timeout, 5));
        drop(used);
        assert!(old.reclaim(&remover, &table, SHORT).is_ok());
        drop(others);
    }
}

#[test]
fn a_first_use_is_refused_under_another_one_and_is_waited_for_like_any_other() {
    let table = table(2, 2);
    put(&table, 0, &Arc::new(5));
    let (on, remover) = (on(0), Cpu::new(1));
    let at = |index| table.here(&on).unwrap().at(index).unwrap();
    // An empty place is no use.
    assert!(at(1).read_first(1).unwrap().is_none());
    let outer = at(0).read_first(1).unwrap().unwrap();
    assert!(at(1).read_first(2).is_err());
    assert!(at(0).read_first(2).is_err());
    drop(at(0).read(2).unwrap());
    assert!(at(1).read(3).is_none());
    let old = table.replace(&remover, 0, None).unwrap().unwrap();
    let (error, old) = old.reclaim(&remover, &table, SHORT).unwrap_err();
    assert_eq!((error.kind(), **outer), (ErrorKind::Timeout, 5));
    drop(outer);
    assert!(old.reclaim(&remover, &table, SHORT).is_ok());
    assert!(at(0).read_first(4).unwrap().is_none());
}

#[test]
fn a_use_of_another_value_does_not_hold_a_removal_up() {
    let table = table(2, 2);
    put(&table, 0, &Arc::new(5));
    put(&table, 1, &Arc::new(6));
    let on = on(0);
    let used = read(&table, 1, &on).unwrap();
    let old = table.replace(&Cpu::new(1), 0, None).unwrap().unwrap();
    assert!(old.reclaim(&Cpu::new(1), &table, SHORT).is_ok());
    assert_eq!(**used, 6);
}

#[test]
fn a_place_that_is_always_in_use_by_another_entry_holds_no_wait_up() {
    std::thread_local! {
        static USE: RefCell<Option<Using<'static, Arc<u32>>>> = const { RefCell::new(None) };
    }
    static TABLE: OnceLock<Places> = OnceLock::new();
    static TAG: AtomicU32 = AtomicU32::new(0);
    // A new use before each poll: the waiter never sees the place unused.
    fn storm(_: &Cpu) {
        let place = TABLE.get().unwrap().here(Box::leak(Box::new(on(0))));
        USE.take();
        let tag = TAG.fetch_add(1, SeqCst);
        USE.set(place.unwrap().at(0).unwrap().read(tag));
    }
    let mut waiter = Cpu::new(1);
    waiter.on_relax = Some(storm);
    let table = TABLE.get_or_init(|| table(2, 1));
    put(table, 0, &Arc::new(5));
    storm(&waiter);
    assert_eq!(table.synchronize(&waiter, 0, SHORT), Ok(()));
    assert_eq!(waiter.relaxed.get(), 1);
    let old = table.replace(&waiter, 0, None).unwrap().unwrap();
    assert!(old.reclaim(&waiter, table, SHORT).is_ok());
}

#[test]
fn a_wait_that_has_seen_one_use_end_goes_on_for_the_others() {
    std::thread_local! {
        static USE: RefCell<Option<Using<'static, Arc<u32>>>> = const { RefCell::new(None) };
    }
    static TABLE: OnceLock<Places> = OnceLock::new();
    fn uses(cpu: u32, tag: u32) -> Option<Using<'static, Arc<u32>>> {
        let on = Box::leak(Box::new(on(cpu)));
        TABLE.get().unwrap().here(on).unwrap().at(0)?.read(tag)
    }
    let table = TABLE.get_or_init(|| table(3, 1));
    put(table, 0, &Arc::new(5));
    let mut waiter = Cpu::new(2);
    waiter.on_relax = Some(|_| drop(USE.take()));
    let other = uses(1, 2).unwrap();
    USE.set(uses(0, 1));
    let old = table.replace(&waiter, 0, None).unwrap().unwrap();
    let (error, old) = old.reclaim(&waiter, table, SHORT).unwrap_err();
    assert_eq!((error.kind(), **other), (ErrorKind::Timeout, 5));
    assert!(USE.take().is_none());
    drop(other);
    assert!(old.reclaim(&waiter, table, SHORT).is_ok());
}

#[test]
fn waiting_and_replacing_from_inside_a_use_on_the_same_cpu_are_errors_at_any_depth() {
    for depth in 1..7 {
        let table = table(2, 2);
        put(&table, 0, &Arc::new(5));
        let on = on(0);
        let uses: Vec<_> = (0..depth).map(|_| read(&table, 0, &on).unwrap()).collect();
        assert!(table.in_use_here(&Cpu::new(0)));
        let new = Some(Box::new(Arc::new(6)));
        let (error, back) = table.replace(&Cpu::new(0), 0, new).unwrap_err();
        assert_eq!(
            (error.kind(), back.map(|new| **new)),
            (ErrorKind::Context, Some(6))
        );
        for place in [0, 1] {
            let waited = table.synchronize(&Cpu::new(0), place, SHORT);
            assert_eq!(
                waited.map_err(|error| error.kind()),
                Err(ErrorKind::Context)
            );
        }
        assert!(!table.in_use_here(&Cpu::new(1)));
        drop(uses);
        assert!(!table.in_use_here(&Cpu::new(0)));
        assert!(table.synchronize(&Cpu::new(0), 0, SHORT).is_ok());
        assert!(table.replace(&Cpu::new(0), 0, None).is_ok());
    }
}

#[test]
fn a_table_that_is_dropped_frees_its_values() {
    let table = table(1, 2);
    let value = Arc::new(5);
    put(&table, 1, &value);
    drop(table);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_retired_value_that_is_dropped_leaks() {
    let table = table(1, 1);
    let value = Arc::new(5);
    put(&table, 0, &value);
    let _ = table.replace(&Cpu::new(0), 0, None).unwrap();
    assert_eq!(Arc::strong_count(&value), 2);
}
