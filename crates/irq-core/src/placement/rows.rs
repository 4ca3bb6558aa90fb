// SPDX-License-Identifier: MIT OR Apache-2.0
//! What choosing reads of a class: a row of words for each bank, one behind the other.
//!
//! ```text
//! open  key  least  room  -  -  -  -  │ own loads ...           │ cores' loads ...
//! └ one cache line ──────────────────┘
//! ```

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::heap::try_vec;

use super::Limits;
use super::bank::BANK;
use super::levels::Levels;

/// Words of a cache line.
const LINE: usize = 8;

/// Where in a row the words are.
const OPEN: usize = 0;
const KEY: usize = 1;
const LEAST: usize = 2;
const ROOM: usize = 3;
const OWN: usize = LINE;

/// What CPUs are ordered by: own load, then the core's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64);

impl Key {
    /// Behind every CPU: there is none.
    pub(super) const NONE: Self = Self(u64::MAX);

    pub(super) fn new(own: u32, core: u32) -> Self {
        Self(u64::from(own) << 32 | u64::from(core))
    }

    #[inline]
    pub(super) const fn own(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(super) const fn core(self) -> u32 {
        self.0 as u32
    }

    /// Itself, or where to look first if it is none.
    #[inline]
    pub(super) const fn hint(self) -> Self {
        match self {
            Self::NONE => Self(0),
            key => key,
        }
    }
}

/// The rows of a class.
pub(super) struct Rows {
    words: Vec<AtomicU64>,
    /// Where the first row begins: at a cache line.
    first: usize,
    /// Words from row to row: an odd number of cache lines, so that the same word of all rows is
    /// not in few sets of a cache.
    stride: usize,
    /// Where the cores' loads begin in a row, and how many words a row has.
    core: usize,
    end: usize,
}

impl Rows {
    /// For `banks` banks; `room` says whether a CPU has room to begin with.
    pub(super) fn new(banks: usize, limits: &Limits, room: bool) -> Result<Self, Error> {
        let core = OWN + Levels::words(limits.load);
        let end = core + Levels::words(limits.load * limits.threads);
        let stride = (end.div_ceil(LINE) | 1) * LINE;
        let count = banks * stride + LINE;
        let mut words: Vec<AtomicU64> = try_vec(count)?;
        let to_line = words.as_ptr().align_offset(LINE * size_of::<AtomicU64>());
        // No promise of the language: rows may lie across cache lines then.
        let first = to_line.min(LINE);
        words.extend((0..count).map(|at| {
            let at = at.wrapping_sub(first) % stride;
            AtomicU64::new(match at {
                OPEN | LEAST => 0,
                KEY => Key::NONE.0,
                ROOM if room => u64::MAX,
                _ if at >= core => Levels::initial(at - core),
                _ if at >= OWN => Levels::initial(at - OWN),
                _ => 0,
            })
        }));
        Ok(Self {
            words,
            first,
            stride,
            core,
            end,
        })
    }

    /// The rows from that of `bank` on, as words.
    #[inline]
    pub(super) fn from(&self, bank: u32) -> impl Iterator<Item = &[AtomicU64]> {
        let first = self.first + bank as usize * self.stride;
        self.words[first..].chunks_exact(self.stride)
    }

    /// Where in the words of a row it is read whether a CPU has less load than `own`, and whether
    /// it has as much and its core less than `core`. All are in a row.
    #[inline(always)]
    pub(super) fn question(&self, own: u32, core: u32) -> [usize; 3] {
        let own = OWN + own as usize;
        let within = |at: usize| at.min(self.stride - 1);
        [own, own + 1, self.core + core as usize].map(within)
    }

    #[inline(always)]
    pub(super) fn row(&self, bank: u32) -> Row<'_> {
        let first = self.first + bank as usize * self.stride;
        Row {
            words: &self.words[first..first + self.end],
            core: self.core,
        }
    }
}

