// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of IPIs: who is rung, what runs, and in which order.
#![cfg(not(loom))]

mod common;
mod ipi_common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{on, range};
use ipi_common::played::{counts, exact, note, note_anywhere, plain, play, played, ran};
use ipi_common::{Bell, IPI, Machine, cpu, kind};
use irq_core::cpu::{CpuIndex, CpuMask};
use irq_core::{
    ActionContext, Bits, Interrupts, IpiKind, IpiSetup, Kick, Kind, MAX_KINDS, Sent, SentMany,
    Setup, Taken,
};
use irq_hal::Error;

fn mask(cpus: &[u32]) -> CpuMask {
    let mut mask = CpuMask::try_new(256).unwrap();
    for index in cpus {
        mask.insert(cpu(*index)).unwrap();
    }
    mask
}

#[test]
fn a_kind_runs_on_the_cpu_that_it_was_sent_to() {
    let machine = Machine::new(4, 2, &plain());
    assert_eq!(machine.send(0, 3, 1), Ok(Sent::Rung));
    assert!(machine.bell.pending(3));
    assert_eq!(ran(), []);
    let outcome = machine.dispatch(3);
    assert_eq!((outcome.taken, outcome.bits), (Taken::Handled, Bits::NONE));
    assert_eq!(ran(), [(11, 3)]);
    assert_eq!(machine.dispatch(3).taken, Taken::Nothing);
}

#[test]
fn the_first_send_rings_and_later_ones_touch_no_device() {
    let machine = Machine::new(4, 2, &plain());
    assert_eq!(machine.send(0, 1, 0), Ok(Sent::Rung));
    assert_eq!(machine.send(0, 1, 0), Ok(Sent::Coalesced));
    assert_eq!(machine.send(2, 1, 2), Ok(Sent::Coalesced));
    assert_eq!(machine.bell.rings(1), 1);
    assert_eq!(machine.drain(1), 1);
    assert_eq!(ran(), [(10, 1), (12, 1)]);
    // The mailbox is empty again.
    assert_eq!(machine.send(0, 1, 0), Ok(Sent::Rung));
    assert_eq!(machine.bell.rings(1), 2);
    assert_eq!(counts(&machine, 0), exact(2, 2, 1));
    assert_eq!(counts(&machine, 1), exact(0, 0, 0));
}

#[test]
fn a_send_to_oneself_rings_like_any_other() {
    let machine = Machine::new(1, 1, &plain());
    assert_eq!(machine.send(0, 0, 0), Ok(Sent::Rung));
    assert_eq!(ran(), []);
    assert_eq!(machine.drain(0), 1);
    assert_eq!(ran(), [(10, 0)]);
    assert_eq!(counts(&machine, 0), exact(1, 0, 1));
}

#[test]
fn the_interrupt_is_ended_before_anything_runs_and_once() {
    fn look(_: usize, cx: &ActionContext<'_>) {
        assert_eq!(played().bell.ends(cx.cpu().get()), 1);
        note(0, cx);
    }
    let machine = play(Machine::new(2, 1, &[Kind::new(look, 0)]));
    machine.send(0, 1, 0).unwrap();
    machine.drain(1);
    assert_eq!(ran(), [(0, 1)]);
    assert_eq!(machine.bell.ends(1), 1);
}

#[test]
fn kinds_run_in_order_and_those_that_may_not_return_behind_all_others() {
    let machine = Machine::new(
        2,
        1,
        &[
            Kind::last(note, 0),
            Kind::anywhere(note_anywhere, 1),
            Kind::new(note, 2),
            Kind::anywhere(note_anywhere, 3),
        ],
    );
    for n in [0, 3, 2, 1] {
        machine.send(0, 1, n).unwrap();
    }
    assert_eq!(machine.drain(1), 1);
    assert_eq!(ran(), [(1, 1), (2, 1), (3, 1), (0, 1)]);
}

#[test]
fn before_a_kind_that_never_returns_the_rest_is_left_for_an_interrupt_that_is_pending() {
    fn stop(word: usize, cx: &ActionContext<'_>) {
        note(word, cx);
        let (machine, index) = (played(), cx.cpu().get());
        if word == 0 {
            // It never returns: whatever comes on this CPU comes from here on.
            assert!(machine.bell.pending(index));
            assert_eq!(machine.drain(index), 1);
        }
    }
    let machine = play(Machine::new(
        2,
        1,
        &[Kind::last(stop, 0), Kind::last(stop, 1)],
    ));
    machine.send(0, 1, 0).unwrap();
    machine.send(0, 1, 1).unwrap();
    _ = machine.dispatch(1);
    assert_eq!(ran(), [(0, 1), (1, 1)]);
    // The ring that the CPU gave itself counts.
    assert_eq!(counts(&machine, 0), exact(2, 1, 2));
    assert_eq!(machine.drain(1), 0);
}

