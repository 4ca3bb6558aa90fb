// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many IPIs went to a node, and how many came.
//!
//! A sender counts in its own block, by the target's node; a receiver in its own. A query adds
//! up what all CPUs have.

use alloc::vec::Vec;

use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::{Error, NodeId};

use crate::block::{margin, try_apart};
use crate::interrupts::Interrupts;

use super::Ipis;

/// The counts of a node's descriptor. Exact once the CPUs are quiet.
///
/// What a CPU posts back to itself, since it had to leave it for its next interrupt, counts as
/// sent again if it rings.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IpiCounts {
    /// Sends and remote calls to CPUs of the node: those that rang and those that coalesced.
    pub sent: u64,
    /// Of these, with an access to the controller.
    pub rung: u64,
    /// Of these, without one, since an interrupt was under way to the CPU.
    pub coalesced: u64,
    /// Interrupts that CPUs of the node took. At most `rung`: the controller may merge them.
    pub taken: u64,
}

/// What a CPU sent to one node.
#[derive(Debug)]
pub(super) struct SentTo {
    rung: AtomicU64,
    coalesced: AtomicU64,
}

impl SentTo {
    fn new() -> Self {
        Self {
            rung: AtomicU64::new(0),
            coalesced: AtomicU64::new(0),
        }
    }

    // One CPU counts here, but an interrupt that sends may come in between: no load and store.

    #[inline]
    pub(super) fn count_rung(&self) {
        self.rung.fetch_add(1, Relaxed);
    }

    #[inline]
    pub(super) fn count_coalesced(&self) {
        self.coalesced.fetch_add(1, Relaxed);
    }
}

/// Where sends to `node` count.
pub(super) const fn place(node: NodeId) -> u32 {
    margin::<SentTo>() as u32 + node.get()
}

/// What one CPU counts.
#[derive(Debug)]
pub(super) struct Tally {
    taken: AtomicU64,
    /// By node, between margins.
    sent: Vec<SentTo>,
}

impl Tally {
    pub(super) fn new(nodes: u32) -> Result<Self, Error> {
        Ok(Self {
            taken: AtomicU64::new(0),
            sent: try_apart(nodes, SentTo::new)?,
        })
    }

    /// From 0 again.
    pub(super) fn reset(&self) {
        self.taken.store(0, Relaxed);
        for to in &self.sent {
            to.rung.store(0, Relaxed);
            to.coalesced.store(0, Relaxed);
        }
    }

    /// Counts an interrupt, between its acknowledge and its end: it cannot come again before.
    #[inline]
    pub(super) fn count_taken(&self) {
        self.taken.store(self.taken.load(Relaxed) + 1, Relaxed);
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// The counts at a [`place`].
    #[inline]
    pub(super) fn to(&self, place: u32) -> Option<&SentTo> {
        self.sent.get(place as usize)
    }
}

impl Ipis<'_> {
    pub(super) fn counts(self, node: NodeId) -> Option<IpiCounts> {
        if node.get() >= self.interrupts.topology.nodes() {
            return None;
        }
        let place = place(node);
        let mut counts = IpiCounts::default();
        let mut listed = false;
        for (_, block) in self.blocks() {
            if let Some(to) = block.tally.to(place) {
                counts.rung += to.rung.load(Relaxed);
                counts.coalesced += to.coalesced.load(Relaxed);
            }
            if block.mailbox.place() == place {
                counts.taken += block.tally.taken();
                listed = true;
            }
        }
        counts.sent = counts.rung + counts.coalesced;
        listed.then_some(counts)
    }
}

impl Interrupts {
    /// The counts of the descriptor `IPI-<node>`; nothing for a node that no CPU was ever
    /// online on, or beyond the possible ones, or without IPIs.
    ///
    /// # Context
    /// Any; reads what every possible CPU has.
    pub fn ipi_counts(&self, node: NodeId) -> Option<IpiCounts> {
        self.ipis().ok()?.counts(node)
    }
}
