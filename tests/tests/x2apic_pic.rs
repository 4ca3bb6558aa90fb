// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 8259s: shut down in the order that loses nothing, and judged when they speak still.

use irq_hal::Error;
use irq_sim::SimPlatform;
use irq_sim::apic::{ApicModel, PortBus};
use irq_sim::log::{Event, Unit};
use irq_tests::x2apic::{Machine, probe_as, vector, with_ipi};
use irq_x2apic::Description;
use irq_x2apic::pic::{Pics8259, SilentPics};

/// A PC as its firmware leaves it, masked.
fn pc() -> (SimPlatform, ApicModel) {
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim).firmware().build();
    sim.set_masked(0, true);
    (sim, model)
}

fn shut_down(model: &ApicModel, base: u8) -> SilentPics<PortBus> {
    let pics = Pics8259::new(model.ports());
    pics.shut_down(vector(base)).unwrap()
}

#[test]
fn both_are_masked_first_then_their_vectors_moved_then_both_masked_for_good() {
    let (sim, model) = pc();
    assert!(!model.pic_masked());
    shut_down(&model, 0x20);
    assert!(model.pic_masked());
    let trace = sim.log().all().on(Unit::Pic);
    let store = |event: &Event| match event {
        Event::Store(access) => (access.offset, access.value),
        other => panic!("{other}"),
    };
    let stores: Vec<_> = trace.events().iter().map(store).collect();
    assert_eq!(stores[..2], [(0x21, 0xff), (0xa1, 0xff)]);
    assert_eq!(stores[2..4], [(0x20, 0x11), (0xa0, 0x11)]);
    assert_eq!(stores[stores.len() - 2..], [(0x21, 0xff), (0xa1, 0xff)]);
}

#[test]
fn the_pin_that_led_to_them_is_masked_after_them_even_while_a_line_asks() {
    let (sim, model) = pc();
    model.pic_line(0, true);
    model.pic_line(12, true);
    let silent = shut_down(&model, 0x20);
    let apic = probe_as(&model, Description::new(silent.silent()), with_ipi()).unwrap();
    let machine = Machine { sim, model, apic };
    // The model lets nobody mask LINT0 in another order.
    machine.online(0).unwrap();
    machine.sim.set_masked(0, false);
    assert_eq!(machine.model.pending(0), None);
    machine.model.pic_line(4, true);
    assert_eq!(machine.model.pending(0), None);
}

#[test]
fn vectors_that_are_exceptions_or_no_block_of_16_are_refused_untouched() {
    let (sim, model) = pc();
    for base in [0x10, 0x18, 0x1f, 0x21, 0x24, 0xf8, 0xff] {
        let pics = Pics8259::new(model.ports());
        let invalid = Error::Invalid {
            what: "first vector of the 8259s",
            value: base.into(),
        };
        assert_eq!(pics.shut_down(vector(base)).err(), Some(invalid));
    }
    assert_eq!(sim.log().all().on(Unit::Pic).events(), []);
    for base in [0x20, 0x28, 0xf0] {
        shut_down(&model, base);
    }
}

#[test]
fn lines_given_for_nothing_are_told_from_real_ones_and_only_what_is_in_service_is_ended() {
    use irq_hal::Bus;
    let (sim, model) = pc();
    let silent = shut_down(&model, 0x20);
    let ports = model.ports();
    let take = |wanted: u8, judged: Option<bool>| {
        sim.set_masked(0, false);
        let taken = model.take(0, |_, number| {
            assert_eq!(number, wanted);
            // The model objects to an end of nothing.
            assert_eq!(silent.end(vector(number)), judged);
        });
        sim.set_masked(0, true);
        assert!(taken, "{wanted:#x}");
    };
    model.pic_spurious(7);
    take(0x27, Some(false));
    // Of the second one: the first has its cascade in service.
    Bus::<u8>::store(&ports, 0x21, 0xfb);
    model.pic_spurious(15);
    take(0x2f, Some(false));
    model.pic_spurious(15);
    take(0x2f, Some(false));
    // Lines that somebody opened after all.
    Bus::<u8>::store(&ports, 0x21, 0x00);
    Bus::<u8>::store(&ports, 0xa1, 0x00);
    for (line, number) in [(1, 0x21), (7, 0x27), (8, 0x28), (15, 0x2f)] {
        model.pic_line(line, true);
        take(number, Some(true));
        model.pic_line(line, false);
    }
    let trace = {
        let mark = sim.log().mark();
        assert_eq!(silent.end(vector(0x30)), None);
        assert_eq!(silent.end(vector(0x1f)), None);
        sim.log().since(mark)
    };
    assert_eq!(trace.events(), []);
}
