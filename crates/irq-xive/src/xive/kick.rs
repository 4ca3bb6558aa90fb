// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU: a store to the trigger page of the target's own source. No lock,
//! no allocation; a sender writes no line of ours.

use irq_core::Kick;
use irq_core::cpu::CpuSet;
use irq_hal::{Barrier, CpuIndex, Error, Platform};

use super::{Fixed, Xive};
use crate::firmware::Firmware;

impl<P: Platform, F: Firmware> Xive<P, F> {
    #[inline]
    fn reach(&self, cpu: CpuIndex) -> Result<&Fixed<F::Window>, Error> {
        let target = self.cpu(cpu)?;
        if target.fixed.is_online() {
            Ok(&target.fixed)
        } else {
            Err(Error::CpuOffline { cpu })
        }
    }
}

impl<P, F> Kick for Xive<P, F>
where
    P: Platform,
    F: Firmware,
{
    /// One store, or nothing at all if `post` says no.
    #[inline]
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        let target = self.reach(cpu)?;
        if post() {
            // The receiver sees what was posted.
            target.ipi.barrier().publish();
            target.ipi.trigger();
        }
        Ok(())
    }

    /// One store for each CPU to ring.
    fn kick_mask(
        &self,
        cpus: &dyn CpuSet,
        mut post: impl FnMut(CpuIndex) -> bool,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        cpus.each_word(&mut |first, bits| {
            let mut ring = 0;
            for cpu in members(first, bits) {
                match self.reach(cpu) {
                    Ok(_) => ring |= u64::from(post(cpu)) << (cpu.get() - first.get()),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            if ring == 0 {
                return;
            }
            self.hot.tima.barrier().publish();
            for cpu in members(first, ring) {
                if let Ok(target) = self.cpu(cpu) {
                    target.fixed.ipi.trigger();
                }
            }
        });
        result
    }
}

/// The CPUs of a word of a set.
fn members(first: CpuIndex, mut bits: u64) -> impl Iterator<Item = CpuIndex> {
    core::iter::from_fn(move || {
        let n = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(CpuIndex::new(first.get() + n))
    })
}
