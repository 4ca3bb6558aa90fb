// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry's side: reading a place under a note.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::Place;
use super::notes::{FirstNote, Note, Reader, mark};
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::percpu::OnCpu;

/// A table as one CPU reads it.
#[derive(Debug)]
pub struct Here<'a, T, D, B> {
    pub(super) places: &'a [Place<T, D>],
    pub(super) reader: &'a Reader<B>,
    pub(super) on: PhantomData<&'a OnCpu>,
}

impl<'a, T, D, B> Here<'a, T, D, B> {
    /// The CPU's block.
    #[inline]
    pub const fn block(&self) -> &'a B {
        &self.reader.block
    }

    /// Place `index`, if there is one.
    #[inline]
    pub fn at(&self, index: u32) -> Option<At<'a, T, D, B>> {
        Some(At {
            place: self.places.get(index as usize)?,
            reader: self.reader,
            mark: mark(index),
            on: PhantomData,
        })
    }
}

/// A place as one CPU reads it.
#[derive(Debug)]
pub struct At<'a, T, D, B> {
    place: &'a Place<T, D>,
    reader: &'a Reader<B>,
    mark: u32,
    on: PhantomData<&'a OnCpu>,
}

impl<'a, T, D, B> At<'a, T, D, B> {
    /// The data beside the value.
    #[inline]
    pub const fn data(&self) -> &'a D {
        &self.place.data
    }

    /// The value, protected until the returned guard is dropped; nothing if there is none.
    ///
    /// `tag` should differ from that of this CPU's last read of the place, so that a remover
    /// tells the two apart: a count, for one. A tag that does not lets a remover wait longer.
    ///
    /// # Context
    /// Any, also nested in itself and from a non-maskable interrupt. No loop and no lock.
    pub fn read(&self, tag: u32) -> Option<Using<'a, T>> {
        let notes = &*self.reader.notes;
        let note = match notes.free() {
            Some(note) => {
                self.note(note, tag);
                Note::One(note)
            }
            None => {
                notes.count();
                Note::Counted(notes)
            }
        };
        // Without a value the note is withdrawn here.
        let value = self.noted()?;
        Some(Using {
            value,
            note,
            on: PhantomData,
            place: PhantomData,
        })
    }

    /// Likewise where this CPU uses nothing else, in as few instructions as there are.
    ///
    /// # Errors
    /// [`Nested`]: nothing was done, and it takes [`read`](Self::read).
    ///
    /// # Context
    /// As [`read`](Self::read).
    #[inline]
    pub fn read_first(&self, tag: u32) -> Result<Option<UsingFirst<'a, T>>, Nested> {
        let note = self.reader.notes.first();
        if note.load(Ordering::Relaxed) != 0 {
            return Err(Nested);
        }
        self.note(note, tag);
        let note = FirstNote(note);
        Ok(self.noted().map(|value| UsingFirst {
            value,
            note,
            on: PhantomData,
            place: PhantomData,
        }))
    }

    #[inline]
    fn note(&self, note: &AtomicU64, tag: u32) {
        // Release: pairs with the acquire in `Walk::done`. A remover that finds this note in
        // place of an earlier one knows that the earlier use is over.
        note.store(
            u64::from(tag) << 32 | u64::from(self.mark),
            Ordering::Release,
        );
    }

    /// The value, once a note is there.
    #[inline]
    fn noted(&self) -> Option<NonNull<T>> {
        // Pairs with the fences in `replace` and `synchronize`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `replace` that published the value.
        NonNull::new(self.place.value.load(Ordering::Acquire))
    }
}

/// This CPU uses another place already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nested;

/// A value in use by this CPU.
#[derive(Debug)]
pub struct Using<'a, T> {
    value: NonNull<T>,
    /// Dropped with the guard.
    #[expect(dead_code, reason = "it stands for the use")]
    note: Note<'a>,
    on: PhantomData<&'a OnCpu>,
    place: PhantomData<&'a T>,
}

/// A value in use by this CPU, which used nothing else when this began.
#[derive(Debug)]
pub struct UsingFirst<'a, T> {
    value: NonNull<T>,
    /// Dropped with the guard.
    #[expect(dead_code, reason = "it stands for the use")]
    note: FirstNote<'a>,
    on: PhantomData<&'a OnCpu>,
    place: PhantomData<&'a T>,
}

impl<T> Deref for Using<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the place held the value after the note, or the count of unnoted uses, was
        // there for every remover to see; it stays there until the guard is dropped.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Deref for UsingFirst<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the place held the value after the note was there for every remover to see;
        // it stays there until the guard is dropped.
        unsafe { self.value.as_ref() }
    }
}
