// SPDX-License-Identifier: MIT OR Apache-2.0
//! Private interrupts: configured once for all CPUs, present and future.
//!
//! What they are to be like is the template: one atomic word for each. A change writes the word
//! first and then visits every redistributor that is set up; a visit holds the leaf lock of that
//! redistributor and applies what the word says *then*. So of several changes at once, whichever
//! visits last brings the last write of all, and no lock spans the machine: nobody waits masked
//! for more than one redistributor. A CPU that comes online reads the template under the same
//! lock and counts as set up when it lets go of it: it sees a change before that, or is visited.

use irq_core::Trigger;
use irq_hal::atomic::{AtomicU32, Ordering::Relaxed};
use irq_hal::bus::Part;
use irq_hal::{CpuIndex, Error, Platform, percpu};

use super::Gic;
use crate::intid::{self, EPPIS_MAX, IntId, Kind, PPIS, SGIS};
use crate::priority::Priority;
use crate::redistributor::{Awake, Redistributor};
use crate::regs::Frame;
use crate::regs::bank::Line;
use crate::regs::icc::IccBus;
use crate::sgi::Sgi;

const LINES: usize = (SGIS + PPIS + EPPIS_MAX) as usize;

// The word of one interrupt.
/// Its `IPRIORITYR` byte.
const PRIORITY: u32 = 0xff;
const ENABLED: u32 = 1 << 8;
/// Its trigger was said. Until then each CPU's stays as it was found.
const TRIGGER: u32 = 1 << 9;
/// The trigger is the edge.
const EDGE: u32 = 1 << 10;

/// What every CPU's private interrupts are to be like.
#[derive(Debug)]
pub(super) struct Template([AtomicU32; LINES]);

impl Template {
    /// All masked but `ipi`, with this `IPRIORITYR` byte.
    pub(super) fn new(priority: u8, ipi: Option<Sgi>) -> Self {
        let ipi = ipi.and_then(|sgi| Line::of(sgi.intid()));
        let ipi = ipi.map(|line| line.index);
        Self(core::array::from_fn(|index| {
            let enabled = if ipi == Some(index) { ENABLED } else { 0 };
            AtomicU32::new(u32::from(priority) | enabled)
        }))
    }

    /// The word of a private interrupt. Relaxed accesses do: each reader holds the lock of the
    /// redistributor that it writes to, and each writer takes it after its write.
    fn word(&self, intid: IntId) -> Result<&AtomicU32, Error> {
        let line = Line::of(intid).filter(|_| intid.kind().is_private());
        let word = line.and_then(|line| self.0.get(line.index));
        word.ok_or(Error::Invalid {
            what: "private INTID",
            value: intid.get().into(),
        })
    }
}

/// Puts `bits` into the place of those in `mask`.
fn replace(word: &AtomicU32, mask: u32, bits: u32) {
    let mut now = word.load(Relaxed);
    while let Err(other) = word.compare_exchange(now, now & !mask | bits, Relaxed, Relaxed) {
        now = other;
    }
}

/// The trigger that a word says, if it says one.
fn trigger(word: u32) -> Option<Trigger> {
    match (word & TRIGGER != 0, word & EDGE != 0) {
        (false, _) => None,
        (true, false) => Some(Trigger::Level),
        (true, true) => Some(Trigger::Edge),
    }
}

