// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cell that lets a registration be removed while handlers run.
//!
//! A [`Slot`] holds one boxed value that interrupt entries read. An entry takes no lock and
//! writes only its own CPU's line: it notes in [`Readers`] what it is about to use, looks
//! whether the slot still holds that, and uses it (a hazard pointer). Whoever replaces the
//! value pays: [`Slot::replace`] unpublishes it, and [`Retired::reclaim`] waits, bounded, until
//! no CPU has it noted.
//!
//! ```text
//! entry                               remover
//! note pointer in own CPU's line      swap pointer
//! ------- SeqCst fence -------        ------- SeqCst fence -------
//! slot still holds it?  then use it   any CPU has it noted?  then wait
//! clear the note (release)            see no note (acquire), free
//! ```
//! Of the two fences one comes first, so either the entry sees the swap or the remover sees
//! the note.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::error::Error;
use crate::percpu::{self, OnCpu, PerCpu};
use crate::platform::Platform;
use crate::wait::{Bound, WaitFor, wait};

/// How many values one CPU can have in use at a time with a note each: entries nest two or
/// three deep. What is beyond is counted, and a remover waits for all of it.
const NOTES: usize = 4;

static UNUSED: WaitFor = WaitFor {
    register: "registration",
    state: "used by no CPU",
};

/// What one CPU uses at the moment. Written by that CPU alone.
#[derive(Debug)]
struct Notes {
    used: [AtomicPtr<()>; NOTES],
    unnoted: AtomicUsize,
}

impl Notes {
    fn new() -> Self {
        let used = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self {
            used,
            unnoted: AtomicUsize::new(0),
        }
    }

    /// A note that is not in use. An interrupt that nests between this look and the store of
    /// the note has cleared its own again by then.
    fn free(&self) -> Option<&AtomicPtr<()>> {
        self.used
            .iter()
            .find(|note| note.load(Ordering::Relaxed).is_null())
    }

    /// Whether this CPU may use `value`.
    fn holds(&self, value: *mut ()) -> bool {
        // Acquire: pairs with the release stores of `Slot::read` and `Using::drop`, so that the
        // last use of the value comes before it is freed.
        self.unnoted.load(Ordering::Acquire) != 0
            || self
                .used
                .iter()
                .any(|note| note.load(Ordering::Acquire) == value)
    }

    /// Whether this CPU uses anything. For the CPU itself.
    fn any(&self) -> bool {
        self.unnoted.load(Ordering::Relaxed) != 0
            || self
                .used
                .iter()
                .any(|note| !note.load(Ordering::Relaxed).is_null())
    }
}

/// The CPUs that read a set of [`Slot`]s, and what each of them uses.
#[derive(Debug)]
pub struct Readers {
    cpus: PerCpu<Notes>,
}

impl Readers {
    /// For `cpus` possible CPUs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] for no CPU.
    pub fn new(cpus: u32) -> Result<Self, Error> {
        if cpus == 0 {
            return Err(Error::Invalid {
                what: "number of CPUs",
                value: 0,
            });
        }
        Ok(Self {
            cpus: PerCpu::new(cpus, |_| Notes::new())?,
        })
    }

    /// An empty slot that is read through these readers.
    pub fn slot<T>(&self) -> Slot<T> {
        Slot {
            value: AtomicPtr::new(ptr::null_mut()),
            readers: self.id(),
            owns: PhantomData,
        }
    }

    /// Names this set of readers while it lives, also when it moves: the address of its first
    /// block, which stays where it is. There is one: `new` refuses none.
    fn id(&self) -> usize {
        self.cpus
            .get(crate::CpuIndex::new(0))
            .map_or(0, |notes| ptr::from_ref(notes).addr())
    }

    /// Whether the caller runs inside a use of any slot of these readers: in a handler.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn in_use_here<P: Platform + ?Sized>(&self, platform: &P) -> bool {
        percpu::masked(platform, |on| {
            self.cpus.get(on.cpu()).is_some_and(Notes::any)
        })
    }

    fn in_use(&self, value: *mut ()) -> bool {
        self.cpus.iter().any(|(_, notes)| notes.holds(value))
    }
}

/// A place for one boxed value that interrupt entries read without a lock.
#[derive(Debug)]
pub struct Slot<T> {
    value: AtomicPtr<T>,
    readers: usize,
    owns: PhantomData<Box<T>>,
}

// SAFETY: a slot hands out `&T` on any CPU and gives the box away to whoever replaces it.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}
// SAFETY: as for `Sync`.
unsafe impl<T: Send + Sync> Send for Slot<T> {}

