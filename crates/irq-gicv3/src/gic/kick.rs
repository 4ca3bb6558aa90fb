// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU, by the SGI that the embedder chose. No MMIO, no lock, no
//! allocation; a sender writes no line of ours. One write of `ICC_SGI1R_EL1` reaches one cluster
//! (IHI 0069, "Software Generated Interrupts").

use irq_core::Kick;
use irq_core::cpu::CpuSet;
use irq_hal::{CpuIndex, Error, Platform};

use super::Gic;
use crate::regs::Frame;
use crate::regs::icc::IccBus;
use crate::sgi::SgiCommand;

const NO_IPI: Error = Error::Unsupported {
    feature: "interrupts from CPU to CPU without an SGI for them (Config::ipi)",
};

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// How many register writes [`Kick::kick_mask`] takes for `cpus`, if all of them are to be
    /// rung: one for each cluster. Nothing without [`Config::ipi`](super::Config::ipi).
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn kick_writes(&self, cpus: &dyn CpuSet) -> Option<u32> {
        let mut writes = 0;
        let check = |target| self.check(target);
        // A CPU that cannot be reached takes no write.
        let _ = (self.hot.targets).kick(cpus, self.hot.ipi?, check, |_| true, |_| writes += 1);
        Some(writes)
    }
}

impl<P, B, C> Kick for Gic<P, B, C>
where
    P: Platform,
    B: Frame + Sync,
    C: IccBus + Sync,
{
    /// One register write, or nothing at all if `post` says no.
    #[inline]
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        let sgi = self.hot.ipi.ok_or(NO_IPI)?;
        let target = self.sgi_target(cpu)?;
        self.check(target)?;
        if post() {
            self.interface().send_sgi(SgiCommand::one(sgi, target));
        }
        Ok(())
    }

    /// One register write for each cluster with a CPU to ring: for the CPUs that agree in all
    /// but the lower 4 bits of Aff0.
    fn kick_mask(
        &self,
        cpus: &dyn CpuSet,
        post: impl FnMut(CpuIndex) -> bool,
    ) -> Result<(), Error> {
        let sgi = self.hot.ipi.ok_or(NO_IPI)?;
        let interface = self.interface();
        let mut written = false;
        let check = |target| self.check(target);
        let result = self.hot.targets.kick(cpus, sgi, check, post, |command| {
            interface.queue_sgi(command);
            written = true;
        });
        if written {
            interface.flush_sgis();
        }
        result
    }
}
