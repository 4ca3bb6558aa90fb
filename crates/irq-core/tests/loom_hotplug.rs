// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of calls that meet: every interleaving of their steps, with up to three switches that
//! nothing forces. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_hotplug`.
//!
//! All that several CPUs write is under one lock, or a hint of which nothing depends on being
//! seen: what is tried here is the order of the steps between which the lock is free.
#![cfg(loom)]

mod hotplug_common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use hotplug_common::mask;
use hotplug_common::platform::Player;
use hotplug_common::rig::{FIRST, Rig, cpu, on};
use irq_core::Irq;
use irq_core::hotplug::{Leaves, NewIrq, Removal, Served};
use irq_hal::ErrorKind;
use loom::thread;

const IRQ: u32 = FIRST;

fn regular(cpus: &[u32]) -> NewIrq {
    NewIrq {
        affinity: mask(cpus),
        ..NewIrq::regular()
    }
}

/// Runs `f` in each interleaving; some run must come to `each` of the outcomes that it returns.
fn model<const N: usize>(f: impl Fn() -> usize + Send + Sync + 'static) {
    let seen: Arc<[AtomicBool; N]> = Arc::new([const { AtomicBool::new(false) }; N]);
    let all = seen.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || all[f()].store(true, SeqCst));
    let missed = seen.iter().position(|outcome| !outcome.load(SeqCst));
    assert_eq!(missed, None, "an outcome that no interleaving came to");
}

/// A machine with one interrupt on CPU 0, of which an event is pending there.
fn pending(cpus: u32, leaves: Leaves, new: NewIrq) -> Arc<Rig> {
    let rig = Rig::new(cpus, 4, leaves);
    rig.start(IRQ, new);
    assert_eq!(rig.served_by(IRQ), Some(0));
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    rig
}

#[test]
fn an_event_of_an_interrupt_that_moves_off_a_cpu_that_goes_is_handled_once() {
    for leaves in [Leaves::Drains, Leaves::Late, Leaves::Nothing] {
        model::<2>(move || {
            let rig = pending(2, leaves, regular(&[0]));
            let other = thread::spawn({
                let rig = rig.clone();
                move || {
                    let platform = Player::new(1);
                    let changes = rig.hotplug.changes(&platform, &rig.sim);
                    let moved = changes.set_affinity(Irq::new(IRQ), &mut mask(&[1]));
                    match moved.map_err(|error| error.kind()) {
                        Ok(Served::By(_)) => 0,
                        Ok(Served::Kept(_)) | Err(ErrorKind::Busy) => 1,
                        other => panic!("{other:?}"),
                    }
                }
            });
            rig.offline(0).unwrap();
            let outcome = other.join().unwrap();
            assert_eq!((rig.served_by(IRQ), rig.sim.places()), (Some(1), 1));
            assert!(rig.dispatch(1).is_some());
            rig.quiet();
            outcome
        });
    }
}

#[test]
fn a_managed_interrupt_is_served_when_a_cpu_comes_while_its_last_one_goes() {
    model::<2>(|| {
        let rig = Rig::new(2, 4, Leaves::Drains);
        rig.start(IRQ, NewIrq::managed(mask(&[0, 1])));
        rig.offline(1).unwrap();
        rig.sim.fire(IRQ);
        rig.sim.deliver_all();
        rig.sim.up(1);
        let other = thread::spawn({
            let rig = rig.clone();
            move || {
                let platform = Player::new(1);
                let changes = rig.hotplug.changes(&platform, &rig.sim);
                let online = changes.online(cpu(1)).unwrap();
                assert_eq!(online.failed, None);
                online.restarted
            }
        });
        let offline = rig.offline(0).unwrap();
        let restarted = other.join().unwrap();
        assert_eq!((offline.shut, offline.moved), (restarted, 1 - restarted));
        assert_eq!((rig.served_by(IRQ), rig.sim.is_held(IRQ)), (Some(1), false));
        rig.quiet();
        restarted as usize
    });
}

#[test]
fn a_start_that_finds_no_cpu_is_made_good_by_the_cpu_that_comes() {
    model::<2>(|| {
        let rig = Rig::new(2, 4, Leaves::Drains);
        rig.offline(1).unwrap();
        rig.add(IRQ, NewIrq::managed(mask(&[1]))).unwrap();
        rig.sim.up(1);
        let other = thread::spawn({
            let rig = rig.clone();
            move || {
                let platform = Player::new(1);
                let changes = rig.hotplug.changes(&platform, &rig.sim);
                let online = changes.online(cpu(1)).unwrap();
                assert_eq!(online.failed, None);
                online.restarted
            }
        });
        let started = rig.changes().start(Irq::new(IRQ)).unwrap();
        let restarted = other.join().unwrap();
        assert_eq!(started == Served::Later, restarted == 1);
        assert_eq!(rig.served_by(IRQ), Some(1));
        restarted as usize
    });
}

