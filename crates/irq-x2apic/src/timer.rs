// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local APIC's timer on the CPU that runs (Intel SDM vol. 3, "APIC Timer").
//!
//! | mode | armed by | fires |
//! |---|---|---|
//! | one-shot | the initial count | when the count is 0 |
//! | periodic | the initial count | each time the count is 0 |
//! | TSC-deadline | an absolute TSC value | when the TSC has reached it, at once if it has |
//!
//! The mode is in the timer's LVT entry, which is always written before the count or the
//! deadline. To and from TSC-deadline mode that disarms; between the other two the old count
//! would run on, so it is stopped before. Re-arming in the same mode is one register write.
//!
//! A masked entry does not stop the count, and what fires meanwhile is lost: after an unmask, arm
//! again. How fast it counts is for the embedder to find out (CPUID leaf 15H, another clock, a
//! hypervisor's leaf): [`Rate`].

use core::marker::PhantomData;
use core::num::NonZeroU64;

use irq_hal::Error;
use irq_hal::atomic::{AtomicU32, Ordering::Relaxed};
use tock_registers::interfaces::{Readable, Writeable};

use crate::cpuid::{Cpu, CpuId};
use crate::errata;
use crate::regs::apic::{ApicBus, ApicRegs};
pub use crate::regs::lvt::TimerMode;
use crate::regs::lvt::{Lvt, LvtEntry};

/// What TSC-deadline mode is worth on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Deadline {
    /// There is none.
    Absent,
    /// There is one, which fires late or never without a microcode update that this CPU lacks:
    /// not used, and disarmed where firmware did.
    Broken,
    /// It works.
    Works,
}

impl Deadline {
    /// Asks the CPU that runs.
    ///
    /// # Context
    /// Any. Reads the microcode's revision on the models where it matters.
    pub fn of<M: ApicBus>(msrs: &M, cpuid: &impl CpuId, cpu: &Cpu) -> Self {
        if !cpu.deadline {
            Self::Absent
        } else if errata::deadline_works(msrs, cpuid, cpu) {
            Self::Works
        } else {
            Self::Broken
        }
    }
}

/// By what the timer's clock is divided.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Divide {
    /// Not at all.
    #[default]
    By1,
    /// By 2.
    By2,
    /// By 4.
    By4,
    /// By 8.
    By8,
    /// By 16.
    By16,
    /// By 32.
    By32,
    /// By 64.
    By64,
    /// By 128.
    By128,
}

impl Divide {
    /// The register's value: bits 3, 1 and 0.
    pub const fn get(self) -> u64 {
        match self {
            Self::By1 => 0b1011,
            Self::By2 => 0b0000,
            Self::By4 => 0b0001,
            Self::By8 => 0b0010,
            Self::By16 => 0b0011,
            Self::By32 => 0b1000,
            Self::By64 => 0b1001,
            Self::By128 => 0b1010,
        }
    }
}

/// How many counts, or ticks of the TSC, a second has: what the embedder found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rate(u64);

impl Rate {
    /// `hz` a second.
    pub const fn new(hz: NonZeroU64) -> Self {
        Self(hz.get())
    }

    /// Counts of the 32-bit counter in `nanos` nanoseconds: at least 1, and no more than it
    /// holds.
    pub fn count(self, nanos: u64) -> u32 {
        u32::try_from(self.ticks(nanos)).unwrap_or(u32::MAX)
    }

    /// Ticks in `nanos` nanoseconds: at least 1, saturating.
    pub fn ticks(self, nanos: u64) -> u64 {
        let ticks = u128::from(self.0) * u128::from(nanos) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
    }
}

/// What we know of one CPU's timer: the LVT entry as it was last written, so that re-arming
/// reads no register. Written by its CPU alone.
#[derive(Debug)]
pub struct TimerState(AtomicU32);

impl TimerState {
    /// A timer whose LVT entry holds `entry`.
    pub fn new(entry: LvtEntry) -> Self {
        Self(AtomicU32::new(entry.get() as u32))
    }

    #[inline]
    pub(crate) fn entry(&self) -> LvtEntry {
        LvtEntry::from_register(self.0.load(Relaxed).into())
    }

    #[inline]
    pub(crate) fn set(&self, entry: LvtEntry) {
        self.0.store(entry.get() as u32, Relaxed);
    }
}

