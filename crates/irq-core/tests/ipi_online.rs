// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPIs of CPUs that come and go, that were never there, and of machines that have none.
#![cfg(not(loom))]

mod common;
mod ipi_common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Cpu, entry, on, range};
use ipi_common::played::{counts, exact, note, note_anywhere, plain, play, played, ran};
use ipi_common::{Bell, IPI, Machine, cpu, kind};
use irq_core::cpu::NodeId;
use irq_core::topology::Place;
use irq_core::{ActionContext, Bits, CpuBlock, Interrupts, IpiSetup, Kind, Sent, Setup, Taken};
use irq_hal::Error;

#[test]
fn a_node_is_listed_once_a_cpu_of_it_was_online_and_never_without() {
    let machine = Machine::dark(3, 4, &plain());
    assert_eq!(counts(&machine, 0), None);
    machine.online(2, 1).unwrap();
    machine.online(0, 3).unwrap();
    assert_eq!(counts(&machine, 0), None);
    assert_eq!(counts(&machine, 1), exact(0, 0, 0));
    machine.send(2, 0, 0).unwrap();
    machine.drain(0);
    machine.offline(0).unwrap();
    assert_eq!(counts(&machine, 3), exact(1, 0, 1));
    assert_eq!(counts(&machine, 4), None);

    let mut text = String::new();
    machine.interrupts.snapshot(&on(2), &mut text).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("IPI"))
        .collect();
    assert_eq!(
        lines,
        [
            "IPI-1 sent=0 rung=0 coalesced=0 taken=0",
            "IPI-3 sent=1 rung=1 coalesced=0 taken=1"
        ]
    );
}

#[test]
fn a_cpu_goes_online_once_within_the_possible_cpus_and_nodes() {
    let machine = Machine::dark(2, 2, &plain());
    let beyond = Err(Error::NoSuchCpu { cpu: cpu(2) });
    assert_eq!(machine.online(2, 0), beyond);
    let error = machine.online(0, 2).unwrap_err();
    assert_eq!(error.kind(), irq_hal::ErrorKind::Invalid, "{error}");
    assert!(!machine.interrupts.topology().is_online(cpu(0)));
    // Neither left anything behind.
    machine.online(0, 1).unwrap();
    assert!(machine.interrupts.topology().is_online(cpu(0)));
    let twice = Err(Error::CpuIsOnline { cpu: cpu(0) });
    assert_eq!(machine.online(0, 1), twice);
    assert_eq!(machine.send(1, 0, 0), Ok(Sent::Rung));
    assert_eq!(machine.offline(1), Err(Error::CpuOffline { cpu: cpu(1) }));
    assert_eq!(machine.offline(2), Err(Error::NoSuchCpu { cpu: cpu(2) }));
}

#[test]
fn a_cpu_that_goes_offline_first_runs_all_that_was_accepted() {
    fn look(word: usize, cx: &ActionContext<'_>) {
        note(word, cx);
        let machine = played();
        // Nothing is accepted any more, and the CPU still counts as online.
        assert_eq!(
            machine.send(0, cx.cpu().get(), 0),
            Err(Error::CpuOffline { cpu: cx.cpu() })
        );
        assert!(machine.interrupts.topology().is_online(cx.cpu()));
        cx.request(Bits::RESCHEDULE);
    }
    let kinds = [
        Kind::last(look, 0),
        Kind::last(look, 1),
        Kind::anywhere(note_anywhere, 2),
        Kind::new(look, 3),
    ];
    let machine = play(Machine::new(2, 1, &kinds));
    for n in 0..4 {
        machine.send(0, 1, n).unwrap();
    }
    assert_eq!(machine.offline(1), Ok(Bits::RESCHEDULE));
    assert_eq!(ran(), [(2, 1), (3, 1), (0, 1), (1, 1)]);
    assert!(!machine.interrupts.topology().is_online(cpu(1)));
    // The ring for the first of them comes late, and finds nothing; neither does what was
    // refused meanwhile.
    assert_eq!(machine.drain(1), 1);
    assert_eq!(ran(), []);
    machine.online(1, 0).unwrap();
    machine.bell.ring(1);
    machine.drain(1);
    assert_eq!(ran(), []);
    assert_eq!(machine.send(0, 1, 2), Ok(Sent::Rung));
}

#[test]
fn a_kind_that_unwinds_on_the_way_offline_leaves_the_cpu_online_and_loses_no_other() {
    fn unwind_first(word: usize, cx: &ActionContext<'_>) {
        note(word, cx);
        _ = played().send(0, cx.cpu().get(), 2);
        std::panic::resume_unwind(Box::new(()));
    }
    let kinds = [
        Kind::new(unwind_first, 0),
        Kind::new(note, 1),
        Kind::new(note, 2),
    ];
    let machine = play(Machine::new(2, 1, &kinds));
    machine.send(0, 1, 0).unwrap();
    machine.send(0, 1, 1).unwrap();
    catch_unwind(AssertUnwindSafe(|| machine.offline(1))).unwrap_err();
    assert!(machine.interrupts.topology().is_online(cpu(1)));
    assert_eq!(ran(), [(0, 1)]);
    machine.drain(1);
    // Kind 2 was refused.
    assert_eq!(ran(), [(1, 1)]);
    assert_eq!(machine.send(0, 1, 2), Ok(Sent::Rung));
    machine.drain(1);
    assert_eq!(ran(), [(2, 1)]);
    machine.offline(1).unwrap();
}

