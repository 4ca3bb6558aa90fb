// SPDX-License-Identifier: MIT OR Apache-2.0
//! The levels of a machine, and where a CPU stands in each.

use core::fmt;

use crate::cpu::{CpuIndex, NodeId};

/// A level of the machine. They are in order from what is nearest to a CPU, but need not nest:
/// a node may be smaller than a package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Level {
    /// The threads of one core. Its domain id is [`Place::core`].
    Thread,
    /// The CPUs that share a second-level cache.
    L2,
    /// A group of cores: a cluster, a core complex, a tile.
    Group,
    /// A socket. Kernels call its mask a CPU's core mask: the CPUs that are cores of it.
    Package,
    /// A memory node.
    Node,
}

impl Level {
    /// Every level, in order.
    pub const ALL: [Self; 5] = [
        Self::Thread,
        Self::L2,
        Self::Group,
        Self::Package,
        Self::Node,
    ];

    /// The level in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::L2 => "l2",
            Self::Group => "group",
            Self::Package => "package",
            Self::Node => "node",
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Some of the levels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LevelSet(u8);

impl LevelSet {
    /// These levels.
    pub const fn of(levels: &[Level]) -> Self {
        let (mut bits, mut next) = (0, 0);
        while next < levels.len() {
            bits |= 1 << levels[next].index();
            next += 1;
        }
        Self(bits)
    }

    /// Whether `level` is among them.
    pub const fn contains(self, level: Level) -> bool {
        self.0 & 1 << level.index() != 0
    }

    /// The levels, in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Level> {
        Level::ALL
            .into_iter()
            .filter(move |level| self.contains(*level))
    }

    pub(super) const fn insert(&mut self, level: Level) {
        self.0 |= 1 << level.index();
    }
}

impl fmt::Display for LevelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, level) in self.iter().enumerate() {
            f.write_str(if count == 0 { "" } else { "+" })?;
            level.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for LevelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Where a CPU stands: the id of its domain at each level.
///
/// The ids are the embedder's, any 32-bit numbers (a hardware id shifted, a devicetree phandle),
/// unique over the machine within their level: CPUs with the same id share the domain. Nodes are
/// dense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Place {
    /// The core, whose threads are the level [`Level::Thread`].
    pub core: u32,
    /// The second-level cache.
    pub l2: u32,
    /// The group of cores.
    pub group: u32,
    /// The package.
    pub package: u32,
    /// The node, below the number of nodes given at construction.
    pub node: NodeId,
}

impl Place {
    /// For a kernel that knows nothing: a core of its own, all else shared by all.
    pub const fn flat(cpu: CpuIndex) -> Self {
        Self {
            core: cpu.get(),
            l2: 0,
            group: 0,
            package: 0,
            node: NodeId::FLAT,
        }
    }

    /// The id of the domain at `level`.
    pub const fn id(&self, level: Level) -> u32 {
        match level {
            Level::Thread => self.core,
            Level::L2 => self.l2,
            Level::Group => self.group,
            Level::Package => self.package,
            Level::Node => self.node.get(),
        }
    }
}
