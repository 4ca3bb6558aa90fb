// SPDX-License-Identifier: MIT OR Apache-2.0
//! One source: its state, its end, its trigger.
//!
//! | P Q | | a trigger | an end |
//! |---|---|---|---|
//! | 0 0 | idle | is forwarded: 1 0 | nothing |
//! | 1 0 | an event is under way | 1 1 | 0 0 |
//! | 1 1 | and another one came | nothing: any number are one | is forwarded: 1 0 |
//! | 0 1 | off | is dropped | nothing |
//!
//! How a source is ended is settled once, by its flags: [`Eoi`]. A load that gives all ones went
//! nowhere (a device's bridge that was fenced off): the source is dead, and idle for us.

use irq_hal::bus::BigEndian;
use irq_hal::{Barrier, Bus, Error};

use crate::firmware::Window;
use crate::opal::{Flags, SourceInfo};
use crate::regs::esb::{FRAME, GET, LOAD_EOI, ORDERED, P, Q, SET_PQ_00, STORE_EOI, TRIGGER};

/// The state of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pq {
    /// An event was forwarded and is not ended.
    pub p: bool,
    /// Another event came since; or, without `p`, the source is off.
    pub q: bool,
}

impl Pq {
    /// Idle.
    pub const RESET: Self = Self { p: false, q: false };
    /// Off.
    pub const OFF: Self = Self { p: false, q: true };
    /// One event is under way, and further ones are kept.
    pub const PENDING: Self = Self { p: true, q: false };
    /// One is under way and one is kept.
    pub const QUEUED: Self = Self { p: true, q: true };

    /// What a load gave; nothing if it is all ones.
    #[inline(always)]
    const fn of(word: u64) -> Option<Self> {
        if word == u64::MAX {
            return None;
        }
        Some(Self {
            p: word & P != 0,
            q: word & Q != 0,
        })
    }

    /// The offset of the load that sets this state.
    #[inline(always)]
    const fn set_offset(self) -> usize {
        SET_PQ_00 + 0x200 * self.p as usize + 0x100 * self.q as usize
    }
}

/// How a source is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Eoi {
    /// By a store.
    Store,
    /// By a load, which also looks at the source's line.
    Load,
    /// By setting the state to idle, and a trigger if Q was set.
    SetPq,
    /// By a call of firmware.
    Firmware,
}

impl Eoi {
    /// How a source with these flags is ended. `raisable` says that it has a trigger page.
    ///
    /// A store is used where the flag of POWER10 says so. That of old POWER9 firmware is not
    /// trusted: its stores need a synchronization after each, and some sources lose them.
    pub const fn of(flags: Flags, raisable: bool) -> Self {
        if flags.contains(Flags::EOI_BY_FIRMWARE) {
            Self::Firmware
        } else if flags.contains(Flags::STORE_EOI) {
            Self::Store
        } else if flags.contains(Flags::LSI) || !raisable {
            Self::Load
        } else {
            Self::SetPq
        }
    }
}

/// Where a source is triggered.
#[derive(Debug)]
enum Trigger<W> {
    /// On the page of its ends.
    Same,
    Own(BigEndian<W>),
    /// Not by software.
    None,
}

/// The pages of a source.
#[derive(Debug)]
pub struct Esb<W> {
    eoi_page: BigEndian<W>,
    trigger: Trigger<W>,
    eoi: Eoi,
    lsi: bool,
    /// What the offsets of loads have added.
    ordered: usize,
}

