// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defects that vector matrices had, each with the test that it would fail. All invariants are
//! checked after each step.
//!
//! | defect | test |
//! |---|---|
//! | A1: a CPU that went lost its bitmap | `a1_a_cpu_that_goes_keeps_its_dormant_vectors` |
//! | A3: an empty mask gave CPU 0 | `a3_an_empty_mask_gives_no_cpu` |
//! | A4: the first CPU of a mask got everything | `a4_interrupts_of_equal_devices_spread_over_their_masks` |
//! | A5: a free of what was free moved counts | `a5_a_free_of_what_is_free_changes_nothing` |
//! | A6: the cascade got a vector | `a6_the_cascade_gets_no_vector_by_any_call` |
//! | A7: managed vectors counted as to be moved | `a7_managed_vectors_need_not_be_moved` |
//! | A8: an old vector leaked when its CPU went | `a8_the_old_vector_of_a_move_is_freed_on_a_cpu_that_went` |
//! | A9: a pending move lost its old vector | `a9_the_old_and_the_new_slot_of_a_move_are_freed_once_each` |
//! | A12: the mask was honoured later | `a12_the_mask_is_honoured_by_the_call_itself` |
//! | A15: legacy vectors were no system vectors | `a15_a_legacy_vector_becomes_a_system_vector` |
//! | A16: an entry was cleared over a new one | `a16_an_entry_is_read_again_before_it_is_cleared` |
//! | W8: accounts drifted while a CPU was offline | `w8_...`, three |
//! | W9: the total grew by frees on offline CPUs | `w9_what_is_freed_on_a_cpu_that_is_offline_leaves_the_total` |
//! | W10: one system vector beyond the end | `w10_the_vector_behind_the_last_is_not_counted` |
//! | W11: no other CPU was tried | `w11_a_cpu_without_a_reservation_to_spare_is_passed_over` |
//! | W12: a reservation of another was removed | `w12_a_reservation_that_nobody_has_to_spare_is_not_removed` |
#![cfg(not(loom))]

mod matrix_common;

use std::collections::BTreeMap;

use irq_core::IrqRange;
use irq_core::cpu::CpuMask;
use irq_core::matrix::{Entry, Setup, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, NoCpu};
use matrix_common::{ALL, PLATFORM, Rig, cpu, irq, mask, slot};

#[test]
fn a1_a_cpu_that_goes_keeps_its_dormant_vectors() {
    for rig in [Rig::new(2), Rig::compatible(2)] {
        let dormant = rig.alloc(1, &[1]).unwrap();
        let restarted = rig.alloc(2, &[1]).unwrap();
        rig.offline(1);
        assert_eq!(rig.account(1), [ALL - 2, 0, 0, 2]);
        rig.online(1).unwrap();
        // With a fresh bitmap the next one would get the vector of the first, and both would free
        // it.
        let other = rig.alloc(3, &[1]).unwrap();
        assert!(other != dormant && other != restarted);
        rig.free(dormant, 1).unwrap();
        rig.free(restarted, 2).unwrap();
        rig.free(other, 3).unwrap();
        assert_eq!(rig.account(1), [ALL, 0, 0, 0]);
    }
}

#[test]
fn a3_an_empty_mask_gives_no_cpu() {
    for rig in [Rig::new(1), Rig::compatible(1)] {
        let empty = Err(Error::NoCpu {
            why: NoCpu::EmptyMask,
        });
        assert_eq!(rig.alloc(1, &[]), empty);
        assert_eq!(rig.alloc_managed(1, &[]), empty);
        assert_eq!(rig.alloc_block(1, &[], 4), empty);
        assert_eq!(rig.reserve_managed(&[]), Err(NoCpu::EmptyMask.into()));
        assert_eq!(rig.remove_managed(&[]), Err(NoCpu::EmptyMask.into()));
        // Nor one that is empty where there are CPUs.
        assert_eq!(rig.alloc(1, &[1, 64, 5000]), empty);
    }
}

#[test]
fn a4_interrupts_of_equal_devices_spread_over_their_masks() {
    // Eight devices of two queues on 16 CPUs. By what is available all of them would get the
    // first, or last, CPU of each mask: 2 CPUs with 8 each.
    let halves = [0, 8].map(|first| (first..first + 8).collect::<Vec<_>>());
    for rig in [Rig::new(16), Rig::compatible(16)] {
        for _ in 0..8 {
            for half in &halves {
                rig.reserve_managed(half).unwrap();
            }
        }
        let mut used = BTreeMap::new();
        for device in 0..8 {
            for (queue, half) in (0..).zip(&halves) {
                let slot = rig.alloc_managed(device * 2 + queue, half).unwrap();
                *used.entry(slot.cpu).or_insert(0) += 1;
            }
        }
        assert_eq!(used.len(), 16);
        assert!(used.values().all(|count| *count == 1));
        // Regular ones spread too.
        let all: Vec<_> = (0..16).collect();
        for number in 100..132 {
            rig.alloc(number, &all).unwrap();
        }
        for index in all {
            assert_eq!(rig.account(index), [ALL - 10, 8, 1, 3]);
        }
    }
}

