// SPDX-License-Identifier: MIT OR Apache-2.0
//! What actions answer, and what a dispatch returns.

/// What an action says about the interrupt it was called for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Answer {
    /// It was the action's device, and it is served.
    Handled,
    /// Another action's device, or nobody's.
    NotMine,
    /// It was the action's device. The source stays active, and cannot fire again, until
    /// [`Lines::complete`](crate::Lines::complete).
    Deferred,
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
    /// No action was registered, or each answered [`Answer::NotMine`]; it is ended.
    Unhandled,
}

/// What a dispatch returns to the kernel's entry, once everything of ours is finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "the bits ask the kernel for something"]
pub struct Outcome {
    /// What became of the interrupt.
    pub taken: Taken,
    /// What the actions asked for.
    pub bits: Bits,
}

impl Outcome {
    pub(crate) const NOTHING: Self = Self {
        taken: Taken::Nothing,
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
