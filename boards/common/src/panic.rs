// SPDX-License-Identifier: MIT OR Apache-2.0
//! Panics as text: one line on port 0, in column 0, from any context, then power-off.
//!
//! ```text
//! panic at boards/virt/src/main.rs:42: text, newlines escaped
//! ```

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::console::emergency_line;
use crate::machine;

/// The CPU that reports a panic, plus one; 0 before.
static REPORTER: AtomicU32 = AtomicU32::new(0);
/// Panics within the report of the first one.
static WITHIN: AtomicU32 = AtomicU32::new(0);

/// Reports `info` and ends the machine. A panic of another CPU meanwhile adds nothing: that CPU
/// stops, so that the first report stays whole. A panic within the report ends the machine
/// without one; a panic within that, as where power-off itself faults, stops the CPU.
pub fn report(info: &PanicInfo<'_>) -> ! {
    let Some(machine) = machine::get() else {
        loop {
            core::hint::spin_loop();
        }
    };
    // Nothing moves this code to another CPU any more.
    let _ = machine.irq_save();
    let this = machine.this_cpu().get() + 1;
    match REPORTER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(reporter) if reporter == this && WITHIN.fetch_add(1, Ordering::Relaxed) == 0 => {
            machine.power_off()
        }
        Err(_) => machine.halt(),
    }
    let (file, line) = info
        .location()
        .map_or(("?", 0), |place| (place.file(), place.line()));
    emergency_line(format_args!("panic at {file}:{line}: {}", info.message()));
    machine.power_off()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    report(info)
}
