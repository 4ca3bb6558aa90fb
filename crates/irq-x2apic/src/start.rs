// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting other CPUs: INIT and start (SIPI) to one, or to many at once.
//!
//! ```text
//! INIT to all of them, a pause, start to all, a short pause,
//! start again to those that are not alive, a long wait for all
//! ```
//! (Intel SDM vol. 3, "Typical AP Initialization Sequence".) A CPU begins in real mode at the
//! first byte of the page, its local APIC disabled by software, in the mode it was in before. It
//! finds out who it is by [`cpuid::apic_id`](crate::cpuid::apic_id). Nobody gets a second INIT:
//! that would reset a CPU that runs.

use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Error, Platform};
use thiserror::Error as ThisError;

use crate::id::ApicId;
use crate::ipi::Command;
use crate::local_apic::LocalApic;
use crate::regs::apic::ApicBus;

/// The number of a page of real-mode code, below A_0000H: above are video memory and ROM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Page(u8);

impl Page {
    /// The page at the physical address `at`, in bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not on a page's border, or not below A_0000H.
    pub const fn new(at: u64) -> Result<Self, Error> {
        if at.is_multiple_of(0x1000) && at < 0xa_0000 {
            Ok(Self((at >> 12) as u8))
        } else {
            Err(Error::Invalid {
                what: "page of real-mode code",
                value: at,
            })
        }
    }

    /// The page's number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// How long to wait, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Delays {
    /// From INIT to start.
    pub init: u32,
    /// From the first start to the second one.
    pub start: u32,
    /// For the CPUs to be alive.
    pub alive: u32,
}

impl Default for Delays {
    /// For CPUs with x2APIC mode, which want nearly none.
    fn default() -> Self {
        Self {
            init: 200,
            start: 200,
            alive: 5_000_000,
        }
    }
}

/// Why CPUs are not there.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StartError {
    /// The CPU that starts the others is among them: INIT would reset it. Nothing was sent.
    #[error("the CPU with APIC id {id} cannot start itself")]
    Myself {
        /// Its id.
        id: ApicId,
    },
    /// CPUs that never answered.
    #[error("the CPU with APIC id {id} does not answer, {silent} in all")]
    Silent {
        /// The first of them.
        id: ApicId,
        /// How many there are.
        silent: u32,
    },
    /// Not all CPUs that were to come answered, after a start of all others.
    #[error("not all of the other CPUs answer")]
    Missing,
    /// The local APIC of this CPU has no id.
    #[error(transparent)]
    Hardware(#[from] Error),
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Myself { id } => Error::Invalid {
                what: "APIC id to start",
                value: id.get().into(),
            },
            StartError::Silent { id, .. } => Error::NoUnitForCpu {
                block: "answer to a start",
                id: id.get().into(),
            },
            StartError::Missing => Error::Timeout {
                what: &ALIVE,
                last: 0,
            },
            StartError::Hardware(error) => error,
        }
    }
}

static PAUSE: WaitFor = WaitFor {
    register: "clock",
    state: "end of a pause",
};
static ALIVE: WaitFor = WaitFor {
    register: "flag of the started CPUs",
    state: "alive",
};

/// Polls a microsecond may hold at most: the bound where the clock stands still.
const POLLS_PER_MICRO: u32 = 100;

/// Starts other CPUs from the one that runs, whose local APIC is up.
#[derive(Debug)]
pub struct Starter<'s, P, M> {
    platform: &'s P,
    apic: &'s LocalApic<M>,
    page: Page,
    delays: Delays,
}

impl<'s, P: Platform, M: ApicBus> Starter<'s, P, M> {
    /// CPUs are to begin at the first byte of `page`.
    ///
    /// # Safety
    /// - `page` holds code that is right for a CPU that begins there in real mode, and for as
    ///   many at once as are started, from now until all of them have left it, also those that
    ///   answer late.
    pub const unsafe fn new(
        platform: &'s P,
        apic: &'s LocalApic<M>,
        page: Page,
        delays: Delays,
    ) -> Self {
        Self {
            platform,
            apic,
            page,
            delays,
        }
    }

