// SPDX-License-Identifier: MIT OR Apache-2.0
//! The banks of each node, and which CPUs of a bank are the node's.
//!
//! Where all CPUs of a bank are of one node, the bank's own summary is the node's. A bank of
//! several nodes has a summary for each.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};

use super::Class;
use super::least::Least;
use super::rows::{Key, Row};
use crate::block::{margin, try_apart};

/// The part of a bank that is of one node.
struct Part {
    /// Its CPUs that have been online.
    members: AtomicU64,
    /// For each class, in banks of several nodes: the least key of its CPUs to choose from, and
    /// which of them have it.
    summaries: [(AtomicU64, AtomicU64); 2],
}

/// A node.
pub(super) struct Node {
    number: u32,
    /// One for each bank, between margins.
    parts: Vec<Part>,
    pub(super) least: [Least; 2],
}

impl Node {
    pub(super) fn new(number: u32, banks: u32) -> Result<Self, Error> {
        let summary = || (AtomicU64::new(Key::NONE.0), AtomicU64::new(0));
        let part = || Part {
            members: AtomicU64::new(0),
            summaries: [summary(), summary()],
        };
        Ok(Self {
            number,
            parts: try_apart(banks, part)?,
            least: [Least::new(banks)?, Least::new(banks)?],
        })
    }

    fn part(&self, bank: u32) -> &Part {
        &self.parts[bank as usize + margin::<Part>()]
    }

    /// Its CPUs in a bank, of those that have been online.
    #[inline]
    pub(super) fn members(&self, bank: u32) -> u64 {
        self.part(bank).members.load(Relaxed)
    }

    /// Likewise in the banks from `bank` on.
    #[inline]
    pub(super) fn members_from(&self, bank: u32) -> impl Iterator<Item = u64> {
        let parts = &self.parts[bank as usize + margin::<Part>()..];
        parts.iter().map(|part| part.members.load(Relaxed))
    }

    /// Under the bank's lock.
    #[inline]
    pub(super) fn add(&self, bank: u32, bit: u64) {
        let members = &self.part(bank).members;
        members.store(members.load(Relaxed) | bit, Relaxed);
    }

    /// Brings the node's summary of a bank of several nodes up to date. Whether the least key
    /// changed. Under the bank's lock.
    #[inline]
    pub(super) fn refresh(&self, class: Class, bank: u32, row: Row<'_>) -> bool {
        let part = self.part(bank);
        let (key, least) = &part.summaries[class as usize];
        let open = row.open() & part.members.load(Relaxed);
        let before = Key(key.load(Relaxed));
        let (now, which) = row.summary(open, before);
        key.store(now.0, Relaxed);
        least.store(which, Relaxed);
        now != before
    }

    /// The least key of its CPUs in a bank, and which of them have it; `only` is the node of all
    /// CPUs of the bank, if there is one.
    #[inline(always)]
    pub(super) fn leaf(&self, class: Class, bank: u32, only: u32, row: Row<'_>) -> (Key, u64) {
        if only == self.number {
            return (row.key(), row.least());
        }
        let (key, least) = &self.part(bank).summaries[class as usize];
        (Key(key.load(Relaxed)), least.load(Relaxed))
    }
}
