// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU, by the vector that the embedder chose. No lock, no allocation; a
//! sender writes no line of ours. One write of `IA32_X2APIC_ICR` reaches one cluster (Intel SDM
//! vol. 3, "Logical Destination Mode in x2APIC Mode").

use irq_core::Kick;
use irq_core::cpu::CpuSet;
use irq_hal::{CpuIndex, Error, Platform};

use super::Apic;
use crate::ipi::Command;
use crate::regs::apic::ApicBus;

const NO_IPI: Error = Error::Unsupported {
    feature: "interrupts from CPU to CPU without a vector for them (Config::ipi)",
};

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// How many register writes [`Kick::kick_mask`] takes for `cpus`, if all of them are to be
    /// rung: one for each cluster. Nothing without [`Config::ipi`](super::Config::ipi).
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn kick_writes(&self, cpus: &dyn CpuSet) -> Option<u32> {
        let mut writes = 0;
        // A CPU that cannot be reached takes no write.
        let _ = (self.hot.targets).kick(cpus, self.hot.ipi?, |_| true, |_| writes += 1);
        Some(writes)
    }
}

impl<P, M> Kick for Apic<P, M>
where
    P: Platform,
    M: ApicBus + Sync,
{
    /// One register write, or nothing at all if `post` says no.
    #[inline]
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        let vector = self.hot.ipi.ok_or(NO_IPI)?;
        let id = self.id(cpu)?;
        if post() {
            self.apic().send(Command::one(vector, id));
        }
        Ok(())
    }

    /// One register write for each cluster with a CPU to ring: for the CPUs whose ids agree in
    /// all but the lower 4 bits. One for each CPU without a logical destination.
    fn kick_mask(
        &self,
        cpus: &dyn CpuSet,
        post: impl FnMut(CpuIndex) -> bool,
    ) -> Result<(), Error> {
        let vector = self.hot.ipi.ok_or(NO_IPI)?;
        let ring = |command| self.apic().send(command);
        self.hot.targets.kick(cpus, vector, post, ring)
    }

    /// A non-maskable interrupt: one register write.
    fn kick_urgent(&self, cpu: CpuIndex) -> Result<(), Error> {
        let id = self.id(cpu)?;
        self.apic().send(Command::nmi(id));
        Ok(())
    }
}
