// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units that are there, and the rules that choose one of them.

use alloc::vec::Vec;
use core::fmt;

use irq_hal::Error;
use irq_hal::heap::try_vec;

use super::answer::Word;
use super::{Affinity, CpuPlace, Distances, KeyLevel, Rule};
use crate::cpu::NodeId;

/// The most units that a [`Proximity`](super::Proximity) can be made for.
pub const MAX_UNITS: u32 = 1 << 16;

/// A unit as the embedder counts them: dense, from 0, in an order that does not depend on which
/// one was found first (of firmware's ids, or of addresses).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnitIndex(u32);

impl UnitIndex {
    /// The unit with this dense index.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index as a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The index for a slice with one element per unit.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The index in the 16 lowest bits of `bits`.
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self((bits % MAX_UNITS as u64) as u32)
    }
}

impl fmt::Display for UnitIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit{}", self.0)
    }
}

/// What a unit says about where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unit {
    /// Its affinity (`GITS_MPIDR`). Of no meaning at level 0.
    pub affinity: Affinity,
    /// How much of the affinity of a CPU must be the same for the unit to serve it by key
    /// (`GITS_TYPER.SVPET`).
    pub level: KeyLevel,
    /// Its node, if that is known.
    pub node: Option<NodeId>,
}

impl Unit {
    /// A unit without a key, such as the interrupt controller of a chip, or an IOMMU.
    pub const fn on_node(node: NodeId) -> Self {
        Self {
            affinity: Affinity::new(0),
            level: KeyLevel::NONE,
            node: Some(node),
        }
    }

    /// Whether the CPU has the unit's key, at the unit's level.
    pub(super) fn has_key_of(&self, place: &CpuPlace) -> bool {
        let key = self.affinity.key(self.level);
        key.is_some() && key == place.affinity.key(self.level)
    }
}

/// What one index holds.
#[derive(Clone, Copy, Debug)]
struct Slot {
    unit: Option<Unit>,
    /// The online CPUs that it serves by their own key: it is there for their peers.
    by_own_key: u32,
}

/// All units.
#[derive(Debug)]
pub(super) struct Units {
    slots: Vec<Slot>,
    distances: Distances,
}

impl Units {
    /// None of `count` units is there.
    pub(super) fn new(count: u32, distances: Distances) -> Result<Self, Error> {
        if count == 0 || count > MAX_UNITS {
            return Err(Error::Invalid {
                what: "number of units",
                value: u64::from(count),
            });
        }
        let mut slots = try_vec(count as usize)?;
        let empty = Slot {
            unit: None,
            by_own_key: 0,
        };
        slots.resize(count as usize, empty);
        Ok(Self { slots, distances })
    }

    pub(super) const fn distances(&self) -> &Distances {
        &self.distances
    }

    /// The place of a possible unit.
    pub(super) fn slot(&mut self, index: UnitIndex) -> Result<&mut Option<Unit>, Error> {
        match self.slots.get_mut(index.index()) {
            Some(slot) => Ok(&mut slot.unit),
            None => Err(no_such(index)),
        }
    }

    /// The units that are there, in the order of their indices.
    fn present(&self) -> impl Iterator<Item = (UnitIndex, &Unit, u32)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| {
            let unit = slot.unit.as_ref()?;
            Some((UnitIndex::new(index), unit, slot.by_own_key))
        })
    }

    /// The rule of the CPU's own key: what depends on no other CPU.
    pub(super) fn by_own_key(&self, place: &CpuPlace) -> Option<UnitIndex> {
        self.nearest(place, |unit, _| unit.has_key_of(place))
    }

    /// The answer by the CPU's own key, which gave `index`.
    pub(super) fn own_answer(&self, place: &CpuPlace, index: UnitIndex) -> Word {
        self.answer(place, index, Rule::OwnKey)
    }

    /// The answer for a CPU to which its own key gave nothing.
    pub(super) fn other_answer(&self, place: &CpuPlace) -> Word {
        // A unit stands for its CPUs: those exist, and if one of them has the key of this CPU,
        // so has the unit, whose level is the finer one.
        let key = place.affinity.key(place.level);
        let of_peers = |unit: &Unit, cpus| cpus != 0 && unit.affinity.key(place.level) == key;
        if let Some(index) = self.nearest(place, of_peers) {
            self.answer(place, index, Rule::PeerKey)
        } else if let Some(index) = self.on_node_of(place) {
            self.answer(place, index, Rule::Node)
        } else if let Some((index, ..)) = self.present().next() {
            self.answer(place, index, Rule::LowestIndex)
        } else {
            Word::unserved(place)
        }
    }

    fn answer(&self, place: &CpuPlace, index: UnitIndex, rule: Rule) -> Word {
        match &self.slots[index.index()].unit {
            Some(unit) => Word::served(place, index, unit, rule),
            None => Word::unserved(place),
        }
    }

    /// Of the units that `may` serve, the nearest; of several, that of the lowest index.
    fn nearest(&self, place: &CpuPlace, may: impl Fn(&Unit, u32) -> bool) -> Option<UnitIndex> {
        self.present()
            .filter(|(_, unit, count)| may(unit, *count))
            // The first of several that are equal.
            .min_by_key(|(_, unit, _)| self.distances.between(place.node, unit.node))
            .map(|(index, ..)| index)
    }

    fn on_node_of(&self, place: &CpuPlace) -> Option<UnitIndex> {
        let node = place.node?;
        self.present()
            .find(|(_, unit, _)| unit.node == Some(node))
            .map(|(index, ..)| index)
    }

    /// One more CPU is served by its own key. Says whether it is the unit's first.
    pub(super) fn gain(&mut self, index: UnitIndex) -> bool {
        let slot = &mut self.slots[index.index()];
        slot.by_own_key += 1;
        slot.by_own_key == 1
    }

    /// One CPU less. Says whether it was the unit's last.
    pub(super) fn lose(&mut self, index: UnitIndex) -> bool {
        let slot = &mut self.slots[index.index()];
        slot.by_own_key -= 1;
        slot.by_own_key == 0
    }
}

/// The error for a unit that is not possible, or not there.
pub(super) const fn no_such(index: UnitIndex) -> Error {
    Error::Invalid {
        what: "unit",
        value: index.0 as u64,
    }
}
