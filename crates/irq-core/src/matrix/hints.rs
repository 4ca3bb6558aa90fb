// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where to begin to look for a vector: below that there is none.
//!
//! What is looked for (a free vector, or a spare reservation) is given back to many CPUs at once,
//! and looked for one CPU at a time. So giving back to a word of CPUs notes them and how low it
//! went, and the CPU's own hint follows when it is asked for.

/// CPUs of a bank.
const CPUS: usize = 64;

/// A lower bound for each CPU of a bank, and one for all of them.
pub(super) struct Hints {
    from: [u8; CPUS],
    /// Those whose bound may be above `floor` and must not.
    dropped: u64,
    floor: u8,
    all: u8,
}

impl Hints {
    /// Nothing is to be found below `from`.
    pub(super) const fn new(from: usize) -> Self {
        Self {
            from: [from as u8; CPUS],
            dropped: 0,
            floor: 0,
            all: from as u8,
        }
    }

    /// Where to begin for the CPU of `bit`.
    #[inline]
    pub(super) fn start(&mut self, bit: u64) -> usize {
        let from = &mut self.from[bit.trailing_zeros() as usize];
        if self.dropped & bit != 0 {
            self.dropped &= !bit;
            *from = self.floor.min(*from);
        }
        usize::from((*from).max(self.all))
    }

    /// Nothing is left below `at` for the CPU of `bit`, whose [`start`](Self::start) was asked
    /// for.
    #[inline]
    pub(super) fn pass(&mut self, bit: u64, at: usize) {
        self.from[bit.trailing_zeros() as usize] = at as u8;
    }

    /// There is something at `at` for the CPUs of `bits`.
    #[inline]
    pub(super) fn lower(&mut self, bits: u64, at: usize) {
        let at = at as u8;
        self.floor = match self.dropped {
            0 => at,
            _ => self.floor.min(at),
        };
        self.dropped |= bits;
        self.all = self.all.min(at);
    }

    /// Where to begin for all CPUs.
    #[inline]
    pub(super) fn start_of_all(&self) -> usize {
        usize::from(self.all)
    }

    /// Nothing is left below `at` for any CPU.
    #[inline]
    pub(super) fn pass_all(&mut self, at: usize) {
        self.all = at as u8;
    }

    /// What [`start`](Self::start) would say.
    #[inline]
    pub(super) fn peek(&self, bit: u64) -> usize {
        let from = self.from[bit.trailing_zeros() as usize];
        let from = match self.dropped & bit {
            0 => from,
            _ => self.floor.min(from),
        };
        usize::from(from.max(self.all))
    }
}
