// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a board gives to the shared code: one object, installed once.

use irq_hal::Platform;
use irq_hal::platform::Ticks;
use spin::Once;

/// A serial port of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    /// Port 0: the line protocol and text.
    Text,
    /// Port 1: `defmt` frames. Bytes vanish on a machine that has no such port.
    Frames,
}

/// A machine as the shared code sees it.
pub trait Machine: Platform {
    /// Sends `byte` out of `port`; bounded, and a byte is lost rather than waited for without
    /// end.
    ///
    /// # Context
    /// Any, from the first instruction after [`install`] on. The caller keeps others away.
    fn put(&self, port: Port, byte: u8);

    /// Sleeps until an interrupt is pending for this CPU, masked or not; where `until` is given,
    /// no longer than to that moment. May return early.
    ///
    /// An emulator runs many CPUs on few: one that spins keeps the one it waits for from
    /// running.
    ///
    /// # Context
    /// Interrupts masked, on a CPU whose part of the controller is up: what ends the sleep is
    /// looked for after masking, so that nothing is missed, and taken when they are unmasked.
    fn sleep(&self, until: Option<Ticks>);

    /// Lets interrupts in on this CPU, whatever the mask was: for code that begins masked, on a
    /// stack of its own.
    fn unmask(&self);

    /// Ends the machine.
    fn power_off(&self) -> !;

    /// Stops this CPU for good, and nothing else.
    fn halt(&self) -> !;
}

static MACHINE: Once<&'static dyn Machine> = Once::new();

/// Makes `machine` the one that panics, console and log go to. The first call counts.
pub fn install(machine: &'static dyn Machine) {
    MACHINE.call_once(|| machine);
}

/// The installed machine; nothing before [`install`].
pub fn get() -> Option<&'static dyn Machine> {
    MACHINE.get().copied()
}
