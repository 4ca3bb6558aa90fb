// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distributor: shared interrupts, one block for the machine.
//!
//! ```text
//! new      reads PIDR2, IIDR, TYPER, CTLR; refuses; writes nothing
//! init     CTLR: keep only ARE as found, RWP; ARE alone, RWP; SPIs and extended SPIs: disable,
//!          RWP, deactivate, Group 1, level, priority, route; CTLR: EnableGrp1, RWP
//! mask     ICENABLER, wait RWP      unmask   ISENABLER
//! ```
//!
//! The block owns the leaf lock (rank 5) that its calls take, so a `Distributor` can be shared
//! as it is. IHI 0069, "The GIC Distributor register map"; "Affinity routing".

mod lines;
mod state;

pub(crate) use lines::write_trigger;
pub(crate) use state::read_state;

use alloc::vec::Vec;

use irq_hal::lock::MaskedLock;
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Error, Mmio, Platform, irq_debug};
use tock_registers::LocalRegisterCopy;
use tock_registers::interfaces::{ReadWriteable, Readable, Writeable};

use crate::affinity::Route;
use crate::error::ProbeError;
use crate::intid::{Kind, SPIS_MAX};
use crate::priority::{Priority, PriorityView};
use crate::quirks::{Block, Effects, Quirks};
use crate::regs::bank::{Bank, BankRegs};
use crate::regs::gicd::{GICD_CTLR, GICD_TYPER, Gicd};
use crate::regs::{FRAME, Frame, arch_revision};

/// Bounds of a wait for the distributor or a redistributor: 100 ms, or a million polls.
///
/// The architecture names no bound; 100 ms is our choice: room for a unit that is powered up and
/// for a virtual CPU that is not run meanwhile, and short enough to be waited out masked and under
/// a leaf lock. The polls end it where the clock stands still.
pub(crate) fn bound<P: Platform + ?Sized>(platform: &P) -> Bound {
    Bound::new(platform, 100_000, 1_000_000)
}

static RWP: WaitFor = WaitFor {
    register: "GICD_CTLR",
    state: "RWP=0",
};

/// What the distributor has, as its registers say and quirks correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Features {
    /// The architecture's revision: 3 or 4.
    pub revision: u32,
    /// `GICD_IIDR`.
    pub iidr: u32,
    /// `GICD_TYPER`, corrected.
    pub typer: u32,
    /// One security state (`GICD_CTLR.DS`); settled by [`Distributor::init`].
    pub one_security_state: bool,
    /// How many SPIs there are.
    pub spis: u32,
    /// How many extended SPIs there are.
    pub espis: u32,
    /// Whether an SPI may go to "any CPU".
    pub any_cpu: bool,
    /// Whether SGIs may use the range selector, as far as the distributor is concerned.
    pub range_selector: bool,
    /// Whether Aff3 may be other than 0 in a route.
    pub aff3: bool,
    /// What quirks of the distributor and of the machine change.
    pub effects: Effects,
}

/// What [`Distributor::init`] gives to every shared interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The priority.
    pub priority: Priority,
    /// Whether Group 0 is ours, as the CPU interface shows
    /// ([`CpuFeatures::group0`](crate::cpu_interface::CpuFeatures)); it decides the priority view.
    pub group0: bool,
    /// Where it goes.
    pub route: Route,
}

/// The distributor over its window.
#[derive(Debug)]
pub struct Distributor<B = Mmio> {
    regs: Gicd<B>,
    lock: MaskedLock<(), 5>,
    features: Features,
    aliases: Vec<B>,
}

