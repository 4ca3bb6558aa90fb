// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go.

use irq_hal::atomic::Ordering;
use irq_hal::bus::Part;
use irq_hal::percpu::OnCpu;
use irq_hal::{Error, Platform, irq_debug, irq_warn};

use super::{Gic, Slot};
use crate::affinity::Mpidr;
use crate::cpu_interface::CpuInterface;
use crate::redistributor::{Asleep, Redistributor};
use crate::regs::Frame;
use crate::regs::icc::IccBus;
use crate::sgi::SgiTarget;

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// Brings the running CPU's part up and binds its index to its hardware id: finds, powers
    /// and wakes its redistributor, gives its private interrupts what
    /// [`configure_private`](Self::configure_private) and
    /// [`unmask_private`](Self::unmask_private) said, and turns its interface on.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] for an index that is not possible; [`Error::CpuIsOnline`];
    /// [`Error::Exists`] if another CPU came online with this `mpidr`; [`Error::NoUnitForCpu`] if
    /// `mpidr` has no redistributor; [`Error::Timeout`] if that one never powers up, never wakes
    /// or stays busy; [`Error::Refused`] if system registers are forbidden, or if the SGI of
    /// [`Config::ipi`](crate::Config::ipi) is the secure side's;
    /// [`Error::Unsupported`] for a CPU whose priority view differs from the first one's, and
    /// for one whose interface holds no Aff3 on a machine that has CPUs with an Aff3 other than
    /// 0. The CPU is then offline and the call can be repeated. A private interrupt whose
    /// trigger this CPU has fixed otherwise is a warning and no error.
    ///
    /// # Context
    /// On that CPU, masked; on several CPUs at once. Allocates nothing, calls no `this_cpu`.
    pub fn cpu_online(&self, on: &OnCpu, mpidr: Mpidr) -> Result<(), Error> {
        let slot = self.slot(on.cpu())?;
        if self.online(on.cpu()) {
            return Err(Error::CpuIsOnline { cpu: on.cpu() });
        }
        let mpidr = self.effective(mpidr);
        let redistributor = self.redistributors.claim(mpidr)?;
        let result = self.bring_up(on, slot, mpidr, redistributor);
        if result.is_err() {
            self.redistributors.release(mpidr);
        }
        result
    }

    /// The part of [`cpu_online`](Self::cpu_online) with the redistributor claimed.
    fn bring_up(
        &self,
        on: &OnCpu,
        slot: &Slot,
        mpidr: Mpidr,
        redistributor: Redistributor<Part<&B>, Asleep>,
    ) -> Result<(), Error> {
        let interface = CpuInterface::new(&self.hot.icc);
        let features = interface.probe()?;
        if features.group0 != self.group0 {
            return Err(Error::Unsupported {
                feature: "CPUs with different SCR_EL3.FIQ",
            });
        }
        if !features.aff3 && (self.aff3 || mpidr.aff3() != 0) {
            return Err(Error::Unsupported {
                feature: "Aff3 in SGIs (ICC_CTLR_EL1.A3V)",
            });
        }
        // Before the redistributor counts as set up: visits from other CPUs go by it.
        slot.extended_range
            .store(features.extended_range, Ordering::Relaxed);
        let redistributor = redistributor
            .wake(&self.platform)
            .map_err(|(_, error)| error)?;
        slot.mpidr.store(mpidr.get(), Ordering::Relaxed);
        let one_state = self.distributor.features().one_security_state;
        let refused = slot.redistributor.with(&self.platform, |set_up| {
            redistributor.reset(&self.platform, one_state, self.default_priority)?;
            let refused = self.apply_template(&redistributor, features.extended_range)?;
            *set_up = true;
            Ok::<_, Error>(refused)
        })?;
        if let Some(intid) = refused {
            irq_warn!(
                "gicv3: {} has the trigger of INTID {} fixed otherwise",
                on.cpu(),
                intid.get()
            );
        }
        if let Err((_, error)) = interface.enable(&self.hot.setup) {
            slot.redistributor
                .with(&self.platform, |set_up| *set_up = false);
            return Err(error);
        }
        if !features.extended_range && self.hot.layout.eppis() + self.hot.layout.espis() != 0 {
            irq_warn!("gicv3: {} takes no extended PPI or SPI", on.cpu());
        }
        if !features.range_selector {
            self.hot.range_selector.store(false, Ordering::Relaxed);
        }
        let place = self.redistributors.place(mpidr);
        let place = place.ok_or(super::no_redistributor(mpidr))?;
        self.hot
            .targets
            .online(on.cpu(), place, SgiTarget::new(mpidr))?;
        irq_debug!("gicv3: {} online, affinity {:#x}", on.cpu(), mpidr.get());
        Ok(())
    }

    /// Takes the running CPU's part down: its interface is turned off and its redistributor
    /// put to sleep. Shared interrupts that go to it are the caller's to move before.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`]; [`Error::Timeout`] if the redistributor
    /// takes the request to sleep and never does. The CPU is offline all the same then.
    ///
    /// # Context
    /// On that CPU, masked, with nothing acknowledged that is not ended. Allocates nothing.
    pub fn cpu_offline(&self, on: &OnCpu) -> Result<(), Error> {
        let cpu = on.cpu();
        let slot = self.slot(cpu)?;
        if !self.online(cpu) {
            return Err(Error::CpuOffline { cpu });
        }
        self.hot.targets.offline(cpu);
        slot.redistributor
            .with(&self.platform, |set_up| *set_up = false);
        self.interface().disable();
        let mpidr = slot.mpidr();
        let redistributor = self.redistributors.find(mpidr)?.assume_awake();
        let slept = redistributor.sleep(&self.platform);
        // Last: from here on another index may bring this redistributor up.
        self.redistributors.release(mpidr);
        slept.map_err(|(_, error)| error)?;
        irq_debug!("gicv3: {} offline", cpu);
        Ok(())
    }
}
