// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loads of 64 CPUs, laid out by load: one word for each, with the CPUs below it.
//!
//! A CPU whose load rises by one leaves one word, and one whose load falls joins one. "Is any of
//! these below 7?" is one load and one AND for 64 CPUs, and so is "which of them have the
//! least load", once that is known. Words are written under the bank's lock, and read without.

use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};

/// How many loads beside the one looked at first are tried one by one.
const NEAR: u32 = 4;

/// The loads of a bank's CPUs, from 0 to a highest one.
#[derive(Clone, Copy)]
pub(super) struct Levels<'a> {
    /// Word `load`: the CPUs below it. Those beyond the highest load have all.
    words: &'a [AtomicU64],
}

impl<'a> Levels<'a> {
    /// How many words it takes.
    pub(super) const fn words(highest: u32) -> usize {
        highest as usize + 3
    }

    /// Word `load`, to begin with: all CPUs have load 0.
    pub(super) const fn initial(load: usize) -> u64 {
        if load == 0 { 0 } else { u64::MAX }
    }

    #[inline(always)]
    pub(super) const fn new(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// The highest load.
    #[inline(always)]
    pub(super) const fn highest(self) -> u32 {
        (self.words.len() - 3) as u32
    }

    /// The CPUs whose load is below `load`, which is at most two above the highest.
    #[inline(always)]
    pub(super) fn below(self, load: u32) -> u64 {
        self.words[load as usize].load(Relaxed)
    }

    /// The least load among the CPUs of `set`, of which there is one. `hint` is where to look
    /// first.
    #[inline(always)]
    pub(super) fn least(self, set: u64, hint: u32) -> u32 {
        if let Some([at, above]) = self.words.get(hint as usize..).and_then(<[_]>::first_chunk)
            && at.load(Relaxed) & set == 0
            && above.load(Relaxed) & set != 0
        {
            return hint;
        }
        self.near(set, hint.min(self.highest()))
    }

    /// Likewise, where it is not `hint`.
    #[inline(never)]
    fn near(self, set: u64, hint: u32) -> u32 {
        let any_at_most = |load: u32| self.below(load + 1) & set != 0;
        if any_at_most(hint) {
            for load in (hint.saturating_sub(NEAR)..hint).rev() {
                if !any_at_most(load) {
                    return load + 1;
                }
            }
            self.search(set, 0, hint.saturating_sub(NEAR))
        } else {
            for load in hint + 1..(hint + 1 + NEAR).min(self.highest()) {
                if any_at_most(load) {
                    return load;
                }
            }
            self.search(set, hint + 1, self.highest())
        }
    }

    /// Likewise where it is at least `low` and at most `high`.
    #[cold]
    fn search(self, set: u64, mut low: u32, mut high: u32) -> u32 {
        while low < high {
            let middle = low.midpoint(high);
            match self.below(middle + 1) & set {
                0 => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The CPUs of `set` go from load `from`, which all of them have, to load `to`.
    #[inline(always)]
    pub(super) fn shift(self, set: u64, from: u32, to: u32) {
        if to == from + 1 {
            self.put(to, self.below(to) & !set);
        } else if from == to + 1 {
            self.put(from, self.below(from) | set);
        } else if from != to {
            self.shift_far(set, from, to);
        }
    }

    #[inline(never)]
    fn shift_far(self, set: u64, from: u32, to: u32) {
        for load in from..to {
            self.put(load + 1, self.below(load + 1) & !set);
        }
        for load in to..from {
            self.put(load + 1, self.below(load + 1) | set);
        }
    }

    /// Each CPU of `set`, all of which are below the highest load, rises by one. `hint` is where
    /// the least of them may be.
    #[inline]
    pub(super) fn raise_each(self, set: u64, hint: u32) {
        if set == 0 {
            return;
        }
        let mut load = self.least(set, hint);
        // Those of `set` that were below `load`.
        let mut were = 0;
        while were != set {
            load += 1;
            let now = self.below(load);
            self.put(load, now & !set | were);
            were = now & set;
        }
    }

    /// Each CPU of `set`, none of which is at 0, falls by one.
    #[inline]
    pub(super) fn lower_each(self, set: u64, hint: u32) {
        if set == 0 {
            return;
        }
        let mut load = self.least(set, hint);
        loop {
            let above = self.below(load + 1) & set;
            self.put(load, self.below(load) & !set | above);
            if above == set {
                return;
            }
            load += 1;
        }
    }

    #[inline(always)]
    fn put(self, load: u32, cpus: u64) {
        self.words[load as usize].store(cpus, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn loads(levels: Levels<'_>) -> Vec<u32> {
        (0..64).map(|cpu| levels.least(1 << cpu, 0)).collect()
    }

    #[test]
    fn each_cpu_keeps_a_load_of_its_own() {
        let words = 0..Levels::words(40);
        let words: Vec<_> = words
            .map(|at| AtomicU64::new(Levels::initial(at)))
            .collect();
        let levels = Levels::new(&words);
        assert_eq!(levels.highest(), 40);
        let mut expected = vec![0; 64];
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (cpu, hint) = ((seed >> 58) as usize, (seed >> 40) as u32 % 45);
            let load = levels.least(1 << cpu, hint);
            assert_eq!(load, expected[cpu]);
            let by = (seed >> 33) as u32 % 16;
            if seed >> 32 & 1 == 0 {
                let by = by.min(40 - load);
                levels.shift(1 << cpu, load, load + by);
                expected[cpu] += by;
            } else {
                let by = by.min(load);
                levels.shift(1 << cpu, load, load - by);
                expected[cpu] -= by;
            }
            let set = seed.rotate_left(17) & seed;
            let of = |wanted: &dyn Fn(u32) -> bool| {
                let is = |cpu: &u32| set >> cpu & 1 == 1 && wanted(expected[*cpu as usize]);
                (0..64).filter(is).fold(0_u64, |all, cpu| all | 1 << cpu)
            };
            let (up, down) = (of(&|load| load < 40), of(&|load| load > 0));
            if seed >> 31 & 1 == 0 {
                levels.raise_each(up, hint);
                (0..64).for_each(|cpu| expected[cpu] += (up >> cpu & 1) as u32);
            } else {
                levels.lower_each(down, hint);
                (0..64).for_each(|cpu| expected[cpu] -= (down >> cpu & 1) as u32);
            }
            assert_eq!(loads(levels), expected);
            if set != 0 {
                let least = expected.iter().enumerate();
                let least = least.filter(|(cpu, _)| set >> cpu & 1 == 1);
                assert_eq!(Some(levels.least(set, hint)), least.map(|(_, l)| *l).min());
            }
        }
    }
}
