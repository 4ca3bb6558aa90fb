// SPDX-License-Identifier: MIT OR Apache-2.0
//! The glue of a kernel that takes the driver's blocks and keeps its own handler table.

// [alone statics]
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use irq_gicv3::cpu_interface::{Acknowledge, CpuInterface, CpuSetup, EoiMode};
use irq_gicv3::distributor::Setup;
use irq_gicv3::fdt::{self, Device};
use irq_gicv3::priority::PriorityView;
use irq_gicv3::quirks::Quirks;
use irq_gicv3::sgi::{SgiCommand, SgiTarget};
use irq_gicv3::{Distributor, IntId, Mpidr, Priority, RedistributorMap, Sgi};
use irq_hal::Error;

use super::kernel::{self, Registers, TrapFrame, Window};
use super::platform::PLATFORM;

/// The controller of the machine. Set once, used by reference, no lock around it.
struct Controller {
    distributor: Distributor<Window>,
    redistributors: RedistributorMap<Window>,
    cpus: Vec<Mpidr>,
    /// The priority of private interrupts, as a redistributor takes it.
    priority: u8,
    timer: IntId,
}

/// What drivers left for each line.
type Handlers = BTreeMap<IntId, Vec<fn()>>;

static GIC: kernel::Once<Controller> = kernel::Once::new();
static HANDLERS: kernel::Once<Handlers> = kernel::Once::new();

/// The SGI that means "look for work".
const RESCHEDULE: Sgi = Sgi::new(1).unwrap();

fn gic() -> Result<&'static Controller, Error> {
    let what = "the controller before its bring-up";
    GIC.get().ok_or(Error::Context { what })
}

/// The interface of the running core.
fn interface() -> Result<&'static CpuInterface<Registers>, Error> {
    let cpu = kernel::cpu(kernel::core_local().id);
    kernel::core_local()
        .interface
        .get()
        .ok_or(Error::CpuOffline { cpu })
}
// [alone statics end]

// [alone init]
/// The boot core, masked, with page tables and heap.
pub fn init() -> Result<(), Error> {
    let tree = kernel::devicetree();
    let found = fdt::describe(tree)?;
    let machine = found.machine();
    let quirks = Quirks {
        machine,
        ..Quirks::default()
    };
    let cpus = found.cpus.clone();
    let mut regions = Vec::new();
    for region in &found.redistributors {
        regions.push(kernel::map_window(region.base, region.len)?);
    }
    let redistributors = RedistributorMap::discover(regions, found.stride, &quirks)?;

    let group0 = CpuInterface::new(kernel::registers()).probe()?.group0;
    let at = found.distributor;
    let mut distributor = Distributor::new(kernel::map_window(at.base, at.len)?, &quirks)?;
    let no_cpu = Error::Firmware {
        what: "no CPU",
        at: 0,
    };
    let setup = Setup {
        priority: Priority::DEFAULT,
        group0,
        route: cpus.first().ok_or(no_cpu)?.route(),
    };
    distributor.init(&PLATFORM, &setup)?;

    let view = PriorityView::of(distributor.features().one_security_state, group0);
    let priority = view.distributor_value(Priority::DEFAULT);
    let priority = priority.ok_or(Error::Invalid {
        what: "priority",
        value: 0,
    })?;
    let timer = Device::Compatible("arm,armv8-timer");
    let (timer, _) = fdt::interrupt(tree, &found, timer, 2)?;
    GIC.get_or_init(|| Controller {
        distributor,
        redistributors,
        cpus,
        priority,
        timer,
    });
    Ok(())
}

/// Every core, masked, behind its core-local block and before it unmasks.
pub fn init_cpu() -> Result<(), Error> {
    let gic = gic()?;
    let redistributor = gic.redistributors.find(Mpidr::new(kernel::mpidr()))?;
    let redistributor = redistributor.wake(&PLATFORM).map_err(|(_, error)| error)?;
    let one_state = gic.distributor.features().one_security_state;
    redistributor.reset(&PLATFORM, one_state, gic.priority)?;
    redistributor.unmask(gic.timer)?;
    redistributor.unmask(RESCHEDULE.intid())?;
    let setup = CpuSetup {
        priority_mask: Priority::UNMASKED,
        eoi_mode: EoiMode::Combined,
    };
    let interface = CpuInterface::new(kernel::registers()).enable(&setup);
    let (interface, _) = interface.map_err(|(_, error)| error)?;
    let again = Error::Exists {
        what: "the interface of this core",
    };
    kernel::core_local()
        .interface
        .set(interface)
        .map_err(|_| again)
}
// [alone init end]

// [alone entry]
/// The IRQ vector and the FIQ vector, masked.
pub extern "C" fn do_irq(_frame: &TrapFrame) -> *mut usize {
    let (Ok(interface), Ok(gic)) = (interface(), gic()) else {
        return kernel::same_task();
    };
    let Acknowledge::Interrupt(active) = interface.acknowledge() else {
        return kernel::same_task();
    };
    let intid = active.intid().ok();
    if intid == Some(gic.timer) {
        kernel::timer_interrupt();
    }
    let handlers = HANDLERS
        .get()
        .zip(intid)
        .and_then(|(all, intid)| all.get(&intid));
    for handler in handlers.into_iter().flatten() {
        handler();
    }
    interface.end(active);
    kernel::run_executor();
    if intid == Some(gic.timer) || intid == Some(RESCHEDULE.intid()) {
        // Nothing is acknowledged any more: the stub may switch stacks.
        kernel::schedule()
    } else {
        kernel::same_task()
    }
}
// [alone entry end]

// [alone drivers]
/// An interrupt specifier of a driver's node: its line, counted like SPIs, which stays masked
/// until it has a handler.
pub fn detect_interrupt(cells: &[u32]) -> Result<u8, Error> {
    let (intid, trigger) = fdt::translate(cells)?;
    gic()?.distributor.set_trigger(&PLATFORM, intid, trigger)?;
    let line = intid.get().saturating_sub(32);
    let what = "line number";
    u8::try_from(line).map_err(|_| Error::Invalid {
        what,
        value: line.into(),
    })
}

/// The handlers of the drivers, once, from a task of the running kernel.
pub fn install_handlers(handlers: &[(u8, fn())]) -> Result<(), Error> {
    let mut table = Handlers::new();
    for &(line, handler) in handlers {
        let unknown = Error::NoSuchIrq { irq: line.into() };
        let intid = IntId::spi(line.into()).ok_or(unknown)?;
        table.entry(intid).or_default().push(handler);
    }
    for &intid in HANDLERS.get_or_init(|| table).keys() {
        gic()?.distributor.unmask(&PLATFORM, intid)?;
    }
    Ok(())
}
// [alone drivers end]

// [alone ipi]
/// Lets the scheduler of `core` look for work. Any context, handlers too.
pub fn wakeup_core(core: u32) -> Result<(), Error> {
    let no_cpu = Error::NoSuchCpu {
        cpu: kernel::cpu(core),
    };
    let mpidr = *gic()?.cpus.get(core as usize).ok_or(no_cpu)?;
    interface()?.send_sgi(SgiCommand::one(RESCHEDULE, SgiTarget::new(mpidr)));
    Ok(())
}

/// Gives this core to another task: the switch happens on the way out of the interrupt.
/// Called masked.
pub fn reschedule() -> Result<(), Error> {
    wakeup_core(kernel::core_local().id)?;
    // The send has waited until the SGI is out: it is taken before the next statement.
    kernel::unmask();
    Ok(())
}
// [alone ipi end]