#[test]
fn a_kind_that_unwinds_loses_no_other() {
    fn unwind(word: usize, cx: &ActionContext<'_>) {
        note(word, cx);
        std::panic::resume_unwind(Box::new(()));
    }
    let machine = Machine::new(
        2,
        1,
        &[
            Kind::new(note, 0),
            Kind::new(unwind, 1),
            Kind::new(note, 2),
            Kind::last(note, 3),
        ],
    );
    for n in 0..4 {
        machine.send(0, 1, n).unwrap();
    }
    catch_unwind(AssertUnwindSafe(|| machine.dispatch(1))).unwrap_err();
    assert_eq!(ran(), [(0, 1), (1, 1)]);
    assert_eq!(machine.bell.ends(1), 1);
    assert_eq!(machine.drain(1), 1);
    assert_eq!(ran(), [(2, 1), (3, 1)]);
}

#[test]
fn an_ipi_that_finds_its_mailbox_empty_is_handled() {
    let machine = Machine::new(2, 1, &plain());
    machine.bell.ring(1);
    assert_eq!(machine.dispatch(1).taken, Taken::Handled);
    assert_eq!(ran(), []);
    assert_eq!(counts(&machine, 0), exact(0, 0, 1));
}

#[test]
fn what_kinds_ask_the_kernel_for_comes_out_of_the_dispatch() {
    fn reschedule(_: usize, cx: &ActionContext<'_>) {
        cx.request(Bits::RESCHEDULE);
    }
    fn own(_: usize, cx: &ActionContext<'_>) {
        cx.request(Bits::embedder(3).unwrap());
    }
    let machine = Machine::new(2, 1, &[Kind::new(own, 0), Kind::last(reschedule, 0)]);
    machine.send(0, 1, 1).unwrap();
    machine.send(0, 1, 0).unwrap();
    let both = Bits::RESCHEDULE.union(Bits::embedder(3).unwrap());
    assert_eq!(machine.dispatch(1).bits, both);
}

#[test]
fn a_kind_sends_others_and_itself_again() {
    fn pass_on(_: usize, cx: &ActionContext<'_>) {
        let machine = played();
        let on = cx.entry().on();
        let next = cpu(1 - cx.cpu().get());
        let send = |to, n| machine.interrupts.send(&machine.bell, on, to, kind(n));
        assert_eq!(send(next, 1), Ok(Sent::Rung));
        // Its own bit is taken already.
        assert_eq!(send(cx.cpu(), 1), Ok(Sent::Rung));
    }
    let machine = play(Machine::new(
        2,
        1,
        &[Kind::new(pass_on, 0), Kind::new(note, 1)],
    ));
    machine.send(0, 0, 0).unwrap();
    assert_eq!(machine.drain(0), 2);
    assert_eq!(machine.drain(1), 1);
    assert_eq!(ran(), [(1, 0), (1, 1)]);
}

#[test]
fn counts_stand_on_the_node_of_the_target_and_add_up() {
    let machine = Machine::new(6, 3, &plain());
    // From every CPU to every CPU, one at a time.
    for from in 0..6 {
        for to in 0..6 {
            assert_eq!(machine.send(from, to, 0), Ok(Sent::Rung));
            assert_eq!(machine.drain(to), 1);
        }
    }
    for node in 0..3 {
        assert_eq!(counts(&machine, node), exact(12, 0, 12));
    }
    // Ten times to a CPU that does not take it.
    for _ in 0..10 {
        machine.send(0, 5, 1).unwrap();
    }
    assert_eq!(counts(&machine, 2), exact(13, 9, 12));
    assert_eq!(counts(&machine, 0), exact(12, 0, 12));
    let taken = |index| {
        machine
            .interrupts
            .counts_on(IPI, cpu(index))
            .map(|counts| counts.taken)
    };
    assert_eq!(taken(5), Some(6));
}

#[test]
fn sends_to_cpus_that_are_offline_or_do_not_exist_are_errors_and_count_nowhere() {
    let machine = Machine::new(2, 1, &plain());
    machine.offline(1).unwrap();
    let offline = Err(Error::CpuOffline { cpu: cpu(1) });
    assert_eq!(machine.send(0, 1, 0), offline);
    let beyond = Err(Error::NoSuchCpu { cpu: cpu(2) });
    assert_eq!(machine.send(0, 2, 0), beyond);
    // Nor can a sender be that does not exist.
    assert_eq!(machine.send(2, 0, 0), beyond);
    // One that the driver cannot ring.
    machine.bell.reachable(0, false);
    let unreachable = Err(Error::CpuOffline { cpu: cpu(0) });
    assert_eq!(machine.send(0, 0, 0), unreachable);
    assert_eq!(counts(&machine, 0), exact(0, 0, 0));
    machine.bell.reachable(0, true);
    assert_eq!(machine.send(0, 0, 0), Ok(Sent::Rung));
}

#[test]
fn a_kind_without_a_function_is_refused_at_the_send() {
    let machine = Machine::new(2, 1, &plain());
    let refused = Error::Invalid {
        what: "kind of IPI",
        value: 3,
    };
    assert_eq!(machine.send(0, 1, 3), Err(refused));
    let others = machine
        .interrupts
        .broadcast_others(&machine.bell, &on(0), kind(3));
    assert_eq!(others, Err(refused));
    assert!(!machine.bell.pending(1));
}

