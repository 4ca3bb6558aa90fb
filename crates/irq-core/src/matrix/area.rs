// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vectors that are handed out, and sets of vectors.

use core::fmt;

use irq_hal::Error;

/// Vectors below that are exceptions.
pub(super) const EXCEPTIONS: u8 = 32;

/// Vectors of a CPU.
pub(super) const VECTORS: u16 = 256;

/// A set of vectors.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct VectorSet([u64; 4]);

impl VectorSet {
    pub(super) const fn insert(&mut self, vector: u8) {
        self.0[vector as usize / 64] |= 1 << (vector % 64);
    }

    pub(super) const fn remove(&mut self, vector: u8) {
        self.0[vector as usize / 64] &= !(1 << (vector % 64));
    }

    pub(super) const fn contains(&self, vector: u8) -> bool {
        self.0[vector as usize / 64] >> (vector % 64) & 1 != 0
    }

    /// The ranges of consecutive members, first and last, in rising order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u8, u8)> {
        let mut next = 0_u16;
        let there = |vector: u16| vector < VECTORS && self.contains(vector as u8);
        core::iter::from_fn(move || {
            let first = (next..VECTORS).find(|vector| there(*vector))?;
            let end = (first..).find(|vector| !there(*vector))?;
            next = end;
            Some((first as u8, (end - 1) as u8))
        })
    }
}

/// Prints as `0x20-0x22,0x31`; as `-` without members.
impl fmt::Display for VectorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (first, last) in self.ranges() {
            write!(f, "{comma}{first:#x}")?;
            if last != first {
                write!(f, "-{last:#x}")?;
            }
            comma = ",";
        }
        match comma {
            "" => f.write_str("-"),
            _ => Ok(()),
        }
    }
}

/// The vectors from `first` on, `len` of them: at least one, and none beyond 255.
#[derive(Clone, Copy)]
pub(super) struct Area {
    first: u8,
    len: u8,
}

impl Area {
    /// From `first` up to, not including, `end`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if that is empty, or has exceptions or what is no vector.
    pub(super) fn new(first: u8, end: u16) -> Result<Self, Error> {
        if first < EXCEPTIONS {
            return Err(invalid("first vector", u64::from(first)));
        }
        match end.checked_sub(u16::from(first)) {
            Some(len @ 1..) if end <= VECTORS => Ok(Self {
                first,
                len: len as u8,
            }),
            _ => Err(invalid("end of the vectors", u64::from(end))),
        }
    }

    pub(super) const fn len(self) -> usize {
        self.len as usize
    }

    /// The vector at `at`, which is below [`len`](Self::len).
    pub(super) const fn vector(self, at: usize) -> u8 {
        self.first + at as u8
    }

    /// Where `vector` is, if it is one of them.
    pub(super) fn position(self, vector: u8) -> Option<usize> {
        let at = vector.checked_sub(self.first)?;
        (at < self.len).then_some(usize::from(at))
    }

    /// Where `vector` is.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none of them.
    pub(super) fn expect_vector(self, vector: u8) -> Result<usize, Error> {
        self.position(vector)
            .ok_or(invalid("vector", u64::from(vector)))
    }

    /// Where runs of `count` vectors may begin: the first is a multiple of `count`, a power of
    /// two.
    pub(super) fn runs(self, count: usize) -> impl Iterator<Item = usize> {
        let first = usize::from(self.first);
        let start = first.next_multiple_of(count) - first;
        (start..)
            .step_by(count)
            .take_while(move |at| at + count <= self.len())
    }
}

/// An argument out of its range.
pub(super) const fn invalid(what: &'static str, value: u64) -> Error {
    Error::Invalid { what, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn a_set_prints_its_ranges_up_to_the_last_vector() {
        let mut set = VectorSet::default();
        assert_eq!(set.to_string(), "-");
        for vector in [0x3f, 0x40, 0x41, 0x31, 0xff, 0xfe, 0x20] {
            set.insert(vector);
        }
        assert_eq!(set.to_string(), "0x20,0x31,0x3f-0x41,0xfe-0xff");
        set.remove(0x40);
        assert_eq!(set.to_string(), "0x20,0x31,0x3f,0x41,0xfe-0xff");
    }

    #[test]
    fn runs_begin_at_multiples_and_end_inside() {
        let area = Area::new(0x21, 0x47).unwrap();
        let runs = |count| {
            let vectors = area.runs(count).map(|at| area.vector(at));
            vectors.collect::<Vec<_>>()
        };
        assert_eq!(runs(16), [0x30]);
        assert_eq!(runs(8), [0x28, 0x30, 0x38]);
        assert_eq!(runs(1).len(), area.len());
        assert!(runs(32).is_empty());
    }
}
