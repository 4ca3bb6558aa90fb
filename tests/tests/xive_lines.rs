// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of sources: park, off, retrigger, state, targets, freeing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use irq_core::{Flow, Irq, Lines, Trigger};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::xive::{Gen, call};
use irq_tests::xive::{GENERATIONS, Machine};
use irq_xive::{Config, SourceNumber};

/// A machine with a line-driven source of a device, adopted and unmasked; its number.
fn with_line(generation: Gen) -> (Machine, Irq, u32) {
    let machine = Machine::with(generation, 2, 1, |b| b.lsi(0), Config::default());
    let number = machine.model.lsis()[0];
    let irq = machine
        .xive
        .adopt(SourceNumber::new(number), Trigger::Level)
        .unwrap();
    machine.xive.unmask(irq).unwrap();
    (machine, irq, number)
}

#[test]
fn an_edge_that_comes_while_its_source_is_masked_is_kept() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.xive.mask(irq).unwrap();
        (0..3).for_each(|_| machine.fire(irq));
        assert_eq!(machine.drain(0), []);
        let state = machine.xive.state(irq).unwrap();
        assert!(state.masked && state.pending && !state.active, "{state:?}");
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
        machine.xive.mask(irq).unwrap();
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [], "nothing came");
    }
}

#[test]
fn an_edge_that_comes_before_the_first_unmask_is_kept() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.xive.alloc_source(CpuIndex::new(0)).unwrap();
        assert!(machine.xive.state(irq).unwrap().masked);
        machine.fire(irq);
        assert_eq!(machine.drain(0), []);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn an_edge_that_comes_while_its_source_is_off_is_dropped() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.xive.off(irq).unwrap();
        machine.fire(irq);
        // Masked, it keeps what comes from now on.
        machine.xive.on(irq).unwrap();
        assert!(!machine.xive.state(irq).unwrap().pending);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), []);
        machine.xive.off(irq).unwrap();
        machine.xive.on(irq).unwrap();
        machine.fire(irq);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
        // Unmasking turns it on too.
        machine.xive.off(irq).unwrap();
        machine.xive.mask(irq).unwrap();
        machine.fire(irq);
        machine.xive.unmask(irq).unwrap();
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn an_event_that_was_under_way_when_its_source_was_masked_is_taken_once() {
    for generation in GENERATIONS {
        for waits in [false, true] {
            let machine = Machine::new(generation, 1);
            let irq = machine.device(0);
            machine.fire(irq);
            if waits {
                machine.fire(irq);
            }
            machine.xive.mask(irq).unwrap();
            assert!(machine.xive.state(irq).unwrap().active);
            // It is in the queue; its end is owed, and the one that waits is kept.
            assert_eq!(machine.drain(0), [irq]);
            let state = machine.xive.state(irq).unwrap();
            assert_eq!((state.active, state.pending), (false, waits));
            machine.xive.unmask(irq).unwrap();
            assert_eq!(machine.drain(0).len(), usize::from(waits));
            machine.fire(irq);
            assert_eq!(machine.drain(0), [irq], "the source is free");
        }
    }
}

#[test]
fn a_handler_that_masks_its_own_source_gets_what_came_meanwhile_when_it_unmasks() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            machine.sim.as_cpu(0, |_| machine.xive.mask(irq)).unwrap();
            machine.fire(irq);
            machine.end(0, active);
        });
        assert_eq!(machine.drain(0), []);
        machine.sim.as_cpu(1, |_| machine.xive.unmask(irq)).unwrap();
        assert_eq!(machine.drain(0), [irq]);
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn a_handler_that_masks_and_unmasks_its_own_source_ends_it_once() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            machine.sim.as_cpu(0, |_| {
                machine.xive.mask(irq).unwrap();
                machine.xive.unmask(irq).unwrap();
            });
            machine.fire(irq);
            machine.end(0, active);
        });
        assert_eq!(machine.drain(0), [irq]);
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_masked_line_that_is_high_fires_when_it_is_unmasked_and_not_when_it_is_low_again() {
    for generation in GENERATIONS {
        let (machine, irq, number) = with_line(generation);
        let line = machine.model.line(number);
        machine.xive.mask(irq).unwrap();
        line.assert();
        assert_eq!(machine.drain(0), []);
        machine.xive.unmask(irq).unwrap();
        machine.model.take(0, |_| {
            let (taken, active) = machine.ack(0).unwrap();
            assert_eq!(taken, irq);
            line.deassert();
            machine.end(0, active);
        });
        assert_eq!(machine.drain(0), []);
        machine.xive.mask(irq).unwrap();
        line.assert();
        line.deassert();
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [], "nobody wants anything");
    }
}

