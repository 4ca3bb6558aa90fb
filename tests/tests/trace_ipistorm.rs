// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines a storm of IPIs writes, ours and the peer's. Run by
//! `RUSTFLAGS="--cfg irq_trace" cargo test -p irq-tests --test trace_ipistorm`.
#![cfg(irq_trace)]

use std::collections::BTreeSet;

use irq_core::{Action, ActionContext, Answer, Detector, Kind, Trigger};
use irq_gicv3::{IntId, Mpidr, Priority};
use irq_hal::atomic::trace::{self, record, shared_lines};
use irq_tests::lines::Seen;
use irq_tests::peer::OneDescriptor;
use irq_tests::storm::OnDescriptor;
use irq_tests::system::{Plan, System};

const CPUS: u32 = 352;
const NODES: u32 = 4;
const SENDS: u32 = 6;

fn nothing(_: usize, _: &ActionContext<'_>) {}

fn mine(_: usize, _: &ActionContext<'_>) -> Answer {
    Answer::Handled
}

fn system(cpus: u32, nodes: u32) -> System {
    System::new(&Plan {
        kinds: &[Kind::new(nothing, 0)],
        detector: Some(Detector::new(|_, report| panic!("{report:?}"), 0)),
        ..Plan::new(cpus, nodes)
    })
}

#[test]
fn trace_shows_that_a_receive_writes_no_line_that_another_cpu_touches_but_its_own_mailbox() {
    let seen = Seen::storm(&system(CPUS, NODES), NODES, SENDS);
    let (sends, receives) = (seen.sends(), seen.receives());
    assert_eq!(sends.steps, 2 * (CPUS * SENDS) as usize);
    assert!(receives.steps >= CPUS as usize);
    // The mailbox and nothing else, either way.
    assert_eq!((sends.shared, sends.others, sends.locks), (1.0, 0.0, 0));
    assert_eq!(
        (receives.shared, receives.others, receives.locks),
        (1.0, 0.0, 0)
    );
    let mut mailboxes = BTreeSet::new();
    for cpu in 0..CPUS {
        let own = seen.shared_by_receives_of(cpu);
        assert_eq!(own.len(), 1, "cpu{cpu}");
        assert_eq!(own, seen.shared_by_sends_to(cpu), "cpu{cpu}");
        mailboxes.extend(own);
    }
    assert_eq!(mailboxes.len(), CPUS as usize, "a mailbox each");
    assert_eq!(seen.shared.len(), mailboxes.len());
    // Nobody but a mailbox's owner and those who send to it comes near it.
    let near = |line: &trace::SharedLine| line.cpus.len() <= 3;
    assert!(seen.shared.iter().all(near));
}

#[test]
fn trace_finds_the_one_descriptor_that_every_receive_of_the_peer_writes() {
    let system = system(CPUS, NODES);
    let peer = OneDescriptor::new(CPUS);
    let on = OnDescriptor {
        system: &system,
        peer: &peer,
    };
    let seen = Seen::storm(&on, NODES, SENDS);
    let receives = seen.receives();
    assert_eq!(peer.taken(), receives.steps as u64);
    assert_eq!((receives.shared, receives.others), (2.0, 1.0));
    let everyones: Vec<_> = seen
        .shared
        .iter()
        .filter(|line| line.writers.len() == CPUS as usize)
        .collect();
    assert_eq!(everyones.len(), 1);
    // Its sends are ours but for their counts: no line beside the mailbox.
    assert_eq!(seen.sends().others, 0.0);
}

#[test]
fn trace_shows_the_same_on_one_node() {
    let seen = Seen::storm(&system(24, 1), 1, 20);
    let (sends, receives) = (seen.sends(), seen.receives());
    assert_eq!((sends.shared, sends.others, sends.locks), (1.0, 0.0, 0));
    assert_eq!(
        (receives.shared, receives.others, receives.locks),
        (1.0, 0.0, 0)
    );
}

#[test]
fn trace_shows_that_timers_and_devices_of_cpus_share_no_line_at_all() {
    const CPUS: u32 = 8;
    let system = system(CPUS, 2);
    let control = system.control();
    let (gic, model) = (&system.machine.gic, &system.machine.model);
    let timer = IntId::ppi(11).unwrap();
    let irq = gic.irq(timer).unwrap();
    let mut kept = vec![control.register(irq, Action::word(mine, 0)).unwrap()];
    gic.configure_private(timer, Trigger::Edge, Priority::DEFAULT)
        .unwrap();
    gic.unmask_private(timer).unwrap();
    for cpu in 0..CPUS {
        let irq = system.irq(32 + cpu);
        kept.push(control.register(irq, Action::word(mine, 0)).unwrap());
        gic.set_route(irq, Mpidr::new(model.mpidr(cpu))).unwrap();
        control.set_trigger(irq, Trigger::Edge).unwrap();
        control.unmask(irq).unwrap();
    }
    let events = record(|| {
        for cpu in (0..CPUS).chain(0..CPUS) {
            model.private_line(cpu, 27).pulse();
            model.line(32 + cpu).pulse();
            assert_eq!(system.drain(cpu), 2);
        }
    });
    assert!(events.iter().any(|event| event.kind.writes()), "counts");
    assert!(events.iter().all(|event| event.kind != trace::Kind::Lock));
    assert_eq!(shared_lines(&events), []);
}
