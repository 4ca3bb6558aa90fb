// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware calls: what they answer, what they leave, and what is wrong with them.

mod xive_kit;

use irq_sim::xive::{Gen, Pq, SourceSpec, call, code, flags};
use irq_sim::{SimPlatform, Unit};
use xive_kit::*;

/// All calls of the controller but the reset.
const CALLS: [u64; 16] = [
    call::GET_IRQ_INFO,
    call::GET_IRQ_CONFIG,
    call::SET_IRQ_CONFIG,
    call::GET_QUEUE_INFO,
    call::SET_QUEUE_INFO,
    call::DONATE_PAGE,
    call::ALLOCATE_VP_BLOCK,
    call::FREE_VP_BLOCK,
    call::GET_VP_INFO,
    call::SET_VP_INFO,
    call::ALLOCATE_IRQ,
    call::FREE_IRQ,
    call::SYNC,
    call::DUMP,
    call::GET_QUEUE_STATE,
    call::SET_QUEUE_STATE,
];

fn allocate(rig: &Rig) -> u32 {
    rig.call(call::ALLOCATE_IRQ, &[0xffff_ffff])
        .try_into()
        .expect("a source")
}

#[test]
fn nothing_works_on_generation_1_before_a_reset_to_exploitation() {
    let rig = Rig::booted(&SimPlatform::new(1), |xive| xive);
    let all_refused = || {
        for number in CALLS {
            assert_eq!(rig.call(number, &[]), code::WRONG_STATE, "call {number}");
        }
        assert_eq!(rig.call(call::INT_EOI, &[0x10]), code::WRONG_STATE);
        assert_eq!(rig.call(call::POLL_EVENTS, &[]), 0);
    };
    all_refused();
    assert_eq!(rig.call(call::RESET, &[1]), 0);
    assert!(rig.call(call::ALLOCATE_IRQ, &[0]) >= 0);
    assert_eq!(rig.call(call::RESET, &[0]), 0);
    all_refused();
}

#[test]
fn generation_2_has_no_other_mode() {
    let rig = Rig::booted(&SimPlatform::new(1), |xive| xive.generation(Gen::Two));
    assert!(rig.call(call::ALLOCATE_IRQ, &[0]) >= 0);
    assert_eq!(rig.call(call::RESET, &[0]), 0);
    assert!(rig.call(call::ALLOCATE_IRQ, &[0]) >= 0);
    for wrong in [2, 3, 1 << 32] {
        assert_eq!(rig.call(call::RESET, &[wrong]), code::PARAMETER);
    }
}

#[test]
fn a_reset_wipes_queues_routes_allocations_and_closes_the_threads() {
    for generation in GENS {
        let rig = Rig::with(2, |xive| xive.generation(generation).msi(0));
        let queue = rig.queue(0, 6, 12);
        let girq = rig.ipi(0, 6, 1);
        let untouched = rig.model.msis()[0];
        rig.model.switch_on(untouched);
        rig.open(0);
        rig.model.set_valid(1, false);
        assert_eq!(rig.call(call::RESET, &[1]), 0);
        assert!(!rig.model.queue(rig.pir(0), 6).enabled);
        assert!(rig.model.eas(girq).masked);
        assert_eq!(rig.model.pq(girq), Pq::Off);
        assert_eq!(rig.model.pq(untouched), Pq::Reset, "never configured");
        assert_eq!(rig.model.allocated(0), []);
        assert_eq!([0, 1].map(|cpu| rig.model.cppr(cpu)), [0, 0]);
        // The memory is its owner's again.
        drop(std::mem::ManuallyDrop::into_inner(queue));
    }
}

