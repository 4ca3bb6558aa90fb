// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues: entries, generation bit, wrap, overflow, what a notification stands for.

mod xive_kit;

use irq_sim::xive::{Gen, Pq, call};
use xive_kit::*;

/// The valid bit of the first generation.
const FIRST: u32 = 1 << 31;

#[test]
fn entries_are_big_endian_numbers_under_a_generation_bit() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let queue = rig.queue(0, 6, 12);
        let girqs = [rig.ipi(0, 6, 0x1234), rig.ipi(0, 6, 0x7fff_ffff)];
        girqs.iter().for_each(|girq| rig.esb(*girq).fire());
        let mut bytes = [0; 12];
        rig.sim.memory().device_read(queue.device(), &mut bytes);
        let expected = [0x80, 0, 0x12, 0x34, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(bytes, expected);
        assert_eq!(rig.model.written(rig.pir(0), 6), 2);
    }
}

#[test]
fn a_queue_wraps_and_toggles_its_generation_each_time() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let queue = rig.queue(0, 6, 12);
        let girq = rig.ipi(0, 6, 5);
        let esb = rig.esb(girq);
        for round in 0..3 {
            let bit = if round % 2 == 0 { FIRST } else { 0 };
            for index in 0..1024 {
                assert_ne!(rig.entry(&queue, index) & FIRST, bit, "not yet valid");
                esb.fire();
                assert_eq!(rig.entry(&queue, index), bit | 5);
                assert_eq!(esb.load(SET_00), 0b10);
            }
            let shown = rig.model.queue(rig.pir(0), 6);
            assert_eq!((shown.index, shown.unread), (0, 0));
            assert_eq!(shown.generation, bit == 0);
        }
    }
}

#[test]
fn an_entry_that_is_not_certainly_read_is_not_written_over() {
    let rig = Rig::with(1, |xive| xive.ipis(1100).overflow_check(true));
    let _queue = rig.queue(0, 6, 12);
    let esbs: Vec<_> = (1..=1024)
        .map(|data| rig.esb(rig.ipi(0, 6, data)))
        .collect();
    esbs.iter().for_each(Esb::fire);
    assert_eq!(rig.model.queue(rig.pir(0), 6).unread, 1024);
    // Put to 00 by hand, the first source sends again: nobody has ended its event.
    esbs[0].load(SET_01);
    esbs[0].load(SET_00);
    refused("overflows", || esbs[0].fire());
}

#[test]
fn no_more_sources_lead_to_a_queue_than_it_has_entries() {
    let full = |check: bool| {
        let rig = Rig::with(1, |xive| xive.ipis(1100).overflow_check(check));
        let _queue = rig.queue(0, 6, 12);
        for data in 1..=1024 {
            rig.ipi(0, 6, data);
        }
        let one_more = || rig.ipi(0, 6, 1025);
        if check {
            refused("1025 sources are led to the queue", one_more);
        } else {
            one_more();
        }
    };
    full(true);
    full(false);
}

#[test]
fn an_overflow_that_is_let_pass_writes_over_what_is_there() {
    let rig = Rig::with(1, |xive| xive.overflow_check(false));
    let queue = rig.queue(0, 6, 12);
    let girq = rig.ipi(0, 6, 9);
    for _ in 0..1025 {
        rig.model.switch_on(girq);
        rig.esb(girq).fire();
    }
    assert_eq!(rig.entry(&queue, 0), 9, "of the second generation");
    assert_eq!(rig.entry(&queue, 1), FIRST | 9);
}

#[test]
fn five_triggers_are_two_entries() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let _queue = rig.queue(0, 6, 12);
        let girq = rig.ipi(0, 6, 1);
        let written = || rig.model.written(rig.pir(0), 6);
        (0..5).for_each(|_| rig.esb(girq).fire());
        assert_eq!((written(), rig.model.pq(girq)), (1, Pq::Queued));
        rig.open(0);
        assert_eq!(rig.serve(0, girq), 0x8006);
        assert_eq!((written(), rig.model.pq(girq)), (2, Pq::Pending));
        assert_eq!(rig.serve(0, girq), 0x8006);
        assert_eq!((written(), rig.model.pq(girq)), (2, Pq::Reset));
        assert!(!rig.model.signalled(0));
    }
}

#[test]
fn a_queue_that_is_set_up_again_starts_over() {
    let rig = Rig::new(1, Gen::One);
    let _first = rig.queue(0, 6, 12);
    let girq = rig.ipi(0, 6, 3);
    rig.esb(girq).fire();
    rig.esb(girq).load(SET_00);
    let second = rig.queue(0, 6, 12);
    let shown = rig.model.queue(rig.pir(0), 6);
    assert_eq!((shown.index, shown.generation, shown.written), (0, true, 0));
    assert_eq!(shown.page, second.device().get());
    rig.esb(girq).fire();
    assert_eq!(rig.entry(&second, 0), FIRST | 3);
}

#[test]
fn a_late_end_proves_nothing_about_a_queue_that_was_set_up_since() {
    let rig = Rig::new(1, Gen::One);
    let _first = rig.queue(0, 6, 12);
    let [old, new] = [rig.ipi(0, 6, 3), rig.ipi(0, 6, 4)];
    rig.esb(old).fire();
    let _second = rig.queue(0, 6, 12);
    rig.esb(new).fire();
    rig.esb(old).load(SET_00);
    assert_eq!(rig.model.queue(rig.pir(0), 6).unread, 1);
    rig.esb(new).load(SET_00);
    assert_eq!(rig.model.queue(rig.pir(0), 6).unread, 0);
}

#[test]
fn queues_of_two_priorities_are_two_queues() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let queues = [5, 6].map(|prio| rig.queue(0, prio, 12));
        let girqs = [5, 6].map(|prio| rig.ipi(0, prio, 0x10 + prio));
        rig.open(0);
        girqs.iter().rev().for_each(|girq| rig.esb(*girq).fire());
        assert_eq!(rig.entry(&queues[0], 0), FIRST | 0x15);
        assert_eq!(rig.entry(&queues[1], 0), FIRST | 0x16);
        assert_eq!(rig.serve(0, girqs[0]), 0x8005);
        assert_eq!(rig.serve(0, girqs[1]), 0x8006);
    }
}

#[test]
fn an_entry_in_a_queue_that_was_left_comes_from_the_old_target() {
    for generation in GENS {
        let rig = Rig::new(2, generation);
        let queues = [0, 1].map(|cpu| rig.queue(cpu, 6, 12));
        let girq = rig.ipi(0, 6, 1);
        rig.esb(girq).fire();
        rig.route(girq, 1, 6, 2);
        assert_eq!(rig.call(call::SYNC, &[2, girq.into()]), 0);
        assert_eq!([0, 1].map(|n| rig.entry(&queues[n], 0)), [FIRST | 1, 0]);
        rig.esb(girq).fire();
        assert_eq!(rig.entry(&queues[1], 0), 0, "it is pending");
        let esb = rig.esb(girq);
        assert_eq!(esb.load(SET_00), 0b11);
        esb.fire();
        assert_eq!(rig.entry(&queues[1], 0), FIRST | 2);
    }
}
