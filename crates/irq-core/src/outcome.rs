// SPDX-License-Identifier: MIT OR Apache-2.0
//! What actions answer, and what a dispatch returns.

/// What an action says about the interrupt it was called for.
///
/// Of several shared actions the greatest answer counts: one that handed the interrupt over
/// outweighs one that deferred it, which outweighs one that handled it, which outweighs those
/// whose device it was not.
// Handled is 0, for the shortest test on the way to the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(i8)]
pub enum Answer {
    /// Another action's device, or nobody's.
    NotMine = -1,
    /// It was the action's device, and it is served.
    Handled = 0,
    /// It was the action's device. The source stays active, and cannot fire again, until
    /// [`Control::complete`](crate::Control::complete).
    Deferred = 1,
    /// It was the action's device. Whoever it was handed to, a guest for one, ends the source;
    /// it is never completed here.
    HandedOver = 2,
}

impl From<()> for Answer {
    /// An action that returns nothing has handled its interrupt.
    fn from((): ()) -> Self {
        Self::Handled
    }
}

/// What became of the interrupt that a dispatch acknowledged.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Taken {
    /// There was none.
    Nothing,
    /// An action handled it, and it is ended.
    Handled,
    /// An action deferred it: it is not ended.
    Deferred,
    /// An action handed it over: it is not ended, and somebody else will.
    HandedOver,
    /// No action was registered, or each answered [`Answer::NotMine`]; it is ended.
    Unhandled,
}

/// What a dispatch returns to the kernel's entry, once everything of ours is finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "the bits ask the kernel for something"]
pub struct Outcome {
    /// What became of the interrupt: of the last one, where an acknowledge stood for several.
    pub taken: Taken,
    /// What the actions asked for, all of them.
    pub bits: Bits,
}

impl Outcome {
    pub(crate) const UNHANDLED: Self = Self {
        taken: Taken::Unhandled,
        bits: Bits::NONE,
    };
}

/// What actions ask of the kernel, to be done after the dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bits(u32);

impl Bits {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Another task may have to run.
    pub const RESCHEDULE: Self = Self(1);

    /// Bit `n` of the embedder's own sixteen, or nothing from 16 on.
    pub const fn embedder(n: u32) -> Option<Self> {
        if n < 16 {
            Some(Self(1 << (16 + n)))
        } else {
            None
        }
    }

    /// The bits of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is asked for.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
