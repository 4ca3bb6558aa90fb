// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote calls: results, waits, and what goes wrong.
#![cfg(not(loom))]

mod common;
mod ipi_common;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use common::{Cpu, on};
use ipi_common::{IPI, Machine, cpu, kind, waiting};
use irq_core::cpu::{CpuIndex, CpuMask, NodeId};
use irq_core::{ActionContext, Callback, Kick, Kind};
use irq_hal::platform::Ticks;
use irq_hal::wait::Bound;
use irq_hal::{Error, ErrorKind};

thread_local! {
    /// What ran on the CPUs that this thread plays, as (word, CPU).
    static RAN: RefCell<Vec<(usize, u32)>> = const { RefCell::new(Vec::new()) };
    /// For functions, which capture nothing.
    static MACHINE: RefCell<Option<Arc<Machine>>> = const { RefCell::new(None) };
}

const BUSY: Error = Error::Busy {
    what: "the remote call of the CPU",
};

fn played() -> Arc<Machine> {
    MACHINE.with_borrow(|machine| machine.clone().unwrap())
}

fn play(machine: Machine) -> Arc<Machine> {
    let machine = Arc::new(machine);
    MACHINE.set(Some(machine.clone()));
    machine
}

fn ran() -> Vec<(usize, u32)> {
    RAN.take()
}

fn note(word: usize, cpu: CpuIndex) {
    RAN.with_borrow_mut(|ran| ran.push((word, cpu.get())));
}

fn kind_note(word: usize, cx: &ActionContext<'_>) {
    note(word, cx.cpu());
}

/// A function that leaves a trace and returns twice its word plus its CPU.
fn twice(word: usize, cpu: CpuIndex) -> usize {
    note(word, cpu);
    2 * word + cpu.index()
}

fn unwind(word: usize, cpu: CpuIndex) -> usize {
    note(word, cpu);
    std::panic::resume_unwind(Box::new(()))
}

/// A platform of CPU 0 on which CPU 1 takes its interrupts whenever CPU 0 waits.
fn with_peer() -> Cpu {
    waiting(0, || _ = played().drain(1))
}

fn mask(cpus: &[u32]) -> CpuMask {
    let mut mask = CpuMask::try_new(256).unwrap();
    for index in cpus {
        mask.insert(cpu(*index)).unwrap();
    }
    mask
}

#[test]
fn a_remote_call_returns_what_the_function_returned_there() {
    let machine = play(Machine::new(2, 2, &[]));
    assert_eq!(machine.call(&with_peer(), 0, 1, twice, 21), Ok(43));
    assert_eq!(ran(), [(21, 1)]);
    // And again, with the same slot.
    assert_eq!(machine.call(&with_peer(), 0, 1, |w, _| w + 1, 6), Ok(7));
    let counts = machine.interrupts.ipi_counts(NodeId::new(1)).unwrap();
    assert_eq!((counts.sent, counts.rung, counts.taken), (2, 2, 2));
}

#[test]
fn a_call_to_oneself_runs_at_once_and_rings_nobody() {
    let machine = Machine::new(1, 1, &[]);
    assert_eq!(machine.call(&Cpu::new(0), 0, 0, twice, 4), Ok(8));
    assert_eq!(ran(), [(4, 0)]);
    assert_eq!(machine.bell.rings(0), 0);
    // From inside a call too.
    fn again(word: usize, cpu: CpuIndex) -> usize {
        let called = played().call(&Cpu::new(1), cpu.get(), cpu.get(), twice, word);
        called.unwrap()
    }
    let machine = play(Machine::new(2, 1, &[]));
    assert_eq!(machine.call(&with_peer(), 0, 1, again, 4), Ok(9));
}

