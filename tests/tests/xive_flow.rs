// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries: acknowledge, end, several events behind one acknowledge, nested ones, and acknowledges
//! that find nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::{Action, Answer, Flow, Kick, Lines, Taken, Trigger};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::xive::{Gen, call};
use irq_tests::xive::{GENERATIONS, Machine, System};
use irq_xive::xive::Counts;
use irq_xive::{Config, SourceNumber};

const CPU: CpuIndex = CpuIndex::new(0);

fn kick(machine: &Machine, from: u32, to: u32) {
    let kicked = machine
        .sim
        .as_cpu(from, |_| machine.xive.kick(CpuIndex::new(to), || true));
    kicked.unwrap();
}

#[test]
fn an_event_is_taken_once_and_source_and_cpu_are_free_again() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        for _ in 0..3 {
            machine.fire(irq);
            assert!(machine.model.signalled(0));
            assert_eq!(machine.enter(0), Some(vec![irq]));
            assert!(!machine.model.signalled(0));
            assert_eq!(machine.model.cppr(0), 0xff);
        }
        assert_eq!(machine.xive.counts(CPU), Ok(Counts::default()));
    }
}

#[test]
fn any_number_of_triggers_while_one_is_under_way_is_one_more() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        (0..5).for_each(|_| machine.fire(irq));
        assert_eq!(machine.drain(0), [irq, irq]);
    }
}

#[test]
fn all_events_behind_one_acknowledge_are_taken_in_the_order_in_which_they_came() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irqs: Vec<_> = (0..7).map(|_| machine.device(0)).collect();
        irqs.iter().rev().for_each(|&irq| machine.fire(irq));
        let taken: Vec<_> = irqs.into_iter().rev().collect();
        assert_eq!(machine.enter(0), Some(taken));
        assert!(!machine.model.signalled(0));
        assert_eq!(machine.xive.counts(CPU).unwrap().rings, 0);
    }
}

#[test]
fn an_end_that_leaves_events_behind_brings_another_interrupt_for_them() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irqs: Vec<_> = (0..20).map(|_| machine.device(0)).collect();
        irqs.iter().for_each(|&irq| machine.fire(irq));
        for &irq in &irqs {
            assert!(machine.model.signalled(0), "{irq} is left behind");
            assert_eq!(machine.take(0), Some(irq));
        }
        let counts = machine.xive.counts(CPU).unwrap();
        assert_eq!((counts.rings, counts.unknown), (19, 0));
        // What the ring of the last but one left is an entry without meaning, and no more.
        while machine.model.signalled(0) {
            assert_eq!(machine.take(0), None);
        }
    }
}

#[test]
fn a_ring_whose_entry_was_never_ended_does_not_keep_the_next_from_being_forwarded() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let [a, b] = [machine.device(0), machine.device(0)];
        for _ in 0..10 {
            machine.fire(a);
            machine.fire(b);
            assert_eq!(machine.take(0), Some(a));
            assert_eq!(machine.take(0), Some(b));
        }
        assert_eq!(machine.xive.counts(CPU).unwrap().rings, 10);
    }
}

#[test]
fn a_deferred_interrupt_that_leaves_events_behind_brings_another_one_too() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let [a, b] = [machine.device(0), machine.device(0)];
        machine.fire(a);
        machine.fire(b);
        machine.model.take(0, |_| {
            let (irq, active) = machine.ack(0).unwrap();
            assert_eq!(irq, a);
            machine
                .sim
                .as_cpu(0, |_| machine.xive.defer(active))
                .unwrap();
        });
        assert_eq!(machine.drain(0), [b]);
        // It stays silent, and keeps what comes.
        machine.fire(a);
        assert_eq!(machine.drain(0), []);
        assert!(machine.xive.state(a).unwrap().active);
        machine.sim.as_cpu(1, |_| machine.xive.complete(a)).unwrap();
        assert_eq!(machine.drain(0), [a]);
        let again = machine.sim.as_cpu(1, |_| machine.xive.complete(a));
        assert_eq!(again, Err(Error::NotDeferred { irq: a.get() }));
        assert!(!machine.xive.state(a).unwrap().active);
    }
}

