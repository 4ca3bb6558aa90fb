// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least key of many banks, and which banks have it: a tree with 64 children a vertex.
//!
//! A vertex is written only when the least key of a child changes, and its parent only when its
//! own does. Leaves are banks; their keys are kept with them.

use alloc::vec::Vec;
use core::array;

use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::heap::try_vec;
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::CachePadded;
use irq_hal::{Error, Platform};

use super::bank::BANK;
use super::rows::Key;

/// Children of a vertex: a bit of a word each.
pub(super) const FAN: u32 = u64::BITS;

struct Vertex {
    /// Held while the two words change. They are read without it.
    lock: MaskedLock<(), 2>,
    key: AtomicU64,
    /// The children that have it.
    least: AtomicU64,
    /// The key of each child as it was told last, side by side, and whose it was told.
    keys: [AtomicU64; FAN as usize],
    told: AtomicU64,
}

/// What is kept of a number of leaves. With one leaf there is nothing to keep.
pub(super) struct Least {
    /// From the first to the root's.
    levels: Vec<Level>,
    /// Level by level, from that above the leaves to the root.
    vertices: Vec<CachePadded<Vertex>>,
}

/// A level of the tree: how many children its vertices have together, and where the vertices
/// begin in the list. The children of the first level are the leaves.
#[derive(Clone, Copy)]
struct Level {
    children: u32,
    first: u32,
    /// Where the children begin, of a level that is not the first.
    below: Option<u32>,
    /// CPUs of a child: a power of two.
    span: u64,
}

impl Least {
    /// For `leaves` leaves, none of which has a CPU.
    pub(super) fn new(leaves: u32) -> Result<Self, Error> {
        let mut levels = try_vec(4)?;
        let mut next = Level {
            children: leaves,
            first: 0,
            below: None,
            span: u64::from(BANK),
        };
        while next.children > 1 {
            levels.push(next);
            next = Level {
                children: next.vertices(),
                first: next.first + next.vertices(),
                below: Some(next.first),
                span: next.span * u64::from(FAN),
            };
        }
        // What would come next begins behind all vertices.
        let mut vertices = try_vec(next.first as usize)?;
        vertices.extend((0..next.first).map(|_| {
            CachePadded::new(Vertex {
                lock: MaskedLock::new(()),
                key: AtomicU64::new(Key::NONE.0),
                least: AtomicU64::new(0),
                keys: array::from_fn(|_| AtomicU64::new(Key::NONE.0)),
                told: AtomicU64::new(0),
            })
        }));
        Ok(Self { levels, vertices })
    }

    /// The least key there is; `leaf` gives those of the leaves.
    pub(super) fn key(&self, leaf: impl Fn(u32) -> Key) -> Key {
        match self.vertices.last() {
            None => leaf(0),
            Some(root) => Key(root.key.load(Relaxed)),
        }
    }

    /// The keys of some leaves changed: of those of bits `which` from leaf `first` on, a multiple
    /// of 64. Brings the vertices above them up to date. No lock of this rank is held.
    pub(super) fn settle<P>(&self, platform: &P, first: u32, which: u64, leaf: impl Fn(u32) -> Key)
    where
        P: Platform + ?Sized,
    {
        let (mut first, mut which) = (first, which);
        for level in &self.levels {
            let vertex = &self.vertices[(level.first + first / FAN) as usize];
            // What others settled before is seen here: theirs was the same lock.
            let changed = vertex.lock.with(platform, |()| match level.below {
                None => vertex.settle(which, |at| leaf(first + at)),
                Some(below) => vertex.settle(which, |at| {
                    let child = &self.vertices[(below + first + at) as usize];
                    Key(child.key.load(Relaxed))
                }),
            });
            if !changed {
                return;
            }
            let child = first / FAN;
            (first, which) = (child - child % FAN, 1 << (child % FAN));
        }
    }

