// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules once more, as slow and plain as they can be said, and a machine that is held
//! against them.
#![allow(dead_code, reason = "each test binary uses its part")]

use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::proximity::{
    Affinity, CpuPlace, Distances, KeyLevel, Proximity, Rule, Unit, UnitIndex,
};
use irq_hal::ErrorKind;

use crate::common::Cpu;

pub static PLATFORM: Cpu = Cpu::new(0);

/// A unit, or a CPU: Aff3 first, how many of them count, and a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thing {
    pub aff: [u8; 4],
    pub level: usize,
    pub node: Option<u32>,
}

impl Thing {
    pub const fn new(aff: [u8; 4], level: usize, node: Option<u32>) -> Self {
        Self { aff, level, node }
    }

    fn affinity(self) -> Affinity {
        Affinity::new(u32::from_be_bytes(self.aff))
    }

    fn key_level(self) -> KeyLevel {
        KeyLevel::new(self.level as u32).unwrap()
    }
}

/// Whether two affinities are the same at a level; at level 0 all are.
pub fn same(one: [u8; 4], other: [u8; 4], level: usize) -> bool {
    one[..level] == other[..level]
}

/// The units that are there and the CPUs that are online; what is between nodes.
#[derive(Clone, Debug)]
pub struct Model {
    pub units: Vec<Option<Thing>>,
    pub cpus: Vec<Option<Thing>>,
    pub distances: Vec<Vec<u8>>,
}

impl Model {
    fn far(&self, cpu: Thing, unit: usize) -> u32 {
        match (cpu.node, self.units[unit].unwrap().node) {
            (Some(from), Some(to)) => u32::from(self.distances[from as usize][to as usize]),
            _ => u32::MAX,
        }
    }

    /// The units that share their table with a CPU, nearest first.
    fn own(&self, cpu: Thing) -> Option<usize> {
        let mut found = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            if let Some(unit) = unit
                && unit.level != 0
                && same(unit.aff, cpu.aff, unit.level)
            {
                found.push((self.far(cpu, index), index));
            }
        }
        found.sort();
        found.first().map(|(_, index)| *index)
    }

    fn of_peers(&self, cpu: Thing) -> Option<usize> {
        let mut found = Vec::new();
        for peer in self.cpus.iter().flatten() {
            if same(peer.aff, cpu.aff, cpu.level)
                && let Some(index) = self.own(*peer)
            {
                found.push((self.far(cpu, index), index));
            }
        }
        found.sort();
        found.first().map(|(_, index)| *index)
    }

    /// The answer for a CPU that is online.
    pub fn answer(&self, cpu: usize) -> Option<(u32, Rule)> {
        let cpu = self.cpus[cpu].unwrap();
        let there = |index: &usize| self.units[*index].is_some();
        let indices = || (0..self.units.len()).filter(there);
        let on_node = || {
            indices().find(|unit| cpu.node.is_some() && self.units[*unit].unwrap().node == cpu.node)
        };
        let (index, rule) = if let Some(index) = self.own(cpu) {
            (index, Rule::OwnKey)
        } else if let Some(index) = self.of_peers(cpu) {
            (index, Rule::PeerKey)
        } else if let Some(index) = on_node() {
            (index, Rule::Node)
        } else {
            (indices().next()?, Rule::LowestIndex)
        };
        Some((index as u32, rule))
    }
}

/// A [`Proximity`] and its model, changed together.
pub struct Machine {
    pub proximity: Proximity,
    pub model: Model,
    /// How often each rule gave a checked answer; none of them, at the end.
    pub seen: [u64; 5],
}

/// Two nodes or more, each near to itself and equally far from all others.
pub fn plain(nodes: usize) -> Vec<Vec<u8>> {
    let row = |from| (0..nodes).map(|to| u8::from(from != to)).collect();
    (0..nodes).map(row).collect()
}

impl Machine {
    /// With the plain distances given as such.
    pub fn plain(cpus: usize, units: usize, nodes: usize) -> Self {
        Self::made(
            cpus,
            units,
            plain(nodes),
            Distances::plain(nodes as u32).unwrap(),
        )
    }

