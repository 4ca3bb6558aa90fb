// SPDX-License-Identifier: MIT OR Apache-2.0
//! From queues to threads: priorities, acknowledges, CPPR, backlog, the TIMA.

mod xive_kit;

use irq_hal::{Barrier, Bus, PhysAddr};
use irq_sim::Unit;
use irq_sim::xive::{Gen, Pq};
use xive_kit::*;

/// Word 0 of the ring: NSR, CPPR, IPB, LSMFB.
const WORD0: usize = 0x30;

/// One CPU with queues at priorities 5 and 6, and a source for each.
fn two_priorities(generation: Gen) -> (Rig, u32, u32) {
    let rig = Rig::new(1, generation);
    rig.queue(0, 5, 12);
    rig.queue(0, 6, 12);
    let (urgent, plain) = (rig.ipi(0, 5, 1), rig.ipi(0, 6, 2));
    (rig, urgent, plain)
}

fn word0(rig: &Rig) -> u32 {
    Bus::<u32>::load(&rig.tima, WORD0).swap_bytes()
}

#[test]
fn after_reset_a_thread_is_valid_and_closed() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        assert_eq!(Bus::<u8>::load(&rig.tima, 0x38), 0x80);
        assert_eq!(rig.model.cppr(0), 0);
    }
}

#[test]
fn an_acknowledge_returns_status_and_priority_as_two_bytes() {
    for generation in GENS {
        let (rig, _, plain) = two_priorities(generation);
        rig.open(0);
        rig.esb(plain).trigger();
        assert_eq!((rig.model.ipb(0), rig.model.signalled(0)), (0x02, true));
        // Little-endian, as a driver sees it that forgets to swap.
        assert_eq!(Bus::<u16>::load(&rig.tima, ACK), 0x0680);
        assert_eq!((rig.model.cppr(0), rig.model.ipb(0)), (6, 0));
        assert!(!rig.model.signalled(0));
    }
}

#[test]
fn a_closed_processor_takes_nothing_until_it_opens() {
    for generation in GENS {
        let (rig, _, plain) = two_priorities(generation);
        rig.esb(plain).trigger();
        assert_eq!((rig.model.ipb(0), rig.model.signalled(0)), (0x02, false));
        rig.open(0);
        assert!(rig.model.signalled(0));
        assert_eq!(rig.ack(0), 0x8006);
    }
}

#[test]
fn only_a_more_favoured_priority_is_delivered() {
    for generation in GENS {
        let (rig, urgent, plain) = two_priorities(generation);
        rig.cppr(0, 6);
        rig.esb(plain).trigger();
        assert!(!rig.model.signalled(0), "priority 6 at CPPR 6");
        rig.esb(urgent).trigger();
        assert!(rig.model.signalled(0), "priority 5 at CPPR 6");
        assert_eq!(rig.ack(0), 0x8005);
        rig.cppr(0, 6);
        assert!(!rig.model.signalled(0));
        rig.cppr(0, 7);
        assert_eq!(rig.ack(0), 0x8006);
    }
}

#[test]
fn a_more_favoured_priority_nests() {
    let (rig, urgent, plain) = two_priorities(Gen::One);
    rig.open(0);
    rig.esb(plain).trigger();
    assert_eq!(rig.ack(0), 0x8006);
    rig.esb(urgent).trigger();
    assert_eq!(rig.ack(0), 0x8005);
    rig.cppr(0, 6);
    assert!(!rig.model.signalled(0));
    rig.open(0);
    assert_eq!(rig.ack(0), 0x00ff);
}

#[test]
fn many_events_of_one_priority_are_one_exception() {
    let rig = Rig::new(1, Gen::One);
    let queue = rig.queue(0, 6, 12);
    let sources = [1, 2, 3].map(|data| rig.ipi(0, 6, data));
    rig.open(0);
    for girq in sources {
        rig.esb(girq).trigger();
    }
    assert_eq!(rig.ack(0), 0x8006);
    rig.open(0);
    assert!(!rig.model.signalled(0));
    let entries = [0, 1, 2].map(|index| rig.entry(&queue, index) & !(1 << 31));
    assert_eq!(entries, [1, 2, 3]);
}