#[test]
fn a5_a_free_of_what_is_free_changes_nothing() {
    let rig = Rig::new(2);
    let regular = rig.alloc(1, &[0]).unwrap();
    rig.reserve_managed(&[0]).unwrap();
    let managed = rig.alloc_managed(2, &[0]).unwrap();
    for (slot, number) in [(regular, 1), (managed, 2)] {
        rig.free(slot, number).unwrap();
        for again in 0..3 {
            let error = rig.free(slot, number).unwrap_err();
            let value = u64::from(slot.vector);
            assert!(
                matches!(error, Error::Invalid { value: v, .. } if v == value),
                "{again} {error}"
            );
        }
    }
    // Once more with an online call in between, after which nothing is late.
    rig.offline(0);
    rig.online(0).unwrap();
    assert!(rig.free(regular, 1).is_err());
    assert_eq!(rig.account(0), [ALL - 1, 1, 0, 0]);
}

#[test]
fn a6_the_cascade_gets_no_vector_by_any_call() {
    let refused = [
        IrqRange::new(irq(2), 1).unwrap(),
        IrqRange::new(irq(40), 2).unwrap(),
    ];
    let rig = Rig::with(&Setup {
        refused: &refused,
        system: &[0x80, 0x32],
        ..Setup::new(1)
    });
    rig.reserve_managed(&[0]).unwrap();
    for number in [2, 40, 41] {
        let refused = |error: Error| {
            let value = u64::from(number);
            assert_eq!(
                error,
                Error::Invalid {
                    what: "irq with a vector",
                    value
                }
            );
        };
        refused(rig.alloc(number, &[0]).unwrap_err());
        refused(rig.alloc_managed(number, &[0]).unwrap_err());
        refused(rig.assign(0, 0x40, number).unwrap_err());
        refused(rig.alloc_block(number, &[0], 1).unwrap_err());
    }
    // Nor in the middle of a block, nor the vector that it had.
    assert!(rig.alloc_block(0, &[0], 4).is_err());
    assert!(rig.alloc_block(3, &[0], 4).is_ok());
    assert_eq!(
        rig.assign(0, 0x32, 3),
        Err(Error::Busy { what: "the vector" })
    );
    assert_eq!(rig.account(0), [ALL - 6, 1, 0, 4]);
}

#[test]
fn a7_managed_vectors_need_not_be_moved() {
    let rig = Rig::new(2);
    let to_move = || rig.matrix.to_move(&PLATFORM, cpu(1)).unwrap();
    for number in 0..150 {
        rig.matrix.reserve_managed(&PLATFORM, &mask(&[1])).unwrap();
        let among = mask(&[1]);
        let wanted = matrix_common::wanted(number, &among);
        rig.matrix.alloc_managed(&PLATFORM, &wanted).unwrap();
    }
    assert_eq!(to_move(), 0);
    rig.alloc(200, &[1]).unwrap();
    rig.alloc(201, &[1]).unwrap();
    assert_eq!(to_move(), 2);
    for number in 300..500 {
        let among = mask(&[0]);
        let wanted = matrix_common::wanted(number, &among);
        rig.matrix.alloc(&PLATFORM, &wanted, false).unwrap();
    }
    rig.check();
    // 152 would not fit into the 3 that are left elsewhere.
    assert_eq!(rig.matrix.available_without(cpu(1)), 3);
    assert!(to_move() <= rig.matrix.available_without(cpu(1)));
    // Of a CPU that is offline nothing is subtracted.
    rig.offline(1);
    assert_eq!(rig.matrix.available_without(cpu(1)), 3);
    assert_eq!(to_move(), 2);
}

#[test]
fn a8_the_old_vector_of_a_move_is_freed_on_a_cpu_that_went() {
    let rig = Rig::new(2);
    for round in 0..300 {
        // More rounds than there are vectors.
        let old = rig.alloc(round, &[1]).unwrap();
        let new = rig.alloc(round, &[0]).unwrap();
        rig.offline(1);
        rig.free(old, round).unwrap();
        rig.online(1).unwrap();
        rig.free(new, round).unwrap();
    }
    assert_eq!(rig.account(1), [ALL, 0, 0, 0]);
}

