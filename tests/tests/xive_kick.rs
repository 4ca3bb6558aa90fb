// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU.

use irq_core::{ActionContext, Kick, Kind, Lines};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::xive::Gen;
use irq_tests::gicv3::cpu_set;
use irq_tests::storm::storm;
use irq_tests::xive::{GENERATIONS, Machine, System};
use irq_xive::Config;

#[test]
fn each_cpu_reaches_each_other_one_and_itself_across_chips() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 8, 4, |builder| builder, Config::default());
        for from in 0..8 {
            for to in 0..8 {
                machine
                    .sim
                    .as_cpu(from, |_| machine.xive.kick(CpuIndex::new(to), || true))
                    .unwrap();
                for cpu in 0..8 {
                    assert_eq!(machine.model.signalled(cpu), cpu == to, "{from} to {to}");
                }
                assert_eq!(machine.drain(to), [machine.xive.ipi_irq()]);
            }
        }
    }
}

#[test]
fn kicks_of_a_cpu_that_has_not_taken_the_first_are_one_more_at_most() {
    let machine = Machine::new(Gen::One, 2);
    for _ in 0..10 {
        machine
            .sim
            .as_cpu(0, |_| machine.xive.kick(CpuIndex::new(1), || true))
            .unwrap();
    }
    assert_eq!(machine.drain(1).len(), 2);
}

#[test]
fn a_cpu_that_cannot_be_reached_is_an_error_before_anything_is_posted() {
    let machine = Machine::cold(Gen::Two, 3, 1, |builder| builder, Config::default());
    machine.online(0).unwrap();
    let kick = |to| {
        machine.sim.as_cpu(0, |_| {
            machine
                .xive
                .kick(CpuIndex::new(to), || panic!("posted to cpu{to}"))
        })
    };
    let cpu = CpuIndex::new(1);
    assert_eq!(kick(1), Err(Error::CpuOffline { cpu }));
    let cpu = CpuIndex::new(3);
    assert_eq!(kick(3), Err(Error::NoSuchCpu { cpu }));
    machine.online(1).unwrap();
    machine.offline(1).unwrap();
    let cpu = CpuIndex::new(1);
    assert_eq!(kick(1), Err(Error::CpuOffline { cpu }));
}

#[test]
fn a_set_with_cpus_that_cannot_be_reached_serves_the_others_and_names_the_first() {
    let machine = Machine::cold(Gen::One, 4, 1, |builder| builder, Config::default());
    for cpu in [0, 2] {
        machine.online(cpu).unwrap();
    }
    let mut posted = vec![];
    let kicked = machine.sim.as_cpu(0, |_| {
        machine.xive.kick_mask(&cpu_set([0, 1, 2, 3, 900]), |cpu| {
            posted.push(cpu.get());
            true
        })
    });
    let cpu = CpuIndex::new(1);
    assert_eq!(kicked, Err(Error::CpuOffline { cpu }));
    assert_eq!(posted, [0, 2]);
    assert!(machine.model.signalled(0) && machine.model.signalled(2));
}

#[test]
fn the_interrupt_between_cpus_is_always_on_and_can_be_raised_here_like_a_line() {
    let machine = Machine::new(Gen::One, 2);
    let ipi = machine.xive.ipi_irq();
    machine.xive.unmask(ipi).unwrap();
    for refused in [machine.xive.mask(ipi), machine.xive.complete(ipi)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    machine.sim.as_cpu(1, |_| {
        assert!(!machine.xive.state(ipi).unwrap().pending);
        machine.xive.retrigger(ipi).unwrap();
        let state = machine.xive.state(ipi).unwrap();
        assert!(state.active && !state.pending && !state.masked, "{state:?}");
        machine.xive.retrigger(ipi).unwrap();
        assert!(machine.xive.state(ipi).unwrap().pending);
    });
    machine.model.take(1, |_| {
        let (irq, active) = machine.ack(1).unwrap();
        assert_eq!(irq, ipi);
        machine.end(1, active);
    });
    assert_eq!(machine.drain(1), [ipi]);
    machine.sim.as_cpu(1, |_| {
        let state = machine.xive.state(ipi).unwrap();
        assert!(!state.active && !state.pending, "{state:?}");
    });
}

#[test]
fn a_kick_orders_what_was_posted_before_it() {
    // The model panics at a trigger without a barrier since the last store.
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let trace = machine.trace(|| {
            machine
                .sim
                .as_cpu(0, |_| machine.xive.kick(CpuIndex::new(1), || true))
                .unwrap();
        });
        let fence = irq_sim::log::Fence::Publish;
        assert_eq!(trace.barriers(fence), 1);
        assert!(matches!(
            trace.events(),
            [
                irq_sim::log::Event::Barrier { .. },
                irq_sim::log::Event::Store(_)
            ]
        ));
    }
}

fn nothing(_: usize, _: &ActionContext<'_>) {}

#[test]
fn a_storm_of_ipis_loses_none_and_rings_once_for_each_interrupt() {
    const KINDS: [Kind; 1] = [Kind::new(nothing, 0)];
    for generation in GENERATIONS {
        for (cpus, nodes, sends) in [(8, 2, 50), (16, 4, 50), (352, 4, 10)] {
            let system = System::new(generation, cpus, nodes, &KINDS);
            for hops in [0, 1] {
                let done = storm(&system, nodes, hops, sends);
                assert_eq!(done.rung + done.coalesced, u64::from(cpus * sends));
                assert_eq!(done.taken, done.rung, "{done:?}");
            }
        }
    }
}
