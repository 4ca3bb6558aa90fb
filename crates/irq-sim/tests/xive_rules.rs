// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model refuses of accesses to the pages of sources and queues, each with its text.

mod xive_kit;

use irq_hal::{Bus, PhysAddr};
use irq_sim::xive::{Gen, Pages, SourceSpec, XiveWindow, call};
use xive_kit::*;

/// The pages of a new source, routed to CPU 0.
fn source(generation: Gen) -> (Rig, Esb) {
    let rig = Rig::new(1, generation);
    let _queue = rig.queue(0, 6, 12);
    let girq = rig.ipi(0, 6, 1);
    let esb = rig.esb(girq);
    (rig, esb)
}

fn trigger_page(esb: &Esb) -> &XiveWindow {
    esb.trigger.as_ref().unwrap()
}

#[test]
fn pages_of_sources_are_accessed_with_eight_bytes() {
    for generation in GENS {
        let (_rig, esb) = source(generation);
        let wrong = "wrong width, only 8 bytes are allowed";
        refused(wrong, || Bus::<u8>::load(&esb.eoi, GET));
        refused(wrong, || Bus::<u16>::load(&esb.eoi, GET));
        refused(wrong, || Bus::<u32>::load(&esb.eoi, GET));
        refused(wrong, || Bus::<u32>::store(trigger_page(&esb), 0, 0));
        refused("not aligned", || esb.load(GET + 4));
    }
}

#[test]
fn what_is_refused_names_cpu_register_value_and_rule() {
    let (_rig, esb) = source(Gen::One);
    refused("cpu0 loads from ESB(0x10)+0x10800 (4 bytes): wrong", || {
        Bus::<u32>::load(&esb.eoi, GET)
    });
    refused(
        "cpu0 stores 0x5 to ESB(0x10)+0x10400 (8 bytes): the",
        || {
            Bus::<u64>::store(&esb.eoi, STORE_EOI, 5_u64.swap_bytes());
        },
    );
}

#[test]
fn a_trigger_page_takes_stores_to_its_start_alone() {
    for generation in GENS {
        let (_rig, esb) = source(generation);
        let page = trigger_page(&esb);
        for offset in [0, GET, SET_00] {
            refused("a trigger page is never loaded from", || {
                Bus::<u64>::load(page, offset)
            });
        }
        refused("a trigger is a store to offset 0", || {
            Bus::<u64>::store(page, 8, 0);
        });
    }
}

#[test]
fn a_management_page_has_its_operations_and_no_others() {
    for generation in GENS {
        let (_rig, esb) = source(generation);
        for offset in [0x008, 0x100, 0x808, 0xc08, 0x1000, 0x1c00] {
            refused("no such operation", || esb.load(offset));
        }
        refused("no trigger on this page", || esb.store(0));
        refused("an inject passes by PQ", || esb.store(0x800));
        refused("PQ is set by loads", || esb.store(SET_01));
        refused("no such operation", || esb.store(0x100));
    }
}

#[test]
fn a_level_has_no_trigger_for_software() {
    for generation in GENS {
        let rig = Rig::with(1, |xive| xive.generation(generation).lsi(0));
        let esb = rig.esb(rig.model.lsis()[0]);
        assert!(esb.trigger.is_none());
        refused("no trigger on this page", || esb.store(0));
    }
}

#[test]
fn a_combined_page_is_triggered_by_a_store_and_ended_by_loads() {
    let spec = SourceSpec::ipi(Gen::Two, 0).flags(0x40);
    let spec = spec.pages(Pages::Combined, 16);
    let rig = Rig::with(1, |xive| xive.generation(Gen::Two).source(spec));
    let _queue = rig.queue(0, 6, 12);
    let girq = rig.model.extra()[0];
    rig.route(girq, 0, 6, 1);
    let esb = rig.esb(girq);
    esb.load(SET_00);
    esb.trigger();
    assert_eq!(rig.model.written(rig.pir(0), 6), 1);
    esb.store(STORE_EOI);
    esb.load(GET | ORDERED);
}

