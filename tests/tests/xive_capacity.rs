// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event queues wrap and never overflow: the model panics if one does.

use irq_core::Lines;
use irq_hal::{CpuIndex, Error};
use irq_sim::xive::Gen;
use irq_tests::xive::{GENERATIONS, Machine};
use irq_xive::Config;

/// Queues of 1024 entries, with room for 511 sources.
const SMALL: Config = Config {
    base: irq_core::Irq::new(0),
    sources: 1100,
    ipi_priority: irq_xive::Priority::IPI,
    device_priority: irq_xive::Priority::DEVICE,
    device_queue: 12,
};
const ROOM: usize = 511;

fn small(generation: Gen, cpus: u32) -> Machine {
    Machine::with(generation, cpus, 1, |b| b.ipis(1200), SMALL)
}

#[test]
fn a_queue_that_wraps_many_times_loses_and_doubles_nothing() {
    for generation in GENERATIONS {
        let machine = small(generation, 1);
        let irqs: Vec<_> = (0..7).map(|_| machine.device(0)).collect();
        // 7 and 1024 have no common divisor: each place is a boundary some time.
        for _ in 0..3 * 1024 / 7 + 10 {
            irqs.iter().for_each(|&irq| machine.fire(irq));
            assert_eq!(machine.drain(0), irqs);
        }
        assert_eq!(machine.xive.counts(CpuIndex::new(0)).unwrap().unknown, 0);
    }
}

#[test]
fn the_queue_of_64_kib_wraps_too() {
    let machine = Machine::new(Gen::Two, 1);
    let irqs: Vec<_> = (0..100).map(|_| machine.device(0)).collect();
    for _ in 0..2 * 16384 / 100 + 2 {
        irqs.iter().for_each(|&irq| machine.fire(irq));
        assert_eq!(machine.drain(0), irqs);
    }
}

#[test]
fn any_number_of_ipis_needs_no_queue() {
    let machine = Machine::new(Gen::One, 1);
    for _ in 0..2 * 16384 + 5 {
        let kicked = machine.sim.as_cpu(0, |_| {
            irq_core::Kick::kick(&machine.xive, CpuIndex::new(0), || true)
        });
        kicked.unwrap();
        assert_eq!(machine.drain(0), [machine.xive.ipi_irq()]);
    }
}

#[test]
fn a_queue_takes_as_many_sources_as_it_has_room_for_and_then_refuses() {
    let machine = small(Gen::Two, 2);
    let irqs: Vec<_> = (0..ROOM).map(|_| machine.device(0)).collect();
    let full = Error::Full {
        what: "sources of the CPU's event queue",
        capacity: ROOM as u32,
    };
    let allocated = machine.model.allocated(0).len();
    assert_eq!(machine.xive.alloc_source(CpuIndex::new(0)), Err(full));
    assert_eq!(machine.model.allocated(0).len(), allocated);
    let other = machine.device(1);
    assert_eq!(machine.xive.set_target(other, CpuIndex::new(0)), Err(full));
    assert_eq!(machine.xive.target(other), Ok(CpuIndex::new(1)));
    // One that goes makes room.
    machine.xive.free(irqs[0]).unwrap();
    machine.xive.set_target(other, CpuIndex::new(0)).unwrap();
}

#[test]
fn a_full_queue_whose_sources_all_fire_and_are_ended_one_by_one_does_not_overflow() {
    for generation in GENERATIONS {
        let machine = small(generation, 1);
        let irqs: Vec<_> = (0..ROOM).map(|_| machine.device(0)).collect();
        irqs.iter().for_each(|&irq| machine.fire(irq));
        // Each end leaves others behind, and each source fires again before it is ended.
        for _ in 0..4 * ROOM {
            machine.model.take(0, |_| {
                if let Some((irq, active)) = machine.ack(0) {
                    machine.fire(irq);
                    machine.end(0, active);
                }
            });
        }
        assert_eq!(machine.drain(0).len(), ROOM);
    }
}

#[test]
fn a_source_that_moves_counts_at_both_ends_until_the_old_one_is_read() {
    let machine = small(Gen::One, 2);
    let [here, there] = [0, 1].map(CpuIndex::new);
    let irqs: Vec<_> = (0..ROOM).map(|_| machine.device(0)).collect();
    // An event of it is in the queue that it leaves.
    machine.fire(irqs[0]);
    machine.xive.set_target(irqs[0], there).unwrap();
    assert_eq!(machine.xive.load(here), Ok((ROOM as u32 - 1, 1)));
    assert_eq!(machine.xive.load(there), Ok((1, 0)));
    assert!(machine.xive.alloc_source(here).is_err(), "no room yet");
    assert_eq!(machine.drain(0), [irqs[0]]);
    assert_eq!(machine.xive.load(here), Ok((ROOM as u32 - 1, 0)));
    machine.device(0);
    // One without an event there makes room at once.
    machine.xive.set_target(irqs[1], there).unwrap();
    assert_eq!(machine.xive.load(here), Ok((ROOM as u32 - 1, 0)));
}

#[test]
fn sources_that_move_to_and_fro_with_events_on_the_way_never_overflow_a_queue() {
    for generation in GENERATIONS {
        let machine = small(generation, 2);
        let irqs: Vec<_> = (0..ROOM).map(|_| machine.device(0)).collect();
        let mut fired = 0;
        for round in 0..6 {
            let to = CpuIndex::new(1 - round % 2);
            for &irq in &irqs {
                machine.fire(irq);
                fired += 1;
                // Refused for want of room, at times.
                let _ = machine.xive.set_target(irq, to);
            }
            let taken = machine.drain(0).len() + machine.drain(1).len();
            assert_eq!(taken, ROOM, "round {round}");
        }
        assert_eq!(fired, 6 * ROOM);
        let loads = [0, 1].map(|cpu| machine.xive.load(CpuIndex::new(cpu)).unwrap());
        assert_eq!(loads[0].0 + loads[1].0, ROOM as u32);
        assert_eq!((loads[0].1, loads[1].1), (0, 0));
    }
}

#[test]
fn a_table_that_is_full_is_an_error_and_gives_the_number_back() {
    let config = Config {
        sources: 3,
        ..Config::default()
    };
    let machine = Machine::with(Gen::Two, 1, 1, |builder| builder, config);
    let irqs: Vec<_> = (0..3).map(|_| machine.device(0)).collect();
    let allocated = machine.model.allocated(0).len();
    let full = Error::Full {
        what: "irqs for sources",
        capacity: 3,
    };
    assert_eq!(machine.xive.alloc_source(CpuIndex::new(0)), Err(full));
    assert_eq!(machine.model.allocated(0).len(), allocated);
    for &irq in &irqs {
        assert!(machine.xive.state(irq).is_ok());
    }
}
