// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs each interrupt of a multi-queue device is for.
//!
//! A device with a queue per CPU, or for some of them each, works best if a queue's interrupt
//! goes to a CPU that submits to the queue. So each CPU belongs to exactly one queue, and CPUs
//! that share much belong to the same one. Kernels do so when a driver asks for vectors; the
//! rules here are theirs, with a fixed order where theirs depends on how a sort treats equals.
//! (That queues keep to one second-level cache came late, and gained 15 % and more in a storage
//! benchmark.)
//!
//! # Vocabulary
//! - *vector*: an interrupt of the device, counted from 0; what the controller makes of it is
//!   not of interest here.
//! - *spread*: to give vectors disjoint masks that together cover every possible CPU. A vector
//!   *before* or *behind* those that are spread (an admin queue, a mailbox) has the *default*
//!   affinity.
//! - *set*: vectors of one purpose (read, write, poll queues). Each set covers every CPU.
//! - *group*: one vector of a set, and the CPUs it is for.
//! - *managed*: the mask of a spread vector is for good. A vector whose CPUs are all offline is
//!   shut down until one of them returns; it never moves elsewhere.
//! - *present*: a CPU that is there, online or not. *Possible*: one that may come to be there.
//! - *cluster*: CPUs of a node that share a cache below the node's.
//!
//! # How
//! ```text
//! each set:  present CPUs, from group 0 on
//!            absent ones, from the next group on (from 0 if none is left)
//!   each pass:  groups <= nodes   node i, in the order of ids, joins group i mod groups,
//!                                 counted from the first of the pass
//!               else              nodes share the groups by their CPUs, small ones first,
//!                                 equal ones by id, at least one group each
//!     each node:     its clusters share its groups in the same way if none goes without,
//!                    equal ones by their lowest CPU
//!       each node or cluster:  groups of equal size, the first ones one larger; each takes
//!                              the lowest CPU left, then that one's siblings, and again
//! ```
//! The same request on the same machine has the same answer, always.
//!
//! # What it is not
//! Other devices are not looked at, nor how far a node is from the device. Absent CPUs may have
//! groups to themselves: those vectors are shut down until one of them comes.
//!
//! ```
//! use irq_core::cpu::{CpuMask, CpuSet};
//! use irq_core::spread::{Machine, Request, Spread};
//! use irq_core::topology::Topology;
//! use irq_hal::Error;
//!
//! /// Vectors for a device that has room for `most`: one for administration, and queues.
//! fn vectors(topology: &Topology, possible: &CpuMask, most: u32) -> Result<Spread, Error> {
//!     let request = Request { before: 1, ..Request::new(most) };
//!     let request = Request { vectors: request.useful(possible)?, ..request };
//!     let machine = Machine {
//!         cpus: topology.cpus(),
//!         possible,
//!         present: topology.online_cpus(),
//!         default: possible,
//!         sharing: topology,
//!     };
//!     let spread = Spread::new(&request, &machine)?;
//!     for affinity in spread.iter() {
//!         assert!(!affinity.mask.is_empty());
//!         // ... reserve a vector on each CPU of a managed one, allocate one for the others.
//!     }
//!     Ok(spread)
//! }
//! ```

mod pass;
mod request;
mod sharing;

pub use request::{MAX_VECTORS, Request};
pub use sharing::{Flat, Shared, Sharing};

use alloc::vec::Vec;

use irq_hal::heap::try_vec;
use irq_hal::{Error, NoCpu};

use crate::cpu::{CpuMask, CpuSet};
use pass::Pass;

/// The CPUs to spread over.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// CPUs below that can exist, 1 to [`MAX_CPUS`](crate::cpu::MAX_CPUS).
    pub cpus: u32,
    /// Every CPU that a group shall have.
    ///
    /// A kernel that keeps device interrupts off isolated CPUs altogether gives its housekeeping
    /// CPUs alone, here and to [`Request::useful`].
    pub possible: &'a dyn CpuSet,
    /// The CPUs that are there. Of those that are not possible none is used.
    pub present: &'a dyn CpuSet,
    /// The mask of a vector that is not spread.
    pub default: &'a dyn CpuSet,
    /// What the CPUs share.
    pub sharing: &'a dyn Sharing,
}

/// A vector's group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Queue {
    /// Which of the request's sets.
    pub set: u32,
    /// Which vector of that set.
    pub group: u32,
}

