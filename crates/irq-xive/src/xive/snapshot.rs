// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller's state as text, without allocating.

use core::fmt;

use irq_core::{Irq, Lines};
use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::{CpuIndex, Error, Platform};

use super::Xive;
use super::targets::{Use, read};
use crate::firmware::Firmware;

/// What [`Xive::snapshot`] prints: each CPU that is online, and each source of ours that is not
/// idle. Reads sources while it prints.
pub struct Snapshot<'x, P: Platform, F: Firmware>(&'x Xive<P, F>);

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// The state of the controller, to be printed.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, also masked or in a panic with no lock of ours held.
    pub const fn snapshot(&self) -> Snapshot<'_, P, F> {
        Snapshot(self)
    }

    /// Where the source of `irq` goes, if it is ours.
    fn printed(&self, irq: Irq) -> Option<(crate::SourceNumber, CpuIndex)> {
        let index = self.device(irq).ok()?;
        self.ledger.with(&self.platform, |ledger| {
            let entry = ledger.ours(index)?;
            (entry.used != Use::Free).then_some((entry.number, entry.target))
        })
    }
}

impl<P: Platform, F: Firmware> fmt::Display for Snapshot<'_, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let xive = self.0;
        for (index, cpu) in xive
            .hot
            .cpus
            .iter()
            .filter(|(_, cpu)| cpu.fixed.is_online())
        {
            let (queue, at) = read(cpu);
            let waiting = queue.tail(at).wrapping_sub(at);
            writeln!(
                f,
                "{index} {} chip {} cppr {:#x} queue {at}+{waiting} spurious {} empty {} unknown {} rings {}",
                cpu.fixed.thread.pir,
                cpu.fixed.thread.chip.get(),
                cpu.own.cppr.load(Relaxed),
                cpu.own.spurious.load(Relaxed),
                cpu.own.empty.load(Relaxed),
                cpu.own.unknown.load(Relaxed),
                cpu.own.rings.load(Relaxed),
            )?;
        }
        for irq in xive.irqs().iter().skip(1) {
            let Some((number, target)) = xive.printed(irq) else {
                continue;
            };
            let state = match xive.state(irq) {
                Ok(state) => state,
                Err(Error::NoSuchIrq { .. }) => continue,
                Err(error) => return writeln!(f, "{irq} {number}: {error}"),
            };
            if state.masked && !state.pending && !state.active {
                continue;
            }
            let flag = |set: bool, name: &'static str| if set { name } else { "" };
            writeln!(
                f,
                "{irq} {number}{}{}{} to {target}",
                flag(state.masked, " masked"),
                flag(state.pending, " pending"),
                flag(state.active, " active"),
            )?;
        }
        Ok(())
    }
}