#[test]
fn a9_the_old_and_the_new_slot_of_a_move_are_freed_once_each() {
    let rig = Rig::new(1);
    let old = rig.alloc(7, &[0]).unwrap();
    // On the same CPU, even.
    let new = rig.alloc(7, &[0]).unwrap();
    let third = rig.alloc(7, &[0]).unwrap();
    assert!(old != new && new != third && old != third);
    rig.free(old, 7).unwrap();
    assert!(rig.free(old, 7).is_err());
    assert_eq!(rig.matrix.entry(new.cpu, new.vector), Entry::Irq(irq(7)));
    // Handed to somebody else, the old one is not this interrupt's to free.
    assert_eq!(rig.alloc(8, &[0]), Ok(old));
    assert!(rig.free(old, 7).is_err());
    rig.free(new, 7).unwrap();
    rig.free(third, 7).unwrap();
    assert_eq!(rig.account(0), [ALL - 1, 0, 0, 1]);
}

#[test]
fn a12_the_mask_is_honoured_by_the_call_itself() {
    for rig in [Rig::new(80), Rig::compatible(80)] {
        rig.reserve_managed(&[66, 70]).unwrap();
        // CPUs without any load are left aside.
        for (number, cpus) in [(1, [79, 9]), (2, [9, 65]), (3, [65, 79])] {
            for _ in 0..2 {
                let slot = rig.alloc(number, &cpus).unwrap();
                assert!(cpus.contains(&slot.cpu.get()));
            }
        }
        let slot = rig.alloc_managed(4, &[9, 70]).unwrap();
        assert_eq!(slot.cpu, cpu(70));
        let slot = rig.alloc_block(5, &[64, 79], 8).unwrap();
        assert_eq!(slot.cpu, cpu(64));
    }
}

#[test]
fn a15_a_legacy_vector_becomes_a_system_vector() {
    let rig = Rig::offline_with(&Setup::new(3));
    rig.online(0).unwrap();
    for number in 0..16 {
        rig.assign(0, 0x30 + number, u32::from(number)).unwrap();
    }
    assert_eq!(rig.account(0), [ALL - 16, 0, 0, 16]);
    for vector in 0x30..0x40 {
        assert!(rig.assign_system(vector, false).is_err());
        rig.assign_system(vector, true).unwrap();
        // Not one more is available: it goes from the one account to the other.
        assert_eq!(rig.matrix.available(), ALL - 16);
    }
    assert_eq!(rig.account(0), [ALL - 16, 0, 0, 0]);
    assert_eq!(rig.matrix.allocated(&PLATFORM), 0);
    assert_eq!(rig.matrix.entry(cpu(0), 0x30), Entry::Unused);
    assert!(rig.free(slot(0, 0x30), 0).is_err());
    // Neither here nor on CPUs that come later is it handed out.
    for index in [1, 2] {
        rig.online(index).unwrap();
        assert_eq!(rig.account(index), [ALL - 16, 0, 0, 0]);
    }
    let vectors: Vec<_> = (0..30)
        .map(|n| rig.alloc(n, &[2]).unwrap().vector)
        .collect();
    assert!(vectors.iter().all(|vector| !(0x30..0x40).contains(vector)));
    // What is not in use is not replaced.
    let rig = Rig::new(1);
    assert!(rig.assign_system(0x30, true).is_err());
    assert_eq!(rig.account(0), [ALL, 0, 0, 0]);
}

#[test]
fn a16_an_entry_is_read_again_before_it_is_cleared() {
    let rig = Rig::new(1);
    let old = rig.alloc(1, &[0]).unwrap();
    rig.free(old, 1).unwrap();
    // The entry of an interrupt finds the vector shut down ...
    assert_eq!(rig.matrix.entry(old.cpu, old.vector), Entry::Shutdown);
    // ... and before it clears that, the vector gets an owner.
    assert_eq!(rig.alloc(2, &[0]), Ok(old));
    let settle = || {
        rig.step(|matrix| matrix.settle(&PLATFORM, old.cpu, old.vector))
            .unwrap()
    };
    assert_eq!(settle(), Entry::Irq(irq(2)));
    assert_eq!(rig.matrix.entry(old.cpu, old.vector), Entry::Irq(irq(2)));
    // Without one it is cleared, once.
    rig.free(old, 2).unwrap();
    assert_eq!(settle(), Entry::Shutdown);
    assert_eq!(settle(), Entry::Unused);
}

