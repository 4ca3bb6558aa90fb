// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware that is busy, wants memory, fails, or answers nonsense, at each call that is made.

use irq_core::{Lines, Trigger};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::SimPlatform;
use irq_sim::log::{Event, Trace, Unit};
use irq_sim::xive::{Gen, XiveModel, call};
use irq_tests::xive::{GENERATIONS, Machine, SimFirmware, hardware, probe, queue, threads};
use irq_xive::opal::code;
use irq_xive::{ChipId, Config, Description, ProbeError, Provision, SourceNumber, Xive};

/// The calls of a probe, each with its name and how often a machine of two CPUs makes it.
const PROBE: [(u64, &str, u32); 5] = [
    (call::RESET, "OPAL_XIVE_RESET", 1),
    (call::SET_QUEUE_INFO, "OPAL_XIVE_SET_QUEUE_INFO", 4),
    (call::ALLOCATE_IRQ, "OPAL_XIVE_ALLOCATE_IRQ", 4),
    (call::GET_IRQ_INFO, "OPAL_XIVE_GET_IRQ_INFO", 4),
    (call::SET_IRQ_CONFIG, "OPAL_XIVE_SET_IRQ_CONFIG", 4),
];

/// What a call can answer that is neither a success nor busy; the last is none that firmware has.
const FAILURES: [i64; 9] = [
    code::PARAMETER,
    code::HARDWARE,
    code::UNSUPPORTED,
    code::RESOURCE,
    code::INTERNAL_ERROR,
    code::WRONG_STATE,
    code::PROVISIONING,
    code::FREE_ACTIVE,
    -99,
];

/// How often firmware was called so.
fn calls(trace: &Trace, call: u64) -> usize {
    let is = |event: &&Event| {
        let access = event.access();
        access.is_some_and(|access| access.unit == Unit::Opal && access.offset == call as usize)
    };
    trace.events().iter().filter(is).count()
}

/// Nothing of a driver is left on `model`.
fn nothing_is_left(sim: &SimPlatform, model: &XiveModel, blocks: usize) {
    assert_eq!(sim.memory().live_blocks(), blocks);
    for cpu in 0..sim.cpus() {
        for priority in 0..8 {
            assert!(queue(model, model.pir(cpu), priority).is_none());
        }
        assert_eq!(model.cppr(cpu), 0);
    }
    assert!(model.allocated(0).is_empty());
}

#[test]
fn each_failure_of_each_call_of_a_probe_is_named_and_leaves_nothing_behind() {
    for generation in GENERATIONS {
        for (call, name, count) in PROBE {
            for nth in 0..count {
                for code in FAILURES {
                    let (sim, model) = hardware(generation, 2, 1, |builder| builder);
                    let blocks = sim.memory().live_blocks();
                    model.answer_nth(call, nth, code);
                    let error = probe(&model, Config::default()).map(drop).unwrap_err();
                    assert_eq!(
                        error,
                        ProbeError::Hardware(Error::Refused {
                            register: name,
                            value: code as u64
                        }),
                        "call {nth} of {name}"
                    );
                    nothing_is_left(&sim, &model, blocks);
                    assert!(probe(&model, Config::default()).is_ok(), "{name} {code}");
                }
            }
        }
    }
}

#[test]
fn a_success_that_is_none_is_an_error_too() {
    for (call, name, _) in PROBE {
        if call == call::ALLOCATE_IRQ {
            continue;
        }
        let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
        let blocks = sim.memory().live_blocks();
        model.answer(call, 7);
        let error = probe(&model, Config::default()).map(drop).unwrap_err();
        let value = 7;
        let register = name;
        assert_eq!(
            error,
            ProbeError::Hardware(Error::Refused { register, value })
        );
        nothing_is_left(&sim, &model, blocks);
    }
}

#[test]
fn each_call_of_a_probe_is_repeated_while_firmware_is_busy() {
    for generation in GENERATIONS {
        for (call, name, count) in PROBE {
            let (sim, model) = hardware(generation, 2, 1, |builder| builder);
            model.busy(call, 3);
            let mark = sim.log().mark();
            let xive = probe(&model, Config::default());
            assert!(xive.is_ok(), "{name}: {:?}", xive.err());
            let trace = sim.log().since(mark);
            assert_eq!(calls(&trace, call), count as usize + 3, "{name}");
            assert_eq!(calls(&trace, call::POLL_EVENTS), 0);
        }
    }
}

