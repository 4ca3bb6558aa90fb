// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt numbers of ours, and what is true of a line.

use core::fmt;

use irq_hal::Error;

/// An interrupt as this project counts it: a `u32`, dense within each range from a base that the
/// embedder picks.
///
/// The controller's own number (INTID, source number, vector) is a type of its driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Irq(u32);

impl Irq {
    /// The interrupt with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as an index, for a table that begins at irq 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// `self + offset`, or nothing if that wraps.
    pub const fn checked_add(self, offset: u32) -> Option<Self> {
        match self.0.checked_add(offset) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl From<Irq> for u32 {
    fn from(irq: Irq) -> u32 {
        irq.0
    }
}

macro_rules! narrow {
    ($($t:ty),*) => { $(
        /// For kernels whose interrupt numbers are narrower than ours.
        impl TryFrom<Irq> for $t {
            type Error = Error;

            /// [`Error::Invalid`] if the number does not fit.
            fn try_from(irq: Irq) -> Result<$t, Error> {
                <$t>::try_from(irq.0)
                    .map_err(|_| Error::Invalid { what: "irq number", value: u64::from(irq.0) })
            }
        }
    )* };
}

narrow!(u8, u16);

impl fmt::Display for Irq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "irq{}", self.0)
    }
}

/// Numbers of interrupts: `count` of them, dense, from `first` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IrqRange {
    first: Irq,
    count: u32,
}

impl IrqRange {
    /// `count` numbers from `first` on. A range may be empty.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the last number is no `u32`.
    pub const fn new(first: Irq, count: u32) -> Result<Self, Error> {
        if count != 0 && first.checked_add(count - 1).is_none() {
            return Err(Error::Invalid {
                what: "number of irqs",
                value: count as u64,
            });
        }
        Ok(Self { first, count })
    }

    /// The first number; meaningless for an empty range.
    pub const fn first(&self) -> Irq {
        self.first
    }

    /// How many numbers there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// How far `irq` is from the first number, or nothing if it is outside of the range.
    #[inline]
    pub const fn offset(&self, irq: Irq) -> Option<u32> {
        match irq.0.checked_sub(self.first.0) {
            Some(offset) if offset < self.count => Some(offset),
            _ => None,
        }
    }

    /// The number `offset` from the first one, or nothing if that is outside of the range.
    #[inline]
    pub const fn irq(&self, offset: u32) -> Option<Irq> {
        if offset < self.count {
            self.first.checked_add(offset)
        } else {
            None
        }
    }

    /// Whether `irq` is in the range.
    pub const fn contains(&self, irq: Irq) -> bool {
        self.offset(irq).is_some()
    }

    /// All numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = Irq> + use<> {
        let range = *self;
        (0..range.count).filter_map(move |offset| range.irq(offset))
    }
}

/// When a line asks for service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Trigger {
    /// Once for each rising edge, or each message.
    Edge,
    /// As long as the line is high.
    Level,
}

/// What the controller says about a line at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LineState {
    /// It is not delivered.
    pub masked: bool,
    /// It waits to be delivered.
    pub pending: bool,
    /// A CPU acknowledged it, and it is not ended or completed yet.
    pub active: bool,
}
