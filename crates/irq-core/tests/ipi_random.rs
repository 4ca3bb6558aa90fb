// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPIs in random order: against a plain model on one thread, and on threads that run at once.
#![cfg(not(loom))]

mod common;
mod ipi_common;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use common::{Cpu, on};
use ipi_common::{Machine, cpu, kind};
use irq_core::cpu::{CpuIndex, CpuMask, NodeId};
use irq_core::{ActionContext, IpiCounts, Kind, Sent, SentMany};
use irq_hal::Error;
use proptest::prelude::*;

const CPUS: u32 = 5;
const NODES: u32 = 3;
const KINDS: u8 = 4;

thread_local! {
    static RAN: RefCell<Vec<(u8, u32)>> = const { RefCell::new(Vec::new()) };
}

fn note(word: usize, cx: &ActionContext<'_>) {
    RAN.with_borrow_mut(|ran| ran.push((word as u8, cx.cpu().get())));
}

/// The node of a CPU: the last node has none.
const fn node(index: u32) -> u32 {
    index % (NODES - 1)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send { from: u32, to: u32, kind: u8 },
    SendMask { from: u32, to: u32, kind: u8 },
    Broadcast { from: u32, kind: u8 },
    Take(u32),
    Online(u32),
    Offline(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0..CPUS, 0..CPUS, 0..KINDS);
    let mask = (0..CPUS, 0u32..1 << CPUS, 0..KINDS);
    let step = prop_oneof![
        6 => send.prop_map(|(from, to, kind)| Step::Send { from, to, kind }),
        2 => mask.prop_map(|(from, to, kind)| Step::SendMask { from, to, kind }),
        1 => (0..CPUS, 0..KINDS).prop_map(|(from, kind)| Step::Broadcast { from, kind }),
        4 => (0..CPUS).prop_map(Step::Take),
        1 => (0..CPUS).prop_map(Step::Online),
        1 => (0..CPUS).prop_map(Step::Offline),
    ];
    proptest::collection::vec(step, 1..200)
}

/// What the specification says, in the plainest form.
#[derive(Default)]
struct Model {
    online: [bool; CPUS as usize],
    ever: [bool; CPUS as usize],
    /// Pending kinds, in order.
    mailbox: [std::collections::BTreeSet<u8>; CPUS as usize],
    pending: [bool; CPUS as usize],
    counts: [IpiCounts; NODES as usize],
}

impl Model {
    fn send(&mut self, to: u32, kind: u8) -> Result<Sent, Error> {
        let index = to as usize;
        if !self.online[index] {
            return Err(Error::CpuOffline { cpu: cpu(to) });
        }
        let counts = &mut self.counts[node(to) as usize];
        counts.sent += 1;
        let first = self.mailbox[index].is_empty();
        self.mailbox[index].insert(kind);
        if first {
            counts.rung += 1;
            self.pending[index] = true;
            Ok(Sent::Rung)
        } else {
            counts.coalesced += 1;
            Ok(Sent::Coalesced)
        }
    }

    /// To the CPUs whose bits `to` has.
    fn send_mask(&mut self, to: u32, kind: u8) -> SentMany {
        let mut sent = SentMany::default();
        for index in (0..CPUS).filter(|index| to & 1 << index != 0) {
            match self.send(index, kind) {
                Ok(Sent::Rung) => sent.rung += 1,
                Ok(Sent::Coalesced) => sent.coalesced += 1,
                Err(_) => sent.offline += 1,
            }
        }
        sent
    }

    /// Whether an interrupt was there, and what ran.
    fn take(&mut self, on: u32) -> (u32, Vec<(u8, u32)>) {
        let index = on as usize;
        if !std::mem::take(&mut self.pending[index]) {
            return (0, Vec::new());
        }
        if self.ever[index] {
            self.counts[node(on) as usize].taken += 1;
        }
        (1, self.run(on))
    }

    fn run(&mut self, on: u32) -> Vec<(u8, u32)> {
        let kinds = std::mem::take(&mut self.mailbox[on as usize]);
        kinds.into_iter().map(|kind| (kind, on)).collect()
    }
}

