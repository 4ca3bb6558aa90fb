// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any order, and any way in which a CPU came by its table, leads to the same unit; also on
//! machines too large to try all of them.
#![cfg(not(loom))]

mod common;
mod proximity_common;

use irq_core::proximity::Rule;
use proptest::prelude::*;
use proximity_common::{Machine, Model, Thing, plain, same};

/// What comes: a unit or a CPU.
#[derive(Clone, Copy, Debug)]
enum Comes {
    Unit(usize),
    Cpu(usize),
}

fn come(machine: &mut Machine, what: Comes, units: &[Thing], cpus: &[Thing]) {
    match what {
        Comes::Unit(index) => machine.add(index, units[index]),
        Comes::Cpu(index) => machine.online(index, cpus[index]),
    }
}

/// Calls `f` with each order of `items`.
fn permutations<T: Copy>(items: &mut [T], fixed: usize, f: &mut impl FnMut(&[T])) {
    if fixed == items.len() {
        return f(items);
    }
    for next in fixed..items.len() {
        items.swap(fixed, next);
        permutations(items, fixed + 1, f);
        items.swap(fixed, next);
    }
}

fn answers(machine: &Machine, cpus: usize) -> Vec<Option<(u32, Rule)>> {
    (0..cpus).map(|cpu| machine.ours(cpu)).collect()
}

/// Machines on which the rules meet: keys of several levels that are partly zeros, CPUs that
/// share by hearsay, nodes known and unknown.
fn machines(units: usize, cpus: usize) -> impl Iterator<Item = (Vec<Thing>, Vec<Thing>)> {
    const AFFINITIES: [[u8; 4]; 5] = [
        [0, 0, 0, 0],
        [0, 0, 1, 1],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 1],
    ];
    const NODES: [Option<u32>; 3] = [None, Some(0), Some(1)];
    let mut state = 1_u32;
    let mut next = move |below: usize| {
        // The constants of Numerical Recipes; the high bits are the random ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    let mut thing = move || Thing::new(AFFINITIES[next(5)], next(4), NODES[next(3)]);
    std::iter::repeat_with(move || {
        let units = (0..units).map(|_| thing()).collect();
        (units, (0..cpus).map(|_| thing()).collect())
    })
}

/// How often the answers of a machine are by a peer's key.
fn by_peer(machine: &Machine, cpus: usize) -> usize {
    let by_peer = |cpu: &usize| {
        let answer = machine.ours(*cpu);
        answer.is_some_and(|(_, rule)| rule == Rule::PeerKey)
    };
    (0..cpus).filter(by_peer).count()
}

#[test]
fn units_and_cpus_that_come_in_any_order_lead_to_the_same_answers() {
    let (mut machine, mut peers) = (Machine::plain(3, 3, 2), 0);
    for (units, cpus) in machines(3, 3).take(300) {
        let mut first = None;
        let mut all: Vec<_> = (0..3)
            .flat_map(|index| [Comes::Unit(index), Comes::Cpu(index)])
            .collect();
        permutations(&mut all, 0, &mut |order| {
            for what in order {
                come(&mut machine, *what, &units, &cpus);
            }
            let answers = answers(&machine, 3);
            peers += by_peer(&machine, 3);
            let first = first.get_or_insert_with(|| {
                machine.check();
                answers.clone()
            });
            assert_eq!(*first, answers, "{order:?} {units:?} {cpus:?}");
            machine.clear();
        });
    }
    assert_ne!(peers, 0);
}

#[test]
fn four_units_in_any_order_and_then_four_cpus_in_any_order_lead_to_the_same_answers() {
    let (mut machine, mut peers) = (Machine::plain(4, 4, 2), 0);
    for (units, cpus) in machines(4, 4).take(60) {
        let mut first = None;
        permutations(&mut [0, 1, 2, 3], 0, &mut |probed| {
            permutations(&mut [0, 1, 2, 3], 0, &mut |came| {
                for index in probed {
                    machine.add(*index, units[*index]);
                }
                for index in came {
                    machine.online(*index, cpus[*index]);
                }
                let answers = answers(&machine, 4);
                peers += by_peer(&machine, 4);
                let first = first.get_or_insert_with(|| {
                    machine.check();
                    answers.clone()
                });
                assert_eq!(*first, answers, "{probed:?} {came:?} {units:?} {cpus:?}");
                machine.clear();
            });
        });
    }
    assert_ne!(peers, 0);
}

