// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending vectors. No lock, no allocation.

use irq_core::cpu::CpuSet;
use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error, Platform};

use super::Apic;
use crate::id::ApicId;
use crate::ipi::{Command, multicast};
use crate::regs::apic::ApicBus;
use crate::vector::Vector;

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// The id of `cpu`.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// Any.
    #[inline]
    pub fn id(&self, cpu: CpuIndex) -> Result<ApicId, Error> {
        Ok(self.hot.targets.get(cpu)?.id())
    }

    /// Sends `vector` to `cpu`, which may be this one: one register write. Every store to memory
    /// before the call is visible to the receiver.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`]. Nothing was sent.
    ///
    /// # Context
    /// Any, on a CPU that is online.
    #[inline]
    pub fn send(&self, vector: Vector, cpu: CpuIndex) -> Result<(), Error> {
        let id = self.id(cpu)?;
        self.apic().send(Command::one(vector, id));
        Ok(())
    }

    /// Sends `vector` to the CPU that runs: one register write, no fence.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`]. Nothing was sent.
    ///
    /// # Context
    /// On that CPU.
    #[inline]
    pub fn send_self(&self, on: &OnCpu, vector: Vector) -> Result<(), Error> {
        self.online_slot(on.cpu())?;
        self.apic().send_self(vector);
        Ok(())
    }

    /// Sends `vector` to each CPU of `cpus`: one register write for each cluster that has one,
    /// whatever the order of CPU indices. For all that are online, give the set of them: there
    /// is no other broadcast, since a shorthand reaches CPUs that are offline.
    ///
    /// # Errors
    /// The first CPU that cannot be reached, when all others have been served.
    ///
    /// # Context
    /// Any, on a CPU that is online.
    pub fn send_mask(&self, vector: Vector, cpus: &dyn CpuSet) -> Result<(), Error> {
        let ring = |command| self.apic().send(command);
        self.hot.targets.kick(cpus, vector, |_| true, ring)
    }

    /// Sends `vector` to all of `ids`, which are online: one register write for each cluster,
    /// whatever their order, behind one fence. Sorts `ids`.
    ///
    /// # Context
    /// Any, on a CPU that is online.
    pub fn send_many(&self, vector: Vector, ids: &mut [ApicId]) {
        self.apic().send_all(multicast(vector, ids));
    }
}