/// Under the old rule, by which a reservation on a CPU that is offline left its account alone:
/// 203 available with 201 free, and 205 of 203 in the end.
#[test]
fn w8_reservations_made_while_a_cpu_is_offline_count_when_it_returns() {
    for rig in [Rig::new(1), Rig::compatible(1)] {
        rig.offline(0);
        rig.reserve_managed(&[0]).unwrap();
        rig.reserve_managed(&[0]).unwrap();
        rig.online(0).unwrap();
        assert_eq!(rig.account(0), [201, 2, 0, 0]);
        assert_eq!(rig.matrix.available(), 201);
        rig.remove_managed(&[0]).unwrap();
        rig.remove_managed(&[0]).unwrap();
        assert_eq!(rig.account(0), [203, 0, 0, 0]);
        assert_eq!(rig.matrix.available(), 203);
    }
}

/// Under the old rule: 202 available with 203 free.
#[test]
fn w8_a_reservation_removed_while_a_cpu_is_offline_is_available_when_it_returns() {
    for rig in [Rig::new(1), Rig::compatible(1)] {
        rig.reserve_managed(&[0]).unwrap();
        assert_eq!(rig.account(0), [202, 1, 0, 0]);
        rig.offline(0);
        rig.remove_managed(&[0]).unwrap();
        rig.online(0).unwrap();
        assert_eq!(rig.account(0), [203, 0, 0, 0]);
        let vectors = (0..203).map(|n| {
            let among = mask(&[0]);
            let wanted = matrix_common::wanted(n, &among);
            rig.matrix.alloc(&PLATFORM, &wanted, false)
        });
        assert_eq!(vectors.filter(Result::is_ok).count(), 203);
        assert_eq!(rig.account(0), [0, 0, 0, 203]);
    }
}

/// Under the old rule number 387 fails, with 10 available on CPU 1, of which none is free, and 9
/// left on CPU 0.
#[test]
fn w8_all_that_is_free_can_be_had_after_reservations_on_a_cpu_that_was_offline() {
    for rig in [Rig::new(2), Rig::compatible(2)] {
        rig.offline(1);
        for _ in 0..10 {
            rig.reserve_managed(&[1]).unwrap();
        }
        rig.online(1).unwrap();
        assert_eq!(rig.matrix.available(), 396);
        let both = mask(&[0, 1]);
        for number in 0..396 {
            let wanted = matrix_common::wanted(number, &both);
            let slot = rig.matrix.alloc(&PLATFORM, &wanted, false);
            assert!(slot.is_ok(), "{number} {slot:?}");
        }
        assert_eq!(rig.alloc(396, &[0, 1]), Err(NoCpu::Full.into()));
        assert_eq!(rig.account(0), [0, 0, 0, 203]);
        assert_eq!(rig.account(1), [0, 10, 0, 193]);
    }
}

/// Under the old rule 2 are allocated in the end.
#[test]
fn w9_what_is_freed_on_a_cpu_that_is_offline_leaves_the_total() {
    let rig = Rig::new(2);
    rig.reserve_managed(&[1]).unwrap();
    let slots = [
        (rig.alloc(1, &[1]).unwrap(), 1),
        (rig.alloc_managed(2, &[1]).unwrap(), 2),
    ];
    assert_eq!(rig.matrix.allocated(&PLATFORM), 2);
    rig.offline(1);
    assert_eq!(rig.matrix.allocated(&PLATFORM), 2);
    for (slot, number) in slots {
        rig.free(slot, number).unwrap();
    }
    assert_eq!(rig.matrix.allocated(&PLATFORM), 0);
    rig.online(1).unwrap();
    assert_eq!(rig.matrix.allocated(&PLATFORM), 0);
}

/// Under the old rule the number behind the last was accepted as one of the area. Here it is a
/// system vector like any outside, and counts nowhere; and where the area ends with the last
/// vector of all there is no number behind it.
#[test]
fn w10_the_vector_behind_the_last_is_not_counted() {
    let rig = Rig::offline_with(&Setup::new(1));
    rig.assign_system(0xec, false).unwrap();
    assert_eq!(rig.account(0), [ALL, 0, 0, 0]);
    rig.assign_system(0xeb, false).unwrap();
    assert_eq!(rig.account(0), [ALL - 1, 0, 0, 0]);
    let rig = Rig::offline_with(&Setup {
        first: 0xfd,
        end: 0x100,
        system: &[],
        shutdown: 0x20,
        ..Setup::new(1)
    });
    rig.assign_system(0xff, false).unwrap();
    rig.online(0).unwrap();
    assert_eq!(rig.account(0), [2, 0, 0, 0]);
    let vectors = [1, 2].map(|number| rig.alloc(number, &[0]).unwrap().vector);
    assert_eq!(vectors, [0xfd, 0xfe]);
    assert_eq!(rig.alloc(3, &[0]), Err(NoCpu::Full.into()));
}

