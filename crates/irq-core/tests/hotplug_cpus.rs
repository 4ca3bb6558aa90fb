// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go.
#![cfg(not(loom))]

mod hotplug_common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use hotplug_common::platform::Player;
use hotplug_common::rig::{FIRST, IRQS, Rig, cpu, kind, on};
use hotplug_common::{Call, Fails, Sim, mask};
use irq_core::Irq;
use irq_core::hotplug::{Leaves, NewIrq, Offline, Online, Served};
use irq_hal::{Error, ErrorKind};

const IRQ: u32 = FIRST;

fn regular(cpus: &[u32]) -> NewIrq {
    NewIrq {
        affinity: mask(cpus),
        ..NewIrq::regular()
    }
}

fn managed(cpus: &[u32]) -> NewIrq {
    NewIrq::managed(mask(cpus))
}

/// Calls `f` at the first call that is `at`.
fn once(rig: &Arc<Rig>, at: Call, mut f: impl FnMut(&Arc<Rig>) + Send + 'static) {
    let same = Arc::downgrade(rig);
    let mut done = false;
    rig.sim.set_hook(move |_: &Sim, call| {
        if call == at && !std::mem::replace(&mut done, true) {
            f(&same.upgrade().unwrap());
        }
    });
}

fn fail(rig: &Rig, fails: Option<Fails>) {
    *rig.sim.fails.lock().unwrap() = fails;
}

#[test]
fn a_cpu_is_closed_then_emptied_then_settled_then_drained() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1, 2]));
    rig.start(IRQ + 1, managed(&[1]));
    rig.calls();
    let offline = rig.offline(1).unwrap();
    let expected = [
        Call::Close(1),
        Call::Take(IRQ),
        Call::Point(IRQ, 2),
        Call::Wake(1),
        Call::Take(IRQ + 1),
        Call::Hold(IRQ + 1),
        Call::Wake(1),
        Call::Settle(1),
        Call::Pending(IRQ),
        Call::GiveBack(IRQ, 1),
        Call::Pending(IRQ + 1),
        Call::GiveBack(IRQ + 1, 1),
    ];
    assert_eq!(rig.calls(), expected);
    let counts = Offline {
        moved: 1,
        shut: 1,
        places: 2,
        ..Offline::default()
    };
    assert_eq!(offline, counts);
    let online = rig.online(1).unwrap();
    let expected = [
        Call::Open(1),
        Call::Take(IRQ + 1),
        Call::Point(IRQ + 1, 1),
        Call::Release(IRQ + 1),
    ];
    assert_eq!(rig.calls(), expected);
    let restarted = Online {
        restarted: 1,
        failed: None,
    };
    assert_eq!(online, restarted);
}

#[test]
fn a_cpu_that_goes_costs_what_its_interrupts_cost_whatever_the_others_serve() {
    let cost = |others: u32| {
        let rig = Rig::new(4, 64, Leaves::Drains);
        for irq in IRQ..IRQ + others {
            rig.start(irq, regular(&[irq % 2 * 2]));
        }
        for irq in IRQ + others..IRQ + others + 3 {
            rig.start(irq, regular(&[1, 3]));
        }
        rig.calls();
        let offline = rig.offline(1).unwrap();
        assert_eq!((offline.moved, offline.places), (3, 3));
        rig.calls().len()
    };
    assert_eq!(cost(0), 2 + 3 * 5);
    assert_eq!(cost(IRQS - 3), cost(0));
}

#[test]
fn what_must_move_and_fits_nowhere_refuses_the_cpu_and_changes_nothing() {
    let rig = Rig::new(3, 3, Leaves::Drains);
    for irq in IRQ..IRQ + 3 {
        rig.start(irq, regular(&[1]));
    }
    for irq in IRQ + 3..IRQ + 7 {
        rig.start(irq, regular(&[0, 2]));
    }
    rig.calls();
    let refused = rig.changes().offline(&on(1));
    let full = Error::Full {
        what: "places on other CPUs",
        capacity: 2,
    };
    assert_eq!(refused, Err(full));
    assert_eq!(rig.calls(), []);
    assert_eq!(rig.served(1), [IRQ, IRQ + 1, IRQ + 2]);
    // One less, and it fits.
    rig.stop(IRQ).unwrap();
    assert_eq!(rig.offline(1).unwrap().moved, 2);
}

#[test]
fn managed_interrupts_do_not_count_as_what_must_move() {
    // Fix A7: they did, and the CPU was refused though they were just shut down.
    let rig = Rig::new(2, 4, Leaves::Drains);
    for irq in IRQ..IRQ + 3 {
        rig.start(irq, managed(&[1]));
    }
    rig.start(IRQ + 3, regular(&[1]));
    for irq in IRQ + 4..IRQ + 7 {
        rig.start(irq, regular(&[0]));
    }
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.moved, offline.shut), (1, 3));
}

