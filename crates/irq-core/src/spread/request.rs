// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver asks for.

use core::slice;

use irq_hal::{Error, NoCpu};

use crate::cpu::CpuSet;

/// The most vectors of a device: twice what an MSI-X table can have.
pub const MAX_VECTORS: u32 = 4096;

/// The vectors of a device: some that are not spread, the sets, again some that are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// All of them, 1 to [`MAX_VECTORS`].
    pub vectors: u32,
    /// Vectors before the sets, which get the default affinity.
    pub before: u32,
    /// Vectors behind the sets, likewise.
    pub after: u32,
    /// The number of vectors of each set, which may be 0: together all that is left of the
    /// vectors. No set stands for one of all that is left.
    pub sets: &'a [u32],
}

impl<'a> Request<'a> {
    /// `vectors` to spread, in one set.
    pub const fn new(vectors: u32) -> Self {
        Self {
            vectors,
            before: 0,
            after: 0,
            sets: &[],
        }
    }

    /// How many vectors of these are of use: those that are not spread, and of each set at most
    /// one for each CPU of `possible`.
    ///
    /// A driver asks with as many vectors as its device has before it allocates any. With sets it
    /// has to divide the lower number among them anew. One that cannot do with fewer may insist:
    /// what a set has beyond its CPUs gets the default affinity.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0 or more than [`MAX_VECTORS`] vectors; for more before and behind
    /// the sets than there are vectors; for sets whose sum is not what those leave.
    /// [`Error::NoCpu`] with [`NoCpu::EmptyMask`] if `possible` has no member.
    ///
    /// # Context
    /// Any.
    pub fn useful(&self, possible: &dyn CpuSet) -> Result<u32, Error> {
        let queues = self.check()?;
        let cpus = possible.count();
        if cpus == 0 {
            return Err(NoCpu::EmptyMask.into());
        }
        let sets = self.sets(&queues).iter();
        let queues: u32 = sets.map(|size| cpus.min(*size)).sum();
        Ok(self.before + queues + self.after)
    }

    /// How many vectors are in sets, if the request makes sense.
    pub(super) fn check(&self) -> Result<u32, Error> {
        let invalid = |what, value| Err(Error::Invalid { what, value });
        if self.vectors == 0 || self.vectors > MAX_VECTORS {
            return invalid("number of vectors", self.vectors.into());
        }
        let unspread = u64::from(self.before) + u64::from(self.after);
        let Some(queues) = u64::from(self.vectors).checked_sub(unspread) else {
            return invalid("number of vectors that are not spread", unspread);
        };
        let sum = self.sets.iter().map(|size| u64::from(*size)).sum();
        if !self.sets.is_empty() && sum != queues {
            return invalid("sum of the sets", sum);
        }
        Ok(queues as u32)
    }

    /// The sets of a request that makes sense and has `queues` vectors in them.
    pub(super) fn sets<'s>(&'s self, queues: &'s u32) -> &'s [u32] {
        match self.sets {
            [] => slice::from_ref(queues),
            sets => sets,
        }
    }
}
