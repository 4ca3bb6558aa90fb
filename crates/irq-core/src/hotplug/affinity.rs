// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs may serve an interrupt.

use irq_hal::{CpuIndex, Error};

use crate::cpu::{CpuMask, CpuSet, WORD, cpus_of};
use crate::placement::Among;

/// The CPUs that an interrupt was asked to be served by.
#[derive(PartialEq, Eq, Debug, Default)]
pub enum Affinity {
    /// Any.
    #[default]
    Any,
    /// Those of a mask.
    Of(CpuMask),
}

impl Affinity {
    /// As a driver's allocator takes it.
    pub fn among(&self) -> Among<'_> {
        match self {
            Self::Any => Among::Machine,
            Self::Of(mask) => Among::Mask(mask),
        }
    }

    /// Whether `cpu` may serve.
    pub fn contains(&self, cpu: CpuIndex) -> bool {
        match self {
            Self::Any => true,
            Self::Of(mask) => mask.contains(cpu),
        }
    }

    /// Whether a CPU of `open` may serve.
    pub(super) fn meets(&self, open: &CpuMask) -> bool {
        let Self::Of(mask) = self else {
            return !open.is_empty();
        };
        let (mask, open) = (mask.words(), open.words());
        let mut pairs = mask.into_iter().flatten().zip(open.into_iter().flatten());
        pairs.any(|(mask, open)| mask & open != 0)
    }

    /// The number of the word that has all members, if there is one.
    pub(super) fn only_word(&self) -> Option<u32> {
        let Self::Of(mask) = self else {
            return None;
        };
        let mut only = None;
        let mut several = false;
        mask.each_word(&mut |first, _| {
            several |= only.is_some();
            only = Some(first.get() / WORD);
        });
        only.filter(|_| !several)
    }

    /// # Errors
    /// [`Error::NoSuchCpu`] with the first member that is not below `cpus`.
    pub(super) fn bounded(&self, cpus: u32) -> Result<(), Error> {
        let Self::Of(mask) = self else {
            return Ok(());
        };
        let mut beyond = None;
        mask.each_word(&mut |first, bits| {
            beyond = beyond.or_else(|| cpus_of(first, bits).find(|cpu| cpu.get() >= cpus));
        });
        beyond.map_or(Ok(()), |cpu| Err(Error::NoSuchCpu { cpu }))
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Of(mask) if mask.is_empty())
    }
}
