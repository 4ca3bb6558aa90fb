// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock of console, heap and log port: it masks interrupts while it is held.
//!
//! It has no rank, unlike `irq_hal`'s: text may be written, and memory be had, under any lock
//! of the drivers, and nothing is taken under this one.

use core::sync::atomic::{AtomicBool, Ordering};

use irq_hal::platform::IrqState;
use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::machine::{self, Machine};

/// Polls that [`Masked::with_or_break`] grants to the holder.
const PATIENCE: u32 = 1_000_000;

/// A value that one CPU at a time uses, with interrupts masked.
#[derive(Debug, Default)]
pub struct Masked<T> {
    inner: SpinMutex<T>,
    /// Set when the lock was broken: it protects nothing from then on.
    broken: AtomicBool,
}

/// The interrupt mask of this CPU, put back on drop.
struct Mask(Option<(&'static dyn Machine, IrqState)>);

impl Mask {
    fn new() -> Self {
        Self(machine::get().map(|machine| (machine, machine.irq_save())))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        if let Some((machine, state)) = self.0 {
            // SAFETY: `state` came from the `irq_save` in `new`; masks of this type nest,
            // being locals of closures.
            unsafe { machine.irq_restore(state) }
        }
    }
}

/// The body of a spin.
fn relax() {
    match machine::get() {
        Some(machine) => machine.relax(),
        None => core::hint::spin_loop(),
    }
}

impl<T> Masked<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            inner: SpinMutex::new(value),
            broken: AtomicBool::new(false),
        }
    }

    /// Runs `f` with the lock held.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _mask = Mask::new();
        f(&mut self.take())
    }

    fn take(&self) -> SpinMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.inner.try_lock() {
                return guard;
            }
            relax();
        }
    }

    /// Runs `f` with the lock held; where its holder does not give it up (it is the code that
    /// panicked, or its CPU is dead), breaks the lock and goes on. For panics only: the broken
    /// holder must not run on.
    pub fn with_or_break<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _mask = Mask::new();
        for _ in 0..PATIENCE {
            if self.broken.load(Ordering::Relaxed) {
                break;
            }
            if let Some(mut guard) = self.inner.try_lock() {
                return f(&mut guard);
            }
            relax();
        }
        self.broken.store(true, Ordering::Relaxed);
        // SAFETY: the machine is about to be powered off by a panic; the holder is this CPU's
        // own interrupted code, which never resumes, or a CPU that made no progress.
        unsafe { self.inner.force_unlock() };
        f(&mut self.take())
    }

    /// Takes the lock, with no guard and no mask: [`release`](Self::release) undoes it. The
    /// caller has masked interrupts.
    #[cfg(target_os = "none")]
    pub(crate) fn acquire(&self) {
        core::mem::forget(self.take());
    }

    /// The value between [`acquire`](Self::acquire) and [`release`](Self::release).
    ///
    /// # Safety
    /// - This CPU has acquired the lock, and no other reference from this call is alive.
    #[cfg(target_os = "none")]
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock is held: the caller promises it"
    )]
    pub(crate) unsafe fn held(&self) -> &mut T {
        // SAFETY: the lock is held by the caller, so no other CPU has a reference.
        unsafe { &mut *self.inner.as_mut_ptr() }
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// - This CPU has acquired the lock, and uses the value no more.
    #[cfg(target_os = "none")]
    pub(crate) unsafe fn release(&self) {
        // SAFETY: the caller holds the lock, without a guard that would unlock it again.
        unsafe { self.inner.force_unlock() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_holder_never_lets_go_is_broken_by_a_panic() {
        let lock = Masked::new(1);
        lock.with(|_| {
            assert_eq!(lock.with_or_break(|value| *value), 1);
        });
    }
}
