// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer for a CPU, in one word.

use irq_hal::{CpuIndex, Error};

use super::{CpuPlace, KeyLevel, Unit, UnitIndex};

/// Which rule chose a CPU's unit, in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Rule {
    /// The CPU has the unit's key, at the unit's level.
    OwnKey,
    /// It has not, and a CPU that shares its tables has.
    PeerKey,
    /// No key says anything: the unit is on the CPU's node.
    Node,
    /// Nothing says anything: the unit of the lowest index.
    LowestIndex,
}

/// A CPU and its unit that disagree on how many CPUs share a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mismatch {
    /// At which level the CPU says it shares (`GICR_TYPER.CommonLPIAff`).
    pub cpu: KeyLevel,
    /// At which the unit says it does (`GITS_TYPER.SVPET`), which is not 0.
    pub unit: KeyLevel,
}

/// The answer for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Settled {
    /// The unit that serves the CPU.
    pub unit: UnitIndex,
    /// Why that one.
    pub rule: Rule,
    /// What to report: hardware or firmware is inconsistent. The answer holds all the same. A
    /// unit of level 0 claims nothing, and is never inconsistent.
    pub mismatch: Option<Mismatch>,
}

/// What the line of a CPU holds, so that one load reads all of it.
///
/// | bits | what |
/// |---|---|
/// | 15:0 | the unit |
/// | 17:16, 19:18 | the level of the CPU, of the unit |
/// | 23:20 | the state: below |
/// | 63:32 | the CPU's affinity |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

/// The states: these, and one for each rule.
const OFFLINE: u64 = 0;
const UNSERVED: u64 = 1;
const SERVED: u64 = 2;

const RULES: [Rule; 4] = [Rule::OwnKey, Rule::PeerKey, Rule::Node, Rule::LowestIndex];

impl Word {
    /// A CPU that is offline.
    pub(super) const OFFLINE: Self = Self(OFFLINE << 20);

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// A CPU that is online while there is no unit.
    pub(super) const fn unserved(place: &CpuPlace) -> Self {
        Self((place.affinity.get() as u64) << 32 | UNSERVED << 20)
    }

    pub(super) const fn served(
        place: &CpuPlace,
        index: UnitIndex,
        unit: &Unit,
        rule: Rule,
    ) -> Self {
        let affinity = (place.affinity.get() as u64) << 32;
        let state = SERVED + rule as u64;
        let levels = (place.level.get() | unit.level.get() << 2) as u64;
        Self(affinity | state << 20 | levels << 16 | index.get() as u64)
    }

    const fn state(self) -> u64 {
        self.0 >> 20 & 0xf
    }

    #[inline]
    pub(super) fn unit(self, cpu: CpuIndex) -> Result<UnitIndex, Error> {
        if self.state() >= SERVED {
            Ok(UnitIndex::from_bits(self.0))
        } else {
            Err(self.error(cpu))
        }
    }

    pub(super) fn settled(self, cpu: CpuIndex) -> Result<Settled, Error> {
        let unit = self.unit(cpu)?;
        let rule = RULES[(self.state() - SERVED) as usize % RULES.len()];
        let of_cpu = KeyLevel::from_bits(self.0 >> 16);
        let of_unit = KeyLevel::from_bits(self.0 >> 18);
        let differ = of_unit != KeyLevel::NONE && of_unit != of_cpu;
        Ok(Settled {
            unit,
            rule,
            mismatch: differ.then_some(Mismatch {
                cpu: of_cpu,
                unit: of_unit,
            }),
        })
    }

    #[cold]
    fn error(self, cpu: CpuIndex) -> Error {
        match self.state() {
            OFFLINE => Error::CpuOffline { cpu },
            _ => Error::NoUnitForCpu {
                block: "unit",
                id: self.0 >> 32,
            },
        }
    }
}
