// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounded waits of tests, and elapsed time.

use irq_hal::platform::Ticks;
use irq_hal::{Platform, percpu};

use crate::machine::Machine;
use crate::println;

/// A moment that comes.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    from: Ticks,
    span: Ticks,
}

impl Deadline {
    /// `millis` milliseconds from now.
    pub fn after<P: Platform + ?Sized>(platform: &P, millis: u32) -> Self {
        let span = Ticks(platform.ticks_in(1_000).0.saturating_mul(u64::from(millis)));
        Self {
            from: platform.now(),
            span,
        }
    }

    /// Whether it has come.
    pub fn passed<P: Platform + ?Sized>(&self, platform: &P) -> bool {
        platform.now().since(self.from) >= self.span
    }
}

/// Polls of a wait before it begins to sleep between them.
const SPINS: u32 = 30;

/// Sleep between two polls, in microseconds: what is waited for need not interrupt. Each is twice
/// as long as the last one, up to the longest: many CPUs wait at once.
const NAP_US: u32 = 100;
const LONGEST_NAP_US: u32 = 10_000;

/// Polls `done` until it is true, at most `millis` milliseconds; says whether it was. `done` is
/// called once more after the time is over.
///
/// After a few polls the CPU sleeps between them, with a moment as the end or an interrupt.
///
/// # Context
/// Interrupts enabled, where `done` waits for one. `done` may be called with them masked.
pub fn wait_for(machine: &dyn Machine, millis: u32, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Deadline::after(machine, millis);
    let mut nap = machine.ticks_in(NAP_US).0;
    let longest = machine.ticks_in(LONGEST_NAP_US).0;
    let mut polls = 0;
    while !done() {
        if deadline.passed(machine) {
            return done();
        }
        if polls < SPINS {
            polls += 1;
            machine.relax();
        } else if percpu::masked(machine, |_| {
            let done = done();
            if !done {
                machine.sleep(Some(Ticks(machine.now().0.wrapping_add(nap))));
            }
            done
        }) {
            return true;
        } else {
            nap = longest.min(2 * nap);
        }
    }
    true
}

/// Lets `millis` milliseconds pass, in which nothing is expected to happen.
pub fn pass(machine: &dyn Machine, millis: u32) {
    wait_for(machine, millis, || false);
}

/// Whole milliseconds since `start`.
pub fn millis_since<P: Platform + ?Sized>(platform: &P, start: Ticks) -> u64 {
    platform.now().since(start).0 / platform.ticks_in(1_000).0.max(1)
}

/// Says now and then how far a long test is: a run that is silent for long is cut off.
#[derive(Debug)]
pub struct Progress {
    last: Deadline,
}

impl Progress {
    /// Between two lines, in milliseconds.
    const EVERY_MS: u32 = 5_000;

    /// Nothing is said before five seconds are over.
    pub fn new(machine: &dyn Machine) -> Self {
        let last = Deadline::after(machine, Self::EVERY_MS);
        Self { last }
    }

    /// `done` of `all`, in words.
    pub fn say(&mut self, machine: &dyn Machine, what: &str, done: u64, all: u64) {
        if self.last.passed(machine) {
            println!("{what}: {done} of {all}");
            *self = Self::new(machine);
        }
    }
}
