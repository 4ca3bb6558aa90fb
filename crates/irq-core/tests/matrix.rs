// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vector matrix: each operation, and what it does to the accounts. All invariants are checked
//! after each step.
#![cfg(not(loom))]

mod matrix_common;

use irq_core::cpu::NodeId;
use irq_core::matrix::{Entry, Setup, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, NoCpu};
use matrix_common::{ALL, Live, PLATFORM, Rig, cpu, irq, mask, slot, wanted};

#[test]
fn a_cpu_comes_with_all_vectors_but_the_system_vectors_of_the_area() {
    let rig = Rig::offline_with(&Setup::new(3));
    assert_eq!(rig.matrix.available(), 0);
    for index in 0..3 {
        rig.online(index).unwrap();
        assert_eq!(rig.account(index), [ALL, 0, 0, 0]);
        assert_eq!(rig.matrix.available(), ALL * (index + 1));
    }
    // Those outside of the area do not count.
    let system = [0x80, 0x20, 0x31, 0x80, 0xec, 0xff];
    let rig = Rig::with(&Setup {
        system: &system,
        ..Setup::new(1)
    });
    assert_eq!(rig.account(0), [ALL - 2, 0, 0, 0]);
    assert_eq!(rig.matrix.capacity(), ALL - 2);
}

#[test]
fn a_cpu_that_goes_leaves_the_sums_and_keeps_its_own_accounts() {
    let rig = Rig::new(2);
    rig.alloc(1, &[1]).unwrap();
    rig.reserve_managed(&[1]).unwrap();
    rig.alloc_managed(2, &[1]).unwrap();
    assert_eq!(rig.matrix.available(), 2 * ALL - 2);
    rig.offline(1);
    assert_eq!(rig.matrix.available(), ALL);
    assert_eq!(rig.account(1), [ALL - 2, 1, 1, 2]);
    rig.online(1).unwrap();
    assert_eq!(rig.matrix.available(), 2 * ALL - 2);
    assert_eq!(rig.account(1), [ALL - 2, 1, 1, 2]);
}

#[test]
fn a_reservation_takes_a_vector_of_every_cpu_of_the_mask_online_or_not() {
    let rig = Rig::new(200);
    (100..200).for_each(|index| rig.matrix.offline(&PLATFORM, cpu(index)).unwrap());
    let cpus = [3, 63, 64, 99, 100, 150, 199];
    rig.reserve_managed(&cpus).unwrap();
    for index in 0..200 {
        let expected = match cpus.contains(&index) {
            true => [ALL - 1, 1, 0, 0],
            false => [ALL, 0, 0, 0],
        };
        assert_eq!(rig.account(index), expected, "{index}");
    }
    assert_eq!(rig.matrix.available(), 100 * ALL - 4);
    rig.remove_managed(&cpus).unwrap();
    for index in 0..200 {
        assert_eq!(rig.account(index), [ALL, 0, 0, 0]);
    }
    assert_eq!(rig.matrix.available(), 100 * ALL);
}

#[test]
fn a_set_without_words_in_a_row_is_reserved_alike() {
    let rig = Rig::new(130);
    let cpus = mask(&[1, 64, 129]);
    rig.step(|matrix| matrix.reserve_managed(&PLATFORM, &Live(&cpus)))
        .unwrap();
    for index in [1, 64, 129] {
        assert_eq!(rig.account(index), [ALL - 1, 1, 0, 0]);
    }
    assert_eq!(rig.matrix.available(), 130 * ALL - 3);
    let beyond = mask(&[1, 130]);
    let error = rig.step(|matrix| matrix.reserve_managed(&PLATFORM, &Live(&beyond)));
    assert_eq!(error, Err(Error::NoSuchCpu { cpu: cpu(130) }));
    rig.step(|matrix| matrix.remove_managed(&PLATFORM, &Live(&cpus)))
        .unwrap();
    assert_eq!(rig.matrix.available(), 130 * ALL);
}