#[test]
fn an_arrival_and_the_old_cpu_that_goes_give_its_place_back_once() {
    model::<2>(|| {
        let rig = Rig::new(3, 4, Leaves::Late);
        rig.start(IRQ, regular(&[0]));
        rig.set(IRQ, mask(&[1])).unwrap();
        rig.sim.fire(IRQ);
        rig.sim.deliver_all();
        rig.calls();
        let other = thread::spawn({
            let rig = rig.clone();
            move || {
                let platform = Player::new(1);
                rig.sim.dispatch(&rig.hotplug, &platform, &on(1));
            }
        });
        let offline = rig.offline(0).unwrap();
        other.join().unwrap();
        assert_eq!((offline.places, rig.sim.places()), (1, 1));
        assert_eq!(rig.old(0), [0, 0]);
        let woken = rig.calls().contains(&hotplug_common::Call::Wake(0));
        assert!(matches!(rig.set(IRQ, mask(&[2])), Ok(Served::By(_))));
        usize::from(woken)
    });
}

#[test]
fn a_removal_and_a_clean_up_give_each_place_back_once() {
    model::<2>(|| {
        let rig = Rig::new(2, 4, Leaves::Drains);
        rig.start(IRQ, regular(&[0]));
        rig.set(IRQ, mask(&[1])).unwrap();
        let other = thread::spawn({
            let rig = rig.clone();
            move || {
                let platform = Player::new(1);
                let changes = rig.hotplug.changes(&platform, &rig.sim);
                changes.stop(Irq::new(IRQ)).unwrap();
                changes.clean(&on(1));
                matches!(changes.remove(Irq::new(IRQ)), Ok(Removal::Done(_)))
            }
        });
        rig.clean(0);
        let done = other.join().unwrap();
        assert_eq!(rig.sim.places(), 0);
        if !done {
            assert!(matches!(rig.remove(IRQ), Ok(Removal::Done(_))));
        }
        usize::from(done)
    });
}

#[test]
fn two_cpus_that_go_at_once_leave_the_interrupts_to_the_third() {
    model::<1>(|| {
        let rig = pending(3, Leaves::Drains, regular(&[0, 1]));
        rig.start(IRQ + 1, NewIrq::managed(mask(&[0, 1])));
        let other = thread::spawn({
            let rig = rig.clone();
            move || {
                let platform = Player::new(1);
                let changes = rig.hotplug.changes(&platform, &rig.sim);
                changes.offline(&on(1)).unwrap();
            }
        });
        rig.offline(0).unwrap();
        other.join().unwrap();
        rig.sim.down(1);
        assert_eq!(rig.served_by(IRQ), Some(2));
        assert!(rig.status(IRQ + 1).shut);
        rig.quiet();
        assert_eq!(rig.online(1).unwrap().restarted, 1);
        0
    });
}

/// The next move is refused.
static REFUSE: AtomicBool = AtomicBool::new(false);

#[test]
fn a_start_of_a_shut_interrupt_that_fails_does_not_hide_it_from_a_cpu_that_comes() {
    model::<2>(|| {
        let rig = Rig::new(2, 4, Leaves::Drains);
        rig.start(IRQ, NewIrq::managed(mask(&[1])));
        rig.offline(1).unwrap();
        rig.sim.up(1);
        REFUSE.store(true, SeqCst);
        let refuse: hotplug_common::Fails =
            |call| matches!(call, hotplug_common::Call::Point(..)) && REFUSE.swap(false, SeqCst);
        *rig.sim.fails.lock().unwrap() = Some(refuse);
        let other = thread::spawn({
            let rig = rig.clone();
            move || {
                let platform = Player::new(1);
                let changes = rig.hotplug.changes(&platform, &rig.sim);
                changes.online(cpu(1)).unwrap()
            }
        });
        let started = rig.changes().start(Irq::new(IRQ)).map_err(|e| e.kind());
        let online = other.join().unwrap();
        if started == Err(ErrorKind::Hardware) {
            assert_eq!((online.restarted, rig.served_by(IRQ)), (1, Some(1)));
        }
        usize::from(started == Err(ErrorKind::Hardware))
    });
}