/// Under the old rule CPU 0 is picked, which has the fewest in use and nothing reserved, and the
/// call fails.
#[test]
fn w11_a_cpu_without_a_reservation_to_spare_is_passed_over() {
    for rig in [Rig::new(3), Rig::compatible(3)] {
        for _ in 0..3 {
            rig.reserve_managed(&[1]).unwrap();
        }
        rig.reserve_managed(&[2]).unwrap();
        let all = [0, 1, 2];
        let cpus = [1, 2, 3, 4].map(|number| rig.alloc_managed(number, &all).unwrap().cpu.get());
        let on = |wanted| cpus.iter().filter(|cpu| **cpu == wanted).count();
        assert_eq!([on(0), on(1), on(2)], [0, 3, 1]);
        assert_eq!(rig.alloc_managed(5, &all), Err(NoCpu::Full.into()));
    }
}

/// Under the old rule a CPU without one was left out with a warning, and the rest removed.
#[test]
fn w12_a_reservation_that_nobody_has_to_spare_is_not_removed() {
    let rig = Rig::new(200);
    let refused = |cpu: u64| {
        Err(Error::Invalid {
            what: "CPU to remove a reservation from",
            value: cpu,
        })
    };
    rig.reserve_managed(&[0, 1, 70, 199]).unwrap();
    // In use, and never made; in the first bank, and in a later one.
    let slot = rig.alloc_managed(1, &[70]).unwrap();
    assert_eq!(rig.remove_managed(&[0, 1, 70, 199]), refused(70));
    assert_eq!(rig.remove_managed(&[0, 1, 198, 199]), refused(198));
    assert_eq!(rig.remove_managed(&[0, 1, 5, 6]), refused(5));
    for index in [0, 1, 199] {
        assert_eq!(rig.account(index), [ALL - 1, 1, 0, 0]);
        assert!(rig.matrix.has_spare(cpu(index)));
    }
    // Not even which vector is reserved: 21H, while 20H is free by now.
    rig.assign(3, 0x20, 9).unwrap();
    rig.reserve_managed(&[3]).unwrap();
    rig.free(matrix_common::slot(3, 0x20), 9).unwrap();
    assert_eq!(rig.remove_managed(&[3, 198]), refused(198));
    rig.remove_managed(&[3]).unwrap();
    rig.free(slot, 1).unwrap();
    rig.remove_managed(&[0, 1, 70, 199]).unwrap();
    assert_eq!(rig.remove_managed(&[0]), refused(0));
    assert_eq!(rig.matrix.available(), 200 * ALL);
}

#[test]
fn a_reservation_that_fails_on_one_cpu_is_undone_on_the_others() {
    let rig = Rig::new(200);
    let full = CpuMask::try_new(200).map(|mut full| {
        full.insert(cpu(130)).unwrap();
        full
    });
    let full = full.unwrap();
    for _ in 0..ALL {
        rig.matrix.reserve_managed(&PLATFORM, &full).unwrap();
    }
    rig.check();
    let error = rig.reserve_managed(&[3, 4, 64, 129, 130, 199]);
    assert_eq!(
        error,
        Err(Error::Full {
            what: "vectors of a CPU",
            capacity: ALL
        })
    );
    for index in [3, 4, 64, 129, 199] {
        assert_eq!(rig.account(index), [ALL, 0, 0, 0]);
        assert!(!rig.matrix.has_spare(cpu(index)));
    }
    assert_eq!(rig.account(130), [0, ALL, 0, 0]);
    rig.reserve_managed(&[3, 4, 64, 129, 199]).unwrap();
}

/// Nothing is drawn between CPUs that began equal and met the same requests.
#[test]
fn equal_cpus_stay_within_one_of_each_other() {
    let rig = Rig::new(24);
    for number in 0..100 {
        let wanted = Wanted {
            irq: irq(number * 7),
            among: Among::Machine,
            near: None,
        };
        rig.matrix.alloc(&PLATFORM, &wanted, false).unwrap();
        let counts: Vec<_> = (0..24).map(|index| rig.account(index)[3]).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
    }
    rig.check();
}
