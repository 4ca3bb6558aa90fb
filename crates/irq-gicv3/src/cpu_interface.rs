// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU interface: acknowledge, end, send, and its bring-up on each CPU.
//!
//! ```text
//! Off --enable--> On     SRE=1, isb, read back; which groups are ours (PMR); IGRPEN1=0, and
//!                        IGRPEN0=0 if it is ours; isb; PMR, CTLR; isb; BPR1=0; APRs=0 by
//!                        PRIbits; isb; IGRPEN1=1; isb
//! acknowledge            IAR1, dsb sy, isb
//! end                    [dsb sy, isb,] EOIR1, and with EOImode 1: isb, DIR
//! send                   dsb ishst, SGI1R, isb
//! ```
//! IHI 0069, "The CPU interface"; "AArch64 System register descriptions".

use core::marker::PhantomData;

use irq_hal::{Error, irq_warn};
use tock_registers::interfaces::{ReadWriteable, Readable, Writeable};

use crate::intid::{INTID_BITS, IntId, Kind, LPI_FIRST, SPECIAL_FIRST, SPURIOUS};
use crate::priority::Priority;
use crate::regs::icc::{ICC_CTLR_EL1, ICC_SRE, Icc, IccBus};
use crate::sgi::SgiCommand;
use crate::sysregs::SysRegs;

/// What a write to `ICC_EOIR1_EL1` does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum EoiMode {
    /// `EOImode=0`: it drops the priority and deactivates.
    #[default]
    Combined,
    /// `EOImode=1`: it drops the priority; `ICC_DIR_EL1` deactivates. Needed to defer an
    /// interrupt, or to hand an active one to a guest.
    Split,
}

/// How a CPU's interface is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSetup {
    /// Interrupts with a priority value below this one are delivered.
    pub priority_mask: Priority,
    /// What an end does.
    pub eoi_mode: EoiMode,
}

/// What a CPU's interface has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CpuFeatures {
    /// Implemented priority bits, the upper ones of 8.
    pub priority_bits: u32,
    /// It takes extended PPIs and SPIs.
    pub extended_range: bool,
    /// SGIs from and to it can use the range selector.
    pub range_selector: bool,
    /// It can hold an Aff3 other than 0 in SGIs.
    pub aff3: bool,
    /// Group 0 interrupts are ours (`SCR_EL3.FIQ=0`, or no EL3).
    pub group0: bool,
}

/// State: Group 1 is off, or unknown.
#[derive(Clone, Copy, Debug)]
pub struct Off;

/// State: set up, and Group 1 is on.
#[derive(Clone, Copy, Debug)]
pub struct On {
    eoi_mode: EoiMode,
}

/// An acknowledged interrupt, which is to be ended once. Never one of the special numbers; it
/// may be a number that no driver expects, and is ended all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ActiveId(u32);

impl ActiveId {
    /// An acknowledged number that is not special.
    #[inline]
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number as it was acknowledged.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as an interrupt id.
    ///
    /// # Errors
    /// [`Error::HwirqReserved`] if the hardware handed out a reserved number.
    #[inline]
    pub const fn intid(self) -> Result<IntId, Error> {
        IntId::new(self.0)
    }

    /// LPIs have no active state.
    #[inline]
    const fn has_active_state(self) -> bool {
        self.0 < LPI_FIRST
    }

    /// SGIs are edges, and so are LPIs: no device holds a line up.
    #[inline]
    const fn may_be_level(self) -> bool {
        !self.is_sgi() && self.has_active_state()
    }

    #[inline]
    const fn is_sgi(self) -> bool {
        self.0 < Kind::Ppi.first()
    }
}

/// What an acknowledge hands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Acknowledge {
    /// An interrupt, active from now on.
    Interrupt(ActiveId),
    /// 1020 to 1023: nothing became active, and nothing is to be ended.
    Special(u32),
}

/// What an acknowledged number stands for.
#[inline]
pub(crate) const fn classify(number: u32) -> Acknowledge {
    if number.wrapping_sub(SPECIAL_FIRST) <= SPURIOUS - SPECIAL_FIRST {
        return Acknowledge::Special(number);
    }
    Acknowledge::Interrupt(ActiveId(number))
}

/// The interface of the CPU that runs. Neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct CpuInterface<C = SysRegs, S = On> {
    icc: Icc<C>,
    state: S,
    local: PhantomData<*mut ()>,
}

