// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value with one user at a time: nesting, unwinding. Its interleavings are tried in
//! `loom_exclusive.rs`.
#![cfg(not(loom))]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use irq_hal::exclusive::Exclusive;

#[test]
fn a_run_changes_the_value_and_says_that_it_ran() {
    let mut exclusive = Exclusive::new(5);
    assert!(exclusive.run(|value| *value += 1));
    assert!(exclusive.run(|value| *value += 1));
    assert_eq!(*exclusive.get_mut(), 7);
}

#[test]
fn a_nested_run_returns_at_once_and_the_outer_one_runs_once_more() {
    let (exclusive, nested) = (Exclusive::new(0), Cell::new(0));
    let ran = exclusive.run(|value| {
        *value += 1;
        // Two nested calls in the first run are one run more.
        while nested.get() < 2 {
            nested.set(nested.get() + 1);
            assert!(!exclusive.run(|_| panic!("two at a time")));
        }
    });
    assert!(ran);
    assert!(exclusive.run(|value| assert_eq!(*value, 2)));
}

#[test]
fn a_value_is_usable_after_a_run_that_unwound_and_what_was_owed_is_one_run() {
    let exclusive = Exclusive::new(0);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        exclusive.run(|value| {
            *value += 1;
            assert!(!exclusive.run(|_| panic!("two at a time")));
            panic!("inside a run");
        })
    }));
    assert!(unwound.is_err());
    let mut runs = 0;
    assert!(exclusive.run(|value| {
        runs += 1;
        assert_eq!(*value, 1);
    }));
    assert_eq!(runs, 1);
}

#[test]
fn a_value_that_can_be_sent_is_shared() {
    fn shared<T: Sync>(_: &T) {}
    // Not `Sync` itself.
    shared(&Exclusive::new(Cell::new(0)));
}
