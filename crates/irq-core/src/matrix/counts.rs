// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accounts of a CPU, and sums of them.

use irq_hal::{CpuIndex, Error, Platform};

use super::Matrix;
use super::bank::Bank;
use crate::placement::Class;

/// What a CPU has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Vectors that are free.
    pub available: u32,
    /// Reservations, in use or not.
    pub managed: u32,
    /// Reservations in use.
    pub managed_allocated: u32,
    /// Vectors in use, reserved ones among them.
    pub allocated: u32,
}

impl Counts {
    /// Vectors in use whose interrupts need another CPU when this one goes. Managed ones have
    /// theirs already, or are shut down.
    pub const fn to_move(&self) -> u32 {
        self.allocated.saturating_sub(self.managed_allocated)
    }
}

impl Matrix {
    /// How many vectors of `cpu` are free, whether it is online or not; none of one that does not
    /// exist.
    ///
    /// # Context
    /// Any, as for the sums below; nothing locks.
    pub fn headroom(&self, cpu: CpuIndex) -> u32 {
        if cpu.get() >= self.cpus() {
            return 0;
        }
        let used = self.placement.load(Class::Regular, cpu);
        self.vectors.saturating_sub(used)
    }

    /// How many vectors are free on CPUs that are online. It is added up here, in time that grows
    /// with their number.
    pub fn available(&self) -> u32 {
        let all = (0..self.cpus()).map(CpuIndex::new);
        let online = all.filter(|cpu| self.is_online(*cpu));
        online.map(|cpu| self.headroom(cpu)).sum()
    }

    /// Likewise, but for those of `cpu`: what there is for its interrupts when it goes.
    pub fn available_without(&self, cpu: CpuIndex) -> u32 {
        let own = match self.is_online(cpu) {
            true => self.headroom(cpu),
            false => 0,
        };
        self.available().saturating_sub(own)
    }

    /// The accounts of `cpu`.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt, under no lock of rank 2 or above.
    pub fn counts<P>(&self, platform: &P, cpu: CpuIndex) -> Result<Counts, Error>
    where
        P: Platform + ?Sized,
    {
        let (index, _) = self.home(cpu)?;
        self.placement
            .update_bank(platform, index, |_, bank| self.kept(bank, cpu))
    }

    /// How many vectors of `cpu` are in use by interrupts that need another CPU when it goes.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// As [`counts`](Self::counts).
    pub fn to_move<P>(&self, platform: &P, cpu: CpuIndex) -> Result<u32, Error>
    where
        P: Platform + ?Sized,
    {
        Ok(self.counts(platform, cpu)?.to_move())
    }

    /// How many vectors are in use on all CPUs, online or not.
    ///
    /// # Context
    /// As [`counts`](Self::counts); a lock for each CPU, one after another.
    pub fn allocated<P>(&self, platform: &P) -> u32
    where
        P: Platform + ?Sized,
    {
        let all = (0..self.cpus()).map(CpuIndex::new);
        let of = |cpu| self.counts(platform, cpu).map(|counts| counts.allocated);
        all.filter_map(|cpu| of(cpu).ok()).sum()
    }

    /// The accounts as they are kept: by loads, and a counter of what is to spare. Under the
    /// bank's lock.
    pub(super) fn kept(&self, bank: &Bank, cpu: CpuIndex) -> Counts {
        let (_, bit) = crate::cpu::word_and_bit(cpu);
        let used = self.placement.load(Class::Regular, cpu);
        let managed_allocated = self.placement.load(Class::Managed, cpu);
        let managed = managed_allocated + bank.spare(bit);
        let others = used.saturating_sub(managed + bank.late());
        Counts {
            available: self.vectors.saturating_sub(used),
            managed,
            managed_allocated,
            allocated: others + managed_allocated,
        }
    }
}