proptest! {
    #[test]
    fn sends_takes_and_comings_and_goings_do_what_a_plain_model_does(steps in steps()) {
        let kinds: Vec<_> = (0..KINDS).map(|n| Kind::new(note, n.into())).collect();
        let machine = Machine::dark(CPUS, NODES, &kinds);
        let mut model = Model::default();
        RAN.take();
        for step in steps {
            match step {
                Step::Send { from, to, kind } => {
                    prop_assert_eq!(machine.send(from, to, kind), model.send(to, kind));
                }
                Step::SendMask { from, to, kind: n } => {
                    let mut mask = CpuMask::try_new(CPUS).unwrap();
                    for index in (0..CPUS).filter(|index| to & 1 << index != 0) {
                        mask.insert(cpu(index)).unwrap();
                    }
                    let sent = machine
                        .interrupts
                        .send_mask(&machine.bell, &on(from), &mask, kind(n));
                    prop_assert_eq!(sent, Ok(model.send_mask(to, n)));
                }
                Step::Broadcast { from, kind: n } => {
                    let online = (0..CPUS).filter(|index| model.online[*index as usize]);
                    let to = online.fold(0, |to, index| to | 1 << index) & !(1 << from);
                    let sent = machine
                        .interrupts
                        .broadcast_others(&machine.bell, &on(from), kind(n));
                    prop_assert_eq!(sent, Ok(model.send_mask(to, n)));
                }
                Step::Take(on) => {
                    let (taken, ran) = model.take(on);
                    prop_assert_eq!(machine.drain(on), taken);
                    prop_assert_eq!(RAN.take(), ran);
                }
                Step::Online(on) => {
                    let new = !model.online[on as usize];
                    prop_assert_eq!(machine.online(on, node(on)).is_ok(), new);
                    model.online[on as usize] = true;
                    model.ever[on as usize] = true;
                }
                Step::Offline(on) => {
                    let was = std::mem::take(&mut model.online[on as usize]);
                    prop_assert_eq!(machine.offline(on).is_ok(), was);
                    prop_assert_eq!(RAN.take(), model.run(on));
                }
            }
        }
        for n in 0..NODES {
            let listed = (0..CPUS).any(|index| model.ever[index as usize] && node(index) == n);
            let counts = machine.interrupts.ipi_counts(NodeId::new(n));
            prop_assert_eq!(counts, listed.then_some(model.counts[n as usize]));
        }
    }
}

/// For each CPU and kind, how often it was sent, and up to which send it ran.
struct Ledger {
    sent: Vec<AtomicU64>,
    served: Vec<AtomicU64>,
}

impl Ledger {
    const fn at(to: u32, kind: u8) -> usize {
        (to * KINDS as u32 + kind as u32) as usize
    }
}