impl<C: IccBus> CpuInterface<C, Off> {
    /// The interface behind `bus`.
    pub const fn new(bus: C) -> Self {
        Self {
            icc: Icc { bus },
            state: Off,
            local: PhantomData,
        }
    }

    /// From EL2: lets EL1 use its system registers, and uses EL2's own. Before
    /// [`enable`](Self::enable) on a CPU that started at EL2.
    ///
    /// # Errors
    /// [`Error::Refused`] if a higher level forbids it.
    ///
    /// # Context
    /// At EL2, masked.
    pub fn enable_el2(&self) -> Result<(), Error> {
        let sre = self.icc.sre_el2();
        sre.modify(
            ICC_SRE::SRE::SET + ICC_SRE::DFB::SET + ICC_SRE::DIB::SET + ICC_SRE::Enable::SET,
        );
        self.icc.bus.synchronize();
        let now = sre.get();
        if !ICC_SRE::SRE.is_set(now) || !ICC_SRE::Enable.is_set(now) {
            return Err(Error::Refused {
                register: "ICC_SRE_EL2",
                value: now,
            });
        }
        Ok(())
    }

    /// Switches to system registers and looks what the interface has. The priority mask is as
    /// before when the call returns.
    ///
    /// # Errors
    /// [`Error::Refused`] if a higher level keeps the interface memory-mapped.
    ///
    /// # Context
    /// Masked.
    pub fn probe(&self) -> Result<CpuFeatures, Error> {
        let sre = self.icc.sre();
        if !sre.is_set(ICC_SRE::SRE) {
            sre.modify(ICC_SRE::SRE::SET);
            self.icc.bus.synchronize();
            let now = sre.get();
            if !ICC_SRE::SRE.is_set(now) {
                return Err(Error::Refused {
                    register: "ICC_SRE_EL1",
                    value: now,
                });
            }
        }
        let ctlr = self.icc.ctlr().extract();
        let priority_bits = ctlr.read(ICC_CTLR_EL1::PRIbits) as u32 + 1;
        // The lowest priority step is visible only to whom Group 0 belongs: with
        // SCR_EL3.FIQ=1 the value is shifted and its last bit falls off.
        let pmr = self.icc.pmr();
        let before = pmr.get();
        pmr.set(1 << (8 - priority_bits));
        let group0 = pmr.get() != 0;
        pmr.set(before);
        Ok(CpuFeatures {
            priority_bits,
            extended_range: ctlr.is_set(ICC_CTLR_EL1::ExtRange),
            range_selector: ctlr.is_set(ICC_CTLR_EL1::RSS),
            aff3: ctlr.is_set(ICC_CTLR_EL1::A3V),
            group0,
        })
    }

    /// Sets the interface up and turns Group 1 on.
    ///
    /// # Errors
    /// [`Error::Refused`] if system registers, the priority mask or the end mode do not stick.
    ///
    /// # Context
    /// Masked, after the CPU's redistributor is awake and set up.
    pub fn enable(
        self,
        setup: &CpuSetup,
    ) -> Result<(CpuInterface<C, On>, CpuFeatures), (Self, Error)> {
        match self.set_up(setup) {
            Ok(features) => {
                let state = On {
                    eoi_mode: setup.eoi_mode,
                };
                Ok((
                    CpuInterface {
                        icc: self.icc,
                        state,
                        local: PhantomData,
                    },
                    features,
                ))
            }
            Err(error) => Err((self, error)),
        }
    }

