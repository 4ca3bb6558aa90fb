// SPDX-License-Identifier: MIT OR Apache-2.0
//! Old places: when they are given back, and what kernels got wrong there.
#![cfg(not(loom))]

mod hotplug_common;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use hotplug_common::platform::Player;
use hotplug_common::rig::{FIRST, Rig, cpu, kind, on};
use hotplug_common::{Call, mask};
use irq_core::Irq;
use irq_core::hotplug::{Leaves, NewIrq, Removal, Served};
use irq_hal::ErrorKind;

const IRQ: u32 = FIRST + 7;

fn regular(cpus: &[u32]) -> NewIrq {
    NewIrq {
        affinity: mask(cpus),
        ..NewIrq::regular()
    }
}

/// An interrupt that has moved from CPU 0 to CPU 1, and of which no message has arrived there.
fn moving(cpus: u32) -> Arc<Rig> {
    let rig = Rig::new(cpus, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.set(IRQ, mask(&[1])).unwrap();
    assert_eq!(rig.old(0), [1, 0]);
    rig.calls();
    rig
}

#[test]
fn a_place_is_given_back_where_it_is_as_soon_as_nothing_can_come_to_it() {
    // Nothing was left: at once. Remapped: the old CPU looks. Else the first arrival tells.
    for (leaves, old) in [
        (Leaves::Nothing, [0, 0]),
        (Leaves::Drains, [0, 1]),
        (Leaves::Late, [1, 0]),
    ] {
        let rig = Rig::new(2, 8, leaves);
        rig.start(IRQ, regular(&[0]));
        rig.set(IRQ, mask(&[1])).unwrap();
        assert_eq!(rig.old(0), old);
        assert_eq!(rig.calls().contains(&Call::Wake(0)), old[1] == 1);
        rig.sim.fire(IRQ);
        rig.sim.deliver_all();
        assert_eq!(rig.dispatch(1), Some(IRQ));
        assert_eq!(rig.old(0)[0], 0);
        assert_eq!(rig.calls().contains(&Call::Wake(0)), old[0] == 1);
        assert_eq!((rig.clean(0), rig.sim.places()), (0, 1));
    }
}

#[test]
fn a_message_that_comes_late_is_taken_at_the_old_place() {
    let rig = Rig::new(2, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.sim.fire(IRQ);
    rig.set(IRQ, mask(&[1])).unwrap();
    rig.sim.fire(IRQ);
    // Under way to CPU 0: nobody may clean.
    assert_eq!((rig.clean(0), rig.old(0)), (0, [1, 0]));
    rig.sim.deliver_all();
    assert_eq!(rig.dispatch(1), Some(IRQ));
    // All have arrived, and one is pending.
    assert_eq!((rig.clean(0), rig.old(0)), (1, [0, 1]));
    assert_eq!(rig.dispatch(0), Some(IRQ));
    assert_eq!((rig.clean(0), rig.old(0)), (0, [0, 0]));
    assert_eq!(rig.sim.missing(), []);
}

/// Fix A8: the old vector was not freed when the old CPU went before an interrupt came.
#[test]
fn a8_a_place_on_a_cpu_that_goes_is_given_back_though_nothing_came_to_the_new_one() {
    let rig = moving(3);
    let offline = rig.offline(0).unwrap();
    assert_eq!((offline.places, offline.moved), (1, 0));
    assert_eq!((rig.status(IRQ).waiting, rig.sim.places()), (0, 1));
    // The move is over: the next one is not refused.
    assert_eq!(rig.set(IRQ, mask(&[2])), Ok(Served::By(cpu(2))));
}

#[test]
fn a8_a_move_whose_new_cpu_goes_keeps_the_first_place_until_messages_have_left_it() {
    let rig = Rig::new(3, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.sim.fire(IRQ);
    rig.set(IRQ, mask(&[1])).unwrap();
    rig.start(IRQ + 1, regular(&[0]));
    rig.set(IRQ + 1, mask(&[1])).unwrap();
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.moved, offline.broken, offline.places), (2, 2, 2));
    assert_eq!(rig.sim.missing(), [0]);
    rig.quiet();
}

/// Fix A9: a second move while the first was not over overwrote what it remembered.
#[test]
fn a9_a_move_while_one_is_pending_is_busy_and_forgets_no_place() {
    let rig = moving(3);
    for old in [[1, 0], [0, 1]] {
        assert_eq!(rig.old(0), old);
        let mut affinity = mask(&[2]);
        let busy = rig.changes().set_affinity(Irq::new(IRQ), &mut affinity);
        assert_eq!(kind(busy), Err(ErrorKind::Busy));
        assert_eq!(affinity, mask(&[2]));
        assert_eq!((rig.served_by(IRQ), rig.sim.places()), (Some(1), 2));
        // Pending at the new place and due at the old one.
        rig.sim.fire(IRQ);
        rig.sim.deliver_all();
        rig.dispatch(1);
    }
    rig.clean(0);
    assert_eq!(rig.set(IRQ, mask(&[2])), Ok(Served::By(cpu(2))));
    assert_eq!((rig.old(0), rig.old(1)), ([0, 0], [1, 0]));
}

#[test]
fn a9_managed_interrupts_forget_no_place_either() {
    let rig = Rig::new(4, 8, Leaves::Late);
    rig.start(IRQ, NewIrq::managed(mask(&[0, 1, 2])));
    // Two quick moves: the CPU goes, and the next one.
    rig.offline(0).unwrap();
    rig.offline(1).unwrap();
    assert_eq!((rig.served_by(IRQ), rig.sim.places()), (Some(2), 1));
    rig.quiet();
}

/// Fix A10: a vector was compared that the entry had overwritten, and the move never ended.
#[test]
fn a10_an_arrival_is_told_by_its_cpu_alone() {
    let rig = moving(3);
    let changes = rig.changes();
    // On a CPU that it has nothing to do with, and where it was.
    changes.arrived(&on(2), Irq::new(IRQ));
    changes.arrived(&on(0), Irq::new(IRQ));
    // Another one, and numbers that cannot be.
    rig.start(IRQ + 1, regular(&[1]));
    changes.arrived(&on(1), Irq::new(IRQ + 1));
    changes.arrived(&on(1), Irq::new(0));
    changes.arrived(&on(1), Irq::new(u32::MAX));
    assert_eq!(rig.old(0), [1, 0]);
    changes.arrived(&on(1), Irq::new(IRQ));
    assert_eq!(rig.old(0), [0, 1]);
    // Each later one is nothing new.
    rig.calls();
    changes.arrived(&on(1), Irq::new(IRQ));
    assert_eq!((rig.old(0), rig.calls()), ([0, 1], vec![]));
}

/// Fix A11: the clean-up was asked of a CPU that was offline, and the move never ended.
#[test]
fn a11_an_arrival_after_the_old_cpu_went_asks_nobody_to_clean() {
    let rig = moving(3);
    rig.offline(0).unwrap();
    rig.calls();
    rig.sim.fire(IRQ);
    rig.quiet();
    assert_eq!(rig.calls(), []);
    assert_eq!(rig.set(IRQ, mask(&[2])), Ok(Served::By(cpu(2))));
    assert_eq!(rig.online(0).unwrap().restarted, 0);
    assert_eq!((rig.old(0), rig.old(1)), ([0, 0], [1, 0]));
}

/// Fix A13: the clean-up that found the old vector pending asked for itself again at once, and
/// never let it be taken.
#[test]
fn a13_a_place_that_stays_pending_is_looked_at_once_a_tick_and_holds_nothing_up() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    for irq in [IRQ, IRQ + 1, IRQ + 2] {
        rig.start(irq, regular(&[0]));
    }
    rig.sim.fire(IRQ);
    rig.sim.fire(IRQ + 1);
    rig.sim.deliver_all();
    for irq in [IRQ, IRQ + 1, IRQ + 2] {
        rig.set(irq, mask(&[1])).unwrap();
    }
    rig.calls();
    for _ in 0..3 {
        // The third one does not wait for the others.
        assert_eq!((rig.clean(0), rig.old(0)), (2, [0, 2]));
        let looks = |call: &Call| matches!(call, Call::Pending(_));
        let looked = rig.calls().into_iter().filter(looks).count();
        assert!(looked <= 3, "{looked}");
    }
    assert_eq!(rig.dispatch(0), Some(IRQ));
    assert_eq!(rig.clean(0), 1);
    assert_eq!(rig.dispatch(0), Some(IRQ + 1));
    assert_eq!((rig.clean(0), rig.sim.places()), (0, 3));
    rig.calls();
    assert_eq!((rig.clean(0), rig.calls()), (0, vec![]));
}