#[test]
fn reservations_of_cpus_with_different_gaps_find_different_vectors() {
    let rig = Rig::new(3);
    let slots: Vec<_> = (0..4).map(|n| rig.alloc(n, &[0]).unwrap()).collect();
    rig.free(slots[1], 1).unwrap();
    rig.alloc(9, &[2]).unwrap();
    rig.reserve_managed(&[0, 1, 2]).unwrap();
    let vectors = [0, 1, 2].map(|index| rig.alloc_managed(50 + index, &[index]).unwrap().vector);
    assert_eq!(vectors, [0x21, 0x20, 0x21]);
}

#[test]
fn a_managed_interrupt_uses_what_is_reserved_and_takes_nothing_that_is_available() {
    let rig = Rig::new(4);
    rig.reserve_managed(&[1, 2]).unwrap();
    let available = rig.matrix.available();
    let slot = rig.alloc_managed(7, &[1, 2]).unwrap();
    assert_eq!(rig.account(slot.cpu.get()), [ALL - 1, 1, 1, 1]);
    assert_eq!(rig.matrix.available(), available);
    assert_eq!(rig.matrix.entry(slot.cpu, slot.vector), Entry::Irq(irq(7)));
    rig.free(slot, 7).unwrap();
    assert_eq!(rig.account(slot.cpu.get()), [ALL - 1, 1, 0, 0]);
    assert_eq!(rig.matrix.available(), available);
    // The reservation is there for the next.
    assert!(rig.matrix.has_spare(slot.cpu));
    assert_eq!(rig.alloc_managed(8, &[slot.cpu.get()]), Ok(slot));
}

#[test]
fn a_regular_interrupt_goes_where_most_is_available_and_counts_there() {
    let rig = Rig::new(3);
    rig.alloc(0, &[0]).unwrap();
    rig.reserve_managed(&[1]).unwrap();
    rig.reserve_managed(&[1]).unwrap();
    let slot = rig.alloc(0, &[0, 1, 2]).unwrap();
    assert_eq!(slot.cpu, cpu(2));
    assert_eq!(rig.account(2), [ALL - 1, 0, 0, 1]);
    assert_eq!(rig.matrix.available(), 3 * ALL - 4);
    assert_eq!(rig.matrix.entry(slot.cpu, slot.vector), Entry::Irq(irq(0)));
    rig.free(slot, 0).unwrap();
    assert_eq!(rig.account(2), [ALL, 0, 0, 0]);
    assert_eq!(rig.matrix.available(), 3 * ALL - 3);
}

#[test]
fn managed_and_regular_vectors_are_counted_apart() {
    let rig = Rig::new(2);
    // CPU 0 has many regular interrupts, CPU 1 a managed one.
    for number in 0..5 {
        rig.alloc(number, &[0]).unwrap();
    }
    rig.reserve_managed(&[0, 1]).unwrap();
    rig.reserve_managed(&[0, 1]).unwrap();
    assert_eq!(rig.alloc_managed(20, &[1]).unwrap().cpu, cpu(1));
    assert_eq!(rig.alloc_managed(21, &[0, 1]).unwrap().cpu, cpu(0));
    assert_eq!(rig.alloc(22, &[0, 1]).unwrap().cpu, cpu(1));
}

#[test]
fn vectors_are_handed_out_from_the_lowest_and_no_system_vector_among_them() {
    let rig = Rig::with(&Setup {
        first: 0x7e,
        end: 0x84,
        system: &[0x80, 0x83],
        ..Setup::new(1)
    });
    let vectors = [1, 2, 3, 4].map(|number| rig.alloc(number, &[0]).unwrap().vector);
    assert_eq!(vectors, [0x7e, 0x7f, 0x81, 0x82]);
    assert_eq!(rig.alloc(5, &[0]), Err(NoCpu::Full.into()));
    rig.free(slot(0, 0x7f), 2).unwrap();
    rig.free(slot(0, 0x82), 4).unwrap();
    assert_eq!(rig.alloc(6, &[0]).unwrap().vector, 0x7f);
    assert_eq!(rig.alloc(7, &[0]).unwrap().vector, 0x82);
}

