// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go. Only a CPU itself can open or close its part of the controller.

use irq_hal::atomic::Ordering;
use irq_hal::percpu::OnCpu;
use irq_hal::{Barrier, Error, Platform, irq_debug};

use super::targets::read;
use super::{Cpu, Xive};
use crate::esb::Pq;
use crate::firmware::Firmware;
use crate::ids::Pir;
use crate::layout::IPI;
use crate::tima::{CLOSED, OPEN};

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// Opens the running CPU's part. Device events that waited in its queue are sent once more;
    /// IPIs that came too late for it are dropped.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] for an index that is not possible; [`Error::NoUnitForCpu`] if `pir`
    /// is not the thread that was described for it; [`Error::CpuIsOnline`]; [`Error::Refused`]
    /// if the controller does not find this thread, or its source of IPIs is dead. The CPU is
    /// then offline and the call can be repeated.
    ///
    /// # Context
    /// On that CPU, masked; on several CPUs at once. Allocates nothing, calls no `this_cpu`.
    pub fn cpu_online(&self, on: &OnCpu, pir: Pir) -> Result<(), Error> {
        let cpu = self.cpu(on.cpu())?;
        let fixed = &cpu.fixed;
        if fixed.thread.pir != pir {
            return Err(Error::NoUnitForCpu {
                block: "event queue",
                id: u64::from(pir.get()),
            });
        }
        if fixed.is_online() {
            return Err(Error::CpuIsOnline { cpu: on.cpu() });
        }
        // Before the first CPPR: POWER10 loses that otherwise.
        self.hot.tima.validate()?;
        // Open for IPIs alone: takes the notification of one that came too late. It comes before
        // the source is set idle, so that one which comes between the two is notified. Should the
        // presenter hand out the devices' instead, what it was for is sent once more below.
        let ipis_alone = self.hot.device_priority.get();
        self.set_cppr(cpu, ipis_alone);
        if !self.hot.tima.acknowledge().is_nothing() {
            self.hot.tima.barrier().synchronize();
            self.set_cppr(cpu, ipis_alone);
        }
        self.set_cppr(cpu, CLOSED);
        self.drop_ipi(cpu)?;
        // What came while this thread could not be found is pending nowhere but in the queue.
        self.send_again(cpu);
        // Whoever takes events out of the queue of a CPU that is offline does so under this lock.
        self.ledger.with(&self.platform, |_| {
            fixed.online.store(true, Ordering::Relaxed);
        });
        self.set_cppr(cpu, OPEN);
        irq_debug!("xive: {} online, pir {:#x}", on.cpu(), pir.get());
        Ok(())
    }

    /// Closes the running CPU's part. Device events in its queue are sent once more, to where
    /// their sources go by now; IPIs are dropped. Sources that still go to this CPU are the
    /// caller's to [move](Self::set_target), before or afterwards: an event of theirs waits in
    /// the queue until that, or until the CPU is back. [`load`](Self::load) counts them.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`].
    ///
    /// # Context
    /// On that CPU, masked, with nothing acknowledged that is not ended, and no IPI under way to
    /// it that somebody waits for. Allocates nothing.
    pub fn cpu_offline(&self, on: &OnCpu) -> Result<(), Error> {
        let cpu = self.cpu(on.cpu())?;
        if !cpu.fixed.is_online() {
            return Err(Error::CpuOffline { cpu: on.cpu() });
        }
        self.ledger.with(&self.platform, |_| {
            cpu.fixed.online.store(false, Ordering::Relaxed);
        });
        self.set_cppr(cpu, CLOSED);
        // A source of IPIs that does not answer sends none.
        let _ = self.drop_ipi(cpu);
        self.send_again(cpu);
        irq_debug!("xive: {} offline", on.cpu());
        Ok(())
    }

    /// Lets the source of this CPU's IPIs send the next one.
    fn drop_ipi(&self, cpu: &Cpu<F::Window>) -> Result<(), Error> {
        cpu.fixed.ipi.set(Pq::RESET).map(drop).ok_or(DEAD)
    }

    /// Takes what is in the queue for devices, and sends each once more.
    fn send_again(&self, cpu: &Cpu<F::Window>) {
        // What is sent to this CPU itself comes behind.
        let tail = {
            let (queue, at) = read(cpu);
            queue.tail(at)
        };
        loop {
            let taken = self.ledger.with(&self.platform, |_| {
                let (queue, at) = read(cpu);
                let data = queue.entry(at).filter(|_| at != tail)?;
                Self::advance(cpu);
                Some(data)
            });
            let Some(data) = taken else {
                return;
            };
            match self.hot.layout.place(data) {
                Some(IPI) | None => {}
                Some(index) => self.replay(index),
            }
        }
    }
}

pub(super) const DEAD: Error = Error::Refused {
    register: "ESB",
    value: u64::MAX,
};
