// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a lookup reads, and who writes it. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_proximity`.
#![cfg(irq_trace)]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::proximity::{Affinity, CpuPlace, Distances, KeyLevel, Proximity, Unit, UnitIndex};
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record, shared_lines};

static PLATFORM: Cpu = Cpu::new(0);

const PER_SOCKET: u32 = 64;

fn unit(socket: u32) -> Unit {
    Unit {
        affinity: Affinity::new(socket << 24),
        level: KeyLevel::new(1).unwrap(),
        node: Some(NodeId::new(socket)),
    }
}

fn place(cpu: u32) -> CpuPlace {
    let socket = cpu / PER_SOCKET;
    CpuPlace {
        affinity: Affinity::new((socket << 24) | (cpu % PER_SOCKET)),
        level: KeyLevel::new(1).unwrap(),
        node: Some(NodeId::new(socket)),
    }
}

/// All units are there, no CPU is online.
fn machine(sockets: u32) -> Proximity {
    let distances = Distances::plain(sockets).unwrap();
    let proximity = Proximity::new(sockets * PER_SOCKET, sockets, distances).unwrap();
    for socket in 0..sockets {
        proximity
            .add(&PLATFORM, UnitIndex::new(socket), unit(socket))
            .unwrap();
    }
    proximity
}

fn online(proximity: &Proximity, cpu: u32) {
    proximity
        .online(&PLATFORM, CpuIndex::new(cpu), place(cpu))
        .unwrap();
}

fn events(cpu: u32, f: impl FnOnce()) -> Vec<Event> {
    record(|| on_cpu(CpuIndex::new(cpu), f))
}

/// The lock, what the line says, what it says from now on: no other CPU is looked at.
const STEPS: [Kind; 3] = [Kind::Lock, Kind::Read, Kind::Write];

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

fn writes(events: &[Event]) -> Vec<usize> {
    let writes = events.iter().filter(|event| event.kind == Kind::Write);
    writes.map(|event| event.line).collect()
}

fn lookup(proximity: &Proximity, cpu: u32) -> Event {
    let events = events(cpu, || {
        proximity.unit(CpuIndex::new(cpu)).unwrap();
    });
    assert_eq!(events.len(), 1);
    events[0]
}

#[test]
fn trace_shows_that_a_lookup_is_one_load_from_the_cpus_own_line() {
    let proximity = machine(2);
    let cpus = || 0..proximity.cpus();
    cpus().for_each(|cpu| online(&proximity, cpu));
    let mut lines = Vec::new();
    for cpu in cpus() {
        let event = lookup(&proximity, cpu);
        assert_eq!(event.kind, Kind::Read);
        lines.push(event.line);
    }
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len() as u32, proximity.cpus());
}

#[test]
fn trace_shows_that_a_cpu_that_comes_or_goes_writes_its_line_alone() {
    for sockets in [2, 64] {
        let proximity = machine(sockets);
        for cpu in (0..proximity.cpus()).rev() {
            let came = events(cpu, || online(&proximity, cpu));
            let line = lookup(&proximity, cpu).line;
            assert_eq!((kinds(&came), writes(&came)), (STEPS.into(), vec![line]));
        }
        let line = lookup(&proximity, 0).line;
        let went = events(0, || {
            proximity.offline(&PLATFORM, CpuIndex::new(0)).unwrap()
        });
        assert_eq!((kinds(&went), writes(&went)), (STEPS.into(), vec![line]));
    }
}

#[test]
fn trace_shows_that_a_unit_that_goes_or_comes_writes_the_lines_of_its_cpus_alone() {
    let proximity = machine(4);
    let cpus = || 0..proximity.cpus();
    cpus().for_each(|cpu| online(&proximity, cpu));
    let on_socket = PER_SOCKET..2 * PER_SOCKET;
    let lines: Vec<_> = on_socket.map(|cpu| lookup(&proximity, cpu).line).collect();
    let index = UnitIndex::new(1);
    let went = events(0, || proximity.remove(&PLATFORM, index).unwrap());
    assert_eq!(writes(&went), lines);
    let came = events(0, || proximity.add(&PLATFORM, index, unit(1)).unwrap());
    assert_eq!(writes(&came), lines);
}

#[test]
fn trace_shows_that_an_answer_that_stays_is_not_written_again() {
    let distances = Distances::plain(2).unwrap();
    let proximity = Proximity::new(2, 3, distances).unwrap();
    let keyless = [0, 1].map(|node| (node, Unit::on_node(NodeId::new(node))));
    for (index, unit) in keyless {
        proximity
            .add(&PLATFORM, UnitIndex::new(index), unit)
            .unwrap();
    }
    // Their units are found by node, which every unit that comes or goes could change.
    for node in 0..2 {
        let place = CpuPlace::on_node(NodeId::new(node));
        proximity
            .online(&PLATFORM, CpuIndex::new(node), place)
            .unwrap();
    }
    let index = UnitIndex::new(2);
    let came = events(0, || proximity.add(&PLATFORM, index, keyless[1].1).unwrap());
    let went = events(0, || proximity.remove(&PLATFORM, index).unwrap());
    assert_eq!(writes(&[came, went].concat()), []);
    let line = lookup(&proximity, 1).line;
    let index = UnitIndex::new(1);
    let went = events(0, || proximity.remove(&PLATFORM, index).unwrap());
    assert_eq!(writes(&went), [line]);
}

#[test]
fn trace_shows_that_lookups_of_all_cpus_share_no_line_that_is_written() {
    let proximity = machine(2);
    (0..proximity.cpus()).for_each(|cpu| online(&proximity, cpu));
    let events = record(|| {
        for cpu in (0..proximity.cpus()).map(CpuIndex::new) {
            on_cpu(cpu, || proximity.unit(cpu).unwrap());
        }
    });
    assert_eq!(shared_lines(&events), []);
}
