// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PL011 serial port (Arm DDI 0183), as far as an image needs it: bytes out, one interrupt.
//!
//! Firmware, or QEMU, has set line and rate.

use core::ptr::NonNull;

use irq_hal::access::{Ro, Rw};
use irq_hal::{Barrier, Error, Mmio};
use tock_registers::interfaces::{Readable, Writeable};
use tock_registers::register_bitfields;

/// Physical address of the machine's first PL011, the console before the devicetree is read.
pub const CONSOLE: u64 = 0x0900_0000;

/// Bytes of the register frame: the identification registers end it at 0xffc.
pub const FRAME: usize = 0x1000;

/// Offsets of the registers (DDI 0183, "Summary of registers").
mod offset {
    /// `UARTDR`, data.
    pub const DR: usize = 0x000;
    /// `UARTFR`, flags.
    pub const FR: usize = 0x018;
    /// `UARTIMSC`, interrupt mask: a one lets the interrupt through.
    pub const IMSC: usize = 0x038;
    /// `UARTRIS`, raw interrupt status.
    pub const RIS: usize = 0x03c;
}

/// Polls of the flag register that a byte is worth; then it is lost.
const PATIENCE: u32 = 1_000_000;

register_bitfields![u32,
    /// `UARTFR`, flags.
    FR [
        /// The transmit FIFO is full.
        TXFF OFFSET(5) NUMBITS(1) []
    ],
    /// Interrupts: the layout of `UARTIMSC` and `UARTRIS`.
    INTERRUPT [
        /// The transmit FIFO has room.
        TX OFFSET(5) NUMBITS(1) []
    ]
];

/// One serial port.
#[derive(Debug)]
pub struct Pl011 {
    frame: Mmio,
}

impl Pl011 {
    /// The console before the devicetree is read: start-up has mapped it.
    pub const fn early() -> Self {
        // The address is a constant other than zero.
        let base = NonNull::new(CONSOLE as *mut u8).unwrap();
        // SAFETY: the boot page tables map this block as device memory, on every CPU and for
        // good, and the machine has a PL011 there. No reference to it is formed.
        let frame = unsafe { Mmio::from_mapped(base, FRAME) };
        Self { frame }
    }

    /// The port behind `frame`.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    pub fn new(frame: Mmio) -> Result<Self, Error> {
        frame.check("PL011 frame", FRAME)?;
        Ok(Self { frame })
    }

    fn fr(&self) -> Ro<'_, Mmio, u32, FR::Register> {
        Ro::new(&self.frame, offset::FR)
    }

    fn dr(&self) -> Rw<'_, Mmio, u32> {
        Rw::new(&self.frame, offset::DR)
    }

    fn imsc(&self) -> Rw<'_, Mmio, u32, INTERRUPT::Register> {
        Rw::new(&self.frame, offset::IMSC)
    }

    fn ris(&self) -> Ro<'_, Mmio, u32, INTERRUPT::Register> {
        Ro::new(&self.frame, offset::RIS)
    }

    /// Sends a byte; it is lost if the port takes none for a long time.
    pub fn put(&self, byte: u8) {
        for _ in 0..PATIENCE {
            if !self.fr().is_set(FR::TXFF) {
                self.dr().set(u32::from(byte));
                return;
            }
        }
    }

    /// Whether the transmit interrupt is latched: a byte has been sent since it was cleared.
    pub fn tx_latched(&self) -> bool {
        self.ris().is_set(INTERRUPT::TX)
    }

    /// Raises the interrupt line while the latch is set.
    pub fn raise_line(&self) {
        self.imsc().write(INTERRUPT::TX::SET);
    }

    /// Lowers the interrupt line; the latch stays. The line is low when this returns: the
    /// store has reached the device.
    pub fn lower_line(&self) {
        self.imsc().set(0);
        self.frame.complete();
    }
}