std::thread_local! {
    /// What another CPU does before this one gets the lock.
    static BEFORE_LOCK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

fn others() {
    if let Some(other) = BEFORE_LOCK.take() {
        other();
    }
}

/// Fix A16: what was read without the lock was acted upon under it.
#[test]
fn a16_an_arrival_that_was_overtaken_changes_nothing() {
    let rig = Rig::on(Player::yielding(0, others), 3, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.set(IRQ, mask(&[1])).unwrap();
    let same: Weak<Rig> = Arc::downgrade(&rig);
    BEFORE_LOCK.set(Some(Box::new(move || {
        // This move ends, and another begins from the CPU of the arrival.
        let rig = same.upgrade().unwrap();
        rig.sim.fire(IRQ);
        rig.sim.deliver_all();
        rig.dispatch(1);
        rig.clean(0);
        rig.sim.fire(IRQ);
        rig.set(IRQ, mask(&[2])).unwrap();
    })));
    rig.changes().arrived(&on(1), Irq::new(IRQ));
    assert_eq!(rig.old(1), [1, 0]);
    rig.quiet();
}

/// Fix A16, of the clean-up: the interrupt is removed, and its number used again, in between.
#[test]
fn a16_a_clean_up_gives_back_what_it_looked_at_and_nothing_that_came_later() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[0]));
    rig.set(IRQ, mask(&[1])).unwrap();
    let same = Arc::downgrade(&rig);
    let mut done = false;
    rig.sim.set_hook(move |_, call| {
        if call != Call::Pending(IRQ) || std::mem::replace(&mut done, true) {
            return;
        }
        let rig = same.upgrade().unwrap();
        assert_eq!(rig.remove(IRQ).unwrap(), Removal::Draining);
        rig.clean(1);
        // What the clean-up holds in hand keeps the number.
        assert_eq!(rig.remove(IRQ).unwrap(), Removal::Draining);
    });
    assert_eq!((rig.clean(0), rig.sim.places()), (0, 0));
    assert!(matches!(rig.remove(IRQ), Ok(Removal::Done(_))));
}

