// SPDX-License-Identifier: MIT OR Apache-2.0
//! An interrupt's life: added, started, given another affinity, stopped, removed.
#![cfg(not(loom))]

mod hotplug_common;

use hotplug_common::rig::{FIRST, Rig, cpu, kind};
use hotplug_common::{Call, mask};
use irq_core::Irq;
use irq_core::cpu::CpuSet;
use irq_core::hotplug::{Affinity, Leaves, NewIrq, Removal, Served};
use irq_hal::{Error, ErrorKind, NoCpu};

const IRQ: u32 = FIRST + 5;

fn regular(cpus: &[u32]) -> NewIrq {
    NewIrq {
        affinity: mask(cpus),
        ..NewIrq::regular()
    }
}

fn managed(cpus: &[u32]) -> NewIrq {
    NewIrq::managed(mask(cpus))
}

#[test]
fn a_source_points_at_a_cpu_of_its_mask_before_it_is_let_go() {
    // Fix A12: set up before its affinity was applied, it came to the wrong CPU.
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.add(IRQ, regular(&[2, 3])).unwrap();
    rig.sim.fire(IRQ);
    assert_eq!(rig.calls(), []);
    assert_eq!(rig.changes().start(Irq::new(IRQ)), Ok(Served::By(cpu(2))));
    let order = [Call::Take(IRQ), Call::Point(IRQ, 2), Call::Release(IRQ)];
    assert_eq!(rig.calls(), order);
    rig.sim.deliver_all();
    assert_eq!(rig.dispatch(2), Some(IRQ));
    rig.quiet();
}

#[test]
fn a_cpu_that_is_online_and_in_the_new_mask_is_kept_and_nothing_is_touched() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    rig.calls();
    let mut affinity = mask(&[0, 1, 2]);
    let kept = rig.changes().set_affinity(Irq::new(IRQ), &mut affinity);
    assert_eq!(kept, Ok(Served::Kept(cpu(1))));
    // The one before is handed back.
    assert_eq!(affinity, mask(&[1]));
    assert_eq!(rig.calls(), []);
    // Also while it moves: there is nothing to wait for.
    rig.set(IRQ, mask(&[2])).unwrap();
    assert_eq!(rig.set(IRQ, mask(&[2, 3])), Ok(Served::Kept(cpu(2))));
}

#[test]
fn another_mask_moves_an_interrupt_and_the_list_of_each_cpu_follows() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    rig.start(IRQ + 1, regular(&[1]));
    assert_eq!(rig.served(1), [IRQ, IRQ + 1]);
    assert_eq!(rig.set(IRQ, mask(&[3])), Ok(Served::By(cpu(3))));
    assert_eq!((rig.served(1), rig.served(3)), (vec![IRQ + 1], vec![IRQ]));
    assert_eq!((rig.old(1), rig.status(IRQ).due), ([0, 1], 1));
    assert!(rig.calls().contains(&Call::Wake(1)));
    assert_eq!(rig.clean(1), 0);
    assert_eq!((rig.old(1), rig.status(IRQ).due), ([0, 0], 0));
    // The mask is kept for what comes: the same one again moves nothing.
    rig.calls();
    assert_eq!(rig.set(IRQ, mask(&[3])), Ok(Served::Kept(cpu(3))));
    assert_eq!(rig.calls(), []);
}

#[test]
fn a_mask_without_a_cpu_that_is_online_is_an_error_and_never_cpu_0() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    rig.add(IRQ + 1, regular(&[1])).unwrap();
    rig.offline(3).unwrap();
    rig.calls();
    for irq in [IRQ, IRQ + 1] {
        for (cpus, why) in [(&[][..], NoCpu::EmptyMask), (&[3], NoCpu::Offline)] {
            let mut affinity = mask(cpus);
            let refused = rig.changes().set_affinity(Irq::new(irq), &mut affinity);
            assert_eq!(refused, Err(Error::NoCpu { why }));
            assert_eq!(affinity, mask(cpus));
        }
    }
    assert_eq!(rig.calls(), []);
    assert_eq!(rig.served_by(IRQ), Some(1));
    let empty = rig.changes().add(Irq::new(IRQ + 2), regular(&[]));
    assert_eq!(empty, Err(NoCpu::EmptyMask.into()));
    // No CPU at all: any is none.
    (0..3).for_each(|cpu| _ = rig.remove_all_and_offline(cpu));
    rig.add(IRQ + 3, NewIrq::regular()).unwrap();
    let none = rig.set(IRQ + 3, Affinity::Any);
    assert_eq!(none, Err(NoCpu::Offline.into()));
    let none = rig.changes().start(Irq::new(IRQ + 3));
    assert_eq!(none, Err(NoCpu::Offline.into()));
    assert!(rig.sim.is_held(IRQ + 3));
}

