// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random interleavings of moves, clean-ups, CPUs that go and come, starts, stops and removals
//! with sources that fire: no event is lost, none is handled twice.
//!
//! shuttle's threads give way to each other at each call of the driver's side and around each
//! lock. The schedules follow from a seed: `SEED` and `RUNS` in the environment look at others.
#![cfg(not(any(loom, irq_trace)))]

mod hotplug_common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hotplug_common::platform::Player;
use hotplug_common::{Sim, Slot, mask};
use irq_core::cpu::{CpuIndex, OnCpu};
use irq_core::hotplug::{Affinity, Hotplug, Leaves, NewIrq, Removal};
use irq_core::placement::Class;
use irq_core::{Irq, IrqRange};
use irq_hal::{Error, ErrorKind, Platform};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

const CPUS: u32 = 3;
const IRQS: u32 = 5;
const FIRST: u32 = 40;
/// Of the numbers; the others are regular.
const MANAGED: u32 = 2;

/// What happened in all runs: a test that reaches nothing shows nothing.
#[derive(Default)]
struct Seen {
    offline: AtomicU32,
    refused: AtomicU32,
    moved: AtomicU32,
    shut: AtomicU32,
    broken: AtomicU32,
    replayed: AtomicU32,
    restarted: AtomicU32,
    removed: AtomicU32,
    draining: AtomicU32,
    busy: AtomicU32,
    left: AtomicU32,
}

struct World {
    sim: Sim,
    hotplug: Hotplug<Slot>,
    seen: Arc<Seen>,
    kind: Kind,
}

fn player(cpu: u32) -> Player {
    let mut player = Player::yielding(cpu, thread::yield_now);
    // Patience for some thousand polls.
    player.tick = 200;
    player
}

fn on(cpu: u32) -> OnCpu {
    // SAFETY: each thread of a run plays a CPU of its own.
    unsafe { OnCpu::new(CpuIndex::new(cpu)) }
}

fn random_mask() -> Affinity {
    let bits = thread_rng().gen_range(1..1 << CPUS);
    let cpus: Vec<u32> = (0..CPUS).filter(|cpu| bits >> cpu & 1 != 0).collect();
    mask(&cpus)
}

fn new_irq(irq: u32) -> NewIrq {
    match irq - FIRST < MANAGED {
        true => NewIrq::managed(random_mask()),
        false => NewIrq {
            affinity: random_mask(),
            reserves: irq.is_multiple_of(2),
            ..NewIrq::regular()
        },
    }
}

/// Refusals that come of what others do at the same time.
fn allowed(error: Error) {
    let kinds = [
        ErrorKind::Busy,
        ErrorKind::Exists,
        ErrorKind::Full,
        ErrorKind::Hardware,
        ErrorKind::NotFound,
        ErrorKind::Offline,
        ErrorKind::Timeout,
        ErrorKind::Unsupported,
    ];
    assert!(kinds.contains(&error.kind()), "{error}");
}

impl World {
    fn cpu(&self, cpu: u32, steps: u32) {
        let platform = player(cpu);
        let changes = self.hotplug.changes(&platform, &self.sim);
        for _ in 0..steps {
            match thread_rng().gen_range(0..8) {
                0 | 1 => _ = self.sim.dispatch(&self.hotplug, &platform, &on(cpu)),
                2 => {
                    let left = changes.clean(&on(cpu));
                    self.seen.left.fetch_add(left, Relaxed);
                }
                3 => match changes.offline(&on(cpu)) {
                    Ok(offline) => {
                        self.seen.offline.fetch_add(1, Relaxed);
                        self.seen.moved.fetch_add(offline.moved, Relaxed);
                        self.seen.shut.fetch_add(offline.shut, Relaxed);
                        self.seen.broken.fetch_add(offline.broken, Relaxed);
                        self.seen.replayed.fetch_add(offline.replayed, Relaxed);
                        self.sim.down(cpu);
                        (0..thread_rng().gen_range(0..40)).for_each(|_| thread::yield_now());
                        self.sim.up(cpu);
                        let online = changes.online(CpuIndex::new(cpu)).unwrap();
                        if let Some((_, error)) = online.failed {
                            assert!(self.kind.fails, "{error}");
                        }
                        self.seen.restarted.fetch_add(online.restarted, Relaxed);
                    }
                    Err(error) => {
                        allowed(error);
                        self.seen.refused.fetch_add(1, Relaxed);
                    }
                },
                _ => thread::yield_now(),
            }
        }
    }

