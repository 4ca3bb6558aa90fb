// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt controller's bring-up, and the way in.

use alloc::boxed::Box;
use core::any::Any;

use boards_common::cmdline::CommandLine;
use boards_common::crew::Crew;
use boards_common::devicetree::{Cpu, Cpus, Tree};
use boards_common::{kinds, lockup, println};

use irq_core::{Interrupts, IpiSetup, Irq, IrqContext, Lines, Outcome, Setup, Trigger};
use irq_gicv3::{Config, EoiMode, Gic, IntId, Mpidr, Priority, Sgi, SysRegs, fdt};
use irq_hal::heap::try_vec;
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{CpuIndex, Error, Platform};
use once_cell::race::OnceRef;

use crate::bench::{Bench, UartLine, VirtualTimer};
use crate::cpu::{self, CpuBlock};
use crate::platform::{MACHINE, Virt};
use crate::scenarios::icount;
use crate::vectors::Frame;
use crate::{scenarios, secondary};

/// Which interrupts of the timer's node are the physical and the virtual timer's.
const PHYSICAL_TIMER: usize = 1;
const VIRTUAL_TIMER: usize = 2;

/// The SGI that irq-core's IPIs come by.
const IPI: u8 = 0;

/// What the entry needs, and what the scenarios look at.
pub struct System {
    /// The controller.
    pub gic: Gic<&'static Virt>,
    /// Its interrupts.
    pub interrupts: Interrupts,
    /// The CPUs that the devicetree names.
    pub blocks: &'static [CpuBlock],
    /// What is known of them, and their jobs.
    pub crew: Crew,
    /// How many CPUs, counted from the first, may come online.
    pub possible: u32,
    /// A CPU that stops before it reports, on demand.
    pub stuck: Option<CpuIndex>,
    /// Each CPU's timer.
    pub timer: VirtualTimer,
    /// The console's interrupt.
    pub uart: UartLine,
    /// A shared interrupt without a device.
    pub spare: Option<Irq>,
    /// The interrupt that ends a sleep; it is never taken.
    pub wake: Irq,
    /// What an end does.
    pub eoi_mode: EoiMode,
}

static SYSTEM: OnceRef<'static, System> = OnceRef::new();

/// Brings the controller and the boot CPU's part of it up, lets interrupts in, and starts the
/// other CPUs.
///
/// # Errors
/// Whatever is wrong with devicetree or hardware of the machine, or of the boot CPU.
pub fn bring_up(tree: &Tree<'_>, line: CommandLine<'_>) -> Result<Bench, Error> {
    let Cpus { cpus, nodes } = Cpus::find(tree)?;
    let blocks = blocks(&cpus)?;
    let boot = blocks.iter().find(|block| block.mpidr == cpu::mpidr());
    cpu::install(boot.ok_or(Error::NoUnitForCpu {
        block: "devicetree node",
        id: cpu::mpidr().get(),
    })?);
    let number = |key| line.value(key).and_then(|value| value.parse().ok());
    let possible = number("possible_cpus").unwrap_or(blocks.len() as u32);

    let found = fdt::describe(tree.blob())?;
    let description = found.mapped(|at| MACHINE.map_device(at.base, at.len as usize))?;
    let combined = line
        .list("scenario")
        .any(|name| [scenarios::COMBINED, icount::NAME].contains(&name));
    let eoi_mode = if combined {
        EoiMode::Combined
    } else {
        EoiMode::Split
    };
    let config = Config {
        cpus: Some(possible),
        eoi_mode,
        ipi: Sgi::new(IPI),
        ..Config::default()
    };
    let gic = Gic::probe(&MACHINE, description, SysRegs, config)?;
    for block in blocks {
        if let Err(error) = gic.redistributors().find(block.mpidr) {
            println!(
                "cpu with mpidr {:#x} has no redistributor: {error}",
                block.mpidr.get()
            );
        }
    }

    let wire = |device, index| fdt::interrupt(tree.blob(), &found, device, index);
    let private = |index| {
        let (intid, trigger) = wire(fdt::Device::Compatible("arm,armv8-timer"), index)?;
        gic.configure_private(intid, trigger, Priority::DEFAULT)?;
        Ok::<_, Error>((intid, irq(&gic, intid)?))
    };
    let (_, timer) = private(VIRTUAL_TIMER)?;
    let (intid, wake) = private(PHYSICAL_TIMER)?;
    gic.unmask_private(intid)?;

    let console = tree.stdout_path().ok_or(Error::Firmware {
        what: "standard output",
        at: 0,
    })?;
    let (intid, trigger) = wire(fdt::Device::Path(console), 0)?;
    let uart = irq(&gic, intid)?;
    gic.set_trigger(uart, trigger)?;

    // The last SPI: the machine wires the first ones.
    let last = gic.distributor().features().spis.checked_sub(1);
    let spare = last.and_then(IntId::spi).and_then(|intid| gic.irq(intid));
    if let Some(irq) = spare {
        gic.set_trigger(irq, Trigger::Edge)?;
    }

    let crew = Crew::new(blocks.len() as u32)?;
    let [wakes, probes, switches] = kinds::prepare(blocks.len() as u32)?;
    let [counts, answers] = icount::kinds();
    let kinds = [wakes, probes, switches, counts, answers];
    let interrupts = Interrupts::new(Setup {
        nodes,
        private: &gic.private_irqs(),
        ipi: gic.ipi_irq().map(|irq| IpiSetup { irq, kinds: &kinds }),
        detector: Some(lockup::DETECTOR),
        ..Setup::new(possible, gic.irqs())
    })?;
    let system: &_ = Box::leak(Box::new(System {
        gic,
        interrupts,
        blocks,
        crew,
        possible,
        stuck: number("stuck_cpu").map(CpuIndex::new),
        timer: VirtualTimer { irq: timer },
        uart: UartLine { irq: uart },
        spare,
        wake,
        eoi_mode,
    }));
    SYSTEM.set(system).map_err(|()| Error::Exists {
        what: "what the entry needs",
    })?;
    percpu::masked(&MACHINE, |on| system.cpu_online(on))?;
    system.crew.report(cpu::this().index, Ok(()));
    cpu::unmask();
    secondary::start_all(system);
    system.crew.gather(&MACHINE);
    Ok(Bench(system))
}

