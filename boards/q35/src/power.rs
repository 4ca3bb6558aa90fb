// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power-off, and CPUs that stop.
//!
//! QEMU's device `isa-debug-exit` ends the emulator with a status of the image's choice, unlike
//! an ACPI power-off, whose status is that of a triple fault too.

use core::arch::asm;
use core::sync::atomic::Ordering;

use irq_hal::Bus;
use irq_x2apic::Ports;

use crate::cpu::{self, CpuBlock};

/// The device's I/O port, as board.toml places it.
const EXIT_PORT: usize = 0xf4;
/// What is written there: QEMU ends with the status twice that and one, 33.
const EXIT: u8 = 0x10;

/// Powers the machine off; where the device is missing, stops this CPU.
pub fn off() -> ! {
    // SAFETY: the port is the device's, or nobody's; nothing else uses it.
    let ports = unsafe { Ports::new() };
    ports.store(EXIT_PORT, EXIT);
    halt()
}

/// Stops this CPU until it is started again: says so in its block.
///
/// # Context
/// Interrupts masked; nothing of the CPU's is in use any more but its stack.
pub fn park(block: &CpuBlock) -> ! {
    // Release: what the CPU did is done for whoever starts it again.
    block.parked.store(true, Ordering::Release);
    halt()
}

/// Stops this CPU for good.
pub fn halt() -> ! {
    cpu::irq_save();
    loop {
        // SAFETY: stops until a non-maskable interrupt or a start.
        unsafe { asm!("hlt", options(nomem, nostack, preserves_flags)) };
    }
}
