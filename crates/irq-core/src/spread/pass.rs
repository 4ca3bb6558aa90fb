// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass: some CPUs, divided among the groups of a set.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::heap::try_vec;

use super::{Shared, Sharing};
use crate::cpu::{CpuIndex, CpuMask, CpuSet};

/// The CPUs of a pass. Those of a node are in a row, the nodes in the order of their ids.
pub(super) struct Pass {
    cpus: Vec<Cpu>,
    nodes: Vec<Run>,
    /// Room for the clusters of a node.
    clusters: Vec<Run>,
}

#[derive(Clone, Copy)]
struct Cpu {
    index: CpuIndex,
    shared: Shared,
    /// The sibling with the next index.
    sibling: Option<CpuIndex>,
    /// In a group already.
    taken: bool,
}

/// CPUs that are in a row and share something.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    len: usize,
    /// Decides between runs that are equally long.
    tie: u32,
}

impl Pass {
    pub(super) fn new(set: &CpuMask, sharing: &dyn Sharing) -> Result<Self, Error> {
        let count = set.count() as usize;
        let mut cpus = try_vec(count)?;
        cpus.extend(set.iter().map(|index| Cpu {
            index,
            shared: sharing.shared(index),
            sibling: None,
            taken: false,
        }));
        let mut nodes = try_vec(count)?;
        let node = |cpu: &Cpu| cpu.shared.node;
        cpus.sort_unstable_by_key(|cpu| (node(cpu), cpu.index));
        find_runs(&mut nodes, &cpus, node, |cpu| node(cpu).get());
        Ok(Self {
            cpus,
            nodes,
            clusters: try_vec(count)?,
        })
    }

    /// Divides the CPUs among `groups`, from `first` on and around. Gives the group that comes
    /// after the last one that got any.
    pub(super) fn fill(&mut self, groups: &mut [CpuMask], first: usize) -> Result<usize, Error> {
        let count = groups.len();
        if count == 0 || self.cpus.is_empty() {
            return Ok(first);
        }
        let at = |number: usize| (first + number) % count;
        if count <= self.nodes.len() {
            self.nodes.sort_unstable_by_key(|node| node.start);
            for (number, node) in self.nodes.iter().enumerate() {
                for cpu in &self.cpus[node.start..][..node.len] {
                    groups[at(number)].insert(cpu.index)?;
                }
            }
            return Ok(at(count));
        }
        let used = count.min(self.cpus.len());
        let mut next = 0;
        for (node, share) in shares(&mut self.nodes, used) {
            let cpus = &mut self.cpus[node.start..][..node.len];
            let cluster = |cpu: &Cpu| cpu.shared.cluster;
            cpus.sort_unstable_by_key(|cpu| (cluster(cpu), cpu.index));
            find_runs(&mut self.clusters, cpus, cluster, |cpu| cpu.index.get());
            if self.clusters.len() > share {
                // The node is divided directly.
                find_runs(&mut self.clusters, cpus, |_| (), |_| 0);
            }
            for (cluster, share) in shares(&mut self.clusters, share) {
                let cpus = &mut cpus[cluster.start..][..cluster.len];
                split(cpus, share, |cpu, group| {
                    groups[at(next + group)].insert(cpu)
                })?;
                next += share;
            }
        }
        Ok(at(used))
    }
}

/// Makes `runs` those of `cpus` that have a key in common.
fn find_runs<K: Eq>(
    runs: &mut Vec<Run>,
    cpus: &[Cpu],
    key: impl Fn(&Cpu) -> K,
    tie: impl Fn(&Cpu) -> u32,
) {
    runs.clear();
    let mut start = 0;
    for run in cpus.chunk_by(|one, other| key(one) == key(other)) {
        runs.push(Run {
            start,
            len: run.len(),
            tie: tie(&run[0]),
        });
        start += run.len();
    }
}

/// Divides `groups` among `runs`, by their lengths: at least one each, at most one for each CPU.
/// There are as many groups as runs, or more, and as many CPUs as groups, or more.
///
/// Small runs come first: what rounding takes from them the larger ones get.
fn shares(runs: &mut [Run], mut groups: usize) -> impl Iterator<Item = (Run, usize)> {
    runs.sort_unstable_by_key(|run| (run.len, run.tie));
    let mut cpus: usize = runs.iter().map(|run| run.len).sum();
    runs.iter().map(move |run| {
        // In 64 bits: the product may exceed a word of 32.
        let share = groups as u64 * run.len as u64 / cpus as u64;
        let share = (share as usize).max(1);
        groups -= share;
        cpus -= run.len;
        (*run, share)
    })
}

/// Divides `cpus` among `groups` groups, at most one for each CPU, with the threads of a core
/// together.
fn split(
    cpus: &mut [Cpu],
    groups: usize,
    mut put: impl FnMut(CpuIndex, usize) -> Result<bool, Error>,
) -> Result<(), Error> {
    cpus.sort_unstable_by_key(|cpu| (cpu.shared.core, cpu.index));
    let mut after = None::<Cpu>;
    for cpu in cpus.iter_mut().rev() {
        let core = cpu.shared.core;
        let sibling = after.filter(|after| core.is_some() && after.shared.core == core);
        cpu.sibling = sibling.map(|sibling| sibling.index);
        cpu.taken = false;
        after = Some(*cpu);
    }
    cpus.sort_unstable_by_key(|cpu| cpu.index);
    let (size, larger) = (cpus.len() / groups, cpus.len() % groups);
    let mut lowest = 0;
    for group in 0..groups {
        let mut sibling = None;
        for _ in 0..size + usize::from(group < larger) {
            // The threads of a core are taken from the lowest on: a sibling is free.
            let position = match sibling {
                Some(index) => cpus.partition_point(|cpu| cpu.index < index),
                None => {
                    let taken = cpus[lowest..].iter().take_while(|cpu| cpu.taken);
                    lowest += taken.count();
                    lowest
                }
            };
            let cpu = &mut cpus[position];
            cpu.taken = true;
            sibling = cpu.sibling;
            put(cpu.index, group)?;
        }
    }
    Ok(())
}
