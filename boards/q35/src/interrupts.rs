// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt controller's bring-up, and the way in.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

use boards_common::cmdline::CommandLine;
use boards_common::crew::Crew;
use boards_common::{kinds, lockup};

use irq_core::{Interrupts, IpiSetup, Irq, IrqContext, Outcome, Setup};
use irq_hal::heap::try_vec;
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{CpuIndex, Error};
use irq_x2apic::pic::Pics8259;
use irq_x2apic::start::Page;
use irq_x2apic::timer::Divide;
use irq_x2apic::{Apic, ApicId, Config, Description, Msrs, NativeCpuId, Pics, Ports, Vector};
use once_cell::race::OnceRef;

use crate::bench::{ApicTimer, Bench};
use crate::cpu::{self, CpuBlock};
use crate::firmware::{self, Firmware};
use crate::platform::{MACHINE, Q35};
use crate::pvh::StartInfo;
use crate::scenarios::icount;
use crate::vectors::Frame;
use crate::{secondary, timer};

/// The vector that irq-core's IPIs come by: of the highest class.
const IPI: Vector = const { Vector::new(0xf0).unwrap() };
/// The vector of each CPU's timer.
pub const TIMER: Vector = const { Vector::new(0xec).unwrap() };
/// Where the 16 vectors of the 8259s are: nothing else is there.
const PICS: Vector = const { Vector::new(0x20).unwrap() };
/// The vector of the line that has no device.
pub const SPARE: Vector = const { Vector::new(0x50).unwrap() };

/// What the entry needs, and what the scenarios look at.
pub struct System {
    /// The controller.
    pub apic: Apic<&'static Q35>,
    /// Its interrupts.
    pub interrupts: Interrupts,
    /// The CPUs that firmware names.
    pub blocks: &'static [CpuBlock],
    /// What is known of them, and their jobs.
    pub crew: Crew,
    /// How many CPUs, counted from the first, may come online.
    pub possible: u32,
    /// A CPU that stops before it reports, on demand.
    pub stuck: Option<CpuIndex>,
    /// Where other CPUs begin.
    pub page: Page,
    /// Each CPU's timer.
    pub timer: ApicTimer,
    /// An interrupt without a device.
    pub spare: Irq,
}

static SYSTEM: OnceRef<'static, System> = OnceRef::new();

/// Brings the controller and the boot CPU's part of it up, lets interrupts in, and starts the
/// other CPUs.
///
/// # Errors
/// Whatever is wrong with tables or hardware of the machine, or of the boot CPU.
pub fn bring_up(info: &StartInfo, line: CommandLine<'_>) -> Result<Bench, Error> {
    let own = cpu::id().ok_or(Error::Unsupported {
        feature: "a CPU without APIC id",
    })?;
    let firmware = Firmware::read(info, own)?;
    let blocks = blocks(&firmware.cpus, own)?;
    let boot = blocks.iter().find(|block| block.id == own.get());
    cpu::install(boot.ok_or(Error::NoUnitForCpu {
        block: "MADT entry",
        id: own.get().into(),
    })?);
    cpu::note_hand_over();
    let number = |key| line.value(key).and_then(|value| value.parse().ok());
    let possible = number("possible_cpus").unwrap_or(blocks.len() as u32);

    let mut ids: Vec<ApicId> = try_vec(firmware.cpus.len())?;
    ids.extend(firmware.cpus.iter().map(|cpu| cpu.id));
    let description = Description::new(silence_8259s(firmware.has_8259)?).with_cpus(&ids);
    let config = Config {
        cpus: Some(possible),
        ipi: Some(IPI),
        timer: TIMER,
        lint: firmware.pins,
        divide: Divide::By16,
        ..Config::default()
    };
    // SAFETY: the image runs in ring 0; beside the driver, `sleep` borrows the timer, and gives
    // it back as it was.
    let msrs = unsafe { Msrs::new() };
    let apic = Apic::probe(&MACHINE, msrs, &NativeCpuId, description, config)?;
    let missing = Error::NoSuchIrq { irq: 0 };
    let timer = apic.timer_irq().ok_or(missing)?;
    let spare = apic.irq(SPARE).ok_or(missing)?;

    let crew = Crew::new(blocks.len() as u32)?;
    let [wakes, probes, switches] = kinds::prepare(blocks.len() as u32)?;
    let [counts, answers] = icount::kinds();
    let kinds = [wakes, probes, switches, counts, answers];
    let interrupts = Interrupts::new(Setup {
        nodes: firmware.nodes,
        private: &apic.private_irqs(),
        ipi: apic.ipi_irq().map(|irq| IpiSetup { irq, kinds: &kinds }),
        detector: Some(lockup::DETECTOR),
        ..Setup::new(possible, apic.irqs())
    })?;
    let page = secondary::prepare(info.spare_page()?, blocks)?;
    let system: &_ = Box::leak(Box::new(System {
        apic,
        interrupts,
        blocks,
        crew,
        possible,
        stuck: number("stuck_cpu").map(CpuIndex::new),
        page,
        timer: ApicTimer { irq: timer },
        spare,
    }));
    SYSTEM.set(system).map_err(|()| Error::Exists {
        what: "what the entry needs",
    })?;
    percpu::masked(&MACHINE, |on| {
        system.cpu_online(on)?;
        timer::calibrate(&system.apic.timer(on)?)
    })?;
    system.crew.report(cpu::this().index, Ok(()));
    cpu::unmask();
    secondary::start_all(system);
    system.crew.gather(&MACHINE);
    Ok(Bench(system))
}

