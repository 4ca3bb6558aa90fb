// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds of a wait: by time, by polls, whichever comes first.
#![cfg(not(loom))]

mod common;

use std::cell::Cell;

use common::Cpu;
use irq_hal::platform::Ticks;
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Error, ErrorKind};

static READY: WaitFor = WaitFor {
    register: "GICR_WAKER",
    state: "ChildrenAsleep=0",
};

/// Waits for a register that shows 1 from poll `ready` on (counted from 1), and counts polls.
fn polls(cpu: &Cpu, bound: Bound, ready: u32) -> (Result<u32, Error>, u32) {
    let polls = Cell::new(0);
    let read = || {
        polls.set(polls.get() + 1);
        u32::from(polls.get() >= ready)
    };
    (
        wait(cpu, &READY, bound, read, |value| value == 1),
        polls.get(),
    )
}

fn bound(ticks: u64, polls: u32) -> Bound {
    Bound {
        ticks: Ticks(ticks),
        polls,
    }
}

#[test]
fn a_register_that_is_ready_is_read_once_and_costs_no_time() {
    let cpu = Cpu::new(0);
    assert_eq!(polls(&cpu, bound(0, 0), 1), (Ok(1), 1));
    assert_eq!(cpu.relaxed.get(), 0);
}

#[test]
fn a_wait_returns_the_value_that_ended_it_and_relaxes_between_polls() {
    let cpu = Cpu::new(0);
    assert_eq!(polls(&cpu, bound(1, 100), 5), (Ok(1), 5));
    assert_eq!(cpu.relaxed.get(), 4);
}

#[test]
fn polls_alone_end_a_wait_whose_clock_stands_still() {
    let cpu = Cpu::new(0);
    let timeout = Error::Timeout {
        what: &READY,
        last: 0,
    };
    assert_eq!(polls(&cpu, bound(1, 100), u32::MAX), (Err(timeout), 100));
    assert_eq!(timeout.kind(), ErrorKind::Timeout);
}

#[test]
fn time_alone_ends_a_wait_with_polls_to_spare() {
    let mut cpu = Cpu::new(0);
    cpu.tick = 10;
    let (result, polls) = polls(&cpu, bound(100, u32::MAX), u32::MAX);
    assert!(result.is_err());
    // Each round moves the clock by 20: one `now`, one `relax`.
    assert!((5..=7).contains(&polls), "{polls}");
}

#[test]
fn a_register_that_got_ready_while_the_cpu_was_held_up_is_not_a_timeout() {
    let mut cpu = Cpu::new(0);
    // The very first look at the clock finds the time over.
    cpu.tick = 1_000;
    assert_eq!(polls(&cpu, bound(100, u32::MAX), 2), (Ok(1), 2));
    assert_eq!(
        polls(&cpu, bound(100, u32::MAX), 3).0.map_err(|e| e.kind()),
        Err(ErrorKind::Timeout)
    );
}

#[test]
fn a_bound_of_no_polls_still_reads_once() {
    let cpu = Cpu::new(0);
    let (result, polls) = polls(&cpu, bound(u64::MAX, 0), 2);
    assert!(result.is_err());
    assert_eq!(polls, 1);
}

#[test]
fn a_span_is_right_across_a_wrap_of_the_counter() {
    assert_eq!(Ticks(5).since(Ticks(u64::MAX - 4)), Ticks(10));
}

#[test]
fn a_bound_in_microseconds_is_converted_by_the_platform() {
    assert_eq!(Bound::new(&Cpu::new(0), 250, 9), bound(250, 9));
}

#[test]
fn the_error_carries_the_last_value() {
    let values = Cell::new(7_u64);
    let read = || {
        values.set(values.get() + 1);
        values.get()
    };
    let result = wait(&Cpu::new(0), &READY, bound(1, 3), read, |_| false);
    assert_eq!(
        result,
        Err(Error::Timeout {
            what: &READY,
            last: 10
        })
    );
}