#[test]
fn firmware_that_waits_for_its_own_events_gets_to_look_after_them() {
    for generation in GENERATIONS {
        for (call, name, _) in PROBE {
            let (sim, model) = hardware(generation, 1, 1, |builder| builder);
            model.busy_event(call, 2);
            let mark = sim.log().mark();
            let xive = probe(&model, Config::default());
            assert!(xive.is_ok(), "{name}: {:?}", xive.err());
            let trace = sim.log().since(mark);
            assert_eq!(calls(&trace, call::POLL_EVENTS), 2, "{name}");
        }
    }
}

#[test]
fn firmware_that_stays_busy_is_a_timeout_that_names_the_call() {
    for (call, name, _) in PROBE {
        for busy in [code::BUSY, code::BUSY_EVENT] {
            let (sim, model) = hardware(Gen::Two, 1, 1, |builder| builder);
            let blocks = sim.memory().live_blocks();
            model.answer_always(call, busy);
            if call == call::RESET {
                // Only the first one is busy, so that the end can be looked at.
                model.heal(call);
                model.busy(call, u32::MAX);
            }
            let error = probe(&model, Config::default()).map(drop).unwrap_err();
            let ProbeError::Hardware(Error::Timeout { what, last }) = error else {
                panic!("{name}: {error}")
            };
            assert_eq!(what.register, name);
            assert!(last as i64 == busy || call == call::RESET);
            nothing_is_left(&sim, &model, blocks);
        }
    }
}

#[test]
fn a_clock_that_stands_still_does_not_make_a_busy_firmware_wait_for_ever() {
    let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
    sim.stop_clock();
    model.answer_always(call::ALLOCATE_IRQ, code::BUSY);
    let error = probe(&model, Config::default()).map(drop).unwrap_err();
    assert_eq!(Error::from(error).kind(), ErrorKind::Timeout);
}

#[test]
fn what_is_no_source_number_is_an_error() {
    // Old firmware says so when there is none left; the others are no numbers at all.
    for answer in [0xffff_ffff, 1 << 32, i64::MAX, i64::MIN, -1] {
        let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
        let blocks = sim.memory().live_blocks();
        model.answer(call::ALLOCATE_IRQ, answer);
        let error = probe(&model, Config::default()).map(drop).unwrap_err();
        assert_eq!(
            error,
            ProbeError::Hardware(Error::Refused {
                register: "OPAL_XIVE_ALLOCATE_IRQ",
                value: answer as u64
            })
        );
        nothing_is_left(&sim, &model, blocks);
    }
}

#[test]
fn firmware_gets_a_page_for_each_chip_whenever_it_asks_and_may_ask_in_vain() {
    let chips = [ChipId::new(0)];
    for (asks, works) in [(1, true), (3, true), (u32::MAX, false)] {
        let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
        let blocks = sim.memory().live_blocks();
        let threads = threads(&model);
        let description = Description {
            provision: Provision {
                page: 0x1_0000,
                chips: &chips,
            },
            ..Description::new(model.tima(), &threads)
        };
        match asks {
            u32::MAX => model.answer_always(call::ALLOCATE_IRQ, code::PROVISIONING),
            asks => (0..asks).for_each(|_| {
                model.answer(call::ALLOCATE_IRQ, code::PROVISIONING);
            }),
        }
        let mark = sim.log().mark();
        let firmware = SimFirmware::new(&model);
        let xive = Xive::probe(sim.clone(), firmware, description, Config::default());
        assert_eq!(xive.is_ok(), works, "asked {asks} times");
        let donated = calls(&sim.log().since(mark), call::DONATE_PAGE);
        if works {
            assert_eq!(donated, asks as usize);
        } else {
            assert!((1..20).contains(&donated), "{donated}");
        }
        drop(xive);
        assert_eq!(sim.memory().live_blocks(), blocks);
    }
}

#[test]
fn a_donation_that_firmware_refuses_is_an_error() {
    let chips = [ChipId::new(0)];
    let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
    let blocks = sim.memory().live_blocks();
    let threads = threads(&model);
    for (page, expect) in [
        (0x1_0000, "OPAL_XIVE_DONATE_PAGE"),
        (0, "size of a page for firmware"),
        (0x3000, "size of a page for firmware"),
    ] {
        model.answer(call::ALLOCATE_IRQ, code::PROVISIONING);
        model.answer(call::DONATE_PAGE, code::PARAMETER);
        let description = Description {
            provision: Provision {
                page,
                chips: &chips,
            },
            ..Description::new(model.tima(), &threads)
        };
        let firmware = SimFirmware::new(&model);
        let xive = Xive::probe(sim.clone(), firmware, description, Config::default());
        let error = xive.map(drop).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        model.heal(call::DONATE_PAGE);
        nothing_is_left(&sim, &model, blocks);
    }
}

