// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table that lets registrations be removed while handlers run.
//!
//! Each place of a [`Table`] holds one boxed value that interrupt entries read. An entry takes
//! no lock and writes only its own CPU's line: it notes the place that it is about to read,
//! reads, and withdraws the note when it is done. Whoever changes a place pays:
//! [`Table::replace`] unpublishes the old value, and [`Retired::reclaim`] waits, bounded, until
//! each CPU has been seen without the notes that it had of this place.
//!
//! ```text
//! entry                               remover
//! note the place in own CPU's line    swap pointer
//! ------- SeqCst fence -------        ------- SeqCst fence -------
//! read pointer, use the value         a CPU has the place noted?  then wait for that note
//! clear the note (release)            see it gone (acquire), free
//! ```
//! Of the two fences one comes first: either the entry reads the new pointer, or the remover
//! sees the note. An entry that begins later reads the new pointer, so each note is waited for
//! once, however often the interrupt fires: a note carries a tag that tells it from the next.

mod notes;
mod read;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::CpuIndex;
use crate::atomic::{AtomicPtr, Ordering, fence};
use crate::error::Error;
use crate::heap::try_vec;
use crate::percpu::{self, OnCpu, PerCpu};
use crate::platform::Platform;
use crate::wait::{Bound, WaitFor, wait};

use notes::{Walk, bind, mark, unbind};

pub use notes::Reader;
pub use read::{At, Here, Nested, Using, UsingFirst};

static UNUSED: WaitFor = WaitFor {
    register: "registration",
    state: "used by no CPU",
};

/// One place: a value that entries read, and data beside it that never changes.
// The value comes first, where a load-acquire needs no offset.
#[derive(Debug)]
#[repr(C)]
struct Place<T, D> {
    value: AtomicPtr<T>,
    data: D,
    owns: PhantomData<Box<T>>,
}

// SAFETY: a place hands out `&T` and `&D` on any CPU and gives the box away to whoever replaces
// the value.
unsafe impl<T: Send + Sync, D: Sync> Sync for Place<T, D> {}
// SAFETY: as for `Sync`; it owns a box of `T` and a `D`.
unsafe impl<T: Send + Sync, D: Send> Send for Place<T, D> {}

/// Places for boxed values that interrupt entries read without a lock, with one [`Reader`] for
/// each CPU.
pub struct Table<T, D, B: 'static> {
    places: Vec<Place<T, D>>,
    cpus: PerCpu<Reader<B>>,
}

