// SPDX-License-Identifier: MIT OR Apache-2.0
//! All small machines, against the rules as they can be said most plainly. One object serves
//! machine after machine: what came and went leaves no trace.
#![cfg(not(loom))]

mod common;
mod proximity_common;

use proximity_common::{Machine, Thing};

/// Affinities that differ from 0 in one field each.
const ZERO: [u8; 4] = [0, 0, 0, 0];
const AFF1: [u8; 4] = [0, 0, 1, 0];
const AFF2: [u8; 4] = [0, 1, 0, 0];
const AFF3: [u8; 4] = [1, 0, 0, 0];

const NODES: [Option<u32>; 3] = [None, Some(0), Some(1)];

/// All things with these affinities and levels, on these nodes.
fn things(keys: &[([u8; 4], usize)], nodes: &[Option<u32>]) -> Vec<Thing> {
    keys.iter()
        .flat_map(|(aff, level)| nodes.iter().map(|node| Thing::new(*aff, *level, *node)))
        .collect()
}

/// Each choice of `count` things, in each order, with repetitions.
fn tuples(of: &[Thing], count: usize) -> impl Iterator<Item = Vec<Thing>> {
    let choices = of.len().pow(count as u32);
    (0..choices).map(move |number| {
        let digit = |place| number / of.len().pow(place) % of.len();
        (0..count as u32).map(|place| of[digit(place)]).collect()
    })
}

/// Four CPUs, one for each affinity, the fields below a key not always 0.
fn cpus(levels: [usize; 4], nodes: [Option<u32>; 4]) -> [Thing; 4] {
    let affinities = [ZERO, [0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 0]];
    [0, 1, 2, 3].map(|cpu| Thing::new(affinities[cpu], levels[cpu], nodes[cpu]))
}

/// One level for all, and levels that contradict each other.
const LEVELS: [[usize; 4]; 7] = [
    [0; 4],
    [1; 4],
    [2; 4],
    [3; 4],
    [0, 1, 2, 3],
    [3, 0, 1, 2],
    [2, 3, 0, 1],
];

const NODES_OF_CPUS: [[Option<u32>; 4]; 3] = [
    [None; 4],
    [Some(0), Some(0), Some(0), Some(1)],
    [Some(1), None, Some(1), Some(0)],
];

fn configurations() -> impl Iterator<Item = [Thing; 4]> {
    LEVELS
        .into_iter()
        .flat_map(|levels| NODES_OF_CPUS.map(|nodes| cpus(levels, nodes)))
}

/// Scatters `number`, so that it keeps no step with what it counts.
fn scattered(number: usize) -> usize {
    (number as u32).wrapping_mul(0x9e37_79b9) as usize >> 12
}

impl Machine {
    /// Takes the CPUs through all of the sets that can be online, one at a time.
    fn all_sets_of(&mut self, cpus: [Thing; 4]) {
        for step in 1..=1_u32 << cpus.len() {
            // The last step is back to none.
            let cpu = (step.trailing_zeros() as usize).min(cpus.len() - 1);
            match self.model.cpus[cpu] {
                None => self.online(cpu, cpus[cpu]),
                Some(_) => self.offline(cpu),
            }
            self.check();
        }
    }

    /// Takes each unit away and gives it back, then all of them.
    fn each_unit_goes(&mut self, units: &[Thing]) {
        for (index, unit) in units.iter().enumerate() {
            self.remove(index);
            self.check();
            self.add(index, *unit);
        }
        self.check();
        for index in 0..units.len() {
            self.remove(index);
            self.check();
        }
    }
}

/// Each of the first `kinds` gave many answers: the rules, and then none of them.
fn all_seen(machine: &Machine, kinds: usize) {
    let mut seen = machine.seen[..kinds].iter();
    assert!(seen.all(|count| *count > 1000), "{:?}", machine.seen);
}

#[test]
fn every_machine_of_two_units_obeys_the_rules_whatever_cpus_are_online() {
    let keys: Vec<_> = [ZERO, AFF1, AFF2, AFF3]
        .into_iter()
        .flat_map(|aff| (0..=3).map(move |level| (aff, level)))
        .collect();
    let mut machine = Machine::plain(4, 2, 2);
    for units in tuples(&things(&keys, &NODES), 2) {
        for (index, unit) in units.iter().enumerate() {
            machine.add(index, *unit);
        }
        for cpus in configurations() {
            machine.all_sets_of(cpus);
        }
        machine.clear();
    }
    all_seen(&machine, 4);
}

/// What a unit can say: the keys that make a difference to the CPUs above.
const KEYS: [([u8; 4], usize); 9] = [
    (ZERO, 0),
    (ZERO, 1),
    (AFF3, 1),
    (ZERO, 2),
    (AFF2, 2),
    (AFF3, 2),
    (ZERO, 3),
    (AFF1, 3),
    (AFF3, 3),
];

#[test]
fn every_machine_of_three_units_obeys_the_rules_also_when_one_goes() {
    let mut machine = Machine::plain(4, 3, 2);
    let configurations: Vec<_> = configurations().collect();
    for (number, units) in tuples(&things(&KEYS, &NODES), 3).enumerate() {
        let scattered = scattered(number);
        let cpus = configurations[scattered % configurations.len()];
        // How many of the units are there before the CPUs.
        let early = scattered / configurations.len() % 3;
        for (index, unit) in units.iter().enumerate().take(early) {
            machine.add(index, *unit);
        }
        for (index, cpu) in cpus.iter().enumerate() {
            machine.online(index, *cpu);
        }
        for (index, unit) in units.iter().enumerate().skip(early) {
            machine.add(index, *unit);
            machine.check();
        }
        machine.each_unit_goes(&units);
        machine.clear();
    }
    all_seen(&machine, 5);
}

#[test]
fn every_machine_of_four_units_obeys_the_rules_also_when_one_goes() {
    let keys = [
        (ZERO, 0),
        (AFF3, 1),
        (ZERO, 2),
        (AFF2, 2),
        (ZERO, 3),
        (AFF1, 3),
    ];
    let mut machine = Machine::plain(4, 4, 2);
    let configurations: Vec<_> = configurations().collect();
    for (number, units) in tuples(&things(&keys, &NODES[..2]), 4).enumerate() {
        for (index, unit) in units.iter().enumerate() {
            machine.add(index, *unit);
        }
        let cpus = configurations[scattered(number) % configurations.len()];
        for (index, cpu) in cpus.iter().enumerate() {
            machine.online(index, *cpu);
        }
        machine.each_unit_goes(&units);
        machine.clear();
    }
    all_seen(&machine, 5);
}
