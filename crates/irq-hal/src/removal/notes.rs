// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each CPU notes, and the walk that waits for notes.

use crate::CpuIndex;
use crate::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::error::Error;
use crate::percpu::{CachePadded, PerCpu};

/// How many places one CPU can use at a time with a note each: entries nest two or three deep.
/// What is beyond is counted, and a remover waits for all of it.
const NOTES: usize = 4;

/// What one CPU uses at the moment. Written by that CPU alone.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Notes {
    /// 0, or a place's mark in the low half and a tag in the high half.
    used: [AtomicU64; NOTES],
    unnoted: AtomicUsize,
}

impl Notes {
    fn new() -> Self {
        Self {
            used: core::array::from_fn(|_| AtomicU64::new(0)),
            unnoted: AtomicUsize::new(0),
        }
    }

    /// The first note.
    #[inline]
    pub(super) const fn first(&self) -> &AtomicU64 {
        let [first, ..] = &self.used;
        first
    }

    /// A note that is not in use. An interrupt that nests between this look and the store of
    /// the note has cleared its own again by then.
    pub(super) fn free(&self) -> Option<&AtomicU64> {
        self.used
            .iter()
            .find(|note| note.load(Ordering::Relaxed) == 0)
    }

    /// Whether this CPU uses anything. For the CPU itself.
    pub(super) fn any(&self) -> bool {
        self.unnoted.load(Ordering::Relaxed) != 0
            || self
                .used
                .iter()
                .any(|note| note.load(Ordering::Relaxed) != 0)
    }

    #[cold]
    pub(super) fn count(&self) {
        let unnoted = self.unnoted.load(Ordering::Relaxed);
        self.unnoted.store(unnoted + 1, Ordering::Relaxed);
    }

    #[cold]
    fn discount(&self) {
        let unnoted = self.unnoted.load(Ordering::Relaxed);
        // Release: pairs with the acquire in `Walk::done`.
        self.unnoted.store(unnoted - 1, Ordering::Release);
    }
}

/// A CPU's part in a [`Table`](super::Table): what it has noted, and the embedding crate's block
/// beside it.
///
/// It serves one table at a time.
// The notes come first, where a store-release needs no offset.
#[derive(Debug)]
#[repr(C)]
pub struct Reader<B> {
    pub(super) notes: CachePadded<Notes>,
    bound: CachePadded<AtomicBool>,
    pub(super) block: B,
}

impl<B> Reader<B> {
    /// With `block` beside the notes.
    pub fn new(block: B) -> Self {
        Self {
            notes: CachePadded::new(Notes::new()),
            bound: CachePadded::new(AtomicBool::new(false)),
            block,
        }
    }

    /// The block.
    #[inline]
    pub const fn block(&self) -> &B {
        &self.block
    }
}

/// Claims all readers for one table. If one serves already, none is claimed.
pub(super) fn bind<B>(cpus: &PerCpu<Reader<B>>) -> Result<(), Error> {
    for (count, (_, reader)) in cpus.iter().enumerate() {
        // Acquire: pairs with the release in `unbind`, so that the earlier table's use of the
        // notes is over.
        if reader.bound.swap(true, Ordering::Acquire) {
            unbind(cpus, count);
            return Err(Error::Busy {
                what: "the block of a CPU",
            });
        }
    }
    Ok(())
}

/// Frees the first `count` readers for another table.
pub(super) fn unbind<B>(cpus: &PerCpu<Reader<B>>, count: usize) {
    for (_, reader) in cpus.iter().take(count) {
        // Release: pairs with the acquire in `bind`.
        reader.bound.store(false, Ordering::Release);
    }
}

/// What a note of place `index` has in its low half; never 0, as an index is below a `u32`.
#[inline]
pub(super) const fn mark(index: u32) -> u32 {
    index.wrapping_add(1)
}

/// A note while it stands; withdrawn when dropped.
#[derive(Debug)]
pub(super) enum Note<'a> {
    One(&'a AtomicU64),
    Counted(&'a Notes),
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        match self {
            Self::One(note) => drop(FirstNote(note)),
            Self::Counted(notes) => notes.discount(),
        }
    }
}

/// Likewise for a note of which nothing else is to be known.
#[derive(Debug)]
pub(super) struct FirstNote<'a>(pub(super) &'a AtomicU64);

impl Drop for FirstNote<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Walk::done`.
        self.0.store(0, Ordering::Release);
    }
}

/// A walk over all CPUs' notes that passes each when it has been seen without what it had.
pub(super) struct Walk {
    mark: u32,
    cpu: u32,
    note: usize,
    /// The note that the walk waits for, or 0.
    seen: u64,
}

impl Walk {
    pub(super) const fn new(mark: u32) -> Self {
        Self {
            mark,
            cpu: 0,
            note: 0,
            seen: 0,
        }
    }

    /// Goes on as far as it can, and says whether that is the end.
    pub(super) fn done<B>(&mut self, cpus: &PerCpu<Reader<B>>) -> bool {
        while let Some(reader) = cpus.get(CpuIndex::new(self.cpu)) {
            let notes = &reader.notes;
            while let Some(note) = notes.used.get(self.note) {
                // Acquire: pairs with the release stores of `At::note` and `FirstNote::drop`, so
                // that the use comes before what follows here.
                let now = note.load(Ordering::Acquire);
                let waits = if self.seen == 0 {
                    now as u32 == self.mark
                } else {
                    now == self.seen
                };
                if waits {
                    self.seen = now;
                    return false;
                }
                self.seen = 0;
                self.note += 1;
            }
            // Acquire: pairs with the release in `Notes::discount`, likewise.
            if notes.unnoted.load(Ordering::Acquire) != 0 {
                return false;
            }
            self.note = 0;
            self.cpu += 1;
        }
        true
    }
}
