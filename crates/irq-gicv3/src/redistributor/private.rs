// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of one CPU's private interrupts: SGIs, PPIs, extended PPIs.

use irq_core::{LineState, Trigger};
use irq_hal::wait::{WaitFor, wait};
use irq_hal::{Error, Platform};
use tock_registers::interfaces::{ReadWriteable, Readable, Writeable};

use super::{Awake, Redistributor};
use crate::distributor::{bound, read_state, write_trigger};
use crate::intid::{IntId, Kind};
use crate::regs::Frame;
use crate::regs::bank::{Bank, BankRegs, Line, LineRegs};
use crate::regs::gicr::{GICR_CTLR, GICR_TYPER};

static RWP: WaitFor = WaitFor {
    register: "GICR_CTLR",
    state: "RWP=0",
};

impl<B: Frame> Redistributor<B, Awake> {
    fn line(&self, intid: IntId) -> Result<Line, Error> {
        let eppis = self.features.eppis;
        match (intid.kind(), Line::of(intid)) {
            (Kind::Sgi | Kind::Ppi, Some(line)) => Ok(line),
            (Kind::ExtendedPpi, Some(line)) if intid.number() < eppis => Ok(line),
            (Kind::ExtendedPpi, _) => {
                let behind = match eppis {
                    0 => Kind::Spi.first(),
                    _ => Kind::ExtendedPpi.first() + eppis,
                };
                Err(Error::HwirqOutOfRange {
                    hwirq: intid.get(),
                    last: behind - 1,
                })
            }
            _ => Err(Error::Invalid {
                what: "private INTID",
                value: intid.get().into(),
            }),
        }
    }

    fn regs_of(&self, line: Line) -> LineRegs<'_, B> {
        LineRegs::new(&self.regs.bus, line)
    }

    /// Waits until disables have taken effect: `GICR_CTLR.RWP`, bit 3, of this redistributor.
    fn wait_rwp<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        let ctlr = self.regs.ctlr();
        wait(
            platform,
            &RWP,
            bound(platform),
            || ctlr.get(),
            |value| !GICR_CTLR::RWP.is_set(value),
        )?;
        Ok(())
    }

    /// Sets every private interrupt up masked, inactive, with `priority` (an `IPRIORITYR` byte),
    /// and in Group 1 where `one_security_state` leaves that to us; and lets interrupts that go
    /// to any CPU come here, whatever firmware left (`GICR_CTLR.DPG*`). Triggers and pending
    /// states stay as they are.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    ///
    /// # Context
    /// On its own CPU, masked.
    pub fn reset<P>(
        &self,
        platform: &P,
        one_security_state: bool,
        priority: u8,
    ) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let regs = BankRegs::new(&self.regs.bus, &Bank::PRIVATE);
        let words = 1 + self.features.eppis as usize / 32;
        if GICR_TYPER::DPGS.is_set(self.features.typer) {
            let ctlr = self.regs.ctlr();
            ctlr.modify(
                GICR_CTLR::DPG0::CLEAR + GICR_CTLR::DPG1NS::CLEAR + GICR_CTLR::DPG1S::CLEAR,
            );
        }
        for word in 0..words {
            regs.icenabler(word).write_ones(u32::MAX);
        }
        // For both.
        self.wait_rwp(platform)?;
        for word in 0..words {
            regs.icactiver(word).write_ones(u32::MAX);
            if one_security_state {
                // IGRPMODR is RAZ/WI then.
                regs.igroupr(word).set(u32::MAX);
            }
        }
        for word in 0..words * 8 {
            regs.ipriorityr(word).set(u32::from_ne_bytes([priority; 4]));
        }
        Ok(())
    }

    /// Disables `intid` and waits until the CPU does not acknowledge it any more: one store,
    /// then loads of `GICR_CTLR` until RWP is 0.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::HwirqOutOfRange`] or [`Error::Invalid`] for an INTID that
    /// is not here.
    ///
    /// # Context
    /// Any but a non-maskable interrupt; from any CPU.
    pub fn mask<P: Platform + ?Sized>(&self, platform: &P, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.regs_of(line).icenabler().write_ones(line.bit());
        self.wait_rwp(platform)
    }

    /// Enables `intid`: one store.
    ///
    /// # Errors
    /// As for [`mask`](Self::mask), without the timeout.
    ///
    /// # Context
    /// As for [`mask`](Self::mask).
    pub fn unmask(&self, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.regs_of(line).isenabler().write_ones(line.bit());
        Ok(())
    }

    /// Runs `change` with `intid` disabled, and enables it again if it was, also after an error.
    fn while_disabled<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        change: impl FnOnce(&LineRegs<'_, B>, Line) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = self.line(intid)?;
        let regs = self.regs_of(line);
        let enabled = regs.enabled().get() & line.bit() != 0;
        let disabled = match enabled {
            true => self.mask(platform, intid),
            false => Ok(()),
        };
        let changed = disabled.and_then(|()| change(&regs, line));
        if enabled {
            regs.isenabler().write_ones(line.bit());
        }
        changed
    }

    /// Sets how `intid` triggers. It is disabled meanwhile.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an SGI, which is always edge; [`Error::Refused`] if the
    /// hardware has it fixed otherwise; and as for [`mask`](Self::mask).
    ///
    /// # Context
    /// One caller at a time.
    pub fn set_trigger<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        trigger: Trigger,
    ) -> Result<(), Error> {
        if intid.kind() == Kind::Sgi {
            return match trigger {
                Trigger::Edge => Ok(()),
                Trigger::Level => Err(Error::Unsupported {
                    feature: "a level-triggered SGI",
                }),
            };
        }
        self.while_disabled(platform, intid, |regs, line| {
            write_trigger(regs, line, trigger, "GICR_ICFGR")
        })
    }

    /// Sets the `IPRIORITYR` byte of `intid`. It is disabled meanwhile.
    ///
    /// # Errors
    /// As for [`mask`](Self::mask).
    ///
    /// # Context
    /// One caller at a time.
    pub fn set_priority<P: Platform + ?Sized>(
        &self,
        platform: &P,
        intid: IntId,
        value: u8,
    ) -> Result<(), Error> {
        self.while_disabled(platform, intid, |regs, _| {
            regs.ipriorityr().set(value);
            Ok(())
        })
    }

    /// Makes `intid` pending on this CPU: one store.
    ///
    /// # Errors
    /// [`Error::HwirqOutOfRange`] or [`Error::Invalid`] for an INTID that is not here.
    ///
    /// # Context
    /// Any, from any CPU.
    pub fn set_pending(&self, intid: IntId) -> Result<(), Error> {
        let line = self.line(intid)?;
        self.regs_of(line).ispendr().write_ones(line.bit());
        Ok(())
    }

    /// The state of `intid`: three loads.
    ///
    /// # Errors
    /// As for [`set_pending`](Self::set_pending).
    ///
    /// # Context
    /// Any, also in a panic: takes no lock.
    pub fn state(&self, intid: IntId) -> Result<LineState, Error> {
        let line = self.line(intid)?;
        Ok(read_state(&self.regs_of(line), line))
    }
}
