// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for a CPU to run a function.
//!
//! ```text
//! caller                        target
//! fills its slot
//! adds one to its countdown
//! joins the waiting set
//! posts CALL, rings             takes CALL
//!                               joins the running set, leaves the waiting set: a claim
//!                               runs the function, writes the result
//! sees the countdown at 0       takes one from the countdown
//! reads the result              leaves the running set
//! ```
//! Whoever takes a caller out of the waiting set decides: if it is the target, the call has
//! begun; if it is the caller, the call never begins.

use alloc::vec::Vec;

use irq_hal::atomic::{AtomicU64, Ordering};
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error};

use crate::cpu::{cpus_of, word_and_bit};

const WORDS: usize = 8;
const BITS: usize = u64::BITS as usize;

/// Both sets of 512 callers.
#[derive(Debug)]
struct Sets {
    waiting: [AtomicU64; WORDS],
    running: [AtomicU64; WORDS],
}

impl Sets {
    fn new() -> Self {
        let none = || core::array::from_fn(|_| AtomicU64::new(0));
        Self {
            waiting: none(),
            running: none(),
        }
    }
}

/// The callers of one CPU, on lines of their own.
#[derive(Debug)]
pub(super) struct Callers(Vec<CachePadded<Sets>>);

impl Callers {
    pub(super) fn new(cpus: u32) -> Result<Self, Error> {
        let count = (cpus as usize).div_ceil(WORDS * BITS);
        let mut sets = try_vec(count)?;
        sets.extend((0..count).map(|_| CachePadded::new(Sets::new())));
        Ok(Self(sets))
    }

    /// The place of the CPU `caller`, which is a possible one.
    pub(super) fn caller(&self, caller: CpuIndex) -> Option<Caller<'_>> {
        let (word, bit) = (caller.index() / BITS, caller.index() % BITS);
        let sets = self.0.get(word / WORDS)?;
        Some(Caller {
            waiting: sets.waiting.get(word % WORDS)?,
            running: sets.running.get(word % WORDS)?,
            bit: 1 << bit,
        })
    }

    /// Claims the calls of all that wait, one after the other. For the target.
    ///
    /// Who joins meanwhile posts afterwards and is found by the take of that post: a caller that
    /// calls again and again keeps no other from its turn, and the target from no end.
    pub(super) fn claim_each(&self, mut f: impl FnMut(CpuIndex, Caller<'_>)) {
        let words = self.0.iter().flat_map(|s| s.waiting.iter().zip(&s.running));
        for (first, (waiting, running)) in (0..).step_by(BITS).zip(words) {
            for cpu in cpus_of(CpuIndex::new(first), waiting.load(Ordering::Relaxed)) {
                let caller = Caller {
                    waiting,
                    running,
                    bit: word_and_bit(cpu).1,
                };
                if caller.claim() {
                    f(cpu, caller);
                }
            }
        }
    }
}

/// One caller in the sets of one target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    waiting: &'a AtomicU64,
    running: &'a AtomicU64,
    bit: u64,
}

impl Caller<'_> {
    /// Joins the waiting set.
    pub(super) fn join(&self) {
        // Release: pairs with the acquire in `claim`, for the slot. The target may find the
        // caller before, or without, its post in the mailbox.
        self.waiting.fetch_or(self.bit, Ordering::Release);
    }

    /// Leaves the waiting set; not if the target claimed the call.
    pub(super) fn withdraw(&self) -> bool {
        // Acquire: pairs with the release in `claim`, for the running set.
        self.waiting.load(Ordering::Acquire) & self.bit != 0
            && self.waiting.fetch_and(!self.bit, Ordering::Acquire) & self.bit != 0
    }

    /// Whether the target runs the function; when it does not any more, its last word in the
    /// countdown is visible.
    pub(super) fn is_running(&self) -> bool {
        // Acquire: pairs with the release in `ended`.
        self.running.load(Ordering::Acquire) & self.bit != 0
    }

    /// Takes the call, unless the caller has withdrawn it.
    fn claim(&self) -> bool {
        self.running.fetch_or(self.bit, Ordering::Relaxed);
        // Acquire: pairs with the release in `join`. Release: with the acquire in `withdraw`.
        let claimed = self.waiting.fetch_and(!self.bit, Ordering::AcqRel) & self.bit != 0;
        if !claimed {
            self.running.fetch_and(!self.bit, Ordering::Relaxed);
        }
        claimed
    }

    /// Leaves the running set.
    pub(super) fn ended(&self) {
        // Release: pairs with the acquire in `is_running`.
        self.running.fetch_and(!self.bit, Ordering::Release);
    }
}