impl<B: Frame> Distributor<B> {
    /// Looks at the distributor in the window `bus`, which begins at `GICD_CTLR`. Only reads.
    ///
    /// # Errors
    /// [`ProbeError::WindowTooShort`] before anything is touched; [`ProbeError::NotGicv3`].
    ///
    /// # Context
    /// Any.
    pub fn new(bus: B, quirks: &Quirks<'_>) -> Result<Self, ProbeError> {
        check_window(&bus)?;
        let regs = Gicd { bus };
        let pidr2 = regs.pidr2().get();
        let revision = arch_revision(pidr2).ok_or(ProbeError::NotGicv3 {
            register: "GICD_PIDR2",
            value: pidr2,
        })?;
        let iidr = regs.iidr().get();
        let effects = quirks.effects(Block::Distributor, iidr) | quirks.machine_effects();
        let features = Features::read(&regs, revision, iidr, effects);
        irq_debug!(
            "gicv3: GICD revision {} iidr {:#x} typer {:#x}",
            revision,
            iidr,
            features.typer
        );
        Ok(Self {
            regs,
            lock: MaskedLock::new(()),
            features,
            aliases: Vec::new(),
        })
    }

    /// Adds the windows through which each chip's share of the SPI state is read, in the order
    /// of chips, for machines with [`Effects::STATE_ALIASED`]. Without them such a machine
    /// answers reads of state with an error.
    pub fn with_state_aliases(mut self, aliases: Vec<B>) -> Self {
        self.aliases = aliases;
        self
    }

    /// Takes the distributor over from whoever had it: disables it, sets every shared
    /// interrupt up masked, inactive, level and Group 1, and enables Group 1.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it stays busy; [`Error::Refused`] if affinity routing does not
    /// stick. Before anything is written, [`Error::Invalid`] for a priority that this view does
    /// not have, and those of [`check_route`](Self::check_route).
    ///
    /// # Context
    /// Once, before any CPU takes an interrupt.
    pub fn init<P>(&mut self, platform: &P, setup: &Setup) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        // Before the first store. A quirk may settle on one security state below, whose view
        // has every priority.
        self.priority_value(setup)?;
        self.check_route(setup.route)?;
        self.quiesce(platform)?;
        self.affinity_routing(platform)?;
        let priority = self.priority_value(setup)?;
        self.set_up(platform, priority, setup.route)?;
        self.regs.ctlr().modify(GICD_CTLR::EnableGrp1::SET);
        self.wait_rwp(platform)
    }

    fn priority_value(&self, setup: &Setup) -> Result<u8, Error> {
        let view = PriorityView::of(self.features.one_security_state, setup.group0);
        view.distributor_value(setup.priority)
            .ok_or(Error::Invalid {
                what: "priority",
                value: u64::from(setup.priority.get()),
            })
    }

    /// Disables all groups. ARE stays as found: clearing it is UNPREDICTABLE.
    fn quiesce<P: Platform + ?Sized>(&mut self, platform: &P) -> Result<(), Error> {
        let ctlr = self.regs.ctlr();
        let keep = GICD_CTLR::ARE::SET + GICD_CTLR::ARE_NS::SET + GICD_CTLR::DS::SET;
        ctlr.set(ctlr.get() & keep.mask());
        self.wait_rwp(platform)?;
        if self.features.effects.contains(Effects::SET_DS) && !ctlr.is_set(GICD_CTLR::DS) {
            ctlr.modify(GICD_CTLR::DS::SET);
            self.wait_rwp(platform)?;
        }
        self.features.one_security_state = ctlr.is_set(GICD_CTLR::DS);
        Ok(())
    }

    /// Sets ARE, alone, while all groups are off.
    fn affinity_routing<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        let ctlr = self.regs.ctlr();
        if !ctlr.is_set(GICD_CTLR::ARE) {
            ctlr.modify(GICD_CTLR::ARE::SET);
            self.wait_rwp(platform)?;
        }
        let now = ctlr.get();
        if now & GICD_CTLR::ARE::SET.mask() == 0 {
            return Err(Error::Refused {
                register: "GICD_CTLR",
                value: u64::from(now),
            });
        }
        Ok(())
    }

    fn set_up<P>(&self, platform: &P, priority: u8, route: Route) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let first = Kind::Spi.first() as usize;
        let spis = (&Bank::SPI, first, first + self.features.spis as usize);
        let espis = (&Bank::ESPI, 0, self.features.espis as usize);
        for (bank, from, to) in [spis, espis] {
            let regs = BankRegs::new(&self.regs.bus, bank);
            for word in from / 32..to.div_ceil(32) {
                // The last word of SPIs ends before the special INTIDs.
                let present = u32::MAX >> (32 * (word + 1) - to.min(32 * (word + 1)));
                regs.icenabler(word).write_ones(present);
            }
        }
        self.wait_rwp(platform)?;
        for (bank, from, to) in [spis, espis] {
            let regs = BankRegs::new(&self.regs.bus, bank);
            for word in from / 32..to.div_ceil(32) {
                let present = u32::MAX >> (32 * (word + 1) - to.min(32 * (word + 1)));
                regs.icactiver(word).write_ones(present);
                if self.features.one_security_state {
                    // IGRPMODR is RAZ/WI then.
                    regs.igroupr(word).set(present);
                }
            }
            for word in from / 16..to.div_ceil(16) {
                regs.icfgr(word).set(0);
            }
            for word in from / 4..to / 4 {
                regs.ipriorityr(word).set(u32::from_ne_bytes([priority; 4]));
            }
            for index in from..to {
                if let Some(router) = regs.irouter(index) {
                    router.set(route.irouter());
                }
            }
        }
        Ok(())
    }

    fn wait_rwp<P: Platform + ?Sized>(&self, platform: &P) -> Result<(), Error> {
        let ctlr = self.regs.ctlr();
        wait(
            platform,
            &RWP,
            bound(platform),
            || ctlr.get(),
            |value| value & GICD_CTLR::RWP::SET.mask() == 0,
        )?;
        Ok(())
    }

    /// What the distributor has.
    pub const fn features(&self) -> &Features {
        &self.features
    }

    /// `GICD_TYPER2`, on a v4 distributor that may be asked for it.
    pub fn typer2(&self) -> Option<u32> {
        let asks =
            self.features.revision >= 4 && !self.features.effects.contains(Effects::NO_TYPER2);
        asks.then(|| self.regs.typer2().get())
    }

    /// Runs `f` on the registers with the lock held and interrupts masked: for code that shares
    /// registers with this driver, such as the emulation of a distributor for guests.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. `f` calls nothing of this value: the lock is not
    /// reentrant.
    pub fn with<P, R>(&self, platform: &P, f: impl FnOnce(&Gicd<B>) -> R) -> R
    where
        P: Platform + ?Sized,
    {
        self.lock.with(platform, |()| f(&self.regs))
    }
}