#[test]
fn information_about_a_source_is_big_endian_and_covers_both_pages() {
    for (generation, shift) in [(Gen::One, 12), (Gen::Two, 16)] {
        let rig = Rig::with(2, |xive| {
            xive.generation(generation)
                .chips(2)
                .chip_ids(&[0, 8])
                .lsi(1)
                .msi(1)
        });
        let info = |girq: u32| {
            let out = |slot| rig.out(slot);
            let args = [girq.into(), out(0), out(1), out(2), out(3), out(4)];
            assert_eq!(rig.call(call::GET_IRQ_INFO, &args), 0);
            (
                rig.got(0),
                rig.got(1),
                rig.got(2),
                rig.got32(3),
                rig.got32(4),
            )
        };
        let ipi = allocate(&rig);
        let base = rig.model.esb(ipi).get();
        let store = if generation == Gen::Two { 0x40 } else { 0 };
        assert_eq!(info(ipi), (0x01 | store, base + 0x1_0000, base, 17, 0));
        let lsi = rig.model.lsis()[0];
        let base = rig.model.esb(lsi).get();
        assert_eq!(info(lsi), (0x04 | store, base, 0, shift, 8));
        let msi = rig.model.msis()[0];
        let base = rig.model.esb(msi).get();
        let expected = match generation {
            Gen::One => (0, base, base, 16, 8),
            Gen::Two => (0x41, base + 0x1_0000, base, 17, 8),
        };
        assert_eq!(info(msi), expected);
    }
}

#[test]
fn null_pointers_are_passed_over_and_others_must_be_aligned_memory() {
    let rig = Rig::new(1, Gen::One);
    let girq = u64::from(allocate(&rig));
    assert_eq!(rig.call(call::GET_IRQ_INFO, &[girq]), 0);
    let get = |at: u64| rig.call(call::GET_IRQ_INFO, &[girq, at]);
    refused("not aligned", || get(rig.out(0) + 4));
    refused("no memory there", || get(0x1000));
}

#[test]
fn routing_is_checked_and_read_back() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let (girq, pir) = (u64::from(allocate(&rig)), u64::from(rig.pir(0)));
        let set = |args: [u64; 4]| rig.call(call::SET_IRQ_CONFIG, &args);
        assert_eq!(set([0x12_3456, pir, 6, 1]), code::PARAMETER);
        assert_eq!(set([girq, pir + 1, 6, 1]), code::PARAMETER);
        assert_eq!(set([girq, 1 << 31 | pir, 6, 1]), code::PARAMETER, "a group");
        for prio in [8, 0x80, 0xfe] {
            assert_eq!(set([girq, pir, prio, 1]), code::PARAMETER);
        }
        refused("event data 0", || set([girq, pir, 6, 0]));
        refused("does not fit 31 bits", || set([girq, pir, 6, 1 << 31]));
        refused("32-bit argument", || set([1 << 32 | girq, pir, 6, 1]));
        // A queue that is not set up yet is none of this call's business.
        assert_eq!(set([girq, pir, 6, 0x7fff_ffff]), 0);
        let get = || {
            let out = [girq, rig.out(0), rig.out(1), rig.out(2)];
            assert_eq!(rig.call(call::GET_IRQ_CONFIG, &out), 0);
            (rig.got(0), rig.scratch.read_u32(8) as u8, rig.got32(2))
        };
        assert_eq!(get(), (pir, 0, 0x7fff_ffff), "the priority says nothing");
        let _queue = rig.queue(0, 6, 12);
        assert_eq!(get(), (pir, 6, 0x7fff_ffff));
        assert_eq!(rig.model.pq(girq as u32), Pq::Off, "left alone");
        assert_eq!(set([girq, pir, 0xff, 0]), 0);
        assert_eq!(get(), (pir, 0xff, 0));
        assert_eq!(set([girq, pir + 1, 0xff, 0]), code::PARAMETER);
    }
}

#[test]
fn a_source_is_off_before_it_is_unrouted() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let _queue = rig.queue(0, 6, 12);
        let girq = rig.ipi(0, 6, 1);
        let mask = || {
            rig.call(
                call::SET_IRQ_CONFIG,
                &[girq.into(), rig.pir(0).into(), 0xff, 0],
            )
        };
        refused("PQ=01 comes first", mask);
        rig.esb(girq).load(SET_10);
        refused("PQ=01 comes first", mask);
        rig.esb(girq).load(SET_01);
        assert_eq!(mask(), 0);
        // Masked already, it may be anything.
        rig.esb(girq).load(SET_00);
        assert_eq!(mask(), 0);
    }
}

