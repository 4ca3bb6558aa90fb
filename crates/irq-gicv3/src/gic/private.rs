// SPDX-License-Identifier: MIT OR Apache-2.0
//! Private interrupts: configured once for all CPUs, present and future.
//!
//! The template is atomics. A CPU that comes online reads them under the lock of its
//! redistributor and is set up when it lets go of it; a change writes them first and then
//! visits every redistributor that is set up, under the same locks. So each CPU sees a change
//! in one way or the other.

use irq_core::Trigger;
use irq_hal::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use irq_hal::bus::Part;
use irq_hal::lock::MaskedLock;
use irq_hal::{CpuIndex, Error, Platform, irq_warn};

use super::Gic;
use crate::intid::IntId;
use crate::priority::Priority;
use crate::redistributor::{Awake, Redistributor};
use crate::regs::Frame;
use crate::regs::bank::Line;
use crate::regs::icc::IccBus;

/// SGIs and PPIs, and two words of extended PPIs.
const WORDS: usize = 3;

/// What every CPU's private interrupts are to be like.
#[derive(Debug)]
pub(super) struct Template {
    /// Changes come one after the other, so that the last one wins everywhere.
    change: MaskedLock<(), 4>,
    enabled: [AtomicU32; WORDS],
    /// Lines whose trigger was said, and which of them are edges.
    triggered: [AtomicU32; WORDS],
    edge: [AtomicU32; WORDS],
    /// `IPRIORITYR` bytes.
    priority: [AtomicU8; 32 * WORDS],
}

impl Template {
    pub(super) fn new(priority: u8) -> Self {
        Self {
            change: MaskedLock::new(()),
            enabled: core::array::from_fn(|_| AtomicU32::new(0)),
            triggered: core::array::from_fn(|_| AtomicU32::new(0)),
            edge: core::array::from_fn(|_| AtomicU32::new(0)),
            priority: core::array::from_fn(|_| AtomicU8::new(priority)),
        }
    }
}

/// The place of a private interrupt in the template.
fn place(intid: IntId) -> Result<(usize, u32), Error> {
    match Line::of(intid) {
        Some(line) if intid.kind().is_private() => Ok((line.index, line.bit())),
        _ => Err(Error::Invalid {
            what: "private INTID",
            value: intid.get().into(),
        }),
    }
}

fn set(word: &AtomicU32, bit: u32, on: bool) {
    if on {
        word.fetch_or(bit, Relaxed)
    } else {
        word.fetch_and(!bit, Relaxed)
    };
}

type OwnRedistributor<'g, B> = Redistributor<Part<&'g B>, Awake>;

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// Applies the template to a redistributor that was just reset.
    pub(super) fn apply_template(&self, rd: &OwnRedistributor<'_, B>) -> Result<(), Error> {
        let present = 1 + rd.features().eppis as usize / 32;
        for index in 0..32 * present.min(WORDS) {
            let (word, bit) = (index / 32, 1 << (index % 32));
            let intid = if word == 0 {
                IntId::new(index as u32)?
            } else {
                IntId::new(1056 + index as u32 - 32)?
            };
            let is = |words: &[AtomicU32; WORDS]| words[word].load(Relaxed) & bit != 0;
            if is(&self.template.triggered) {
                let edge = is(&self.template.edge);
                let trigger = if edge { Trigger::Edge } else { Trigger::Level };
                if let Err(error) = rd.set_trigger(&self.platform, intid, trigger) {
                    irq_warn!(
                        "gicv3: trigger of INTID {} refused: {}",
                        intid.get(),
                        error.kind().as_str()
                    );
                }
            }
            let priority = self.template.priority[index].load(Relaxed);
            if priority != self.default_priority {
                rd.set_priority(&self.platform, intid, priority)?;
            }
            if is(&self.template.enabled) {
                rd.unmask(intid)?;
            }
        }
        Ok(())
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
        let state = self.platform.irq_save();
        let result = self.with_redistributor(self.platform.this_cpu(), f);
        // SAFETY: `state` came from `irq_save` just above, on this CPU: it was masked since.
        unsafe { self.platform.irq_restore(state) };
        result
    }

    /// Runs `f` on the redistributor of each CPU that is set up; all of them, also after an
    /// error, the first of which is returned.
    fn with_all_redistributors(
        &self,
        mut f: impl FnMut(&OwnRedistributor<'_, B>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for (cpu, _) in self.slots.iter() {
            let here = match self.with_redistributor(cpu, &mut f) {
                Err(Error::CpuOffline { .. }) => Ok(()),
                other => other,
            };
            result = result.and(here);
        }
        result
    }

    /// Sets trigger and priority of a private interrupt on all CPUs, present and future.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an INTID that is not private and for a priority that this view
    /// does not have; [`Error::HwirqOutOfRange`]; [`Error::Unsupported`] for a level-triggered
    /// SGI; [`Error::Refused`] if a CPU has the trigger fixed otherwise, after all CPUs were
    /// visited; [`Error::Timeout`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt; cost proportional to the CPUs that are online.
    pub fn configure_private(
        &self,
        intid: IntId,
        trigger: Trigger,
        priority: Priority,
    ) -> Result<(), Error> {
        let (index, bit) = place(intid)?;
        self.layout.check(intid)?;
        if intid.get() < 16 && trigger == Trigger::Level {
            return Err(Error::Unsupported {
                feature: "a level-triggered SGI",
            });
        }
        let value = self.view.distributor_value(priority);
        let value = value.ok_or(Error::Invalid {
            what: "priority",
            value: u64::from(priority.get()),
        })?;
        self.template.change.with(&self.platform, |()| {
            let word = index / 32;
            set(&self.template.edge[word], bit, trigger == Trigger::Edge);
            set(&self.template.triggered[word], bit, intid.get() >= 16);
            self.template.priority[index].store(value, Relaxed);
            self.with_all_redistributors(|rd| {
                rd.set_priority(&self.platform, intid, value)?;
                rd.set_trigger(&self.platform, intid, trigger)
            })
        })
    }

    /// Lets a private interrupt be delivered on all CPUs, present and future.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an INTID that is not private; [`Error::HwirqOutOfRange`].
    ///
    /// # Context
    /// As for [`configure_private`](Self::configure_private).
    pub fn unmask_private(&self, intid: IntId) -> Result<(), Error> {
        let (index, bit) = place(intid)?;
        self.layout.check(intid)?;
        self.template.change.with(&self.platform, |()| {
            set(&self.template.enabled[index / 32], bit, true);
            self.with_all_redistributors(|rd| rd.unmask(intid))
        })
    }

    /// Stops a private interrupt on all CPUs, present and future.
    ///
    /// # Errors
    /// As for [`unmask_private`](Self::unmask_private); [`Error::Timeout`].
    ///
    /// # Context
    /// As for [`configure_private`](Self::configure_private).
    pub fn mask_private(&self, intid: IntId) -> Result<(), Error> {
        let (index, bit) = place(intid)?;
        self.layout.check(intid)?;
        self.template.change.with(&self.platform, |()| {
            set(&self.template.enabled[index / 32], bit, false);
            self.with_all_redistributors(|rd| rd.mask(&self.platform, intid))
        })
    }
}
