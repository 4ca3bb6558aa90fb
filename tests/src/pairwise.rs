// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mask for each CPU and level, kept pairwise: what the topology is compared to.
//!
//! Kernels kept their topology so: a CPU that comes online looks at each CPU that is online,
//! compares the keys of every level, and where they are equal puts each into the other's mask.
//! One that goes is taken out of the masks of all that are in its own. Here the keys are at hand,
//! side by side (no tree is walked), and of the CPU's own masks a word is written once for the 64
//! CPUs that it stands for. Masks are read while they change, so bits are set and cleared by atomic
//! operations, as kernels do.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use irq_core::cpu::{CpuIndex, CpuSet};
use irq_core::topology::{Level, Place};

const LEVELS: usize = Level::ALL.len();
const WORD: usize = 64;

/// The masks of all CPUs. Calls are one after another, as under one lock.
pub struct Pairwise {
    keys: Vec<[u32; LEVELS]>,
    /// For each CPU one mask after another.
    masks: Vec<AtomicU64>,
    /// Words of a mask.
    words: usize,
    online: Vec<u64>,
}

/// A mask of those.
pub struct Mask<'a>(&'a [AtomicU64]);

impl Pairwise {
    /// For CPUs that stand so, all of them offline.
    pub fn new(places: &[Place]) -> Self {
        let words = places.len().div_ceil(WORD);
        let keys = |place: &Place| Level::ALL.map(|level| place.id(level));
        Self {
            keys: places.iter().map(keys).collect(),
            masks: (0..places.len() * LEVELS * words)
                .map(|_| AtomicU64::new(0))
                .collect(),
            words,
            online: vec![0; words],
        }
    }

    /// Puts an offline CPU into the masks.
    pub fn online(&mut self, cpu: CpuIndex) {
        let cpu = cpu.index();
        self.online[cpu / WORD] |= 1 << (cpu % WORD);
        let keys = self.keys[cpu];
        for word in 0..self.words {
            let mut own = [0_u64; LEVELS];
            let mut left = self.online[word];
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                let other = word * WORD + bit;
                // All levels at a time: mostly nothing is shared.
                let theirs = &self.keys[other];
                let mut same = [0_u32; LEVELS];
                for level in 0..LEVELS {
                    same[level] = u32::from(keys[level] == theirs[level]) << level;
                }
                let mut same = same.into_iter().fold(0, |all, level| all | level);
                while same != 0 {
                    let level = same.trailing_zeros() as usize;
                    same &= same - 1;
                    own[level] |= 1 << bit;
                    let at = self.at(other, level, cpu);
                    self.masks[at].fetch_or(1 << (cpu % WORD), Release);
                }
            }
            for (level, own) in own.into_iter().enumerate().filter(|(_, own)| *own != 0) {
                let at = self.at(cpu, level, word * WORD);
                self.masks[at].fetch_or(own, Release);
            }
        }
    }

    /// Takes an online CPU out of them.
    pub fn offline(&mut self, cpu: CpuIndex) {
        let cpu = cpu.index();
        self.online[cpu / WORD] &= !(1 << (cpu % WORD));
        for level in 0..LEVELS {
            for word in 0..self.words {
                let at = self.at(cpu, level, word * WORD);
                let mut left = match self.masks[at].load(Relaxed) {
                    0 => continue,
                    _ => self.masks[at].swap(0, Release),
                };
                while left != 0 {
                    let other = word * WORD + left.trailing_zeros() as usize;
                    left &= left - 1;
                    let at = self.at(other, level, cpu);
                    self.masks[at].fetch_and(!(1 << (cpu % WORD)), Release);
                }
            }
        }
    }

    /// The online CPUs of the domain of `cpu` at `level`; none while `cpu` is offline.
    pub fn mask(&self, cpu: CpuIndex, level: Level) -> Mask<'_> {
        let level = Level::ALL.iter().position(|of| *of == level);
        let at = self.at(cpu.index(), level.unwrap_or(0), 0);
        Mask(&self.masks[at..at + self.words])
    }

    /// Where the word of `member` is in the mask of `cpu`.
    fn at(&self, cpu: usize, level: usize, member: usize) -> usize {
        (cpu * LEVELS + level) * self.words + member / WORD
    }
}

impl CpuSet for Mask<'_> {
    fn contains(&self, cpu: CpuIndex) -> bool {
        let word = self.0.get(cpu.index() / WORD);
        word.is_some_and(|word| word.load(Acquire) >> (cpu.index() % WORD) & 1 != 0)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        for (first, word) in (0..).step_by(WORD).zip(self.0) {
            let bits = word.load(Acquire);
            if bits != 0 {
                f(CpuIndex::new(first), bits);
            }
        }
    }
}