#[test]
fn an_event_of_an_unrouted_source_is_lost_and_its_p_stays() {
    let rig = Rig::new(1, Gen::One);
    let girq = rig.ipi(0, 6, 1);
    rig.esb(girq).load(SET_01);
    let args = [girq.into(), rig.pir(0).into(), 0xff, 0];
    assert_eq!(rig.call(call::SET_IRQ_CONFIG, &args), 0);
    rig.esb(girq).load(SET_00);
    rig.esb(girq).fire();
    assert_eq!((rig.model.pq(girq), rig.model.lost(girq)), (Pq::Pending, 1));
}

#[test]
fn sources_are_allocated_on_their_chip_until_none_is_left() {
    for generation in GENS {
        let rig = Rig::with(2, |xive| {
            xive.generation(generation)
                .chips(2)
                .chip_ids(&[3, 5])
                .ipis(2)
        });
        let from = |chip: u64| rig.call(call::ALLOCATE_IRQ, &[chip]);
        let shift = if generation == Gen::One { 20 } else { 24 };
        assert_eq!([from(3), from(3)], [0x10, 0x11]);
        assert_eq!(from(3), code::RESOURCE);
        assert_eq!(from(0xffff_ffff), 1 << shift);
        assert_eq!(from(5), 1 << shift | 1);
        assert_eq!(from(0xffff_ffff), code::RESOURCE);
        assert_eq!(from(0), code::PARAMETER, "no such chip");
        assert_eq!(rig.model.allocated(1), [1 << shift, 1 << shift | 1]);
        assert_eq!(rig.call(call::FREE_IRQ, &[0x10]), 0);
        assert_eq!(from(3), 0x10);
        assert_eq!(rig.model.allocated(0), [0x11, 0x10]);
    }
    let rig = Rig::with(1, |xive| xive.ipis(0).minus_one_when_exhausted(true));
    assert_eq!(rig.call(call::ALLOCATE_IRQ, &[0]), 0xffff_ffff);
}

#[test]
fn freeing_what_was_not_allocated_masks_it_and_is_an_error_then() {
    let rig = Rig::with(1, |xive| xive.msi(0));
    let _queue = rig.queue(0, 6, 12);
    let msi = rig.model.msis()[0];
    rig.route(msi, 0, 6, 1);
    rig.esb(msi).load(SET_00);
    assert_eq!(rig.call(call::FREE_IRQ, &[msi.into()]), code::PARAMETER);
    assert!(rig.model.eas(msi).masked);
    assert_eq!(rig.model.pq(msi), Pq::Off);
    let ipi = rig.ipi(0, 6, 2);
    assert_eq!(rig.call(call::FREE_IRQ, &[ipi.into()]), 0);
    assert!(rig.model.eas(ipi).masked);
    assert_eq!(rig.model.pq(ipi), Pq::Off);
    assert_eq!(rig.call(call::FREE_IRQ, &[ipi.into()]), code::PARAMETER);
    assert_eq!(rig.call(call::FREE_IRQ, &[0x12_3456]), code::PARAMETER);
}

