// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that are missing, silent or on their way, with driver and irq-core together.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use irq_core::cpu::{CpuIndex, NodeId, OnCpu};
use irq_core::topology::Place;
use irq_core::{ActionContext, Kind, Sent, SentMany, Taken};
use irq_gicv3::Mpidr;
use irq_hal::{Error, ErrorKind};
use irq_sim::gic::{Affinity, Delay, GicBuilder, Region};
use irq_tests::gicv3::cpu_set;
use irq_tests::system::{Plan, System, kind};

fn nothing(_: usize, _: &ActionContext<'_>) {}

const KINDS: [Kind; 1] = [Kind::new(nothing, 0)];

fn plan(cpus: u32, nodes: u32) -> Plan<'static> {
    Plan {
        kinds: &KINDS,
        ..Plan::new(cpus, nodes)
    }
}

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn broadcast(system: &System, from: u32) -> SentMany {
    let gic = &system.machine.gic;
    let sent = system.on(from, |on| {
        system.interrupts.broadcast_others(gic, on, kind(0))
    });
    sent.unwrap()
}

fn call(
    system: &System,
    from: u32,
    to: u32,
    function: irq_core::Callback,
    word: usize,
) -> Result<usize, Error> {
    let machine = &system.machine;
    system.on(from, |on| {
        system
            .interrupts
            .call(&machine.sim, &machine.gic, on, cpu(to), function, word)
    })
}

fn answer(word: usize, cpu: CpuIndex) -> usize {
    word + cpu.index()
}

/// Nobody has anything left to answer: the next IPI to each online CPU rings.
fn all_answered(system: &System, online: impl IntoIterator<Item = u32>) {
    assert_eq!(system.settle(), 0);
    for to in online {
        assert_eq!(system.send(0, to, 0), Ok(Sent::Rung), "cpu{to}");
        assert_eq!(system.drain(to), 1);
    }
}

#[test]
fn a_cpu_that_never_starts_is_named_in_bounded_time_and_the_others_go_on() {
    let system = System::cold(&plan(4, 2));
    system.online(0).unwrap();
    system.online(1).unwrap();
    system.machine.model.set_wake(Delay::Never);
    let error = system.online(2).map_err(|error| error.kind());
    assert_eq!(error, Err(ErrorKind::Timeout));
    system.machine.model.set_wake(Delay::Polls(1));
    system.online(3).unwrap();
    assert_eq!(broadcast(&system, 0).rung, 2);
    assert_eq!(system.settle(), 2);
    assert_eq!(system.send(0, 2, 0), Err(Error::CpuOffline { cpu: cpu(2) }));
    all_answered(&system, [0, 1, 3]);
}

#[test]
fn a_cpu_that_fails_on_its_way_up_may_come_later() {
    let system = System::cold(&plan(2, 1));
    system.online(0).unwrap();
    system.machine.model.set_gicr_rwp(Delay::Never);
    let error = system.online(1).map_err(|error| error.kind());
    assert_eq!(error, Err(ErrorKind::Timeout));
    assert_eq!(broadcast(&system, 0), SentMany::default());
    system.machine.model.set_gicr_rwp(Delay::Polls(0));
    system.online(1).unwrap();
    all_answered(&system, 0..2);
}

#[test]
fn an_absent_cpu_is_an_error_of_its_own_and_the_others_go_on() {
    // The third CPU has no redistributor.
    fn change(builder: GicBuilder) -> GicBuilder {
        let there = [(0, 0), (0, 1), (1, 1)].map(|(aff2, aff0)| Affinity::new(0, aff2, 0, aff0));
        builder.regions([Region::new().rds(there)])
    }
    let system = System::cold(&Plan {
        change,
        ..plan(4, 2)
    });
    for cpu in [0, 1, 3] {
        system.online(cpu).unwrap();
    }
    let error = Err(Error::NoUnitForCpu {
        block: "GICR",
        id: 0x1_0000,
    });
    assert_eq!(system.online(2), error);
    assert_eq!(system.send(3, 2, 0), Err(Error::CpuOffline { cpu: cpu(2) }));
    let sent = system.on(0, |on| {
        let gic = &system.machine.gic;
        system
            .interrupts
            .send_mask(gic, on, &cpu_set(0..4), kind(0))
    });
    let expect = SentMany {
        rung: 3,
        coalesced: 0,
        offline: 1,
    };
    assert_eq!(sent, Ok(expect));
    assert_eq!(system.settle(), 3);
    all_answered(&system, [0, 1, 3]);
}

