// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of lines by our numbers.
//!
//! A private interrupt's calls act on the CPU that runs; for all CPUs at once there are
//! [`Gic::configure_private`] and its kin.

use irq_core::{Irq, LineState, Lines, Trigger};
use irq_hal::{Error, Platform};

use super::{Gic, Slot};
use crate::affinity::{Mpidr, Route};
use crate::intid::{IntId, Kind};
use crate::priority::Priority;
use crate::quirks::Effects;
use crate::regs::Frame;
use crate::regs::icc::IccBus;

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// Sends a shared interrupt to the CPU `mpidr` from now on. It is masked meanwhile.
    ///
    /// Whether a CPU takes extended SPIs is known while it is online. One that is not is taken
    /// at its word here; [`unmask`](Lines::unmask) looks again, a CPU that comes online does
    /// not.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Invalid`] for a private interrupt;
    /// [`Error::NoUnitForCpu`]; [`Error::Unsupported`] for an extended SPI and a CPU that takes
    /// none; [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn set_route(&self, irq: Irq, mpidr: Mpidr) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        let mpidr = self.effective(mpidr);
        if !self.redistributors.contains(mpidr) {
            return Err(super::no_redistributor(mpidr));
        }
        self.check_extended_spi(intid, || Ok(mpidr.route()))?;
        self.distributor
            .set_route(&self.platform, intid, mpidr.route())
    }

    /// Extended SPIs reach only CPUs whose interface takes them.
    /// The route is asked for only if there is a CPU that does not.
    fn check_extended_spi(
        &self,
        intid: IntId,
        route: impl FnOnce() -> Result<Route, Error>,
    ) -> Result<(), Error> {
        if intid.kind() != Kind::ExtendedSpi {
            return Ok(());
        }
        let lacks = |(cpu, slot): &(_, &Slot)| self.online(*cpu) && !slot.takes(intid);
        let mut lacking = self.slots.iter().filter(lacks).map(|(_, slot)| slot);
        let Some(first) = lacking.next() else {
            return Ok(());
        };
        let to = route()?.cpu();
        let mut all = core::iter::once(first).chain(lacking);
        match all.any(|slot| to.is_none_or(|cpu| cpu == slot.mpidr())) {
            true => Err(Error::Unsupported {
                feature: "extended SPIs on that CPU (ExtRange)",
            }),
            false => Ok(()),
        }
    }

    /// Sends a shared interrupt to any CPU that participates, one of them at a time.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the hardware has no 1-of-N, and for an extended SPI if a
    /// CPU that is online takes none; else as for [`set_route`](Self::set_route).
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn set_route_any(&self, irq: Irq) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        self.check_extended_spi(intid, || Ok(Route::ANY))?;
        self.distributor
            .set_route(&self.platform, intid, Route::ANY)
    }

    /// Sets the priority of a shared interrupt. It is masked meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Invalid`] for a private interrupt, and for a priority that
    /// this view does not have; [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt.
    pub fn set_priority(&self, irq: Irq, priority: Priority) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        let value = self
            .view
            .distributor_value(priority)
            .ok_or(Error::Invalid {
                what: "priority",
                value: u64::from(priority.get()),
            })?;
        self.distributor.set_priority(&self.platform, intid, value)
    }

    /// Extended PPIs reach only CPUs whose interface takes them.
    fn check_extended_ppi(&self, intid: IntId) -> Result<(), Error> {
        if intid.kind() != Kind::ExtendedPpi {
            return Ok(());
        }
        match self.slots.get(self.platform.this_cpu()) {
            Some(slot) if slot.takes(intid) => Ok(()),
            _ => Err(Error::Unsupported {
                feature: "extended PPIs on this CPU (ExtRange)",
            }),
        }
    }
}

impl<P, B, C> Lines for Gic<P, B, C>
where
    P: Platform,
    B: Frame + Sync,
    C: IccBus + Sync,
{
    fn mask(&self, irq: Irq) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        if intid.kind().is_private() {
            return self.with_own_redistributor(|rd| rd.mask(&self.platform, intid));
        }
        self.distributor.mask(&self.platform, intid)
    }

    fn unmask(&self, irq: Irq) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        if intid.kind().is_private() {
            return self.with_own_redistributor(|rd| {
                self.check_extended_ppi(intid)?;
                rd.unmask(intid)
            });
        }
        self.check_extended_spi(intid, || self.distributor.route(intid))?;
        self.distributor.unmask(&self.platform, intid)
    }

    fn set_trigger(&self, irq: Irq, trigger: Trigger) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        if intid.kind().is_private() {
            return self
                .with_own_redistributor(|rd| rd.set_trigger(&self.platform, intid, trigger));
        }
        self.distributor.set_trigger(&self.platform, intid, trigger)
    }

    fn retrigger(&self, irq: Irq) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        if intid.kind().is_private() {
            return self.with_own_redistributor(|rd| rd.set_pending(intid));
        }
        self.distributor.set_pending(intid)
    }

    fn complete(&self, irq: Irq) -> Result<(), Error> {
        let intid = self.hot.layout.intid(irq)?;
        if self.hot.effects.contains(Effects::LOST_DEACTIVATION)
            && self.interface().eoi_mode() == crate::EoiMode::Split
            && self.routed_elsewhere(intid, self.platform.this_cpu())
        {
            // What was done to the device comes before the end.
            self.hot.icc.complete();
            return self.distributor.deactivate(intid);
        }
        self.interface().complete(intid)
    }

    fn state(&self, irq: Irq) -> Result<LineState, Error> {
        let intid = self.hot.layout.intid(irq)?;
        if intid.kind().is_private() {
            return self.with_own_redistributor(|rd| rd.state(intid));
        }
        self.distributor.state(intid)
    }
}
