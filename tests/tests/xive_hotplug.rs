// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that go, and come back: no device event is lost or doubled, IPIs are dropped.

use irq_core::{Kick, Lines, Trigger};
use irq_hal::CpuIndex;
use irq_tests::xive::{GENERATIONS, Machine};
use irq_xive::{Config, SourceNumber};

fn kick(machine: &Machine, from: u32, to: u32) {
    let kicked = machine
        .sim
        .as_cpu(from, |_| machine.xive.kick(CpuIndex::new(to), || true));
    kicked.unwrap();
}

#[test]
fn an_event_in_the_queue_of_a_cpu_that_goes_arrives_once_at_the_sources_new_target() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 4, 2, |builder| builder, Config::default());
        let irqs: Vec<_> = (0..5).map(|_| machine.device(0)).collect();
        // Of some a second event waits at the source.
        irqs.iter().for_each(|&irq| machine.fire(irq));
        machine.fire(irqs[3]);
        for (&irq, to) in irqs.iter().zip([1, 2, 3, 1, 2]) {
            machine.xive.set_target(irq, CpuIndex::new(to)).unwrap();
        }
        machine.offline(0).unwrap();
        assert!(!machine.model.signalled(0));
        assert_eq!(machine.model.cppr(0), 0);
        assert_eq!(machine.drain(1), [irqs[0], irqs[3]]);
        assert_eq!(machine.drain(2), [irqs[1], irqs[4]]);
        assert_eq!(machine.drain(3), [irqs[2]]);
        // And the sources are free.
        for (&irq, to) in irqs.iter().zip([1, 2, 3, 1, 2]) {
            machine.fire(irq);
            assert_eq!(machine.drain(to), [irq]);
        }
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn an_event_for_a_cpu_that_is_gone_waits_for_it() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let [before, after] = [machine.device(0), machine.device(0)];
        machine.fire(before);
        machine.offline(0).unwrap();
        assert_eq!(machine.xive.load(CpuIndex::new(0)), Ok((2, 0)), "reported");
        machine.fire(after);
        assert!(!machine.model.signalled(0));
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), [before, after]);
        for irq in [before, after] {
            machine.fire(irq);
            assert_eq!(machine.drain(0), [irq]);
        }
    }
}

#[test]
fn a_source_whose_event_waits_for_a_cpu_that_is_gone_can_be_freed() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let [gone, stays] = [machine.device(0), machine.device(0)];
        machine.offline(0).unwrap();
        machine.fire(gone);
        machine.fire(stays);
        let freed = machine.sim.as_cpu(1, |_| machine.xive.free(gone));
        assert_eq!(freed, Ok(()));
        // It means nothing to the CPU that comes back.
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), [stays]);
    }
}

#[test]
fn an_event_for_a_cpu_that_is_gone_goes_to_the_new_target_once_if_its_source_is_moved_later() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irqs: Vec<_> = (0..3).map(|_| machine.device(0)).collect();
        machine.fire(irqs[0]);
        machine.offline(0).unwrap();
        machine.fire(irqs[1]);
        for &irq in &irqs {
            machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        }
        assert_eq!(machine.drain(1), [irqs[0], irqs[1]]);
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), [], "it has been taken");
        for &irq in &irqs {
            machine.fire(irq);
            assert_eq!(machine.drain(1), [irq]);
        }
    }
}

#[test]
fn a_line_that_is_high_when_its_cpu_goes_is_served_by_the_new_target_and_a_low_one_by_nobody() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 2, 1, |b| b.lsi(0).lsi(0), Config::default());
        let numbers = machine.model.lsis();
        let irqs: Vec<_> = numbers
            .iter()
            .map(|&number| {
                let number = SourceNumber::new(number);
                let irq = machine.xive.adopt(number, Trigger::Level).unwrap();
                machine.xive.unmask(irq).unwrap();
                irq
            })
            .collect();
        let [high, low] = [0, 1].map(|n| machine.model.line(numbers[n]));
        high.assert();
        low.assert();
        low.deassert();
        for &irq in &irqs {
            machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        }
        machine.offline(0).unwrap();
        machine.model.take(1, |_| {
            let (irq, active) = machine.ack(1).unwrap();
            assert_eq!(irq, irqs[0]);
            high.deassert();
            machine.end(1, active);
        });
        assert_eq!(machine.drain(1), []);
        low.assert();
        assert!(machine.model.signalled(1), "its source is free");
        low.deassert();
        machine.drain(1);
    }
}

#[test]
fn a_masked_sources_event_in_the_queue_of_a_cpu_that_goes_is_kept() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.xive.mask(irq).unwrap();
        machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        machine.offline(0).unwrap();
        assert_eq!(machine.drain(1), []);
        let state = machine.xive.state(irq).unwrap();
        assert!(state.masked && state.pending && !state.active, "{state:?}");
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(1), [irq]);
    }
}

