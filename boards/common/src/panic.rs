// SPDX-License-Identifier: MIT OR Apache-2.0
//! Panics as text: one line on port 0, in column 0, from any context, then power-off.
//!
//! ```text
//! panic at boards/virt/src/main.rs:42: text, newlines escaped
//! ```

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::console::emergency_line;
use crate::machine;

static PANICKING: AtomicBool = AtomicBool::new(false);

/// Reports `info` and ends the machine. A second panic, of this CPU while it reports or of
/// another one, adds nothing: the second CPU stops, and the first one's report stays whole.
pub fn report(info: &PanicInfo<'_>) -> ! {
    let Some(machine) = machine::get() else {
        loop {
            core::hint::spin_loop();
        }
    };
    // A panic within the report would be lost anyway; the time bound of whoever runs the image
    // covers it.
    if PANICKING.swap(true, Ordering::Relaxed) {
        machine.halt();
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
