// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a CPU that goes takes and writes, and that the rest of the machine is no part of it. Run
//! by `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-core --test trace_hotplug`.
#![cfg(irq_trace)]

mod hotplug_common;

use hotplug_common::mask;
use hotplug_common::platform::Player;
use hotplug_common::quiet::Quiet;
use hotplug_common::rig::{cpu, on};
use irq_core::hotplug::{Hotplug, NewIrq};
use irq_core::{Irq, IrqRange};
use irq_hal::atomic::trace::{Event, Kind, on_cpu, record};

/// What CPU 1 does to go, with `own` interrupts, `old` places and `others` elsewhere.
fn going(irqs: u32, own: u32, old: u32, others: u32) -> Vec<Kind> {
    let (mover, platform) = (Quiet::default(), Player::new(1));
    let hotplug = Hotplug::new(64, IrqRange::new(Irq::new(0), irqs).unwrap()).unwrap();
    let changes = hotplug.changes(&platform, &mover);
    (0..64).for_each(|index| _ = changes.online(cpu(index)).unwrap());
    let start = |irq, cpus: &[u32]| {
        let affinity = mask(cpus);
        let new = NewIrq {
            affinity,
            ..NewIrq::regular()
        };
        changes.add(Irq::new(irq), new).unwrap();
        changes.start(Irq::new(irq)).unwrap();
    };
    (0..own).for_each(|irq| start(irq, &[1, 9]));
    for irq in own..own + old {
        start(irq, &[1]);
        changes
            .set_affinity(Irq::new(irq), &mut mask(&[5]))
            .unwrap();
    }
    (own + old..own + old + others).for_each(|irq| start(irq, &[2 + irq % 60]));
    let mut served = 0;
    let events = record(|| {
        on_cpu(cpu(1), || {
            let offline = changes.offline(&on(1)).unwrap();
            served = offline.moved;
            assert_eq!(offline.places, own + old);
        })
    });
    assert_eq!(served, own);
    kinds(&events)
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

fn locks(kinds: &[Kind]) -> usize {
    kinds.iter().filter(|kind| **kind == Kind::Lock).count()
}

#[test]
fn trace_shows_that_a_cpu_that_goes_costs_what_it_serves_and_nothing_else() {
    let small = going(8, 3, 2, 0);
    assert_eq!(small, going(3000, 3, 2, 0));
    assert_eq!(small, going(3000, 3, 2, 2900));
    // So many locks for each interrupt, and each old place; a few for the CPU.
    let none = locks(&going(8, 0, 0, 0));
    let each = locks(&going(8, 1, 0, 0)) - none;
    let old = locks(&going(8, 0, 1, 0)) - none;
    assert!(none <= 8 && each <= 20 && old <= 10, "{none} {each} {old}");
    assert_eq!(
        locks(&going(3000, 700, 300, 1000)),
        none + 700 * each + 300 * old
    );
}

#[test]
fn trace_shows_that_an_arrival_that_nothing_waits_for_is_one_load() {
    let (mover, platform) = (Quiet::default(), Player::new(0));
    let hotplug = Hotplug::new(2, IrqRange::new(Irq::new(0), 4).unwrap()).unwrap();
    let changes = hotplug.changes(&platform, &mover);
    changes.online(cpu(0)).unwrap();
    changes.add(Irq::new(0), NewIrq::regular()).unwrap();
    changes.start(Irq::new(0)).unwrap();
    let arrive = || record(|| on_cpu(cpu(0), || changes.arrived(&on(0), Irq::new(0))));
    // The first one may be what a move waits for.
    arrive();
    assert_eq!(kinds(&arrive()), [Kind::Read]);
    let tick = record(|| on_cpu(cpu(0), || assert!(!hotplug.is_due(cpu(0)))));
    assert_eq!(kinds(&tick), [Kind::Read]);
}
