// SPDX-License-Identifier: MIT OR Apache-2.0
//! Architected affinities, and how much of them is compared.

use core::fmt;

use irq_hal::Error;

/// How many fields of an [`Affinity`], from the highest on, make a key: 0 to 3.
///
/// The lowest field is never part of a key: units and tables serve more than one thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KeyLevel(u8);

impl KeyLevel {
    /// No field at all. A unit of this level serves nobody by key; the CPUs of this level share
    /// their tables with every other CPU.
    pub const NONE: Self = Self(0);

    /// A level of `fields` fields, as GICv4.1 encodes it in `GITS_TYPER.SVPET` and
    /// `GICR_TYPER.CommonLPIAff`.
    ///
    /// # Errors
    /// [`Error::Invalid`] above 3.
    pub const fn new(fields: u32) -> Result<Self, Error> {
        match fields {
            0..=3 => Ok(Self(fields as u8)),
            _ => Err(Error::Invalid {
                what: "level of an affinity key",
                value: fields as u64,
            }),
        }
    }

    /// The number of fields: 0 to 3.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// The level in the two lowest bits of `bits`.
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self((bits & 3) as u8)
    }
}

impl fmt::Debug for KeyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where something stands, as the architecture counts: four fields of 8 bits, the highest in the
/// highest bits.
///
/// On arm64 these are Aff3 to Aff0, packed as in `GICR_TYPER[63:32]` and `GITS_MPIDR`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Affinity(u32);

impl Affinity {
    /// The affinity with these fields.
    pub const fn new(fields: u32) -> Self {
        Self(fields)
    }

    /// The four fields.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The fields that `level` compares, moved to the lowest bits; none at level 0. A key whose
    /// fields are all 0 is a key like any other.
    pub const fn key(self, level: KeyLevel) -> Option<u32> {
        match level.0 {
            // Not a shift by the width of the word.
            0 => None,
            fields => Some(self.0 >> (u32::BITS - 8 * fields as u32)),
        }
    }
}

impl fmt::Debug for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [aff3, aff2, aff1, aff0] = self.0.to_be_bytes();
        write!(f, "{aff3}.{aff2}.{aff1}.{aff0}")
    }
}