#[test]
fn virtual_processors_come_in_blocks_after_provisioning() {
    for generation in GENS {
        let rig = Rig::with(1, |xive| xive.generation(generation).provision(1));
        let allocate = |order| rig.call(call::ALLOCATE_VP_BLOCK, &[order]);
        assert_eq!(allocate(2), code::PROVISIONING);
        let page = memory(&rig.sim, 0x1_0000);
        let at = page.device().get();
        let donate = |chip, at| rig.call(call::DONATE_PAGE, &[chip, at]);
        assert_eq!(donate(1, at), code::PARAMETER);
        assert_eq!(donate(0, at + 0x1000), code::PARAMETER);
        assert_eq!(donate(0, at), 0);
        let base = allocate(2);
        assert_eq!(base, 1 << 30 | 2 << 24);
        let next = allocate(0);
        assert_eq!(next, 1 << 30 | 4);
        let info = |vp: i64| {
            let args = [vp as u64, rig.out(0), rig.out(1), rig.out(2), rig.out(3)];
            assert_eq!(rig.call(call::GET_VP_INFO, &args), 0);
            (rig.got(0), rig.got(1) & 0x4000_0000 != 0)
        };
        let restored = generation == Gen::Two;
        assert_eq!(info(base), (if restored { 4 } else { 0 }, restored));
        let enable = |vp: i64, flags| rig.call(call::SET_VP_INFO, &[vp as u64, flags, 0]);
        assert_eq!(enable(base + 3, 1), 0);
        assert_eq!(enable(base + 4, 1), code::PARAMETER, "beyond the block");
        assert_eq!(enable(rig.pir(0).into(), 0), code::PARAMETER, "a thread's");
        assert_eq!(enable(base, 8), code::PARAMETER);
        let free = |vp: i64| rig.call(call::FREE_VP_BLOCK, &[vp as u64]);
        assert_eq!(free(base), code::FREE_ACTIVE);
        assert_eq!(free(base + 1), code::PARAMETER, "not its first");
        assert_eq!(enable(base + 3, 0), 0);
        assert_eq!((free(base), free(base)), (0, code::PARAMETER));
        assert_eq!(free(rig.pir(0).into()), code::PARAMETER);
        // The page is firmware's until the next reset, and the rest goes with it.
        assert_eq!(rig.call(call::RESET, &[1]), 0);
        drop(page);
        assert_eq!(free(next), code::PARAMETER);
        assert_eq!(allocate(2), code::PROVISIONING);
    }
}

#[test]
fn a_donated_page_is_firmwares_until_a_reset() {
    let rig = Rig::new(1, Gen::One);
    let page = memory(&rig.sim, 0x1_0000);
    let at = page.device().get();
    assert_eq!(rig.call(call::DONATE_PAGE, &[0, at]), 0);
    refused("firmware was given it", || drop(page));
}

#[test]
fn events_for_a_virtual_processor_that_runs_nowhere_wait_in_its_state() {
    let rig = Rig::new(1, Gen::One);
    let vp = rig.call(call::ALLOCATE_VP_BLOCK, &[0]) as u64;
    assert_eq!(rig.call(call::SET_QUEUE_INFO, &[vp, 6, 0, 0, 3]), 0);
    let girq = allocate(&rig);
    assert_eq!(rig.call(call::SET_IRQ_CONFIG, &[girq.into(), vp, 6, 1]), 0);
    rig.esb(girq).load(SET_00);
    rig.esb(girq).fire();
    assert_eq!(rig.call(call::GET_VP_STATE, &[vp, rig.out(0)]), 0);
    assert_eq!(rig.got(0), 0x02 << 40);
    let args = [rig.pir(0).into(), rig.out(0), rig.out(1), 0, rig.out(3)];
    assert_eq!(rig.call(call::GET_VP_INFO, &args), 0);
    assert_eq!(
        (rig.got(0), rig.got(1)),
        (1, u64::from(0x80 | rig.pir(0) & 0x7f))
    );
}

#[test]
fn a_synchronization_names_a_type_and_a_source() {
    let rig = Rig::new(1, Gen::One);
    let girq = u64::from(allocate(&rig));
    let sync = |kind, girq| rig.call(call::SYNC, &[kind, girq]);
    assert_eq!([sync(1, girq), sync(2, girq)], [0, 0]);
    assert_eq!([sync(0, girq), sync(3, girq)], [code::PARAMETER; 2]);
    assert_eq!(sync(1, 0x12_3456), code::PARAMETER);
    assert_eq!(
        [rig.call(call::DUMP, &[5]), rig.call(call::DUMP, &[6])],
        [0, code::PARAMETER]
    );
}