#[test]
fn an_ipi_that_comes_while_a_device_is_handled_nests_and_its_end_restores_what_it_interrupted() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.fire(irq);
        let (_, device) = machine.ack(0).unwrap();
        assert_eq!(machine.model.cppr(0), 6);
        // Another device waits, an IPI does not.
        let other = machine.device(0);
        machine.fire(other);
        assert!(!machine.model.signalled(0));
        kick(&machine, 1, 0);
        assert!(machine.model.signalled(0));
        assert_eq!(machine.take(0), Some(machine.xive.ipi_irq()));
        assert_eq!(machine.model.cppr(0), 6);
        assert!(!machine.model.signalled(0));
        machine.end(0, device);
        assert_eq!(machine.model.cppr(0), 0xff);
        assert_eq!(machine.drain(0), [other]);
    }
}

#[test]
fn an_ipi_does_not_nest_in_another_one() {
    let machine = Machine::new(Gen::Two, 2);
    kick(&machine, 1, 0);
    let (irq, active) = machine.ack(0).unwrap();
    kick(&machine, 1, 0);
    assert!(!machine.model.signalled(0), "its own priority waits");
    machine.end(0, active);
    assert_eq!(machine.drain(0), [irq]);
}

#[test]
fn an_entry_for_nothing_takes_nothing_and_leaves_the_cpu_as_it_was() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        machine.model.inject_spurious(0);
        assert_eq!(machine.enter(0), Some(vec![]));
        assert_eq!(machine.model.cppr(0), 0xff);
        assert_eq!(machine.ack(0), None);
        assert_eq!(machine.xive.counts(CPU).unwrap().spurious, 2);
        let irq = machine.device(0);
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn an_acknowledge_whose_events_were_taken_before_opens_the_cpu_again() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        for _ in 0..3 {
            machine.model.inject_ipb(0, 6);
            assert_eq!(machine.enter(0), Some(vec![]));
            assert_eq!(machine.model.cppr(0), 0xff);
        }
        assert_eq!(machine.xive.counts(CPU).unwrap().empty, 3);
    }
}

#[test]
fn a_spurious_entry_that_nests_restores_the_level_of_what_it_interrupted() {
    let machine = Machine::new(Gen::One, 1);
    let irq = machine.device(0);
    machine.fire(irq);
    let (_, active) = machine.ack(0).unwrap();
    machine.model.inject_ipb(0, 2);
    assert_eq!(machine.enter(0), Some(vec![]));
    assert_eq!(machine.model.cppr(0), 6, "not open for other devices");
    machine.end(0, active);
    assert_eq!(machine.model.cppr(0), 0xff);
}

#[test]
fn a_priority_that_is_nobodys_is_counted_and_the_cpu_opened_again() {
    let machine = Machine::new(Gen::Two, 1);
    machine.model.inject_ipb(0, 3);
    assert_eq!(machine.enter(0), Some(vec![]));
    assert_eq!(machine.model.cppr(0), 0xff);
    assert_eq!(machine.xive.counts(CPU).unwrap().unknown, 1);
}

/// Routes firmware's source `number` behind the driver's back.
fn route(machine: &Machine, number: u32, data: u64) {
    let pir = u64::from(machine.model.pir(0));
    let args = [u64::from(number), pir, 6, data, 0, 0, 0];
    assert_eq!(machine.model.opal(call::SET_IRQ_CONFIG, args), 0);
}

#[test]
fn an_event_with_a_number_that_is_no_sources_is_passed_over() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 1, 1, |b| b.msi(0).msi(0), Config::default());
        let irq = machine.device(0);
        let strangers = machine.model.msis();
        // Beyond the table, and a place in it that nobody has.
        for (&stranger, data) in strangers.iter().zip([0x1234, 200]) {
            route(&machine, stranger, data);
            machine.model.switch_on(stranger);
            machine.model.line(stranger).pulse();
        }
        machine.fire(irq);
        let taken = machine.drain(0);
        assert!(taken.ends_with(&[irq]), "{taken:?}");
        assert!(machine.xive.counts(CPU).unwrap().unknown >= 1);
        assert_eq!(machine.model.cppr(0), 0xff);
    }
}

#[test]
fn sources_that_keep_firing_do_not_keep_ipis_out() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irqs = [machine.device(0), machine.device(0)];
        irqs.iter().for_each(|&irq| machine.fire(irq));
        let mut taken = 0;
        machine.model.take(0, |_| {
            let mut next = machine.ack(0);
            while let Some((irq, active)) = next {
                taken += 1;
                assert!(taken < 10_000, "one entry without an end");
                // The device fires again before it is ended.
                machine.fire(irq);
                if taken == 10 {
                    kick(&machine, 1, 0);
                }
                next = machine.end_and_next(0, active);
            }
        });
        assert!(taken > 10, "{taken}");
        assert_eq!(machine.take(0), Some(machine.xive.ipi_irq()));
        // And the sources are not forgotten.
        assert_eq!(machine.drain(0).len(), 2);
    }
}