#[test]
fn a_kind_that_unwinds_last_of_all_on_the_way_offline_leaves_the_cpu_online_too() {
    fn unwind(word: usize, cx: &ActionContext<'_>) {
        note(word, cx);
        std::panic::resume_unwind(Box::new(()));
    }
    for kinds in [
        [Kind::new(unwind, 0), Kind::new(note, 1)],
        [Kind::last(unwind, 0), Kind::new(note, 1)],
    ] {
        let machine = play(Machine::new(2, 1, &kinds));
        machine.send(0, 1, 0).unwrap();
        catch_unwind(AssertUnwindSafe(|| machine.offline(1))).unwrap_err();
        assert!(machine.interrupts.topology().is_online(cpu(1)));
        machine.drain(1);
        assert_eq!(machine.send(0, 1, 1), Ok(Sent::Rung));
        machine.drain(1);
        assert_eq!(ran(), [(0, 1), (1, 1)]);
        machine.offline(1).unwrap();
        machine.online(1, 0).unwrap();
    }
}

#[test]
fn a_kind_takes_its_own_cpu_offline() {
    fn stop(word: usize, cx: &ActionContext<'_>) {
        note(word, cx);
        let machine = played();
        machine
            .interrupts
            .cpu_offline(&machine.bell, cx.entry())
            .unwrap();
    }
    let machine = play(Machine::new(
        2,
        1,
        &[Kind::last(stop, 0), Kind::last(note, 1)],
    ));
    machine.send(0, 1, 0).unwrap();
    machine.send(0, 1, 1).unwrap();
    _ = machine.dispatch(1);
    assert_eq!(ran(), [(0, 1), (1, 1)]);
    assert_eq!(
        machine.send(0, 1, 1),
        Err(Error::CpuOffline { cpu: cpu(1) })
    );
}

#[test]
fn a_uniprocessor_needs_no_ipi_and_no_place() {
    let interrupts = Interrupts::new(Setup::new(1, range(0, 8))).unwrap();
    let bell = Bell::new(1);
    let missing = Err(Error::Unsupported {
        feature: "an IPI that was not set up",
    });
    let sent = interrupts.send(&bell, &on(0), cpu(0), kind(0));
    assert_eq!(sent.map(|_| ()), missing);
    let called = interrupts.call(&Cpu::new(0), &bell, &on(0), cpu(0), |_, _| 1, 0);
    assert_eq!(called.map(|_| ()), missing);
    assert_eq!(interrupts.ipi_counts(NodeId::FLAT), None);
    // The number of the IPI is an interrupt like any other.
    bell.ring(0);
    assert_eq!(
        interrupts.dispatch(&bell, &entry(0)).taken,
        Taken::Unhandled
    );
    // CPUs come and go without.
    interrupts
        .cpu_online(&Cpu::new(0), &on(0), Place::flat(cpu(0)))
        .unwrap();
    assert!(interrupts.topology().is_online(cpu(0)));
    interrupts.cpu_offline(&bell, &entry(0)).unwrap();
    assert!(!interrupts.topology().is_online(cpu(0)));
}

#[test]
fn lent_blocks_that_served_before_begin_offline_and_with_no_counts() {
    let kinds = plain();
    let setup = Setup {
        ipi: Some(IpiSetup {
            irq: IPI,
            kinds: &kinds,
        }),
        ..Setup::new(1, range(0, 8))
    };
    let blocks: &'static [CpuBlock] = vec![CpuBlock::try_new(&setup).unwrap()].leak();
    for _ in 0..2 {
        let machine = Machine {
            interrupts: Interrupts::with_blocks(setup, blocks.iter()).unwrap(),
            bell: Bell::new(1),
        };
        assert_eq!(counts(&machine, 0), None);
        assert_eq!(
            machine.send(0, 0, 0),
            Err(Error::CpuOffline { cpu: cpu(0) })
        );
        machine.online(0, 0).unwrap();
        assert_eq!(counts(&machine, 0), exact(0, 0, 0));
        // Left behind.
        assert_eq!(machine.send(0, 0, 0), Ok(Sent::Rung));
    }
    assert_eq!(ran(), []);
}

#[test]
fn an_ipi_on_a_cpu_beyond_the_possible_ones_is_ended_and_unhandled() {
    let machine = Machine::new(1, 1, &plain());
    let bell = Bell::new(2);
    bell.ring(1);
    let outcome = machine.interrupts.dispatch(&bell, &entry(1));
    assert_eq!(outcome.taken, Taken::Unhandled);
    assert_eq!(bell.ends(1), 1);
}
