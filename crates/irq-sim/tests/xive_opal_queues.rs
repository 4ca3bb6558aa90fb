// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware calls about queues.

mod xive_kit;

use std::mem::ManuallyDrop;

use irq_hal::{Bus, PhysAddr};
use irq_sim::xive::{Gen, Pq, call, code};
use xive_kit::*;

#[test]
fn queues_have_four_sizes_and_known_owners() {
    let rig = Rig::new(1, Gen::One);
    let pir = u64::from(rig.pir(0));
    let memory = ManuallyDrop::new(memory(&rig.sim, 0x1_0000));
    let at = memory.device().get();
    let set = |args: [u64; 5]| rig.call(call::SET_QUEUE_INFO, &args);
    assert_eq!(set([pir + 1, 6, at, 12, 3]), code::PARAMETER);
    assert_eq!(set([pir, 8, at, 12, 3]), code::PARAMETER);
    assert_eq!(set([pir, 6, at, 12, 8]), code::PARAMETER);
    for size in [1, 11, 13, 17, 32] {
        assert_eq!(set([pir, 6, at, size, 3]), code::PARAMETER);
    }
    assert_eq!(set([pir, 6, at, 16, 3]), 0);
    assert_eq!(rig.model.queue(pir as u32, 6).size, 16);
}

#[test]
fn the_memory_of_a_queue_is_aligned_zero_and_its_own() {
    let rig = Rig::new(1, Gen::One);
    let pir = u64::from(rig.pir(0));
    let memory = ManuallyDrop::new(memory(&rig.sim, 0x1_0000));
    let at = memory.device().get();
    let set = |prio, at, size| rig.call(call::SET_QUEUE_INFO, &[pir, prio, at, size, 3]);
    refused("not aligned to its size", || set(6, at + 0x1000, 16));
    refused("no such memory", || set(6, 0x1_0000, 16));
    memory.write_u32(0xfffc, 1);
    refused("old entries look new", || set(6, at, 16));
    memory.write_u32(0xfffc, 0);
    assert_eq!(set(6, at, 16), 0);
    refused("is that of", || set(5, at + 0x1000, 12));
    assert_eq!(set(6, at, 16), 0, "the same again");
}

#[test]
fn a_queue_is_read_back_but_for_the_address_on_generation_2() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let queue = rig.queue(0, 6, 16);
        let out = |slot| rig.out(slot);
        let args = [rig.pir(0).into(), 6, out(0), out(1), out(2), out(3), out(4)];
        assert_eq!(rig.call(call::GET_QUEUE_INFO, &args), 0);
        let at = queue.device().get();
        let shown = match generation {
            Gen::One => at,
            Gen::Two => at >> 32 << 32 | (at & 0xffff_ffff) >> 7,
        };
        assert_eq!((rig.got(0), rig.got(1), rig.got(4)), (shown, 16, 3));
        let bit = if generation == Gen::One { 24 } else { 28 };
        assert_eq!(rig.got32(3) >> bit, 1, "an escalation source");
        assert_eq!(rig.call(call::GET_QUEUE_INFO, &[rig.pir(0).into(), 6]), 0);
        let esn = rig.model.map(PhysAddr::new(rig.got(2)), 0x2_0000).unwrap();
        let state = Bus::<u64>::load(&esn, 0x800).swap_bytes();
        assert_eq!(state, 0b01);
    }
}

#[test]
fn a_queue_is_disabled_by_its_flag_not_by_size_0() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let pir = rig.pir(0);
        let set = |size, flags| rig.call(call::SET_QUEUE_INFO, &[pir.into(), 6, 0, size, flags]);
        let _queue = rig.queue(0, 6, 12);
        assert_eq!(set(0, ON | NOTIFY), 0);
        let queue = rig.model.queue(pir, 6);
        assert!(queue.enabled && queue.size == 0 && queue.page == 0);
        // Its events notify, and are written nowhere.
        let girq = rig.ipi(0, 6, 1);
        rig.open(0);
        rig.esb(girq).fire();
        assert_eq!(rig.serve(0, girq), 0x8006);
        assert_eq!(rig.model.written(pir, 6), 0);
        assert_eq!(set(0, ON), 0);
        refused("is lost", || rig.esb(girq).fire());
        assert_eq!(set(0, 0), 0);
        assert!(!rig.model.queue(pir, 6).enabled);
    }
}

