// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go, and interrupts that move between them: none lost, none doubled.
//!
//! # Vocabulary
//! - *place*: where a source delivers, of the driver's own type: a vector of a CPU, the CPU of an
//!   LPI, a XIVE target. The driver's side is a [`Mover`].
//! - *current* place: the one that the source points at; the CPU *serves* the interrupt.
//! - *old* place: one that it pointed at before. It *waits* while messages may be under way to
//!   it, is *due* when all have arrived, and is given back when nothing is pending there.
//! - *open* CPU: one on which places are taken.
//! - *managed*: the mask is fixed, and places are reserved on all its CPUs. When the last of them
//!   goes the interrupt is *shut*, and restarted when one returns. *Regular*: it moves on, outside
//!   of its mask if need be, and comes back when it is given an affinity again.
//! - *held*: the source is stopped, whatever its driver wants.
//!
//! # A move
//! ```text
//! take a place, note it           the lock is free from here on but for notes: one call at a
//! point the source at it          time has the interrupt, others get `Busy`
//! old place: waits, or is due     no second move until it is given back
//! first arrival at the new CPU    (without remapping: `arrived`, in the entry)
//! old CPU: pending there? later   (`clean`, from its tick)
//! give the old place back
//! ```
//!
//! # The order of a CPU's steps
//! Online, on the CPU or for it:
//! 1. the driver's own online call: the CPU can be rung and interrupted, and nothing that was
//!    pending when it went is left;
//! 2. [`Interrupts::cpu_online`](crate::Interrupts::cpu_online): IPIs and topology;
//! 3. [`Changes::online`]: places are taken on it, and interrupts that waited for it start.
//!
//! Offline, on the CPU, masked:
//! 1. [`Changes::offline`]: what must move fits elsewhere, or the call is refused; the CPU is
//!    closed; each interrupt moves, or is shut; what is under way arrives; what is pending is
//!    replayed where the interrupt is served; every old place on the CPU is given back;
//! 2. [`Interrupts::cpu_offline`](crate::Interrupts::cpu_offline): no IPI is sent to it, and no
//!    mask has it;
//! 3. the driver's own offline call, timers, power.
//!
//! # What it costs
//! Memory is had at construction: some 150 bytes per irq and 70 per CPU. A CPU that goes costs what the
//! interrupts that it serves and its old places cost, whatever the machine has besides: they are
//! lists through arrays. One that comes looks at those that are shut in the masks of its 64 CPUs,
//! and at those whose masks are in more. Nothing allocates.
//!
//! One lock of rank 4, a descriptor's, guards it: held for a few steps, never while the driver is
//! called, and nothing is taken under it. A caller may hold locks as far as the driver's own calls
//! allow.
//!
//! ```
//! use irq_core::cpu::OnCpu;
//! use irq_core::hotplug::{Hotplug, Mover, NewIrq, Served};
//! use irq_core::{Irq, IrqRange};
//! use irq_hal::{Error, Platform};
//!
//! fn bring_up<M: Mover>(platform: &dyn Platform, msis: &M) -> Result<Hotplug<M::Place>, Error> {
//!     let hotplug = Hotplug::new(8, IrqRange::new(Irq::new(64), 1024)?)?;
//!     let changes = hotplug.changes(platform, msis);
//!     changes.online(platform.this_cpu())?;
//!     changes.add(Irq::new(64), NewIrq::regular())?;
//!     assert_eq!(changes.start(Irq::new(64))?, Served::By(platform.this_cpu()));
//!     Ok(hotplug)
//! }
//!
//! /// On the CPU, masked.
//! fn goes<M: Mover>(hotplug: &Hotplug<M::Place>, platform: &dyn Platform, msis: &M, on: &OnCpu) -> Result<(), Error> {
//!     let offline = hotplug.changes(platform, msis).offline(on)?;
//!     irq_hal::irq_debug!("{} moved", offline.moved);
//!     Ok(())
//! }
//! ```

mod affinity;
mod changes;
mod claim;
mod clean;
mod cpus;
mod list;
mod mover;
mod state;

pub use affinity::Affinity;
pub use changes::{Changes, NewIrq, Removal, Served};
pub use cpus::{Offline, Online};
pub use mover::{Leaves, Mover, Wanted};

use core::fmt;

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::atomic::{AtomicBool, AtomicU32};
use irq_hal::heap::try_vec;
use irq_hal::lock::MaskedLock;
use irq_hal::{CpuIndex, Error, NoCpu, Platform};

use crate::cpu::bounded;
use crate::irq::{Irq, IrqRange};
use crate::placement::Class;
use changes::no_such;
use state::{Book, Phase, Shared, Stage, State};

/// Where the interrupts of a machine are served, and what they left behind.
///
/// One for each [`Mover`]. The numbers of CPUs and irqs are upper bounds.
pub struct Hotplug<P> {
    irqs: IrqRange,
    cpus: u32,
    shared: Shared,
    state: MaskedLock<State<P>, 4>,
}

/// An interrupt at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status<P> {
    /// Its class.
    pub class: Class,
    /// Where it is served, if it is.
    pub place: Option<P>,
    /// It is started, and waits for a CPU of its mask.
    pub shut: bool,
    /// It is served outside of its mask.
    pub broken: bool,
    /// It has a reservation.
    pub reserved: bool,
    /// Old places to which messages may be under way.
    pub waiting: u32,
    /// Old places that are to be given back.
    pub due: u32,
}