/// A stream of numbers, the same in every run.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn on_threads_every_send_is_followed_by_a_run_and_every_count_is_exact() {
    const SENDS: u64 = 3_000;
    static LEDGER: std::sync::OnceLock<Ledger> = std::sync::OnceLock::new();
    fn serve(word: usize, cpu: CpuIndex) {
        let ledger = LEDGER.get().unwrap();
        let at = Ledger::at(cpu.get(), word as u8);
        // Everything that was sent before this run began.
        let sent = ledger.sent[at].load(Ordering::Relaxed);
        ledger.served[at].fetch_max(sent, Ordering::Relaxed);
    }
    fn serve_here(word: usize, cx: &ActionContext<'_>) {
        serve(word, cx.cpu());
    }
    let none = || {
        (0..CPUS * u32::from(KINDS))
            .map(|_| AtomicU64::new(0))
            .collect()
    };
    let ledger = LEDGER.get_or_init(|| Ledger {
        sent: none(),
        served: none(),
    });
    let machine = Arc::new(Machine::new(
        CPUS,
        CPUS,
        &[
            Kind::new(serve_here, 0),
            Kind::anywhere(serve, 1),
            Kind::last(serve_here, 2),
            Kind::last(serve_here, 3),
        ],
    ));
    let busy = Arc::new(AtomicU32::new(CPUS));
    let threads = (0..CPUS).map(|index| {
        let (machine, busy) = (machine.clone(), busy.clone());
        thread::spawn(move || {
            let platform = Cpu::new(index);
            let mut seed = 0x9e37_79b9_7f4a_7c15 + u64::from(index);
            let (mut taken, mut rung, mut coalesced) = (0, [0; CPUS as usize], [0; CPUS as usize]);
            for _ in 0..SENDS {
                let random = next(&mut seed);
                let to = (random % u64::from(CPUS)) as u32;
                if random & 0x700 == 0 && to != index {
                    let sum = machine.call(&platform, index, to, |w, c| w + c.index(), 7);
                    assert_eq!(sum, Ok(7 + to as usize));
                    rung[to as usize] += 1;
                } else {
                    let kind = (random >> 16) as u8 % KINDS;
                    ledger.sent[Ledger::at(to, kind)].fetch_add(1, Ordering::Relaxed);
                    match machine.send(index, to, kind).unwrap() {
                        Sent::Rung => rung[to as usize] += 1,
                        Sent::Coalesced => coalesced[to as usize] += 1,
                    }
                }
                if random & 0x3000 == 0 {
                    taken += machine.drain(index);
                }
            }
            busy.fetch_sub(1, Ordering::AcqRel);
            while busy.load(Ordering::Acquire) != 0 {
                taken += machine.drain(index);
                thread::yield_now();
            }
            (taken + machine.drain(index), rung, coalesced)
        })
    });
    let threads: Vec<_> = threads.collect();
    let (mut rung, mut coalesced) = ([0; CPUS as usize], [0; CPUS as usize]);
    let mut taken = Vec::new();
    for thread in threads {
        let (count, rang, did_not) = thread.join().unwrap();
        taken.push(count);
        for n in 0..CPUS as usize {
            rung[n] += rang[n];
            coalesced[n] += did_not[n];
        }
    }
    for (at, (sent, served)) in ledger.sent.iter().zip(&ledger.served).enumerate() {
        let (sent, served) = (sent.load(Ordering::Relaxed), served.load(Ordering::Relaxed));
        assert_eq!(sent, served, "cpu and kind {at}");
    }
    for index in 0..CPUS {
        let counts = machine.interrupts.ipi_counts(NodeId::new(index)).unwrap();
        assert_eq!(counts.coalesced, coalesced[index as usize]);
        assert_eq!(counts.rung, machine.bell.rings(index).into());
        // Beyond what was sent there are the rings of a CPU for what it put back.
        assert!(counts.rung >= rung[index as usize]);
        assert_eq!(counts.taken, taken[index as usize].into());
        assert!(counts.taken <= counts.rung);
        assert_eq!(counts.sent, counts.rung + counts.coalesced);
        assert!(!machine.bell.pending(index));
    }
}

#[test]
fn on_threads_what_a_cpu_that_comes_and_goes_accepted_has_run_and_calls_are_answered_or_refused() {
    const ROUNDS: u32 = 4_000;
    static SENT: AtomicU64 = AtomicU64::new(0);
    static SERVED: AtomicU64 = AtomicU64::new(0);
    fn serve(_: usize, _: &ActionContext<'_>) {
        SERVED.fetch_max(SENT.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let machine = Arc::new(Machine::new(3, 1, &[Kind::new(serve, 0)]));
    let busy = Arc::new(AtomicU32::new(2));
    let senders = [0, 1].map(|index| {
        let (machine, busy) = (machine.clone(), busy.clone());
        thread::spawn(move || {
            let platform = Cpu::new(index);
            let mut accepted = 0;
            // On a busy host all rounds may fall into one time that the CPU is away.
            for round in
                (0..).take_while(|&round| round < ROUNDS || SERVED.load(Ordering::Relaxed) == 0)
            {
                let sent = SENT.fetch_add(1, Ordering::Relaxed) + 1;
                match machine.send(index, 2, 0) {
                    Ok(_) => accepted = sent,
                    Err(error) => {
                        assert_eq!(error, Error::CpuOffline { cpu: cpu(2) });
                        thread::yield_now();
                    }
                }
                if round % 16 == 0 {
                    match machine.call(&platform, index, 2, |word, _| word + 1, 6) {
                        Ok(answer) => assert_eq!(answer, 7),
                        Err(error) => assert_eq!(error, Error::CpuOffline { cpu: cpu(2) }),
                    }
                }
            }
            busy.fetch_sub(1, Ordering::AcqRel);
            accepted
        })
    });
    let mut turns = 0;
    while busy.load(Ordering::Acquire) != 0 {
        machine.drain(2);
        machine.offline(2).unwrap();
        machine.drain(2);
        machine.online(2, 0).unwrap();
        turns += 1;
        thread::yield_now();
    }
    let results = senders.map(|sender| sender.join().unwrap());
    machine.drain(2);
    let served = SERVED.load(Ordering::Relaxed);
    assert_ne!(served, 0);
    for accepted in results {
        assert!(accepted <= served);
    }
    assert_ne!(turns, 0);
}