#[test]
fn a_cpu_that_never_answers_is_named_and_the_call_never_runs() {
    let machine = Machine::new(3, 1, &[]);
    let silent = Err(Error::NoAnswer { cpu: cpu(2) });
    assert_eq!(machine.call(&Cpu::impatient(0), 0, 2, twice, 1), silent);
    // The poll bound alone ends the wait as well.
    let mut frozen = Cpu::new(0);
    frozen.tick = 0;
    let bound = Bound {
        ticks: Ticks(1),
        polls: 5,
    };
    let on = on(0);
    let remote = machine
        .interrupts
        .remote(&frozen, &machine.bell, &on)
        .within(bound);
    assert_eq!(remote.call(cpu(2), twice, 2), silent);
    // It wakes up late.
    assert_eq!(machine.drain(2), 1);
    assert_eq!(ran(), []);
    // The caller is free to call others.
    assert_eq!(machine.call(&Cpu::new(0), 0, 0, twice, 3), Ok(6));
    let silent = Err(Error::NoAnswer { cpu: cpu(1) });
    assert_eq!(machine.call(&Cpu::impatient(0), 0, 1, twice, 1), silent);
}

#[test]
fn calls_to_cpus_that_are_offline_or_do_not_exist_are_errors() {
    let machine = Machine::new(2, 1, &[]);
    machine.offline(1).unwrap();
    let platform = Cpu::new(0);
    let offline = Err(Error::CpuOffline { cpu: cpu(1) });
    assert_eq!(machine.call(&platform, 0, 1, twice, 1), offline);
    let beyond = Err(Error::NoSuchCpu { cpu: cpu(2) });
    assert_eq!(machine.call(&platform, 0, 2, twice, 1), beyond);
    assert_eq!(machine.call(&platform, 2, 0, twice, 1), beyond);
    machine.online(1, 0).unwrap();
    machine.bell.reachable(1, false);
    assert_eq!(machine.call(&platform, 0, 1, twice, 1), offline);
    machine.drain(1);
    assert_eq!(ran(), []);
    let counts = machine.interrupts.ipi_counts(NodeId::FLAT).unwrap();
    assert_eq!(counts.sent, 0);
}

#[test]
fn a_cpu_that_goes_offline_while_it_is_called_answers_first() {
    let machine = play(Machine::new(2, 1, &[]));
    let leaving = waiting(0, || _ = played().offline(1));
    assert_eq!(machine.call(&leaving, 0, 1, twice, 5), Ok(11));
    let offline = Err(Error::CpuOffline { cpu: cpu(1) });
    assert_eq!(machine.call(&leaving, 0, 1, twice, 5), offline);
}

#[test]
fn a_called_function_that_takes_its_cpu_offline_leaves_no_other_caller_behind() {
    fn leave(_: usize, cpu: CpuIndex) -> usize {
        played().offline(cpu.get()).unwrap();
        // The other caller's function has run.
        ran().len()
    }
    let machine = Arc::new(Machine::new(3, 1, &[]));
    let caller = |index: u32, f: Callback| {
        let machine = machine.clone();
        thread::spawn(move || machine.call(&Cpu::new(index), index, 2, f, 1))
    };
    let callers = [caller(0, leave), caller(1, twice)];
    while machine.bell.rings(2) < 2 {
        thread::yield_now();
    }
    MACHINE.set(Some(machine.clone()));
    assert_eq!(machine.drain(2), 1);
    let answers = callers.map(|caller| caller.join().unwrap());
    assert_eq!(answers, [Ok(1), Ok(4)]);
}

#[test]
fn a_function_that_unwinds_is_an_error_here_and_goes_on_unwinding_there() {
    thread_local! { static UNWOUND: RefCell<u32> = const { RefCell::new(0) }; }
    let machine = play(Machine::new(3, 1, &[]));
    // A third CPU waits for the same target.
    let other = waiting(0, || {
        let taken = catch_unwind(AssertUnwindSafe(|| played().dispatch(1)));
        UNWOUND.with_borrow_mut(|unwound| *unwound += u32::from(taken.is_err()));
    });
    let unwound = Err(Error::Unwound { cpu: cpu(1) });
    assert_eq!(machine.call(&other, 0, 1, unwind, 5), unwound);
    assert_eq!(UNWOUND.take(), 1);
    // The next one is fine.
    assert_eq!(machine.call(&other, 0, 1, twice, 5), Ok(11));
}

