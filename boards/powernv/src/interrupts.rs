// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt controller's bring-up, and the ways in.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

use boards_common::cmdline::CommandLine;
use boards_common::crew::Crew;
use boards_common::devicetree::Tree;
use boards_common::{kinds, lockup, println};

use irq_core::{Interrupts, IpiSetup, Irq, IrqContext, IrqRange, Outcome, Setup, Trigger};
use irq_hal::heap::{try_push, try_vec};
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{CpuIndex, Error};
use irq_xive::{Config, Description, Pir, Thread, Xive, fdt};
use once_cell::race::OnceRef;

use crate::bench::{Bench, Decrementer, UartLine};
use crate::cpu::{self, CpuBlock};
use crate::platform::{MACHINE, PowerNv};
use crate::scenarios::icount;
use crate::vectors::Frame;
use crate::{power, secondary, timer, tree};

/// What the entry needs, and what the scenarios look at.
pub struct System {
    /// The controller.
    pub xive: Xive<&'static PowerNv, &'static PowerNv>,
    /// Its interrupts, and the decrementer's.
    pub interrupts: Interrupts,
    /// The CPUs that the devicetree names and firmware knows.
    pub blocks: &'static [CpuBlock],
    /// Those that firmware does not know, which are left out.
    pub unknown: Vec<Pir>,
    /// What is known of the others, and their jobs.
    pub crew: Crew,
    /// How many CPUs, counted from the first, may come online.
    pub possible: u32,
    /// A CPU that stops before it reports, on demand.
    pub stuck: Option<CpuIndex>,
    /// Each CPU's timer.
    pub timer: Decrementer,
    /// The console's interrupt.
    pub uart: Result<UartLine, Error>,
    /// A source without a device.
    pub spare: Irq,
    /// Where each CPU finds its part of the controller.
    pub tima: u64,
    /// The priority of devices.
    pub device_priority: u8,
}

static SYSTEM: OnceRef<'static, System> = OnceRef::new();