    /// Starts `cpus`, all at once. `alive` says whether one has arrived: the embedder's own
    /// flag, which the CPU sets.
    ///
    /// # Errors
    /// [`StartError::Myself`], with nothing sent; [`StartError::Silent`]: the others are alive,
    /// and one that is late may still come.
    ///
    /// # Context
    /// Any, on a CPU whose local APIC is up. Waits, bounded. CPUs that firmware says are absent,
    /// or that run, must not be among `cpus`.
    pub fn start(
        &self,
        cpus: &[ApicId],
        mut alive: impl FnMut(ApicId) -> bool,
    ) -> Result<(), StartError> {
        let own = self.apic.id()?;
        if cpus.contains(&own) {
            return Err(StartError::Myself { id: own });
        }
        for cpu in cpus {
            self.apic.send(Command::init(*cpu));
        }
        self.pause(self.delays.init);
        for cpu in cpus {
            self.apic.send(Command::startup(*cpu, self.page));
        }
        self.pause(self.delays.start);
        for cpu in cpus {
            if !alive(*cpu) {
                self.apic.send(Command::startup(*cpu, self.page));
            }
        }
        // From the first that was not there at the last look on.
        let mut arrived = 0;
        let everybody = self.wait_for(|| {
            while let Some(cpu) = cpus.get(arrived) {
                if !alive(*cpu) {
                    return false;
                }
                arrived += 1;
            }
            true
        });
        if everybody {
            return Ok(());
        }
        let mut silent = cpus.iter().filter(|cpu| !alive(**cpu));
        match silent.next() {
            None => Ok(()),
            Some(first) => Err(StartError::Silent {
                id: *first,
                silent: 1 + silent.count() as u32,
            }),
        }
    }

    /// Starts every other CPU, whether firmware names it or not, by two writes in all. `alive`
    /// says whether all that are to come have.
    ///
    /// Only for machines where every CPU that is there is to run, and none does yet: it reaches
    /// those that firmware has switched off, too.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    ///
    /// # Context
    /// As for [`start`](Self::start).
    pub fn start_all_others(&self, mut alive: impl FnMut() -> bool) -> Result<(), StartError> {
        self.apic.send(Command::init_all_others());
        self.pause(self.delays.init);
        self.apic.send(Command::startup_all_others(self.page));
        self.pause(self.delays.start);
        if !alive() {
            self.apic.send(Command::startup_all_others(self.page));
        }
        match self.wait_for(alive) {
            true => Ok(()),
            false => Err(StartError::Missing),
        }
    }

    fn bound(&self, micros: u32) -> Bound {
        let polls = micros.saturating_mul(POLLS_PER_MICRO).max(1);
        Bound::new(self.platform, micros, polls)
    }

    /// Lets `micros` microseconds pass.
    fn pause(&self, micros: u32) {
        // That it never ends otherwise is what a pause is.
        let _ = wait(
            self.platform,
            &PAUSE,
            self.bound(micros),
            || 0_u64,
            |_| false,
        );
    }

    /// Whether `done` came to say yes.
    fn wait_for(&self, mut done: impl FnMut() -> bool) -> bool {
        let read = || u64::from(done());
        let bound = self.bound(self.delays.alive);
        wait(self.platform, &ALIVE, bound, read, |all| all != 0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_aligned_and_below_video_memory() {
        assert_eq!(Page::new(0x8000).map(Page::get), Ok(8));
        assert_eq!(Page::new(0x9_f000).map(Page::get), Ok(0x9f));
        assert_eq!(Page::new(0).map(Page::get), Ok(0));
        for at in [0x8001, 0x8800, 0xa_0000, 0x10_0000, u64::MAX << 12] {
            let refused = Error::Invalid {
                what: "page of real-mode code",
                value: at,
            };
            assert_eq!(Page::new(at), Err(refused));
        }
    }
}
