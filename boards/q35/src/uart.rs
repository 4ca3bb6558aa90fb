// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two serial ports: 16550s behind I/O ports.

use boards_common::ns16550::Ns16550;
use irq_x2apic::Ports;

/// First I/O port of COM1, the console.
pub const TEXT: usize = 0x3f8;
/// Of COM2, which carries `defmt` frames.
pub const FRAMES: usize = 0x2f8;

/// The serial port at `first`.
pub const fn port(first: usize) -> Ns16550<Ports> {
    // SAFETY: the ports are a 16550's, or nobody's, and used by this type alone.
    Ns16550::new(unsafe { Ports::new() }, first)
}