#[test]
fn a_full_mask_is_an_error_of_set_affinity_and_the_interrupt_stays() {
    // There is room outside of the mask, for which nobody asked.
    let rig = Rig::new(3, 1, Leaves::Drains);
    rig.start(IRQ, regular(&[0]));
    rig.start(IRQ + 1, regular(&[1]));
    assert_eq!(rig.set(IRQ, mask(&[1])), Err(NoCpu::Full.into()));
    assert_eq!(
        (rig.served_by(IRQ), rig.status(IRQ).broken),
        (Some(0), false)
    );
    // The mask is the one before: the CPU is kept under it.
    assert_eq!(rig.set(IRQ, mask(&[0, 1])), Ok(Served::Kept(cpu(0))));
}

#[test]
fn a_move_that_the_controller_refuses_leaves_the_interrupt_where_it_was() {
    let rig = Rig::new(2, 8, Leaves::Late);
    rig.start(IRQ, regular(&[0]));
    *rig.sim.fails.lock().unwrap() = Some(|call| matches!(call, Call::Point(..)));
    let refused = rig.set(IRQ, mask(&[1]));
    assert_eq!(kind(refused), Err(ErrorKind::Hardware));
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!((rig.served_by(IRQ), rig.sim.places()), (Some(0), 1));
    assert_eq!((rig.old(0), rig.old(1)), ([0, 0], [0, 0]));
    rig.sim.fire(IRQ);
    rig.quiet();
    assert_eq!(rig.set(IRQ, mask(&[1])), Ok(Served::By(cpu(1))));
}

#[test]
fn the_affinity_of_a_managed_interrupt_is_the_kernels() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.start(IRQ, managed(&[1, 2]));
    let refused = rig.set(IRQ, mask(&[1]));
    assert_eq!(kind(refused), Err(ErrorKind::Unsupported));
    assert_eq!(rig.served_by(IRQ), Some(1));
}

#[test]
fn a_managed_interrupt_without_a_cpu_of_its_mask_waits_and_starts_when_one_comes() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.offline(2).unwrap();
    rig.offline(3).unwrap();
    assert_eq!(rig.start(IRQ, managed(&[2, 3])), Served::Later);
    assert!(rig.sim.is_held(IRQ) && rig.status(IRQ).shut);
    // Another start finds none either.
    let again = rig.changes().start(Irq::new(IRQ));
    assert_eq!(again, Ok(Served::Later));
    rig.sim.fire(IRQ);
    assert_eq!(rig.online(3).unwrap().restarted, 1);
    assert_eq!((rig.served_by(IRQ), rig.status(IRQ).shut), (Some(3), false));
    let again = rig.changes().start(Irq::new(IRQ));
    assert_eq!(kind(again), Err(ErrorKind::Exists));
    rig.quiet();
}

#[test]
fn a_regular_interrupt_without_a_cpu_of_its_mask_is_served_outside_and_reported() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.offline(3).unwrap();
    rig.calls();
    assert_eq!(rig.start(IRQ, regular(&[3])), Served::By(cpu(0)));
    assert!(rig.calls().contains(&Call::Broken(IRQ, 0)));
    assert!(rig.status(IRQ).broken);
    // What was asked for is remembered, and another answer to it mends it.
    rig.online(3).unwrap();
    let mut affinity = mask(&[1]);
    rig.changes()
        .set_affinity(Irq::new(IRQ), &mut affinity)
        .unwrap();
    assert_eq!(affinity, mask(&[3]));
    assert!(!rig.status(IRQ).broken);
}

#[test]
fn an_interrupt_that_its_driver_masked_comes_back_masked() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.start(IRQ, managed(&[2]));
    rig.sim.mask(IRQ, true);
    rig.offline(2).unwrap();
    rig.sim.fire(IRQ);
    rig.online(2).unwrap();
    assert_eq!(rig.served_by(IRQ), Some(2));
    rig.sim.deliver_all();
    assert_eq!(rig.dispatch(2), None);
    rig.sim.mask(IRQ, false);
    rig.quiet();
}

