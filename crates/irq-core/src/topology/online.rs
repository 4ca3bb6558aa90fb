// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's mask.

use alloc::vec::Vec;
use core::fmt;

use irq_hal::Error;
use irq_hal::atomic::AtomicU64;
use irq_hal::atomic::Ordering::{Acquire, Relaxed, Release};
use irq_hal::heap::try_vec;

use crate::cpu::{CpuIndex, CpuSet, Ranges, WORD, cpus_of, word_and_bit};

/// The CPUs that are online, of the whole machine. Live: it changes while it is read.
pub struct OnlineCpus {
    words: Vec<AtomicU64>,
}

impl OnlineCpus {
    pub(super) fn new(cpus: usize) -> Result<Self, Error> {
        let count = cpus.div_ceil(WORD as usize);
        let mut words = try_vec(count)?;
        words.extend((0..count).map(|_| AtomicU64::new(0)));
        Ok(Self { words })
    }

    pub(super) fn set(&self, cpu: CpuIndex) {
        let (index, bit) = word_and_bit(cpu);
        // Pairs with the loads below: who sees the CPU here sees it in its domains.
        self.words[index as usize].fetch_or(bit, Release);
    }

    pub(super) fn clear(&self, cpu: CpuIndex) {
        let (index, bit) = word_and_bit(cpu);
        // Nothing comes before it; what `set` released for other CPUs of the word stays so.
        self.words[index as usize].fetch_and(!bit, Relaxed);
    }

    /// The words that have members, each with its first CPU, in rising order.
    fn words(&self) -> impl Iterator<Item = (CpuIndex, u64)> {
        (0..)
            .step_by(WORD as usize)
            .zip(&self.words)
            // Pairs with `set`.
            .map(|(first, word)| (CpuIndex::new(first), word.load(Acquire)))
            .filter(|(_, bits)| *bits != 0)
    }

    /// The members, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = CpuIndex> {
        self.words().flat_map(|(first, bits)| cpus_of(first, bits))
    }
}

impl CpuSet for OnlineCpus {
    fn contains(&self, cpu: CpuIndex) -> bool {
        let (index, bit) = word_and_bit(cpu);
        let word = self.words.get(index as usize);
        // Pairs with `set`.
        word.is_some_and(|word| word.load(Acquire) & bit != 0)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        self.words().for_each(|(first, bits)| f(first, bits));
    }

    fn first(&self) -> Option<CpuIndex> {
        self.iter().next()
    }
}

impl fmt::Debug for OnlineCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ranges(self).fmt(f)
    }
}
