// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 16550 serial port, as far as an image needs it: bytes out, one interrupt.
//!
//! Its eight registers are bytes on any bus: ports on a PC, a window of the LPC bus on POWER.
//! Firmware, or QEMU, has set line and rate.
//!
//! Registers and bits are those of National Semiconductor's PC16550D data sheet, section "8.0
//! Registers".

use irq_hal::Bus;

/// Bytes of the registers.
pub const LEN: usize = 8;

/// Offsets of the registers, with the divisor latch off (`LCR` bit 7).
mod offset {
    /// `THR`, written: the byte to send.
    pub const THR: usize = 0;
    /// `IER`, interrupt enable.
    pub const IER: usize = 1;
    /// `IIR`, read: what interrupts.
    pub const IIR: usize = 2;
    /// `MCR`, modem control.
    pub const MCR: usize = 4;
    /// `LSR`, line status.
    pub const LSR: usize = 5;
}

/// `IER.ETBEI`: the line is raised when the transmit holding register is empty.
const IER_THRE: u8 = 1 << 1;
/// `MCR.OUT2`: on a PC the interrupt line passes through it.
const MCR_OUT2: u8 = 1 << 3;
/// `LSR.THRE`: the transmit holding register is empty.
const LSR_THRE: u8 = 1 << 5;

/// Polls of the line status that a byte is worth; then it is lost.
const PATIENCE: u32 = 1_000_000;

/// One serial port behind the bus `B`.
///
/// [`put`](Self::put) is called under the console's lock, the line's methods by one test at a
/// time: these use other registers.
#[derive(Debug)]
pub struct Ns16550<B> {
    bus: B,
    first: usize,
}

impl<B> Ns16550<B> {
    /// The port whose first register is at offset `first` of `bus`.
    pub const fn new(bus: B, first: usize) -> Self {
        Self { bus, first }
    }
}

impl<B: Bus<u8>> Ns16550<B> {
    fn load(&self, register: usize) -> u8 {
        self.bus.load(self.first + register)
    }

    fn store(&self, register: usize, value: u8) {
        self.bus.store(self.first + register, value);
    }

    fn has(&self, bit: u8) -> bool {
        self.load(offset::LSR) & bit != 0
    }

    fn wait(&self, bit: u8) -> bool {
        (0..PATIENCE).any(|_| self.has(bit))
    }

    /// Sends a byte; it is lost if the port takes none for a long time.
    pub fn put(&self, byte: u8) {
        if self.wait(LSR_THRE) {
            self.store(offset::THR, byte);
        }
    }

    /// Whether the transmit holding register is empty: a line that is
    /// [raised](Self::raise_line) rises at once.
    pub fn is_empty(&self) -> bool {
        self.has(LSR_THRE)
    }

    /// Raises the interrupt line as long as the transmit holding register is empty: enabling the
    /// interrupt while it is empty raises it at once.
    pub fn raise_line(&self) {
        let control = self.load(offset::MCR);
        if control & MCR_OUT2 == 0 {
            self.store(offset::MCR, control | MCR_OUT2);
        }
        // Off first: where `IIR` was read the latch is gone, and the change sets it again.
        self.store(offset::IER, 0);
        self.store(offset::IER, IER_THRE);
    }

    /// Lowers the interrupt line. It is low when this returns: the port has been read back.
    pub fn lower_line(&self) {
        self.store(offset::IER, 0);
        self.load(offset::IIR);
    }
}

#[cfg(test)]
#[path = "ns16550_tests.rs"]
mod tests;
