// SPDX-License-Identifier: MIT OR Apache-2.0
//! The x2APIC driver under irq-core: IPIs over nodes, actions, lines that nobody owns up to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::{Action, Answer, Kind, Sent, Taken};
use irq_hal::CpuIndex;
use irq_sim::apic::{ApicBuilder, Mode};
use irq_tests::gicv3::cpu_set;
use irq_tests::storm::{paced, storm};
use irq_tests::system::kind;
use irq_tests::x2apic::{Plan, System, lapic};
use irq_x2apic::regs::apic::{IA32_X2APIC_EOI, IA32_X2APIC_ICR};

static RAN: AtomicU32 = AtomicU32::new(0);
static KINDS: [Kind; 2] = [
    Kind::new(|_, _| {}, 0),
    Kind::new(
        |_, _| {
            RAN.fetch_add(1, Relaxed);
        },
        0,
    ),
];

fn plan(cpus: u32, nodes: u32) -> Plan<'static> {
    Plan {
        kinds: &KINDS,
        ..Plan::new(cpus, nodes)
    }
}

#[test]
fn an_ipi_goes_from_any_cpu_to_any_other_and_costs_one_write_each_way() {
    let system = System::new(&plan(6, 2));
    for from in 0..6 {
        for to in 0..6 {
            let machine = &system.machine;
            let trace = machine.trace(|| {
                assert_eq!(system.send(from, to, 0), Ok(Sent::Rung));
                assert_eq!(system.send(from, to, 0), Ok(Sent::Coalesced));
                assert_eq!(system.drain(to), 1);
            });
            assert_eq!(trace.accesses(), 2, "{trace}");
            assert_eq!(trace.stored(lapic(to), IA32_X2APIC_EOI), [0]);
            // To oneself as to any other.
            assert_eq!(trace.stored(lapic(from), IA32_X2APIC_ICR).len(), 1);
        }
    }
    assert_eq!(system.machine.model.strays(), []);
}

#[test]
fn a_send_to_many_runs_on_each_and_costs_one_write_per_cluster() {
    // Sparse ids, as two packages of 6 cores have them, over 255 in the second one.
    let change = |builder: ApicBuilder| {
        let package = |n: u32| n / 6 * 0x100 + n % 6 * 8;
        builder.mode(Mode::X2apic).ids((0..12).map(package))
    };
    let system = System::new(&Plan {
        change,
        ..plan(12, 2)
    });
    let machine = &system.machine;
    let before = RAN.load(Relaxed);
    let trace = machine.trace(|| {
        let sent = machine.on(3, |on| {
            let to = cpu_set(0..12);
            system.interrupts.send_mask(&machine.apic, on, &to, kind(1))
        });
        assert_eq!(sent.map(|sent| sent.rung), Ok(12));
    });
    // Cores 0 and 1 share a cluster, 2 and 3, 4 and 5; in each package.
    assert_eq!(trace.stored(lapic(3), IA32_X2APIC_ICR).len(), 6, "{trace}");
    assert_eq!(trace.accesses(), 6);
    let taken: u32 = (0..12).map(|cpu| system.drain(cpu)).sum();
    assert_eq!(taken, 12);
    assert_eq!(RAN.load(Relaxed) - before, 12);
    assert_eq!(system.counts(0).taken + system.counts(1).taken, 12);
}

#[test]
fn a_device_and_a_timer_reach_their_actions_by_number() {
    let system = System::new(&plan(2, 1));
    let machine = &system.machine;
    let calls = Arc::new(AtomicU32::new(0));
    let count = || {
        let calls = calls.clone();
        Action::new(move |_| {
            calls.fetch_add(1, Relaxed);
            Answer::Handled
        })
    };
    let control = system.control();
    let device = control.register(machine.irq(0x41), count());
    let timer = control.register(machine.irq(0xec), count());
    let registrations = (device.unwrap(), timer.unwrap());
    control.unmask(machine.irq(0xec)).unwrap();
    machine.model.raise(1, 0x41, true);
    machine.on(0, |on| machine.apic.timer(on).unwrap().one_shot(5));
    machine.model.advance(5);
    for cpu in 0..2 {
        assert_eq!(system.take(cpu).map(|o| o.taken), Some(Taken::Handled));
        assert_eq!(system.take(cpu), None);
    }
    assert_eq!(calls.load(Relaxed), 2);
    drop(registrations);
}

#[test]
fn a_vector_without_an_action_is_ended_and_counted() {
    let system = System::new(&plan(1, 1));
    let machine = &system.machine;
    machine.model.raise(0, 0x55, false);
    assert_eq!(system.take(0).map(|o| o.taken), Some(Taken::Unhandled));
    assert_eq!(machine.model.isr(0), []);
    let counts = system.interrupts.counts(machine.irq(0x55)).unwrap();
    assert_eq!(counts.unhandled, 1);
    // A spurious one is nothing at all.
    machine.model.inject_spurious(0);
    assert_eq!(system.take(0).map(|o| o.taken), Some(Taken::Nothing));
    let met = machine.apic.counts(CpuIndex::new(0)).unwrap();
    assert_eq!((met.spurious, met.unknown), (1, 0));
}

#[test]
fn a_storm_of_352_cpus_in_4_nodes_is_counted_on_the_targets_node_and_all_of_it_is_answered() {
    const CPUS: u32 = 352;
    const NODES: u32 = 4;
    const SENDS: u32 = 20;
    let change = |builder: ApicBuilder| {
        let sparse = |n: u32| n / 88 * 0x80 + n % 88;
        builder.mode(Mode::X2apic).ids((0..CPUS).map(sparse))
    };
    let system = System::new(&Plan {
        change,
        ..plan(CPUS, NODES)
    });
    for hops in [0, 1] {
        let before: Vec<_> = (0..NODES).map(|node| system.counts(node)).collect();
        let done = storm(&system, NODES, hops, SENDS);
        assert!(done.coalesced > 0 && done.taken <= done.rung, "{done:?}");
        for (node, before) in (0..NODES).zip(before) {
            let counts = system.counts(node);
            let sent = counts.sent - before.sent;
            assert_eq!(sent, u64::from(CPUS / NODES * SENDS), "{counts:?}");
            assert_eq!(counts.sent, counts.rung + counts.coalesced);
            assert!(counts.taken <= counts.rung, "{counts:?}");
        }
    }
    let done = paced(&system, NODES, 5);
    let all = u64::from(CPUS * 5);
    assert_eq!((done.rung, done.coalesced, done.taken), (all, 0, all));
    assert_eq!(system.machine.model.strays(), []);
}
