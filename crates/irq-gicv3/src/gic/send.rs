// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending SGIs. No MMIO, no lock, no allocation.

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::{CpuIndex, Error, Platform};

use super::Gic;
use crate::regs::Frame;
use crate::regs::icc::IccBus;
use crate::sgi::{Sgi, SgiCommand, SgiTarget, multicast};

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// The CPU `cpu` as a target of SGIs.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// Any.
    #[inline]
    pub fn sgi_target(&self, cpu: CpuIndex) -> Result<SgiTarget, Error> {
        self.hot.targets.get(cpu)
    }

    #[inline]
    pub(super) fn check(&self, target: SgiTarget) -> Result<(), Error> {
        // Relaxed: a CPU's interface is known before its target is handed out.
        if target.needs_range_selector() && !self.hot.range_selector.load(Relaxed) {
            return Err(Error::Unsupported {
                feature: "SGIs to Aff0 above 15 (RSS)",
            });
        }
        Ok(())
    }

    /// Sends `sgi` to `cpu`, which may be this one: one register write. Every store to memory
    /// before the call is visible to the receiver.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`]; [`Error::Unsupported`] for a CPU with Aff0
    /// above 15 where distributor or interfaces have no range selector. Nothing was sent.
    ///
    /// # Context
    /// Any, on a CPU that is online.
    #[inline]
    pub fn send_sgi(&self, sgi: Sgi, cpu: CpuIndex) -> Result<(), Error> {
        let target = self.sgi_target(cpu)?;
        self.check(target)?;
        self.interface().send_sgi(SgiCommand::one(sgi, target));
        Ok(())
    }

    /// Sends `sgi` to all of `targets`: one register write for each distinct group of CPUs that
    /// agree in all but the lower 4 bits of Aff0, whatever their order. Sorts `targets`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] as for [`send_sgi`](Self::send_sgi). Nothing was sent.
    ///
    /// # Context
    /// Any, on a CPU that is online.
    pub fn send_sgi_many(&self, sgi: Sgi, targets: &mut [SgiTarget]) -> Result<(), Error> {
        targets.iter().try_for_each(|&target| self.check(target))?;
        self.interface().send_sgis(multicast(sgi, targets));
        Ok(())
    }

    /// Sends `sgi` to every CPU but this one: one register write.
    ///
    /// # Context
    /// Any, on a CPU that is online.
    #[inline]
    pub fn send_sgi_others(&self, sgi: Sgi) {
        self.interface().send_sgi(SgiCommand::others(sgi));
    }
}