#[test]
fn what_is_handed_over_is_ended_by_somebody_else_and_the_cpu_goes_on() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let [a, b] = [machine.device(0), machine.device(0)];
        machine.fire(a);
        machine.fire(b);
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            let over = machine.sim.as_cpu(0, |_| machine.xive.hand_over(active));
            over.unwrap();
        });
        assert_eq!(machine.drain(0), [b]);
        let state = machine.xive.state(a).unwrap();
        assert!(
            !state.active,
            "a waiter for its handler would wait for ever"
        );
        assert_eq!(
            machine.xive.complete(a),
            Err(Error::NotDeferred { irq: a.get() })
        );
    }
}

#[test]
fn an_ipi_can_be_neither_deferred_nor_handed_over_and_is_ended_as_ever() {
    let machine = Machine::new(Gen::One, 1);
    kick(&machine, 0, 0);
    machine.model.take(0, |_| {
        let (_, active) = machine.ack(0).unwrap();
        machine.sim.as_cpu(0, |_| {
            for refused in [machine.xive.defer(active), machine.xive.hand_over(active)] {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
            }
        });
        machine.end(0, active);
    });
    kick(&machine, 0, 0);
    assert_eq!(machine.drain(0), [machine.xive.ipi_irq()]);
}

#[test]
fn a_level_line_fires_until_it_is_lowered() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 1, 1, |b| b.lsi(0), Config::default());
        let number = machine.model.lsis()[0];
        let irq = machine
            .xive
            .adopt(SourceNumber::new(number), Trigger::Level)
            .unwrap();
        machine.xive.unmask(irq).unwrap();
        let line = machine.model.line(number);
        line.assert();
        for _ in 0..3 {
            assert_eq!(machine.enter(0), Some(vec![irq]));
        }
        line.deassert();
        // One may be on its way already.
        let rest = machine.drain(0);
        assert!(rest.len() <= 1, "{rest:?}");
        line.assert();
        assert!(machine.model.signalled(0));
        line.deassert();
        machine.drain(0);
    }
}

#[test]
fn an_action_that_unwinds_loses_neither_its_own_source_nor_what_it_leaves_behind() {
    for generation in GENERATIONS {
        let system = System::new(generation, 1, 1, &[]);
        let machine = &system.machine;
        let control = system.control();
        let [a, b] = [machine.device(0), machine.device(0)];
        let (falls, runs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let first = falls.clone();
        let _a = control
            .register(
                a,
                Action::new(move |_| {
                    assert_ne!(first.fetch_add(1, Relaxed), 0, "the first one falls");
                    Answer::Handled
                }),
            )
            .unwrap();
        let count = runs.clone();
        let _b = control
            .register(
                b,
                Action::new(move |_| {
                    count.fetch_add(1, Relaxed);
                    Answer::Handled
                }),
            )
            .unwrap();
        machine.fire(a);
        machine.fire(b);
        let fell = catch_unwind(AssertUnwindSafe(|| system.on(0, |on| system.enter(on))));
        assert!(fell.is_err());
        assert_eq!(machine.model.cppr(0), 0xff);
        machine.fire(a);
        system.settle();
        assert_eq!((falls.load(Relaxed), runs.load(Relaxed)), (2, 1));
    }
}

#[test]
fn an_end_first_action_leaves_the_rest_to_the_next_entry() {
    fn end_first(_: usize, _: &irq_core::ActionContext<'_>) -> Answer {
        Answer::Handled
    }
    for generation in GENERATIONS {
        let system = System::new(generation, 1, 1, &[]);
        let machine = &system.machine;
        let control = system.control();
        let irqs: Vec<_> = (0..4).map(|_| machine.device(0)).collect();
        let kept: Vec<_> = irqs
            .iter()
            .map(|&irq| {
                let action = Action::end_first(end_first, 0);
                control.register(irq, action).unwrap()
            })
            .collect();
        irqs.iter().for_each(|&irq| machine.fire(irq));
        for _ in 0..4 {
            assert_eq!(system.take(0).unwrap().taken, Taken::Handled);
        }
        let counts = |irq| system.interrupts.counts(irq).unwrap().taken;
        assert!(irqs.iter().all(|&irq| counts(irq) == 1));
        drop(kept);
    }
}
