// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of single shared interrupts.

use irq_core::Trigger;
use irq_hal::{Error, Platform};
use tock_registers::interfaces::{Readable, Writeable};

use super::Distributor;
use crate::affinity::Route;
use crate::intid::{IntId, Kind};
use crate::regs::Frame;
use crate::regs::bank::{Line, LineRegs};

impl<B: Frame> Distributor<B> {
    /// The place of `intid`, if it is a shared interrupt that this distributor has.
    pub(super) fn line(&self, intid: IntId) -> Result<Line, Error> {
        let kind = intid.kind();
        let count = match kind {
            Kind::Spi => self.features.spis,
            Kind::ExtendedSpi => self.features.espis,
            _ => {
                return Err(Error::Invalid {
                    what: "shared INTID",
                    value: intid.get().into(),
                });
            }
        };
        match Line::of(intid) {
            Some(line) if intid.number() < count => Ok(line),
            _ => {
                let last = kind.first() + count.saturating_sub(1);
                Err(Error::HwirqOutOfRange {
                    hwirq: intid.get(),
                    last,
                })
            }
        }
    }

    fn regs_of(&self, line: Line) -> LineRegs<'_, B> {
        LineRegs::new(&self.regs.bus, line)
    }

    /// Disables `intid` and waits until no CPU acknowledges it any more: one store, then loads
    /// of `GICD_CTLR` until RWP is 0.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::HwirqOutOfRange`] or [`Error::Invalid`] for an INTID that
    /// is not here.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. Takes the block's lock, bounded.
    pub fn mask<P: Platform + ?Sized>(&self, platform: &P, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.lock.with(platform, |()| self.disable(platform, line))
    }

    /// Enables `intid`: one store.
    ///
    /// # Errors
    /// As for [`mask`](Self::mask), without the timeout.
    ///
    /// # Context
    /// As for [`mask`](Self::mask).
    pub fn unmask<P: Platform + ?Sized>(&self, platform: &P, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.lock.with(platform, |()| {
            self.regs_of(line).isenabler().write_ones(line.bit())
        });
        Ok(())
    }

    fn disable<P: Platform + ?Sized>(&self, platform: &P, line: Line) -> Result<(), Error> {
        self.regs_of(line).icenabler().write_ones(line.bit());
        self.wait_rwp(platform)
    }

    /// Runs `change` with `line` disabled, and enables it again if it was, also
    /// after an error.
    fn while_disabled<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        line: Line,
        change: impl FnOnce(&LineRegs<'_, B>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.lock.with(platform, |()| {
            let enabled = self.state_regs(intid, line)?.enabled().get() & line.bit() != 0;
            let disabled = match enabled {
                true => self.disable(platform, line),
                false => Ok(()),
            };
            let regs = self.regs_of(line);
            let changed = disabled.and_then(|()| change(&regs));
            if enabled {
                regs.isenabler().write_ones(line.bit());
            }
            changed
        })
    }

    /// Sets how `intid` triggers. It is disabled meanwhile.
    ///
    /// # Errors
    /// [`Error::Refused`] if the hardware has it fixed otherwise; and as for
    /// [`mask`](Self::mask).
    ///
    /// # Context
    /// As for [`mask`](Self::mask).
    pub fn set_trigger<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        trigger: Trigger,
    ) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.while_disabled(platform, intid, line, |regs| {
            write_trigger(regs, line, trigger, "GICD_ICFGR")
        })
    }

    /// Sends `intid` to `route` from now on. It is disabled meanwhile; no completion exists
    /// for the route itself.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for "any CPU" where the hardware has no 1-of-N, and for an Aff3
    /// that it cannot hold; and as for [`mask`](Self::mask).
    ///
    /// # Context
    /// As for [`mask`](Self::mask).
    pub fn set_route<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        route: Route,
    ) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.check_route(route)?;
        self.while_disabled(platform, intid, line, |regs| {
            if let Some(router) = regs.irouter() {
                router.set(route.irouter());
            }
            Ok(())
        })
    }

    /// Whether the hardware can route to `route` at all.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn check_route(&self, route: Route) -> Result<(), Error> {
        if route.is_any() && !self.features.any_cpu {
            return Err(Error::Unsupported {
                feature: "1-of-N routing (GICD_TYPER.No1N)",
            });
        }
        if !self.features.aff3 && route.cpu().is_some_and(|cpu| cpu.aff3() != 0) {
            return Err(Error::Unsupported {
                feature: "Aff3 in a route (GICD_TYPER.A3V)",
            });
        }
        Ok(())
    }

    /// Where `intid` goes.
    ///
    /// # Errors
    /// [`Error::HwirqOutOfRange`] or [`Error::Invalid`] for an INTID that is not here.
    ///
    /// # Context
    /// Any; takes no lock.
    pub fn route(&self, intid: IntId) -> Result<Route, Error> {
        let line = self.line(intid)?;
        let router = self.regs_of(line).irouter();
        Ok(Route::from_irouter(router.map_or(0, |router| router.get())))
    }

    /// Sets the `IPRIORITYR` byte of `intid`, as
    /// [`PriorityView`](crate::priority::PriorityView) gives it. It is disabled meanwhile.
    ///
    /// # Errors
    /// As for [`mask`](Self::mask).
    ///
    /// # Context
    /// As for [`mask`](Self::mask).
    pub fn set_priority<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        value: u8,
    ) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.while_disabled(platform, intid, line, |regs| {
            regs.ipriorityr().set(value);
            Ok(())
        })
    }

    /// Makes `intid` pending: one store.
    ///
    /// # Errors
    /// [`Error::HwirqOutOfRange`] or [`Error::Invalid`] for an INTID that is not here.
    ///
    /// # Context
    /// Any.
    pub fn set_pending(&self, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.regs_of(line).ispendr().write_ones(line.bit());
        Ok(())
    }

    /// Takes the latched pending state of `intid` away: one store.
    ///
    /// # Errors
    /// As for [`set_pending`](Self::set_pending).
    ///
    /// # Context
    /// Any.
    pub fn clear_pending(&self, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.regs_of(line).icpendr().write_ones(line.bit());
        Ok(())
    }

    /// Deactivates `intid` past the CPU interface: one store.
    ///
    /// # Errors
    /// As for [`set_pending`](Self::set_pending).
    ///
    /// # Context
    /// Any.
    pub fn deactivate(&self, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.regs_of(line).icactiver().write_ones(line.bit());
        Ok(())
    }
}

/// Writes the trigger bit of `line` and looks whether it stuck. The line is disabled, and
/// neighbours in the word change under the caller's lock only.
pub(crate) fn write_trigger<B: Frame>(
    regs: &LineRegs<'_, B>,
    line: Line,
    trigger: Trigger,
    register: &'static str,
) -> Result<(), Error> {
    let icfgr = regs.icfgr();
    let before = icfgr.get();
    let wanted = match trigger {
        Trigger::Edge => before | line.edge_bit(),
        Trigger::Level => before & !line.edge_bit(),
    };
    if wanted == before {
        return Ok(());
    }
    icfgr.set(wanted);
    let now = icfgr.get();
    if (now ^ wanted) & line.edge_bit() != 0 {
        return Err(Error::Refused {
            register,
            value: now.into(),
        });
    }
    Ok(())
}