    fn set_up(&self, setup: &CpuSetup) -> Result<CpuFeatures, Error> {
        let features = self.probe()?;
        self.icc.igrpen1().set(0);
        if features.group0 {
            // No Group 0 interrupt is ours to take, and with the group on the redistributor
            // must not be put to sleep.
            self.icc.igrpen0().set(0);
        }
        self.icc.bus.synchronize();
        let pmr = self.icc.pmr();
        pmr.set(u64::from(setup.priority_mask.get()));
        // A secure mask above ours keeps a non-secure kernel's writes out.
        if pmr.get() == 0 {
            return Err(Error::Refused {
                register: "ICC_PMR_EL1",
                value: 0,
            });
        }
        let split = setup.eoi_mode == EoiMode::Split;
        let ctlr = self.icc.ctlr();
        ctlr.modify(ICC_CTLR_EL1::EOImode.val(u64::from(split)) + ICC_CTLR_EL1::CBPR::CLEAR);
        let now = ctlr.get();
        if ICC_CTLR_EL1::EOImode.is_set(now) != split {
            return Err(Error::Refused {
                register: "ICC_CTLR_EL1",
                value: now,
            });
        }
        // Only now does BPR1 take writes: with CBPR=1 it ignores them.
        self.icc.bus.synchronize();
        // The minimum; firmware may leave one so large that nothing preempts.
        self.icc.bpr1().set(0);
        let active_registers = match features.priority_bits {
            7.. => 4,
            6 => 2,
            _ => 1,
        };
        for n in 0..active_registers {
            if features.group0 {
                self.icc.ap0r(n).set(0);
            }
            self.icc.ap1r(n).set(0);
        }
        self.icc.bus.synchronize();
        self.icc.igrpen1().set(1);
        self.icc.bus.synchronize();
        if features.priority_bits < 4 {
            irq_warn!(
                "gicv3: ICC_CTLR_EL1 says {} priority bits",
                features.priority_bits
            );
        }
        Ok(features)
    }
}

impl<C: IccBus> CpuInterface<C, On> {
    /// The interface as one that was enabled before, with this end mode.
    pub(crate) const fn assume_on(bus: C, eoi_mode: EoiMode) -> Self {
        Self {
            icc: Icc { bus },
            state: On { eoi_mode },
            local: PhantomData,
        }
    }

    /// Takes the most urgent pending Group 1 interrupt: exactly one read of `ICC_IAR1_EL1`.
    ///
    /// # Context
    /// Masked.
    #[inline(always)]
    pub fn acknowledge(&self) -> Acknowledge {
        classify(self.acknowledge_any())
    }

    /// Likewise; the number may be a special one.
    #[inline(always)]
    pub(crate) fn acknowledge_any(&self) -> u32 {
        let raw = self.icc.iar1().pop();
        // The redistributor observes the acknowledge before the handler does anything.
        self.icc.bus.complete();
        self.icc.bus.synchronize();
        raw as u32 & ((1 << INTID_BITS) - 1)
    }

    /// Likewise on a CPU whose `ICC_IAR1_EL1` may repeat a stale number: one that left the
    /// active priorities as they were was not acknowledged.
    pub fn acknowledge_checked(&self) -> Acknowledge {
        classify(self.acknowledge_any_checked())
    }

    /// Likewise; the number may be a special one.
    #[cold]
    pub(crate) fn acknowledge_any_checked(&self) -> u32 {
        let active = self.icc.ap1r(0);
        self.icc.bus.synchronize();
        let before = active.get();
        let number = self.acknowledge_any();
        if active.get() == before {
            return SPURIOUS;
        }
        number
    }

    /// Ends `active`: one write of `ICC_EOIR1_EL1`, and in split mode one of `ICC_DIR_EL1`,
    /// never for an LPI. What a handler wrote to its device comes before.
    ///
    /// # Context
    /// Masked, on the CPU that acknowledged it, in reverse order of acknowledges.
    #[inline(always)]
    pub fn end(&self, active: ActiveId) {
        self.drop_priority(active);
        if self.state.eoi_mode == EoiMode::Split && active.has_active_state() {
            // The drop comes first.
            self.icc.bus.synchronize();
            self.deactivate(active);
        }
    }

    /// Drops the running priority: one write of `ICC_EOIR1_EL1`. In split mode the interrupt
    /// stays active, for [`complete`](Self::complete) or for a guest; else it is ended.
    ///
    /// # Context
    /// As for [`end`](Self::end).
    #[inline(always)]
    pub fn drop_priority(&self, active: ActiveId) {
        if active.may_be_level() {
            // Clearing the source, in device memory or by a system register (timers), comes
            // before the end, or the line fires once more.
            self.icc.bus.complete();
            self.icc.bus.synchronize();
        }
        self.icc.eoir1().send(u64::from(active.0));
    }

    /// Deactivates: one write of `ICC_DIR_EL1`. In split mode only, never for an LPI, after
    /// the priority was dropped, from any CPU for a shared interrupt.
    #[inline(always)]
    pub(crate) fn deactivate(&self, active: ActiveId) {
        self.icc.dir().send(u64::from(active.0));
    }

