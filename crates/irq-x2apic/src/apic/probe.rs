// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be refused before anything is touched.

use alloc::vec::Vec;

use irq_core::{Irq, IrqRange};
use irq_hal::atomic::AtomicU32;
use irq_hal::heap::try_vec;
use irq_hal::percpu::{CachePadded, PerCpu};
use irq_hal::{Platform, irq_debug};
use tock_registers::interfaces::Readable;

use super::targets::Targets;
use super::{Apic, Config, Description, Hot, Slot};
use crate::cpuid::{self, Cpu, CpuId};
use crate::error::ProbeError;
use crate::id::ApicId;
use crate::local_apic::SendOrder;
use crate::mode::{self, Mode};
use crate::regs::apic::{ApicBus, ApicRegs};
use crate::regs::lvt::{Lvt, LvtEntry};
use crate::timer::Deadline;
use crate::vector::{COUNT, Vector};

impl<P: Platform, M: ApicBus> Apic<P, M> {
    /// Looks at the machine through the CPU that runs. Its local APIC may be in any legal mode
    /// and stays in it: [`cpu_online`](Self::cpu_online) changes it.
    ///
    /// `msrs` are those of whichever CPU runs, [`Msrs`](crate::Msrs) on hardware.
    ///
    /// # Errors
    /// See [`ProbeError`].
    ///
    /// # Context
    /// The boot CPU, once a heap exists; before any [`cpu_online`](Self::cpu_online). Needs no
    /// clock. Nothing is written to a local APIC.
    pub fn probe(
        platform: P,
        msrs: M,
        cpuid: &impl CpuId,
        description: Description<'_>,
        config: Config,
    ) -> Result<Self, ProbeError> {
        let cpu = Cpu::of(cpuid);
        if !cpu.x2apic {
            // An APIC that is off hides itself, but not its x2APIC mode.
            return Err(match cpu.apic {
                true => ProbeError::XapicOnly,
                false => ProbeError::NoApic,
            });
        }
        let base = ApicRegs(&msrs).base().get();
        let found = Mode::of(base).ok_or(ProbeError::Mode { base })?;
        let locked = mode::locked(&msrs, cpu.arch_capabilities);
        if description.opt_out && !locked && found != Mode::X2apic {
            return Err(ProbeError::OptedOut);
        }
        let ids = Ids::new(description.cpus)?;
        if let Some(id) = cpuid::apic_id(cpuid).filter(|id| !ids.allow(*id)) {
            return Err(ProbeError::BootCpu { id: id.get() });
        }
        let described = u32::try_from(description.cpus.len()).unwrap_or(u32::MAX);
        let cpus = config.cpus.unwrap_or(described.max(1));
        if cpus == 0 {
            return Err(ProbeError::NoCpus);
        }
        config.check_vectors()?;
        let irqs = numbers(config.base)?;
        let filler = LvtEntry::fixed(config.spurious).masked();
        let slots = PerCpu::new(cpus, |_| Slot::new(filler))?;
        // CPUs that are not described may have a cluster each.
        let clusters = ids.clusters() + cpus.saturating_sub(described) as usize;
        let targets = Targets::new(cpus, clusters)?;
        let hot = Hot {
            order: SendOrder::of(&cpu),
            irqs,
            spurious: config.spurious,
            perf: config.vector(Lvt::Perf).map_or(0, Vector::get),
            ipi: config.ipi,
            targets,
            msrs,
        };
        let deadline = Deadline::of(&hot.msrs, cpuid, &cpu);
        irq_debug!("x2apic: {} CPUs, mode {:#x}, locked {}", cpus, base, locked);
        Ok(Self {
            hot: CachePadded::new(hot),
            slots,
            platform,
            config,
            deadline,
            locked,
            template: AtomicU32::new(Lvt::Error.bit()),
        })
    }
}

/// The irqs of the vectors 32 to 255.
fn numbers(base: Irq) -> Result<IrqRange, ProbeError> {
    IrqRange::new(base, COUNT).map_err(|_| ProbeError::Base {
        base: base.get(),
        count: COUNT,
    })
}

/// The described ids, in order.
struct Ids(Vec<ApicId>);

impl Ids {
    fn new(described: &[ApicId]) -> Result<Self, ProbeError> {
        let mut ids = try_vec(described.len())?;
        ids.extend_from_slice(described);
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(ProbeError::SameId { id: pair[0].get() }),
            None => Ok(Self(ids)),
        }
    }

    /// Whether `id` may be the one of a CPU.
    fn allow(&self, id: ApicId) -> bool {
        self.0.is_empty() || self.0.binary_search(&id).is_ok()
    }

    /// How many clusters they are in.
    fn clusters(&self) -> usize {
        self.0.chunk_by(|a, b| a.cluster() == b.cluster()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_counted_and_a_second_id_is_refused_whatever_the_order() {
        let ids = |numbers: &[u32]| {
            let all: Vec<_> = numbers.iter().filter_map(|n| ApicId::new(*n)).collect();
            Ids::new(&all)
        };
        let three = ids(&[0x12f, 3, 0x120, 0x80]).unwrap();
        assert_eq!(three.clusters(), 3);
        assert!(matches!(
            ids(&[0x12f, 3, 0x12f]),
            Err(ProbeError::SameId { id: 0x12f })
        ));
    }
}
