// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event sources: the PQ machine, coalescing, masking, how an end re-arms.

mod xive_kit;

use irq_hal::Bus;
use irq_sim::Unit;
use irq_sim::xive::{Gen, Pages, Pq, SourceSpec, flags};
use xive_kit::*;

/// The SET operation of each state.
const STATES: [(Pq, usize); 4] = [
    (Pq::Reset, SET_00),
    (Pq::Off, SET_01),
    (Pq::Pending, SET_10),
    (Pq::Queued, SET_11),
];

/// One IPI source of CPU 0, and the number of entries in its queue so far.
fn one_source(generation: Gen) -> (Rig, u32, impl Fn(&Rig) -> u64) {
    let rig = Rig::new(1, generation);
    rig.queue(0, 6, 16);
    let girq = rig.ipi(0, 6, 9);
    let pir = rig.pir(0);
    (rig, girq, move |rig: &Rig| rig.model.written(pir, 6))
}

#[test]
fn each_state_answers_each_operation_as_documented() {
    // State, then state after it and whether an event left: trigger, end.
    let table = [
        (Pq::Reset, (Pq::Pending, 1), (Pq::Reset, 0)),
        (Pq::Off, (Pq::Off, 0), (Pq::Off, 0)),
        (Pq::Pending, (Pq::Queued, 0), (Pq::Reset, 0)),
        (Pq::Queued, (Pq::Queued, 0), (Pq::Pending, 1)),
    ];
    for generation in GENS {
        let (rig, girq, written) = one_source(generation);
        let esb = rig.esb(girq);
        let reach = |state: Pq| {
            let (_, set) = STATES[state.bits() as usize];
            esb.load(set);
            assert_eq!(rig.model.pq(girq), state);
            written(&rig)
        };
        for (state, trigger, end) in table {
            let before = reach(state);
            esb.trigger();
            assert_eq!(
                (rig.model.pq(girq), written(&rig) - before),
                trigger,
                "trigger at {state:?}"
            );
            let before = reach(state);
            let again = esb.load(EOI);
            assert_eq!(
                (rig.model.pq(girq), written(&rig) - before),
                end,
                "end at {state:?}"
            );
            assert_eq!(again, end.1, "what the load returns at {state:?}");
            for (to, set) in STATES {
                let before = reach(state);
                assert_eq!(
                    esb.load(set),
                    state.bits(),
                    "{set:#x} returns the old state"
                );
                assert_eq!((rig.model.pq(girq), written(&rig)), (to, before));
            }
            let before = reach(state);
            assert_eq!(esb.load(GET), state.bits());
            assert_eq!((rig.model.pq(girq), written(&rig)), (state, before));
        }
    }
}

#[test]
fn a_store_ends_as_a_load_does() {
    let (rig, girq, written) = one_source(Gen::Two);
    let esb = rig.esb(girq);
    for (state, after, events) in [
        (Pq::Reset, Pq::Reset, 0),
        (Pq::Off, Pq::Off, 0),
        (Pq::Pending, Pq::Reset, 0),
        (Pq::Queued, Pq::Pending, 1),
    ] {
        esb.load(STATES[state.bits() as usize].1 | ORDERED);
        let before = written(&rig);
        esb.store(STORE_EOI);
        assert_eq!(
            (rig.model.pq(girq), written(&rig) - before),
            (after, events)
        );
    }
}

#[test]
fn five_triggers_while_pending_are_two_deliveries() {
    for generation in GENS {
        let (rig, girq, written) = one_source(generation);
        let esb = rig.esb(girq);
        for _ in 0..5 {
            esb.trigger();
        }
        assert_eq!(rig.model.pq(girq), Pq::Queued);
        rig.open(0);
        let mut deliveries = 0;
        while rig.model.signalled(0) {
            assert_eq!(rig.serve(0, girq), 0x8006);
            deliveries += 1;
        }
        assert_eq!((deliveries, written(&rig)), (2, 2));
        assert_eq!(rig.model.pq(girq), Pq::Reset);
    }
}

#[test]
fn an_edge_is_lost_at_01_and_kept_at_10() {
    for generation in GENS {
        let (rig, girq, written) = one_source(generation);
        let esb = rig.esb(girq);
        esb.load(SET_01);
        esb.trigger();
        assert_eq!(esb.load(SET_00), 0b01);
        assert_eq!((written(&rig), rig.model.lost(girq)), (0, 1));
        esb.load(SET_10);
        esb.trigger();
        assert_eq!(esb.load(SET_00), 0b11);
        esb.trigger();
        assert_eq!((written(&rig), rig.model.lost(girq)), (1, 1));
    }
}

#[test]
fn a_cleared_q_that_is_not_triggered_again_counts_as_lost() {
    let (rig, girq, written) = one_source(Gen::One);
    let esb = rig.esb(girq);
    esb.trigger();
    esb.trigger();
    assert_eq!(esb.load(SET_00), 0b11);
    esb.load(GET);
    assert_eq!((written(&rig), rig.model.lost(girq)), (1, 1));
}

#[test]
fn a_software_retrigger_delivers_once() {
    for generation in GENS {
        let (rig, girq, written) = one_source(generation);
        let esb = rig.esb(girq);
        esb.load(SET_11);
        assert_eq!(esb.load(EOI), 1);
        assert_eq!((written(&rig), rig.model.pq(girq)), (1, Pq::Pending));
    }
}