#[test]
fn a_regular_interrupt_stays_in_its_mask_if_it_can_and_leaves_it_as_the_last_resort() {
    let rig = Rig::new(4, 2, Leaves::Drains);
    rig.start(IRQ, regular(&[1, 3]));
    rig.start(IRQ + 1, regular(&[1]));
    rig.calls();
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.moved, offline.broken), (2, 1));
    assert_eq!(
        (rig.served_by(IRQ), rig.served_by(IRQ + 1)),
        (Some(3), Some(0))
    );
    let broken = rig.sim.calls_of(|call| matches!(call, Call::Broken(..)));
    assert_eq!(broken, [Call::Broken(IRQ + 1, 0)]);
    assert!(rig.status(IRQ + 1).broken && !rig.status(IRQ).broken);
    // Full is as good a reason as offline.
    rig.start(IRQ + 2, regular(&[3]));
    rig.start(IRQ + 3, regular(&[2, 3]));
    rig.start(IRQ + 4, regular(&[2, 3]));
    rig.stop(IRQ + 1).unwrap();
    rig.clean(0);
    let offline = rig.offline(3).unwrap();
    assert_eq!((offline.moved, offline.broken), (2, 2));
}

#[test]
fn a_managed_interrupt_is_shut_with_its_last_cpu_and_any_of_its_mask_restarts_it() {
    for (cpus, back) in [
        (&[1, 2][..], 1),
        (&[1, 2], 2),
        (&[1, 70], 70),
        (&[1, 70], 1),
    ] {
        let rig = Rig::new(72, 8, Leaves::Drains);
        rig.start(IRQ, managed(cpus));
        rig.start(IRQ + 1, managed(&[3]));
        assert_eq!(rig.offline(3).unwrap().shut, 1);
        assert_eq!(
            rig.offline(1).unwrap(),
            Offline {
                moved: 1,
                places: 1,
                ..Offline::default()
            }
        );
        assert_eq!(rig.offline(cpus[1]).unwrap().shut, 1);
        assert!(rig.sim.is_held(IRQ) && rig.status(IRQ).shut);
        assert_eq!(rig.sim.places(), 0);
        rig.sim.fire(IRQ);
        // One that is in no mask restarts nothing.
        rig.offline(4).unwrap();
        assert_eq!(rig.online(4).unwrap().restarted, 0);
        assert_eq!(rig.online(back).unwrap().restarted, 1);
        assert_eq!(rig.served_by(IRQ), Some(back));
        rig.quiet();
        assert_eq!(rig.online(3).unwrap().restarted, 1);
    }
}

#[test]
fn what_is_pending_on_a_cpu_that_goes_is_replayed_where_its_interrupt_is_served() {
    for leaves in [Leaves::Drains, Leaves::Late] {
        let rig = Rig::new(3, 8, leaves);
        rig.start(IRQ, regular(&[1, 2]));
        rig.sim.source(IRQ + 1, true);
        rig.changes()
            .add(Irq::new(IRQ + 1), regular(&[1, 2]))
            .unwrap();
        rig.changes().start(Irq::new(IRQ + 1)).unwrap();
        rig.start(IRQ + 2, managed(&[1]));
        for irq in IRQ..IRQ + 3 {
            rig.sim.fire(irq);
            rig.sim.deliver_all();
        }
        // And one that is on its way while the CPU goes.
        rig.sim.fire(IRQ);
        assert_eq!(rig.offline(1).unwrap().replayed, 3);
        assert_eq!(
            (rig.dispatch(2), rig.dispatch(2), rig.dispatch(2)),
            (Some(IRQ), Some(IRQ + 1), None)
        );
        assert_eq!(rig.sim.missing(), [2]);
        // The one that was shut is owed its event.
        rig.online(1).unwrap();
        assert_eq!(rig.dispatch(1), Some(IRQ + 2));
        rig.quiet();
    }
}

