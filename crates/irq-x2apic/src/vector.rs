// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt vectors.

use core::fmt;

/// The first vector that is no exception of the CPU: the first that has an irq of ours.
pub const FIRST: u8 = 32;

/// The vectors that have an irq of ours.
pub const COUNT: u32 = 256 - FIRST as u32;

/// A vector that a local APIC delivers, 16 to 255. Below 16 it reports an illegal vector
/// instead (Intel SDM vol. 3, "Valid Interrupt Vectors").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Vector(u8);

impl Vector {
    /// The spurious vector of most kernels: its lower 4 bits are ones, as the oldest parts
    /// wanted.
    pub const SPURIOUS: Self = Self(0xff);

    /// Vector `n`, or nothing below 16.
    pub const fn new(n: u8) -> Option<Self> {
        if n >= 16 { Some(Self(n)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether it is one of the CPU's exceptions, 16 to 31: none for interrupts.
    pub const fn is_exception(self) -> bool {
        self.0 < FIRST
    }
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vector {:#x}", self.0)
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_below_16_cannot_be_made_and_those_below_32_are_exceptions() {
        assert_eq!(Vector::new(15), None);
        assert!(Vector::new(16).is_some_and(Vector::is_exception));
        assert!(Vector::new(31).is_some_and(Vector::is_exception));
        assert!(Vector::new(32).is_some_and(|vector| !vector.is_exception()));
    }
}
