// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as the scenarios see it.

use boards_common::bench::{self, LevelDevice, Source};
use boards_common::crew::Crew;
use boards_common::machine::Machine;
use irq_core::{Interrupts, Irq, Outcome};
use irq_hal::bus::BigEndian;
use irq_hal::percpu::OnCpu;
use irq_hal::platform::Ticks;
use irq_hal::{Bus, CpuIndex, Error};
use irq_xive::{SourceNumber, Xive};

use crate::interrupts::System;
use crate::platform::{MACHINE, PowerNv};
use crate::tree::Lpc;
use crate::{context, secondary, timer};

/// The decrementer of each CPU.
pub struct Decrementer {
    /// Its interrupt.
    pub irq: Irq,
}

impl bench::Timer for Decrementer {
    fn irq(&self) -> Irq {
        self.irq
    }

    fn arm(&self, at: Ticks) {
        timer::arm(at);
    }

    fn stop(&self) {
        timer::stop();
    }

    fn bypasses(&self) -> bool {
        true
    }
}

/// Registers of the LPC host controller, big-endian words (skiboot `hw/lpc.c` and QEMU's model
/// name them alike).
mod lpchc {
    /// Bytes of the registers.
    pub const LEN: usize = 0x100;
    /// `LPC_HC_IRQMASK`: a one lets an interrupt of the bus through, number 0 in the most
    /// significant bit.
    pub const IRQMASK: usize = 0x34;
}

/// The console's transmit interrupt: a line of the LPC bus that is high while it is enabled and
/// the transmitter is empty.
pub struct UartLine {
    /// Its interrupt.
    pub irq: Irq,
}

impl UartLine {
    /// Lets the console's interrupt of the LPC bus through. Gives the source that it comes by:
    /// firmware routes the bus's interrupts to the first line, and has them clear themselves
    /// when the device lowers its own.
    ///
    /// # Errors
    /// [`Error::Firmware`] if the tree does not say which that is.
    pub fn route(lpc: &Lpc) -> Result<SourceNumber, Error> {
        let none = Error::Firmware {
            what: "interrupt of the console",
            at: 0,
        };
        let &(_, interrupt) = lpc.ports.last().ok_or(none)?;
        let girq = lpc.lines[0].ok_or(none)?;
        let controller = BigEndian(MACHINE.registers(lpc.controller, lpchc::LEN)?);
        let mask: u32 = controller.load(lpchc::IRQMASK);
        controller.store(lpchc::IRQMASK, mask | 0x8000_0000 >> interrupt);
        Ok(girq)
    }
}

impl LevelDevice for UartLine {
    fn irq(&self) -> Irq {
        self.irq
    }

    fn ready(&self) -> bool {
        MACHINE.text().is_empty()
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
    type Controller = Xive<&'static PowerNv, &'static PowerNv>;

    fn machine(&self) -> &'static dyn Machine {
        &MACHINE
    }

    fn interrupts(&self) -> &'static Interrupts {
        &self.0.interrupts
    }

    fn controller(&self) -> &'static Self::Controller {
        &self.0.xive
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
        self.0.xive.set_target(irq, cpu)
    }

    fn stacks(&self) -> Result<&'static dyn bench::Stacks, &'static str> {
        Ok(&context::STACKS)
    }

    fn timer(&self) -> &'static dyn bench::Timer {
        &self.0.timer
    }

    fn device(&self) -> Result<&'static dyn LevelDevice, &'static str> {
        match &self.0.uart {
            Ok(uart) => Ok(uart),
            Err(_) => Err("the console has no interrupt"),
        }
    }

    fn spare_edge(&self) -> Result<Irq, &'static str> {
        Ok(self.0.spare)
    }

    // A source that is parked shows what came as an edge, and nothing of a line.
    fn shows_masked_levels(&self) -> bool {
        false
    }

    fn deferred(&self) -> Result<Source, &'static str> {
        self.device().map(Source::Level)
    }

    fn enter(&self, on: &OnCpu) -> Outcome {
        // SAFETY: `on` promises the same, for longer than this call.
        let on = unsafe { OnCpu::new(on.cpu()) };
        self.0.enter(on, None)
    }
}