#[test]
fn a_store_that_ends_needs_the_capability() {
    let rig = Rig::with(1, |xive| {
        xive.source(SourceSpec::msi(Gen::One, 0).flags(0x02))
            .source(SourceSpec::msi(Gen::One, 0))
    });
    let [can, cannot] = [0, 1].map(|n| rig.esb(rig.model.extra()[n]));
    can.store(STORE_EOI);
    refused("not capable of StoreEOI", || cannot.store(STORE_EOI));
}

#[test]
fn ordered_loads_are_generation_2s() {
    let (_rig, esb) = source(Gen::One);
    refused("generation 1 has no ordered loads", || {
        esb.load(GET | ORDERED)
    });
    let (_rig, esb) = source(Gen::Two);
    assert_eq!(esb.load(GET | ORDERED), 0b00);
}

#[test]
fn a_load_after_a_store_that_ends_is_ordered() {
    for op in [EOI, GET, SET_00, SET_01, SET_10, SET_11] {
        let (_rig, esb) = source(Gen::Two);
        esb.store(STORE_EOI);
        refused("0x40 is missing", || esb.load(op));
        esb.load(op | ORDERED);
        // The store has arrived by now.
        esb.load(op);
    }
}

#[test]
fn queues_pages_are_loaded_from_and_only_of_queues_that_are_set_up() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let _queue = rig.queue(0, 6, 12);
        let args = [rig.pir(0).into(), 6, 0, 0, rig.out(0)];
        assert_eq!(rig.call(call::GET_QUEUE_INFO, &args), 0);
        let pages = rig.model.map(PhysAddr::new(rig.got(0)), 0x2_0000).unwrap();
        for half in [0, 0x1_0000] {
            let load = |offset| Bus::<u64>::load(&pages, half + offset).swap_bytes();
            assert_eq!(load(GET), 0b01);
            assert_eq!(load(SET_10), 0b01);
            assert_eq!(load(SET_11), 0b10);
            assert_eq!(load(EOI), u64::from(half == 0), "forwarded again");
            assert_eq!(load(GET), 0b10);
        }
        assert_eq!(rig.model.ipb(0), 0x02);
        refused("stores to the pages of a queue", || {
            Bus::<u64>::store(&pages, 0, 0);
        });
        refused("wrong width", || Bus::<u32>::load(&pages, GET));
        refused("no such operation", || Bus::<u64>::load(&pages, 0x400));
        let off = [rig.pir(0).into(), 6, 0, 0, 0];
        assert_eq!(rig.call(call::SET_QUEUE_INFO, &off), 0);
        refused("the queue is not set up", || Bus::<u64>::load(&pages, GET));
    }
}

#[test]
fn an_event_for_a_queue_that_is_not_set_up_is_refused() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let girq = rig.ipi(0, 6, 1);
        refused("which is not set up", || rig.esb(girq).fire());
    }
}

#[test]
fn more_is_not_mapped_than_the_pages_of_one_owner() {
    for generation in GENS {
        let rig = Rig::with(1, |xive| xive.generation(generation).lsi(0));
        let [ipi, lsi] = [0x10, rig.model.lsis()[0]].map(|girq| rig.model.esb(girq));
        let map = |at: PhysAddr, len| rig.model.map(at, len);
        assert!(map(ipi, 0x2_0000).is_ok());
        refused("no such pages", || map(ipi, 0x2_1000));
        refused("no such pages", || map(lsi, 0x2_0000));
        refused("no such pages", || map(PhysAddr::new(0x1000), 0x1000));
        refused("no such pages", || map(rig.model.tima(), 0x2_0000));
        rig.model.fail_map(true);
        assert!(map(ipi, 0x2_0000).is_err());
        rig.model.fail_map(false);
        assert!(map(ipi, 0x1000).is_ok());
    }
}
