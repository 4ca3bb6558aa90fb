// SPDX-License-Identifier: MIT OR Apache-2.0
//! The word that says what a CPU was asked for.

use irq_hal::atomic::{AtomicU32, Ordering};

/// Somebody waits for a remote call.
pub(super) const CALL: u32 = 1 << 30;
/// The CPU takes nothing: it is offline. What is posted beside this bit is refused.
pub(super) const OFFLINE: u32 = 1 << 31;

/// The place of a CPU that never was online.
const NOWHERE: u32 = u32::MAX;

/// One CPU's mailbox, and what its senders read beside it.
///
/// While it is open and not empty, a ring is under way: by who found it empty, or by the CPU
/// itself, which takes everything when the interrupt comes.
#[derive(Debug)]
pub(super) struct Mailbox {
    word: AtomicU32,
    /// Where sends to the CPU's node count in a sender's tally.
    place: AtomicU32,
}

impl Mailbox {
    /// Closed.
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU32::new(OFFLINE),
            place: AtomicU32::new(NOWHERE),
        }
    }

    /// As new.
    pub(super) fn reset(&self) {
        self.bind(NOWHERE);
        self.close();
    }

    /// Adds `bits` and returns what was there before: nothing, if the caller has to ring.
    #[inline]
    pub(super) fn post(&self, bits: u32) -> u32 {
        // Release: what the sender wrote before is seen by the run; pairs with the acquire in
        // `take`, also through later posts. Acquire: pairs with `open`, for the place.
        self.word.fetch_or(bits, Ordering::AcqRel)
    }

    /// Takes everything. For the CPU itself, after it acknowledged the interrupt.
    #[inline]
    pub(super) fn take(&self) -> u32 {
        // Acquire: pairs with the release in `post`. Release: who posts next, and so finds the
        // mailbox empty, may rely on what this CPU did before.
        let taken = self.word.fetch_and(OFFLINE, Ordering::AcqRel);
        if taken & OFFLINE == 0 { taken } else { 0 }
    }

    /// Takes those of `bits` that are there. For the CPU itself, outside of the interrupt.
    #[inline]
    pub(super) fn take_some(&self, bits: u32) -> u32 {
        let seen = self.word.load(Ordering::Relaxed);
        if seen & OFFLINE != 0 || seen & bits == 0 {
            return 0;
        }
        // As in `take`. Only this CPU closes the mailbox, so it is still open.
        self.word.fetch_and(!bits, Ordering::AcqRel) & bits
    }

    pub(super) fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) & OFFLINE == 0
    }

    /// Says where sends to the CPU count. Before the mailbox is opened.
    pub(super) fn bind(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// Opens the mailbox with `bits` in it; what was refused is forgotten.
    pub(super) fn open(&self, bits: u32) {
        // Release: pairs with the acquire in `post`. An update, as every change of the word:
        // each one finds what the one before it left.
        self.word.swap(bits, Ordering::Release);
    }

    /// Closes the mailbox and returns what was accepted until then.
    pub(super) fn close(&self) -> u32 {
        // As in `take`; every post before this one was accepted, every later one is refused.
        self.word.swap(OFFLINE, Ordering::AcqRel)
    }

    /// Where sends to the CPU count; out of every range for a CPU that never was online.
    #[inline]
    pub(super) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }
}