#[test]
fn an_acknowledge_takes_one_priority_and_leaves_the_others() {
    let (rig, urgent, plain) = two_priorities(Gen::Two);
    rig.open(0);
    rig.esb(plain).trigger();
    rig.esb(urgent).trigger();
    assert_eq!(rig.model.ipb(0), 0x06);
    assert_eq!(rig.ack(0), 0x8005);
    assert_eq!(rig.model.ipb(0), 0x02);
}

#[test]
fn a_spurious_acknowledge_has_no_status_and_changes_nothing() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        rig.cppr(0, 7);
        rig.model.inject_spurious(0);
        assert!(rig.model.signalled(0));
        assert_eq!(rig.ack(0), 0x0007);
        assert!(!rig.model.signalled(0));
    }
}

#[test]
fn a_pending_bit_may_have_no_entry_behind_it() {
    let rig = Rig::new(1, Gen::One);
    let queue = rig.queue(0, 6, 12);
    rig.open(0);
    rig.model.inject_ipb(0, 6);
    assert_eq!(rig.ack(0), 0x8006);
    assert_eq!(rig.entry(&queue, 0), 0);
}

#[test]
fn an_acknowledge_of_a_closed_processor_may_raise_its_priority() {
    let rig = Rig::with(1, |xive| xive.sticky_nsr(true));
    rig.queue(0, 6, 12);
    let girq = rig.ipi(0, 6, 1);
    rig.open(0);
    rig.esb(girq).trigger();
    rig.cppr(0, 0);
    assert!(rig.model.signalled(0));
    assert_eq!(rig.ack(0), 0x8006);
    assert_eq!(rig.model.cppr(0), 6);
}

#[test]
fn events_for_a_thread_that_is_not_valid_wait_and_are_not_presented_again() {
    for generation in GENS {
        let (rig, _, plain) = two_priorities(generation);
        rig.open(0);
        rig.model.set_valid(0, false);
        rig.esb(plain).trigger();
        assert_eq!((rig.model.ipb(0), rig.model.signalled(0)), (0, false));
        Bus::<u8>::store(&rig.tima, 0x38, 0x80);
        rig.open(0);
        assert!(!rig.model.signalled(0));
        assert_eq!(rig.model.written(rig.pir(0), 6), 1);
    }
}

#[test]
fn the_exception_needs_hvice_and_an_open_interrupt_mask() {
    let (rig, _, plain) = two_priorities(Gen::One);
    rig.open(0);
    rig.esb(plain).trigger();
    rig.model.set_hvice(0, false);
    assert!(rig.model.signalled(0));
    assert!(!rig.model.take(0, |_| panic!("taken without HVICE")));
    rig.model.set_hvice(0, true);
    rig.sim.set_masked(0, true);
    assert!(!rig.model.take(0, |_| panic!("taken while masked")));
    rig.sim.set_masked(0, false);
    assert!(rig.model.take(0, |_| {
        assert!(rig.sim.masked(0));
        rig.serve(0, plain);
    }));
    assert!(!rig.sim.masked(0));
    assert!(!rig.model.take(0, |_| panic!("taken twice")));
}

#[test]
fn an_event_crosses_chips_and_is_counted() {
    for generation in GENS {
        let rig = Rig::with(4, |xive| xive.generation(generation).chips(2));
        rig.queue(3, 6, 12);
        let far = rig.ipi(3, 6, 1);
        rig.queue(0, 6, 12);
        let near = rig.ipi(0, 6, 2);
        rig.route(near, 3, 6, 2);
        rig.open(3);
        rig.sim.as_cpu(0, |_| rig.esb(far).fire());
        assert_eq!(rig.model.forwarded(1, 1), 1);
        rig.sim.as_cpu(0, |_| rig.esb(near).fire());
        assert_eq!(rig.model.forwarded(0, 1), 1);
        assert!(rig.model.signalled(3) && !rig.model.signalled(0));
        assert_eq!(rig.serve(3, far), 0x8006);
        assert_eq!(rig.model.pq(near), Pq::Pending);
    }
}

