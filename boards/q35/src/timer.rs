// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks: the time stamp counter, which is read, and the local APIC's timer, which
//! interrupts; both measured against the 8254, whose rate is known.
//!
//! The local APIC's timer counts down from what it is given, by a clock of its own. A deadline of
//! the time stamp counter becomes a count that is never too small, so that nothing is early.
//!
//! Sources: Intel SDM vol. 3, "Time-Stamp Counter" and "APIC Timer"; Intel 8254 data sheet,
//! "Mode 0: interrupt on terminal count"; port 61H in the data sheets of Intel's chipsets,
//! "NMI Status and Control".

use core::arch::asm;

use irq_hal::platform::Ticks;
use irq_hal::wait::WaitFor;
use irq_hal::{Bus, Error};
use irq_x2apic::Ports;
use irq_x2apic::regs::apic::ApicBus;
use irq_x2apic::timer::Timer;
use spin::Once;

/// The 8254's input, in Hz.
const PIT_HZ: u64 = 1_193_182;
/// Its command port, and the data port of counter 2.
const PIT_COMMAND: usize = 0x43;
const PIT_COUNTER_2: usize = 0x42;
/// Counter 2, low byte then high byte, mode 0, binary.
const PIT_MODE_0: u8 = 0b1011_0000;
/// Counter 2's gate (bit 0), the speaker (bit 1), counter 2's output (bit 5).
const PIT_GATE_PORT: usize = 0x61;
const GATE: u8 = 1;
const SPEAKER: u8 = 1 << 1;
const OUTPUT: u8 = 1 << 5;
/// How long is measured, in counts of the 8254: 10 ms.
const PIT_COUNTS: u16 = 11_932;
/// Polls of the 8254's output after which it is given up.
const POLLS: u32 = 10_000_000;
/// How often is measured. Whatever holds the CPU up makes a measurement longer: the shortest is
/// the best one.
const MEASURED: u32 = 3;

static TERMINAL_COUNT: WaitFor = WaitFor {
    register: "8254 counter 2",
    state: "terminal count",
};

/// For the measured clocks to drift apart: one in that many counts more.
const DRIFT: u64 = 1_000;

/// What was measured.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Ticks of the time stamp counter in a second.
    tsc_hz: u64,
    /// Counts of the local APIC's timer in 2^32 ticks, at most.
    counts: u64,
}

static RATES: Once<Rates> = Once::new();

/// What ticks are before they are measured: more than any CPU has in a microsecond.
const UNKNOWN_TICKS_PER_MICRO: u64 = 10_000;

/// The counter, read after every earlier instruction.
pub fn now() -> Ticks {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter. Not `nomem`: what was stored before is stored by then.
    unsafe {
        asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    Ticks(high << 32 | low)
}

/// Ticks in `micros` microseconds.
pub fn ticks_in(micros: u32) -> Ticks {
    let micros = u64::from(micros);
    match RATES.get() {
        Some(rates) => Ticks((u128::from(micros) * u128::from(rates.tsc_hz) / 1_000_000) as u64),
        None => Ticks(micros * UNKNOWN_TICKS_PER_MICRO),
    }
}

/// Counts of the local APIC's timer until `at`: at least 1, and none too few.
pub fn counts_until(at: Ticks) -> u32 {
    let left = (at.0.wrapping_sub(now().0) as i64).max(0) as u64;
    let counts = RATES.get().map_or(0, |rates| rates.counts);
    let exact = ((u128::from(left) * u128::from(counts)) >> 32) as u64;
    u32::try_from(exact + exact / DRIFT + 1).unwrap_or(u32::MAX)
}

/// One measurement: what both clocks counted while the 8254 counted down.
struct Measured {
    /// Between two moments within what was counted, and around the 8254's time.
    tsc: u64,
    counts: u64,
}

/// Measures the clocks on this CPU, with its timer, which nobody uses.
///
/// # Errors
/// [`Error::Timeout`] if the 8254 does not count down, [`Error::Unsupported`] if a clock stands
/// still.
///
/// # Context
/// Masked.
pub fn calibrate<M: ApicBus>(timer: &Timer<'_, M>) -> Result<(), Error> {
    let mut best: Option<Measured> = None;
    for _ in 0..MEASURED {
        let measured = measure(timer)?;
        if best.as_ref().is_none_or(|best| measured.tsc < best.tsc) {
            best = Some(measured);
        }
    }
    let best = best.filter(|best| best.counts != 0 && best.tsc != 0);
    let best = best.ok_or(Error::Unsupported {
        feature: "a clock that stands still",
    })?;
    RATES.call_once(|| Rates {
        tsc_hz: (u128::from(best.tsc) * u128::from(PIT_HZ) / u128::from(PIT_COUNTS)) as u64,
        counts: (best.counts << 32) / best.tsc + 1,
    });
    Ok(())
}

fn measure<M: ApicBus>(timer: &Timer<'_, M>) -> Result<Measured, Error> {
    // SAFETY: the ports are the 8254's and its gate's, which nothing else of the image uses.
    let ports = unsafe { Ports::new() };
    let gate = ports.load(PIT_GATE_PORT) & !(GATE | SPEAKER);
    ports.store(PIT_GATE_PORT, gate);
    ports.store(PIT_COMMAND, PIT_MODE_0);
    let [low, high] = PIT_COUNTS.to_le_bytes();
    ports.store(PIT_COUNTER_2, low);
    ports.store(PIT_COUNTER_2, high);
    timer.one_shot(u32::MAX);
    let begun = timer.current();
    let first = now();
    // From the gate's edge on it counts.
    ports.store(PIT_GATE_PORT, gate | GATE);
    let mut output = 0;
    let over = (0..POLLS).any(|_| {
        output = ports.load(PIT_GATE_PORT);
        output & OUTPUT != 0
    });
    let last = now();
    let left = timer.current();
    timer.stop();
    ports.store(PIT_GATE_PORT, gate);
    match over {
        true => Ok(Measured {
            tsc: last.since(first).0,
            counts: u64::from(begun.saturating_sub(left)),
        }),
        false => Err(Error::Timeout {
            what: &TERMINAL_COUNT,
            last: output.into(),
        }),
    }
}