#[test]
fn the_calls_behind_one_that_unwinds_are_served_by_the_next_interrupt() {
    // Both callers are threads; CPU 2 is taken by the test.
    let machine = Arc::new(Machine::new(3, 1, &[]));
    let caller = |index: u32, f: Callback| {
        let machine = machine.clone();
        thread::spawn(move || machine.call(&Cpu::new(index), index, 2, f, 1))
    };
    let first = caller(0, |_, _| std::panic::resume_unwind(Box::new(())));
    while !machine.bell.pending(2) {
        thread::yield_now();
    }
    let second = caller(1, |word, _| word + 10);
    while machine.bell.rings(2) < 2 {
        thread::yield_now();
    }
    catch_unwind(AssertUnwindSafe(|| machine.dispatch(2))).unwrap_err();
    assert!(machine.bell.pending(2));
    machine.drain(2);
    assert_eq!(first.join().unwrap(), Err(Error::Unwound { cpu: cpu(2) }));
    assert_eq!(second.join().unwrap(), Ok(11));
}

#[test]
fn a_call_that_has_begun_is_not_withdrawn_and_the_caller_is_busy_until_it_ends() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static GO_ON: AtomicBool = AtomicBool::new(false);
    fn slow(word: usize, _: CpuIndex) -> usize {
        BEGUN.store(true, Ordering::Release);
        while !GO_ON.load(Ordering::Acquire) {
            thread::yield_now();
        }
        word
    }
    let machine = Arc::new(Machine::new(3, 1, &[]));
    let target = thread::spawn({
        let machine = machine.clone();
        move || {
            while machine.drain(1) == 0 {
                thread::yield_now();
            }
        }
    });
    // Its clock stands still until the function runs, and runs out then.
    let mut platform = waiting(0, || {
        while !BEGUN.load(Ordering::Acquire) {
            thread::yield_now();
        }
    });
    platform.tick = 0;
    let on = on(0);
    let bound = Bound {
        ticks: Ticks(1),
        polls: 4,
    };
    let remote = machine
        .interrupts
        .remote(&platform, &machine.bell, &on)
        .within(bound);
    let unfinished = Error::Unfinished { cpu: cpu(1) };
    assert_eq!(remote.call(cpu(1), slow, 1), Err(unfinished));
    assert_eq!(unfinished.kind(), ErrorKind::Timeout);
    // Even to somebody else.
    assert_eq!(remote.call(cpu(2), twice, 1), Err(BUSY));
    assert_eq!(remote.call_mask(&mask(&[1, 2]), twice, 1), Err(BUSY));
    GO_ON.store(true, Ordering::Release);
    target.join().unwrap();
    let silent = Err(Error::NoAnswer { cpu: cpu(2) });
    assert_eq!(remote.call(cpu(2), twice, 1), silent);
}

#[test]
fn a_call_from_an_interrupt_while_the_cpu_waits_for_one_is_busy() {
    fn nested() {
        let machine = played();
        // CPU 0 is interrupted while it waits.
        assert_eq!(machine.call(&Cpu::new(0), 0, 2, twice, 1), Err(BUSY));
        machine.drain(1);
    }
    let machine = play(Machine::new(3, 1, &[]));
    let platform = waiting(0, nested);
    assert_eq!(machine.call(&platform, 0, 1, twice, 21), Ok(43));
    assert_eq!(ran(), [(21, 1)]);
    assert!(!machine.bell.pending(2));
}

#[test]
fn a_call_from_an_interrupt_that_comes_before_the_first_cpu_is_asked_is_busy() {
    struct Interrupted;
    impl Kick for Interrupted {
        fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
            let machine = played();
            assert_eq!(machine.call(&Cpu::new(0), 0, 2, twice, 1), Err(BUSY));
            machine.bell.kick(cpu, post)
        }
    }
    let machine = play(Machine::new(3, 1, &[]));
    let called = machine
        .interrupts
        .call(&with_peer(), &Interrupted, &on(0), cpu(1), twice, 21);
    assert_eq!(called, Ok(43));
    assert_eq!(ran(), [(21, 1)]);
}