#[test]
fn reserved_interrupts_are_counted_and_take_no_vector() {
    let rig = Rig::new(1);
    assert_eq!(rig.matrix.shutdown_vector(), 0xef);
    assert_eq!(rig.matrix.reserve(), Ok(1));
    assert_eq!(rig.matrix.reserve(), Ok(2));
    assert_eq!(rig.account(0), [ALL, 0, 0, 0]);
    let slot = rig.activate(5, &[0]).unwrap();
    assert_eq!(
        (rig.matrix.reserved(), rig.matrix.available()),
        (1, ALL - 1)
    );
    assert_ne!(slot.vector, rig.matrix.shutdown_vector());
    // Deactivated, it is reserved again.
    rig.step(|matrix| matrix.free_to_reserved(&PLATFORM, slot, irq(5)))
        .unwrap();
    assert_eq!((rig.matrix.reserved(), rig.matrix.available()), (2, ALL));
    assert_eq!(rig.matrix.remove_reserved(), Ok(1));
    assert_eq!(rig.matrix.remove_reserved(), Ok(0));
}

#[test]
fn one_that_was_never_reserved_can_be_activated_at_once() {
    let rig = Rig::new(1);
    rig.matrix.reserve().unwrap();
    // A device that may raise it before its driver asks for it.
    rig.alloc(5, &[0]).unwrap();
    assert_eq!(
        (rig.matrix.reserved(), rig.matrix.available()),
        (1, ALL - 1)
    );
}

#[test]
fn a_reservation_is_kept_when_its_activation_fails() {
    let rig = Rig::with(&Setup {
        first: 0x40,
        end: 0x41,
        ..Setup::new(1)
    });
    rig.matrix.reserve().unwrap();
    rig.alloc(1, &[0]).unwrap();
    assert_eq!(rig.activate(5, &[0]), Err(NoCpu::Full.into()));
    assert_eq!(rig.matrix.reserved(), 1);
    // And one that was not made is an error.
    rig.free(slot(0, 0x40), 1).unwrap();
    rig.matrix.remove_reserved().unwrap();
    assert!(matches!(
        rig.activate(5, &[0]),
        Err(Error::Invalid { value: 0, .. })
    ));
    assert!(rig.matrix.remove_reserved().is_err());
    assert_eq!(rig.matrix.reserved(), 0);
    // Nor does a free that fails leave one.
    let freed = rig.step(|matrix| matrix.free_to_reserved(&PLATFORM, slot(0, 0x40), irq(1)));
    assert!(freed.is_err());
    assert_eq!(rig.matrix.reserved(), 0);
}

#[test]
fn a_vector_is_assigned_on_the_cpu_that_has_it_and_nowhere_else() {
    let rig = Rig::new(2);
    assert_eq!(rig.assign(1, 0x30, 4), Ok(slot(1, 0x30)));
    assert_eq!(rig.account(1), [ALL - 1, 0, 0, 1]);
    assert_eq!(rig.account(0), [ALL, 0, 0, 0]);
    assert_eq!(rig.matrix.entry(cpu(1), 0x30), Entry::Irq(irq(4)));
    // It is not handed out again.
    let vectors: Vec<_> = (0..30)
        .map(|n| rig.alloc(n, &[1]).unwrap().vector)
        .collect();
    assert!(!vectors.contains(&0x30));
    rig.free(slot(1, 0x30), 4).unwrap();
    assert_eq!(rig.account(1), [ALL - 30, 0, 0, 30]);
}

