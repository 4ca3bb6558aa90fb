// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ipistorm` with driver and irq-core together: what is counted where, and that nothing is
//! lost.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use irq_core::{ActionContext, IpiCounts, Kind, Sent};
use irq_tests::storm::{paced, storm, target};
use irq_tests::system::{Plan, System};

const CPUS: u32 = 352;
const NODES: u32 = 4;
const SENDS: u32 = 60;
const PACED: u32 = 20;

static RAN: AtomicU64 = AtomicU64::new(0);

fn ran(_: usize, _: &ActionContext<'_>) {
    RAN.fetch_add(1, Relaxed);
}

/// What each node's descriptor counted since `before`, which is now.
fn since(system: &System, before: &mut Vec<IpiCounts>) -> Vec<IpiCounts> {
    let nodes = before.len() as u32;
    let now: Vec<_> = (0..nodes).map(|node| system.counts(node)).collect();
    let less = |(now, before): (&IpiCounts, &IpiCounts)| IpiCounts {
        sent: now.sent - before.sent,
        rung: now.rung - before.rung,
        coalesced: now.coalesced - before.coalesced,
        taken: now.taken - before.taken,
    };
    let round = now.iter().zip(&*before).map(less).collect();
    *before = now;
    round
}

#[test]
fn a_storm_of_352_cpus_in_4_nodes_is_counted_on_the_targets_node_and_all_of_it_is_answered() {
    let kinds = [Kind::new(ran, 0)];
    let system = System::new(&Plan {
        kinds: &kinds,
        ..Plan::new(CPUS, NODES)
    });
    let per_node = u64::from(CPUS / NODES * SENDS);
    let mut before: Vec<_> = (0..NODES).map(|node| system.counts(node)).collect();
    for hops in [0, 1] {
        let done = storm(&system, NODES, hops, SENDS);
        assert!(done.coalesced > 0 && done.taken <= done.rung, "{done:?}");
        for counts in since(&system, &mut before) {
            assert_eq!(counts.sent, per_node, "{counts:?}");
            assert_eq!(counts.sent, counts.rung + counts.coalesced);
            assert!(counts.taken <= counts.rung, "{counts:?}");
        }
    }
    let done = paced(&system, NODES, PACED);
    let all = u64::from(CPUS * PACED);
    assert_eq!((done.rung, done.coalesced, done.taken), (all, 0, all));
    for counts in since(&system, &mut before) {
        let sends = u64::from(CPUS / NODES * PACED);
        assert_eq!(
            (counts.sent, counts.rung, counts.taken),
            (sends, sends, sends)
        );
    }
    // Nothing is left, and whatever was taken ran the kind.
    assert_eq!(system.settle(), 0);
    let taken: u64 = (0..NODES).map(|node| system.counts(node).taken).sum();
    assert_eq!(RAN.load(Relaxed), taken);
}

const THREADS: u32 = 8;

/// How often each CPU of the threads' storm ran its kind.
static RUNS: [AtomicU64; THREADS as usize] = [const { AtomicU64::new(0) }; THREADS as usize];

fn ran_on(_: usize, cx: &ActionContext<'_>) {
    RUNS[cx.cpu().index()].fetch_add(1, SeqCst);
}

#[test]
fn a_storm_of_real_threads_is_counted_exactly_and_all_of_it_is_answered() {
    const NODES: u32 = 2;
    const SENDS: u32 = 1000;
    const PACED: u32 = 100;
    let kinds = [Kind::new(ran_on, 0)];
    let system = System::new(&Plan {
        kinds: &kinds,
        ..Plan::new(THREADS, NODES)
    });
    let barrier = Barrier::new(THREADS as usize);
    let mut before: Vec<_> = (0..NODES).map(|node| system.counts(node)).collect();
    for hops in [0, 1] {
        let left = AtomicU64::new(THREADS.into());
        std::thread::scope(|scope| {
            for me in 0..THREADS {
                let (system, barrier, left) = (&system, &barrier, &left);
                scope.spawn(move || {
                    let to = target(me, THREADS, NODES, hops);
                    barrier.wait();
                    for _ in 0..SENDS {
                        system.send(me, to, 0).unwrap();
                        system.take(me);
                    }
                    left.fetch_sub(1, SeqCst);
                    // Whoever still sends is answered; the rest is taken below.
                    while left.load(SeqCst) != 0 {
                        system.take(me);
                        std::thread::yield_now();
                    }
                });
            }
        });
        system.settle();
        for counts in since(&system, &mut before) {
            assert_eq!(counts.sent, u64::from(THREADS / NODES * SENDS));
            assert_eq!(counts.sent, counts.rung + counts.coalesced);
            assert!(counts.taken <= counts.rung, "{counts:?}");
        }
    }
    // Paced: the next when the last was taken. Each CPU is one other's target.
    let left = AtomicU64::new(THREADS.into());
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            let (system, barrier, left) = (&system, &barrier, &left);
            scope.spawn(move || {
                let to = target(me, THREADS, NODES, 1);
                let runs = &RUNS[to as usize];
                barrier.wait();
                for _ in 0..PACED {
                    let before = runs.load(SeqCst);
                    assert_eq!(system.send(me, to, 0), Ok(Sent::Rung));
                    while runs.load(SeqCst) == before {
                        system.take(me);
                        std::thread::yield_now();
                    }
                }
                left.fetch_sub(1, SeqCst);
                while left.load(SeqCst) != 0 {
                    system.take(me);
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(system.settle(), 0, "the last was taken");
    for counts in since(&system, &mut before) {
        let sends = u64::from(THREADS / NODES * PACED);
        assert_eq!(
            (counts.sent, counts.rung, counts.taken),
            (sends, sends, sends)
        );
    }
    let taken: u64 = (0..NODES).map(|node| system.counts(node).taken).sum();
    assert_eq!(
        RUNS.iter().map(|runs| runs.load(SeqCst)).sum::<u64>(),
        taken
    );
}
