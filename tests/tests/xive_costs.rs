// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each path of the XIVE driver may cost, exactly, in accesses to the device.

use irq_core::{Action, ActionContext, Answer, Kick, Kind, Lines, Sent, Taken, Trigger};
use irq_hal::CpuIndex;
use irq_sim::log::{Event, Fence, Trace, Unit};
use irq_sim::xive::Gen;
use irq_tests::gicv3::cpu_set;
use irq_tests::system::kind;
use irq_tests::xive::{GENERATIONS, Machine, System};
use irq_xive::SourceNumber;

const ACK: &str = "ack";
const CPPR: &str = "cppr";

/// Accesses and barriers of `trace`, by name.
fn order(trace: &Trace) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::Barrier { fence, .. } => match fence {
            Fence::Publish => "publish",
            Fence::Complete => "complete",
            Fence::Synchronize => "isync",
        },
        // Operations are told by the offset into a page, not by which page it is.
        Event::Load(access) => match (access.unit, access.offset & 0xfff & !0x40) {
            (Unit::Tima(_), 0x830) => ACK,
            (Unit::Esb(_), 0x000) => "load eoi",
            (Unit::Esb(_), 0x800) => "get",
            (Unit::Esb(_), 0xc00) => "set 00",
            (Unit::Esb(_), 0xd00) => "set 01",
            (Unit::Esb(_), 0xe00) => "set 10",
            (Unit::Esb(_), 0xf00) => "set 11",
            _ => "another load",
        },
        Event::Store(access) => match (access.unit, access.offset & 0xfff) {
            (Unit::Tima(_), 0x31) => CPPR,
            (Unit::Esb(_), 0x400) => "store eoi",
            (Unit::Esb(_), 0) => "trigger",
            _ => "another store",
        },
        _ => "something else",
    };
    trace.events().iter().map(name).collect()
}

/// Those that are accesses.
fn accesses(trace: &Trace) -> Vec<&'static str> {
    let names = order(trace).into_iter();
    names
        .filter(|name| !["publish", "complete", "isync"].contains(name))
        .collect()
}

/// How an interrupt is ended on this generation.
const fn eoi(generation: Gen) -> &'static str {
    match generation {
        Gen::One => "set 00",
        Gen::Two => "store eoi",
    }
}

/// What `f` does; it takes no lock and asks for no CPU number.
fn cost(machine: &Machine, f: impl FnOnce()) -> Trace {
    let sim = &machine.sim;
    let asked = || -> Vec<_> {
        (0..sim.cpus())
            .map(|cpu| (sim.irq_saves(cpu), sim.this_cpu_calls(cpu)))
            .collect()
    };
    let before = asked();
    let trace = machine.trace(f);
    assert_eq!(
        asked(),
        before,
        "a lock, or a question for the CPU's number"
    );
    trace
}

fn kick(machine: &Machine, from: u32, to: u32) {
    let kicked = machine
        .sim
        .as_cpu(from, |_| machine.xive.kick(CpuIndex::new(to), || true));
    kicked.unwrap();
}

#[test]
fn an_ipi_costs_one_store_to_send_behind_a_publish() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 4, 2, |builder| builder, Default::default());
        for to in [0, 1, 3] {
            let trace = cost(&machine, || kick(&machine, 0, to));
            assert_eq!(order(&trace), ["publish", "trigger"], "to cpu{to}");
        }
    }
}

#[test]
fn an_ipi_that_is_not_wanted_any_more_costs_nothing() {
    let machine = Machine::new(Gen::One, 2);
    let trace = cost(&machine, || {
        machine
            .sim
            .as_cpu(0, |_| machine.xive.kick(CpuIndex::new(1), || false))
            .unwrap();
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn an_ipi_to_many_costs_one_store_each_behind_one_publish_per_64_cpus() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 8, 2, |builder| builder, Default::default());
        let trace = cost(&machine, || {
            machine.sim.as_cpu(0, |_| {
                let set = cpu_set([0, 2, 3, 5, 7]);
                // One of them has been rung already.
                machine.xive.kick_mask(&set, |cpu| cpu.get() != 3).unwrap();
            });
        });
        let mut expect = vec!["publish"];
        expect.extend(["trigger"; 4]);
        assert_eq!(order(&trace), expect);
        let rung: Vec<_> = (0..8).filter(|&cpu| machine.model.signalled(cpu)).collect();
        assert_eq!(rung, [0, 2, 5, 7]);
    }
}

#[test]
fn an_ipi_costs_one_acknowledge_one_end_and_one_cppr_to_receive() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 2, 2, |builder| builder, Default::default());
        kick(&machine, 0, 1);
        let trace = cost(&machine, || {
            assert_eq!(machine.take(1), Some(machine.xive.ipi_irq()));
        });
        assert_eq!(order(&trace), [ACK, "isync", eoi(generation), CPPR]);
    }
}

