// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two-bit state of an event source.

/// State of a source, or of a queue's notification. The discriminant is how software reads
/// it: `P` is bit 1, `Q` is bit 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pq {
    /// 00: the next trigger is forwarded.
    Reset = 0,
    /// 01: triggers are dropped.
    Off = 1,
    /// 10: one event was forwarded and not ended; the next trigger sets Q.
    Pending = 2,
    /// 11: as 10, and at least one trigger came since.
    Queued = 3,
}

impl Pq {
    /// From the two low bits of `value`.
    pub const fn from_bits(value: u64) -> Self {
        match value & 3 {
            0 => Self::Reset,
            1 => Self::Off,
            2 => Self::Pending,
            _ => Self::Queued,
        }
    }

    /// As software reads it.
    pub const fn bits(self) -> u64 {
        self as u64
    }

    /// Whether an event was forwarded and not ended.
    pub const fn p(self) -> bool {
        self.bits() & 2 != 0
    }

    /// A trigger; true if it is forwarded.
    pub(super) fn trigger(&mut self) -> bool {
        let before = *self;
        *self = match before {
            Self::Reset => Self::Pending,
            Self::Off => Self::Off,
            Self::Pending | Self::Queued => Self::Queued,
        };
        before == Self::Reset
    }

    /// An end of interrupt; true if an event is forwarded again.
    pub(super) fn end(&mut self) -> bool {
        let before = *self;
        *self = match before {
            Self::Reset | Self::Pending => Self::Reset,
            Self::Off => Self::Off,
            Self::Queued => Self::Pending,
        };
        before == Self::Queued
    }
}