#[test]
fn an_event_in_flight_stays_with_its_old_target() {
    let rig = Rig::new(2, Gen::One);
    let (old, new) = (rig.queue(0, 6, 12), rig.queue(1, 6, 12));
    let girq = rig.ipi(0, 6, 7);
    rig.open(0);
    rig.open(1);
    let esb = rig.esb(girq);
    esb.trigger();
    rig.route(girq, 1, 6, 7);
    esb.fire();
    assert!(rig.model.signalled(0) && !rig.model.signalled(1));
    assert_eq!((rig.entry(&old, 0), rig.entry(&new, 0)), (0x8000_0007, 0));
    rig.serve(0, girq);
    assert!(rig.model.signalled(1), "what waited goes to the new target");
    assert_eq!(rig.entry(&new, 0), 0x8000_0007);
}

#[test]
fn raw_accesses_show_the_ring_without_what_the_page_hides() {
    let (rig, _, plain) = two_priorities(Gen::One);
    rig.open(0);
    rig.esb(plain).trigger();
    assert_eq!(word0(&rig), 0x80ff_0200);
    let low = Bus::<u32>::load(&rig.tima, 0x34).swap_bytes();
    assert_eq!(low, 0x0000_0006, "PIPR, the rest is hidden");
    let both = Bus::<u64>::load(&rig.tima, WORD0).swap_bytes();
    assert_eq!(both, 0x80ff_0200_0000_0006);
    assert_eq!(Bus::<u32>::load(&rig.tima, 0x38).swap_bytes(), 0x8000_0000);
    refused("hides all", || Bus::<u32>::load(&rig.tima, 0x3c));
    // PIPR is read-only.
    Bus::<u32>::store(&rig.tima, 0x34, 0x1234_5678_u32.swap_bytes());
    let low = Bus::<u32>::load(&rig.tima, 0x34).swap_bytes();
    assert_eq!(low, 0x0034_0006);
}

#[test]
fn a_raw_store_evaluates_nothing() {
    let (rig, _, plain) = two_priorities(Gen::One);
    rig.esb(plain).trigger();
    Bus::<u32>::store(&rig.tima, WORD0, 0x00ff_0200_u32.swap_bytes());
    assert_eq!((rig.model.cppr(0), rig.model.signalled(0)), (0xff, false));
    rig.open(0);
    assert!(rig.model.signalled(0));
}

#[test]
fn pipr_after_an_acknowledge_is_old_or_new() {
    for (recomputed, expected) in [(false, 6), (true, 0xff)] {
        let rig = Rig::with(1, |xive| xive.pipr_recomputed(recomputed));
        rig.queue(0, 6, 12);
        let girq = rig.ipi(0, 6, 1);
        rig.open(0);
        rig.esb(girq).trigger();
        rig.ack(0);
        let low = Bus::<u32>::load(&rig.tima, 0x34).swap_bytes();
        assert_eq!(low & 0xff, expected);
    }
}

#[test]
fn each_cpu_reaches_its_own_ring_at_the_same_address() {
    let rig = Rig::new(2, Gen::Two);
    rig.cppr(1, 3);
    assert_eq!((rig.model.cppr(0), rig.model.cppr(1)), (0, 3));
    let seen = rig.sim.log().all();
    let cpu = irq_hal::CpuIndex::new;
    assert_eq!(seen.stores(Unit::Tima(cpu(1))), 1);
    assert_eq!(seen.accesses() - seen.loads(Unit::Opal), 1);
}