    /// The first CPU at or after `from`, cyclic, that has the least key; `leaf` gives the keys of
    /// the leaves and which of their CPUs have them. None if there is no such CPU, or it changed
    /// meanwhile.
    #[inline(always)]
    pub(super) fn find(&self, from: u32, leaf: impl Fn(u32) -> (Key, u64)) -> Option<(u32, Key)> {
        if self.vertices.is_empty() {
            let (key, least) = leaf(0);
            let cpu = at_or_after(least, from.into()).or_else(|| at_or_after(least, 0))?;
            return Some((cpu, key));
        }
        let key = self.key(|child| leaf(child).0);
        if key == Key::NONE {
            return None;
        }
        let walk = Walk {
            tree: self,
            key,
            leaf,
        };
        let cpu = walk.from(from.into()).or_else(|| walk.from(0))?;
        Some((cpu, key))
    }
}

impl Vertex {
    /// Takes over the keys of the children of bits `which`. Whether the least of all changed.
    /// Under the lock.
    fn settle(&self, which: u64, key_of: impl Fn(u32) -> Key) -> bool {
        let told = self.told.load(Relaxed);
        self.told.store(told | which, Relaxed);
        let before = Key(self.key.load(Relaxed));
        let others = self.least.load(Relaxed) & !which;
        let mut best = match others {
            0 => Best::default(),
            least => Best { key: before, least },
        };
        for at in bits(which) {
            let key = key_of(at);
            self.keys[at as usize].store(key.0, Relaxed);
            best.take(at, key);
        }
        if others == 0 {
            // All that had the least key are of `which`: the others are looked through.
            for at in bits(told & !which) {
                best.take(at, Key(self.keys[at as usize].load(Relaxed)));
            }
        }
        self.key.store(best.key.0, Relaxed);
        self.least.store(best.least, Relaxed);
        best.key != before
    }
}

/// The least key so far, and who has it.
struct Best {
    key: Key,
    least: u64,
}

impl Default for Best {
    fn default() -> Self {
        Self {
            key: Key::NONE,
            least: 0,
        }
    }
}

impl Best {
    #[inline(always)]
    fn take(&mut self, at: u32, key: Key) {
        if key < self.key {
            (self.key, self.least) = (key, 0);
        }
        self.least |= u64::from(key == self.key) << at;
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let at = (word != 0).then(|| word.trailing_zeros() % FAN)?;
        word &= word - 1;
        Some(at)
    })
}

impl Level {
    fn vertices(self) -> u32 {
        self.children.div_ceil(FAN)
    }
}

struct Walk<'a, L> {
    tree: &'a Least,
    key: Key,
    leaf: L,
}

impl<L: Fn(u32) -> (Key, u64)> Walk<'_, L> {
    /// The first CPU at or after `from`.
    fn from(&self, from: u64) -> Option<u32> {
        self.below(&self.tree.levels, 0, from)
    }

    /// Likewise below a vertex of the last of `levels`.
    fn below(&self, levels: &[Level], index: u32, from: u64) -> Option<u32> {
        let (level, levels) = levels.split_last()?;
        let vertex = &self.tree.vertices[(level.first + index) as usize];
        let first = u64::from(index * FAN) * level.span;
        let mut least = vertex.least.load(Relaxed);
        let start = from.saturating_sub(first) >> level.span.trailing_zeros();
        while let Some(child) = at_or_after(least, start) {
            least &= !(1 << child);
            let child = index * FAN + child;
            let found = match level.below {
                None => self.in_leaf(child, from),
                Some(_) => self.below(levels, child, from),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    #[inline(always)]
    fn in_leaf(&self, index: u32, from: u64) -> Option<u32> {
        let (key, least) = (self.leaf)(index);
        let first = u64::from(index) * u64::from(BANK);
        let least = if key == self.key { least } else { 0 };
        let bit = at_or_after(least, from.saturating_sub(first))?;
        Some(index * BANK + bit)
    }
}

/// The first bit of `word` that is not below `start`.
#[inline(always)]
fn at_or_after(word: u64, start: u64) -> Option<u32> {
    let bits = word & (u64::MAX << (start % 64));
    (bits != 0 && start < 64).then(|| bits.trailing_zeros())
}
