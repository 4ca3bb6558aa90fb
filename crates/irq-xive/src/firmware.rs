// SPDX-License-Identifier: MIT OR Apache-2.0
//! What firmware and kernel do for the driver: OPAL calls, and windows of device space.

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus, Error, PhysAddr};

/// A window of device space: accesses of each width, barriers, a length. Implemented by whatever
/// has them.
///
/// It hands out registers as little-endian ones, like every window of irq-hal; the driver swaps.
pub trait Window:
    Bus<u8> + Bus<u16> + Bus<u32> + Bus<u64> + Barrier + Extent + Send + Sync + 'static
{
}

impl<W> Window for W where
    W: Bus<u8> + Bus<u16> + Bus<u32> + Bus<u64> + Barrier + Extent + Send + Sync + 'static
{
}

/// OPAL and the kernel's mapping of device space.
///
/// # Safety
/// An implementation promises that
/// - [`call`](Self::call) enters the firmware of this machine, which writes nothing but what the
///   arguments of the call name;
/// - a window from [`map`](Self::map) covers the device space asked for and nothing else, until
///   it is dropped, on every CPU.
pub unsafe trait Firmware: Send + Sync {
    /// A window of device space.
    type Window: Window;

    /// Makes the OPAL call `call` and returns what it returns, `r3`. Memory arguments are
    /// physical addresses of big-endian words.
    ///
    /// # Safety
    /// - What the arguments name (memory to write to, queues to be filled from now on) is the
    ///   caller's, and stays so for as long as the call's documentation wants it.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, on any CPU that firmware knows.
    unsafe fn call(&self, call: u64, args: [u64; 7]) -> i64;

    /// Maps `len` bytes of device space at `at`, uncached. `at` is a multiple of 4 KiB.
    ///
    /// # Errors
    /// [`Error::Unsupported`] or [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Never called with a lock of ours held, with interrupts masked by us, or from a handler;
    /// likewise the drop of a window.
    fn map(&self, at: PhysAddr, len: usize) -> Result<Self::Window, Error>;
}

// SAFETY: every call goes to the firmware behind the reference, which keeps the promises.
unsafe impl<F: Firmware + ?Sized> Firmware for &F {
    type Window = F::Window;

    unsafe fn call(&self, call: u64, args: [u64; 7]) -> i64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).call(call, args) }
    }

    fn map(&self, at: PhysAddr, len: usize) -> Result<Self::Window, Error> {
        (**self).map(at, len)
    }
}
