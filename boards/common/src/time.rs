// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounded waits of tests, and elapsed time.

use irq_hal::Platform;
use irq_hal::platform::Ticks;

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

/// Polls `done` until it is true, at most `millis` milliseconds; says whether it was. `done` is
/// called once more after the time is over.
///
/// # Context
/// Interrupts enabled, where `done` waits for one.
pub fn wait_for<P: Platform + ?Sized>(
    platform: &P,
    millis: u32,
    mut done: impl FnMut() -> bool,
) -> bool {
    let deadline = Deadline::after(platform, millis);
    while !done() {
        if deadline.passed(platform) {
            return done();
        }
        platform.relax();
    }
    true
}

/// Lets `millis` milliseconds pass, in which nothing is expected to happen.
pub fn pass<P: Platform + ?Sized>(platform: &P, millis: u32) {
    wait_for(platform, millis, || false);
}

/// Whole milliseconds since `start`.
pub fn millis_since<P: Platform + ?Sized>(platform: &P, start: Ticks) -> u64 {
    platform.now().since(start).0 / platform.ticks_in(1_000).0.max(1)
}
