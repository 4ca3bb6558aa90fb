// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources that a wire drives: what their ends look at, what their masks keep.

mod xive_kit;

use irq_sim::xive::{Gen, Line, Pq};
use xive_kit::*;

/// A level, routed to the open CPU 0 and switched on; its line, its pages.
fn level(silicon: bool, generation: Gen) -> (Rig, u32, Line, Esb) {
    let rig = Rig::with(1, |xive| {
        xive.generation(generation).lsi(0).silicon_lsi(silicon)
    });
    let _queue = rig.queue(0, 6, 12);
    let girq = rig.model.lsis()[0];
    rig.route(girq, 0, 6, 1);
    let esb = rig.esb(girq);
    assert_eq!(esb.load(SET_00), 0b01);
    rig.open(0);
    let line = rig.model.line(girq);
    (rig, girq, line, esb)
}

#[test]
fn a_level_fires_as_often_as_it_is_ended_while_it_is_high() {
    for generation in GENS {
        let (rig, girq, line, _) = level(false, generation);
        line.assert();
        for _ in 0..3 {
            assert_eq!(rig.serve(0, girq), 0x8006);
            assert!(rig.model.signalled(0));
        }
        line.deassert();
        assert_eq!(rig.serve(0, girq), 0x8006);
        assert!(!rig.model.signalled(0));
        assert_eq!(rig.model.pq(girq), Pq::Reset);
        assert_eq!(rig.model.written(rig.pir(0), 6), 4);
    }
}

#[test]
fn a_level_has_no_q() {
    for generation in GENS {
        let (rig, girq, line, esb) = level(false, generation);
        (0..3).for_each(|_| line.pulse());
        assert_eq!(rig.model.pq(girq), Pq::Pending);
        assert_eq!(esb.load(EOI), 0, "it is low by now");
        assert_eq!(rig.model.written(rig.pir(0), 6), 1);
    }
}

#[test]
fn a_level_that_was_off_is_looked_at_by_a_load_that_ends_alone() {
    for generation in GENS {
        let (rig, girq, line, esb) = level(false, generation);
        esb.load(SET_01);
        line.assert();
        assert!(!rig.model.signalled(0));
        assert_eq!(esb.load(EOI), 0, "off is off");
        assert_eq!(esb.load(SET_00), 0b01);
        assert!(!rig.model.signalled(0), "forgotten, though it is high");
        assert_eq!(esb.load(EOI), 1, "forwarded");
        assert!(rig.model.signalled(0));
        line.deassert();
        assert_eq!(rig.serve(0, girq), 0x8006);
        assert_eq!(esb.load(EOI), 0, "harmless if it is idle");
    }
}

#[test]
fn a_level_that_is_parked_fires_when_it_is_ended() {
    for generation in GENS {
        let (rig, _, line, esb) = level(false, generation);
        esb.load(SET_10);
        line.assert();
        assert!(!rig.model.signalled(0));
        assert_eq!(esb.load(EOI), 1);
        assert!(rig.model.signalled(0));
        esb.load(SET_10);
        line.deassert();
        assert_eq!(esb.load(EOI), 0);
    }
}

#[test]
fn off_need_not_mask_a_level_on_silicon() {
    for generation in GENS {
        let (rig, girq, line, esb) = level(true, generation);
        esb.load(SET_01);
        line.assert();
        assert!(rig.model.signalled(0));
        assert_eq!(rig.model.pq(girq), Pq::Pending);
        // Parked it is silent there too.
        rig.serve(0, girq);
        esb.load(SET_10);
        line.deassert();
        rig.ack(0);
        rig.open(0);
        line.assert();
        assert!(!rig.model.signalled(0));
    }
}

#[test]
fn a_store_that_ends_a_level_looks_at_it_too() {
    let (rig, _, line, esb) = level(false, Gen::Two);
    line.assert();
    esb.store(STORE_EOI);
    assert_eq!(rig.model.written(rig.pir(0), 6), 2);
    line.deassert();
    esb.store(STORE_EOI);
    assert_eq!(rig.model.written(rig.pir(0), 6), 2);
    assert_eq!(esb.load(GET | ORDERED), 0b00);
}

#[test]
fn edges_have_no_wire() {
    let rig = Rig::with(1, |xive| xive.msi(0));
    let line = rig.model.line(rig.model.msis()[0]);
    refused("has no wire", || line.assert());
    refused("has no wire", || line.deassert());
    line.pulse();
    assert_eq!(rig.model.lost(rig.model.msis()[0]), 1, "it is off");
}
