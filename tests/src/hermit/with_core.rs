// SPDX-License-Identifier: MIT OR Apache-2.0
//! The glue of a kernel that takes irq-core and the driver.

// [core statics]
use irq_core::topology::Place;
use irq_core::{
    Action, Bits, Control, Interrupts, IpiKind, IpiSetup, Irq, IrqContext, Kind, Setup,
};
use irq_gicv3::fdt::{self, Device};
use irq_gicv3::{Config, Gic, IntId, Mpidr, Priority, Sgi};
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{CpuIndex, Error};

use super::kernel::{self, Registers, TrapFrame, Window};
use super::platform::{Hermit, PLATFORM};

/// The interrupts of the machine. Set once, used by reference, no lock around it.
struct System {
    gic: Gic<&'static Hermit, Window, Registers>,
    interrupts: Interrupts,
    timer: IntId,
}

static SYSTEM: kernel::Once<System> = kernel::Once::new();

/// The SGI of our IPIs, and the one kind of them.
const SGI: Option<Sgi> = Sgi::new(1);
const RESCHEDULE: IpiKind = IpiKind::new(0).unwrap();

fn system() -> Result<&'static System, Error> {
    let what = "interrupts before their bring-up";
    SYSTEM.get().ok_or(Error::Context { what })
}

/// The irq of an INTID.
fn irq_of(intid: IntId) -> Result<Irq, Error> {
    let irq = intid.get();
    system()?.gic.irq(intid).ok_or(Error::NoSuchIrq { irq })
}
// [core statics end]

// [core init]
/// The boot core, masked, with page tables and heap.
pub fn init() -> Result<(), Error> {
    let tree = kernel::devicetree();
    let found = fdt::describe(tree)?;
    let description = found.mapped(|at| kernel::map_window(at.base, at.len))?;
    let config = Config {
        ipi: SGI,
        ..Config::default()
    };
    let gic = Gic::probe(&PLATFORM, description, kernel::registers(), config)?;

    // The virtual timer is the third interrupt of its node.
    let node = Device::Compatible("arm,armv8-timer");
    let (timer, trigger) = fdt::interrupt(tree, &found, node, 2)?;
    gic.configure_private(timer, trigger, Priority::DEFAULT)?;

    let kinds = [Kind::new(|_, cx| cx.request(Bits::RESCHEDULE), 0)];
    let ipi = gic.ipi_irq().map(|irq| IpiSetup { irq, kinds: &kinds });
    let interrupts = Interrupts::new(Setup {
        private: &gic.private_irqs(),
        ipi,
        ..Setup::new(kernel::possible_cpus(), gic.irqs())
    })?;
    SYSTEM.get_or_init(|| System {
        gic,
        interrupts,
        timer,
    });
    Ok(())
}

/// Every core, masked, behind its core-local block and before it unmasks.
pub fn init_cpu() -> Result<(), Error> {
    let system = system()?;
    percpu::masked(&PLATFORM, |on| {
        system.gic.cpu_online(on, Mpidr::new(kernel::mpidr()))?;
        let place = Place::flat(on.cpu());
        system.interrupts.cpu_online(&PLATFORM, on, place)
    })
}
// [core init end]

// [core entry]
/// The IRQ vector and the FIQ vector, masked.
pub extern "C" fn do_irq(frame: &TrapFrame) -> *mut usize {
    let Ok(system) = system() else {
        return kernel::same_task();
    };
    // SAFETY: masked from the vector on, and TPIDR_EL1 leads to this core's block.
    let on = unsafe { OnCpu::new(CpuIndex::new(kernel::core_local().id)) };
    let cx = IrqContext::new(on, Some(frame), None);
    let outcome = system.interrupts.dispatch(&system.gic, &cx);
    kernel::run_executor();
    if outcome.bits.contains(Bits::RESCHEDULE) {
        // Everything of ours is finished: the stub may switch stacks.
        kernel::schedule()
    } else {
        kernel::same_task()
    }
}
// [core entry end]

// [core drivers]
/// What drivers use: it names neither platform nor controller.
fn control() -> Result<Control<'static>, Error> {
    let system = system()?;
    Ok(system.interrupts.control(&PLATFORM, &system.gic))
}

/// Registers `action` for as long as the kernel runs.
fn keep(irq: Irq, action: Action) -> Result<(), Error> {
    core::mem::forget(control()?.register(irq, action)?);
    Ok(())
}

/// The boot core, once it is unmasked: the timer of every core, present and future.
pub fn start_timer() -> Result<(), Error> {
    let system = system()?;
    let tick = Action::new(|cx| {
        kernel::timer_interrupt();
        cx.request(Bits::RESCHEDULE);
    });
    keep(irq_of(system.timer)?, tick.named("timer"))?;
    system.gic.unmask_private(system.timer)
}

/// An interrupt specifier of a driver's node: its line, counted like SPIs, which stays masked
/// until it has a handler.
pub fn detect_interrupt(cells: &[u32]) -> Result<u8, Error> {
    let (intid, trigger) = fdt::translate(cells)?;
    control()?.set_trigger(irq_of(intid)?, trigger)?;
    let line = Irq::new(intid.get().saturating_sub(32));
    line.try_into()
}

/// The handlers of the drivers, from a task of the running kernel. A line may have several.
pub fn install_handlers(handlers: &[(u8, fn())]) -> Result<(), Error> {
    for &(line, handler) in handlers {
        let unknown = Error::NoSuchIrq { irq: line.into() };
        let irq = irq_of(IntId::spi(line.into()).ok_or(unknown)?)?;
        keep(irq, Action::new(move |_| handler()).shared())?;
        control()?.unmask(irq)?;
    }
    Ok(())
}
// [core drivers end]

// [core ipi]
/// Lets the scheduler of `core` look for work. Any context, handlers too.
pub fn wakeup_core(core: u32) -> Result<(), Error> {
    let system = system()?;
    let to = CpuIndex::new(core);
    let send = |on: &OnCpu| system.interrupts.send(&system.gic, on, to, RESCHEDULE);
    percpu::masked(&PLATFORM, send)?;
    Ok(())
}

/// Gives this core to another task: the switch happens on the way out of the interrupt.
/// Called masked.
pub fn reschedule() -> Result<(), Error> {
    wakeup_core(kernel::core_local().id)?;
    // The send has waited until the SGI is out.
    kernel::unmask();
    Ok(())
}
// [core ipi end]
