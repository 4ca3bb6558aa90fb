// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of calls that want the same value. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-hal --release --test loom_exclusive`.
//!
//! Which test fails when an ordering of `Exclusive` is `Relaxed`:
//! - the acquire of `swap`, the release of `compare_exchange`: `runs_follow_each_other`;
//! - the release of `fetch_or`: `each_call_is_followed_by_a_run_that_sees_what_was_before_it`;
//! - the release of `fetch_and`: `a_run_after_one_that_unwound_sees_what_it_left`.
#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use irq_hal::exclusive::Exclusive;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

/// A value whose every access loom checks.
struct Checked(UnsafeCell<u32>);

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Send for Checked {}

impl Checked {
    fn add(&mut self) -> u32 {
        // SAFETY: loom has checked that no access is concurrent.
        self.0.with_mut(|value| unsafe {
            *value += 1;
            *value
        })
    }
}

fn new() -> Arc<Exclusive<Checked>> {
    Arc::new(Exclusive::new(Checked(UnsafeCell::new(0))))
}

#[test]
fn runs_follow_each_other() {
    loom::model(|| {
        let exclusive = new();
        let other = thread::spawn({
            let exclusive = exclusive.clone();
            move || exclusive.run(|value| _ = value.add())
        });
        let here = exclusive.run(|value| _ = value.add());
        let there = other.join().unwrap();
        assert!(here || there);
        // One run may follow both calls.
        let mut runs = 0;
        exclusive.run(|value| runs = value.add() - 1);
        assert!((1..=2).contains(&runs));
    });
}

#[test]
fn each_call_is_followed_by_a_run_that_sees_what_was_before_it() {
    loom::model(|| {
        let exclusive = new();
        let events = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let served = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let call = |who: usize| {
            let (exclusive, events, served) = (exclusive.clone(), events.clone(), served.clone());
            move || {
                events[who].store(1, Relaxed);
                exclusive.run(|value| {
                    value.add();
                    for (event, served) in events.iter().zip(served.iter()) {
                        served.fetch_or(event.load(Relaxed), Relaxed);
                    }
                });
            }
        };
        let other = thread::spawn(call(0));
        call(1)();
        other.join().unwrap();
        assert!(served.iter().all(|served| served.load(Relaxed) == 1));
    });
}

#[test]
fn a_run_after_one_that_unwound_sees_what_it_left() {
    loom::model(|| {
        let exclusive = new();
        let other = thread::spawn({
            let exclusive = exclusive.clone();
            move || {
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    exclusive.run(|value| {
                        value.add();
                        std::panic::resume_unwind(Box::new(()));
                    })
                }));
            }
        });
        exclusive.run(|value| _ = value.add());
        other.join().unwrap();
        assert!(exclusive.run(|_| ()));
    });
}
