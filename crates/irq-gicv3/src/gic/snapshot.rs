// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller's state as text, without allocating.

use core::fmt;

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::{Error, Platform};

use super::Gic;
use crate::regs::Frame;
use crate::regs::icc::IccBus;

/// What [`Gic::snapshot`] prints: the distributor, each CPU that is online, and each shared
/// line that is not idle. Reads registers while it prints; takes no lock.
pub struct Snapshot<'g, P, B, C>(&'g Gic<P, B, C>);

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// The state of the controller, to be printed.
    ///
    /// # Context
    /// Any, also masked or in a panic.
    pub const fn snapshot(&self) -> Snapshot<'_, P, B, C> {
        Snapshot(self)
    }
}

impl<P: Platform, B: Frame, C: IccBus> fmt::Display for Snapshot<'_, P, B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gic = self.0;
        let features = gic.distributor.features();
        writeln!(
            f,
            "GICv{} CTLR {:#x} TYPER {:#x} IIDR {:#x} quirks {:#x}",
            features.revision,
            gic.distributor.ctlr(),
            features.typer,
            features.iidr,
            gic.hot.effects.bits(),
        )?;
        for (cpu, slot) in gic.slots.iter().filter(|(cpu, _)| gic.online(*cpu)) {
            writeln!(
                f,
                "{cpu} affinity {} spurious {} special {} unknown {}",
                slot.mpidr(),
                slot.spurious.load(Relaxed),
                slot.special.load(Relaxed),
                slot.unknown.load(Relaxed),
            )?;
        }
        for irq in gic.irqs().iter() {
            let Ok(intid) = gic.intid(irq) else { continue };
            if !intid.kind().is_shared() {
                continue;
            }
            let state = match gic.distributor.state(intid) {
                Ok(state) => state,
                Err(Error::Unsupported { feature }) => return writeln!(f, "lines: no {feature}"),
                Err(_) => continue,
            };
            if state.masked && !state.pending && !state.active {
                continue;
            }
            let flag = |set: bool, name: &'static str| if set { name } else { "" };
            write!(
                f,
                "{irq} {intid}{}{}{} to ",
                flag(state.masked, " masked"),
                flag(state.pending, " pending"),
                flag(state.active, " active"),
            )?;
            match gic
                .distributor
                .route(intid)
                .ok()
                .and_then(|route| route.cpu())
            {
                Some(cpu) => writeln!(f, "{cpu}")?,
                None => writeln!(f, "any")?,
            }
        }
        Ok(())
    }
}