/// The CPUs of a row to choose from for which the answer to the question is yes.
#[inline(always)]
pub(super) fn answer(row: &[AtomicU64], [less, as_much, core]: [usize; 3]) -> u64 {
    let at = |word: usize| row[word].load(Relaxed);
    at(OPEN) & (at(less) | at(as_much) & at(core))
}

/// A class of a bank.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    words: &'a [AtomicU64],
    core: usize,
}

impl<'a> Row<'a> {
    /// The CPUs to choose from: online, with room, not isolated.
    #[inline(always)]
    pub(super) fn open(self) -> u64 {
        self.words[OPEN].load(Relaxed)
    }

    /// The least key among them.
    #[inline(always)]
    pub(super) fn key(self) -> Key {
        Key(self.words[KEY].load(Relaxed))
    }

    /// Those that have it.
    #[inline(always)]
    pub(super) fn least(self) -> u64 {
        self.words[LEAST].load(Relaxed)
    }

    /// The CPUs that have room, their loads left aside.
    #[inline]
    pub(super) fn room(self) -> u64 {
        self.words[ROOM].load(Relaxed)
    }

    /// The CPUs that have room, and are not as loaded as can be.
    #[inline(always)]
    pub(super) fn with_room(self) -> u64 {
        let own = self.own();
        self.room() & own.below(own.highest())
    }

    #[inline(always)]
    pub(super) fn own(self) -> Levels<'a> {
        Levels::new(&self.words[OWN..self.core])
    }

    /// The loads of the CPUs' cores, up to the highest that is kept apart.
    #[inline(always)]
    pub(super) fn cores(self) -> Levels<'a> {
        Levels::new(&self.words[self.core..])
    }

    /// The own load of the CPU of `bit`.
    #[inline(always)]
    pub(super) fn load(self, bit: u64) -> u32 {
        self.own().least(bit, self.key().hint().own())
    }

    // What follows is called under the bank's lock.

    /// Whether that is new.
    #[inline]
    pub(super) fn set_room(self, bits: u64, room: bool) -> bool {
        let before = self.room();
        let now = match room {
            true => before | bits,
            false => before & !bits,
        };
        if now != before {
            self.words[ROOM].store(now, Relaxed);
        }
        now != before
    }

    /// Shows that so many are placed on the core of `cpu`, by `count` more than before if nobody
    /// else changed it.
    #[inline]
    pub(super) fn show(self, cpu: u32, placed: u32, count: i32) {
        let (cores, bit) = (self.cores(), 1 << (cpu % BANK));
        let to = placed.min(cores.highest());
        let from = cores.least(bit, to.saturating_add_signed(count.saturating_neg()));
        cores.shift(bit, from, to);
    }

    /// `open` are the CPUs to choose from now, or their loads changed. Whether the least key did.
    #[inline(always)]
    pub(super) fn refresh(self, open: u64) -> bool {
        self.words[OPEN].store(open, Relaxed);
        let before = self.key();
        let (key, least) = self.summary(open, before);
        self.words[LEAST].store(least, Relaxed);
        if key == before {
            return false;
        }
        self.words[KEY].store(key.0, Relaxed);
        true
    }

    /// `cpus` do not have the least key any more, unless nobody else has it. Whether it is so.
    #[inline(always)]
    pub(super) fn leave_least(self, cpus: u64) -> bool {
        let others = self.least() & !cpus;
        if others != 0 {
            self.words[LEAST].store(others, Relaxed);
        }
        others != 0
    }

    /// The least key of the CPUs of `set`, and which of them have it.
    #[inline(always)]
    pub(super) fn summary(self, set: u64, hint: Key) -> (Key, u64) {
        if set == 0 {
            return (Key::NONE, 0);
        }
        let hint = hint.hint();
        let own = self.own().least(set, hint.own());
        let least = set & self.own().below(own + 1);
        let core = self.cores().least(least, hint.core());
        (Key::new(own, core), least & self.cores().below(core + 1))
    }
}
