// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller's state as text, without allocating.

use core::fmt;

use irq_hal::Platform;
use tock_registers::interfaces::Readable;

use super::Apic;
use crate::local_apic::LocalApic;
use crate::mode::Mode;
use crate::regs::apic::{ApicBus, ApicRegs};
use crate::regs::lvt::Lvt;
use crate::vector::Vector;

/// What [`Apic::snapshot`] prints: each CPU that is online, and the local APIC of the CPU that
/// runs. Reads registers while it prints; takes no lock.
pub struct Snapshot<'a, P, M>(&'a Apic<P, M>);

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// The state of the controller, to be printed.
    ///
    /// # Context
    /// Any, also masked or in a panic.
    pub const fn snapshot(&self) -> Snapshot<'_, P, M> {
        Snapshot(self)
    }
}

impl<P: Platform, M: ApicBus> fmt::Display for Snapshot<'_, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apic = self.0;
        for (cpu, _) in apic.slots.iter() {
            let (Ok(id), Ok(counts)) = (apic.id(cpu), apic.counts(cpu)) else {
                continue;
            };
            writeln!(
                f,
                "{cpu} id {id} spurious {} unknown {} leftovers {} errors {}",
                counts.spurious,
                counts.unknown,
                counts.leftovers,
                counts.errors.iter().sum::<u64>(),
            )?;
        }
        let base = ApicRegs(&apic.hot.msrs).base().get();
        write!(f, "here: APIC_BASE {base:#x}")?;
        if Mode::of(base) != Some(Mode::X2apic) {
            return writeln!(f);
        }
        local(&apic.apic(), f)
    }
}

/// The local APIC of the CPU that runs.
fn local<M: ApicBus>(apic: &LocalApic<M>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let regs = ApicRegs(apic.msrs());
    write!(
        f,
        " id {:#x} SVR {:#x} TPR {:#x} LVT",
        regs.id().get(),
        regs.sivr().get(),
        regs.tpr().get()
    )?;
    for lvt in Lvt::ALL {
        if let Some(entry) = apic.entry(lvt) {
            write!(f, " {}={:#x}", lvt.name(), entry.get())?;
        }
    }
    writeln!(f)?;
    for vector in (16..=u8::MAX).filter_map(Vector::new) {
        let (waits, in_service) = (apic.waits(vector), apic.in_service(vector));
        if waits || in_service {
            let flag = |set: bool, name: &'static str| if set { name } else { "" };
            let waits = flag(waits, " waits");
            writeln!(f, "{vector}{waits}{}", flag(in_service, " in service"))?;
        }
    }
    Ok(())
}
