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

use crate::platform::{Masked, Platform};

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
        assert!(
            held >> rank == 0,
            "lock of rank {rank} taken under ranks {held:#b}"
        );
        self.0.store(held | 1 << rank, Relaxed);
    }

    fn leave(&self, rank: u8) {
        self.0.store(self.0.load(Relaxed) & !(1 << rank), Relaxed);
    }
}

/// A rank held by this CPU while it lives; nothing in release builds or without a record.
struct Ranked<'p> {
    held: Option<&'p HeldRanks>,
    rank: u8,
}

impl<'p> Ranked<'p> {
    fn enter<P: Platform + ?Sized>(platform: &'p P, rank: u8) -> Self {
        let held = if cfg!(debug_assertions) {
            platform.held_ranks()
        } else {
            None
        };
        if let Some(held) = held {
            held.enter(rank);
        }
        Self { held, rank }
    }
}

impl Drop for Ranked<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held {
            held.leave(self.rank);
        }
    }
}

#[cfg(not(loom))]
type Inner<T> = spin::Mutex<T>;
#[cfg(loom)]
type Inner<T> = loom::sync::Mutex<T>;

/// A lock of rank `RANK` that masks interrupts on this CPU while it is held.
#[derive(Debug, Default)]
pub struct MaskedLock<T, const RANK: u8> {
    inner: Inner<T>,
}

impl<T, const RANK: u8> MaskedLock<T, RANK> {
    /// A lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self {
            inner: Inner::new(value),
        }
    }

    /// A lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self {
            inner: Inner::new(value),
        }
    }

    /// Runs `f` with the lock held and interrupts masked; restoring the mask is the last act.
    ///
    /// # Panics
    /// In debug builds, if this CPU already holds a lock of the same or a higher rank. If `f`
    /// does; the lock is free again then.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. `f` must not allocate, map, or call user code.
    pub fn with<P, R>(&self, platform: &P, f: impl FnOnce(&mut T) -> R) -> R
    where
        P: Platform + ?Sized,
    {
        const { assert!(RANK >= 1 && RANK <= 5, "ranks are 1 to 5") };
        // Dropped in reverse: the lock is free, then the rank, then the mask is restored.
        let _masked = Masked::new(platform);
        let _ranked = Ranked::enter(platform, RANK);
        let mut guard = self.take(platform);
        f(&mut guard)
    }

    #[cfg(not(loom))]
    fn take<P: Platform + ?Sized>(&self, platform: &P) -> spin::MutexGuard<'_, T> {
        #[cfg(irq_trace)]
        crate::atomic::trace::note_lock(core::ptr::from_ref(&self.inner).cast());
        loop {
            if let Some(guard) = self.inner.try_lock() {
                return guard;
            }
            while self.inner.is_locked() {
                platform.relax();
            }
        }
    }

    #[cfg(loom)]
    fn take<P: Platform + ?Sized>(&self, _platform: &P) -> loom::sync::MutexGuard<'_, T> {
        self.inner.lock().unwrap()
    }

    /// The value, by exclusive access: no lock is taken.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}
