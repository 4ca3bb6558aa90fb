// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines of 16 nodes, 8 threads a core, that come up: the topology's masks, one for each
//! domain, and masks of each CPU that are kept pairwise.
//!
//! A pass brings all CPUs online, one after another: `bring_up` a machine that has just been made,
//! so that every CPU is bound to its domains too; `bring_back` one whose CPUs have all been online
//! before; `take_down` takes them offline. Where any of it allocates the program fails.

#[allow(dead_code, reason = "each program uses its part")]
mod measure;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use irq_core::topology::Topology;
use irq_tests::bare::Bare;
use irq_tests::heap::{Counting, allocations, held};
use irq_tests::machine::Machine;
use irq_tests::pairwise::Pairwise;
use measure::{Limit, Meter, Point, Variant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NODES: u32 = 16;

fn machine(cpus: u32) -> Machine {
    Machine {
        cpus,
        nodes: NODES,
        threads: 8,
        apart: false,
    }
}

fn made(machine: &Machine) -> Topology {
    Topology::new(machine.cpus, machine.nodes).expect("memory for a topology")
}

fn peer(machine: &Machine) -> Pairwise {
    let places = machine.each().map(|cpu| machine.place(cpu.get()));
    Pairwise::new(&places.collect::<Vec<_>>())
}

fn all_online(topology: &Topology, machine: &Machine) {
    for cpu in machine.each() {
        let online = topology.online(&Bare, cpu, machine.place(cpu.get()));
        online.expect("a CPU comes online");
    }
}

fn all_offline(topology: &Topology, machine: &Machine) {
    for cpu in machine.each() {
        topology.offline(cpu).expect("a CPU goes offline");
    }
}

fn all_online_pairwise(masks: &mut Pairwise, machine: &Machine) {
    machine.each().for_each(|cpu| masks.online(cpu));
}

fn all_offline_pairwise(masks: &mut Pairwise, machine: &Machine) {
    machine.each().for_each(|cpu| masks.offline(cpu));
}

/// How long `f` takes.
fn time(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

/// `passes` times what `f` says.
fn sum(passes: u64, f: impl FnMut(u64) -> Duration) -> Duration {
    (0..passes).map(f).sum()
}

/// The medians of ours and the peer's, with their rows.
fn report<'a>(
    meter: &mut Meter,
    point: &Point,
    ours: impl FnMut(u64) -> Duration + 'a,
    pairwise: impl FnMut(u64) -> Duration + 'a,
) -> [f64; 2] {
    let variants = [
        Variant::new("pairwise", pairwise),
        Variant::new("ours", ours),
    ];
    let [pairwise, ours] = meter.rows(point, variants);
    let cpus = f64::from(point.cpus);
    point.row("pairwise", pairwise / cpus, "ns/CPU");
    point.row("ours", ours / cpus, "ns/CPU");
    [ours, pairwise]
}

/// All that is timed on a machine of so many CPUs; the medians of `bring_up`.
fn timed(meter: &mut Meter, cpus: u32) -> [f64; 2] {
    let point = |bench| Point {
        bench,
        cpus,
        nodes: NODES,
    };
    let machine = machine(cpus);
    let (topology, mut masks) = (made(&machine), peer(&machine));
    let up = report(
        meter,
        &point("bring_up"),
        |passes| {
            sum(passes, |_| {
                let topology = made(&machine);
                time(|| all_online(&topology, &machine))
            })
        },
        |passes| {
            sum(passes, |_| {
                let mut masks = peer(&machine);
                time(|| all_online_pairwise(&mut masks, &machine))
            })
        },
    );
    all_online(&topology, &machine);
    all_offline(&topology, &machine);
    let online = |passes| {
        sum(passes, |_| {
            let took = time(|| all_online(&topology, &machine));
            all_offline(&topology, &machine);
            took
        })
    };
    report(meter, &point("bring_back"), online, |passes| {
        sum(passes, |_| {
            let took = time(|| all_online_pairwise(&mut masks, &machine));
            all_offline_pairwise(&mut masks, &machine);
            took
        })
    });
    let offline = |passes| {
        sum(passes, |_| {
            all_online(&topology, &machine);
            time(|| all_offline(&topology, &machine))
        })
    };
    report(meter, &point("take_down"), offline, |passes| {
        sum(passes, |_| {
            all_online_pairwise(&mut masks, &machine);
            time(|| all_offline_pairwise(&mut masks, &machine))
        })
    });
    up
}

/// What is counted on a machine of so many CPUs: bytes; and the allocations of coming up, going
/// and coming back.
fn counted(cpus: u32) -> u64 {
    let machine = machine(cpus);
    let (masks, pairwise) = held(|| peer(&machine));
    drop(masks);
    let (topology, ours) = held(|| made(&machine));
    let count = allocations(|| {
        all_online(&topology, &machine);
        all_offline(&topology, &machine);
        all_online(&topology, &machine);
    });
    let point = Point {
        bench: "bring_up",
        cpus,
        nodes: NODES,
    };
    for (variant, bytes) in [("pairwise", pairwise), ("ours", ours)] {
        point.row(variant, bytes as f64 / f64::from(cpus), "bytes/CPU");
    }
    point.row("ours", count as f64, "allocations");
    count
}

fn main() -> ExitCode {
    let [small, large] = [1024, 4096];
    let mut meter = Meter::default();
    let [ours, pairwise] = [0, 1];
    let at_small = timed(&mut meter, small);
    let at_large = timed(&mut meter, large);
    let count = counted(small) + counted(large);
    let growth = |variant: usize| at_large[variant] / at_small[variant];
    let point = Point {
        bench: "bring_up",
        cpus: large,
        nodes: NODES,
    };
    let unit = format!("times_{small}");
    point.row("pairwise", growth(pairwise), &unit);
    point.row("ours", growth(ours), &unit);
    Limit::AtMost(5.0).tell("time of 4096 CPUs by that of 1024", growth(ours));
    let faster = at_large[pairwise] / at_large[ours];
    Limit::AtLeast(100.0).tell("times faster than pairwise at 4096 CPUs", faster);
    Limit::AtMost(0.0).tell("allocations", count as f64);
    if count == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
