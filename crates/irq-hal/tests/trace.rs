// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracer, and what it says about the cell of removal. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-hal --test trace`.
#![cfg(irq_trace)]

mod common;

use common::Cpu;
use irq_hal::CpuIndex;
use irq_hal::atomic::trace::{Kind, on_cpu, record, shared_lines};
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::{OnCpu, PerCpu};
use irq_hal::removal::{Reader, Table};

const CPUS: u32 = 4;

fn each_cpu(mut f: impl FnMut(CpuIndex)) {
    for cpu in (0..CPUS).map(CpuIndex::new) {
        on_cpu(cpu, || f(cpu));
    }
}

#[test]
fn trace_finds_a_counter_that_all_cpus_write() {
    let counter = AtomicU64::new(0);
    let events = record(|| each_cpu(|_| _ = counter.fetch_add(1, Relaxed)));
    assert_eq!(events.len(), CPUS as usize);
    let shared = shared_lines(&events);
    assert_eq!(shared.len(), 1);
    assert_eq!(shared[0].writers.len(), CPUS as usize);
}

#[test]
fn trace_finds_a_line_that_one_cpu_writes_and_another_reads() {
    let flag = AtomicU64::new(0);
    let events = record(|| {
        on_cpu(CpuIndex::new(0), || flag.store(1, Relaxed));
        on_cpu(CpuIndex::new(1), || flag.load(Relaxed));
    });
    let shared = shared_lines(&events);
    assert_eq!(shared.len(), 1);
    assert_eq!(
        (&shared[0].writers[..], shared[0].cpus.len()),
        (&[CpuIndex::new(0)][..], 2)
    );
}

#[test]
fn trace_finds_two_words_on_one_line() {
    #[repr(align(128))]
    struct Line([AtomicU64; 2]);
    let line = Line([AtomicU64::new(0), AtomicU64::new(0)]);
    let events = record(|| {
        on_cpu(CpuIndex::new(0), || line.0[0].store(1, Relaxed));
        on_cpu(CpuIndex::new(1), || line.0[1].store(1, Relaxed));
    });
    assert_eq!(shared_lines(&events).len(), 1);
}

#[test]
fn trace_leaves_alone_what_is_only_read_and_what_one_cpu_uses() {
    let read = AtomicU64::new(0);
    let own = PerCpu::new(CPUS, |_| AtomicU64::new(0)).unwrap();
    let events = record(|| {
        each_cpu(|cpu| {
            read.load(Relaxed);
            own.get(cpu).unwrap().fetch_add(1, Relaxed);
        });
    });
    assert_eq!(events.len(), 2 * CPUS as usize);
    assert_eq!(shared_lines(&events), []);
}

#[test]
fn trace_records_no_access_outside_of_a_cpu_or_of_a_recording() {
    let word = AtomicU64::new(0);
    on_cpu(CpuIndex::new(0), || word.store(1, Relaxed));
    assert_eq!(record(|| word.store(2, Relaxed)), []);
}

#[test]
fn trace_tells_a_failed_exchange_from_one_that_wrote() {
    let word = AtomicU64::new(0);
    let events = record(|| {
        on_cpu(CpuIndex::new(0), || {
            assert!(word.compare_exchange(1, 2, Relaxed, Relaxed).is_err());
            assert!(word.compare_exchange(0, 2, Relaxed, Relaxed).is_ok());
        });
    });
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Read, Kind::Update]);
}

#[test]
fn trace_counts_each_lock_that_is_taken() {
    let lock = MaskedLock::<u32, 5>::new(0);
    let events = record(|| each_cpu(|cpu| lock.with(&Cpu::new(cpu.get()), |_| ())));
    let locks = events
        .iter()
        .filter(|event| event.kind == Kind::Lock)
        .count();
    assert_eq!(locks, CPUS as usize);
    assert_eq!(shared_lines(&events).len(), 1);
}

#[test]
fn trace_shows_that_a_read_of_a_place_writes_no_line_of_another_cpu() {
    let readers = PerCpu::new(CPUS, |_| Reader::new(())).unwrap();
    let table = Table::<u32, (), ()>::new(readers, 1, |_| ()).unwrap();
    let put = table.replace(&Cpu::new(0), 0, Some(Box::new(7)));
    assert!(put.is_ok());
    let events = record(|| {
        each_cpu(|cpu| {
            // SAFETY: this thread plays one CPU at a time.
            let on = unsafe { OnCpu::new(cpu) };
            let place = table.here(&on).unwrap().at(0).unwrap();
            assert_eq!(place.read(1).as_deref(), Some(&7));
        });
    });
    assert_eq!(shared_lines(&events), []);
    // A note and its withdrawal on each CPU.
    assert_eq!(
        events.iter().filter(|event| event.kind.writes()).count(),
        2 * CPUS as usize
    );
}
