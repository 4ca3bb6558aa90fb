// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pair of 8259s, their ports, and the switch (IMCR) of old chipsets.

use super::State;
use super::call::Call;

/// Where a chip is in its initialisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Icw2,
    Icw3,
    Icw4,
    Ready,
}

/// One 8259.
#[derive(Clone, Debug)]
struct Chip {
    master: bool,
    step: Step,
    /// Vector of input 0.
    base: u8,
    lines: u8,
    elcr: u8,
    /// Requests of edge-triggered inputs.
    edges: u8,
    imr: u8,
    isr: u8,
    auto_eoi: bool,
    reads_isr: bool,
    /// A request that goes away before the CPU asks: input 7, without a bit in service.
    glitch: bool,
}

/// Master and slave.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    master: Chip,
    slave: Chip,
    /// IMCR: selected index and value; `None` where the chipset has none.
    imcr: Option<(u8, u8)>,
}

/// The input of the master that the slave is on.
const CASCADE: u8 = 2;

impl Chip {
    /// As a BIOS for real mode leaves it.
    fn new(master: bool) -> Self {
        Self {
            master,
            step: Step::Ready,
            base: if master { 0x08 } else { 0x70 },
            lines: 0,
            elcr: 0,
            edges: 0,
            imr: if master { 0xb8 } else { 0x8f },
            isr: 0,
            auto_eoi: false,
            reads_isr: false,
            glitch: false,
        }
    }

    fn irr(&self) -> u8 {
        self.edges & !self.elcr | self.lines & self.elcr
    }

    /// The input that is requested, not masked, and above what is in service.
    fn request(&self) -> Option<u8> {
        let ready = self.irr() & !self.imr;
        let input = ready.trailing_zeros();
        let served = self.isr.trailing_zeros();
        (self.step == Step::Ready && input < 8 && input < served).then_some(input as u8)
    }

    fn set_line(&mut self, input: u8, high: bool) {
        let bit = 1 << input;
        if high && self.lines & bit == 0 {
            self.edges |= bit;
        }
        if high {
            self.lines |= bit;
        } else {
            // The request is not kept when the line falls before the CPU asks.
            self.glitch |= self.request() == Some(input);
            self.lines &= !bit;
            self.edges &= !bit;
        }
    }

    /// The CPU asks: the input, and whether it is in service now.
    fn acknowledge(&mut self) -> u8 {
        let Some(input) = self.request() else {
            self.glitch = false;
            return 7;
        };
        self.glitch = false;
        self.edges &= !(1 << input);
        if !self.auto_eoi {
            self.isr |= 1 << input;
        }
        input
    }

    fn command(&mut self, call: &Call, value: u8) {
        if value & 0x10 != 0 {
            if !call.masked {
                call.forbid("an 8259 is initialised with interrupts enabled");
            }
            if value & 0x0f != 1 {
                call.forbid("ICW1: a PC has edge-triggered, cascaded 8259s with ICW4");
            }
            *self = Self {
                step: Step::Icw2,
                lines: self.lines,
                elcr: self.elcr,
                imr: 0,
                ..Self::new(self.master)
            };
            return;
        }
        match value {
            0x0a => self.reads_isr = false,
            0x0b => self.reads_isr = true,
            0x20 if self.isr == 0 => call.forbid("EOI with nothing in service"),
            0x20 => self.isr &= self.isr - 1,
            0x60..=0x67 if self.isr >> (value & 7) & 1 == 0 => {
                call.forbid("EOI of an input that is not in service")
            }
            0x60..=0x67 => self.isr &= !(1 << (value & 7)),
            _ => call.forbid("this command is not modelled"),
        }
    }

    fn data(&mut self, call: &Call, value: u8) {
        self.step = match self.step {
            Step::Icw2 => {
                if value & 7 != 0 {
                    call.forbid("ICW2: the vector base is a multiple of 8");
                }
                if value < 0x20 {
                    call.forbid("ICW2: the vectors are those of CPU exceptions");
                }
                self.base = value;
                Step::Icw3
            }
            Step::Icw3 => {
                let wiring = if self.master { 1 << CASCADE } else { CASCADE };
                if value != wiring {
                    call.forbid("ICW3: the slave is on input 2 of the master");
                }
                Step::Icw4
            }
            Step::Icw4 => {
                if value & !2 != 1 {
                    call.forbid("ICW4: 8086 mode, not buffered, not special");
                }
                self.auto_eoi = value & 2 != 0;
                Step::Ready
            }
            Step::Ready => {
                self.imr = value;
                Step::Ready
            }
        };
    }
}