#[test]
fn a_cpu_beyond_the_possible_ones_is_refused_everywhere_and_nothing_is_sent() {
    let system = System::new(&plan(4, 2));
    let Machine { sim, gic } = parts(&system);
    let beyond = Err(Error::NoSuchCpu { cpu: cpu(4) });
    let trace = system.machine.trace(|| {
        assert_eq!(system.send(0, 4, 0), beyond.map(|()| Sent::Rung));
        assert_eq!(call(&system, 0, 4, answer, 0), beyond.map(|()| 0));
        system.on(0, |on| {
            let set = cpu_set([1, 4]);
            let sent = system.interrupts.send_mask(gic, on, &set, kind(0));
            assert_eq!(sent, beyond.map(|()| SentMany::default()));
            let called = system.interrupts.call_mask(sim, gic, on, &set, answer, 0);
            assert_eq!(called, beyond.map(|()| 0));
        });
        system.on(0, |_| {
            // SAFETY: no code of CPU 4 runs, and both calls refuse the index.
            let on = unsafe { OnCpu::new(cpu(4)) };
            let place = Place {
                node: NodeId::new(1),
                ..Place::flat(cpu(4))
            };
            assert_eq!(gic.cpu_online(&on, Mpidr::new(0x500)), beyond);
            assert_eq!(system.interrupts.cpu_online(sim, &on, place), beyond);
        });
    });
    assert_eq!(trace.accesses(), 0, "{trace}");
    all_answered(&system, 0..4);
}

struct Machine<'a> {
    sim: &'a irq_sim::SimPlatform,
    gic: &'a irq_tests::gicv3::SimGic,
}

fn parts(system: &System) -> Machine<'_> {
    Machine {
        sim: &system.machine.sim,
        gic: &system.machine.gic,
    }
}

#[test]
fn an_ipi_or_a_remote_call_to_an_offline_cpu_is_an_error_and_is_not_made_up_for_later() {
    let system = System::new(&plan(4, 2));
    let before = system.counts(1);
    system.offline(3).unwrap();
    let offline = Error::CpuOffline { cpu: cpu(3) };
    let trace = system.machine.trace(|| {
        assert_eq!(system.send(0, 3, 0), Err(offline));
        assert_eq!(call(&system, 1, 3, answer, 0), Err(offline));
    });
    assert_eq!(trace.accesses(), 0, "{trace}");
    assert_eq!(broadcast(&system, 0).rung, 2);
    assert_eq!(system.settle(), 2);
    system.online(3).unwrap();
    assert_eq!(system.drain(3), 0);
    assert_eq!(system.counts(1).sent - before.sent, 1);
    all_answered(&system, 0..4);
}

#[test]
fn a_remote_call_to_a_cpu_that_never_answers_ends_and_never_runs_afterwards() {
    static RAN: AtomicBool = AtomicBool::new(false);
    fn run(_: usize, _: CpuIndex) -> usize {
        RAN.store(true, Relaxed);
        0
    }
    let system = System::new(&plan(2, 1));
    let silent = Err(Error::NoAnswer { cpu: cpu(1) });
    assert_eq!(call(&system, 0, 1, run, 0), silent);
    // The ring comes after all.
    assert_eq!(system.settle(), 1);
    assert!(!RAN.load(Relaxed));
    all_answered(&system, 0..2);
    // Nor with a clock that stands still: polls are bounded as well.
    system.machine.sim.stop_clock();
    let machine = &system.machine;
    let bound = irq_hal::wait::Bound::new(&machine.sim, 1_000, 1_000);
    let result = system.on(0, |on| {
        let remote = system.interrupts.remote(&machine.sim, &machine.gic, on);
        remote.within(bound).call(cpu(1), run, 0)
    });
    assert_eq!(result, silent);
}

#[test]
fn two_cpus_that_call_each_other_with_interrupts_masked_both_get_their_answer() {
    let system = System::new(&plan(2, 2));
    let together = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for (from, to) in [(0, 1), (1, 0)] {
            let (system, together) = (&system, &together);
            scope.spawn(move || {
                system.machine.sim.set_masked(from, true);
                for round in 0..100 {
                    together.wait();
                    let result = call(system, from, to, answer, round);
                    assert_eq!(result, Ok(round + to as usize));
                    // Whoever is done first still answers the other.
                    together.wait();
                }
                system.machine.sim.set_masked(from, false);
            });
        }
    });
    // The rings are still there, and find nothing.
    assert!(system.settle() >= 1);
    all_answered(&system, 0..2);
}