#[test]
fn a_cpu_whose_offline_fails_serves_on() {
    for step in ["point", "settle", "hold", "close"] {
        let rig = Rig::new(4, 8, Leaves::Late);
        rig.start(IRQ, managed(&[1]));
        rig.start(IRQ + 1, regular(&[1, 2]));
        rig.start(IRQ + 2, regular(&[1, 2]));
        rig.sim.fire(IRQ + 1);
        fail(
            &rig,
            Some(match step {
                "point" => |call| call == Call::Point(IRQ + 2, 2),
                "settle" => |call| call == Call::Settle(1),
                "hold" => |call| call == Call::Hold(IRQ),
                _ => |call| call == Call::Close(1),
            }),
        );
        assert_eq!(kind(rig.offline(1)), Err(ErrorKind::Hardware), "{step}");
        fail(&rig, None);
        // The managed one is back, and what has moved stays where it is.
        assert_eq!(rig.served_by(IRQ), Some(1));
        let moved = matches!(step, "point" | "settle");
        assert_eq!(rig.served_by(IRQ + 1), Some(if moved { 2 } else { 1 }));
        assert_eq!(
            rig.old(1)[0],
            u32::from(moved) + u32::from(step == "settle")
        );
        assert!(rig.changes().online(cpu(1)).is_err());
        assert_eq!(rig.start(IRQ + 3, regular(&[1])), Served::By(cpu(1)));
        rig.quiet();
        assert_eq!(rig.offline(1).unwrap().shut, 1);
        rig.quiet();
    }
}

#[test]
fn a_cpu_that_cannot_be_opened_again_serves_what_it_has_and_can_go_later() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    rig.start(IRQ + 1, managed(&[1]));
    fail(
        &rig,
        Some(|call| matches!(call, Call::Settle(1) | Call::Open(1))),
    );
    assert_eq!(
        kind(rig.changes().offline(&on(1))),
        Err(ErrorKind::Hardware)
    );
    fail(&rig, None);
    assert_eq!(rig.start(IRQ + 2, regular(&[1])), Served::By(cpu(0)));
    rig.calls();
    rig.offline(1).unwrap();
    assert!(!rig.calls().contains(&Call::Close(1)));
    assert_eq!(rig.online(1).unwrap().restarted, 1);
}

#[test]
fn a_cpu_that_cannot_be_opened_stays_offline() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.offline(1).unwrap();
    fail(&rig, Some(|call| matches!(call, Call::Open(_))));
    assert_eq!(kind(rig.online(1)), Err(ErrorKind::Hardware));
    fail(&rig, None);
    assert_eq!(rig.changes().online(cpu(1)), Ok(Online::default()));
}

#[test]
fn an_interrupt_whose_restart_fails_waits_for_the_next_cpu() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    for irq in [IRQ, IRQ + 1] {
        rig.start(irq, managed(&[1, 2]));
    }
    rig.offline(1).unwrap();
    rig.offline(2).unwrap();
    fail(&rig, Some(|call| call == Call::Point(IRQ, 1)));
    let online = rig.online(1).unwrap();
    assert_eq!(online.restarted, 1);
    assert!(
        online
            .failed
            .is_some_and(|(count, error)| count == 1 && error.kind() == ErrorKind::Hardware)
    );
    fail(&rig, None);
    assert!(rig.status(IRQ).shut && rig.sim.is_held(IRQ));
    assert_eq!(rig.online(2).unwrap().restarted, 1);
    rig.sim.fire(IRQ);
    rig.quiet();
}

#[test]
fn a_place_on_a_cpu_that_closes_before_it_is_noted_is_given_back_for_another() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    once(&rig, Call::Taken(IRQ, 1), |rig| _ = rig.offline(1).unwrap());
    assert_eq!(rig.start(IRQ, regular(&[1, 2])), Served::By(cpu(2)));
    assert_eq!(rig.sim.places(), 1);
    rig.online(1).unwrap();
}

#[test]
fn a_place_that_was_taken_before_its_cpu_went_is_not_used_when_it_is_back() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    once(&rig, Call::Taken(IRQ, 1), |rig| {
        rig.offline(1).unwrap();
        rig.online(1).unwrap();
    });
    assert_eq!(rig.start(IRQ, regular(&[1, 2])), Served::By(cpu(1)));
    let given_back = Call::GiveBack(IRQ, 1);
    assert!(rig.calls().contains(&given_back));
    assert_eq!(rig.sim.places(), 1);
}

#[test]
fn a_cpu_of_the_mask_that_comes_while_the_last_one_goes_takes_the_interrupt() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.start(IRQ, managed(&[1, 2]));
    rig.offline(2).unwrap();
    once(&rig, Call::Hold(IRQ), |rig| _ = rig.online(2).unwrap());
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.moved, offline.shut), (1, 0));
    assert!(!rig.sim.is_held(IRQ));
    // Likewise at its start.
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.offline(1).unwrap();
    once(&rig, Call::Refused(IRQ), |rig| _ = rig.online(1).unwrap());
    assert_eq!(rig.start(IRQ, managed(&[1])), Served::By(cpu(1)));
}

