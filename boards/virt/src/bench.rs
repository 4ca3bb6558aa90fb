// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as the scenarios see it.

use boards_common::bench::{self, LevelDevice, Source};
use boards_common::crew::Crew;
use boards_common::machine::Machine;
use irq_core::cpu::CpuSet;
use irq_core::{Interrupts, Irq, Outcome};
use irq_gicv3::{EoiMode, Gic};
use irq_hal::percpu::OnCpu;
use irq_hal::platform::Ticks;
use irq_hal::{CpuIndex, Error};

use crate::interrupts::System;
use crate::platform::{MACHINE, Virt};
use crate::{context, secondary, timer};

/// The virtual timer of each CPU.
pub struct VirtualTimer {
    /// Its interrupt.
    pub irq: Irq,
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
pub struct UartLine {
    /// Its interrupt.
    pub irq: Irq,
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
#[derive(Clone, Copy)]
pub struct Bench(pub &'static System);

impl bench::Bench for Bench {
    type Controller = Gic<&'static Virt>;

    fn machine(&self) -> &'static dyn Machine {
        &MACHINE
    }

    fn interrupts(&self) -> &'static Interrupts {
        &self.0.interrupts
    }

    fn controller(&self) -> &'static Self::Controller {
        &self.0.gic
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

    fn route(&self, irq: Irq, cpu: CpuIndex) -> Result<(), Error> {
        self.0.gic.set_route(irq, self.0.block(cpu)?.mpidr)
    }

    fn stacks(&self) -> Result<&'static dyn bench::Stacks, &'static str> {
        Ok(&context::STACKS)
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

    fn deferred(&self) -> Result<Source, &'static str> {
        match self.0.eoi_mode {
            EoiMode::Split => self.spare_edge().map(Source::Edge),
            EoiMode::Combined => Err("the controller is configured to end in one step"),
        }
    }

    fn multicast_writes(&self, cpus: &dyn CpuSet) -> Option<u32> {
        self.0.gic.kick_writes(cpus)
    }

    fn enter(&self, on: &OnCpu) -> Outcome {
        // SAFETY: `on` promises the same, for longer than this call.
        let on = unsafe { OnCpu::new(on.cpu()) };
        self.0.enter(on, None)
    }
}
