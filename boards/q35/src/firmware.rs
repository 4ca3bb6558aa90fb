// SPDX-License-Identifier: MIT OR Apache-2.0
//! What firmware's tables say of CPUs and nodes, and what the CPU says of its neighbours.
//!
//! Threads and packages come from the fields of an APIC id, whose widths the CPU tells (CPUID
//! leaf 0BH or 1FH); nodes from the SRAT, counted from 0 in the order of its domains, those
//! without a CPU too.
//!
//! Source: Intel SDM vol. 2, "CPUID", leaf 0BH; vol. 3, "Detecting Hardware Multi-Threading
//! Support and Topology".

use alloc::vec::Vec;

use irq_core::topology::Place;
use irq_hal::acpi::Tables;
use irq_hal::heap::try_vec;
use irq_hal::{Error, NodeId};
use irq_x2apic::acpi::{Domain, Domains, Madt, Srat};
use irq_x2apic::apic::Pin;
use irq_x2apic::regs::lvt::Polarity;
use irq_x2apic::{ApicId, CpuId, NativeCpuId};

use crate::pvh::StartInfo;

/// Nodes that an image can have.
const NODES: usize = 64;

/// A CPU that firmware names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Its name in hardware.
    pub id: ApicId,
    /// Where it stands.
    pub place: Place,
}

/// What firmware tells.
pub struct Firmware {
    /// The CPUs that are there, in the order of the MADT.
    pub cpus: Vec<Cpu>,
    /// The number of nodes, of which some may have no CPU. At least 1.
    pub nodes: u32,
    /// Whether there are 8259s.
    pub has_8259: bool,
    /// What LINT0 and LINT1 of the boot CPU do.
    pub pins: [Pin; 2],
}

impl Firmware {
    /// What the tables say, on the boot CPU `running`.
    ///
    /// # Errors
    /// [`Error::Firmware`] for a table that is missing or wrong; [`Error::NoUnitForCpu`] if the
    /// boot CPU is not in it; [`Error::OutOfMemory`].
    pub fn read(info: &StartInfo, running: ApicId) -> Result<Self, Error> {
        let tables = Tables::new(info.rsdp()?, |at, len| info.firmware(at, len))?;
        let none = Error::Firmware {
            what: "no MADT",
            at: tables.root().get(),
        };
        let madt = Madt::from_sdt(tables.find(Madt::SIGNATURE)?.ok_or(none)?)?;
        let count = madt.check(running)?;
        let srat = tables.find(Srat::SIGNATURE)?.map(Srat::from_sdt);
        let srat = srat.transpose()?;
        let mut room = [Domain::new(0); NODES];
        let domains = srat.map(|srat| srat.domains(&mut room)).transpose()?;
        let widths = Widths::of(&NativeCpuId);

        let mut cpus = try_vec(count)?;
        let mut pins = [Pin::Masked; 2];
        for cpu in madt.cpus() {
            let cpu = cpu?;
            let node = node(cpu.id, srat, domains)?;
            let place = widths.place(cpu.id, node);
            cpus.push(Cpu { id: cpu.id, place });
            if cpu.id == running {
                pins = madt.nmi_pins(cpu.uid)?.map(pin);
            }
        }
        let nodes = domains.map_or(1, |domains| domains.as_slice().len().max(1));
        Ok(Self {
            cpus,
            nodes: nodes as u32,
            has_8259: madt.has_8259(),
            pins,
        })
    }
}

/// The node of a CPU: the first one, where nothing is said of it.
fn node(id: ApicId, srat: Option<Srat<'_>>, domains: Option<Domains<'_>>) -> Result<NodeId, Error> {
    let (Some(srat), Some(domains)) = (srat, domains) else {
        return Ok(NodeId::FLAT);
    };
    let domain = srat.domain_of(id)?;
    Ok(domain
        .and_then(|domain| domains.node(domain))
        .unwrap_or(NodeId::FLAT))
}

/// What a pin does: an NMI where the MADT says so.
fn pin(inti: Option<irq_x2apic::acpi::Inti>) -> Pin {
    use irq_x2apic::acpi::Polarity as Told;
    match inti.map(|inti| inti.polarity()) {
        None => Pin::Masked,
        Some(Told::Low) => Pin::Nmi(Polarity::Low),
        Some(_) => Pin::Nmi(Polarity::High),
    }
}

/// How many low bits of an APIC id tell threads of a core apart, and CPUs of a package.
#[derive(Clone, Copy, Debug)]
struct Widths {
    thread: u32,
    package: u32,
}

impl Widths {
    /// Asks the running CPU; where it does not know, each CPU is a package of its own.
    fn of(cpuid: &impl CpuId) -> Self {
        /// Levels that are looked at.
        const LEVELS: u32 = 8;
        /// Level types of ECX\[15:8\].
        const END: u32 = 0;
        const THREAD: u32 = 1;
        let mut widths = Self {
            thread: 0,
            package: 0,
        };
        let [last, ..] = cpuid.leaf(0, 0);
        let leaf = [0x1f, 0xb].into_iter().find(|&leaf| {
            let [_, ebx, ..] = cpuid.leaf(leaf, 0);
            last >= leaf && ebx & 0xffff != 0
        });
        let Some(leaf) = leaf else {
            return widths;
        };
        for level in 0..LEVELS {
            let [eax, _, ecx, _] = cpuid.leaf(leaf, level);
            let shift = eax & 0x1f;
            match ecx >> 8 & 0xff {
                END => break,
                THREAD => widths.thread = shift,
                _ => {}
            }
            widths.package = shift;
        }
        widths
    }

    fn place(self, id: ApicId, node: NodeId) -> Place {
        let (core, package) = (id.get() >> self.thread, id.get() >> self.package);
        Place {
            core,
            l2: core,
            group: package,
            package,
            node,
        }
    }
}
