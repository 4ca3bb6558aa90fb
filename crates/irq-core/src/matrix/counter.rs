// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64 small counters that are moved together: bit `i` of plane `p` is bit `p` of counter `i`.

/// Planes: counters reach 255, more than there are vectors.
const PLANES: usize = 8;

/// A counter for each CPU of a bank.
pub(super) struct Counters {
    planes: [u64; PLANES],
}

impl Counters {
    /// All at 0.
    pub(super) const fn new() -> Self {
        Self {
            planes: [0; PLANES],
        }
    }

    /// The counters of `bits`, none of which is at 255, rise by one.
    #[inline]
    pub(super) fn raise(&mut self, bits: u64) {
        let mut carry = bits;
        for plane in &mut self.planes {
            let full = *plane & carry;
            *plane ^= carry;
            carry = full;
        }
    }

    /// The counters of `bits`, none of which is at 0, fall by one.
    #[inline]
    pub(super) fn lower(&mut self, bits: u64) {
        let mut borrow = bits;
        for plane in &mut self.planes {
            let empty = !*plane & borrow;
            *plane ^= borrow;
            borrow = empty;
        }
    }

    /// Those that are not at 0.
    #[inline]
    pub(super) fn nonzero(&self) -> u64 {
        self.planes.iter().fold(0, |any, plane| any | plane)
    }

    /// The counter of the CPU of `bit`.
    #[inline]
    pub(super) fn get(&self, bit: u64) -> u32 {
        let value = |place: usize| u32::from(self.planes[place] & bit != 0) << place;
        (0..PLANES).map(value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_word_move_together_and_keep_apart() {
        let mut counters = Counters::new();
        let mut expected = [0_u32; 64];
        let mut seed = 1_u64;
        for _ in 0..4000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let any = seed.rotate_left(29) ^ seed;
            let of = |wanted: &dyn Fn(u32) -> bool| {
                let bit = |i: usize| u64::from(wanted(expected[i])) << i;
                (0..64).fold(0, |bits, i| bits | bit(i))
            };
            let (up, down) = (any & of(&|n| n < 255), !any & of(&|n| n > 0));
            counters.raise(up);
            // Rarely, so that high values are met.
            let down = if seed >> 60 == 0 { down } else { 0 };
            counters.lower(down);
            for (i, expected) in expected.iter_mut().enumerate() {
                *expected += (up >> i & 1) as u32;
                *expected -= (down >> i & 1) as u32;
                assert_eq!(counters.get(1 << i), *expected);
                assert_eq!(counters.nonzero() >> i & 1 == 1, *expected != 0);
            }
        }
        assert_eq!(expected.iter().max(), Some(&255));
    }
}