/// A block for each CPU, for good.
fn blocks(cpus: &[firmware::Cpu], boot: ApicId) -> Result<&'static [CpuBlock], Error> {
    let mut blocks = try_vec(cpus.len())?;
    for (index, cpu) in (0..).zip(cpus) {
        let block = CpuBlock::new(CpuIndex::new(index), cpu.id.get(), cpu.place);
        // The boot CPU runs on the image's stacks.
        let boot = cpu.id == boot;
        blocks.push(if boot { block } else { block.with_stacks()? });
    }
    Ok(blocks.leak())
}

/// Shuts the 8259s down, if there are any.
fn silence_8259s(present: bool) -> Result<Pics, Error> {
    if !present {
        return Ok(Pics::absent());
    }
    // SAFETY: the ports are the 8259s', which nothing else of the image uses.
    let ports = unsafe { Ports::new() };
    let silent = Pics8259::new(ports).shut_down(PICS);
    let silent = silent.map_err(|_| Error::Invalid {
        what: "vectors of the 8259s",
        value: PICS.get().into(),
    })?;
    Ok(silent.silent())
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

/// The interrupt `vector` was taken; its stub saved `frame` on this stack.
pub extern "C" fn enter(vector: u32, frame: &Frame) {
    match system() {
        // Nothing here schedules, so nothing is asked of us after the dispatch.
        Ok(system) => {
            // SAFETY: the CPU masked, and the stub returns after this; the GS base leads to this
            // CPU's block alone.
            let on = unsafe { OnCpu::new(cpu::this().index) };
            let _ = system.enter(on, vector, Some(frame));
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
        let cpu = on.cpu();
        let block = self.block(cpu)?;
        let id = ApicId::new(block.id).ok_or(Error::NoSuchCpu { cpu })?;
        self.apic.cpu_online(on, id)?;
        self.interrupts.cpu_online(&MACHINE, on, block.place)
    }

    /// The reverse.
    ///
    /// # Errors
    /// Theirs.
    pub fn cpu_offline(&self, on: OnCpu) -> Result<(), Error> {
        let entry = IrqContext::new(on, None, None);
        // Nothing here schedules, so what kinds ask for is left.
        let _ = self.interrupts.cpu_offline(&self.apic, &entry)?;
        self.apic.cpu_offline(entry.on())
    }

    /// One entry by `vector`; `frame` is what the stub saved.
    #[inline]
    pub fn enter(&self, on: OnCpu, vector: u32, frame: Option<&dyn Any>) -> Outcome {
        self.interrupts
            .dispatch(&self.apic, &IrqContext::new(on, frame, Some(vector)))
    }
}
