// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time base, and the decrementer: one per CPU, for its timer and for the end of a sleep.
//!
//! The decrementer's interrupt comes by a vector of its own, without the XIVE, for as long as the
//! count is negative.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use irq_hal::platform::Ticks;

use crate::cpu::{self, CpuBlock, Spr};

/// Of `timebase-frequency`; what the machines have, until the devicetree is read.
static PER_SECOND: AtomicU64 = AtomicU64::new(512_000_000);

/// No moment.
const NEVER: u64 = u64::MAX;

/// Sets how many ticks a second has.
pub fn set_frequency(per_second: u32) {
    PER_SECOND.store(per_second.into(), Relaxed);
}

/// Ticks of a second.
pub fn frequency() -> u64 {
    PER_SECOND.load(Relaxed)
}

/// The time base.
#[inline]
pub fn now() -> Ticks {
    Ticks(Spr::<268>::get())
}

/// Ticks in `micros` microseconds.
pub fn ticks_in(micros: u32) -> Ticks {
    Ticks(u64::from(micros) * frequency() / 1_000_000)
}

/// Lets the timer of this CPU interrupt at `at`, once.
pub fn arm(at: Ticks) {
    let block = cpu::this();
    block.timer.store(at.0, Relaxed);
    // What the handler is to see is stored before: the write of the register is not `nomem`.
    count_to(at.0);
}

/// Takes the interrupt back.
pub fn stop() {
    arm(Ticks(NEVER));
}

/// Ends a sleep of this CPU at `at`, or when its timer interrupts.
pub fn wake_at(at: Ticks) {
    count_to(at.0.min(cpu::this().timer.load(Relaxed)));
}

/// Takes that back.
pub fn wake_no_more() {
    count_to(cpu::this().timer.load(Relaxed));
}

/// Whether the decrementer's interrupt is the timer's. Lowers it in either case.
pub fn expired(block: &CpuBlock) -> bool {
    let at = block.timer.load(Relaxed);
    let expired = at <= now().0;
    if expired {
        block.timer.store(NEVER, Relaxed);
    }
    count_to(if expired { NEVER } else { at });
    expired
}

fn count_to(at: u64) {
    // Zero is not negative yet: the interrupt comes a tick later.
    cpu::set_decrementer(at.saturating_sub(now().0));
}
