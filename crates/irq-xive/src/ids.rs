// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that hardware and firmware give: never indices.

use core::fmt;

/// A hardware thread, as its processor identification register reads: a name, sparse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pir(u32);

impl Pir {
    /// The thread with this register value.
    pub const fn new(pir: u32) -> Self {
        Self(pir)
    }

    /// The register's value. Under OPAL it also names the thread's virtual processor.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Pir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pir {:#x}", self.0)
    }
}

/// A chip, as `ibm,chip-id` names it. It is no node, and a node is no chip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChipId(u32);

impl ChipId {
    /// The chip with this name.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The name as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A source, as firmware numbers them: a global interrupt number, opaque.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SourceNumber(u32);

impl SourceNumber {
    /// The source with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for SourceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {:#x}", self.0)
    }
}

/// How many priorities the hardware has at most.
pub const PRIORITIES: u8 = 8;

/// The priority of an event: 0 is most favoured, 7 least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Priority(u8);

impl Priority {
    /// What interrupts between CPUs have by default.
    pub const IPI: Self = Self(5);
    /// What device interrupts have by default.
    pub const DEVICE: Self = Self(6);

    /// Priority `priority`, 0 to 7.
    pub const fn new(priority: u8) -> Option<Self> {
        if priority < PRIORITIES {
            Some(Self(priority))
        } else {
            None
        }
    }

    /// The priority as a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_eight_priorities_and_what_a_cppr_holds_else_is_none() {
        let valid = (0..=u8::MAX).filter(|&n| Priority::new(n).is_some());
        assert!(valid.eq(0..8));
        assert!(Priority::IPI < Priority::DEVICE, "lower is more favoured");
    }
}
