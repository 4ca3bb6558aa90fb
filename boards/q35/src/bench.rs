// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as the scenarios see it.

use core::sync::atomic::Ordering::Relaxed;

use boards_common::bench::{self, LevelDevice, Source};
use boards_common::crew::Crew;
use boards_common::machine::Machine;
use irq_core::cpu::CpuSet;
use irq_core::{Interrupts, Irq, Outcome};
use irq_hal::percpu::{self, OnCpu};
use irq_hal::platform::Ticks;
use irq_hal::{CpuIndex, Error};
use irq_x2apic::{Apic, Vector};

use crate::interrupts::{System, system};
use crate::platform::{MACHINE, Q35};
use crate::{context, cpu, secondary, timer};

/// The timer of each CPU's local APIC.
pub struct ApicTimer {
    /// Its interrupt.
    pub irq: Irq,
}

impl bench::Timer for ApicTimer {
    fn irq(&self) -> Irq {
        self.irq
    }

    fn arm(&self, at: Ticks) {
        percpu::masked(&MACHINE, |on| {
            // What `sleep` arms it for again.
            let block = cpu::this();
            block.due.store(at.0, Relaxed);
            block.armed.store(true, Relaxed);
            if let Ok(timer) = system().and_then(|system| system.apic.timer(on)) {
                timer.one_shot(timer::counts_until(at));
            }
        });
    }

    fn stop(&self) {
        percpu::masked(&MACHINE, |on| {
            cpu::this().armed.store(false, Relaxed);
            if let Ok(timer) = system().and_then(|system| system.apic.timer(on)) {
                timer.stop();
            }
        });
    }
}

/// The machine as the scenarios see it.
#[derive(Clone, Copy)]
pub struct Bench(pub &'static System);

impl bench::Bench for Bench {
    type Controller = Apic<&'static Q35>;

    fn machine(&self) -> &'static dyn Machine {
        &MACHINE
    }

    fn interrupts(&self) -> &'static Interrupts {
        &self.0.interrupts
    }

    fn controller(&self) -> &'static Self::Controller {
        &self.0.apic
    }

    fn crew(&self) -> &'static Crew {
        &self.0.crew
    }

    fn possible_cpus(&self) -> u32 {
        self.0.possible
    }

    fn start(&self, cpu: CpuIndex) -> Result<(), Error> {
        secondary::start(self.0, cpu)
    }

    fn is_off(&self, cpu: CpuIndex) -> Result<bool, Error> {
        secondary::is_off(self.0, cpu)
    }

    /// Every CPU has the line for itself, and raises its own.
    fn route(&self, _: Irq, _: CpuIndex) -> Result<(), Error> {
        Ok(())
    }

    fn stacks(&self) -> Result<&'static dyn bench::Stacks, &'static str> {
        Ok(&context::STACKS)
    }

    fn timer(&self) -> &'static dyn bench::Timer {
        &self.0.timer
    }

    fn device(&self) -> Result<&'static dyn LevelDevice, &'static str> {
        Err("the UART's line ends at an I/O APIC, which has no driver yet")
    }

    fn spare_edge(&self) -> Result<Irq, &'static str> {
        Ok(self.0.spare)
    }

    fn keeps_edges(&self) -> Result<(), &'static str> {
        Err("nothing masks a vector but that of a local source, which loses edges while masked")
    }

    fn unclaimed(&self) -> Result<Source, &'static str> {
        Ok(Source::Timer(&self.0.timer))
    }

    fn deferred(&self) -> Result<Source, &'static str> {
        Err("a local APIC ends in one step; an I/O APIC's masked pin has no driver yet")
    }

    fn multicast_writes(&self, cpus: &dyn CpuSet) -> Option<u32> {
        self.0.apic.kick_writes(cpus)
    }

    fn enter(&self, on: &OnCpu) -> Outcome {
        // SAFETY: `on` promises the same, for longer than this call.
        let on = unsafe { OnCpu::new(on.cpu()) };
        self.0.enter(on, Vector::SPURIOUS.get().into(), None)
    }
}