#[test]
fn an_end_without_an_event_is_legal() {
    for generation in GENS {
        let (rig, girq, written) = one_source(generation);
        assert_eq!(rig.esb(girq).load(SET_00), 0b00);
        assert_eq!(written(&rig), 0);
    }
}

#[test]
fn a_forgotten_end_silences_the_source() {
    let (rig, girq, written) = one_source(Gen::One);
    let esb = rig.esb(girq);
    rig.open(0);
    for _ in 0..10 {
        esb.trigger();
        if rig.model.signalled(0) {
            rig.ack(0);
            rig.open(0);
        }
    }
    assert_eq!((written(&rig), rig.model.pq(girq)), (1, Pq::Queued));
}

#[test]
fn a_message_source_of_generation_1_has_one_page() {
    let rig = Rig::with(1, |xive| xive.msi(0));
    let queue = rig.queue(0, 6, 16);
    let girq = rig.model.msis()[0];
    rig.route(girq, 0, 6, 3);
    let esb = rig.esb(girq);
    assert_eq!((rig.got(0), rig.got(1), rig.got32(3)), (0, rig.got(2), 16));
    esb.load(SET_00);
    esb.trigger();
    assert_eq!(rig.entry(&queue, 0), 0x8000_0003);
    rig.model.line(girq).pulse();
    assert_eq!(rig.model.pq(girq), Pq::Queued);
}

#[test]
fn generations_differ_in_the_flags_of_their_sources() {
    for (generation, ipi, msi, lsi, shift) in [
        (Gen::One, 0x01, 0x00, 0x04, 12),
        (Gen::Two, 0x41, 0x41, 0x44, 16),
    ] {
        let rig = Rig::with(1, |xive| xive.generation(generation).lsi(0).msi(0));
        rig.queue(0, 6, 16);
        let girq = rig.ipi(0, 6, 1);
        rig.esb(girq);
        assert_eq!((rig.got(0), rig.got32(3)), (ipi, 17));
        rig.esb(rig.model.msis()[0]);
        assert_eq!(rig.got(0), msi);
        rig.esb(rig.model.lsis()[0]);
        assert_eq!((rig.got(0), rig.got(2), rig.got32(3)), (lsi, 0, shift));
    }
}

#[test]
fn every_source_is_off_at_first() {
    for generation in GENS {
        let rig = Rig::with(1, |xive| xive.generation(generation).lsi(0).msi(0));
        for girq in [rig.model.lsis()[0], rig.model.msis()[0]] {
            assert_eq!(rig.model.pq(girq), Pq::Off);
            assert!(rig.model.eas(girq).masked);
        }
    }
}

#[test]
fn pages_that_do_not_answer_read_all_ones_and_take_no_trigger() {
    let (rig, girq, written) = one_source(Gen::One);
    let esb = rig.esb(girq);
    rig.model.fail_esb(girq, true);
    assert_eq!(esb.load(GET), u64::MAX);
    assert_eq!(esb.load(SET_01), u64::MAX);
    esb.trigger();
    rig.model.fail_esb(girq, false);
    assert_eq!((rig.model.pq(girq), written(&rig)), (Pq::Reset, 0));
}

#[test]
fn a_source_with_the_shift_bug_takes_shifted_offsets() {
    let spec = SourceSpec::ipi(Gen::One, 0)
        .flags(flags::TRIGGER_PAGE | flags::SHIFT_BUG)
        .pages(Pages::Pair, 17);
    let rig = Rig::with(1, |xive| xive.source(spec));
    rig.queue(0, 6, 16);
    let girq = rig.model.extra()[0];
    rig.route(girq, 0, 6, 1);
    let esb = rig.esb(girq);
    assert_eq!(esb.load(SET_10 | SET_10 << 4), 0b01);
    assert_eq!(rig.model.pq(girq), Pq::Pending);
    refused("shift bug", || esb.load(SET_00));
}

#[test]
fn the_controllers_words_are_big_endian() {
    let (rig, girq, _) = one_source(Gen::One);
    let esb = rig.esb(girq);
    esb.load(SET_10);
    assert_eq!(Bus::<u64>::load(&esb.eoi, GET), 0x0200_0000_0000_0000);
}

#[test]
fn accesses_are_logged_and_charged_by_the_chip_they_go_to() {
    let sim = irq_sim::SimPlatform::builder(2).nodes(&[0, 1]).build();
    let rig = Rig::booted(&sim, |xive| xive.chips(2));
    rig.call(irq_sim::xive::call::RESET, &[1]);
    rig.queue(0, 6, 16);
    rig.queue(1, 6, 16);
    let (near, far) = (rig.ipi(0, 6, 1), rig.ipi(1, 6, 2));
    let (near_esb, far_esb) = (rig.esb(near), rig.esb(far));
    let costs = rig.sim.costs();
    let mark = rig.sim.log().mark();
    near_esb.load(GET);
    let seen = rig.sim.log().since(mark);
    assert_eq!((seen.loads(Unit::Esb(near)), seen.mmio()), (1, 1));
    assert_eq!(seen.cost(), u64::from(costs.local));
    let mark = rig.sim.log().mark();
    far_esb.fire();
    let seen = rig.sim.log().since(mark);
    assert_eq!((seen.stores(Unit::Esb(far)), seen.mmio()), (1, 1));
    assert_eq!(seen.cost(), u64::from(costs.remote));
}