#[test]
fn a_source_that_firmware_ends_and_masks_is_left_to_it() {
    let spec = |flag| SourceSpec::msi(Gen::One, 0).flags(flag);
    let rig = Rig::with(1, |xive| {
        xive.source(spec(flags::EOI_VIA_FIRMWARE))
            .source(spec(flags::MASK_VIA_FIRMWARE))
    });
    let _queue = rig.queue(0, 6, 12);
    let [ended, masked] = [0, 1].map(|n| rig.model.extra()[n]);
    rig.route(ended, 0, 6, 1);
    rig.model.switch_on(ended);
    rig.model.line(ended).pulse();
    rig.model.line(ended).pulse();
    let esb = rig.esb(ended);
    refused("ended by OPAL_INT_EOI alone", || esb.load(SET_00));
    refused("ended by OPAL_INT_EOI alone", || esb.load(EOI));
    // The number may come with a priority of the older controller above it.
    assert_eq!(rig.call(call::INT_EOI, &[(0x05 << 24 | ended).into()]), 0);
    assert_eq!(rig.model.pq(ended), Pq::Pending, "forwarded again");
    assert_eq!(rig.call(call::INT_EOI, &[ended.into()]), 0);
    assert_eq!(rig.model.pq(ended), Pq::Reset);
    assert_eq!(rig.call(call::INT_EOI, &[0x12_3456]), code::PARAMETER);
    rig.route(masked, 0, 6, 2);
    rig.model.switch_on(masked);
    let esb = rig.esb(masked);
    refused("masked by SET_IRQ_CONFIG alone", || esb.load(SET_01));
    let args = [masked.into(), rig.pir(0).into(), 0xff, 0];
    assert_eq!(rig.call(call::SET_IRQ_CONFIG, &args), 0);
    assert_eq!(rig.model.pq(masked), Pq::Off);
}

#[test]
fn a_busy_firmware_answers_so_and_does_nothing() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        rig.model.busy(call::ALLOCATE_IRQ, 2);
        let allocate = || rig.call(call::ALLOCATE_IRQ, &[0]);
        assert_eq!([allocate(), allocate()], [code::BUSY; 2]);
        assert_eq!(rig.model.allocated(0), []);
        assert!(allocate() >= 0);
    }
}

#[test]
fn firmware_that_waits_for_events_gets_on_by_polls_alone() {
    let rig = Rig::new(1, Gen::One);
    rig.model.busy_event(call::ALLOCATE_IRQ, 2);
    let allocate = || rig.call(call::ALLOCATE_IRQ, &[0]);
    let poll = || rig.call(call::POLL_EVENTS, &[rig.out(0)]);
    assert_eq!([allocate(), allocate(), allocate()], [code::BUSY_EVENT; 3]);
    rig.scratch.write_u64(0, !0);
    assert_eq!((poll(), rig.got(0)), (0, 0));
    assert_eq!(allocate(), code::BUSY_EVENT);
    assert_eq!(poll(), 0);
    assert!(allocate() >= 0);
}

#[test]
fn faults_come_once_after_some_calls_or_for_ever() {
    let rig = Rig::new(1, Gen::One);
    let sync = || rig.call(call::SYNC, &[1, 0x10]);
    rig.model.answer_nth(call::SYNC, 1, code::HARDWARE);
    rig.model.answer(call::SYNC, 7);
    assert_eq!([sync(), sync(), sync()], [0, code::HARDWARE, 7]);
    rig.model.answer_always(call::SYNC, code::INTERNAL_ERROR);
    assert_eq!([sync(), sync()], [code::INTERNAL_ERROR; 2]);
    rig.model.heal(call::SYNC);
    assert_eq!(sync(), 0);
}

#[test]
fn calls_are_logged_with_their_answer_and_charged() {
    let rig = Rig::new(1, Gen::One);
    let mark = rig.sim.log().mark();
    let girq = allocate(&rig);
    let trace = rig.sim.log().since(mark);
    let access = *trace.events()[0].access().unwrap();
    assert_eq!(access.unit, Unit::Opal);
    assert_eq!(access.offset as u64, call::ALLOCATE_IRQ);
    assert_eq!(access.value, u64::from(girq));
    assert_eq!(trace.cost(), u64::from(rig.sim.costs().local));
    assert_eq!((trace.accesses(), trace.mmio()), (1, 0));
}

#[test]
fn a_call_that_is_none_is_refused() {
    let rig = Rig::new(1, Gen::Two);
    refused("not modelled", || rig.call(1, &[]));
}
