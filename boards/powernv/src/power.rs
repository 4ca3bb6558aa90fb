// SPDX-License-Identifier: MIT OR Apache-2.0
//! OPAL (skiboot): calls, starting and stopping CPUs, power-off.
//!
//! A call enters big-endian, with interrupts masked, and comes back big-endian. Memory arguments
//! are physical addresses of big-endian words. Source: skiboot's documentation, "OPAL API".

use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use irq_hal::Error;
use irq_xive::Pir;

use crate::cpu;
use crate::start::{HEADER, little_endian};

/// Numbers of the calls.
mod number {
    pub const CEC_POWER_DOWN: u64 = 5;
    pub const POLL_EVENTS: u64 = 10;
    pub const START_CPU: u64 = 41;
    pub const QUERY_CPU_STATUS: u64 = 42;
    pub const RETURN_CPU: u64 = 69;
    pub const REINIT_CPUS: u64 = 70;
}

/// Results of the calls.
mod result {
    pub const SUCCESS: i64 = 0;
    pub const PARAMETER: i64 = -1;
    pub const BUSY: i64 = -2;
    pub const BUSY_EVENT: i64 = -12;
}

/// Flag of REINIT_CPUS: exceptions enter little-endian.
const HILE_LE: u64 = 2;

/// State of QUERY_CPU_STATUS: the CPU is firmware's.
const THREAD_INACTIVE: u8 = 0;

/// Times that a busy firmware is asked again.
const PATIENCE: u32 = 100_000;

/// Base and entry of OPAL, as it gave them to the boot CPU.
#[repr(C)]
struct Opal {
    base: AtomicU64,
    entry: AtomicU64,
}

static OPAL: Opal = Opal {
    base: AtomicU64::new(0),
    entry: AtomicU64::new(0),
};

// r3 the call's number, r4 its arguments. HSRR1 gets the MSR of real mode, big-endian, masked:
// LE (1), IR and DR (0x30), EE (0x8000) cleared. OPAL keeps r13 to r31, and r1, and returns to
// `opal_return` big-endian.
global_asm!(
    r#"
    .section .text.opal, "ax"
    .global opal_call
opal_call:
    mflr    0
    mfcr    12
    std     0, 16(1)
    stw     12, 8(1)
    stdu    1, -{header}(1)
    std     2, 24(1)
    mr      0, 3
    mr      11, 4
    ld      3, 0(11)
    ld      4, 8(11)
    ld      5, 16(11)
    ld      6, 24(11)
    ld      7, 32(11)
    ld      8, 40(11)
    ld      9, 48(11)
    lis     12, opal_return@ha
    addi    12, 12, opal_return@l
    mtlr    12
    lis     11, {opal}@ha
    addi    11, 11, {opal}@l
    ld      2, 0(11)
    ld      12, 8(11)
    mfmsr   11
    li      10, 0x31
    ori     10, 10, 0x8000
    andc    11, 11, 10
    mtspr   314, 12                     // HSRR0
    mtspr   315, 11                     // HSRR1
    hrfid
opal_return:
    "#,
    little_endian!(),
    r#"
    ld      2, 24(1)
    addi    1, 1, {header}
    ld      0, 16(1)
    lwz     12, 8(1)
    mtlr    0
    mtcr    12
    blr
    "#,
    header = const HEADER,
    opal = sym OPAL,
);

unsafe extern "C" {
    fn opal_call(number: u64, args: *const [u64; 7]) -> i64;
}

/// Says where OPAL is. The boot CPU's first act.
pub fn found(base: u64, entry: u64) {
    OPAL.base.store(base, Relaxed);
    OPAL.entry.store(entry, Relaxed);
}

/// Makes an OPAL call.
///
/// # Safety
/// - The arguments are what the call documents; memory that they name is the caller's.
///
/// # Context
/// Any, on a CPU that firmware knows, once [`found`] was called.
pub unsafe fn call(number: u64, args: [u64; 7]) -> i64 {
    let state = cpu::irq_save();
    // SAFETY: the caller's promise is passed on; interrupts are masked.
    let result = unsafe { opal_call(number, &raw const args) };
    // SAFETY: `state` came from `irq_save` above.
    unsafe { cpu::irq_restore(state) };
    result
}

