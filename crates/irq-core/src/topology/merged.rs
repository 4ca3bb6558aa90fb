// SPDX-License-Identifier: MIT OR Apache-2.0
//! Levels whose masks are equal, reported as one.
//!
//! Whoever works level by level, a scheduler first of all, wants each set of CPUs once: on a
//! machine with a cache per core, threads and second-level cache are the same, and with a thread
//! of each core online all that is below the package may be. Equal are the masks, not the ids,
//! so what is reported changes as CPUs come and go.

use core::array;

use super::{Domain, LEVELS, Level, LevelSet, Topology};
use crate::cpu::{CpuIndex, CpuSet};

/// One or several levels of a CPU that have the same mask.
#[derive(Clone, Copy, Debug)]
pub struct MergedLevel<'a> {
    /// The levels.
    pub levels: LevelSet,
    /// The CPU's domain at the first of them: the mask.
    pub domain: Domain<'a>,
}

/// The levels of a CPU, equal ones merged, in the order of the first level of each.
#[derive(Clone, Debug)]
pub struct MergedLevels<'a>(array::IntoIter<Option<MergedLevel<'a>>, LEVELS>);

impl<'a> Iterator for MergedLevels<'a> {
    type Item = MergedLevel<'a>;

    fn next(&mut self) -> Option<MergedLevel<'a>> {
        self.0.next()?
    }
}

/// Levels that are equal for every online CPU, in the order of the first level of each set.
#[derive(Clone, Debug)]
pub struct LevelSets(array::IntoIter<LevelSet, LEVELS>);

impl Iterator for LevelSets {
    type Item = LevelSet;

    fn next(&mut self) -> Option<LevelSet> {
        self.0.find(|set| *set != LevelSet::default())
    }
}

impl DoubleEndedIterator for LevelSets {
    fn next_back(&mut self) -> Option<LevelSet> {
        self.0.rfind(|set| *set != LevelSet::default())
    }
}

impl Topology {
    /// The levels of `cpu` with those merged whose masks are equal now; none for a CPU that is
    /// not online.
    ///
    /// # Context
    /// Any. It reads the masks of the CPU's domains, some several times.
    pub fn levels(&self, cpu: CpuIndex) -> MergedLevels<'_> {
        let mut merged = [None::<MergedLevel<'_>>; LEVELS];
        if !self.is_online(cpu) {
            return MergedLevels(merged.into_iter());
        }
        let mut count = 0;
        for level in Level::ALL {
            let Some(domain) = self.domain(cpu, level) else {
                continue;
            };
            let mut earlier = merged[..count].iter_mut().flatten();
            match earlier.find(|earlier| earlier.domain.same_cpus(&domain)) {
                Some(equal) => equal.levels.insert(level),
                None => {
                    let levels = LevelSet::of(&[level]);
                    merged[count] = Some(MergedLevel { levels, domain });
                    count += 1;
                }
            }
        }
        MergedLevels(merged.into_iter())
    }

    /// The levels of the machine with those merged whose masks are equal now for each CPU that
    /// is online; none if no CPU is.
    ///
    /// # Context
    /// Any. It reads every mask of the machine, some several times.
    pub fn merged_levels(&self) -> LevelSets {
        let mut merged = [LevelSet::default(); LEVELS];
        if self.online_cpus().is_empty() {
            return LevelSets(merged.into_iter());
        }
        for level in Level::ALL {
            // Equal to one of a set is equal to all of it.
            let equal = Level::ALL[..level.index()]
                .iter()
                .position(|earlier| self.same_everywhere(*earlier, level))
                .unwrap_or(level.index());
            merged[equal].insert(level);
        }
        LevelSets(merged.into_iter())
    }

    /// Whether each domain of `one` has the CPUs of its first CPU's domain at `other`: then it
    /// is so for each of its CPUs, and the other way round.
    fn same_everywhere(&self, one: Level, other: Level) -> bool {
        self.domains(one).all(|domain| {
            let first = domain.first();
            let other = first.and_then(|first| self.domain(first, other));
            other.is_none_or(|other| domain.same_cpus(&other))
        })
    }
}
