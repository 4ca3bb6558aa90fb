// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64 CPUs under one lock.

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::atomic::{AtomicU32, AtomicU64};
use irq_hal::lock::MaskedLock;

use crate::topology::domains::NONE;

/// CPUs of a bank: a bit of a word each.
pub(super) const BANK: u32 = u64::BITS;

/// Said of a bank that has CPUs of several nodes.
pub(super) const MIXED: u32 = NONE - 1;

/// 64 CPUs, beside the rows of their loads.
pub(super) struct Bank<T> {
    online: AtomicU64,
    isolated: AtomicU64,
    /// The node of all its CPUs that have been online; [`MIXED`], or [`NONE`].
    node: AtomicU32,
    pub(super) lock: MaskedLock<T, 2>,
}

impl<T> Bank<T> {
    pub(super) fn new(data: T) -> Self {
        Self {
            online: AtomicU64::new(0),
            isolated: AtomicU64::new(0),
            node: AtomicU32::new(NONE),
            lock: MaskedLock::new(data),
        }
    }

    #[inline]
    pub(super) fn online(&self) -> u64 {
        self.online.load(Relaxed)
    }

    #[inline]
    pub(super) fn isolated(&self) -> u64 {
        self.isolated.load(Relaxed)
    }

    #[inline]
    pub(super) fn node(&self) -> u32 {
        self.node.load(Relaxed)
    }

    // What follows is called under the lock.

    #[inline]
    pub(super) fn set_online(&self, bit: u64, online: bool) {
        put(&self.online, bit, online);
    }

    #[inline]
    pub(super) fn set_isolated(&self, bit: u64, isolated: bool) {
        put(&self.isolated, bit, isolated);
    }

    #[inline]
    pub(super) fn set_node(&self, node: u32) {
        self.node.store(node, Relaxed);
    }
}

fn put(word: &AtomicU64, bits: u64, to: bool) {
    let before = word.load(Relaxed);
    let now = match to {
        true => before | bits,
        false => before & !bits,
    };
    word.store(now, Relaxed);
}