#[test]
fn system_vectors_are_told_while_at_most_one_cpu_is_online() {
    let rig = Rig::offline_with(&Setup::new(70));
    rig.assign_system(0x33, false).unwrap();
    rig.assign_system(0xf0, false).unwrap();
    rig.online(69).unwrap();
    assert_eq!(rig.account(69), [ALL - 1, 0, 0, 0]);
    assert_eq!(rig.account(3), [ALL - 1, 0, 0, 0]);
    let too_late = rig.assign_system(0x34, false);
    assert!(matches!(too_late, Err(Error::Context { .. })));
    // To replace is still possible.
    rig.assign(69, 0x34, 4).unwrap();
    assert_eq!(rig.account(69), [ALL - 2, 0, 0, 1]);
    rig.assign_system(0x34, true).unwrap();
    assert_eq!(rig.account(69), [ALL - 2, 0, 0, 0]);
    assert_eq!(rig.account(0), [ALL - 2, 0, 0, 0]);
    assert_eq!(rig.matrix.entry(cpu(69), 0x34), Entry::Unused);
    rig.online(0).unwrap();
    rig.assign(69, 0x35, 5).unwrap();
    let too_late = rig.assign_system(0x35, true);
    assert!(matches!(too_late, Err(Error::Context { .. })));
    // All that is left can be handed out, and no more.
    for number in 0..ALL - 2 {
        let vector = rig.alloc(number, &[0]).unwrap().vector;
        assert!(![0x33, 0x34, 0x80].contains(&vector));
    }
    assert_eq!(rig.alloc(999, &[0]), Err(NoCpu::Full.into()));
}

#[test]
fn a_vector_that_is_in_use_or_reserved_anywhere_becomes_no_system_vector() {
    let rig = Rig::offline_with(&Setup::new(130));
    let busy = Err(Error::Busy { what: "the vector" });
    rig.reserve_managed(&[129]).unwrap();
    assert_eq!(rig.assign_system(0x20, false), busy);
    rig.online(0).unwrap();
    rig.reserve_managed(&[0]).unwrap();
    assert_eq!(rig.assign_system(0x20, true), busy);
    rig.assign(0, 0x21, 5).unwrap();
    rig.online(129).unwrap();
    rig.assign(129, 0x21, 6).unwrap();
    rig.offline(129);
    // Dormant on the one, to be replaced on the other.
    assert_eq!(rig.assign_system(0x21, true), busy);
    assert_eq!(rig.account(0), [ALL - 2, 1, 0, 1]);
    rig.free(slot(129, 0x21), 6).unwrap();
    rig.assign_system(0x21, true).unwrap();
    assert_eq!(rig.account(0), [ALL - 2, 1, 0, 0]);
    assert_eq!(rig.account(129), [ALL - 2, 1, 0, 0]);
    assert!(rig.assign_system(0x21, true).is_err());
}

#[test]
fn the_node_of_the_device_comes_first_and_isolated_cpus_last() {
    let rig = Rig::new(24);
    let near = |number, node| Wanted {
        near: Some(NodeId::new(node)),
        irq: irq(number),
        among: Among::Machine,
    };
    for number in 0..8 {
        let wanted = near(number, 1);
        let slot = rig.step(|matrix| matrix.alloc(&PLATFORM, &wanted, false));
        assert_eq!(slot.unwrap().cpu.get() / 8, 1);
    }
    for index in 8..24 {
        rig.matrix.isolate(&PLATFORM, cpu(index), true).unwrap();
        rig.check();
    }
    let wanted = near(8, 1);
    let slot = rig.step(|matrix| matrix.alloc(&PLATFORM, &wanted, false));
    assert_eq!(slot.unwrap().cpu.get() / 8, 0);
    assert_eq!(rig.alloc(9, &[9, 20]).unwrap().cpu, cpu(20));
}