#[test]
fn an_ipi_that_came_again_meanwhile_costs_generation_one_a_trigger_and_no_ring() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        kick(&machine, 0, 1);
        let (irq, active) = machine.ack(1).unwrap();
        kick(&machine, 0, 1);
        let trace = cost(&machine, || machine.end(1, active));
        match generation {
            Gen::One => assert_eq!(order(&trace), ["set 00", "trigger", CPPR]),
            Gen::Two => assert_eq!(order(&trace), ["store eoi", CPPR]),
        }
        assert_eq!(machine.drain(1), [irq]);
        assert_eq!(machine.xive.counts(CpuIndex::new(1)).unwrap().rings, 0);
    }
}

#[test]
fn a_device_interrupt_costs_the_same_accesses_as_an_ipi_to_receive() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.fire(irq);
        let trace = cost(&machine, || assert_eq!(machine.enter(0), Some(vec![irq])));
        // The queue is read after the acknowledge, and the device's memory after the queue.
        let order = order(&trace);
        assert_eq!(order, [ACK, "isync", "isync", eoi(generation), CPPR]);
    }
}

#[test]
fn a_device_that_fired_again_meanwhile_costs_no_ring() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.fire(irq);
        let (_, active) = machine.ack(0).unwrap();
        machine.fire(irq);
        let trace = cost(&machine, || machine.end(0, active));
        match generation {
            Gen::One => assert_eq!(order(&trace), ["set 00", "trigger", CPPR]),
            Gen::Two => assert_eq!(order(&trace), ["store eoi", CPPR]),
        }
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_line_is_looked_at_when_it_is_ended_after_what_the_handler_did_to_its_device() {
    for (generation, end) in [(Gen::One, "load eoi"), (Gen::Two, "store eoi")] {
        let machine = Machine::with(generation, 1, 1, |b| b.lsi(0), Default::default());
        let number = machine.model.lsis()[0];
        let irq = machine
            .xive
            .adopt(SourceNumber::new(number), Trigger::Level)
            .unwrap();
        machine.xive.unmask(irq).unwrap();
        machine.model.line(number).assert();
        let (_, active) = machine.ack(0).unwrap();
        machine.model.line(number).deassert();
        let trace = cost(&machine, || machine.end(0, active));
        assert_eq!(order(&trace), ["complete", end, CPPR]);
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn several_behind_one_acknowledge_cost_one_end_each_and_one_cppr() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irqs: Vec<_> = (0..5).map(|_| machine.device(0)).collect();
        irqs.iter().for_each(|&irq| machine.fire(irq));
        let trace = cost(&machine, || assert_eq!(machine.enter(0), Some(irqs)));
        // What a device wrote is read after its entry.
        let mut expect = vec![ACK, "isync"];
        expect.extend([["isync", eoi(generation)]; 5].as_flattened());
        expect.push(CPPR);
        assert_eq!(order(&trace), expect);
    }
}

#[test]
fn an_end_that_leaves_others_behind_costs_a_ring_of_two_accesses_more() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irqs: Vec<_> = (0..2).map(|_| machine.device(0)).collect();
        irqs.iter().for_each(|&irq| machine.fire(irq));
        let trace = cost(&machine, || assert_eq!(machine.take(0), Some(irqs[0])));
        assert_eq!(
            order(&trace),
            [
                ACK,
                "isync",
                "isync",
                eoi(generation),
                "set 00",
                "trigger",
                CPPR
            ]
        );
        assert_eq!(machine.drain(0), [irqs[1]]);
    }
}

#[test]
fn an_entry_with_nothing_pending_costs_one_acknowledge() {
    let machine = Machine::new(Gen::One, 1);
    let trace = cost(&machine, || assert_eq!(machine.ack(0), None));
    assert_eq!(order(&trace), [ACK]);
}

#[test]
fn an_acknowledge_that_finds_the_queue_empty_costs_the_cppr_more() {
    let machine = Machine::new(Gen::Two, 1);
    machine.model.inject_ipb(0, 6);
    let trace = cost(&machine, || assert_eq!(machine.enter(0), Some(vec![])));
    assert_eq!(order(&trace), [ACK, "isync", CPPR]);
}

#[test]
fn a_deferred_interrupt_costs_no_end_until_it_is_completed() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.fire(irq);
        let (_, active) = machine.ack(0).unwrap();
        let trace = cost(&machine, || {
            machine.sim.as_cpu(0, |_| {
                irq_core::Flow::defer(&machine.xive, active).unwrap();
            });
        });
        assert_eq!(order(&trace), [CPPR]);
        let trace = machine.trace(|| {
            machine
                .sim
                .as_cpu(1, |_| machine.xive.complete(irq).unwrap());
        });
        assert_eq!(accesses(&trace), [eoi(generation)]);
    }
}