    fn driver(&self, cpu: u32, steps: u32) {
        let platform = player(cpu);
        let changes = self.hotplug.changes(&platform, &self.sim);
        for _ in 0..steps {
            let number = thread_rng().gen_range(FIRST..FIRST + IRQS);
            let irq = Irq::new(number);
            let result = match thread_rng().gen_range(0..7) {
                0 | 1 => changes.set_affinity(irq, &mut random_mask()).map(drop),
                2 => changes.stop(irq),
                3 | 4 => changes.start(irq).map(drop),
                5 => self.replace(&platform, number),
                _ => {
                    self.sim.mask(number, thread_rng().gen_bool(0.5));
                    Ok(())
                }
            };
            if let Err(error) = result {
                allowed(error);
                let busy = u32::from(error.kind() == ErrorKind::Busy);
                self.seen.busy.fetch_add(busy, Relaxed);
            }
        }
    }

    /// Adds an interrupt, whose source does not exist yet.
    fn add(&self, platform: &Player, number: u32) -> Result<(), Error> {
        let changes = self.hotplug.changes(platform, &self.sim);
        let new = new_irq(number);
        if self.kind.matrix && new.class == Class::Managed {
            self.sim.matrix().reserve_managed(&new.affinity)?;
        }
        self.sim.source(number, number.is_multiple_of(3));
        let added = changes.add(Irq::new(number), new);
        if added.is_err() {
            // Only regular ones reserve one by one, and that is what may fail.
            assert!(number - FIRST >= MANAGED);
            self.sim.forget(number);
        }
        added
    }

    /// Removes an interrupt. Says whether that is done.
    fn remove(&self, platform: &Player, number: u32) -> Result<bool, Error> {
        let changes = self.hotplug.changes(platform, &self.sim);
        let Removal::Done(affinity) = changes.remove(Irq::new(number))? else {
            self.seen.draining.fetch_add(1, Relaxed);
            return Ok(false);
        };
        self.seen.removed.fetch_add(1, Relaxed);
        self.sim.forget(number);
        if self.kind.matrix && number - FIRST < MANAGED {
            // A place that is taken where a CPU opens again, beside one that was left there, uses
            // the reservation of another until it is given back.
            while self.sim.matrix().remove_managed(&affinity).is_err() {
                platform.relax();
            }
        }
        Ok(true)
    }

    /// Removes an interrupt; if that is done at once, adds it anew.
    fn replace(&self, platform: &Player, number: u32) -> Result<(), Error> {
        if self.remove(platform, number)? {
            self.add(platform, number)?;
            let changes = self.hotplug.changes(platform, &self.sim);
            changes.start(Irq::new(number))?;
        }
        Ok(())
    }

    fn device(&self, steps: u32) {
        for _ in 0..steps {
            let irq = thread_rng().gen_range(FIRST..FIRST + IRQS);
            match thread_rng().gen_range(0..3) {
                0 => self.sim.fire(irq),
                1 => _ = self.sim.deliver(irq),
                _ => {}
            }
            thread::yield_now();
        }
    }

    /// All CPUs and interrupts run, until nothing happens any more.
    fn settle(&self) {
        let platform = player(0);
        let changes = self.hotplug.changes(&platform, &self.sim);
        let quiet = || {
            for _ in 0..4 {
                self.sim.deliver_all();
                for cpu in 0..CPUS {
                    while self
                        .sim
                        .dispatch(&self.hotplug, &platform, &on(cpu))
                        .is_some()
                    {}
                    changes.clean(&on(cpu));
                }
            }
        };
        quiet();
        let mut present = Vec::new();
        for irq in FIRST..FIRST + IRQS {
            self.sim.mask(irq, false);
            let number = Irq::new(irq);
            // Who waited for a CPU was started by it, unless the controller refused.
            let status = self.hotplug.status(&platform, number);
            assert!(self.kind.fails || !status.is_ok_and(|status| status.shut));
            if self.hotplug.status(&platform, number).is_err() {
                // It was being removed, or found no room.
                let removed = self.remove(&platform, irq);
                assert!(removed.is_ok_and(|done| done) || !self.sim.is_known(irq));
                if let Err(error) = self.add(&platform, irq) {
                    assert_eq!((error.kind(), self.kind.vectors), (ErrorKind::Full, 4));
                    continue;
                }
            }
            present.push(irq);
            let started = changes.start(number);
            let kind = started.map_err(|error| error.kind());
            assert!(matches!(kind, Ok(_) | Err(ErrorKind::Exists)), "{kind:?}");
        }
        quiet();
        // An arrival at each new place, so that no move waits for one.
        for _ in 0..2 {
            present.iter().for_each(|irq| self.sim.fire(*irq));
            quiet();
        }
        assert_eq!(self.sim.missing(), []);
        assert!(self.sim.is_idle());
        for irq in &present {
            let status = self.hotplug.status(&platform, Irq::new(*irq)).unwrap();
            assert!(status.place.is_some(), "{status:?}");
            assert_eq!((status.waiting, status.due), (0, 0), "irq{irq}: {status:?}");
        }
        assert_eq!(self.sim.places(), present.len());
        assert_eq!(self.sim.reservations(), 0);
        if self.kind.matrix {
            for irq in present {
                assert_eq!(self.remove(&platform, irq), Ok(false));
                quiet();
                assert_eq!(self.remove(&platform, irq), Ok(true));
            }
            for cpu in 0..CPUS {
                let counts = self.sim.matrix().counts(cpu);
                let free = (counts.available, counts.managed, counts.allocated);
                assert_eq!(free, (self.kind.vectors, 0, 0));
            }
        }
    }
}