#[test]
fn two_cpus_that_call_each_other_with_interrupts_masked_both_get_their_answer() {
    for round in 0..200 {
        let machine = Arc::new(Machine::new(2, 2, &[]));
        let done = Arc::new(AtomicU32::new(0));
        let caller = |index: u32| {
            let (machine, done) = (machine.clone(), done.clone());
            thread::spawn(move || {
                // Masked: no interrupt is taken until the call is over.
                let result = machine.call(&Cpu::new(index), index, 1 - index, twice, 10);
                done.fetch_add(1, Ordering::Release);
                while done.load(Ordering::Acquire) < 2 {
                    machine.drain(index);
                    thread::yield_now();
                }
                result
            })
        };
        let both = [caller(0), caller(1)];
        let results = both.map(|caller| caller.join().unwrap());
        assert_eq!(results, [Ok(21), Ok(20)], "round {round}");
    }
}

#[test]
fn a_waiting_cpu_runs_kinds_that_are_safe_anywhere_and_leaves_the_others() {
    fn peer() {
        let machine = played();
        for n in 0..3 {
            machine.send(1, 0, n).unwrap();
        }
        // CPU 0 looks once more before CPU 1 answers.
        thread_local! { static LOOKS: RefCell<u32> = const { RefCell::new(0) }; }
        let looks = LOOKS.with_borrow_mut(|looks| {
            *looks += 1;
            *looks
        });
        if looks == 2 {
            machine.drain(1);
        }
    }
    let kinds = [
        Kind::new(kind_note, 100),
        Kind::anywhere(note, 101),
        Kind::last(kind_note, 102),
    ];
    let machine = play(Machine::new(2, 1, &kinds));
    let platform = waiting(0, peer);
    assert_eq!(machine.call(&platform, 0, 1, twice, 1), Ok(3));
    assert_eq!(ran(), [(101, 0), (1, 1), (101, 0)]);
    assert!(machine.bell.pending(0));
    assert_eq!(machine.drain(0), 1);
    assert_eq!(ran(), [(100, 0), (102, 0)]);
}

#[test]
fn a_call_served_while_waiting_that_unwinds_withdraws_the_callers_own() {
    let machine = Arc::new(Machine::new(3, 1, &[]));
    // CPU 1 calls CPU 0 with a function that unwinds there.
    let peer = thread::spawn({
        let machine = machine.clone();
        move || {
            let f = |_: usize, _: CpuIndex| std::panic::resume_unwind(Box::new(()));
            machine.call(&Cpu::new(1), 1, 0, f, 0)
        }
    });
    let call = || machine.call(&Cpu::new(0), 0, 2, twice, 1);
    catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    assert_eq!(peer.join().unwrap(), Err(Error::Unwound { cpu: cpu(0) }));
    // CPU 2 finds nothing, and CPU 0 can call again.
    assert_eq!(machine.drain(2), 1);
    assert_eq!(ran(), []);
    let silent = Err(Error::NoAnswer { cpu: cpu(2) });
    assert_eq!(machine.call(&Cpu::impatient(0), 0, 2, twice, 1), silent);
}

#[test]
fn a_mask_is_called_at_once_and_its_members_that_are_offline_are_skipped() {
    fn peers() {
        let machine = played();
        // All were asked before the first one answers, and the caller has done its own.
        assert_eq!(ran(), [(7, 0)]);
        assert!([1, 2, 3].iter().all(|index| machine.bell.pending(*index)));
        for index in 1..4 {
            machine.drain(index);
        }
    }
    let machine = play(Machine::new(6, 2, &[]));
    machine.offline(4).unwrap();
    machine.offline(5).unwrap();
    machine.bell.reachable(5, false);
    let platform = waiting(0, peers);
    let call_mask = |to: &[u32]| {
        let interrupts = &machine.interrupts;
        interrupts.call_mask(&platform, &machine.bell, &on(0), &mask(to), twice, 7)
    };
    assert_eq!(call_mask(&[0, 1, 2, 3, 4, 5]), Ok(4));
    assert_eq!(ran(), [(7, 1), (7, 2), (7, 3)]);
    assert_eq!(call_mask(&[4]), Ok(0));
    assert_eq!(call_mask(&[]), Ok(0));
    assert_eq!(call_mask(&[0]), Ok(1));
    assert_eq!(ran(), [(7, 0)]);
    let beyond = Err(Error::NoSuchCpu { cpu: cpu(9) });
    assert_eq!(call_mask(&[0, 1, 9]), beyond);
    assert_eq!(ran(), []);
    let node = |node| machine.interrupts.ipi_counts(NodeId::new(node)).unwrap();
    assert_eq!((node(0).sent, node(1).sent), (2, 1));
}

