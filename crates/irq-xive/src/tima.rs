// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU's own part of the controller. Every access is about the CPU that makes it; nobody can
//! act here for another.

use irq_hal::access::{Cmd, Pop};
use irq_hal::bus::BigEndian;
use irq_hal::{Barrier, Bus, Error};

use crate::firmware::Window;
use crate::ids::Priority;
use crate::regs::tima::{ACK_HV, FRAME, HE, HE_PHYS, PHYS_CPPR, PHYS_WORD2, VT};

/// Nothing is let in.
pub const CLOSED: u8 = 0;
/// Everything is let in.
pub const OPEN: u8 = 0xff;

/// What an acknowledge gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Acknowledge(u16);

impl Acknowledge {
    /// Whether nothing was pending: CPPR is as before then.
    #[inline]
    pub const fn is_nothing(self) -> bool {
        self.0 & HE == 0
    }

    /// Whether `priority` was pending in the ring in use. CPPR is it, then.
    #[inline(always)]
    pub const fn is(self, priority: Priority) -> bool {
        self.0 & (HE | 0xff) == HE_PHYS | priority.get() as u16
    }

    /// CPPR after the acknowledge.
    #[inline]
    pub const fn cppr(self) -> u8 {
        self.0 as u8
    }
}

/// The hypervisor page of the area.
#[derive(Debug)]
pub struct Tima<W> {
    page: BigEndian<W>,
}

impl<W: Window> Tima<W> {
    /// Over the window of the page.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn new(page: W) -> Result<Self, Error> {
        let len = page.extent();
        if len < FRAME {
            return Err(Error::TooSmall {
                what: "TIMA",
                len,
                need: FRAME,
            });
        }
        Ok(Self {
            page: BigEndian(page),
        })
    }

    /// Takes the most favoured pending priority: CPPR becomes it. One load.
    ///
    /// It stands for a priority, not for an event: any number of entries of that priority's queue
    /// may be behind it, or none. They are read after [`Barrier::synchronize`].
    ///
    /// # Context
    /// Interrupts masked, on the CPU that takes the interrupt.
    #[inline(always)]
    pub fn acknowledge(&self) -> Acknowledge {
        Acknowledge(Pop::<_, u16>::new(&self.page, ACK_HV).pop())
    }

    /// Sets CPPR, 0 to 7 or [`OPEN`]: what is more favoured interrupts, at once if it waits.
    ///
    /// # Context
    /// On the CPU that it is for.
    #[inline(always)]
    pub fn set_cppr(&self, cppr: u8) {
        Cmd::<_, u8>::new(&self.page, PHYS_CPPR).send(cppr);
    }

    /// Whether the presenter finds this thread.
    ///
    /// # Context
    /// On the CPU that it is for.
    pub fn is_valid(&self) -> bool {
        Bus::<u8>::load(&self.page, PHYS_WORD2) & VT != 0
    }

    /// Lets the presenter find this thread: before the first CPPR on POWER10, which is lost
    /// otherwise.
    ///
    /// # Errors
    /// [`Error::Refused`] if it still does not.
    ///
    /// # Context
    /// On the CPU that it is for.
    pub fn validate(&self) -> Result<(), Error> {
        if self.is_valid() {
            return Ok(());
        }
        Bus::<u8>::store(&self.page, PHYS_WORD2, VT);
        let value = Bus::<u8>::load(&self.page, PHYS_WORD2);
        if value & VT == 0 {
            return Err(Error::Refused {
                register: "TIMA QW3 word 2",
                value: u64::from(value),
            });
        }
        Ok(())
    }

    /// The page's barriers.
    #[inline(always)]
    pub fn barrier(&self) -> &impl Barrier {
        &self.page
    }
}