#[test]
fn nothing_goes_to_a_cpu_that_is_offline() {
    let rig = Rig::new(3);
    rig.reserve_managed(&[0, 1]).unwrap();
    rig.offline(0);
    assert_eq!(rig.alloc(1, &[0]), Err(NoCpu::Offline.into()));
    assert_eq!(rig.alloc_managed(1, &[0]), Err(NoCpu::Offline.into()));
    assert_eq!(rig.alloc_managed(1, &[0, 1]).unwrap().cpu, cpu(1));
    assert!(!rig.matrix.has_spare(cpu(0)));
    assert_eq!(rig.alloc(2, &[0, 2]).unwrap().cpu, cpu(2));
    assert_eq!(
        rig.assign(0, 0x40, 9),
        Err(Error::CpuOffline { cpu: cpu(0) })
    );
    rig.online(0).unwrap();
    assert!(rig.matrix.has_spare(cpu(0)));
}

#[test]
fn a_freed_vector_may_still_be_hit_on_a_cpu_that_is_online_only() {
    let rig = Rig::new(2);
    let slots = [0, 1].map(|index| rig.alloc(index, &[index]).unwrap());
    rig.offline(1);
    rig.free(slots[0], 0).unwrap();
    rig.free(slots[1], 1).unwrap();
    assert_eq!(rig.matrix.entry(cpu(0), 0x20), Entry::Shutdown);
    assert_eq!(rig.matrix.entry(cpu(1), 0x20), Entry::Unused);
    // What was late before a CPU went is not late any more.
    rig.offline(0);
    assert_eq!(rig.matrix.entry(cpu(0), 0x20), Entry::Shutdown);
    rig.online(0).unwrap();
    assert_eq!(rig.matrix.entry(cpu(0), 0x20), Entry::Unused);
    // A second online call is an error and forgets nothing.
    let slot = rig.alloc(2, &[0]).unwrap();
    rig.free(slot, 2).unwrap();
    assert!(rig.online(0).is_err());
    assert_eq!(rig.matrix.entry(cpu(0), slot.vector), Entry::Shutdown);
}

#[test]
fn an_interrupt_that_was_raised_elsewhere_is_marked_until_the_cpu_returns() {
    let rig = Rig::new(2);
    let old = rig.alloc(3, &[1]).unwrap();
    let retriggered = |number| rig.step(|matrix| matrix.retriggered(&PLATFORM, old, irq(number)));
    assert!(retriggered(4).is_err());
    retriggered(3).unwrap();
    let entry = Entry::Retriggered(irq(3));
    assert_eq!(rig.matrix.entry(old.cpu, old.vector), entry);
    assert_eq!(entry.owner(), Some(irq(3)));
    rig.offline(1);
    rig.online(1).unwrap();
    assert_eq!(rig.matrix.entry(old.cpu, old.vector), Entry::Irq(irq(3)));
    // Marked or not, its owner frees it.
    retriggered(3).unwrap();
    rig.free(old, 3).unwrap();
    assert!(retriggered(3).is_err());
}

#[test]
fn all_vectors_of_all_cpus_can_be_had_by_any_mix() {
    let rig = Rig::new(66);
    let all: Vec<_> = (0..66).collect();
    let cpus = mask(&all);
    // Without the check after each: there are 13,398.
    for _ in 0..50 {
        rig.matrix.reserve_managed(&PLATFORM, &cpus).unwrap();
    }
    let mut regular = 0;
    let full = loop {
        match rig.matrix.alloc(&PLATFORM, &wanted(regular, &cpus), false) {
            Ok(_) => regular += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, NoCpu::Full.into());
    assert_eq!(regular, 66 * (ALL - 50));
    for number in 0..66 * 50 {
        let wanted = wanted(100_000 + number, &cpus);
        rig.matrix.alloc_managed(&PLATFORM, &wanted).unwrap();
    }
    let one_more = rig.matrix.alloc_managed(&PLATFORM, &wanted(1, &cpus));
    assert_eq!(one_more, Err(NoCpu::Full.into()));
    rig.check();
    assert_eq!(rig.matrix.allocated(&PLATFORM), 66 * ALL);
    for index in all {
        assert_eq!(rig.account(index), [0, 50, 50, ALL]);
    }
}
