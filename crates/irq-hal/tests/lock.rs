// SPDX-License-Identifier: MIT OR Apache-2.0
//! Masking, order and exclusion of the locks.
#![cfg(not(loom))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::Cpu;
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::masked;

type Outer = MaskedLock<u32, 3>;
type Inner = MaskedLock<u32, 5>;

#[test]
fn interrupts_are_masked_while_a_lock_is_held_and_as_before_afterwards() {
    let (cpu, outer, inner) = (Cpu::new(0), Outer::new(1), Inner::new(2));
    let sum = outer.with(&cpu, |a| {
        assert_eq!(cpu.masked.get(), 1);
        let sum = *a
            + inner.with(&cpu, |b| {
                assert_eq!(cpu.masked.get(), 2);
                *b
            });
        assert_eq!(cpu.masked.get(), 1);
        sum
    });
    assert_eq!((sum, cpu.masked.get(), cpu.saves.get()), (3, 0, 2));
}

#[test]
fn the_lock_is_free_before_the_mask_is_restored() {
    static LOCK: Inner = Inner::new(0);
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let mut cpu = Cpu::new(0);
    // A restore may run the scheduler, which may take the same lock.
    cpu.on_restore = Some(|_| {
        LOCK.with(&Cpu::new(0), |value| SEEN.store(*value, Ordering::Relaxed));
    });
    LOCK.with(&cpu, |value| *value = 7);
    assert_eq!(SEEN.load(Ordering::Relaxed), 7);
}

#[test]
fn the_rank_is_given_up_before_the_mask_is_restored() {
    static LOCK: Inner = Inner::new(0);
    static RESTORES: AtomicU32 = AtomicU32::new(0);
    let mut cpu = Cpu::new(0);
    cpu.on_restore = Some(|cpu| {
        if RESTORES.fetch_add(1, Ordering::Relaxed) == 0 {
            LOCK.with(cpu, |_| ());
        }
    });
    LOCK.with(&cpu, |_| ());
    assert_eq!(RESTORES.load(Ordering::Relaxed), 2);
}

#[test]
fn an_unwinding_closure_leaves_the_lock_free_and_the_mask_restored() {
    let (cpu, lock) = (Cpu::new(0), Inner::new(4));
    let unwound = catch_unwind(AssertUnwindSafe(|| lock.with(&cpu, |_| panic!("inside"))));
    assert!(unwound.is_err());
    assert_eq!(cpu.masked.get(), 0);
    assert_eq!(lock.with(&cpu, |value| *value), 4);
}

#[test]
#[cfg(debug_assertions)]
fn a_lock_of_the_same_or_a_lower_rank_inside_another_is_found_and_leaves_nothing_held() {
    let (cpu, outer, inner) = (Cpu::new(0), Outer::new(0), Inner::new(0));
    let same = MaskedLock::<u32, 5>::new(0);
    for wrong in [
        catch_unwind(AssertUnwindSafe(|| {
            inner.with(&cpu, |_| outer.with(&cpu, |_| ()))
        })),
        catch_unwind(AssertUnwindSafe(|| {
            inner.with(&cpu, |_| same.with(&cpu, |_| ()))
        })),
    ] {
        let text = *wrong.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("taken under ranks 0b100000"), "{text}");
        assert_eq!(cpu.masked.get(), 0);
    }
    outer.with(&cpu, |_| inner.with(&cpu, |_| ()));
}

#[test]
fn one_cpu_at_a_time_is_inside() {
    const ROUNDS: u32 = 1_000;
    let (lock, inside) = (Inner::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let (lock, inside) = (&lock, &inside);
            scope.spawn(move || {
                let cpu = Cpu::new(cpu);
                for _ in 0..ROUNDS {
                    lock.with(&cpu, |value| {
                        assert!(!inside.swap(true, Ordering::Relaxed));
                        *value += 1;
                        inside.store(false, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(lock.with(&Cpu::new(0), |value| *value), 4 * ROUNDS);
}

#[test]
fn a_cpu_that_finds_the_lock_taken_relaxes_until_it_is_free() {
    static HELD: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    let lock = Inner::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lock.with(&Cpu::new(1), |_| {
                HELD.store(true, Ordering::Release);
                while !RELEASE.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
        });
        while !HELD.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let mut cpu = Cpu::new(0);
        // The holder goes on only when the waiting CPU relaxes.
        cpu.on_relax = Some(|_| RELEASE.store(true, Ordering::Release));
        lock.with(&cpu, |_| ());
        assert!(cpu.relaxed.get() >= 1);
    });
}

#[test]
fn exclusive_access_needs_no_lock() {
    let mut lock = Inner::new(1);
    *lock.get_mut() += 1;
    assert_eq!(lock.with(&Cpu::new(0), |value| *value), 2);
}

#[test]
fn a_masked_section_names_its_cpu_and_restores_also_when_it_unwinds() {
    let cpu = Cpu::new(3);
    let seen = masked(&cpu, |on| (on.cpu().get(), cpu.masked.get()));
    assert_eq!((seen, cpu.masked.get()), ((3, 1), 0));
    let unwound = catch_unwind(AssertUnwindSafe(|| masked(&cpu, |_| panic!("inside"))));
    assert!(unwound.is_err());
    assert_eq!(cpu.masked.get(), 0);
}