#[test]
fn a_cpu_that_goes_waits_for_a_change_of_its_interrupts_and_not_for_ever() {
    let rig = Rig::on(Player::impatient(0), 3, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    static TRIED: AtomicBool = AtomicBool::new(false);
    // The other CPU is between two steps of a move away from CPU 1, and does not go on.
    once(&rig, Call::Pointed(IRQ, 2), |rig| {
        assert_eq!(kind(rig.offline(1)), Err(ErrorKind::Timeout));
        assert_eq!(kind(rig.set(IRQ, mask(&[1, 0]))), Err(ErrorKind::Busy));
        assert_eq!(kind(rig.stop(IRQ)), Err(ErrorKind::Busy));
        assert_eq!(kind(rig.remove(IRQ)), Err(ErrorKind::Busy));
        TRIED.store(true, SeqCst);
    });
    assert_eq!(rig.set(IRQ, mask(&[2])), Ok(Served::By(cpu(2))));
    assert!(TRIED.load(SeqCst));
    // It was opened again.
    assert_eq!(rig.start(IRQ + 1, regular(&[1])), Served::By(cpu(1)));
    rig.offline(1).unwrap();
    rig.quiet();
}

#[test]
fn what_is_owed_to_an_interrupt_that_is_being_changed_is_replayed_by_who_changes_it() {
    let rig = Rig::new(4, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1]));
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    rig.set(IRQ, mask(&[2])).unwrap();
    // CPU 1, with an event pending at the old place, goes while the interrupt stops.
    once(&rig, Call::Hold(IRQ), |rig| {
        assert_eq!(rig.offline(1).unwrap().replayed, 1);
        assert!(!rig.calls().contains(&Call::Replay(IRQ, 2)));
    });
    rig.stop(IRQ).unwrap();
    rig.changes().start(Irq::new(IRQ)).unwrap();
    assert!(rig.calls().contains(&Call::Replay(IRQ, 2)));
    rig.quiet();
}

#[test]
fn one_call_at_a_time_takes_a_cpu_online_or_offline() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    assert_eq!(kind(rig.changes().online(cpu(1))), Err(ErrorKind::Exists));
    once(&rig, Call::Settle(1), |rig| {
        assert_eq!(kind(rig.changes().offline(&on(1))), Err(ErrorKind::Busy));
        assert_eq!(kind(rig.changes().online(cpu(1))), Err(ErrorKind::Busy));
    });
    rig.offline(1).unwrap();
    assert_eq!(kind(rig.changes().offline(&on(1))), Err(ErrorKind::Offline));
    once(&rig, Call::Open(1), |rig| {
        assert_eq!(kind(rig.changes().offline(&on(1))), Err(ErrorKind::Busy));
        assert_eq!(kind(rig.changes().online(cpu(1))), Err(ErrorKind::Busy));
    });
    rig.online(1).unwrap();
}

#[test]
fn an_interrupt_is_restarted_while_the_cpu_that_shut_it_still_gives_its_place_back() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.start(IRQ, managed(&[1, 2]));
    rig.offline(2).unwrap();
    rig.sim.fire(IRQ);
    once(&rig, Call::Settle(1), |rig| {
        assert!(rig.status(IRQ).shut);
        assert_eq!(rig.online(2).unwrap().restarted, 1);
    });
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.shut, offline.replayed), (1, 1));
    assert_eq!(rig.served_by(IRQ), Some(2));
    rig.quiet();
}

#[test]
fn a_cpu_that_comes_finds_an_interrupt_that_somebody_is_starting_in_vain() {
    let rig = Rig::on(Player::new(0), 4, 8, Leaves::Drains);
    rig.start(IRQ, managed(&[1, 2]));
    rig.offline(1).unwrap();
    rig.offline(2).unwrap();
    // The start has claimed it and found no CPU; before it says so, one comes.
    once(&rig, Call::Refused(IRQ), |rig| {
        rig.sim.up(2);
        let platform = Player::impatient(2);
        let changes = rig.hotplug.changes(&platform, &rig.sim);
        // In vain: the start has not ended.
        assert_eq!(changes.online(cpu(2)), Ok(Online::default()));
    });
    let started = rig.changes().start(Irq::new(IRQ));
    assert_eq!(started, Ok(Served::By(cpu(2))));
    rig.sim.fire(IRQ);
    rig.quiet();
}

#[test]
fn a_place_that_the_cpu_left_is_given_back_when_it_stays_after_all() {
    let rig = Rig::new(3, 8, Leaves::Drains);
    rig.start(IRQ, regular(&[1, 2]));
    rig.start(IRQ + 1, regular(&[1, 2]));
    rig.sim.fire(IRQ);
    rig.sim.deliver_all();
    fail(&rig, Some(|call| call == Call::Settle(1)));
    assert_eq!(kind(rig.offline(1)), Err(ErrorKind::Hardware));
    fail(&rig, None);
    // But for the one that is pending, which is taken there.
    assert_eq!((rig.old(1), rig.sim.places()), ([0, 1], 3));
    assert_eq!(rig.dispatch(1), Some(IRQ));
    rig.quiet();
}
