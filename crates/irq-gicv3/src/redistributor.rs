// SPDX-License-Identifier: MIT OR Apache-2.0
//! A redistributor: one CPU's private interrupts, and its way to the rest of the machine.
//!
//! ```text
//! Asleep --wake-->  Awake          power: wait GPD=GPO, PWRR=0, until RDPD=0 (some parts)
//!                                  WAKER.ProcessorSleep=0, until ChildrenAsleep=0
//! Asleep <--sleep-- Awake          WAKER.ProcessorSleep=1, until ChildrenAsleep=1
//! ```
//! A redistributor is not to be programmed before its own CPU woke it. Calls on one of them
//! that change it are for one CPU at a time; [`Gic`](crate::Gic) holds a leaf lock for each.
//! IHI 0069, "The GIC Redistributor register map"; "GICR_WAKER".

mod map;
mod private;

use core::marker::PhantomData;

use irq_hal::wait::{WaitFor, wait};
use irq_hal::{Error, Mmio, Platform};
use tock_registers::interfaces::{ReadWriteable, Readable, Writeable};

use crate::distributor::bound;
use crate::error::ProbeError;
use crate::quirks::{Block, Effects, Quirks};
use crate::regs::gicr::{GICR_PWRR, GICR_TYPER, GICR_WAKER, Gicr, Typer};
use crate::regs::{FRAME, Frame, arch_revision};

pub use map::RedistributorMap;
pub(crate) use map::{Place, check_windows};

static POWER_STABLE: WaitFor = WaitFor {
    register: "GICR_PWRR",
    state: "RDGPD=RDGPO, RDPD=0",
};
static AWAKE: WaitFor = WaitFor {
    register: "GICR_WAKER",
    state: "ChildrenAsleep=0",
};
static ASLEEP: WaitFor = WaitFor {
    register: "GICR_WAKER",
    state: "ChildrenAsleep=1",
};

/// State: its CPU has not woken it.
#[derive(Clone, Copy, Debug)]
pub struct Asleep;

/// State: it delivers to its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Awake;

/// What a redistributor has, as its registers say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Features {
    /// `GICR_TYPER`.
    pub typer: u64,
    /// How many extended PPIs: 0, 32 or 64.
    pub eppis: u32,
    /// What quirks of the redistributor and of the machine change.
    pub effects: Effects,
}

impl Features {
    fn new(typer: Typer, effects: Effects) -> Self {
        // Other values are reserved: no extended PPI is safe to touch then.
        let eppis = match typer.read(GICR_TYPER::PPInum) {
            1 => 32,
            2 => 64,
            _ => 0,
        };
        Self {
            typer: typer.get(),
            eppis,
            effects,
        }
    }
}

/// A redistributor over a window that begins at its `RD_base`.
#[derive(Debug)]
pub struct Redistributor<B = Mmio, S = Awake> {
    regs: Gicr<B>,
    features: Features,
    state: PhantomData<S>,
}

impl<B: Frame> Redistributor<B, Asleep> {
    /// The redistributor in the window `bus`. Only reads.
    ///
    /// # Errors
    /// [`ProbeError::WindowTooShort`] before anything is touched; [`ProbeError::NotGicv3`].
    pub fn new(bus: B, quirks: &Quirks<'_>) -> Result<Self, ProbeError> {
        let len = bus.extent();
        if len < 2 * FRAME {
            return Err(ProbeError::WindowTooShort {
                block: "GICR",
                len,
                need: 2 * FRAME,
            });
        }
        let regs = Gicr { bus };
        let pidr2 = regs.pidr2().get();
        if arch_revision(pidr2).is_none() {
            return Err(ProbeError::NotGicv3 {
                register: "GICR_PIDR2",
                value: pidr2,
            });
        }
        let effects =
            quirks.effects(Block::Redistributor, regs.iidr().get()) | quirks.machine_effects();
        let features = Features::new(regs.typer().extract(), effects);
        Ok(Self::known(regs.bus, features))
    }

    fn known(bus: B, features: Features) -> Self {
        Self {
            regs: Gicr { bus },
            features,
            state: PhantomData,
        }
    }

