// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function that one CPU leaves for another.
//!
//! A `fn` is one word, but no atomic holds it: this cell does, for the remote calls of irq-core,
//! which forbids unsafe code.

use core::mem;
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering};
use crate::ids::CpuIndex;

/// What a CPU can be asked to run: a function that gets one word of its caller's and the CPU it
/// runs on, and returns one word.
pub type Callback = fn(word: usize, cpu: CpuIndex) -> usize;

/// A place for a [`Callback`], read and written by any CPU.
///
/// It orders nothing itself: who hands a callback over does that with another atomic.
#[derive(Debug)]
pub struct CallbackCell {
    /// Null, or a [`Callback`].
    at: AtomicPtr<()>,
}

impl CallbackCell {
    /// A cell without a callback.
    pub fn new() -> Self {
        Self {
            at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Leaves `callback` in the cell.
    #[inline]
    pub fn set(&self, callback: Callback) {
        self.at.store(callback as *mut (), Ordering::Relaxed);
    }

    /// The latest callback, if there ever was one.
    #[inline]
    pub fn get(&self) -> Option<Callback> {
        const { assert!(size_of::<Callback>() == size_of::<*mut ()>()) };
        let at = NonNull::new(self.at.load(Ordering::Relaxed))?;
        // SAFETY: `new` and `set` are the only stores: a pointer that is not null came from a
        // `Callback`, which has the size of a pointer (asserted above) and lives forever.
        Some(unsafe { mem::transmute::<*mut (), Callback>(at.as_ptr()) })
    }
}

impl Default for CallbackCell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn double(word: usize, _: CpuIndex) -> usize {
        2 * word
    }

    fn index(_: usize, cpu: CpuIndex) -> usize {
        cpu.index()
    }

    #[test]
    fn a_cell_gives_the_latest_callback_and_none_at_first() {
        let cell = CallbackCell::default();
        assert!(cell.get().is_none());
        cell.set(double);
        assert_eq!(cell.get().unwrap()(21, CpuIndex::new(5)), 42);
        cell.set(index);
        assert_eq!(cell.get().unwrap()(21, CpuIndex::new(5)), 5);
    }
}
