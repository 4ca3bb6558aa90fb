// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks that interrupt handlers may take: masking, ranked, used as closures.
//!
//! A lock is held exactly for a closure, so nesting restores the interrupt mask in the right
//! order by construction. Ranks rise from the outside in:
//!
//! | rank | what it guards |
//! |---|---|
//! | 1 | domain table |
//! | 2 | vector matrix, LPI allocator |
//! | 3 | a device (ITS device, block of sources) |
//! | 4 | a descriptor |
//! | 5 | a hardware block (distributor, command queue): leaf, bounded hold time |
//!
//! Debug builds check the order where the platform keeps a [`HeldRanks`] per CPU. No callback
//! into user code runs under any of them.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::platform::{IrqState, Platform};

/// The ranks that one CPU holds: one bit each. Written by that CPU alone.
#[derive(Debug, Default)]
pub struct HeldRanks(AtomicU32);

impl HeldRanks {
    /// No rank is held.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn enter(&self, rank: u8) {
        let held = self.0.load(Relaxed);
        assert!(held >> rank == 0, "lock of rank {rank} taken under ranks {held:#b}");
        self.0.store(held | 1 << rank, Relaxed);
    }

    fn leave(&self, rank: u8) {
        self.0.store(self.0.load(Relaxed) & !(1 << rank), Relaxed);
    }
}

/// A lock of rank `RANK` that masks interrupts on this CPU while it is held.
#[derive(Debug, Default)]
pub struct MaskedLock<T, const RANK: u8> {
    inner: spin::Mutex<T>,
}

/// Undoes the mask, and the rank, also when the closure unwinds.
struct Masked<'p, P: Platform + ?Sized> {
    platform: &'p P,
    state: IrqState,
    rank: u8,
}

impl<P: Platform + ?Sized> Drop for Masked<'_, P> {
    fn drop(&mut self) {
        if cfg!(debug_assertions)
            && let Some(held) = self.platform.held_ranks()
        {
            held.leave(self.rank);
        }
        // SAFETY: `state` came from the `irq_save` in `with`, on this CPU: it was masked since.
        unsafe { self.platform.irq_restore(self.state) }
    }
}

impl<T, const RANK: u8> MaskedLock<T, RANK> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: spin::Mutex::new(value) }
    }

    /// Runs `f` with the lock held and interrupts masked; restoring the mask is the last act.
    ///
    /// # Panics
    /// In debug builds, if this CPU already holds a lock of the same or a higher rank.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. `f` must not allocate, map, or call user code.
    pub fn with<P, R>(&self, platform: &P, f: impl FnOnce(&mut T) -> R) -> R
    where
        P: Platform + ?Sized,
    {
        const { assert!(RANK >= 1 && RANK <= 5, "ranks are 1 to 5") };
        let state = platform.irq_save();
        if cfg!(debug_assertions)
            && let Some(held) = platform.held_ranks()
        {
            held.enter(RANK);
        }
        let _masked = Masked { platform, state, rank: RANK };
        #[cfg(irq_trace)]
        crate::atomic::trace::note_lock();
        // Declared after `_masked`, so the lock is free before the mask is restored.
        let mut guard = self.inner.lock();
        f(&mut guard)
    }

    /// The value, by exclusive access: no lock is taken.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}