#[test]
fn a_message_that_arrives_before_the_move_is_noted_counts() {
    let rig = Rig::new(2, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    let same = Arc::downgrade(&rig);
    rig.sim.set_hook(move |sim, call| {
        if call == Call::Pointed(IRQ, 1) {
            let rig = same.upgrade().unwrap();
            sim.fire(IRQ);
            sim.deliver_all();
            assert_eq!(rig.dispatch(1), Some(IRQ));
        }
    });
    rig.set(IRQ, mask(&[1])).unwrap();
    assert_eq!(rig.old(0), [0, 1]);
    assert!(rig.calls().contains(&Call::Wake(0)));
}

#[test]
fn a_message_to_the_cpu_that_is_left_does_not_stand_for_one_to_the_new() {
    let rig = Rig::new(3, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    let same = Arc::downgrade(&rig);
    rig.sim.set_hook(move |sim, call| {
        if call == Call::Point(IRQ, 1) {
            let rig = same.upgrade().unwrap();
            sim.fire(IRQ);
            sim.fire(IRQ);
            sim.deliver(IRQ);
            assert_eq!(rig.dispatch(0), Some(IRQ));
        }
    });
    rig.set(IRQ, mask(&[1])).unwrap();
    assert_eq!(rig.old(0), [1, 0]);
    rig.quiet();
}

#[test]
fn a_replay_does_not_stand_for_a_message() {
    let rig = Rig::new(3, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.start(IRQ + 1, regular(&[0]));
    rig.set(IRQ + 1, mask(&[1])).unwrap();
    rig.set(IRQ, mask(&[1])).unwrap();
    // An event is pending on CPU 1, and nobody has seen it arrive when the CPU goes.
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    rig.set(IRQ, mask(&[1, 2])).unwrap();
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.replayed, rig.served_by(IRQ)), (1, Some(2)));
    assert_eq!(rig.dispatch(2), Some(IRQ));
    // That was no message of the device.
    assert_eq!(rig.status(IRQ).waiting, 1);
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    assert_eq!(rig.dispatch(2), Some(IRQ));
    assert_eq!((rig.status(IRQ).waiting, rig.status(IRQ).due), (0, 1));
    rig.quiet();
}

#[test]
fn an_interrupt_that_comes_back_to_a_cpu_with_an_old_place_of_it_is_held_meanwhile() {
    let rig = Rig::new(2, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.sim.fire(IRQ);
    rig.set(IRQ, mask(&[1])).unwrap();
    rig.calls();
    rig.offline(1).unwrap();
    let calls = rig.calls();
    let at = |call| calls.iter().position(|made| *made == call).unwrap();
    let order = [Call::Hold(IRQ), Call::Point(IRQ, 0), Call::Release(IRQ)].map(at);
    assert!(order.is_sorted(), "{calls:?}");
    // The old place beside the new one waits for nothing but to be taken.
    assert_eq!(rig.old(0), [0, 1]);
    assert_eq!((rig.dispatch(0), rig.clean(0)), (Some(IRQ), 0));
    rig.sim.fire(IRQ);
    rig.quiet();
}

#[test]
fn an_old_place_that_is_due_beside_the_new_one_says_nothing_of_messages_either() {
    let rig = Rig::new(3, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    rig.set(IRQ, mask(&[1])).unwrap();
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    rig.dispatch(1);
    // Due at CPU 0, where the first event is still pending.
    assert_eq!(rig.old(0), [0, 1]);
    let same = Arc::downgrade(&rig);
    rig.sim.set_hook(move |sim, call| {
        if call == Call::Taken(IRQ, 0) {
            sim.fire(IRQ);
        }
        if call == Call::Pointed(IRQ, 0) {
            let rig = same.upgrade().unwrap();
            assert!(sim.is_held(IRQ));
            assert_eq!(rig.dispatch(0), Some(IRQ));
        }
    });
    rig.offline(1).unwrap();
    assert_eq!(rig.served_by(IRQ), Some(0));
    rig.quiet();
}