#[test]
fn a_cpu_that_waits_for_a_call_leaves_kinds_that_want_an_interrupt_for_the_interrupt() {
    static RAN: AtomicU32 = AtomicU32::new(0);
    fn ran(_: usize, _: &ActionContext<'_>) {
        RAN.fetch_add(1, Relaxed);
    }
    let system = System::new(&Plan {
        kinds: &[Kind::new(ran, 0)],
        ..plan(2, 1)
    });
    system.send(1, 0, 0).unwrap();
    assert!(call(&system, 0, 1, answer, 0).is_err());
    assert_eq!(RAN.load(Relaxed), 0);
    assert_eq!(system.drain(0), 1);
    assert_eq!(RAN.load(Relaxed), 1);
}

/// Who sent how much to whom, and what the receiver saw of it.
struct Book<const N: usize> {
    written: [[AtomicU32; N]; N],
    sent: [[AtomicU32; N]; N],
    seen: [[AtomicU32; N]; N],
}

impl<const N: usize> Book<N> {
    const fn new() -> Self {
        Self {
            written: [const { [const { AtomicU32::new(0) }; N] }; N],
            sent: [const { [const { AtomicU32::new(0) }; N] }; N],
            seen: [const { [const { AtomicU32::new(0) }; N] }; N],
        }
    }
}

#[test]
fn cpus_that_come_and_go_under_a_storm_lose_nothing_that_was_accepted() {
    const CPUS: usize = 6;
    static BOOK: Book<CPUS> = Book::new();
    fn look(_: usize, cx: &ActionContext<'_>) {
        for from in 0..CPUS {
            // Relaxed: the mailbox orders what the sender wrote.
            let written = BOOK.written[from][cx.cpu().index()].load(Relaxed);
            BOOK.seen[from][cx.cpu().index()].store(written, Relaxed);
        }
    }
    let system = System::new(&Plan {
        kinds: &[Kind::new(look, 0)],
        ..Plan::new(CPUS as u32, 2)
    });
    let senders = AtomicU32::new(4);
    std::thread::scope(|scope| {
        for me in 0..CPUS as u32 {
            let (system, senders) = (&system, &senders);
            scope.spawn(move || {
                if me >= 4 {
                    // Comes and goes until all is sent.
                    while senders.load(SeqCst) != 0 {
                        system.machine.sim.set_masked(me, true);
                        system.offline(me).unwrap();
                        system.online(me).unwrap();
                        system.machine.sim.set_masked(me, false);
                        for _ in 0..20 {
                            system.take(me);
                        }
                    }
                    return;
                }
                for round in 1..=300 {
                    for to in 0..CPUS as u32 {
                        let (from, at) = (me as usize, to as usize);
                        BOOK.written[from][at].store(round, Relaxed);
                        match system.send(me, to, 0) {
                            Ok(_) => BOOK.sent[from][at].store(round, Relaxed),
                            Err(Error::CpuOffline { cpu }) if to >= 4 => assert_eq!(cpu.get(), to),
                            Err(error) => panic!("cpu{me} to cpu{to}: {error}"),
                        }
                        system.take(me);
                    }
                }
                senders.fetch_sub(1, SeqCst);
                while senders.load(SeqCst) != 0 {
                    system.take(me);
                    std::thread::yield_now();
                }
            });
        }
    });
    system.settle();
    for from in 0..CPUS {
        for to in 0..CPUS {
            let sent = BOOK.sent[from][to].load(Relaxed);
            let seen = BOOK.seen[from][to].load(Relaxed);
            assert!(seen >= sent, "cpu{to} saw {seen} of {sent} from cpu{from}");
        }
    }
    for node in 0..2 {
        let counts = system.counts(node);
        assert_eq!(counts.sent, counts.rung + counts.coalesced);
        assert!(counts.taken <= counts.rung, "{counts:?}");
    }
    all_answered(&system, 0..CPUS as u32);
}

#[test]
fn an_ipi_that_finds_its_mailbox_emptied_is_handled() {
    static RAN: AtomicU32 = AtomicU32::new(0);
    fn ran(_: usize, _: &ActionContext<'_>) {
        RAN.fetch_add(1, Relaxed);
    }
    let system = System::new(&Plan {
        kinds: &[Kind::new(ran, 0)],
        ..plan(2, 1)
    });
    // The ring is under way when the CPU goes, and what was accepted runs there.
    system.send(0, 1, 0).unwrap();
    system.offline(1).unwrap();
    assert_eq!(RAN.load(Relaxed), 1);
    system.online(1).unwrap();
    let outcome = system.take(1).unwrap();
    assert_eq!(outcome.taken, Taken::Handled);
    all_answered(&system, 0..2);
}