#[test]
fn a_line_that_was_off_while_high_fires_when_it_is_on_again() {
    for generation in GENERATIONS {
        let (machine, irq, number) = with_line(generation);
        machine.xive.off(irq).unwrap();
        machine.model.line(number).assert();
        assert_eq!(machine.drain(0), []);
        machine.xive.on(irq).unwrap();
        machine.xive.unmask(irq).unwrap();
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            machine.model.line(number).deassert();
            machine.end(0, active);
        });
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn a_line_that_is_masked_in_its_handler_is_silent_until_it_is_unmasked() {
    for generation in GENERATIONS {
        let (machine, irq, number) = with_line(generation);
        machine.model.line(number).assert();
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            machine.sim.as_cpu(0, |_| machine.xive.mask(irq)).unwrap();
            machine.end(0, active);
        });
        assert_eq!(machine.drain(0), []);
        machine.xive.unmask(irq).unwrap();
        assert!(machine.model.signalled(0), "it is still high");
        machine.model.line(number).deassert();
        machine.drain(0);
    }
}

#[test]
fn a_deferred_line_is_silent_until_another_cpu_completes_it() {
    for generation in GENERATIONS {
        let (machine, irq, number) = with_line(generation);
        let line = machine.model.line(number);
        line.assert();
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            machine
                .sim
                .as_cpu(0, |_| machine.xive.defer(active))
                .unwrap();
        });
        assert_eq!(machine.drain(0), []);
        assert!(machine.xive.state(irq).unwrap().active);
        machine
            .sim
            .as_cpu(1, |_| machine.xive.complete(irq))
            .unwrap();
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            line.deassert();
            machine.end(0, active);
        });
        assert_eq!(machine.drain(0), []);
        assert!(!machine.xive.state(irq).unwrap().active);
    }
}