#[test]
fn masking_costs_one_load_and_two_where_an_event_waits() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        let trace = machine.trace(|| machine.xive.mask(irq).unwrap());
        assert_eq!(accesses(&trace), ["set 10"]);
        let trace = machine.trace(|| machine.xive.mask(irq).unwrap());
        assert_eq!(accesses(&trace), [""; 0], "it is masked");
        machine.xive.unmask(irq).unwrap();
        // One under way and one that waits.
        machine.fire(irq);
        machine.fire(irq);
        let trace = machine.trace(|| machine.xive.mask(irq).unwrap());
        assert_eq!(accesses(&trace), ["set 10", "set 11"]);
    }
}

#[test]
fn unmasking_costs_one_end_and_generation_one_a_trigger_where_an_event_waits() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.xive.mask(irq).unwrap();
        let trace = machine.trace(|| machine.xive.unmask(irq).unwrap());
        assert_eq!(accesses(&trace), [eoi(generation)]);
        machine.xive.mask(irq).unwrap();
        machine.fire(irq);
        let trace = machine.trace(|| machine.xive.unmask(irq).unwrap());
        match generation {
            Gen::One => assert_eq!(accesses(&trace), ["set 00", "trigger"]),
            Gen::Two => assert_eq!(accesses(&trace), ["store eoi"]),
        }
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn unmasking_a_source_whose_event_is_under_way_costs_nothing() {
    let machine = Machine::new(Gen::One, 1);
    let irq = machine.device(0);
    machine.fire(irq);
    machine.xive.mask(irq).unwrap();
    let trace = machine.trace(|| machine.xive.unmask(irq).unwrap());
    assert_eq!(trace.accesses(), 0, "{trace}");
    assert_eq!(machine.drain(0), [irq]);
}

#[test]
fn a_retrigger_costs_one_store() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        let trace = machine.trace(|| machine.xive.retrigger(irq).unwrap());
        assert_eq!(accesses(&trace), ["trigger"]);
    }
}

fn nothing(_: usize, _: &ActionContext<'_>) {}

#[test]
fn with_irq_core_an_ipi_costs_as_much_and_nothing_at_all_when_it_coalesces() {
    const KINDS: [Kind; 1] = [Kind::new(nothing, 0)];
    for generation in GENERATIONS {
        let system = System::new(generation, 4, 2, &KINDS);
        let machine = &system.machine;
        for to in 0..4 {
            let first = cost(machine, || {
                assert_eq!(system.send(0, to, kind(0)), Ok(Sent::Rung));
            });
            assert_eq!(order(&first), ["publish", "trigger"]);
            let second = cost(machine, || {
                assert_eq!(system.send(1, to, kind(0)), Ok(Sent::Coalesced));
            });
            assert_eq!(second.events(), []);
            let third = cost(machine, || {
                assert_eq!(system.take(to).unwrap().taken, Taken::Handled);
            });
            assert_eq!(order(&third), [ACK, "isync", eoi(generation), CPPR]);
            assert!(!machine.model.signalled(to));
        }
    }
}

#[test]
fn with_irq_core_all_that_an_acknowledge_stands_for_is_one_entry() {
    let system = System::new(Gen::Two, 1, 1, &[]);
    let machine = &system.machine;
    let control = system.control();
    let irqs: Vec<_> = (0..3).map(|_| machine.device(0)).collect();
    let kept: Vec<_> = irqs
        .iter()
        .map(|&irq| {
            control
                .register(irq, Action::new(|_| Answer::Handled))
                .unwrap()
        })
        .collect();
    irqs.iter().for_each(|&irq| machine.fire(irq));
    let trace = cost(machine, || assert!(system.take(0).is_some()));
    let mut expect = vec![ACK, "isync"];
    expect.extend([["isync", eoi(Gen::Two)]; 3].as_flattened());
    expect.push(CPPR);
    assert_eq!(order(&trace), expect);
    assert!(!machine.model.signalled(0));
    drop(kept);
}

#[test]
fn an_access_to_the_area_of_the_cpus_goes_to_the_cpu_that_makes_it() {
    let machine = Machine::new(Gen::One, 2);
    kick(&machine, 0, 1);
    let trace = machine.trace(|| assert!(machine.take(1).is_some()));
    let own = Unit::Tima(CpuIndex::new(1));
    assert_eq!(trace.on(own).accesses(), 2, "{trace}");
    assert_eq!(trace.accesses(), 3);
}
