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
use crate::percpu::{OnCpu, PerCpu};
use crate::platform::Platform;
use crate::wait::{Bound, WaitFor, wait};

/// How many values one CPU can have in use at a time with a note each: entries nest two or
/// three deep. What is beyond is counted, and a remover waits for all of it.
const NOTES: usize = 4;

static UNUSED: WaitFor = WaitFor { register: "registration", state: "used by no CPU" };

/// What one CPU uses at the moment. Written by that CPU alone.
#[derive(Debug)]
struct Notes {
    used: [AtomicPtr<()>; NOTES],
    unnoted: AtomicUsize,
}

impl Notes {
    fn new() -> Self {
        Self { used: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())), unnoted: AtomicUsize::new(0) }
    }

    fn holds(&self, value: *mut ()) -> bool {
        // Acquire: pairs with the release in `Using::drop`, so that the last use of the value
        // comes before it is freed.
        self.unnoted.load(Ordering::Acquire) != 0
            || self.used.iter().any(|note| note.load(Ordering::Acquire) == value)
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
            return Err(Error::Invalid { what: "number of CPUs", value: 0 });
        }
        Ok(Self { cpus: PerCpu::new(cpus, |_| Notes::new())? })
    }

    /// An empty slot that is read through these readers.
    pub fn slot<T>(&self) -> Slot<T> {
        Slot { value: AtomicPtr::new(ptr::null_mut()), readers: self.id(), owns: PhantomData }
    }

    /// Names this set of readers while it lives, also when it moves: the address of its first
    /// block, which stays where it is. There is one: `new` refuses none.
    fn id(&self) -> usize {
        self.cpus.get(crate::CpuIndex::new(0)).map_or(0, |notes| ptr::from_ref(notes).addr())
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
        let mut value = self.value.load(Ordering::Relaxed);
        // A free note: an interrupt that nests between this look and the store below has
        // cleared its own note again by then.
        let note = notes.used.iter().find(|note| note.load(Ordering::Relaxed).is_null());
        if value.is_null() {
            return None;
        }
        match note {
            Some(note) => loop {
                note.store(value.cast(), Ordering::Relaxed);
                // Pairs with the fence in `replace`.
                fence(Ordering::SeqCst);
                // Acquire: pairs with the release in `replace` that published the value.
                let again = self.value.load(Ordering::Acquire);
                if again == value {
                    break;
                }
                value = again;
                if value.is_null() {
                    note.store(ptr::null_mut(), Ordering::Relaxed);
                    return None;
                }
            },
            None => {
                notes.unnoted.store(notes.unnoted.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                value = self.value.load(Ordering::Acquire);
            }
        }
        let using = Using { value: NonNull::new(value), note, notes, on: PhantomData, slot: PhantomData };
        using.value.is_some().then_some(using)
    }

    /// Puts `new` in the slot and takes the old value out of it, which CPUs may still use.
    ///
    /// # Errors
    /// [`Error::Context`] if the caller runs inside a use of the old value on this CPU (a
    /// handler that removes itself), [`Error::Invalid`] for readers that are not the slot's;
    /// nothing has changed then and `new` comes back.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn replace<P: Platform + ?Sized>(
        &self,
        platform: &P,
        readers: &Readers,
        new: Option<Box<T>>,
    ) -> Result<Option<Retired<T>>, (Error, Option<Box<T>>)> {
        if readers.id() != self.readers {
            return Err((Error::Invalid { what: "readers of a slot", value: 0 }, new));
        }
        let state = platform.irq_save();
        let here = readers.cpus.get(platform.this_cpu());
        let old = self.value.load(Ordering::Relaxed);
        let inside = !old.is_null() && here.is_some_and(|notes| notes.holds(old.cast()));
        // SAFETY: `state` came from `irq_save` just above, on this CPU.
        unsafe { platform.irq_restore(state) };
        if inside {
            return Err((Error::Context { what: "removal from inside the handler" }, new));
        }
        let new = new.map_or(ptr::null_mut(), Box::into_raw);
        // Release: publishes the new value to `read`. Acquire: the old value's contents.
        let old = self.value.swap(new, Ordering::AcqRel);
        // Pairs with the fence in `read`.
        fence(Ordering::SeqCst);
        Ok(NonNull::new(old).map(|value| Retired { value, readers: self.readers, owns: PhantomData }))
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

/// A value in use by this CPU.
#[derive(Debug)]
pub struct Using<'r, T> {
    value: Option<NonNull<T>>,
    note: Option<&'r AtomicPtr<()>>,
    notes: &'r Notes,
    on: PhantomData<&'r OnCpu>,
    slot: PhantomData<&'r Slot<T>>,
}

impl<T> Deref for Using<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let value = self.value.unwrap_or(NonNull::dangling());
        // SAFETY: a guard is handed out with a value only; its note, or the count of unnoted
        // uses, keeps every remover from freeing it.
        unsafe { value.as_ref() }
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
            return Err((Error::Invalid { what: "readers of a slot", value: 0 }, self));
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