#[test]
fn there_are_thirty_kinds_and_no_more() {
    assert_eq!(IpiKind::new(29).map(IpiKind::get), Some(29));
    assert_eq!(IpiKind::new(30), None);
    let all = |count: usize| {
        let kinds: Vec<_> = (0..count).map(|n| Kind::new(note, n)).collect();
        let ipi = Some(IpiSetup {
            irq: IPI,
            kinds: &kinds,
        });
        Interrupts::new(Setup {
            ipi,
            ..Setup::new(1, range(0, 8))
        })
        .map(|_| ())
    };
    assert_eq!(all(MAX_KINDS as usize), Ok(()));
    let too_many = Error::Invalid {
        what: "number of kinds of IPIs",
        value: 31,
    };
    assert_eq!(all(31), Err(too_many));

    let kinds: Vec<_> = (0..30).map(|n| Kind::new(note, n)).collect();
    let machine = Machine::new(1, 1, &kinds);
    for n in (0..30).rev() {
        machine.send(0, 0, n).unwrap();
    }
    machine.drain(0);
    assert!(ran().into_iter().eq((0..30).map(|n| (n, 0))));
}

#[test]
fn a_mask_is_rung_where_needed_and_members_that_are_offline_are_counted() {
    let machine = Machine::new(8, 2, &plain());
    machine.offline(5).unwrap();
    // The driver knows that this one is off, too.
    machine.offline(6).unwrap();
    machine.bell.reachable(6, false);
    machine.send(0, 4, 2).unwrap();
    let send = |to: &[u32]| {
        let interrupts = &machine.interrupts;
        interrupts.send_mask(&machine.bell, &on(0), &mask(to), kind(1))
    };
    let sent = SentMany {
        rung: 3,
        coalesced: 1,
        offline: 2,
    };
    assert_eq!(send(&[0, 1, 4, 5, 6, 7]), Ok(sent));
    assert_eq!(counts(&machine, 0), exact(2, 0, 0));
    assert_eq!(counts(&machine, 1), exact(2, 1, 0));
    for index in 0..8 {
        machine.drain(index);
    }
    assert_eq!(ran(), [(11, 0), (11, 1), (11, 4), (12, 4), (11, 7)]);
    assert_eq!(send(&[]), Ok(SentMany::default()));
    // What was refused is not there when the CPU comes back.
    machine.online(5, 1).unwrap();
    machine.bell.ring(5);
    machine.drain(5);
    assert_eq!(ran(), []);
}

#[test]
fn a_mask_with_a_member_beyond_the_possible_cpus_is_sent_to_nobody() {
    let machine = Machine::new(4, 1, &plain());
    let to = mask(&[1, 2, 4, 200]);
    let sent = machine
        .interrupts
        .send_mask(&machine.bell, &on(0), &to, kind(0));
    // The highest member of the first word with such members.
    assert_eq!(sent, Err(Error::NoSuchCpu { cpu: cpu(4) }));
    assert!((0..4).all(|index| !machine.bell.pending(index)));
    assert_eq!(counts(&machine, 0), exact(0, 0, 0));
}

#[test]
fn an_error_of_the_driver_comes_after_the_rest_of_the_mask_was_served() {
    struct Deaf<'a>(&'a Bell);
    impl Kick for Deaf<'_> {
        fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
            match cpu.get() {
                1 => Err(Error::Unsupported { feature: "cpu 1" }),
                _ => self.0.kick(cpu, post),
            }
        }
    }
    let machine = Machine::new(3, 1, &plain());
    let sent = machine
        .interrupts
        .broadcast_others(&Deaf(&machine.bell), &on(0), kind(0));
    assert_eq!(sent, Err(Error::Unsupported { feature: "cpu 1" }));
    assert!(!machine.bell.pending(0));
    assert!(!machine.bell.pending(1));
    assert!(machine.bell.pending(2));
}

#[test]
fn a_broadcast_reaches_every_other_cpu_that_is_online() {
    // More than one word of a mask, and a sender in the second one.
    let machine = Machine::new(130, 2, &plain());
    machine.offline(0).unwrap();
    machine.offline(129).unwrap();
    let sent = machine
        .interrupts
        .broadcast_others(&machine.bell, &on(70), kind(0));
    let all = SentMany {
        rung: 127,
        coalesced: 0,
        offline: 0,
    };
    assert_eq!(sent, Ok(all));
    for index in 0..130 {
        let expected = ![0, 70, 129].contains(&index);
        assert_eq!(machine.bell.pending(index), expected, "cpu{index}");
    }
    let alone = Machine::new(1, 1, &plain());
    let sent = alone
        .interrupts
        .broadcast_others(&alone.bell, &on(0), kind(0));
    assert_eq!(sent, Ok(SentMany::default()));
}