impl<T, D, B> Table<T, D, B> {
    /// `places` empty ones, read by `cpus`; place `i` has `data(i)` beside it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] for no CPU; [`Error::Busy`] for a lent reader
    /// that serves a table already, or stands twice among `cpus`.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(
        cpus: PerCpu<Reader<B>>,
        places: u32,
        mut data: impl FnMut(u32) -> D,
    ) -> Result<Self, Error> {
        if cpus.is_empty() {
            return Err(Error::Invalid {
                what: "number of CPUs",
                value: 0,
            });
        }
        let mut list = try_vec(places as usize)?;
        list.extend((0..places).map(|index| Place {
            value: AtomicPtr::new(ptr::null_mut()),
            data: data(index),
            owns: PhantomData,
        }));
        bind(&cpus)?;
        Ok(Self { places: list, cpus })
    }

    /// The number of places.
    pub fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of possible CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus.len()
    }

    /// The block of `cpu`, or nothing beyond the possible CPUs.
    #[inline]
    pub fn block(&self, cpu: CpuIndex) -> Option<&B> {
        self.cpus.get(cpu).map(Reader::block)
    }

    /// All blocks, in the order of CPUs.
    pub fn blocks(&self) -> impl Iterator<Item = &B> {
        self.cpus.iter().map(|(_, reader)| reader.block())
    }

    /// The data beside a place.
    #[inline]
    pub fn data(&self, index: u32) -> Option<&D> {
        self.places.get(index as usize).map(|place| &place.data)
    }

    /// The table as the CPU of `on` reads it; nothing for a CPU beyond the possible ones.
    #[inline]
    pub fn here<'a>(&'a self, on: &'a OnCpu) -> Option<Here<'a, T, D, B>> {
        Some(Here {
            places: &self.places,
            reader: self.cpus.get(on.cpu())?,
            on: PhantomData,
        })
    }

    /// Whether the caller runs inside a use of any place: in a handler.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn in_use_here<P: Platform + ?Sized>(&self, platform: &P) -> bool {
        percpu::masked(platform, |on| {
            self.cpus
                .get(on.cpu())
                .is_some_and(|reader| reader.notes.any())
        })
    }

    /// Puts `new` in place `index` and takes the old value out of it, which CPUs may still use.
    ///
    /// # Errors
    /// [`Error::Context`] if this CPU is inside a use of any place (a handler that removes
    /// itself: it would wait for its own end), [`Error::Invalid`] if there is no such place.
    /// Nothing has changed then, and `new` comes back.
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn replace<P: Platform + ?Sized>(
        &self,
        platform: &P,
        index: u32,
        new: Option<Box<T>>,
    ) -> Replaced<T> {
        let Some(place) = self.places.get(index as usize) else {
            return Err((no_place(index), new));
        };
        if self.in_use_here(platform) {
            return Err((INSIDE, new));
        }
        let new = new.map_or(ptr::null_mut(), Box::into_raw);
        // Release: publishes the new value to `At::noted` and to the next `replace`.
        let old = place.value.swap(new, Ordering::Release);
        // Pairs with the fence in `At::noted`. It also acquires the contents of the old value.
        fence(Ordering::SeqCst);
        let retired = |value| Retired {
            value,
            table: self.id(),
            index,
            owns: PhantomData,
        };
        Ok(NonNull::new(old).map(retired))
    }

    /// Waits until every use of place `index` that was under way at the call is over. Those
    /// that begin later are not waited for, however many.
    ///
    /// # Errors
    /// [`Error::Context`] if this CPU is inside a use of any place, [`Error::Invalid`] if there
    /// is no such place; [`Error::Timeout`] at `bound`.
    ///
    /// # Context
    /// Interrupts unmasked and no lock held, or the wait may be in vain.
    pub fn synchronize<P: Platform + ?Sized>(
        &self,
        platform: &P,
        index: u32,
        bound: Bound,
    ) -> Result<(), Error> {
        if index >= self.len() {
            return Err(no_place(index));
        }
        if self.in_use_here(platform) {
            return Err(INSIDE);
        }
        // Pairs with the fence in `At::noted`: what the caller wrote before is seen by uses that
        // this does not see.
        fence(Ordering::SeqCst);
        self.quiesce(platform, index, bound)
    }

    /// Waits until each CPU has been seen without the notes of place `index` that it had.
    fn quiesce<P: Platform + ?Sized>(
        &self,
        platform: &P,
        index: u32,
        bound: Bound,
    ) -> Result<(), Error> {
        let mut walk = Walk::new(mark(index));
        let used = || u32::from(!walk.done(&self.cpus));
        wait(platform, &UNUSED, bound, used, |used| used == 0).map(drop)
    }

    /// Names this table while it lives, also when it moves: the address of its first reader,
    /// which stays where it is and serves no other table. There is one: `new` refuses none.
    fn id(&self) -> usize {
        self.cpus
            .get(CpuIndex::new(0))
            .map_or(0, |reader| ptr::from_ref(reader).addr())
    }
}

const INSIDE: Error = Error::Context {
    what: "waiting for handlers from inside a handler",
};

const fn no_place(index: u32) -> Error {
    Error::Invalid {
        what: "place in a table",
        value: index as u64,
    }
}

impl<T, D, B: 'static> Drop for Table<T, D, B> {
    fn drop(&mut self) {
        for place in &self.places {
            let value = place.value.load(Ordering::Relaxed);
            if !value.is_null() {
                // SAFETY: the pointer came from a box in `replace`; guards borrow the table, so
                // none is left.
                drop(unsafe { Box::from_raw(value) });
            }
        }
        unbind(&self.cpus, self.cpus.len() as usize);
    }
}

impl<T, D, B> fmt::Debug for Table<T, D, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("places", &self.len())
            .field("cpus", &self.cpus())
            .finish_non_exhaustive()
    }
}

/// What [`Table::replace`] took out; or why it did not, and the value that it did not put in.
pub type Replaced<T> = Result<Option<Retired<T>>, (Error, Option<Box<T>>)>;

/// A value that left its place and that CPUs may still use. Dropping it leaks the value.
#[derive(Debug)]
#[must_use = "dropping it leaks the value; call `reclaim`"]
pub struct Retired<T> {
    value: NonNull<T>,
    table: usize,
    index: u32,
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
    /// [`Error::Timeout`] if a CPU still uses it at `bound`, [`Error::Invalid`] for a table
    /// that the value was not in; the value stays retired and the call can be repeated.
    ///
    /// # Context
    /// Interrupts unmasked and no lock held, or the wait may be in vain.
    pub fn reclaim<P, D, B>(
        self,
        platform: &P,
        table: &Table<T, D, B>,
        bound: Bound,
    ) -> Result<Box<T>, (Error, Self)>
    where
        P: Platform + ?Sized,
    {
        if table.id() != self.table {
            return Err((
                Error::Invalid {
                    what: "table of a value",
                    value: 0,
                },
                self,
            ));
        }
        match table.quiesce(platform, self.index, bound) {
            // SAFETY: the pointer came from a box in `replace` and is in no place; each CPU was
            // seen without the notes that it had when it could still read the pointer.
            Ok(()) => Ok(unsafe { Box::from_raw(self.value.as_ptr()) }),
            Err(error) => Err((error, self)),
        }
    }
}
