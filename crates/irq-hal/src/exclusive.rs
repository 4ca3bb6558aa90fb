// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value that one caller uses at a time, without a lock and without waiting.
//!
//! A caller that finds the value in use, on another CPU or further down its own stack, leaves
//! word and goes away; whoever uses it then runs once more. For handlers that are `FnMut`.

use core::cell::UnsafeCell;
use core::fmt;

use crate::atomic::{AtomicU32, Ordering};

/// The value is in use.
const RUNNING: u32 = 1;
/// A run is owed: for a call that found the value in use, or one that unwound.
const AGAIN: u32 = 2;

/// A value with one user at a time. See the [module](self).
pub struct Exclusive<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `run` alone gives the value out, to the one call that found RUNNING clear; `T: Send`
// lets it move between CPUs.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// Around `value`, in use by nobody.
    pub fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` on the value, or, if it is in use, lets its user run its own `f` once more, and
    /// says which: true if it ran here.
    ///
    /// Either way a run begins after the call does. It sees everything that the caller did
    /// before. If `f` unwinds, the value can be used again; a run that was owed then is made by
    /// the next call.
    ///
    /// # Context
    /// Any, also from within `f`. No loop but the runs that others ask for.
    pub fn run(&self, mut f: impl FnMut(&mut T)) -> bool {
        // Release: what the caller did is seen by whoever runs for it.
        if self.state.fetch_or(RUNNING | AGAIN, Ordering::Release) & RUNNING != 0 {
            return false;
        }
        let running = Running { state: &self.state };
        loop {
            // Acquire: pairs with the release of the calls that this run is for, and of the end
            // of the last one.
            self.state.swap(RUNNING, Ordering::Acquire);
            // SAFETY: this call alone found RUNNING clear and set it, and it is set until
            // `running` is dropped or the exchange below succeeds.
            f(unsafe { &mut *self.value.get() });
            // Release: gives the value to the next call.
            let over =
                self.state
                    .compare_exchange(RUNNING, 0, Ordering::Release, Ordering::Relaxed);
            if over.is_ok() {
                core::mem::forget(running);
                return true;
            }
        }
    }

    /// The value, by exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Ends the use of a value when a run unwinds. What is owed stays so.
struct Running<'a> {
    state: &'a AtomicU32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Release: gives the value to the next call.
        self.state.fetch_and(!RUNNING, Ordering::Release);
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}
