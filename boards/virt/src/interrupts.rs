// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt controller's bring-up, and the way in.

use alloc::vec::Vec;
use core::any::Any;

use boards_common::bench::{self, LevelDevice};
use boards_common::cmdline::CommandLine;
use boards_common::devicetree::Tree;
use boards_common::println;
use irq_core::{Interrupts, Irq, IrqContext, Lines, Outcome, Trigger};
use irq_gicv3::{Config, EoiMode, Gic, IntId, Mpidr, Priority, SysRegs, fdt};
use irq_hal::percpu::OnCpu;
use irq_hal::platform::Ticks;
use irq_hal::{Error, Platform};
use spin::Once;

use crate::platform::{MACHINE, Virt};
use crate::scenarios;
use crate::vectors::Frame;
use crate::{cpu, timer};

/// Which interrupt of the timer's node is the virtual timer's.
const VIRTUAL_TIMER: usize = 2;

/// What the entry needs, and what the scenarios look at.
pub struct System {
    /// The controller.
    pub gic: Gic<&'static Virt>,
    /// Its interrupts.
    pub interrupts: Interrupts,
    /// The CPUs that the devicetree names.
    pub cpus: Vec<Mpidr>,
    timer: VirtualTimer,
    uart: UartLine,
    spare: Option<Irq>,
    eoi_mode: EoiMode,
}

static SYSTEM: Once<System> = Once::new();

/// Brings the controller and the boot CPU's part of it up, and lets interrupts in.
///
/// # Errors
/// Whatever is wrong with devicetree or hardware.
pub fn bring_up(tree: &Tree<'_>, line: CommandLine<'_>) -> Result<Bench, Error> {
    let found = fdt::describe(tree.blob())?;
    let description = found.mapped(|at| MACHINE.map_device(at.base, at.len as usize))?;
    let combined = line
        .list("scenario")
        .any(|name| name == scenarios::COMBINED);
    let eoi_mode = if combined {
        EoiMode::Combined
    } else {
        EoiMode::Split
    };
    let config = Config {
        eoi_mode,
        ..Config::default()
    };
    let gic = Gic::probe(&MACHINE, description, SysRegs, config)?;
    for &cpu in &found.cpus {
        if let Err(error) = gic.redistributors().find(cpu) {
            println!(
                "cpu with mpidr {:#x} has no redistributor: {error}",
                cpu.get()
            );
        }
    }

    // SAFETY: start-up runs masked on the boot CPU, and no other CPU has been started.
    let on = unsafe { OnCpu::new(cpu::this().index) };
    gic.cpu_online(&on, Mpidr::new(cpu::mpidr()))?;

    let wire = |device, index| fdt::interrupt(tree.blob(), &found, device, index);
    let (intid, trigger) = wire(fdt::Device::Compatible("arm,armv8-timer"), VIRTUAL_TIMER)?;
    gic.configure_private(intid, trigger, Priority::DEFAULT)?;
    let timer = VirtualTimer {
        irq: irq(&gic, intid)?,
    };

    let console = tree.stdout_path().ok_or(Error::Firmware {
        what: "standard output",
        at: 0,
    })?;
    let (intid, trigger) = wire(fdt::Device::Path(console), 0)?;
    let uart = UartLine {
        irq: irq(&gic, intid)?,
    };
    gic.set_trigger(uart.irq, trigger)?;

    // The last SPI: the machine wires the first ones.
    let last = gic.distributor().features().spis.checked_sub(1);
    let spare = last.and_then(IntId::spi).and_then(|intid| gic.irq(intid));
    if let Some(irq) = spare {
        gic.set_trigger(irq, Trigger::Edge)?;
    }

    let cpus = found.cpus.len() as u32;
    let interrupts = Interrupts::with_private(cpus, gic.irqs(), &gic.private_irqs())?;
    let cpus = found.cpus;
    SYSTEM.call_once(|| System {
        gic,
        interrupts,
        cpus,
        timer,
        uart,
        spare,
        eoi_mode,
    });
    cpu::unmask();
    system().map(Bench)
}

fn irq(gic: &Gic<&Virt>, intid: IntId) -> Result<Irq, Error> {
    gic.irq(intid).ok_or(Error::HwirqOutOfRange {
        hwirq: intid.get(),
        last: gic.irqs().count(),
    })
}

fn system() -> Result<&'static System, Error> {
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
    #[inline]
    fn enter(&self, on: OnCpu, frame: Option<&dyn Any>) -> Outcome {
        self.interrupts
            .dispatch(&self.gic, &IrqContext::new(on, frame, None))
    }
}

/// The virtual timer of each CPU.
struct VirtualTimer {
    irq: Irq,
}

impl bench::Timer for VirtualTimer {
    fn irq(&self) -> Irq {
        self.irq
    }

    fn arm(&self, at: Ticks) {
        timer::arm(at);
    }

    fn stop(&self) {
        timer::stop();
    }
}

/// The console's transmit interrupt: a line that is high while it is enabled, once a byte has
/// been sent.
struct UartLine {
    irq: Irq,
}

impl LevelDevice for UartLine {
    fn irq(&self) -> Irq {
        self.irq
    }

    fn ready(&self) -> bool {
        MACHINE.text().tx_latched()
    }

    fn raise(&self) {
        MACHINE.text().raise_line();
    }

    fn lower(&self) {
        MACHINE.text().lower_line();
    }
}

/// The machine as the scenarios see it.
pub struct Bench(pub &'static System);

impl bench::Bench for Bench {
    fn platform(&self) -> &'static dyn Platform {
        &MACHINE
    }

    fn interrupts(&self) -> &'static Interrupts {
        &self.0.interrupts
    }

    fn lines(&self) -> &'static dyn Lines {
        &self.0.gic
    }

    fn timer(&self) -> &'static dyn bench::Timer {
        &self.0.timer
    }

    fn device(&self) -> Result<&'static dyn LevelDevice, &'static str> {
        Ok(&self.0.uart)
    }

    fn spare_edge(&self) -> Result<Irq, &'static str> {
        self.0.spare.ok_or("the controller has no SPI")
    }

    fn can_defer(&self) -> bool {
        self.0.eoi_mode == EoiMode::Split
    }

    fn enter(&self, on: &OnCpu) -> Outcome {
        // SAFETY: `on` promises the same, for longer than this call.
        let on = unsafe { OnCpu::new(on.cpu()) };
        self.0.enter(on, None)
    }
}