/// The timer of the CPU that runs, in x2APIC mode.
///
/// # Context
/// Every call: on that CPU, masked.
#[derive(Debug)]
pub struct Timer<'t, M> {
    msrs: &'t M,
    state: &'t TimerState,
    deadline: Deadline,
    /// Not for another CPU.
    local: PhantomData<*const ()>,
}

impl<'t, M: ApicBus> Timer<'t, M> {
    /// The timer of a CPU in x2APIC mode, with what is known of it.
    #[inline]
    pub const fn new(msrs: &'t M, state: &'t TimerState, deadline: Deadline) -> Self {
        Self {
            msrs,
            state,
            deadline,
            local: PhantomData,
        }
    }

    #[inline]
    const fn regs(&self) -> ApicRegs<'t, M> {
        ApicRegs(self.msrs)
    }

    /// By what the clock is divided, from the next count on.
    pub fn set_divide(&self, divide: Divide) {
        self.regs().divide().set(divide.get());
    }

    /// Fires once, after `count` counts; as soon as it can for 0.
    #[inline]
    pub fn one_shot(&self, count: u32) {
        self.set_mode(TimerMode::OneShot);
        self.regs().initial_count().set(count.max(1).into());
    }

    /// Fires each `count` counts, or so: some parts take one more.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0.
    pub fn periodic(&self, count: u32) -> Result<(), Error> {
        if count == 0 {
            return Err(Error::Invalid {
                what: "period of the timer",
                value: 0,
            });
        }
        self.set_mode(TimerMode::Periodic);
        self.regs().initial_count().set(count.into());
        Ok(())
    }

    /// Fires once, when the TSC has reached `tsc`: at once if it is there.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no TSC-deadline mode, or none that works.
    #[inline]
    pub fn deadline(&self, tsc: u64) -> Result<(), Error> {
        if self.deadline != Deadline::Works {
            return Err(NO_DEADLINE);
        }
        self.set_mode(TimerMode::Deadline);
        // 0 would disarm.
        self.regs().deadline().set(tsc.max(1));
        Ok(())
    }

    /// Disarms it in every mode: a count by 0, and a deadline by 0 too, since masking alone
    /// leaves it armed, and a count means nothing to it. An interrupt that waits already is
    /// still taken.
    pub fn stop(&self) {
        self.regs().initial_count().set(0);
        if self.deadline != Deadline::Absent {
            self.regs().deadline().set(0);
        }
    }

    /// What the count is now; 0 if it is not counting, and in TSC-deadline mode.
    pub fn current(&self) -> u32 {
        self.regs().current_count().get() as u32
    }

    /// Masks or unmasks it.
    pub fn set_masked(&self, masked: bool) {
        let entry = self.state.entry();
        self.write(if masked {
            entry.masked()
        } else {
            entry.unmasked()
        });
    }

    #[inline]
    fn set_mode(&self, mode: TimerMode) {
        if self.state.entry().mode() != Some(mode) {
            self.change_mode(mode);
        }
    }

    #[cold]
    fn change_mode(&self, mode: TimerMode) {
        self.stop();
        self.write(self.state.entry().with_mode(mode));
    }

    fn write(&self, entry: LvtEntry) {
        self.state.set(entry);
        self.regs().lvt(Lvt::Timer).set(entry.get());
    }
}

const NO_DEADLINE: Error = Error::Unsupported {
    feature: "TSC-deadline mode of the timer",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(hz: u64) -> Rate {
        Rate::new(NonZeroU64::new(hz).unwrap())
    }

    #[test]
    fn a_rate_rounds_up_to_one_count_and_saturates() {
        assert_eq!(rate(1_000_000_000).count(1_500), 1_500);
        assert_eq!(rate(24_000_000).count(1), 1);
        assert_eq!(rate(1_000_000_000).count(10_000_000_000), u32::MAX);
        assert_eq!(rate(u64::MAX).ticks(u64::MAX), u64::MAX);
    }

    #[test]
    fn dividers_are_those_of_the_manual() {
        let all = [Divide::By2, Divide::By4, Divide::By8, Divide::By16];
        assert_eq!(all.map(Divide::get), [0, 1, 2, 3]);
        let more = [Divide::By32, Divide::By64, Divide::By128, Divide::By1];
        assert_eq!(more.map(Divide::get), [8, 9, 10, 11]);
    }
}