#[test]
fn accesses_of_another_width_or_place_are_refused() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let tima = &rig.tima;
        refused("wrong width", || Bus::<u8>::load(tima, CPPR));
        refused("wrong width", || Bus::<u16>::load(tima, WORD0));
        refused("wrong width", || Bus::<u32>::load(tima, ACK));
        refused("TIMA(cpu0)+0x831", || Bus::<u8>::load(tima, ACK + 1));
        refused("wrong width", || Bus::<u16>::store(tima, WORD0, 0));
        refused("no such operation", || Bus::<u32>::load(tima, 0x00));
        refused("no such operation", || Bus::<u16>::load(tima, 0x810));
        refused("no such operation", || Bus::<u32>::load(tima, 0xb0));
        refused("no such operation", || Bus::<u16>::store(tima, ACK, 0));
        refused("bits beside VT", || Bus::<u8>::store(tima, 0x38, 0xc0));
        refused("not aligned", || Bus::<u32>::load(tima, 0x32));
    }
}

#[test]
fn cppr_takes_eight_levels_and_open() {
    let rig = Rig::new(1, Gen::One);
    for level in (0..8).chain([0xff]) {
        rig.cppr(0, level);
        assert_eq!(rig.model.cppr(0), level);
    }
    for level in [8, 9, 0x80, 0xfe] {
        refused("CPPR above 7", || rig.cppr(0, level));
    }
    refused("CPPR above 7", || {
        Bus::<u32>::store(&rig.tima, WORD0, 0x0008_0000_u32.swap_bytes());
    });
}

#[test]
fn generation_2_wants_the_thread_valid_before_cppr() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        rig.model.set_valid(0, false);
        match generation {
            Gen::One => rig.open(0),
            Gen::Two => refused("CPPR is set before VT", || rig.open(0)),
        }
    }
}

#[test]
fn a_ring_of_another_cpu_cannot_be_used() {
    let rig = Rig::new(2, Gen::One);
    let other = rig.tima.clone().only_for(1);
    refused("the window of cpu1", || Bus::<u8>::store(&other, CPPR, 0));
    rig.sim.as_cpu(1, |_| Bus::<u8>::store(&other, CPPR, 0));
}

#[test]
fn an_interrupt_ends_with_the_interrupted_priority() {
    for generation in GENS {
        let (rig, urgent, plain) = two_priorities(generation);
        rig.open(0);
        rig.esb(plain).trigger();
        refused("not restored", || {
            rig.model.take(0, |_| {
                rig.ack(0);
            })
        });
        let rig = rig;
        rig.sim.set_masked(0, false);
        // CPPR is 6: opening wider than 6 from inside a nested interrupt is refused.
        rig.esb(urgent).trigger();
        rig.ack(0);
        rig.cppr(0, 6);
        rig.open(0);
    }
}

#[test]
fn a_nested_interrupt_must_not_open_its_interrupted_one() {
    let (rig, urgent, plain) = two_priorities(Gen::One);
    rig.cppr(0, 7);
    rig.esb(plain).trigger();
    rig.ack(0);
    rig.esb(urgent).trigger();
    rig.ack(0);
    refused("beyond the interrupted level", || rig.open(0));
}

#[test]
fn an_acknowledge_is_synchronized_before_what_follows() {
    let rig = Rig::new(1, Gen::One);
    rig.queue(0, 6, 12);
    let girq = rig.ipi(0, 6, 1);
    rig.open(0);
    let esb = rig.esb(girq);
    esb.trigger();
    assert_eq!(Bus::<u16>::load(&rig.tima, ACK), 0x0680);
    refused("no isync", || esb.load(GET));
    refused("no isync", || Bus::<u8>::store(&rig.tima, CPPR, 0xff));
    rig.tima.synchronize();
    esb.load(SET_00);
    rig.open(0);
    // A spurious one needs nothing.
    assert_eq!(Bus::<u16>::load(&rig.tima, ACK).swap_bytes(), 0x00ff);
    esb.load(GET);
}

#[test]
fn space_without_pages_cannot_be_used() {
    let rig = Rig::new(1, Gen::One);
    refused("where no", || {
        let hole = rig.model.map(PhysAddr::new(0x6_0200_0000_0000), 0x1000);
        Bus::<u64>::load(&hole.unwrap(), 0)
    });
    let part = rig.model.map(rig.model.tima(), 0x800).unwrap();
    refused("of a window of 0x800 bytes", || {
        Bus::<u16>::load(&part, ACK)
    });
}