/// A block for each CPU, for good.
fn blocks(cpus: &[Cpu]) -> Result<&'static [CpuBlock], Error> {
    let mut blocks = try_vec(cpus.len())?;
    for (index, cpu) in (0..).zip(cpus) {
        let (index, mpidr) = (CpuIndex::new(index), Mpidr::new(cpu.hwid));
        let block = CpuBlock::new(index, mpidr, cpu.place);
        // The boot CPU runs on the image's stack.
        let boot = mpidr == cpu::mpidr();
        blocks.push(if boot { block } else { block.with_stacks()? });
    }
    Ok(blocks.leak())
}

fn irq(gic: &Gic<&Virt>, intid: IntId) -> Result<Irq, Error> {
    gic.irq(intid).ok_or(Error::HwirqOutOfRange {
        hwirq: intid.get(),
        last: gic.irqs().count(),
    })
}

/// What was brought up.
///
/// # Errors
/// [`Error::Context`] before.
pub fn system() -> Result<&'static System, Error> {
    SYSTEM.get().ok_or(Error::Context {
        what: "an interrupt before the controller is up",
    })
}

/// An IRQ was taken; the vector saved `frame` on this stack.
pub extern "C" fn enter(frame: &Frame) {
    match system() {
        // Nothing here schedules, so nothing is asked of us after the dispatch.
        Ok(system) => {
            // SAFETY: the vector masked, and returns after this; TPIDR_EL1 leads to this CPU's
            // block alone.
            let on = unsafe { OnCpu::new(cpu::this().index) };
            let _ = system.enter(on, Some(frame));
        }
        Err(error) => panic!("{error}"),
    }
}

impl System {
    /// The block of `cpu`.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    pub fn block(&self, cpu: CpuIndex) -> Result<&'static CpuBlock, Error> {
        self.blocks.get(cpu.index()).ok_or(Error::NoSuchCpu { cpu })
    }

    /// Brings the running CPU's part of the controller up, then makes it known to irq-core.
    ///
    /// # Errors
    /// Theirs.
    pub fn cpu_online(&self, on: &OnCpu) -> Result<(), Error> {
        self.gic.cpu_online(on, cpu::mpidr())?;
        let place = self.block(on.cpu())?.place;
        self.interrupts.cpu_online(&MACHINE, on, place)
    }

    /// The reverse.
    ///
    /// # Errors
    /// Theirs.
    pub fn cpu_offline(&self, on: OnCpu) -> Result<(), Error> {
        let entry = IrqContext::new(on, None, None);
        // Nothing here schedules, so what kinds ask for is left.
        let _ = self.interrupts.cpu_offline(&self.gic, &entry)?;
        self.gic.cpu_offline(entry.on())
    }

    /// One entry; `frame` is what the vector saved.
    #[inline]
    pub fn enter(&self, on: OnCpu, frame: Option<&dyn Any>) -> Outcome {
        self.interrupts
            .dispatch(&self.gic, &IrqContext::new(on, frame, None))
    }
}