#[test]
fn one_silent_member_of_a_mask_is_named_and_the_others_have_run() {
    let machine = play(Machine::new(4, 1, &[]));
    let mut platform = with_peer();
    platform.tick = 200_000;
    let to = mask(&[0, 1, 3]);
    let called = machine
        .interrupts
        .call_mask(&platform, &machine.bell, &on(0), &to, twice, 7);
    assert_eq!(called, Err(Error::NoAnswer { cpu: cpu(3) }));
    assert_eq!(ran(), [(7, 0), (7, 1)]);
    machine.drain(3);
    assert_eq!(ran(), []);
    assert_eq!(machine.call(&with_peer(), 0, 1, twice, 1), Ok(3));
}

#[test]
fn a_call_rings_even_a_mailbox_that_is_not_empty() {
    // The sender of kind 0 was interrupted before its ring: it is never pending.
    struct Late<'a>(&'a ipi_common::Bell);
    impl Kick for Late<'_> {
        fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
            post();
            _ = (cpu, self.0);
            Ok(())
        }
    }
    let machine = play(Machine::new(2, 1, &[Kind::new(kind_note, 100)]));
    machine
        .interrupts
        .send(&Late(&machine.bell), &on(0), cpu(1), kind(0))
        .unwrap();
    assert!(!machine.bell.pending(1));
    assert_eq!(machine.call(&with_peer(), 0, 1, twice, 1), Ok(3));
    assert_eq!(ran(), [(1, 1), (100, 1)]);
}

#[test]
fn a_call_from_inside_a_kind_is_answered() {
    fn ask(word: usize, cx: &ActionContext<'_>) {
        assert_eq!(cx.irq(), IPI);
        let machine = played();
        let called = machine.interrupts.call(
            &with_peer(),
            &machine.bell,
            cx.entry().on(),
            cpu(1),
            twice,
            word,
        );
        assert_eq!(called, Ok(2 * word + 1));
    }
    let machine = play(Machine::new(2, 1, &[Kind::new(ask, 50)]));
    machine.send(1, 0, 0).unwrap();
    machine.drain(0);
    assert_eq!(ran(), [(50, 1)]);
}

#[test]
fn callers_above_the_first_word_and_the_first_line_are_found() {
    let machine = play(Machine::new(600, 1, &[]));
    for caller in [0, 63, 64, 511, 512, 599] {
        let platform = waiting(caller, || _ = played().drain(1));
        assert_eq!(machine.call(&platform, caller, 1, twice, 5), Ok(11));
    }
    assert_eq!(ran().len(), 6);
}

#[test]
fn callers_that_call_again_and_again_keep_no_other_from_its_turn() {
    const ROUNDS: u32 = 20;
    static RUNS: AtomicU32 = AtomicU32::new(0);
    /// Ends when the other caller waits again: the target is never without one. So many runs in,
    /// neither has made its last call.
    fn busy(_: usize, cpu: CpuIndex) -> usize {
        let before = RUNS.fetch_add(1, Ordering::Relaxed);
        while before + 1 < ROUNDS && played().bell.rings(cpu.get()) < before + 2 {
            thread::yield_now();
        }
        0
    }
    let machine = play(Machine::new(3, 1, &[]));
    let callers: Vec<_> = [0, 1]
        .map(|from| {
            let machine = machine.clone();
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    machine.call(&Cpu::new(from), from, 2, busy, 0).unwrap();
                }
            })
        })
        .into();
    while machine.bell.rings(2) < 2 {
        thread::yield_now();
    }
    // Those that wait when the interrupt comes, and nobody twice.
    _ = machine.dispatch(2);
    assert_eq!(RUNS.load(Ordering::Relaxed), 2);
    while callers.iter().any(|caller| !caller.is_finished()) {
        machine.drain(2);
    }
    for caller in callers {
        caller.join().unwrap();
    }
    assert_eq!(RUNS.load(Ordering::Relaxed), 2 * ROUNDS);
}
