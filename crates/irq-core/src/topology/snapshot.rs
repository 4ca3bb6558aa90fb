// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology in words.

use core::fmt;

use super::{Domain, LevelSet, Topology};
use crate::cpu::{CpuSet, Ranges};

impl Topology {
    /// Writes what is online: a line for the machine, then the largest levels first a line for
    /// each domain that has CPUs, with the ids of levels that are merged. Levels that give every
    /// CPU a domain of its own are one line.
    ///
    /// ```text
    /// 8 of 16 online: 0-7
    /// node 0, package 36: 0-3
    /// node 1, package 40: 4-7
    /// group+l2: one CPU each
    /// ```
    ///
    /// # Errors
    /// Those of `out`.
    ///
    /// # Context
    /// Any, masked or not; nothing locks or allocates. Its time is the number of online CPUs
    /// times that of levels, and the length of the masks.
    pub fn snapshot(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let online = self.online_cpus();
        let (count, ranges) = (online.count(), Ranges(online));
        writeln!(out, "{count} of {} online: {ranges}", self.cpus())?;
        self.merged_levels()
            .rev()
            .try_for_each(|set| self.write_levels(set, out))
    }

    fn write_levels(&self, set: LevelSet, out: &mut dyn fmt::Write) -> fmt::Result {
        let Some(first) = set.iter().next() else {
            return Ok(());
        };
        if self.domains(first).all(|domain| domain.count() == 1) {
            return writeln!(out, "{set}: one CPU each");
        }
        self.domains(first)
            .try_for_each(|domain| self.write_domain(set, &domain, out))
    }

    fn write_domain(
        &self,
        set: LevelSet,
        domain: &Domain<'_>,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let first = domain.first();
        let mut comma = "";
        for level in set.iter().rev() {
            if let Some(same) = first.and_then(|first| self.domain(first, level)) {
                write!(out, "{comma}{same}")?;
                comma = ", ";
            }
        }
        writeln!(out, ": {}", Ranges(domain))
    }
}