impl Pair {
    pub fn new(imcr: bool) -> Self {
        Self {
            master: Chip::new(true),
            slave: Chip::new(false),
            imcr: imcr.then_some((0, 0)),
        }
    }

    fn cascade(&mut self) {
        let slave = self.slave.request().is_some() || self.slave.glitch;
        self.master.set_line(CASCADE, slave);
    }

    pub fn set_line(&mut self, irq: u8, high: bool) {
        match irq {
            CASCADE => panic!("input 2 is the cascade"),
            0..8 => self.master.set_line(irq, high),
            8..16 => self.slave.set_line(irq - 8, high),
            _ => panic!("there is no ISA interrupt {irq}"),
        }
        self.cascade();
    }

    /// A request of which nothing is left when the CPU asks.
    pub fn glitch(&mut self, irq: u8) {
        match irq {
            7 => self.master.glitch = true,
            15 => self.slave.glitch = true,
            _ => panic!("interrupts 7 and 15 are the spurious ones, not {irq}"),
        }
        self.cascade();
    }

    /// Whether an input asserts INTR.
    pub fn requests(&self) -> bool {
        self.master.request().is_some()
    }

    /// Whether all inputs of both are masked.
    pub fn masked(&self) -> bool {
        let masked = |chip: &Chip| chip.step == Step::Ready && chip.imr == 0xff;
        masked(&self.master) && masked(&self.slave)
    }

    /// What the CPU would be told.
    pub fn offers(&self) -> Option<u8> {
        self.clone().acknowledge()
    }

    /// INTR goes to the boot CPU past its local APIC.
    pub fn bypasses(&self) -> bool {
        self.imcr.is_some_and(|(_, value)| value & 1 == 0)
    }

    /// The CPU asks for a vector, if INTR is asserted.
    pub fn acknowledge(&mut self) -> Option<u8> {
        if self.master.request().is_none() && !self.master.glitch {
            return None;
        }
        let asked = self.master.request();
        let input = self.master.acknowledge();
        let vector = if asked == Some(CASCADE) {
            let input = self.slave.acknowledge();
            // The slave takes its request back while it answers: the next one is a new edge.
            self.master.set_line(CASCADE, false);
            self.slave.base + input
        } else {
            self.master.base + input
        };
        self.cascade();
        Some(vector)
    }

    fn port(&mut self, call: &Call) -> u8 {
        let imcr = self.imcr;
        let chip = match call.offset {
            0x20 | 0x21 | 0x4d0 => &mut self.master,
            0xa0 | 0xa1 | 0x4d1 => &mut self.slave,
            0x22 | 0x23 if imcr.is_some() => return self.imcr(call),
            0x22 | 0x23 => call.forbid("there is no IMCR on this chipset"),
            _ => call.forbid("no port is modelled here"),
        };
        let command = matches!(call.offset, 0x20 | 0xa0);
        let Some(value) = call.store else {
            return match call.offset {
                0x4d0 | 0x4d1 => chip.elcr,
                _ if !command => chip.imr,
                _ if chip.reads_isr => chip.isr,
                _ => chip.irr(),
            };
        };
        let value = value as u8;
        match call.offset {
            0x4d0 | 0x4d1 => {
                // Timer, keyboard, cascade; clock and coprocessor are always edges.
                let edges = if chip.master { 0x07 } else { 0x21 };
                if value & edges != 0 {
                    call.forbid("ELCR: these inputs are edge-triggered");
                }
                chip.elcr = value;
            }
            _ if command => chip.command(call, value),
            _ => chip.data(call, value),
        }
        self.cascade();
        0
    }

    fn imcr(&mut self, call: &Call) -> u8 {
        let (index, now) = self.imcr.unwrap_or_default();
        let Some(value) = call.store else {
            return if call.offset == 0x22 { index } else { now };
        };
        self.imcr = Some(match call.offset {
            0x22 => (value as u8, now),
            _ if index == 0x70 => (index, value as u8),
            _ => call.forbid("IMCR is at index 70H"),
        });
        0
    }
}

impl State {
    /// One access to a port.
    pub fn port(&mut self, call: &Call) -> u64 {
        match &mut self.pic {
            Some(pic) => pic.port(call).into(),
            None => call.forbid("there are no 8259s"),
        }
    }
}