/// The CPUs of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affinity<'a> {
    /// Its set and group; nothing for a vector before or behind the sets.
    pub queue: Option<Queue>,
    /// Whether it is spread: `mask` is its own, and for good. Otherwise `mask` is the default
    /// affinity. A vector of a set is not managed only if the set has more vectors than there
    /// are possible CPUs, and this is one of the last.
    pub managed: bool,
    /// The CPUs it is for; never empty.
    pub mask: &'a CpuMask,
}

/// The affinity of each vector of a device.
///
/// Its memory is a mask, a word for 64 CPUs, for each vector that is spread, and a few words for
/// each vector.
#[derive(Debug)]
pub struct Spread {
    vectors: Vec<Vector>,
    masks: Vec<CpuMask>,
    default: CpuMask,
}

#[derive(Debug)]
struct Vector {
    queue: Option<Queue>,
    /// Of `masks`; nothing for the default.
    mask: Option<usize>,
}

impl Spread {
    /// Spreads the vectors of `request` over the CPUs of `machine`.
    ///
    /// It takes the time to clear the masks and, for each set, to sort the CPUs a few times: for
    /// thousands of both, milliseconds. While it works it needs some 100 bytes for each CPU, in a
    /// few allocations; beyond those it makes one for each vector that is spread. The sets may be
    /// live: a snapshot is made of each.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a request as [`Request::useful`] says, and for a number of CPUs out
    /// of its range; [`Error::NoSuchCpu`] if a set has a member at or beyond that;
    /// [`Error::NoCpu`] with [`NoCpu::EmptyMask`] if one of the three sets is empty;
    /// [`Error::OutOfMemory`]. Nothing is kept then.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(request: &Request<'_>, machine: &Machine<'_>) -> Result<Self, Error> {
        let queues = request.check()?;
        let possible = snapshot(machine.cpus, machine.possible)?;
        let mut present = snapshot(machine.cpus, machine.present)?;
        let default = snapshot(machine.cpus, machine.default)?;
        let mut absent = snapshot(machine.cpus, &possible)?;
        present.intersect_with(&possible);
        absent.subtract_with(&present);
        let mut present = Pass::new(&present, machine.sharing)?;
        let mut absent = Pass::new(&absent, machine.sharing)?;

        let cpus = possible.count();
        let sets = request.sets(&queues);
        let spread = sets.iter().map(|size| cpus.min(*size) as usize).sum();
        let mut masks = try_vec(spread)?;
        let mut vectors = try_vec(request.vectors as usize)?;
        let unspread = || Vector {
            queue: None,
            mask: None,
        };
        vectors.extend((0..request.before).map(|_| unspread()));
        for (set, size) in (0..).zip(sets) {
            let first = masks.len();
            for group in 0..*size {
                let mask = (group < cpus).then_some(masks.len());
                if mask.is_some() {
                    masks.push(CpuMask::try_new(machine.cpus)?);
                }
                let queue = Some(Queue { set, group });
                vectors.push(Vector { queue, mask });
            }
            let groups = &mut masks[first..];
            let next = present.fill(groups, 0)?;
            absent.fill(groups, next)?;
        }
        vectors.extend((0..request.after).map(|_| unspread()));
        Ok(Self {
            vectors,
            masks,
            default,
        })
    }

    /// The number of vectors: what was asked for.
    ///
    /// # Context
    /// Any, as for every method below.
    pub fn vectors(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// The affinity of `vector`; nothing for one beyond the last.
    pub fn get(&self, vector: u32) -> Option<Affinity<'_>> {
        self.vectors
            .get(vector as usize)
            .map(|vector| self.affinity(vector))
    }

    /// The affinity of each vector, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Affinity<'_>> {
        self.vectors.iter().map(|vector| self.affinity(vector))
    }

    fn affinity(&self, vector: &Vector) -> Affinity<'_> {
        Affinity {
            queue: vector.queue,
            managed: vector.mask.is_some(),
            mask: vector.mask.map_or(&self.default, |mask| &self.masks[mask]),
        }
    }
}

/// The members of `set`, of which there are some, all below `cpus`.
fn snapshot(cpus: u32, set: &dyn CpuSet) -> Result<CpuMask, Error> {
    let mut mask = CpuMask::try_new(cpus)?;
    mask.copy_from(set)?;
    if mask.is_empty() {
        return Err(NoCpu::EmptyMask.into());
    }
    Ok(mask)
}