#[test]
fn a_source_that_is_completed_while_masked_is_ended_by_its_unmask() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.model.take(0, |_| {
            let (_, active) = machine.ack(0).unwrap();
            machine
                .sim
                .as_cpu(0, |_| machine.xive.defer(active))
                .unwrap();
        });
        machine.xive.mask(irq).unwrap();
        assert!(machine.xive.state(irq).unwrap().active);
        machine.fire(irq);
        let trace = machine.trace(|| machine.xive.complete(irq).unwrap());
        assert_eq!(trace.accesses(), 0, "{trace}");
        assert_eq!(machine.drain(0), []);
        assert!(!machine.xive.state(irq).unwrap().active);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_retrigger_fires_a_source_kept_while_masked_and_dropped_while_off() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.xive.retrigger(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
        machine.xive.mask(irq).unwrap();
        machine.xive.retrigger(irq).unwrap();
        assert_eq!(machine.drain(0), []);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
        machine.xive.off(irq).unwrap();
        machine.xive.retrigger(irq).unwrap();
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn a_source_with_one_page_for_both_is_triggered_on_it() {
    let machine = Machine::with(Gen::One, 1, 1, |b| b.msi(0), Config::default());
    let number = machine.model.msis()[0];
    let irq = machine
        .xive
        .adopt(SourceNumber::new(number), Trigger::Edge)
        .unwrap();
    machine.xive.unmask(irq).unwrap();
    machine.xive.retrigger(irq).unwrap();
    machine.model.line(number).pulse();
    assert_eq!(machine.drain(0), [irq, irq]);
}

#[test]
fn the_trigger_is_the_sources_own() {
    let (machine, line, number) = with_line(Gen::Two);
    let edge = machine.device(0);
    machine.xive.set_trigger(line, Trigger::Level).unwrap();
    machine.xive.set_trigger(edge, Trigger::Edge).unwrap();
    let ipi = machine.xive.ipi_irq();
    machine.xive.set_trigger(ipi, Trigger::Edge).unwrap();
    for (irq, trigger) in [
        (line, Trigger::Edge),
        (edge, Trigger::Level),
        (ipi, Trigger::Level),
    ] {
        let refused = machine.xive.set_trigger(irq, trigger).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
    let raised = machine.xive.retrigger(line).unwrap_err();
    assert_eq!(raised.kind(), ErrorKind::Unsupported);
    assert_eq!(machine.xive.source(line), Ok(SourceNumber::new(number)));
}

#[test]
fn a_number_without_a_source_is_an_error_of_every_call() {
    let machine = Machine::new(Gen::One, 1);
    let used = machine.device(0);
    let unused = Irq::new(used.get() + 1);
    let beyond = Irq::new(machine.xive.irqs().count());
    for irq in [unused, beyond] {
        let none = Error::NoSuchIrq { irq: irq.get() };
        let xive = &machine.xive;
        for answer in [
            xive.mask(irq),
            xive.unmask(irq),
            xive.off(irq),
            xive.on(irq),
            xive.set_trigger(irq, Trigger::Edge),
            xive.retrigger(irq),
            xive.complete(irq),
            xive.state(irq).map(drop),
            xive.free(irq),
            xive.set_target(irq, CpuIndex::new(0)),
            xive.target(irq).map(drop),
            xive.source(irq).map(drop),
        ] {
            assert_eq!(answer, Err(none), "{irq}");
        }
    }
    let ipi = machine.xive.ipi_irq();
    for answer in [
        machine.xive.free(ipi),
        machine.xive.off(ipi),
        machine.xive.on(ipi),
        machine.xive.set_target(ipi, CpuIndex::new(0)),
    ] {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_source_that_is_adopted_goes_to_the_cpu_asked_for_or_the_first_that_is_online() {
    let machine = Machine::cold(Gen::Two, 3, 1, |b| b.lsi(0).lsi(0), Config::default());
    machine.online(1).unwrap();
    machine.online(2).unwrap();
    let numbers = machine.model.lsis();
    let number = |n: usize| SourceNumber::new(numbers[n]);
    let first = machine.xive.adopt(number(0), Trigger::Level).unwrap();
    assert_eq!(machine.xive.target(first), Ok(CpuIndex::new(1)));
    let to = CpuIndex::new(2);
    let other = machine.xive.adopt_near(number(1), Trigger::Level, to);
    let other = other.unwrap();
    assert_eq!(machine.xive.target(other), Ok(to));
    assert_eq!(machine.xive.irq(number(1)), Some(other));
    let twice = machine.xive.adopt(number(0), Trigger::Level);
    assert_eq!(
        twice,
        Err(Error::Exists {
            what: "the irq of that source"
        })
    );
}

#[test]
fn a_source_adopted_with_another_trigger_than_its_own_is_refused_and_nothing_is_left() {
    let machine = Machine::with(Gen::One, 1, 1, |b| b.lsi(0).msi(0), Config::default());
    let (line, message) = (machine.model.lsis()[0], machine.model.msis()[0]);
    for (number, trigger) in [(line, Trigger::Edge), (message, Trigger::Level)] {
        let number = SourceNumber::new(number);
        let refused = machine.xive.adopt(number, trigger).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert_eq!(machine.xive.irq(number), None);
    }
    assert_eq!(machine.xive.load(CpuIndex::new(0)), Ok((0, 0)));
    // The places are free for the right ones.
    let irq = machine.xive.adopt(SourceNumber::new(line), Trigger::Level);
    assert_eq!(irq, Ok(Irq::new(1)));
}

#[test]
fn a_source_that_moves_brings_each_event_to_one_cpu_exactly() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 4, 2, |builder| builder, Config::default());
        let irq = machine.device(0);
        for to in [1, 2, 3, 0, 0] {
            let old = machine.xive.target(irq).unwrap().get();
            // One is in the old queue.
            machine.fire(irq);
            machine.xive.set_target(irq, CpuIndex::new(to)).unwrap();
            assert_eq!(machine.xive.target(irq), Ok(CpuIndex::new(to)));
            assert_eq!(machine.drain(old), [irq]);
            machine.fire(irq);
            assert_eq!(machine.drain(to), [irq]);
            assert!((0..4).all(|cpu| machine.drain(cpu).is_empty()));
        }
    }
}

#[test]
fn a_target_that_is_offline_or_none_is_refused_and_the_source_stays() {
    let machine = Machine::cold(Gen::One, 2, 1, |builder| builder, Config::default());
    machine.online(0).unwrap();
    let irq = machine.device(0);
    let cpu = CpuIndex::new(1);
    assert_eq!(
        machine.xive.set_target(irq, cpu),
        Err(Error::CpuOffline { cpu })
    );
    let cpu = CpuIndex::new(2);
    assert_eq!(
        machine.xive.set_target(irq, cpu),
        Err(Error::NoSuchCpu { cpu })
    );
    machine.fire(irq);
    assert_eq!(machine.drain(0), [irq]);
}

#[test]
fn a_source_that_is_freed_is_off_unrouted_and_given_back_and_its_place_serves_again() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 1, 1, |b| b.lsi(0), Config::default());
        let before = machine.model.allocated(0).len();
        let irq = machine.device(0);
        let number = machine.number(irq);
        machine.xive.free(irq).unwrap();
        assert_eq!(machine.model.allocated(0).len(), before);
        assert!(machine.model.eas(number).masked);
        assert_eq!(machine.xive.load(CpuIndex::new(0)), Ok((0, 0)));
        assert_eq!(
            machine.xive.mask(irq),
            Err(Error::NoSuchIrq { irq: irq.get() })
        );
        // What firmware named stays firmware's.
        let number = SourceNumber::new(machine.model.lsis()[0]);
        let line = machine.xive.adopt(number, Trigger::Level).unwrap();
        machine.xive.free(line).unwrap();
        let again = machine.xive.adopt(number, Trigger::Level).unwrap();
        assert_eq!(again, line, "the same source has the same irq");
        machine.xive.unmask(again).unwrap();
        machine.model.line(number.get()).assert();
        assert!(machine.model.signalled(0));
        machine.model.line(number.get()).deassert();
    }
}

