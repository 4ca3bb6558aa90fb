// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs against the standard library's.
#![cfg(not(loom))]

use std::collections::BTreeSet;

use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, MAX_CPUS, Ranges};
use irq_hal::{Error, ErrorKind};
use proptest::collection::btree_set;
use proptest::prelude::*;

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn mask(cpus: u32, members: &BTreeSet<u32>) -> CpuMask {
    let mut mask = CpuMask::try_new(cpus).unwrap();
    for member in members {
        assert_eq!(mask.insert(cpu(*member)), Ok(true));
    }
    mask
}

fn copy(mask: &CpuMask) -> CpuMask {
    let mut copy = CpuMask::try_new(mask.cpus()).unwrap();
    copy.copy_from(mask).unwrap();
    copy
}

/// The members as every way of reading tells them.
fn members(mask: &CpuMask) -> BTreeSet<u32> {
    let members: Vec<u32> = mask.iter().map(CpuIndex::get).collect();
    assert!(members.is_sorted());
    let mut told = Vec::new();
    mask.each(&mut |cpu| told.push(cpu.get()));
    assert_eq!(members, told);
    let mut bits = 0;
    mask.each_word(&mut |first, word| {
        assert_eq!((first.get() % 64, word == 0), (0, false));
        bits += word.count_ones();
    });
    assert_eq!((bits, mask.count()), (told.len() as u32, bits));
    assert_eq!(mask.first().map(CpuIndex::get), told.first().copied());
    assert_eq!(mask.is_empty(), told.is_empty());
    for index in 0..mask.cpus() + 130 {
        assert_eq!(mask.contains(cpu(index)), told.contains(&index), "{index}");
    }
    told.into_iter().collect()
}

#[test]
fn a_mask_for_no_cpu_or_absurdly_many_is_an_error() {
    for cpus in [0, MAX_CPUS + 1, u32::MAX] {
        let error = CpuMask::try_new(cpus).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{cpus}");
    }
    let mut largest = CpuMask::try_new(MAX_CPUS).unwrap();
    largest.fill();
    assert_eq!(largest.count(), MAX_CPUS);
}

#[test]
fn a_cpu_beyond_the_mask_is_an_error_and_changes_nothing() {
    for cpus in [1, 63, 64, 65, 128] {
        let mut mask = CpuMask::try_new(cpus).unwrap();
        mask.insert(cpu(cpus - 1)).unwrap();
        for beyond in [cpus, cpus + 64, u32::MAX] {
            let beyond = cpu(beyond);
            assert_eq!(mask.insert(beyond), Err(Error::NoSuchCpu { cpu: beyond }));
            assert!(!mask.contains(beyond) && !mask.remove(beyond));
        }
        assert_eq!(members(&mask), [cpus - 1].into());
    }
}

#[test]
fn insert_and_remove_say_what_was_there() {
    let mut mask = CpuMask::try_new(70).unwrap();
    assert_eq!(mask.insert(cpu(69)), Ok(true));
    assert_eq!(mask.insert(cpu(69)), Ok(false));
    assert!(mask.remove(cpu(69)));
    assert!(!mask.remove(cpu(69)));
    assert!(mask.is_empty());
}

#[test]
fn a_full_mask_has_each_cpu_and_a_cleared_one_none() {
    for cpus in [1, 63, 64, 65, 200] {
        let mut mask = CpuMask::try_new(cpus).unwrap();
        mask.fill();
        assert_eq!(members(&mask), (0..cpus).collect());
        mask.clear();
        assert_eq!(members(&mask), [].into());
    }
}

#[test]
fn a_set_with_a_member_beyond_the_mask_is_not_copied_at_all() {
    let large = mask(200, &[3, 130, 199].into());
    let mut small = mask(130, &[5].into());
    let error = Err(Error::NoSuchCpu { cpu: cpu(130) });
    assert_eq!(small.copy_from(&large), error);
    assert_eq!(small.union_with(&large), error);
    assert_eq!(members(&small), [5].into());
    let mut room = mask(131, &[5].into());
    assert_eq!(
        room.copy_from(&large),
        Err(Error::NoSuchCpu { cpu: cpu(199) })
    );
}

#[test]
fn masks_of_other_sizes_are_equal_if_their_members_are() {
    let members = [1, 40].into();
    assert_eq!(mask(41, &members), mask(4096, &members));
    assert_ne!(mask(64, &members), mask(64, &[1, 41].into()));
    assert_ne!(mask(64, &members), mask(64, &[1].into()));
}

#[test]
fn ranges_print_as_people_write_them() {
    for (members, text) in [
        (&[][..], ""),
        (&[0], "0"),
        (&[0, 1, 2, 3, 8, 10, 11], "0-3,8,10-11"),
        (&[62, 63, 64, 65, 127, 129], "62-65,127,129"),
    ] {
        let mask = mask(130, &members.iter().copied().collect());
        assert_eq!(Ranges(&mask).to_string(), text);
        assert_eq!(format!("{mask:?}"), format!("{{{text}}}"));
    }
}

proptest! {
    #[test]
    fn masks_agree_with_sets_of_numbers(
        (ours, theirs) in (1..300_u32, 1..300_u32).prop_flat_map(|(ours, theirs)| (
            (Just(ours), btree_set(0..ours, 0..100)),
            (Just(theirs), btree_set(0..theirs, 0..100)),
        )),
    ) {
        let ((size, ours), (other_size, theirs)) = (ours, theirs);
        let (mask, other) = (mask(size, &ours), mask(other_size, &theirs));
        prop_assert_eq!(members(&mask), ours.clone());

        let fits = theirs.range(size..).next().is_none();
        let (mut union, mut copied) = (copy(&mask), copy(&mask));
        prop_assert_eq!(union.union_with(&other).is_ok(), fits);
        prop_assert_eq!(copied.copy_from(&other).is_ok(), fits);
        if fits {
            prop_assert_eq!(members(&union), &ours | &theirs);
            prop_assert_eq!(members(&copied), theirs.clone());
        } else {
            prop_assert_eq!(&union, &mask);
            prop_assert_eq!(&copied, &mask);
        }
        let mut both = copy(&mask);
        both.intersect_with(&other);
        prop_assert_eq!(members(&both), &ours & &theirs);
        let mut rest = copy(&mask);
        rest.subtract_with(&other);
        prop_assert_eq!(members(&rest), &ours - &theirs);
    }

    #[test]
    fn ranges_read_back_are_the_members(members in btree_set(0..300_u32, 0..200)) {
        let text = Ranges(&mask(300, &members)).to_string();
        let mut read = BTreeSet::new();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            read.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
        }
        prop_assert_eq!(read, members);
    }
}