#[test]
fn notification_stays_off_when_a_queue_is_set_up_again() {
    for generation in GENS {
        let rig = Rig::new(1, generation);
        let _queue = rig.queue_with(0, 6, 12, ON);
        assert_eq!(rig.model.queue(rig.pir(0), 6).esn, Pq::Off);
        let girq = rig.ipi(0, 6, 1);
        rig.open(0);
        rig.esb(girq).fire();
        assert!(!rig.model.signalled(0), "written, not told");
        assert_eq!(rig.model.written(rig.pir(0), 6), 1);
        let args = [rig.pir(0).into(), 6, 0, 0, rig.out(0)];
        assert_eq!(rig.call(call::GET_QUEUE_INFO, &args), 0);
        let esn = rig.model.map(PhysAddr::new(rig.got(0)), 0x2_0000).unwrap();
        let load = |offset| Bus::<u64>::load(&esn, offset).swap_bytes();
        assert_eq!(load(SET_00), 0b01);
        assert_eq!(rig.esb(girq).load(SET_00), 0b10);
        rig.esb(girq).fire();
        assert!(rig.model.signalled(0));
        let _again = rig.queue_with(0, 6, 12, ON);
        assert_eq!(rig.model.queue(rig.pir(0), 6).esn, Pq::Pending, "kept");
        let off = [rig.pir(0).into(), 6, 0, 0, 0];
        assert_eq!(rig.call(call::SET_QUEUE_INFO, &off), 0);
        let _again = rig.queue_with(0, 6, 12, ON);
        assert_eq!(rig.model.queue(rig.pir(0), 6).esn, Pq::Off);
    }
}

#[test]
fn the_place_of_a_queue_can_be_read_and_set() {
    let rig = Rig::new(1, Gen::Two);
    let pir = u64::from(rig.pir(0));
    let get = || rig.call(call::GET_QUEUE_STATE, &[pir, 6, rig.out(0), rig.out(1)]);
    let set = |generation, index| rig.call(call::SET_QUEUE_STATE, &[pir, 6, generation, index]);
    assert_eq!((get(), set(0, 1)), (code::WRONG_STATE, code::WRONG_STATE));
    let queue = rig.queue(0, 6, 12);
    assert_eq!((get(), rig.got32(0), rig.got32(1)), (0, 1, 0));
    assert_eq!(set(0, 1023), 0);
    let girq = rig.ipi(0, 6, 7);
    rig.esb(girq).fire();
    assert_eq!(rig.entry(&queue, 1023), 7, "generation 0");
    assert_eq!((get(), rig.got32(0), rig.got32(1)), (0, 1, 0), "wrapped");
    refused("of 1024 entries", || set(1, 1024));
}

#[test]
fn memory_of_a_queue_goes_back_after_disabling_and_a_synchronization() {
    let rig = Rig::new(1, Gen::One);
    let girq = rig.call(call::ALLOCATE_IRQ, &[0]) as u64;
    let queue = ManuallyDrop::into_inner(rig.queue(0, 6, 12));
    refused("is still set up there", || drop(queue));
    let queue = ManuallyDrop::into_inner(rig.queue(0, 5, 12));
    let off = [rig.pir(0).into(), 5, 0, 0, 0];
    assert_eq!(rig.call(call::SET_QUEUE_INFO, &off), 0);
    refused("no SYNC of a queue came since", || drop(queue));
    let queue = ManuallyDrop::into_inner(rig.queue(0, 4, 12));
    let off = [rig.pir(0).into(), 4, 0, 0, 0];
    assert_eq!(rig.call(call::SET_QUEUE_INFO, &off), 0);
    assert_eq!(rig.call(call::SYNC, &[2, girq]), 0);
    drop(queue);
}
