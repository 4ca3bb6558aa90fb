// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two 8259s of a PC, shut down.
//!
//! Both are masked first, then their vectors are moved away from the CPU's exceptions, which
//! unmasks, then they are masked for good. Only after that may the LINT0 entry be masked, which
//! [`LocalApic::bring_up`](crate::LocalApic::bring_up) does: while an 8259 asks and its pin goes
//! away, a CPU can take a vector that nobody gave. So a [`Description`](crate::Description) wants
//! to know about [`Pics`], and the proof that they are silent comes from here alone.
//!
//! Even so an 8259 can give its lines 7 and 15 for nothing, when a line asks and lets go: keep
//! code on the 16 vectors that were chosen, and let [`SilentPics::end`] judge.

use irq_hal::{Bus, Error};

use crate::vector::{FIRST, Vector};

/// Command and data ports of the first 8259.
const FIRST_COMMAND: usize = 0x20;
const FIRST_DATA: usize = 0x21;
/// Of the second one.
const SECOND_COMMAND: usize = 0xa0;
const SECOND_DATA: usize = 0xa1;

/// ICW1: begin, four words, two controllers, edges.
const ICW1: u8 = 0x11;
/// ICW3 of the first: the second one is on line 2; of the second: that is its number.
const CASCADE: u8 = 2;
/// ICW4: as with an x86, ends by command.
const ICW4: u8 = 0x01;
/// OCW1: nothing is let through.
const ALL: u8 = 0xff;
/// OCW3: the next read of the command port shows what is in service.
const READ_IN_SERVICE: u8 = 0x0b;
/// OCW2: end of the highest one in service.
const END: u8 = 0x20;

/// Both 8259s, over their ports ([`Ports`](crate::Ports) on hardware).
#[derive(Clone, Copy, Debug)]
pub struct Pics8259<B> {
    ports: B,
}

impl<B: Bus<u8>> Pics8259<B> {
    /// The 8259s behind `ports`. Touches nothing.
    pub const fn new(ports: B) -> Self {
        Self { ports }
    }

    /// Shuts both down, with their 16 vectors from `base` on. Nothing but an exception of the
    /// CPU speaks against vectors that are used otherwise: they are given for nothing only.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `base` is an exception, or no multiple of 8, or too high. Nothing was
    /// written.
    ///
    /// # Context
    /// The boot CPU, masked, before its local APIC is brought up.
    pub fn shut_down(self, base: Vector) -> Result<SilentPics<B>, Error> {
        let base = base.get();
        if base < FIRST || !base.is_multiple_of(8) || base > 0xf0 {
            return Err(Error::Invalid {
                what: "first vector of the 8259s",
                value: base.into(),
            });
        }
        let out = |port, value| self.ports.store(port, value);
        out(FIRST_DATA, ALL);
        out(SECOND_DATA, ALL);
        out(FIRST_COMMAND, ICW1);
        out(SECOND_COMMAND, ICW1);
        out(FIRST_DATA, base);
        out(SECOND_DATA, base + 8);
        out(FIRST_DATA, 1 << CASCADE);
        out(SECOND_DATA, CASCADE);
        out(FIRST_DATA, ICW4);
        out(SECOND_DATA, ICW4);
        out(FIRST_DATA, ALL);
        out(SECOND_DATA, ALL);
        Ok(SilentPics {
            ports: self.ports,
            base,
        })
    }
}

/// Both 8259s, shut down.
#[derive(Debug)]
pub struct SilentPics<B> {
    ports: B,
    base: u8,
}

impl<B: Bus<u8>> SilentPics<B> {
    /// Judges an interrupt that came by `vector`, and ends it in the 8259s if there is one: for
    /// code that sits on their vectors. `None` if the vector is none of theirs; else whether a
    /// line was in service. Where none was, the second one's line 15 leaves the cascade's line 2
    /// to end, and nothing else.
    ///
    /// The local APIC knows nothing of it: no EOI there.
    ///
    /// # Context
    /// The entry of that vector, masked, on the CPU that LINT0 led it to.
    pub fn end(&self, vector: Vector) -> Option<bool> {
        let line = vector
            .get()
            .checked_sub(self.base)
            .filter(|line| *line < 16)?;
        let (command, bit) = match line {
            0..8 => (FIRST_COMMAND, line),
            _ => (SECOND_COMMAND, line - 8),
        };
        self.ports.store(command, READ_IN_SERVICE);
        let real = self.ports.load(command) & 1 << bit != 0;
        if real {
            self.ports.store(command, END);
        }
        if line >= 8 {
            self.ports.store(FIRST_COMMAND, END);
        }
        Some(real)
    }

    /// What the local APIC driver wants to know.
    pub const fn silent(&self) -> Pics {
        Pics(())
    }
}

/// That no 8259 asks for anything: they are shut down, or there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pics(());

impl Pics {
    /// The machine has none (MADT flag PCAT_COMPAT is 0).
    pub const fn absent() -> Self {
        Self(())
    }
}
