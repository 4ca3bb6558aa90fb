// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of IPIs: what a CPU runs when it is interrupted by another, or by itself.

use irq_hal::{CpuIndex, Error};

use crate::action::ActionContext;

/// How many kinds there can be.
pub const MAX_KINDS: u32 = 30;

/// The number of a kind, as an index of [`IpiSetup::kinds`](super::IpiSetup::kinds).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IpiKind(u8);

impl IpiKind {
    /// Kind `n`, or nothing from [`MAX_KINDS`] on.
    pub const fn new(n: u8) -> Option<Self> {
        if (n as u32) < MAX_KINDS {
            Some(Self(n))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    #[inline]
    pub(super) const fn bit(self) -> u32 {
        1 << self.0
    }
}

/// What a kind runs in the interrupt.
pub type KindFn = fn(word: usize, cx: &ActionContext<'_>);

/// What a kind runs that is safe anywhere.
pub type AnywhereFn = fn(word: usize, cpu: CpuIndex);

#[derive(Clone, Copy, Debug)]
enum Run {
    InInterrupt(KindFn),
    Anywhere(AnywhereFn),
}

/// A kind of IPI: a function and one word of its owner's.
///
/// Whatever runs, runs after the interrupt is ended and on the CPU that it was sent to. Each
/// send is followed by a run that begins after the send; several sends may share one.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    run: Run,
    word: usize,
    last: bool,
}

impl Kind {
    /// Runs in the interrupt, masked, and returns (or unwinds: what else was sent is kept then).
    ///
    /// It may send, call remotely, and ask for [`Bits`](crate::Bits).
    pub const fn new(run: KindFn, word: usize) -> Self {
        Self {
            run: Run::InInterrupt(run),
            word,
            last: false,
        }
    }

    /// Likewise, and runs as well while its CPU waits for a remote call of its own, under
    /// whatever locks the caller holds: it must take none, and must not call remotely.
    pub const fn anywhere(run: AnywhereFn, word: usize) -> Self {
        Self {
            run: Run::Anywhere(run),
            word,
            last: false,
        }
    }

    /// Runs in the interrupt behind all other kinds, and may switch stacks or never return:
    /// nothing of ours is held during the call, and what else was sent is left for the next
    /// interrupt, which the CPU has given itself by then.
    pub const fn last(run: KindFn, word: usize) -> Self {
        Self {
            run: Run::InInterrupt(run),
            word,
            last: true,
        }
    }
}

/// All kinds of a machine.
#[derive(Debug)]
pub(super) struct Kinds {
    /// As many as a word has bits: an index below that needs no check.
    table: [Kind; 32],
    /// Those that exist.
    pub(super) known: u32,
    /// Those that may run while a CPU waits.
    pub(super) anywhere: u32,
    /// Those that run behind all others.
    pub(super) last: u32,
}

impl Kinds {
    pub(super) fn new(kinds: &[Kind]) -> Result<Self, Error> {
        if kinds.len() > MAX_KINDS as usize {
            return Err(Error::Invalid {
                what: "number of kinds of IPIs",
                value: kinds.len() as u64,
            });
        }
        let mut all = Self {
            table: [Kind::anywhere(|_, _| (), 0); 32],
            known: 0,
            anywhere: 0,
            last: 0,
        };
        for (n, (place, kind)) in all.table.iter_mut().zip(kinds).enumerate() {
            *place = *kind;
            all.known |= 1 << n;
            match kind.run {
                Run::Anywhere(_) => all.anywhere |= 1 << n,
                Run::InInterrupt(_) if kind.last => all.last |= 1 << n,
                Run::InInterrupt(_) => {}
            }
        }
        Ok(all)
    }

    /// What to run if `bits` are one kind, and one for the interrupt: the common case.
    #[inline]
    pub(super) fn alone(&self, bits: u32) -> Option<(KindFn, usize)> {
        if !bits.is_power_of_two() {
            return None;
        }
        // Bits that are no kind lead to a place that is not for the interrupt.
        let kind = &self.table[bits.trailing_zeros() as usize % 32];
        match kind.run {
            Run::InInterrupt(run) => Some((run, kind.word)),
            Run::Anywhere(_) => None,
        }
    }

    /// Runs kind `n`, the number of a bit.
    #[inline]
    pub(super) fn run(&self, n: u32, cx: &ActionContext<'_>) {
        let kind = &self.table[n as usize % 32];
        match kind.run {
            Run::InInterrupt(run) => run(kind.word, cx),
            Run::Anywhere(run) => run(kind.word, cx.cpu()),
        }
    }

    /// Runs kind `n` on `cpu`, outside of its interrupt, if it may.
    pub(super) fn run_anywhere(&self, n: u32, cpu: CpuIndex) {
        let kind = &self.table[n as usize % 32];
        if let Run::Anywhere(run) = kind.run {
            run(kind.word, cpu);
        }
    }
}