impl<W: Window> Esb<W> {
    /// The source that `info` describes, with its pages mapped by `map`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for the workarounds of early POWER9 (shifted offsets, masking by
    /// firmware); [`Error::TooSmall`]; those of `map`.
    ///
    /// # Context
    /// Where `map` may be called. Touches no hardware.
    pub fn new(
        info: &SourceInfo,
        mut map: impl FnMut(irq_hal::PhysAddr, usize) -> Result<W, Error>,
    ) -> Result<Self, Error> {
        let unsupported = |feature| Err(Error::Unsupported { feature });
        if info.flags.contains(Flags::SHIFT_BUG) {
            return unsupported("a source with shifted offsets (early POWER9)");
        }
        if info.flags.contains(Flags::MASK_BY_FIRMWARE) {
            return unsupported("a source that firmware masks (early POWER9)");
        }
        let mut page = |at| {
            let window = map(at, info.page)?;
            let len = window.extent();
            if len < FRAME {
                return Err(Error::TooSmall {
                    what: "page of a source",
                    len,
                    need: FRAME,
                });
            }
            Ok(BigEndian(window))
        };
        let eoi_page = page(info.eoi_page)?;
        let trigger = match info.trigger_page {
            None => Trigger::None,
            Some(at) if at == info.eoi_page => Trigger::Same,
            Some(at) => Trigger::Own(page(at)?),
        };
        let eoi = Eoi::of(info.flags, info.trigger_page.is_some());
        let store = info.flags.contains(Flags::STORE_EOI);
        Ok(Self {
            eoi_page,
            trigger,
            eoi,
            lsi: info.flags.contains(Flags::LSI),
            ordered: if store { ORDERED } else { 0 },
        })
    }

    /// How it is ended.
    pub const fn eoi(&self) -> Eoi {
        self.eoi
    }

    /// Whether a line raises it.
    pub const fn is_lsi(&self) -> bool {
        self.lsi
    }

    /// Whether software can raise it.
    pub const fn is_raisable(&self) -> bool {
        !matches!(self.trigger, Trigger::None)
    }

    /// The barriers of its pages.
    #[inline(always)]
    pub fn barrier(&self) -> &impl Barrier {
        &self.eoi_page
    }

    /// An ordered load where ends are stores: it could overtake one.
    #[inline(always)]
    fn load(&self, offset: usize) -> u64 {
        Bus::<u64>::load(&self.eoi_page, offset | self.ordered)
    }

    /// The state; nothing if the source is dead.
    ///
    /// # Context
    /// Any.
    pub fn get(&self) -> Option<Pq> {
        Pq::of(self.load(GET))
    }

    /// Sets the state, and gives the one before; nothing if the source is dead.
    ///
    /// # Context
    /// Any.
    #[inline(always)]
    pub fn set(&self, state: Pq) -> Option<Pq> {
        Pq::of(self.load(state.set_offset()))
    }

    /// Triggers the source, if software can. The stores before the call are not ordered before
    /// it: see [`Barrier::publish`].
    ///
    /// # Context
    /// Any.
    #[inline(always)]
    pub fn trigger(&self) {
        match &self.trigger {
            Trigger::Own(page) => Bus::<u64>::store(page, TRIGGER, 0),
            Trigger::Same => Bus::<u64>::store(&self.eoi_page, TRIGGER, 0),
            Trigger::None => {}
        }
    }

    /// Ends a source that software raises and ends, as the allocated ones are:
    /// [`Eoi::Store`] or [`Eoi::SetPq`].
    #[inline(always)]
    pub(crate) fn end_edge(&self) {
        if self.eoi == Eoi::Store {
            Bus::<u64>::store(&self.eoi_page, STORE_EOI, 0);
        } else if let Some(Pq { q: true, .. }) = self.set(Pq::RESET) {
            // A dead source has no Q, though it reads so.
            self.trigger();
        }
    }

    /// Ends the source, so that it may send its next event; a line that is high is one.
    /// `firmware` does it for a source that is ended so.
    ///
    /// # Context
    /// Any; once for each event.
    #[inline]
    pub fn end(&self, firmware: impl FnOnce()) {
        match self.eoi {
            Eoi::Store | Eoi::SetPq => self.end_edge(),
            Eoi::Load => self.load_eoi(),
            Eoi::Firmware => firmware(),
        }
    }

    /// Ends the source by a load, whatever its way is: a line is looked at.
    pub(crate) fn load_eoi(&self) {
        self.load(LOAD_EOI);
    }
}