impl<P: Copy> Hotplug<P> {
    /// For the CPUs below `cpus`, all of them offline, and the numbers `irqs`, none of them in
    /// use. The only call that allocates.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `cpus` is 0 or more than [`MAX_CPUS`](crate::cpu::MAX_CPUS), or for
    /// more irqs than can be told apart; [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(cpus: u32, irqs: IrqRange) -> Result<Self, Error> {
        let count = bounded("number of CPUs", cpus)?;
        // Each has three places, numbered in a `u32` of which one value is none of them.
        if irqs.count() >= u32::MAX / state::PLACES {
            return Err(Error::Invalid {
                what: "number of irqs",
                value: u64::from(irqs.count()),
            });
        }
        let mut watched = try_vec(irqs.count() as usize)?;
        watched.extend((0..irqs.count()).map(|_| AtomicBool::new(false)));
        let mut due = try_vec(count)?;
        due.extend((0..count).map(|_| AtomicU32::new(0)));
        Ok(Self {
            irqs,
            cpus,
            shared: Shared { watched, due },
            state: MaskedLock::new(State::new(cpus, irqs.count())?),
        })
    }

    /// The calls that change something.
    pub fn changes<'a, M>(&'a self, platform: &'a dyn Platform, mover: &'a M) -> Changes<'a, M>
    where
        M: Mover<Place = P> + ?Sized,
    {
        Changes {
            hotplug: self,
            platform,
            mover,
        }
    }

    /// The numbers that it is for.
    pub const fn irqs(&self) -> IrqRange {
        self.irqs
    }

    /// The number of possible CPUs.
    pub const fn cpus(&self) -> u32 {
        self.cpus
    }

    /// How `irq` stands.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`], also while it is being removed.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, as for the calls that follow.
    pub fn status(&self, platform: &dyn Platform, irq: Irq) -> Result<Status<P>, Error> {
        let at = self.at(irq)?;
        self.with(platform, |book| {
            let place = book.current(at);
            let waiting = book.count(at, Stage::Waiting);
            let due = book.left(at) - waiting;
            let record = book.record(at);
            if matches!(record.phase, Phase::Vacant | Phase::Ending) {
                return Err(no_such(irq));
            }
            Ok(Status {
                class: record.class,
                place,
                shut: record.phase == Phase::Shut,
                broken: record.broken,
                reserved: record.reserved,
                waiting,
                due,
            })
        })
    }

    /// How many interrupts `cpu` serves.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    pub fn served(&self, platform: &dyn Platform, cpu: CpuIndex) -> Result<u32, Error> {
        self.possible(cpu)?;
        Ok(self.with(platform, |book| book.lengths(cpu)[0]))
    }

    /// The interrupt behind `after` of those that `cpu` serves, or the first; nothing if there
    /// is none, or if `after` has moved away.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::NoSuchIrq`].
    pub fn next_served(
        &self,
        platform: &dyn Platform,
        cpu: CpuIndex,
        after: Option<Irq>,
    ) -> Result<Option<Irq>, Error> {
        self.possible(cpu)?;
        let after = after.map(|irq| self.at(irq)).transpose()?;
        let next = self.with(platform, |book| match after {
            Some(at) => book.served_after(cpu, at),
            None => book.first_served(cpu),
        });
        Ok(next.map(|at| self.irq(at)))
    }

    /// How many old places `cpu` has: to which messages may be under way, and that are to be
    /// given back.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    pub fn old_places(&self, platform: &dyn Platform, cpu: CpuIndex) -> Result<[u32; 2], Error> {
        self.possible(cpu)?;
        let [_, waiting, due] = self.with(platform, |book| book.lengths(cpu));
        Ok([waiting, due])
    }

    /// Whether [`Changes::clean`] has something to do on `cpu`: one load, for a tick.
    ///
    /// # Context
    /// Any.
    pub fn is_due(&self, cpu: CpuIndex) -> bool {
        self.due(cpu) != 0
    }

    fn due(&self, cpu: CpuIndex) -> u32 {
        let due = self.shared.due.get(cpu.index());
        due.map_or(0, |due| due.load(Relaxed))
    }

    fn with<R>(&self, platform: &dyn Platform, f: impl FnOnce(&mut Book<'_, P>) -> R) -> R {
        self.state.with(platform, |state| {
            f(&mut Book {
                state,
                shared: &self.shared,
            })
        })
    }

    fn at(&self, irq: Irq) -> Result<u32, Error> {
        self.irqs.offset(irq).ok_or(no_such(irq))
    }

    fn irq(&self, at: u32) -> Irq {
        Irq::new(self.irqs.first().get() + at)
    }

    fn possible(&self, cpu: CpuIndex) -> Result<(), Error> {
        match cpu.get() < self.cpus {
            true => Ok(()),
            false => Err(Error::NoSuchCpu { cpu }),
        }
    }

    /// Whether an interrupt can have `affinity`.
    fn usable(&self, affinity: &Affinity) -> Result<(), Error> {
        affinity.bounded(self.cpus)?;
        match affinity.is_empty() {
            true => Err(NoCpu::EmptyMask.into()),
            false => Ok(()),
        }
    }
}

impl<P> fmt::Debug for Hotplug<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hotplug")
            .field("irqs", &self.irqs)
            .field("cpus", &self.cpus)
            .finish_non_exhaustive()
    }
}
