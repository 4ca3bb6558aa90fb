// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the embedder decides about vectors once, at construction.

use irq_hal::Error;

use super::area::{Area, EXCEPTIONS, VectorSet, invalid};
use crate::irq::IrqRange;

/// How a CPU is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Policy {
    /// By [`placement`](crate::placement): own load, then the core's, ties by turn, isolated
    /// CPUs last.
    #[default]
    Balanced,
    /// As kernels did without it, to compare with: a scan of the mask, in which regular
    /// interrupts go to the first CPU with the most vectors available and managed ones to the
    /// last with the fewest of them. It knows of no cores, turns or isolated CPUs.
    Compatible,
}

/// What a [`Matrix`](super::Matrix) is built from. Numbers are upper bounds: within them nothing
/// allocates later.
///
/// ```
/// use irq_core::matrix::{Matrix, Setup};
///
/// let matrix = Matrix::new(&Setup { nodes: 2, threads: 2, ..Setup::new(8) })?;
/// assert_eq!(matrix.capacity(), 203);
/// # Ok::<(), irq_hal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The number of possible CPUs.
    pub cpus: u32,
    /// The number of possible nodes.
    pub nodes: u32,
    /// Threads of a core up to which what is placed on cores is told apart.
    pub threads: u32,
    /// The first vector that is handed out, not below 32.
    pub first: u8,
    /// The vector behind the last one that is handed out, up to 256.
    pub end: u16,
    /// System vectors, which are not handed out; inside of that area or not, but no exceptions.
    pub system: &'a [u8],
    /// What a source is programmed with while it has no vector. It is outside of the area, or a
    /// system vector.
    pub shutdown: u8,
    /// Interrupts that never get a vector, whatever firmware says: the cascade of a second 8259.
    pub refused: &'a [IrqRange],
    /// How CPUs are chosen.
    pub policy: Policy,
}

impl Setup<'_> {
    /// For `cpus` CPUs of one node with two threads a core at most: vectors 20H to EBH but 80H,
    /// shut down at EFH.
    pub const fn new(cpus: u32) -> Self {
        Self {
            cpus,
            nodes: 1,
            threads: 2,
            first: 0x20,
            end: 0xec,
            system: &[0x80],
            shutdown: 0xef,
            refused: &[],
            policy: Policy::Balanced,
        }
    }

    /// The area, the system vectors, and how many vectors are left.
    pub(super) fn vectors(&self) -> Result<(Area, VectorSet, u32), Error> {
        let area = Area::new(self.first, self.end)?;
        let mut system = VectorSet::default();
        for vector in self.system {
            if *vector < EXCEPTIONS {
                return Err(invalid("system vector", u64::from(*vector)));
            }
            system.insert(*vector);
        }
        let free = |at: &usize| !system.contains(area.vector(*at));
        let left = (0..area.len()).filter(free).count() as u32;
        if left == 0 {
            return Err(invalid("number of vectors", 0));
        }
        let shutdown = self.shutdown;
        let handed_out = area.position(shutdown).is_some() && !system.contains(shutdown);
        if shutdown < EXCEPTIONS || handed_out {
            return Err(invalid("shutdown vector", u64::from(shutdown)));
        }
        Ok((area, system, left))
    }
}