    /// Deactivates `intid`, whose priority was dropped: one write of `ICC_DIR_EL1`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless the mode is split, and for an LPI.
    ///
    /// # Context
    /// Any for a shared interrupt; on its own CPU for a private one.
    pub fn complete(&self, intid: IntId) -> Result<(), Error> {
        let active = ActiveId(intid.get());
        if self.state.eoi_mode != EoiMode::Split {
            return Err(Error::Unsupported {
                feature: "deactivation with EOImode=0",
            });
        }
        if !active.has_active_state() {
            return Err(Error::Unsupported {
                feature: "deactivation of an LPI",
            });
        }
        if active.may_be_level() {
            // As before an end: what was done to the device comes first.
            self.icc.bus.complete();
            self.icc.bus.synchronize();
        }
        self.deactivate(active);
        Ok(())
    }

    /// The end mode.
    #[inline]
    pub const fn eoi_mode(&self) -> EoiMode {
        self.state.eoi_mode
    }

    /// Sends SGIs: exactly one write of `ICC_SGI1R_EL1`. Every store to memory before the call
    /// is visible to the receivers; the write is out when the call returns.
    ///
    /// # Context
    /// Any.
    #[inline(always)]
    pub fn send_sgi(&self, command: SgiCommand) {
        self.send_sgis(core::iter::once(command));
    }

    /// Sends several: the barriers once, one write each.
    ///
    /// # Context
    /// Any.
    #[inline(always)]
    pub fn send_sgis(&self, commands: impl Iterator<Item = SgiCommand>) {
        self.icc.bus.publish();
        for command in commands {
            self.icc.sgi1r().send(command.get());
        }
        self.icc.bus.synchronize();
    }

    /// Writes one of several SGIs, with what was stored before it visible to its receivers;
    /// [`flush_sgis`](Self::flush_sgis) is to follow.
    #[inline(always)]
    pub(crate) fn queue_sgi(&self, command: SgiCommand) {
        self.icc.bus.publish();
        self.icc.sgi1r().send(command.get());
    }

    /// The SGIs written before are out when the call returns.
    #[inline(always)]
    pub(crate) fn flush_sgis(&self) {
        self.icc.bus.synchronize();
    }

    /// What an acknowledge would hand out, and the running priority.
    pub fn peek(&self) -> (u32, Priority) {
        (
            self.icc.hppir1().get() as u32,
            Priority::new(self.icc.rpr().get() as u8),
        )
    }

    /// Turns Group 1 off: nothing is delivered any more.
    ///
    /// # Context
    /// Masked, with nothing acknowledged that is not ended.
    pub fn disable(self) -> CpuInterface<C, Off> {
        self.icc.igrpen1().set(0);
        self.icc.bus.synchronize();
        CpuInterface {
            icc: self.icc,
            state: Off,
            local: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bus that acknowledges with this value.
    struct Iar(u64);

    impl irq_hal::Bus<u64> for Iar {
        fn load(&self, offset: usize) -> u64 {
            assert_eq!(offset, crate::regs::icc::ICC_IAR1_EL1);
            self.0
        }
        fn store(&self, offset: usize, _: u64) {
            panic!("store to {offset:#x}")
        }
    }

    impl irq_hal::Barrier for Iar {
        fn publish(&self) {}
        fn complete(&self) {}
        fn synchronize(&self) {}
    }

    fn acknowledge(raw: u64) -> Acknowledge {
        CpuInterface::assume_on(Iar(raw), EoiMode::Combined).acknowledge()
    }

    #[test]
    fn the_24_bits_of_an_acknowledged_intid_count_and_no_others() {
        assert_eq!(acknowledge(1023), Acknowledge::Special(1023));
        assert_eq!(acknowledge(1020), Acknowledge::Special(1020));
        assert_eq!(
            acknowledge(0xffff_0000_0100_03fc),
            Acknowledge::Special(1020)
        );
        for number in [0, 511, 1019, 1024, 8192, 8192 + 1023, 0xff_ffff] {
            let interrupt = Acknowledge::Interrupt(ActiveId(number));
            assert_eq!(acknowledge(number.into()), interrupt);
            assert_eq!(acknowledge(1 << 24 | u64::from(number)), interrupt);
        }
    }

    #[test]
    fn only_what_a_device_can_hold_up_waits_for_the_device_before_its_end() {
        assert!(!ActiveId(15).may_be_level());
        assert!(ActiveId(16).may_be_level());
        assert!(ActiveId(5119).may_be_level());
        assert!(!ActiveId(8192).may_be_level());
        assert!(ActiveId(8191).has_active_state());
        assert!(!ActiveId(8192).has_active_state());
    }
}
