// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-CPU blocks: one cache line, or more, that one CPU writes.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

pub use crossbeam_utils::CachePadded;

use crate::error::Error;
use crate::heap::try_vec;
use crate::ids::CpuIndex;
use crate::platform::{Masked, Platform};

/// Proof that the running code is on one CPU and stays there while the value is used.
///
/// Neither `Send` nor `Sync`: it is made where it is used, as the first act of an interrupt's
/// entry or of a masked section.
#[derive(Debug)]
pub struct OnCpu {
    cpu: CpuIndex,
    local: PhantomData<*mut ()>,
}

impl OnCpu {
    /// The code runs on `cpu`.
    ///
    /// # Safety
    /// - The caller runs on the CPU with this index and cannot move to another before the last
    ///   use of the value, its drop not counted: interrupts are masked; or the caller is pinned,
    ///   and whatever preempts it on this CPU and makes another `OnCpu` is done with that before
    ///   the caller goes on (an interrupt is, another thread is not).
    /// - No other CPU uses the same index.
    #[inline]
    pub const unsafe fn new(cpu: CpuIndex) -> Self {
        Self {
            cpu,
            local: PhantomData,
        }
    }

    /// Which CPU it is.
    #[inline]
    pub const fn cpu(&self) -> CpuIndex {
        self.cpu
    }
}

/// Runs `f` with interrupts masked and with the proof of the CPU that this pins it to.
/// Restoring the mask is the last act, also when `f` unwinds.
///
/// # Context
/// Any but a non-maskable interrupt. Not for hot paths: it asks [`Platform::this_cpu`].
pub fn masked<P, R>(platform: &P, f: impl FnOnce(&OnCpu) -> R) -> R
where
    P: Platform + ?Sized,
{
    let _masked = Masked::new(platform);
    // SAFETY: interrupts are masked until `_masked` is dropped, which is after the proof; that
    // `this_cpu` is right, and no other CPU's answer, is the promise of `Platform`.
    let on = unsafe { OnCpu::new(platform.this_cpu()) };
    f(&on)
}

/// One block for each possible CPU, each on cache lines of its own.
///
/// The number of CPUs is an upper bound, fixed at construction: nothing allocates later.
pub struct PerCpu<T: 'static> {
    /// Where each block is: in `owned`, or wherever the embedder placed it.
    blocks: Vec<NonNull<CachePadded<T>>>,
    owned: Vec<CachePadded<T>>,
}

// SAFETY: the pointers stand for references to blocks, and for their ownership by `owned`.
unsafe impl<T: Send + Sync> Send for PerCpu<T> {}
// SAFETY: only shared references are made of the pointers.
unsafe impl<T: Sync> Sync for PerCpu<T> {}

impl<T> PerCpu<T> {
    /// `cpus` blocks in one piece of memory, block `i` made by `make(i)`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(cpus: u32, mut make: impl FnMut(CpuIndex) -> T) -> Result<Self, Error> {
        Self::try_new(cpus, |cpu| Ok(make(cpu)))
    }

    /// Likewise, with a `make` that can fail, for blocks that own memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what `make` returned.
    pub fn try_new(
        cpus: u32,
        mut make: impl FnMut(CpuIndex) -> Result<T, Error>,
    ) -> Result<Self, Error> {
        let mut owned = try_vec(cpus as usize)?;
        for cpu in 0..cpus {
            owned.push(CachePadded::new(make(CpuIndex::new(cpu))?));
        }
        let mut blocks = try_vec(cpus as usize)?;
        blocks.extend(owned.iter().map(NonNull::from));
        Ok(Self { blocks, owned })
    }

    /// Blocks that the embedder placed, each near the node of its CPU, in the order of CPU
    /// indices.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn from_blocks(
        lent: impl ExactSizeIterator<Item = &'static CachePadded<T>>,
    ) -> Result<Self, Error> {
        let cpus = u32::try_from(lent.len()).map_err(|_| Error::Invalid {
            what: "number of CPUs",
            value: lent.len() as u64,
        })?;
        let mut blocks = try_vec(cpus as usize)?;
        blocks.extend(lent.take(cpus as usize).map(NonNull::from));
        let owned = Vec::new();
        Ok(Self { blocks, owned })
    }

    /// The block of `cpu`, or nothing beyond the possible CPUs.
    #[inline]
    pub fn get(&self, cpu: CpuIndex) -> Option<&T> {
        let block = self.blocks.get(cpu.index())?;
        // SAFETY: the block is in the buffer of `owned`, which `new` filled and nothing touches
        // until `self` is dropped, or is lent for ever.
        Some(unsafe { block.as_ref() })
    }

    /// The number of possible CPUs.
    pub fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Whether there is no CPU at all.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// All blocks with their CPU, in order.
    pub fn iter(&self) -> impl Iterator<Item = (CpuIndex, &T)> {
        (0..self.len())
            .map(CpuIndex::new)
            .filter_map(|cpu| Some((cpu, self.get(cpu)?)))
    }
}

impl<T> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu")
            .field("cpus", &self.len())
            .field("lent", &(self.owned.len() != self.blocks.len()))
            .finish_non_exhaustive()
    }
}
