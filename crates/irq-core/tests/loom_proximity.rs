// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups while units go and come, and CPUs that settle each other. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_proximity`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::proximity::{
    Affinity, CpuPlace, Distances, KeyLevel, Proximity, Rule, Unit, UnitIndex,
};
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use loom::thread;

const FIRST: CpuIndex = CpuIndex::new(0);
const SECOND: CpuIndex = CpuIndex::new(1);

fn unit(affinity: u32, level: u32) -> Unit {
    Unit {
        affinity: Affinity::new(affinity),
        level: KeyLevel::new(level).unwrap(),
        node: None,
    }
}

fn place(affinity: u32, level: u32) -> CpuPlace {
    CpuPlace {
        affinity: Affinity::new(affinity),
        level: KeyLevel::new(level).unwrap(),
        node: Some(NodeId::FLAT),
    }
}

fn proximity() -> Arc<Proximity> {
    Arc::new(Proximity::new(2, 2, Distances::plain(1).unwrap()).unwrap())
}

fn add(proximity: &Proximity, index: u32, unit: Unit) {
    let platform = Cpu::new(1);
    proximity
        .add(&platform, UnitIndex::new(index), unit)
        .unwrap();
}

fn remove(proximity: &Proximity, index: u32) {
    let platform = Cpu::new(1);
    proximity.remove(&platform, UnitIndex::new(index)).unwrap();
}

fn online(proximity: &Proximity, cpu: CpuIndex, place: CpuPlace) {
    let platform = Cpu::new(cpu.get());
    proximity.online(&platform, cpu, place).unwrap();
}

fn answer(proximity: &Proximity, cpu: CpuIndex) -> (u32, Rule) {
    let settled = proximity.settled(cpu).unwrap();
    (settled.unit.get(), settled.rule)
}

/// Reads while `change` runs on another CPU. loom hands a reader that comes late any value that
/// is not ordered before it: that it comes late, and is ordered by nothing, is the flag's part.
fn read_beside(
    proximity: &Arc<Proximity>,
    change: impl FnOnce(&Proximity) + Send + 'static,
    read: impl FnOnce(),
) {
    let late = Arc::new(AtomicBool::new(false));
    let other = thread::spawn({
        let (proximity, late) = (proximity.clone(), late.clone());
        move || {
            change(&proximity);
            late.store(true, Relaxed);
        }
    });
    late.load(Relaxed);
    read();
    other.join().unwrap();
}

/// CPU 0 looks twice while `change` runs: it finds `old`, and then `new`, and nothing else.
fn a_reader_beside(
    before: fn(&Proximity),
    change: fn(&Proximity),
    old: (u32, Rule),
    new: (u32, Rule),
) {
    // Over all interleavings; not loom's.
    let met = Arc::new([const { std::sync::atomic::AtomicBool::new(false) }; 3]);
    loom::model({
        let met = met.clone();
        move || {
            let proximity = proximity();
            before(&proximity);
            assert_eq!(answer(&proximity, FIRST), old);
            read_beside(&proximity, change, || {
                let seen = [answer(&proximity, FIRST), answer(&proximity, FIRST)];
                let allowed = [[old, old], [old, new], [new, new]];
                let at = allowed.iter().position(|allowed| *allowed == seen);
                met[at.unwrap()].store(true, Relaxed);
                assert!([old.0, new.0].contains(&proximity.unit(FIRST).unwrap().get()));
            });
            assert_eq!(answer(&proximity, FIRST), new);
        }
    });
    assert!(met.iter().all(|met| met.load(Relaxed)));
}

/// A unit with the key of CPU 0, the second, and one without, the first.
fn near() -> Unit {
    unit(0, 1)
}

fn far() -> Unit {
    unit(0x0100_0000, 1)
}

#[test]
fn a_lookup_while_the_unit_goes_finds_it_or_the_next_and_never_none() {
    let old = (1, Rule::OwnKey);
    let new = (0, Rule::LowestIndex);
    let before = |proximity: &Proximity| {
        add(proximity, 1, near());
        add(proximity, 0, far());
        online(proximity, FIRST, place(0, 1));
    };
    a_reader_beside(before, |proximity| remove(proximity, 1), old, new);
}

#[test]
fn a_lookup_while_a_nearer_unit_comes_finds_the_old_one_or_that() {
    let old = (0, Rule::LowestIndex);
    let new = (1, Rule::OwnKey);
    let before = |proximity: &Proximity| {
        add(proximity, 0, far());
        online(proximity, FIRST, place(0, 1));
    };
    a_reader_beside(before, |proximity| add(proximity, 1, near()), old, new);
}

#[test]
fn a_lookup_while_the_last_peer_goes_finds_the_peers_unit_or_the_next() {
    let old = (1, Rule::PeerKey);
    let new = (0, Rule::LowestIndex);
    let before = |proximity: &Proximity| {
        add(proximity, 0, far());
        add(proximity, 1, unit(0x0000_0100, 3));
        // Both say that they share at level 1; the unit names the second CPU alone.
        online(proximity, FIRST, place(0, 1));
        online(proximity, SECOND, place(0x0000_0100, 1));
    };
    let change = |proximity: &Proximity| proximity.offline(&Cpu::new(1), SECOND).unwrap();
    a_reader_beside(before, change, old, new);
}

#[test]
fn who_finds_a_new_unit_sees_what_its_owner_wrote_before() {
    loom::model(|| {
        let proximity = proximity();
        let registers = Arc::new(AtomicU32::new(0));
        online(&proximity, FIRST, place(0, 1));
        let change = {
            let registers = registers.clone();
            move |proximity: &Proximity| {
                registers.store(1, Relaxed);
                add(proximity, 0, near());
            }
        };
        read_beside(&proximity, change, || {
            if proximity.unit(FIRST).is_ok() {
                assert_eq!(registers.load(Relaxed), 1);
            }
        });
    });
}

#[test]
fn two_cpus_that_come_at_once_end_with_the_answers_of_any_order() {
    loom::model(|| {
        let proximity = proximity();
        add(&proximity, 0, far());
        add(&proximity, 1, unit(0x0000_0100, 3));
        let other = thread::spawn({
            let proximity = proximity.clone();
            move || online(&proximity, SECOND, place(0x0000_0100, 1))
        });
        online(&proximity, FIRST, place(0, 1));
        other.join().unwrap();
        assert_eq!(answer(&proximity, SECOND), (1, Rule::OwnKey));
        assert_eq!(answer(&proximity, FIRST), (1, Rule::PeerKey));
    });
}

#[test]
fn a_cpu_that_comes_while_its_unit_goes_does_not_keep_it() {
    loom::model(|| {
        let proximity = proximity();
        add(&proximity, 0, far());
        add(&proximity, 1, near());
        let other = thread::spawn({
            let proximity = proximity.clone();
            move || online(&proximity, FIRST, place(0, 1))
        });
        remove(&proximity, 1);
        other.join().unwrap();
        assert_eq!(answer(&proximity, FIRST), (0, Rule::LowestIndex));
    });
}