type OwnRedistributor<'g, B> = Redistributor<Part<&'g B>, Awake>;

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// Applies the template to a redistributor that was just reset, under its lock. Extended
    /// PPIs stay masked where the CPU's interface takes none (`extended_range`). Triggers that
    /// this CPU has fixed otherwise are passed over; the first of them is returned, for the
    /// caller to report without the lock.
    pub(super) fn apply_template(
        &self,
        rd: &OwnRedistributor<'_, B>,
        extended_range: bool,
    ) -> Result<Option<IntId>, Error> {
        let mut refused = None;
        let eppis = if extended_range {
            rd.features().eppis
        } else {
            0
        };
        for intid in intid::private(eppis) {
            let word = self.template.word(intid)?.load(Relaxed);
            match trigger(word).map(|trigger| rd.set_trigger(&self.platform, intid, trigger)) {
                Some(Err(Error::Refused { .. })) => refused = refused.or(Some(intid)),
                Some(other) => other?,
                None => {}
            }
            let priority = (word & PRIORITY) as u8;
            if priority != self.default_priority {
                rd.set_priority(&self.platform, intid, priority)?;
            }
            if word & ENABLED != 0 {
                rd.unmask(intid)?;
                self.check_ipi(rd, intid)?;
            }
        }
        Ok(refused)
    }

    /// An SGI that firmware keeps for itself ignores all we write to it: not the one for IPIs.
    fn check_ipi(&self, rd: &OwnRedistributor<'_, B>, intid: IntId) -> Result<(), Error> {
        let ipi = self.hot.ipi.is_some_and(|sgi| sgi.intid() == intid);
        if ipi && rd.state(intid)?.masked {
            return Err(Error::Refused {
                register: "GICR_ISENABLER0",
                value: 0,
            });
        }
        Ok(())
    }

    /// Brings priority and trigger of `intid` to what the template says by now.
    fn apply_configuration(&self, rd: &OwnRedistributor<'_, B>, intid: IntId) -> Result<(), Error> {
        let word = self.template.word(intid)?.load(Relaxed);
        rd.set_priority(&self.platform, intid, (word & PRIORITY) as u8)?;
        match trigger(word) {
            Some(trigger) => rd.set_trigger(&self.platform, intid, trigger),
            None => Ok(()),
        }
    }

    /// Masks or unmasks `intid` as the template says by now.
    fn apply_enable(&self, rd: &OwnRedistributor<'_, B>, intid: IntId) -> Result<(), Error> {
        if self.template.word(intid)?.load(Relaxed) & ENABLED != 0 {
            rd.unmask(intid)
        } else {
            rd.mask(&self.platform, intid)
        }
    }

    /// Runs `f` on the redistributor of `cpu` under its lock.
    pub(super) fn with_redistributor<R>(
        &self,
        cpu: CpuIndex,
        f: impl FnOnce(&OwnRedistributor<'_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let slot = self.slot(cpu)?;
        slot.redistributor.with(&self.platform, |set_up| {
            if !*set_up {
                return Err(Error::CpuOffline { cpu });
            }
            f(&self.redistributors.find(slot.mpidr())?.assume_awake())
        })
    }

    /// Runs `f` on the redistributor of the CPU that runs.
    pub(super) fn with_own_redistributor<R>(
        &self,
        f: impl FnOnce(&OwnRedistributor<'_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        percpu::masked(&self.platform, |on| self.with_redistributor(on.cpu(), f))
    }

    /// Runs `f` on the redistributor of each CPU that is set up and takes `intid`; all of them,
    /// also after an error, the first of which is returned.
    fn with_all_redistributors(
        &self,
        intid: IntId,
        mut f: impl FnMut(&OwnRedistributor<'_, B>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for (cpu, slot) in self.slots.iter() {
            // Under the lock: what the CPU takes is known before it counts as set up.
            let here = self.with_redistributor(cpu, |rd| match slot.takes(intid) {
                true => f(rd),
                false => Ok(()),
            });
            let here = match here {
                Err(Error::CpuOffline { .. }) => Ok(()),
                other => other,
            };
            result = result.and(here);
        }
        result
    }

    /// Sets trigger and priority of a private interrupt on all CPUs, present and future. Of
    /// several calls at once one wins, the same on every CPU. CPUs whose interface takes no
    /// extended PPIs are left out for these, here and in the calls below.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an INTID that is not private and for a priority that this view
    /// does not have; [`Error::HwirqOutOfRange`]; [`Error::Unsupported`] for a level-triggered
    /// SGI; [`Error::Refused`] if a CPU has the trigger fixed otherwise, after all CPUs were
    /// visited; [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt; cost proportional to the CPUs that are online. Waits,
    /// bounded, for one redistributor after the other, each under its own lock.
    pub fn configure_private(
        &self,
        intid: IntId,
        trigger: Trigger,
        priority: Priority,
    ) -> Result<(), Error> {
        let word = self.template.word(intid)?;
        self.hot.layout.check(intid)?;
        let trigger = match (intid.kind(), trigger) {
            (Kind::Sgi, Trigger::Edge) => 0,
            (Kind::Sgi, Trigger::Level) => {
                return Err(Error::Unsupported {
                    feature: "a level-triggered SGI",
                });
            }
            (_, Trigger::Edge) => TRIGGER | EDGE,
            (_, Trigger::Level) => TRIGGER,
        };
        let value = self.view.distributor_value(priority);
        let value = value.ok_or(Error::Invalid {
            what: "priority",
            value: u64::from(priority.get()),
        })?;
        replace(word, PRIORITY | TRIGGER | EDGE, u32::from(value) | trigger);
        self.with_all_redistributors(intid, |rd| self.apply_configuration(rd, intid))
    }

    /// Lets a private interrupt be delivered on all CPUs, present and future. Of several calls
    /// at once, [`mask_private`](Self::mask_private) among them, one wins, the same on every CPU.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an INTID that is not private; [`Error::HwirqOutOfRange`];
    /// [`Error::Timeout`] if a call of `mask_private` runs at once.
    ///
    /// # Context
    /// As for [`configure_private`](Self::configure_private).
    pub fn unmask_private(&self, intid: IntId) -> Result<(), Error> {
        self.enable_private(intid, ENABLED)
    }

    /// Stops a private interrupt on all CPUs, present and future.
    ///
    /// # Errors
    /// As for [`unmask_private`](Self::unmask_private); [`Error::Timeout`].
    ///
    /// # Context
    /// As for [`configure_private`](Self::configure_private).
    pub fn mask_private(&self, intid: IntId) -> Result<(), Error> {
        self.enable_private(intid, 0)
    }

    fn enable_private(&self, intid: IntId, enabled: u32) -> Result<(), Error> {
        let word = self.template.word(intid)?;
        self.hot.layout.check(intid)?;
        replace(word, ENABLED, enabled);
        self.with_all_redistributors(intid, |rd| self.apply_enable(rd, intid))
    }
}