#[test]
fn sources_can_be_made_and_freed_any_number_of_times() {
    let config = Config {
        sources: 2,
        ..Config::default()
    };
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 1, 1, |builder| builder, config);
        for _ in 0..20 {
            let [a, b] = [machine.device(0), machine.device(0)];
            let full = machine.xive.alloc_source(CpuIndex::new(0));
            assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
            machine.fire(a);
            machine.fire(b);
            assert_eq!(machine.drain(0), [a, b]);
            machine.xive.free(b).unwrap();
            machine.xive.free(a).unwrap();
        }
    }
}

#[test]
fn a_source_whose_event_is_not_taken_is_not_freed_but_off_and_can_be_freed_later() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        let number = machine.number(irq);
        machine.fire(irq);
        let free = machine.xive.free(irq).unwrap_err();
        assert_eq!(free.kind(), ErrorKind::Timeout);
        // What comes now is dropped; what was under way is not.
        machine.model.line(number).pulse();
        assert_eq!(machine.drain(0), [irq]);
        machine.xive.free(irq).unwrap();
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn freeing_waits_for_a_handler_on_another_cpu_and_not_for_what_is_handed_over() {
    let machine = Machine::new(Gen::Two, 2);
    let [a, b] = [machine.device(0), machine.device(0)];
    machine.fire(a);
    let (_, active) = machine.ack(0).unwrap();
    std::thread::scope(|scope| {
        let freeing = scope.spawn(|| machine.sim.as_cpu(1, |_| machine.xive.free(a)));
        machine.end(0, active);
        freeing.join().unwrap().unwrap();
    });
    machine.fire(b);
    machine.model.take(0, |_| {
        let (_, active) = machine.ack(0).unwrap();
        let over = machine.sim.as_cpu(0, |_| machine.xive.hand_over(active));
        over.unwrap();
    });
    machine.xive.free(b).unwrap();
}