#[test]
fn each_failure_of_making_a_source_leaves_nothing_of_it() {
    for generation in GENERATIONS {
        for call in [call::ALLOCATE_IRQ, call::GET_IRQ_INFO, call::SET_IRQ_CONFIG] {
            for code in FAILURES {
                let machine = Machine::new(generation, 1);
                let before = machine.model.allocated(0);
                machine.model.answer(call, code);
                let made = machine.xive.alloc_source(CpuIndex::new(0));
                assert_eq!(made.unwrap_err().kind(), ErrorKind::Hardware);
                assert_eq!(machine.model.allocated(0), before);
                assert_eq!(machine.xive.load(CpuIndex::new(0)), Ok((0, 0)));
                let irq = machine.device(0);
                machine.fire(irq);
                assert_eq!(machine.drain(0), [irq]);
            }
        }
    }
}

#[test]
fn each_failure_of_adopting_a_source_leaves_it_to_firmware() {
    for call in [call::GET_IRQ_INFO, call::SET_IRQ_CONFIG] {
        let machine = Machine::with(Gen::One, 1, 1, |b| b.lsi(0), Config::default());
        let number = SourceNumber::new(machine.model.lsis()[0]);
        machine.model.answer(call, code::HARDWARE);
        let adopted = machine.xive.adopt(number, Trigger::Level);
        assert_eq!(adopted.unwrap_err().kind(), ErrorKind::Hardware);
        assert_eq!(machine.xive.irq(number), None);
        let adopted = machine.xive.adopt(number, Trigger::Level).unwrap();
        machine.xive.unmask(adopted).unwrap();
    }
}

#[test]
fn making_and_moving_are_repeated_while_firmware_is_busy() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        for call in [call::ALLOCATE_IRQ, call::GET_IRQ_INFO, call::SET_IRQ_CONFIG] {
            machine.model.busy(call, 2);
        }
        let irq = machine.device(0);
        machine.model.busy_event(call::SET_IRQ_CONFIG, 2);
        machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        machine.fire(irq);
        assert_eq!(machine.drain(1), [irq]);
        machine.model.busy(call::SET_IRQ_CONFIG, 1);
        machine.model.busy(call::FREE_IRQ, 1);
        machine.xive.free(irq).unwrap();
    }
}

#[test]
fn a_move_that_firmware_fails_leaves_the_source_where_it_was() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.model.answer(call::SET_IRQ_CONFIG, code::HARDWARE);
        let moved = machine.xive.set_target(irq, CpuIndex::new(1));
        assert_eq!(moved.unwrap_err().kind(), ErrorKind::Hardware);
        assert_eq!(machine.xive.target(irq), Ok(CpuIndex::new(0)));
        assert_eq!(machine.xive.load(CpuIndex::new(0)), Ok((1, 0)));
        assert_eq!(machine.xive.load(CpuIndex::new(1)), Ok((0, 0)));
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_source_that_firmware_ends_is_ended_by_a_call_each_time() {
    let machine = Machine::with(
        Gen::One,
        1,
        1,
        |b| b.source(irq_sim::xive::SourceSpec::msi(Gen::One, 0).flags(0x20)),
        Config::default(),
    );
    let number = machine.model.extra()[0];
    let irq = machine
        .xive
        .adopt(SourceNumber::new(number), Trigger::Edge)
        .unwrap();
    machine.xive.unmask(irq).unwrap();
    for _ in 0..3 {
        machine.model.line(number).pulse();
        let trace = machine.trace(|| assert_eq!(machine.drain(0), [irq]));
        assert_eq!(calls(&trace, call::INT_EOI), 1, "{trace}");
        assert_eq!(trace.on(Unit::Esb(number)).accesses(), 0);
    }
    machine.model.answer(call::INT_EOI, code::HARDWARE);
    machine.model.line(number).pulse();
    assert_eq!(machine.drain(0), [irq]);
    assert_eq!(machine.xive.counts(CpuIndex::new(0)).unwrap().dead, 1);
    assert_eq!(machine.model.cppr(0), 0xff);
}