/// How a CPU came by its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    Inherited,
    Imported(usize),
    Allocated,
}

/// The order of bring-up: from a peer that is up, from the first unit of the CPU's key that has a
/// table, or newly allocated.
fn table(model: &Model, cpu: Thing, has_table: u32) -> Table {
    let mut peers = model.cpus.iter().flatten();
    if peers.any(|peer| peer.level == cpu.level && same(peer.aff, cpu.aff, cpu.level)) {
        return Table::Inherited;
    }
    for (index, unit) in model.units.iter().enumerate() {
        if let Some(unit) = unit
            && unit.level != 0
            && same(unit.aff, cpu.aff, unit.level)
            && has_table >> index & 1 != 0
        {
            return Table::Imported(index);
        }
    }
    Table::Allocated
}

#[test]
fn cpus_that_inherited_imported_or_allocated_their_table_are_all_served_by_a_unit_that_shares_it() {
    let mut machine = Machine::plain(4, 2, 2);
    let mut seen = [0; 3];
    for (units, cpus) in machines(2, 4).take(3000) {
        // Whatever tables the firmware, or a kernel before, left in the units.
        let mut first = None;
        for has_table in 0..1 << units.len() {
            for (index, unit) in units.iter().enumerate() {
                machine.add(index, *unit);
            }
            let mut tables = Vec::new();
            for (index, cpu) in cpus.iter().enumerate() {
                tables.push(table(&machine.model, *cpu, has_table));
                machine.online(index, *cpu);
            }
            machine.check();
            let answers = answers(&machine, 4);
            for ((table, cpu), answer) in tables.iter().zip(&cpus).zip(&answers) {
                let (unit, rule) = answer.unwrap();
                seen[match table {
                    Table::Inherited => 0,
                    Table::Imported(_) => 1,
                    Table::Allocated => 2,
                }] += 1;
                let shares = |unit: &Thing| unit.level != 0 && same(unit.aff, cpu.aff, unit.level);
                // Never a fallback where a unit has the CPU's key, as for one that imported.
                assert_eq!(units.iter().any(shares), rule == Rule::OwnKey);
                if let Table::Imported(from) = table {
                    assert!(shares(&units[*from]) && shares(&units[unit as usize]));
                }
            }
            assert_eq!(*first.get_or_insert_with(|| answers.clone()), answers);
            machine.clear();
        }
    }
    assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
}

#[derive(Clone, Debug)]
enum Op {
    Add(usize, Thing),
    Remove(usize),
    Online(usize, Thing),
    Offline(usize),
}

/// Few values, so that keys meet at each level.
fn thing(nodes: u32) -> impl Strategy<Value = Thing> {
    let field = || 0..2_u8;
    let affinity = (field(), field(), field(), any::<u8>());
    let node = prop_oneof![1 => Just(None), 3 => (0..nodes).prop_map(Some)];
    (affinity, 0..=3_usize, node).prop_map(|((aff3, aff2, aff1, aff0), level, node)| {
        Thing::new([aff3, aff2, aff1, aff0], level, node)
    })
}

const CPUS: usize = 130;
const UNITS: usize = 9;
const NODES: usize = 5;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..UNITS, thing(NODES as u32)).prop_map(|(index, unit)| Op::Add(index, unit)),
        2 => (0..UNITS).prop_map(Op::Remove),
        9 => (0..CPUS, thing(NODES as u32)).prop_map(|(index, cpu)| Op::Online(index, cpu)),
        4 => (0..CPUS).prop_map(Op::Offline),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_sequence_of_changes_agrees_with_the_rules(
        distances in proptest::option::of(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), NODES), NODES)
        ),
        ops in proptest::collection::vec(op(), 0..120),
    ) {
        let mut machine = match distances {
            Some(distances) => Machine::new(CPUS, UNITS, distances),
            None => Machine::new(CPUS, UNITS, plain(NODES)),
        };
        for op in ops {
            match op {
                Op::Add(index, unit) => machine.add(index, unit),
                Op::Remove(index) => machine.remove(index),
                Op::Online(index, cpu) => machine.online(index, cpu),
                Op::Offline(index) => machine.offline(index),
            }
            machine.check();
        }
    }
}
