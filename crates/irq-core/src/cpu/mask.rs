// SPDX-License-Identifier: MIT OR Apache-2.0
//! An owned set of CPUs.

use alloc::vec::Vec;
use core::fmt;

use irq_hal::Error;
use irq_hal::heap::try_vec;

use super::{CpuIndex, CpuSet, Ranges, WORD, bounded, cpus_of, word_and_bit};

/// A set of CPUs with an owner, of a size fixed at construction: one bit for each possible CPU.
///
/// Two masks are equal if they have the same members, whatever their sizes.
pub struct CpuMask {
    cpus: u32,
    words: Vec<u64>,
}

impl CpuMask {
    /// An empty mask for the CPUs below `cpus`. The only call of a mask that allocates.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no CPU, or more than [`MAX_CPUS`](super::MAX_CPUS);
    /// [`Error::OutOfMemory`].
    pub fn try_new(cpus: u32) -> Result<Self, Error> {
        let count = bounded("number of CPUs", cpus)?.div_ceil(WORD as usize);
        let mut words = try_vec(count)?;
        words.resize(count, 0);
        Ok(Self { cpus, words })
    }

    /// How many CPUs the mask has room for: members are below that.
    pub const fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Puts `cpu` into the mask, and says whether it is new there.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] for one that the mask has no room for.
    pub fn insert(&mut self, cpu: CpuIndex) -> Result<bool, Error> {
        if cpu.get() >= self.cpus {
            return Err(Error::NoSuchCpu { cpu });
        }
        let (index, bit) = word_and_bit(cpu);
        let word = &mut self.words[index as usize];
        let new = *word & bit == 0;
        *word |= bit;
        Ok(new)
    }

    /// Takes `cpu` out of the mask, and says whether it was there.
    pub fn remove(&mut self, cpu: CpuIndex) -> bool {
        let (index, bit) = word_and_bit(cpu);
        let Some(word) = self.words.get_mut(index as usize) else {
            return false;
        };
        let there = *word & bit != 0;
        *word &= !bit;
        there
    }

    /// Takes every CPU out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Puts every CPU in that the mask has room for.
    pub fn fill(&mut self) {
        self.words.fill(u64::MAX);
        self.trim();
    }

    /// The members, in rising order.
    pub fn iter(&self) -> Cpus<'_> {
        Cpus {
            words: &self.words,
            bits: 0,
            end: 0,
        }
    }

    /// Makes the mask a snapshot of `set`.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] with the first member that the mask has no room for; the mask is as
    /// before then.
    pub fn copy_from(&mut self, set: &dyn CpuSet) -> Result<(), Error> {
        self.has_room(set)?;
        self.clear();
        self.put(set);
        Ok(())
    }

    /// Puts the members of `set` in.
    ///
    /// # Errors
    /// As [`copy_from`](Self::copy_from).
    pub fn union_with(&mut self, set: &dyn CpuSet) -> Result<(), Error> {
        self.has_room(set)?;
        self.put(set);
        Ok(())
    }

    /// Takes out what is not in `set`.
    pub fn intersect_with(&mut self, set: &dyn CpuSet) {
        let words = self.words.len();
        // Words that `set` leaves out have no member there.
        let mut done = 0;
        set.each_word(&mut |first, bits| {
            let index = words.min((first.get() / WORD) as usize);
            if let Some(left_out) = self.words.get_mut(done..index) {
                left_out.fill(0);
            }
            if let Some(word) = self.words.get_mut(index) {
                *word &= bits;
            }
            done = index + 1;
        });
        if let Some(left_out) = self.words.get_mut(done..) {
            left_out.fill(0);
        }
    }

    /// Takes the members of `set` out.
    pub fn subtract_with(&mut self, set: &dyn CpuSet) {
        set.each_word(&mut |first, bits| {
            if let Some(word) = self.words.get_mut((first.get() / WORD) as usize) {
                *word &= !bits;
            }
        });
    }

    fn has_room(&self, set: &dyn CpuSet) -> Result<(), Error> {
        let mut beyond = None;
        set.each_word(&mut |first, bits| {
            beyond = beyond.or_else(|| cpus_of(first, bits).find(|cpu| cpu.get() >= self.cpus));
        });
        match beyond {
            Some(cpu) => Err(Error::NoSuchCpu { cpu }),
            None => Ok(()),
        }
    }

    /// What a live set gained beyond the room since it was looked at is left out.
    fn put(&mut self, set: &dyn CpuSet) {
        set.each_word(&mut |first, bits| {
            if let Some(word) = self.words.get_mut((first.get() / WORD) as usize) {
                *word |= bits;
            }
        });
        self.trim();
    }

    /// No member is at or beyond `cpus`.
    fn trim(&mut self) {
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), self.cpus % WORD) {
            *last &= (1 << rest) - 1;
        }
    }
}

impl CpuSet for CpuMask {
    fn contains(&self, cpu: CpuIndex) -> bool {
        let (index, bit) = word_and_bit(cpu);
        let word = self.words.get(index as usize);
        word.is_some_and(|word| word & bit != 0)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        for (first, bits) in (0..).step_by(WORD as usize).zip(&self.words) {
            if *bits != 0 {
                f(CpuIndex::new(first), *bits);
            }
        }
    }

    fn words(&self) -> Option<&[u64]> {
        Some(&self.words)
    }

    fn first(&self) -> Option<CpuIndex> {
        self.iter().next()
    }
}

impl PartialEq for CpuMask {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl Eq for CpuMask {}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ranges(self).fmt(f)
    }
}

impl<'a> IntoIterator for &'a CpuMask {
    type Item = CpuIndex;
    type IntoIter = Cpus<'a>;

    fn into_iter(self) -> Cpus<'a> {
        self.iter()
    }
}

/// The members of a [`CpuMask`], in rising order.
#[derive(Clone, Debug)]
pub struct Cpus<'a> {
    words: &'a [u64],
    /// The word that is being read, without what was given out, and the first CPU behind it.
    bits: u64,
    end: u32,
}

impl Iterator for Cpus<'_> {
    type Item = CpuIndex;

    fn next(&mut self) -> Option<CpuIndex> {
        while self.bits == 0 {
            let (word, rest) = self.words.split_first()?;
            self.words = rest;
            self.bits = *word;
            self.end += WORD;
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(CpuIndex::new(self.end - WORD + bit))
    }
}