impl<T> Slot<T> {
    /// The value, protected until the returned guard is dropped; `None` if the slot is empty.
    /// Nothing as well for a CPU beyond the possible ones, or readers that are not the slot's.
    ///
    /// # Context
    /// Any, also nested in itself and from a non-maskable interrupt. Lock-free: it tries again
    /// only when the value was replaced meanwhile.
    #[inline]
    pub fn read<'r>(&'r self, readers: &'r Readers, on: &'r OnCpu) -> Option<Using<'r, T>> {
        if readers.id() != self.readers {
            return None;
        }
        let notes = readers.cpus.get(on.cpu())?;
        let note = notes.free();
        let value = match note {
            Some(note) => self.noted(note)?,
            None => self.counted(notes)?,
        };
        Some(Using {
            value,
            note,
            notes,
            on: PhantomData,
            slot: PhantomData,
        })
    }

    /// The value, once `note` says so where every remover looks.
    #[inline]
    fn noted(&self, note: &AtomicPtr<()>) -> Option<NonNull<T>> {
        let mut seen = NonNull::new(self.value.load(Ordering::Relaxed))?;
        loop {
            // Release: pairs with the acquire in `Notes::holds`. A remover that finds this note
            // in place of an earlier one knows that the earlier use is over.
            note.store(seen.as_ptr().cast(), Ordering::Release);
            // Pairs with the fence in `replace`.
            fence(Ordering::SeqCst);
            // Acquire: pairs with the release in `replace` that published the value.
            let Some(now) = NonNull::new(self.value.load(Ordering::Acquire)) else {
                // Relaxed: what earlier uses did is before the fence.
                note.store(ptr::null_mut(), Ordering::Relaxed);
                return None;
            };
            if now == seen {
                return Some(now);
            }
            seen = now;
        }
    }

    /// The value, once the count of unnoted uses makes every remover wait.
    #[cold]
    fn counted(&self, notes: &Notes) -> Option<NonNull<T>> {
        let unnoted = notes.unnoted.load(Ordering::Relaxed);
        notes.unnoted.store(unnoted + 1, Ordering::Relaxed);
        // The fence and the load as in `noted`.
        fence(Ordering::SeqCst);
        let value = NonNull::new(self.value.load(Ordering::Acquire));
        if value.is_none() {
            // Relaxed: what earlier uses did is before the fence.
            notes.unnoted.store(unnoted, Ordering::Relaxed);
        }
        value
    }

    /// Puts `new` in the slot and takes the old value out of it, which CPUs may still use.
    ///
    /// # Errors
    /// [`Error::Context`] if this CPU is inside a use of any slot of these readers (a handler
    /// that removes itself: it would wait for its own end), [`Error::Invalid`] for readers that
    /// are not the slot's. Nothing has changed then, and `new` comes back.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn replace<P: Platform + ?Sized>(
        &self,
        platform: &P,
        readers: &Readers,
        new: Option<Box<T>>,
    ) -> Replaced<T> {
        if readers.id() != self.readers {
            return Err((
                Error::Invalid {
                    what: "readers of a slot",
                    value: 0,
                },
                new,
            ));
        }
        if readers.in_use_here(platform) {
            return Err((
                Error::Context {
                    what: "removal from inside a handler",
                },
                new,
            ));
        }
        let new = new.map_or(ptr::null_mut(), Box::into_raw);
        // Release: publishes the new value to `read` and to the next `replace`.
        let old = self.value.swap(new, Ordering::Release);
        // Pairs with the fences in `read`. It also acquires the contents of the old value.
        fence(Ordering::SeqCst);
        let retired = |value| Retired {
            value,
            readers: self.readers,
            owns: PhantomData,
        };
        Ok(NonNull::new(old).map(retired))
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let value = self.value.load(Ordering::Relaxed);
        if !value.is_null() {
            // SAFETY: the pointer came from a box in `replace`; guards borrow the slot, so none
            // is left.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

/// What [`Slot::replace`] took out; or why it did not, and the value that it did not put in.
pub type Replaced<T> = Result<Option<Retired<T>>, (Error, Option<Box<T>>)>;

/// A value in use by this CPU.
#[derive(Debug)]
pub struct Using<'r, T> {
    value: NonNull<T>,
    note: Option<&'r AtomicPtr<()>>,
    notes: &'r Notes,
    on: PhantomData<&'r OnCpu>,
    slot: PhantomData<&'r Slot<T>>,
}

impl<T> Deref for Using<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot held the value after the note, or the count of unnoted uses, was
        // there for every remover to see; it stays there until the guard is dropped.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Using<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Notes::holds`.
        match self.note {
            Some(note) => note.store(ptr::null_mut(), Ordering::Release),
            None => {
                let unnoted = self.notes.unnoted.load(Ordering::Relaxed);
                self.notes.unnoted.store(unnoted - 1, Ordering::Release);
            }
        }
    }
}

/// A value that left its slot and that CPUs may still use. Dropping it leaks the value.
#[derive(Debug)]
#[must_use = "dropping it leaks the value; call `reclaim`"]
pub struct Retired<T> {
    value: NonNull<T>,
    readers: usize,
    owns: PhantomData<Box<T>>,
}

// SAFETY: owns a box of `T`.
unsafe impl<T: Send + Sync> Send for Retired<T> {}
// SAFETY: gives no access to the value by reference.
unsafe impl<T: Send + Sync> Sync for Retired<T> {}

impl<T> Retired<T> {
    /// Waits until no CPU uses the value and gives it back.
    ///
    /// # Errors
    /// [`Error::Timeout`] if a CPU still uses it at `bound`, [`Error::Invalid`] for readers
    /// that are not the slot's; the value stays retired and the call can be repeated.
    ///
    /// # Context
    /// Interrupts unmasked and no lock held, or the wait may be in vain.
    pub fn reclaim<P: Platform + ?Sized>(
        self,
        platform: &P,
        readers: &Readers,
        bound: Bound,
    ) -> Result<Box<T>, (Error, Self)> {
        if readers.id() != self.readers {
            return Err((
                Error::Invalid {
                    what: "readers of a slot",
                    value: 0,
                },
                self,
            ));
        }
        let value = self.value.as_ptr();
        let used = || u32::from(readers.in_use(value.cast()));
        match wait(platform, &UNUSED, bound, used, |used| used == 0) {
            // SAFETY: the pointer came from a box in `replace` and is in no slot; no CPU has it
            // noted, and none can note it again.
            Ok(_) => Ok(unsafe { Box::from_raw(value) }),
            Err(error) => Err((error, self)),
        }
    }
}