/// Refuses a window that does not cover the frame; touches nothing.
pub(crate) fn check_window<B: Frame>(bus: &B) -> Result<(), ProbeError> {
    let len = bus.extent();
    if len < FRAME {
        return Err(ProbeError::WindowTooShort {
            block: "GICD",
            len,
            need: FRAME,
        });
    }
    Ok(())
}

impl Features {
    fn read<B: Frame>(regs: &Gicd<B>, revision: u32, iidr: u32, effects: Effects) -> Self {
        let mut typer: LocalRegisterCopy<u32, GICD_TYPER::Register> = regs.typer().extract();
        if effects.contains(Effects::NO_ESPI) && typer.is_set(GICD_TYPER::ESPI) {
            typer.modify(GICD_TYPER::ESPI::CLEAR + GICD_TYPER::NMI::CLEAR);
        }
        let espis = if typer.is_set(GICD_TYPER::ESPI) {
            32 * (typer.read(GICD_TYPER::ESPI_range) + 1)
        } else {
            0
        };
        Self {
            revision,
            iidr,
            typer: typer.get(),
            one_security_state: regs.ctlr().is_set(GICD_CTLR::DS),
            spis: (32 * typer.read(GICD_TYPER::ITLinesNumber)).min(SPIS_MAX),
            espis,
            any_cpu: !typer.is_set(GICD_TYPER::No1N),
            range_selector: typer.is_set(GICD_TYPER::RSS),
            aff3: typer.is_set(GICD_TYPER::A3V),
            effects,
        }
    }
}