/// What differs between the tests.
#[derive(Clone, Copy)]
struct Kind {
    leaves: Leaves,
    /// Of each CPU.
    vectors: u32,
    /// Places are the matrix's.
    matrix: bool,
    /// Calls of the driver's side fail now and then.
    fails: bool,
}

impl Kind {
    const fn new(leaves: Leaves) -> Self {
        Self {
            leaves,
            vectors: 8,
            matrix: false,
            fails: false,
        }
    }
}

fn run(kind: Kind, seen: &Arc<Seen>) {
    let Kind {
        leaves, vectors, ..
    } = kind;
    let mut sim = match kind.matrix {
        true => Sim::with_matrix(CPUS, vectors, leaves),
        false => Sim::new(CPUS, vectors, leaves),
    };
    sim.yields = thread::yield_now;
    sim.seed(thread_rng().gen_range(1..u64::MAX));
    let irqs = IrqRange::new(Irq::new(FIRST), IRQS).unwrap();
    let world = Arc::new(World {
        sim,
        hotplug: Hotplug::new(CPUS, irqs).unwrap(),
        seen: seen.clone(),
        kind,
    });
    let platform = player(0);
    for cpu in 0..CPUS {
        world.sim.up(cpu);
        let changes = world.hotplug.changes(&platform, &world.sim);
        changes.online(CpuIndex::new(cpu)).unwrap();
    }
    for irq in irqs.iter() {
        world.add(&platform, irq.get()).unwrap();
        let changes = world.hotplug.changes(&platform, &world.sim);
        changes.start(irq).unwrap();
    }
    if kind.fails {
        *world.sim.fails.lock().unwrap() = Some(|call| {
            use hotplug_common::Call::{Close, Hold, Point, Reserve, Settle};
            let may = matches!(
                call,
                Close(_) | Hold(_) | Point(..) | Reserve(_) | Settle(_)
            );
            may && thread_rng().gen_bool(0.1)
        });
    }
    let cpus = (0..CPUS).map(|cpu| {
        let world = world.clone();
        thread::spawn(move || world.cpu(cpu, 60))
    });
    let drivers = (0..2).map(|cpu| {
        let world = world.clone();
        thread::spawn(move || world.driver(CPUS + cpu, 20))
    });
    let device = {
        let world = world.clone();
        thread::spawn(move || world.device(150))
    };
    let threads: Vec<_> = cpus.chain(drivers).chain([device]).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    *world.sim.fails.lock().unwrap() = None;
    world.settle();
}

/// A number in the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(otherwise, |number| number.parse().unwrap())
}

/// Returns how often each thing happened, all of which must have.
fn check(kind: Kind) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let all = seen.clone();
    let runs = number("RUNS", 100);
    shuttle::check_random_with_seed(move || run(kind, &all), number("SEED", 1), runs as usize);
    let all = [
        &seen.offline,
        &seen.refused,
        &seen.moved,
        &seen.shut,
        &seen.replayed,
        &seen.restarted,
        &seen.removed,
        &seen.draining,
        &seen.busy,
        &seen.left,
    ];
    let counts = all.map(|count| count.load(Relaxed));
    assert!(
        counts.iter().all(|count| u64::from(*count) > runs / 4),
        "{counts:?}"
    );
    seen
}

#[test]
fn nothing_is_lost_or_doubled_where_old_places_drain() {
    check(Kind::new(Leaves::Drains));
}

#[test]
fn nothing_is_lost_or_doubled_where_messages_come_late() {
    check(Kind::new(Leaves::Late));
}

#[test]
fn nothing_is_lost_or_doubled_where_what_is_pending_moves_along() {
    check(Kind::new(Leaves::Nothing));
}

#[test]
fn nothing_is_lost_or_doubled_where_there_is_little_room() {
    let seen = check(Kind {
        vectors: 4,
        matrix: true,
        ..Kind::new(Leaves::Late)
    });
    assert_ne!(seen.broken.load(Relaxed), 0);
}

#[test]
fn nothing_is_lost_or_doubled_when_the_controller_refuses() {
    for leaves in [Leaves::Late, Leaves::Drains] {
        check(Kind {
            fails: true,
            ..Kind::new(leaves)
        });
    }
}

#[test]
fn nothing_is_lost_or_doubled_and_no_account_drifts_with_the_vector_matrix() {
    for leaves in [Leaves::Late, Leaves::Drains] {
        check(Kind {
            matrix: true,
            ..Kind::new(leaves)
        });
    }
}
