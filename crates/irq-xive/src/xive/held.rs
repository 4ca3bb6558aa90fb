// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slot of a device source: its pages, and who may end it.
//!
//! An end that comes while the source is parked or off would undo that, since it sets the state
//! to idle. So entries look at a word of the source before they end it, and whoever parks a source
//! waits until ends that did not see it yet are over. Both sides change the one word, so one of
//! the two always comes first:
//!
//! ```text
//! entry: end                          control: park
//! ENDS + 1, HELD was clear            HELD
//! the end, at the ESB                 wait until ENDS is 0
//! ENDS - 1                            the state, at the ESB
//! ```
//! An end that finds HELD does nothing but note that it is owed: whoever lets the source go again
//! makes it up.

use irq_hal::atomic::{AtomicU32, Ordering};
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::CachePadded;
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Error, Platform};
use spin::Once;

use crate::esb::Esb;
use crate::ids::SourceNumber;

/// The source is parked or off: it is not ended.
pub(super) const HELD: u32 = 1 << 31;
/// An event was taken and not ended.
pub(super) const OWED: u32 = 1 << 30;
/// An event was taken, to be completed later.
pub(super) const DEFERRED: u32 = 1 << 29;
/// An event was taken, and somebody else ends it.
pub(super) const HANDED: u32 = 1 << 28;
/// Ends under way.
const ENDS: u32 = HANDED - 1;

static ENDED: WaitFor = WaitFor {
    register: "source",
    state: "ended by no CPU",
};
static TAKEN: WaitFor = WaitFor {
    register: "source",
    state: "no event under way",
};
const MICROS: u32 = 100_000;
const POLLS: u32 = 1_000_000;

/// A source while firmware lets us have it, and afterwards: other CPUs may be about to leave its
/// pages, and firmware hands the same numbers out again.
#[derive(Debug)]
pub(super) struct Source<W> {
    pub number: SourceNumber,
    pub esb: Esb<W>,
}

/// What holds a source back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// Nothing.
    Live,
    /// Its events are kept.
    Parked,
    /// Its events are dropped.
    Off,
}

/// What control knows of a source.
#[derive(Debug)]
pub(super) struct Held {
    pub hold: Hold,
    /// An event was under way when the source was held: in a queue, with a handler, or deferred.
    pub under_way: bool,
}

/// What entries use.
#[derive(Debug)]
pub(super) struct Hand<W> {
    pub source: Once<Source<W>>,
    pub word: AtomicU32,
}

/// A place in the table of device sources.
#[derive(Debug)]
pub(super) struct Slot<W> {
    pub hand: CachePadded<Hand<W>>,
    /// Leaf.
    pub held: MaskedLock<Held, 5>,
}

impl<W> Slot<W> {
    pub fn new() -> Self {
        Self {
            hand: CachePadded::new(Hand {
                source: Once::new(),
                word: AtomicU32::new(HELD),
            }),
            held: MaskedLock::new(Held {
                hold: Hold::Off,
                under_way: false,
            }),
        }
    }
}

impl<W> Hand<W> {
    /// Runs `end` unless the source is held back.
    #[inline]
    pub fn end(&self, end: impl FnOnce()) {
        // Acquire: pairs with the release of whoever let the source go.
        let before = self.word.fetch_add(1, Ordering::Acquire);
        if before & HANDED != 0 {
            self.forget();
        }
        if before & HELD != 0 {
            self.owe();
        } else {
            end();
            // Release: pairs with the acquire in `hold`. An end by a store may still be on its
            // way to the source; loads that must not overtake it say so themselves.
            self.word.fetch_sub(1, Ordering::Release);
        }
    }

    #[cold]
    fn owe(&self) {
        self.word.fetch_or(OWED, Ordering::Relaxed);
        self.word.fetch_sub(1, Ordering::Release);
    }

    /// The event that was somebody else's is over, or this one would not have come.
    #[cold]
    fn forget(&self) {
        self.word.fetch_and(!HANDED, Ordering::Relaxed);
    }

    /// Keeps entries from ending the source, or fails and does not.
    pub fn hold<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        self.word.fetch_or(HELD, Ordering::Relaxed);
        self.no_end_under_way(platform).inspect_err(|_| {
            self.word.fetch_and(!HELD, Ordering::Release);
        })
    }

    /// Waits for ends that began before the source was held. They take a few instructions.
    fn no_end_under_way<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        // Acquire: pairs with the releases in `end` and `owe`.
        let ends = || self.word.load(Ordering::Acquire) & ENDS;
        let bound = Bound::new(platform, MICROS, POLLS);
        wait(platform, &ENDED, bound, ends, |ends| ends == 0).map(drop)
    }

    /// Lets entries end the source again. Whether an end is owed, which it is no more.
    pub fn let_go<P: Platform + ?Sized>(&self, platform: &P) -> Result<bool, Error> {
        loop {
            self.no_end_under_way(platform)?;
            // Release: what was done to the source comes before ends that find it so. Acquire:
            // what is owed was noted before.
            let let_go = self.update(Ordering::AcqRel, |word| {
                (word & ENDS == 0).then_some(word & !(HELD | OWED))
            });
            // An end that began meanwhile finds the source held, and is over soon.
            if let Some(before) = let_go {
                return Ok(before & OWED != 0);
            }
        }
    }

    /// Waits until an event that was under way when the source was held has been taken, by a
    /// handler that ended it, deferred it or handed it over.
    pub fn taken<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        let over = OWED | DEFERRED | HANDED;
        let bound = Bound::new(platform, MICROS, POLLS);
        let word = || self.word.load(Ordering::Acquire);
        // And nobody is about to change the word any more.
        let taken = |word| word & over != 0 && word & ENDS == 0;
        wait(platform, &TAKEN, bound, word, taken).map(drop)
    }

    /// Notes that the event that was taken stays for later.
    pub fn defer(&self) {
        // Release: pairs with the acquire in `complete`.
        let before = self.word.fetch_or(DEFERRED, Ordering::Release);
        if before & HANDED != 0 {
            self.forget();
        }
    }

    /// Notes that the event that was taken is somebody else's.
    pub fn hand_over(&self) {
        self.word.fetch_or(HANDED, Ordering::Release);
    }

    /// Runs `end` for an event that was deferred, or owes it if the source is held. Whether there
    /// was one.
    pub fn complete(&self, end: impl FnOnce()) -> bool {
        // Acquire: pairs with the release in `defer`.
        let completed = self.update(Ordering::Acquire, |word| {
            if word & DEFERRED == 0 {
                None
            } else if word & HELD != 0 {
                Some(word & !DEFERRED | OWED)
            } else {
                Some((word & !DEFERRED) + 1)
            }
        });
        match completed {
            Some(before) if before & HELD == 0 => {
                end();
                self.word.fetch_sub(1, Ordering::Release);
                true
            }
            Some(_) => true,
            None => false,
        }
    }

    /// Changes the word as `f` says, and gives the one before; nothing if `f` says no.
    fn update(&self, order: Ordering, f: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            match self
                .word
                .compare_exchange_weak(word, f(word)?, order, Ordering::Relaxed)
            {
                Ok(before) => return Some(before),
                Err(now) => word = now,
            }
        }
    }
}