#[test]
fn a_reservation_is_held_while_an_interrupt_has_no_place() {
    let rig = Rig::new(2, 1, Leaves::Drains);
    let new = || NewIrq {
        reserves: true,
        ..NewIrq::regular()
    };
    rig.add(IRQ, new()).unwrap();
    assert_eq!(
        (rig.sim.reservations(), rig.status(IRQ).reserved),
        (1, true)
    );
    rig.changes().start(Irq::new(IRQ)).unwrap();
    assert_eq!(
        (rig.sim.reservations(), rig.status(IRQ).reserved),
        (0, false)
    );
    rig.stop(IRQ).unwrap();
    assert_eq!(
        (rig.sim.reservations(), rig.status(IRQ).reserved),
        (1, true)
    );
    // Its old place is still there.
    rig.changes().start(Irq::new(IRQ)).unwrap();
    assert_eq!(
        (rig.sim.reservations(), rig.status(IRQ).reserved),
        (0, false)
    );
    rig.stop(IRQ).unwrap();
    rig.clean(0);
    rig.start(IRQ + 1, regular(&[1]));
    rig.start(IRQ + 2, regular(&[0]));
    // A start that fails has it still.
    let full = rig.changes().start(Irq::new(IRQ));
    assert_eq!(full, Err(NoCpu::Full.into()));
    assert_eq!(
        (rig.sim.reservations(), rig.status(IRQ).reserved),
        (1, true)
    );
    rig.stop(IRQ + 2).unwrap();
    rig.clean(0);
    // Refused after the place was taken.
    *rig.sim.fails.lock().unwrap() = Some(|call| matches!(call, Call::Point(..)));
    assert!(rig.changes().start(Irq::new(IRQ)).is_err());
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!((rig.sim.reservations(), rig.sim.places()), (1, 1));
    assert_eq!(kind(rig.remove(IRQ)), Ok(Removal::Done(Affinity::Any)));
    assert_eq!(rig.sim.reservations(), 0);
    // None to be had: it is not added.
    *rig.sim.fails.lock().unwrap() = Some(|call| matches!(call, Call::Reserve(_)));
    assert!(rig.add(IRQ, new()).is_err());
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!(kind(rig.stop(IRQ)), Err(ErrorKind::NotFound));
    rig.add(IRQ, new()).unwrap();
}

#[test]
fn a_stopped_interrupt_keeps_its_place_until_what_was_pending_is_taken() {
    let rig = Rig::new(2, 8, Leaves::Late);
    rig.start(IRQ, regular(&[1]));
    rig.sim.fire(IRQ);
    rig.stop(IRQ).unwrap();
    assert!(rig.sim.is_held(IRQ));
    assert_eq!((rig.clean(1), rig.status(IRQ).due), (1, 1));
    assert_eq!((rig.served(1), rig.status(IRQ).place), (vec![], None));
    assert_eq!(rig.dispatch(1), Some(IRQ));
    assert_eq!((rig.clean(1), rig.sim.places()), (0, 0));
    // Twice is once.
    rig.calls();
    rig.stop(IRQ).unwrap();
    assert_eq!(rig.calls(), []);
}

#[test]
fn an_interrupt_that_starts_before_its_place_is_given_back_is_served_there() {
    let rig = Rig::new(3, 8, Leaves::Late);
    rig.start(IRQ, regular(&[1]));
    rig.stop(IRQ).unwrap();
    rig.sim.fire(IRQ);
    rig.calls();
    let again = rig.changes().start(Irq::new(IRQ));
    assert_eq!(again, Ok(Served::By(cpu(1))));
    assert_eq!(rig.calls(), [Call::Release(IRQ)]);
    assert_eq!((rig.old(1), rig.served(1)), ([0, 0], vec![IRQ]));
    rig.quiet();
    // Not where its mask forbids it, or where the CPU has gone.
    rig.stop(IRQ).unwrap();
    rig.set(IRQ, mask(&[2])).unwrap();
    let again = rig.changes().start(Irq::new(IRQ));
    assert_eq!(again, Ok(Served::By(cpu(2))));
    rig.stop(IRQ).unwrap();
    rig.offline(2).unwrap();
    rig.online(2).unwrap();
    rig.calls();
    rig.changes().start(Irq::new(IRQ)).unwrap();
    assert_eq!(rig.calls()[0], Call::Take(IRQ));
}

#[test]
fn an_interrupt_has_three_places_at_most() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[0]));
    for other in [1, 2] {
        rig.stop(IRQ).unwrap();
        rig.set(IRQ, mask(&[other])).unwrap();
        rig.changes().start(Irq::new(IRQ)).unwrap();
    }
    rig.stop(IRQ).unwrap();
    rig.set(IRQ, mask(&[3])).unwrap();
    assert_eq!((rig.status(IRQ).due, rig.sim.places()), (3, 3));
    let busy = rig.changes().start(Irq::new(IRQ));
    assert_eq!(kind(busy), Err(ErrorKind::Busy));
    // Where it has one it can start, and points there again.
    rig.set(IRQ, mask(&[0, 3])).unwrap();
    rig.calls();
    assert_eq!(rig.changes().start(Irq::new(IRQ)), Ok(Served::By(cpu(0))));
    assert_eq!(rig.calls(), [Call::Point(IRQ, 0), Call::Release(IRQ)]);
    rig.sim.fire(IRQ);
    rig.quiet();
    assert_eq!(rig.sim.places(), 1);
}