/// As [`call`], for up to three arguments, and asked again while firmware is busy.
///
/// # Safety
/// As for [`call`].
unsafe fn patiently(number: u64, [a, b, c]: [u64; 3]) -> i64 {
    let mut answer = result::BUSY;
    for _ in 0..PATIENCE {
        // SAFETY: the caller's promise is passed on.
        answer = unsafe { call(number, [a, b, c, 0, 0, 0, 0]) };
        match answer {
            result::BUSY => cpu::relax(),
            result::BUSY_EVENT => poll(),
            _ => break,
        }
    }
    answer
}

fn check(register: &'static str, answer: i64) -> Result<(), Error> {
    match answer {
        result::SUCCESS => Ok(()),
        _ => Err(Error::Refused {
            register,
            value: answer as u64,
        }),
    }
}

/// Lets firmware do what it has to do.
fn poll() {
    // SAFETY: no argument: events are not asked for.
    unsafe { call(number::POLL_EVENTS, [0; 7]) };
}

/// Lets exceptions enter little-endian on every CPU.
///
/// # Errors
/// [`Error::Refused`] with OPAL's answer.
///
/// # Context
/// While every CPU but this one is firmware's.
pub fn enter_little_endian() -> Result<(), Error> {
    // SAFETY: flags; the vectors are little-endian code.
    let answer = unsafe { patiently(number::REINIT_CPUS, [HILE_LE, 0, 0]) };
    check("OPAL_REINIT_CPUS", answer)
}

/// Starts `cpu` at `entry`, big-endian, with its PIR in r3.
///
/// # Errors
/// [`Error::Invalid`] for a CPU that firmware does not have; [`Error::Refused`] with OPAL's
/// answer.
///
/// # Safety
/// - `entry` is code that a CPU can begin with in that state.
pub unsafe fn cpu_on(cpu: Pir, entry: usize) -> Result<(), Error> {
    // SAFETY: the caller's promise is passed on.
    let answer = unsafe { patiently(number::START_CPU, [cpu.get().into(), entry as u64, 0]) };
    match answer {
        result::PARAMETER => Err(Error::Invalid {
            what: "PIR of a CPU to start",
            value: cpu.get().into(),
        }),
        answer => check("OPAL_START_CPU", answer),
    }
}

/// Whether `cpu` is off: firmware's.
///
/// # Errors
/// [`Error::Refused`] with OPAL's answer.
pub fn is_off(cpu: Pir) -> Result<bool, Error> {
    let mut state = u8::MAX;
    let at = (&raw mut state).addr() as u64;
    // SAFETY: OPAL writes one byte to `state`.
    let answer = unsafe { patiently(number::QUERY_CPU_STATUS, [cpu.get().into(), at, 0]) };
    check("OPAL_QUERY_CPU_STATUS", answer)?;
    Ok(state == THREAD_INACTIVE)
}

/// Turns this CPU off: gives it back to firmware; stops it where that cannot be.
///
/// # Context
/// Interrupts masked; nothing of the CPU's is in use any more.
pub fn cpu_off() -> ! {
    // SAFETY: no argument. Returns only if it failed.
    unsafe { call(number::RETURN_CPU, [0; 7]) };
    halt()
}

/// Powers the machine off; if that fails, stops this CPU.
pub fn off() -> ! {
    // SAFETY: a plain power-off.
    unsafe { patiently(number::CEC_POWER_DOWN, [0; 3]) };
    for _ in 0..PATIENCE {
        poll();
        cpu::relax();
    }
    halt()
}

/// Stops this CPU for good.
pub fn halt() -> ! {
    cpu::irq_save();
    cpu::set_decrementer(u64::MAX);
    loop {
        cpu::stop();
    }
}