#[test]
fn an_event_of_a_source_that_is_off_is_dropped_with_its_cpu() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.xive.off(irq).unwrap();
        machine.offline(0).unwrap();
        // Nobody will take it: freeing does not wait.
        machine.xive.free(irq).unwrap();
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), []);
    }
}

#[test]
fn an_ipi_that_comes_too_late_is_dropped_and_the_next_one_after_the_return_arrives() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        kick(&machine, 1, 0);
        machine.offline(0).unwrap();
        assert!(!machine.model.signalled(0));
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), []);
        kick(&machine, 1, 0);
        assert_eq!(machine.drain(0), [machine.xive.ipi_irq()]);
    }
}

#[test]
fn an_ipi_that_was_on_its_way_while_its_target_went_does_not_block_the_next() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        // The sender has looked, and has not rung yet.
        machine.sim.as_cpu(1, |_| {
            let kicked = machine.xive.kick(CpuIndex::new(0), || {
                machine.offline(0).unwrap();
                true
            });
            kicked.unwrap();
        });
        assert!(!machine.model.signalled(0));
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), []);
        kick(&machine, 1, 0);
        assert_eq!(machine.drain(0), [machine.xive.ipi_irq()]);
    }
}

#[test]
fn an_ipi_that_comes_between_any_two_accesses_of_going_or_coming_does_not_block_the_next() {
    for generation in GENERATIONS {
        for at in 0..30 {
            let machine = Machine::new(generation, 2);
            let ipi = machine.xive.ipi_source(CpuIndex::new(0)).unwrap().get();
            let (model, mut count) = (machine.model.clone(), 0);
            machine.firmware().between(move || {
                if count == at {
                    model.line(ipi).pulse();
                }
                count += 1;
            });
            machine.offline(0).unwrap();
            machine.online(0).unwrap();
            machine.firmware().calm();
            let late = machine.drain(0).len();
            assert!(late <= 1, "at {at}");
            for _ in 0..2 {
                kick(&machine, 1, 0);
                assert_eq!(machine.drain(0), [machine.xive.ipi_irq()], "at {at}");
            }
        }
    }
}

#[test]
fn an_exception_that_stays_up_behind_a_closed_cppr_takes_no_event_away() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 2, 1, |b| b.sticky_nsr(true), Config::default());
        let irq = machine.device(0);
        machine.fire(irq);
        kick(&machine, 1, 0);
        machine.offline(0).unwrap();
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), [irq]);
        kick(&machine, 1, 0);
        assert_eq!(machine.drain(0), [machine.xive.ipi_irq()]);
    }
}

#[test]
fn a_thread_that_firmware_started_again_finds_what_came_while_it_was_away() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irq = machine.device(0);
        machine.offline(0).unwrap();
        // Not found by the presenter meanwhile: what comes is pending nowhere.
        machine.model.set_valid(0, false);
        machine.fire(irq);
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_ring_that_is_left_in_the_queue_of_a_cpu_that_goes_means_nothing() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irqs: Vec<_> = (0..3).map(|_| machine.device(0)).collect();
        irqs.iter().for_each(|&irq| machine.fire(irq));
        assert_eq!(machine.take(0), Some(irqs[0]));
        for &irq in &irqs {
            machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        }
        machine.offline(0).unwrap();
        assert_eq!(machine.drain(1), irqs[1..]);
        machine.online(0).unwrap();
        assert_eq!(machine.drain(0), []);
        assert_eq!(machine.xive.counts(CpuIndex::new(0)).unwrap().unknown, 0);
    }
}

#[test]
fn going_costs_what_is_in_the_queue_and_not_what_the_machine_has() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let irqs: Vec<_> = (0..100).map(|_| machine.device(1)).collect();
        let idle = machine.trace(|| machine.offline(0).unwrap());
        assert!(idle.accesses() <= 3, "{idle}");
        machine.online(0).unwrap();
        for &irq in &irqs[..2] {
            machine.xive.set_target(irq, CpuIndex::new(0)).unwrap();
            machine.fire(irq);
            machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        }
        let two = machine.trace(|| machine.offline(0).unwrap());
        assert!(two.accesses() <= 3 + 2 * 3, "{two}");
        assert_eq!(machine.drain(1), irqs[..2]);
    }
}

#[test]
fn cpus_come_and_go_many_times() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 4, 2, |builder| builder, Config::default());
        let irq = machine.device(3);
        for round in 0..30 {
            let cpu = round % 3;
            machine.offline(cpu).unwrap();
            machine.fire(irq);
            assert_eq!(machine.drain(3), [irq]);
            kick(&machine, 3, (cpu + 1) % 3);
            assert_eq!(machine.drain((cpu + 1) % 3), [machine.xive.ipi_irq()]);
            machine.online(cpu).unwrap();
            kick(&machine, 3, cpu);
            assert_eq!(machine.drain(cpu), [machine.xive.ipi_irq()]);
        }
    }
}