    pub fn new(cpus: usize, units: usize, distances: Vec<Vec<u8>>) -> Self {
        let between = |from: NodeId, to: NodeId| distances[from.index()][to.index()];
        let ours = Distances::new(distances.len() as u32, between).unwrap();
        Self::made(cpus, units, distances, ours)
    }

    fn made(cpus: usize, units: usize, distances: Vec<Vec<u8>>, ours: Distances) -> Self {
        Self {
            proximity: Proximity::new(cpus as u32, units as u32, ours).unwrap(),
            model: Model {
                units: vec![None; units],
                cpus: vec![None; cpus],
                distances,
            },
            seen: [0; 5],
        }
    }

    pub fn add(&mut self, index: usize, unit: Thing) {
        let ours = Unit {
            affinity: unit.affinity(),
            level: unit.key_level(),
            node: unit.node.map(NodeId::new),
        };
        let added = self
            .proximity
            .add(&PLATFORM, UnitIndex::new(index as u32), ours);
        match self.model.units[index] {
            None => assert_eq!(added, Ok(())),
            Some(_) => return assert_eq!(added.unwrap_err().kind(), ErrorKind::Exists),
        }
        self.model.units[index] = Some(unit);
    }

    pub fn remove(&mut self, index: usize) {
        let removed = self
            .proximity
            .remove(&PLATFORM, UnitIndex::new(index as u32));
        match self.model.units[index].take() {
            Some(_) => assert_eq!(removed, Ok(())),
            None => assert_eq!(removed.unwrap_err().kind(), ErrorKind::Invalid),
        }
    }

    pub fn online(&mut self, index: usize, cpu: Thing) {
        let place = CpuPlace {
            affinity: cpu.affinity(),
            level: cpu.key_level(),
            node: cpu.node.map(NodeId::new),
        };
        let came = self
            .proximity
            .online(&PLATFORM, CpuIndex::new(index as u32), place);
        match self.model.cpus[index] {
            None => assert_eq!(came, Ok(())),
            Some(_) => return assert_eq!(came.unwrap_err().kind(), ErrorKind::Exists),
        }
        self.model.cpus[index] = Some(cpu);
    }

    pub fn offline(&mut self, index: usize) {
        let went = self
            .proximity
            .offline(&PLATFORM, CpuIndex::new(index as u32));
        match self.model.cpus[index].take() {
            Some(_) => assert_eq!(went, Ok(())),
            None => assert_eq!(went.unwrap_err().kind(), ErrorKind::Offline),
        }
    }

    /// Takes everything away.
    pub fn clear(&mut self) {
        for cpu in 0..self.model.cpus.len() {
            if self.model.cpus[cpu].is_some() {
                self.offline(cpu);
            }
        }
        for unit in 0..self.model.units.len() {
            if self.model.units[unit].is_some() {
                self.remove(unit);
            }
        }
    }

    /// The answer that our side gives for a CPU.
    pub fn ours(&self, cpu: usize) -> Option<(u32, Rule)> {
        let index = CpuIndex::new(cpu as u32);
        match self.proximity.settled(index) {
            Ok(settled) => Some((settled.unit.get(), settled.rule)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                None
            }
        }
    }

    /// All CPUs have the answers of the rules.
    pub fn check(&mut self) {
        for cpu in 0..self.model.cpus.len() {
            let index = CpuIndex::new(cpu as u32);
            let Some(place) = self.model.cpus[cpu] else {
                let error = self.proximity.unit(index).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Offline);
                continue;
            };
            let answer = self.model.answer(cpu);
            assert_eq!(self.ours(cpu), answer, "{cpu} {:?}", self.model);
            self.seen[answer.map_or(4, |(_, rule)| rule as usize)] += 1;
            let Some((unit, _)) = answer else { continue };
            assert_eq!(self.proximity.unit(index).map(UnitIndex::get), Ok(unit));
            let level = self.model.units[unit as usize].unwrap().level;
            let mismatch = self.proximity.settled(index).unwrap().mismatch;
            let levels = mismatch.map(|levels| (levels.cpu.get(), levels.unit.get()));
            let differ = level != 0 && level != place.level;
            let expected = differ.then_some((place.level as u32, level as u32));
            assert_eq!(levels, expected, "{cpu} {:?}", self.model);
        }
    }
}