#[test]
fn a_place_that_cannot_be_taken_back_stays_due() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[0]));
    rig.set(IRQ, mask(&[1])).unwrap();
    rig.stop(IRQ).unwrap();
    rig.set(IRQ, mask(&[0])).unwrap();
    *rig.sim.fails.lock().unwrap() = Some(|call| matches!(call, Call::Point(..)));
    let refused = rig.changes().start(Irq::new(IRQ));
    assert_eq!(kind(refused), Err(ErrorKind::Hardware));
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!((rig.old(0), rig.served(0)), ([0, 1], vec![]));
    assert_eq!(rig.changes().start(Irq::new(IRQ)), Ok(Served::By(cpu(0))));
    rig.sim.fire(IRQ);
    rig.quiet();
}

#[test]
fn an_event_of_a_stopped_interrupt_whose_cpu_went_is_replayed_at_the_next_start() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    rig.stop(IRQ).unwrap();
    assert_eq!(rig.offline(1).unwrap().replayed, 1);
    rig.online(1).unwrap();
    rig.calls();
    rig.changes().start(Irq::new(IRQ)).unwrap();
    // Once it is let go.
    assert_eq!(rig.calls()[2..], [Call::Release(IRQ), Call::Replay(IRQ, 1)]);
    rig.quiet();
}

#[test]
fn an_interrupt_can_be_removed_in_every_state() {
    for state in ["stopped", "started", "waiting", "due", "shut", "pending"] {
        let rig = Rig::new(4, 8, Leaves::Late);
        rig.add(
            IRQ,
            if state == "shut" {
                managed(&[3])
            } else {
                regular(&[1])
            },
        )
        .unwrap();
        if state != "stopped" {
            rig.changes().start(Irq::new(IRQ)).unwrap();
        }
        if matches!(state, "waiting" | "due") {
            rig.set(IRQ, mask(&[2])).unwrap();
            assert_eq!(rig.old(1), [1, 0]);
        }
        if state == "due" {
            rig.sim.fire(IRQ);
            rig.sim.deliver_all();
            rig.dispatch(2);
            assert_eq!(rig.old(1), [0, 1]);
        }
        if state == "pending" {
            rig.sim.fire(IRQ);
        }
        if state == "shut" {
            rig.offline(3).unwrap();
            assert!(rig.status(IRQ).shut);
        }
        let removed = rig.remove(IRQ).unwrap();
        assert_eq!(rig.status_kind(IRQ), Err(ErrorKind::NotFound));
        match state {
            "stopped" => assert_eq!(removed, Removal::Done(mask(&[1]))),
            "shut" => assert_eq!(removed, Removal::Done(mask(&[3]))),
            _ => {
                assert_eq!(removed, Removal::Draining);
                assert_eq!(rig.remove(IRQ).unwrap(), Removal::Draining);
                // The number is not free, and other calls do not know it any more.
                let new = rig.changes().add(Irq::new(IRQ), NewIrq::regular());
                assert_eq!(kind(new), Err(ErrorKind::Busy));
                let start = rig.changes().start(Irq::new(IRQ));
                assert_eq!(kind(start), Err(ErrorKind::NotFound));
                rig.clean(1);
                rig.clean(2);
                if state == "pending" {
                    assert_eq!(rig.remove(IRQ).unwrap(), Removal::Draining);
                    assert_eq!(rig.dispatch(1), Some(IRQ));
                    rig.clean(1);
                }
                assert!(matches!(rig.remove(IRQ), Ok(Removal::Done(_))));
            }
        }
        assert_eq!(rig.sim.places(), 0, "{state}");
        // Twice: an error.
        assert_eq!(kind(rig.remove(IRQ)), Err(ErrorKind::NotFound));
        rig.sim.forget(IRQ);
        if state == "shut" {
            assert_eq!(rig.online(3).unwrap().restarted, 0);
        }
        // And the number is free.
        assert_eq!(rig.start(IRQ, regular(&[2])), Served::By(cpu(2)));
        rig.sim.fire(IRQ);
        rig.quiet();
    }
}

#[test]
fn a_source_that_cannot_be_held_is_neither_stopped_nor_removed() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    *rig.sim.fails.lock().unwrap() = Some(|call| matches!(call, Call::Hold(_)));
    assert_eq!(kind(rig.stop(IRQ)), Err(ErrorKind::Hardware));
    assert_eq!(kind(rig.remove(IRQ)), Err(ErrorKind::Hardware));
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!((rig.served_by(IRQ), rig.served(1)), (Some(1), vec![IRQ]));
    rig.sim.fire(IRQ);
    rig.quiet();
}

#[test]
fn masks_say_what_they_hold() {
    let affinity = mask(&[1, 70]);
    assert!(affinity.contains(cpu(70)) && !affinity.contains(cpu(2)));
    assert!(Affinity::Any.contains(cpu(4000)));
    let Affinity::Of(mask) = affinity else {
        panic!()
    };
    assert_eq!(mask.count(), 2);
}