    /// Powers it up where that is needed, and wakes it. One that is awake already, or whose
    /// handshake belongs to the secure side and reads as zero, is a success.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it never powers up or its children never leave sleep; the state
    /// comes back and the call can be repeated.
    ///
    /// # Context
    /// On its own CPU, before that CPU's interface is enabled. Waits, bounded.
    pub fn wake<P>(self, platform: &P) -> Result<Redistributor<B, Awake>, (Self, Error)>
    where
        P: Platform + ?Sized,
    {
        match self
            .power_up(platform)
            .and_then(|()| self.leave_sleep(platform))
        {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err((self, error)),
        }
    }

    /// Each poll writes again while the unit is down and its group is not on the move: a write
    /// during the move is lost.
    fn power_up<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        if !self.features.effects.contains(Effects::POWER) {
            return Ok(());
        }
        let pwrr = self.regs.pwrr();
        let stable = |value: u32| GICR_PWRR::RDGPD.read(value) == GICR_PWRR::RDGPO.read(value);
        let poll = || {
            let value = pwrr.get();
            if stable(value) && GICR_PWRR::RDPD.is_set(value) {
                pwrr.set(0);
                return pwrr.get();
            }
            value
        };
        wait(platform, &POWER_STABLE, bound(platform), poll, |value| {
            stable(value) && !GICR_PWRR::RDPD.is_set(value)
        })?;
        Ok(())
    }

    fn leave_sleep<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        if self.features.effects.contains(Effects::NO_WAKER) {
            return Ok(());
        }
        let waker = self.regs.waker();
        let now = waker.get();
        if GICR_WAKER::ProcessorSleep.is_set(now) {
            if !GICR_WAKER::ChildrenAsleep.is_set(now) {
                // A sleep that was given up on comes to its end first.
                wait(
                    platform,
                    &ASLEEP,
                    bound(platform),
                    || waker.get(),
                    |value| GICR_WAKER::ChildrenAsleep.is_set(value),
                )?;
            }
            waker.modify(GICR_WAKER::ProcessorSleep::CLEAR);
        }
        wait(
            platform,
            &AWAKE,
            bound(platform),
            || waker.get(),
            |value| !GICR_WAKER::ChildrenAsleep.is_set(value),
        )?;
        Ok(())
    }

    /// The redistributor as one that its CPU woke before: for a driver that keeps the state
    /// elsewhere.
    pub(crate) fn assume_awake(self) -> Redistributor<B, Awake> {
        self.into_state()
    }
}

impl<B: Frame> Redistributor<B, Awake> {
    /// Puts it to sleep: it keeps pending interrupts and asks for a wake-up from now on.
    /// Hardware without power management does not take the request; that is a success.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it takes the request and its children never go to sleep.
    ///
    /// # Context
    /// On its own CPU, after that CPU's interface is off
    /// ([`CpuInterface::disable`](crate::CpuInterface::disable)): with a group enabled this is
    /// UNPREDICTABLE.
    pub fn sleep<P>(self, platform: &P) -> Result<Redistributor<B, Asleep>, (Self, Error)>
    where
        P: Platform + ?Sized,
    {
        match self.enter_sleep(platform) {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err((self, error)),
        }
    }

    fn enter_sleep<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        if self.features.effects.contains(Effects::NO_WAKER) {
            return Ok(());
        }
        let waker = self.regs.waker();
        waker.modify(GICR_WAKER::ProcessorSleep::SET);
        if !waker.is_set(GICR_WAKER::ProcessorSleep) {
            return Ok(());
        }
        wait(
            platform,
            &ASLEEP,
            bound(platform),
            || waker.get(),
            |value| GICR_WAKER::ChildrenAsleep.is_set(value),
        )?;
        Ok(())
    }
}

impl<B, S> Redistributor<B, S> {
    fn into_state<T>(self) -> Redistributor<B, T> {
        Redistributor {
            regs: self.regs,
            features: self.features,
            state: PhantomData,
        }
    }

    /// What it has.
    pub const fn features(&self) -> &Features {
        &self.features
    }
}