/// Brings the controller and the boot CPU's part of it up, lets interrupts in, and starts the
/// other CPUs.
///
/// # Errors
/// Whatever is wrong with devicetree or hardware of the machine, or of the boot CPU.
pub fn bring_up(tree: &Tree<'_>, line: CommandLine<'_>) -> Result<Bench, Error> {
    let lpc = tree::lpc(tree);
    if let Err(error) = lpc
        .as_ref()
        .map_err(|&error| error)
        .and_then(crate::find_ports)
    {
        println!("serial ports: {error}");
    }
    let mut found = fdt::describe(tree.blob())?;
    let number = |key| line.value(key).and_then(|value| value.parse().ok());
    on_demand(&mut found.threads, line)?;
    let unknown = leave_out_unknown(&mut found.threads)?;
    let blocks = blocks(tree, &found.threads)?;
    let boot = blocks.iter().find(|block| block.pir() == cpu::pir());
    let boot = boot.ok_or(Error::NoUnitForCpu {
        block: "devicetree node",
        id: cpu::pir().get().into(),
    })?;
    cpu::install(boot);
    println!("boot {} is {}", boot.pir(), boot.index);
    // SAFETY: the first CPU is started below.
    unsafe { cpu::publish(blocks) };
    let possible = number("possible_cpus").unwrap_or(blocks.len() as u32);
    let threads = &found.threads[..blocks.len().min(possible as usize)];

    let description = Description {
        threads,
        ..found.description()
    };
    let config = Config::default();
    let xive = Xive::probe(&MACHINE, &MACHINE, description, config)?;
    let spare = xive.alloc_source(boot.index)?;
    let uart = lpc.and_then(|lpc| {
        let source = UartLine::route(&lpc)?;
        let irq = xive.adopt_near(source, Trigger::Level, boot.index)?;
        Ok(UartLine { irq })
    });

    // The decrementer's interrupt is one of irq-core's, behind the controller's.
    let irqs = xive.irqs();
    let timer = Irq::new(irqs.first().get() + irqs.count());
    let [ipi] = xive.private_irqs();
    let crew = Crew::new(blocks.len() as u32)?;
    let [wakes, probes, switches] = kinds::prepare(blocks.len() as u32)?;
    let [counts, answers] = icount::kinds();
    let kinds = [wakes, probes, switches, counts, answers];
    let interrupts = Interrupts::new(Setup {
        nodes: found.nodes.len() as u32,
        private: &[ipi, IrqRange::new(timer, 1)?],
        ipi: Some(IpiSetup {
            irq: xive.ipi_irq(),
            kinds: &kinds,
        }),
        detector: Some(lockup::DETECTOR),
        ..Setup::new(possible, IrqRange::new(irqs.first(), irqs.count() + 1)?)
    })?;
    let system: &_ = Box::leak(Box::new(System {
        xive,
        interrupts,
        blocks,
        unknown,
        crew,
        possible,
        stuck: number("stuck_cpu").map(CpuIndex::new),
        timer: Decrementer { irq: timer },
        uart,
        spare,
        tima: found.tima.get(),
        device_priority: config.device_priority.get(),
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

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Changes the CPUs that the tree names, on demand: adds one that the machine does not have,
/// beside the last one, takes one away.
fn on_demand(threads: &mut Vec<Thread>, line: CommandLine<'_>) -> Result<(), Error> {
    let pir = |key| line.value(key).and_then(hexadecimal).map(Pir::new);
    if let (Some(pir), Some(last)) = (pir("absent_cpu"), threads.last().copied()) {
        try_push(threads, Thread { pir, ..last })?;
    }
    if let Some(hidden) = pir("hidden_cpu") {
        threads.retain(|thread| thread.pir != hidden);
    }
    Ok(())
}

/// Leaves out, and names, the CPUs that firmware does not know.
fn leave_out_unknown(threads: &mut Vec<Thread>) -> Result<Vec<Pir>, Error> {
    let mut unknown = Vec::new();
    for thread in threads.iter() {
        if let Err(error) = power::is_off(thread.pir) {
            println!("{} is in the devicetree alone: {error}", thread.pir);
            try_push(&mut unknown, thread.pir)?;
        }
    }
    threads.retain(|thread| !unknown.contains(&thread.pir));
    Ok(unknown)
}

/// A block for each CPU, for good.
fn blocks(tree: &Tree<'_>, threads: &[Thread]) -> Result<&'static [CpuBlock], Error> {
    let mut blocks = try_vec(threads.len())?;
    for (index, thread) in (0..).zip(threads) {
        let index = CpuIndex::new(index);
        let place = tree::place(tree, index, thread);
        let block = CpuBlock::new(index, thread.pir, place);
        // The boot CPU runs on the image's stack.
        blocks.push(if thread.pir == cpu::pir() {
            block.with_emergency_stack()?
        } else {
            block.with_stacks()?
        });
    }
    Ok(blocks.leak())
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

/// The proof of this CPU, for an entry.
#[inline(always)]
fn here(block: &CpuBlock) -> OnCpu {
    // SAFETY: the vector masked, and returns after the entry; r13 leads to this CPU's block
    // alone.
    unsafe { OnCpu::new(block.index) }
}

/// A hypervisor virtualization interrupt was taken; the vector saved `frame` on this stack.
pub extern "C" fn enter(frame: &Frame) {
    match system() {
        // Nothing here schedules, so nothing is asked of us after the dispatch.
        Ok(system) => {
            let _ = system.enter(here(cpu::this()), Some(frame));
        }
        Err(error) => panic!("{error}"),
    }
}

/// The decrementer interrupted: the timer, if it was due, else the end of a sleep that is over.
pub extern "C" fn decrementer(frame: &Frame) {
    let block = cpu::this();
    if !timer::expired(block) {
        return;
    }
    match system() {
        Ok(system) => {
            let cx = IrqContext::new(here(block), Some(frame), None);
            let _ = system.interrupts.dispatch_number(system.timer.irq, &cx);
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
        self.xive.cpu_online(on, cpu::pir())?;
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
        let _ = self.interrupts.cpu_offline(&self.xive, &entry)?;
        self.xive.cpu_offline(entry.on())
    }

    /// One entry; `frame` is what the vector saved.
    #[inline]
    pub fn enter(&self, on: OnCpu, frame: Option<&dyn Any>) -> Outcome {
        self.interrupts
            .dispatch(&self.xive, &IrqContext::new(on, frame, None))
    }
}