#[test]
fn a_free_that_firmware_fails_leaves_the_source_ours_and_can_be_repeated() {
    for call in [call::SET_IRQ_CONFIG, call::FREE_IRQ] {
        let machine = Machine::new(Gen::One, 1);
        let irq = machine.device(0);
        machine.model.answer(call, -11);
        let free = machine.xive.free(irq).unwrap_err();
        assert_eq!(free.kind(), ErrorKind::Hardware);
        assert!(machine.xive.source(irq).is_ok());
        machine.xive.free(irq).unwrap();
        assert!(machine.xive.source(irq).is_err());
    }
}

#[test]
fn two_changes_of_one_source_at_a_time_are_refused() {
    let machine = Machine::new(Gen::One, 3);
    let irq = machine.device(0);
    // While firmware is asked for the one, the other comes.
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    std::thread::scope(|scope| {
        let (xive, sim) = (&machine.xive, &machine.sim);
        let (ask, asked) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel();
        let gone = std::sync::Mutex::new(gone);
        let mut once = true;
        machine.firmware().between(move || {
            if std::mem::take(&mut once) {
                ask.send(()).unwrap();
                gone.lock().unwrap().recv().unwrap();
            }
        });
        let mover = scope.spawn(|| sim.as_cpu(1, |_| xive.set_target(irq, CpuIndex::new(1))));
        asked.recv().unwrap();
        let other = xive.set_target(irq, CpuIndex::new(2));
        seen.lock().unwrap().push(other);
        go.send(()).unwrap();
        mover.join().unwrap().unwrap();
    });
    machine.firmware().calm();
    assert_eq!(
        seen.lock().unwrap()[..],
        [Err(Error::Busy {
            what: "the interrupt's source"
        })]
    );
    assert_eq!(machine.xive.target(irq), Ok(CpuIndex::new(1)));
}

#[test]
fn a_mask_waits_for_an_end_that_did_not_see_it() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        // The two take as long as they take: polls alone bound the wait.
        machine.sim.stop_clock();
        let irq = machine.device(0);
        machine.fire(irq);
        let (_, active) = machine.ack(0).unwrap();
        let [ending, masked] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (begun, returned) = (ending.clone(), masked.clone());
        // In the middle of the end, before its access, another CPU begins to mask.
        machine.firmware().between(move || {
            if !begun.swap(true, Relaxed) {
                for _ in 0..500 {
                    std::thread::yield_now();
                    assert!(!returned.load(Relaxed), "the end is still to come");
                }
            }
        });
        std::thread::scope(|scope| {
            let (machine, ending, masked) = (&machine, &ending, &masked);
            scope.spawn(move || {
                while !ending.load(Relaxed) {
                    std::thread::yield_now();
                }
                machine.sim.as_cpu(1, |_| machine.xive.mask(irq)).unwrap();
                masked.store(true, Relaxed);
            });
            machine.end(0, active);
        });
        machine.firmware().calm();
        machine.fire(irq);
        assert_eq!(machine.drain(0), []);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_snapshot_names_cpus_and_what_is_not_idle() {
    let machine = Machine::new(Gen::Two, 2);
    let [a, b] = [machine.device(0), machine.device(1)];
    machine.fire(a);
    machine.xive.mask(b).unwrap();
    let text = machine.xive.snapshot().to_string();
    assert!(text.contains("cpu1 pir"), "{text}");
    assert!(text.contains(&format!("{a} source")), "{text}");
    assert!(!text.contains(&format!("{b} source")), "idle: {text}");
}
