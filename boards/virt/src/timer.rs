// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generic timer: the virtual counter, its compare interrupt, and the physical timer, whose
//! line ends a sleep.

use core::sync::atomic::{Ordering, compiler_fence};

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::{
    CNTFRQ_EL0, CNTP_CTL_EL0, CNTP_TVAL_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTVCT_EL0,
};
use irq_hal::platform::Ticks;
use tock_registers::interfaces::{Readable, Writeable};

/// The counter, read after every earlier instruction.
pub fn now() -> Ticks {
    barrier::isb(barrier::SY);
    Ticks(CNTVCT_EL0.get())
}

/// Ticks in `micros` microseconds.
pub fn ticks_in(micros: u32) -> Ticks {
    Ticks(u64::from(micros) * CNTFRQ_EL0.get() / 1_000_000)
}

/// Lets the timer's line rise at `at`, and stay up until it is set again or stopped.
pub fn arm(at: Ticks) {
    // What the handler is to see is stored before: to the compiler these register writes touch
    // no memory.
    compiler_fence(Ordering::SeqCst);
    CNTV_CVAL_EL0.set(at.0);
    CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::SET);
    // The line's new level must reach the controller before the interrupt is ended.
    barrier::isb(barrier::SY);
}

/// Lowers the line for good.
pub fn stop() {
    CNTV_CTL_EL0.set(0);
    barrier::isb(barrier::SY);
}

/// Lets the physical timer's line rise at `at`, or earlier if that is more than
/// 31 bits of ticks away. The two timers may count from different moments, so it is set by the
/// distance.
pub fn wake_at(at: Ticks) {
    let left = at.0.wrapping_sub(now().0) as i64;
    CNTP_TVAL_EL0.set(left.clamp(0, i32::MAX.into()) as u64);
    CNTP_CTL_EL0.write(CNTP_CTL_EL0::ENABLE::SET);
    barrier::isb(barrier::SY);
}

/// Lowers that line.
pub fn wake_no_more() {
    CNTP_CTL_EL0.set(0);
    barrier::isb(barrier::SY);
}
