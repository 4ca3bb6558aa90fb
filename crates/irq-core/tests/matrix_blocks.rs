// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consecutive, aligned vectors of one CPU.
#![cfg(not(loom))]

mod matrix_common;

use irq_core::cpu::NodeId;
use irq_core::matrix::{Entry, Setup, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, NoCpu};
use matrix_common::{ALL, PLATFORM, Rig, cpu, irq, mask, slot, wanted};

#[test]
fn a_block_is_aligned_to_its_length_and_owned_by_consecutive_irqs() {
    for rig in [Rig::new(2), Rig::compatible(2)] {
        rig.alloc(1, &[1]).unwrap();
        for (count, vector) in [
            (1, 0x21),
            (2, 0x22),
            (4, 0x24),
            (8, 0x28),
            (16, 0x30),
            (32, 0x40),
        ] {
            let number = 100 * count;
            let before = rig.account(1);
            let first = rig.alloc_block(number, &[1], count).unwrap();
            assert_eq!(first, slot(1, vector));
            assert_eq!(u32::from(first.vector) % count, 0);
            let [available, _, _, allocated] = before;
            assert_eq!(rig.account(1), [available - count, 0, 0, allocated + count]);
            for offset in 0..count {
                let entry = rig.matrix.entry(first.cpu, first.vector + offset as u8);
                assert_eq!(entry, Entry::Irq(irq(number + offset)));
            }
        }
    }
}

#[test]
fn a_block_lies_between_system_vectors_and_inside_of_the_area() {
    let rig = Rig::new(1);
    // 80H is a system vector and the area ends before EC: of 32 there are 3 before and 2 behind.
    let firsts: Vec<_> = (0..10)
        .map_while(|n| rig.alloc_block(n * 32, &[0], 32).ok())
        .map(|first| first.vector)
        .collect();
    assert_eq!(firsts, [0x20, 0x40, 0x60, 0xa0, 0xc0]);
    assert_eq!(rig.alloc_block(999, &[0], 32), Err(NoCpu::Full.into()));
    assert_eq!(rig.alloc_block(999, &[0], 16).unwrap().vector, 0x90);
    assert_eq!(rig.alloc_block(1099, &[0], 16), Err(NoCpu::Full.into()));
    assert_eq!(rig.alloc_block(1099, &[0], 8).unwrap().vector, 0x88);
    assert_eq!(rig.alloc_block(1199, &[0], 8).unwrap().vector, 0xe0);
    assert_eq!(rig.alloc_block(1299, &[0], 4).unwrap().vector, 0x84);
}

#[test]
fn runs_are_aligned_by_vector_wherever_the_area_begins() {
    let rig = Rig::with(&Setup {
        first: 0x23,
        end: 0x37,
        ..Setup::new(1)
    });
    assert_eq!(rig.alloc_block(0, &[0], 8).unwrap().vector, 0x28);
    assert_eq!(rig.alloc_block(8, &[0], 4).unwrap().vector, 0x24);
    assert_eq!(rig.alloc_block(16, &[0], 4).unwrap().vector, 0x30);
    assert_eq!(rig.alloc_block(32, &[0], 4), Err(NoCpu::Full.into()));
    assert_eq!(rig.alloc_block(32, &[0], 2).unwrap().vector, 0x34);
}

#[test]
fn a_reservation_breaks_a_run_as_a_vector_in_use_does() {
    let rig = Rig::with(&Setup {
        first: 0x40,
        end: 0x48,
        system: &[],
        ..Setup::new(1)
    });
    rig.reserve_managed(&[0]).unwrap();
    rig.assign(0, 0x46, 9).unwrap();
    assert_eq!(rig.alloc_block(1, &[0], 4), Err(NoCpu::Full.into()));
    assert_eq!(rig.alloc_block(1, &[0], 2).unwrap().vector, 0x42);
    rig.remove_managed(&[0]).unwrap();
    assert_eq!(rig.alloc_block(3, &[0], 2).unwrap().vector, 0x40);
}

#[test]
fn the_least_loaded_cpu_that_has_a_run_gets_the_block() {
    for rig in [Rig::new(200), Rig::compatible(200)] {
        // CPU 0 is the least loaded and has a hole in each run of 32; the others have runs, and
        // CPU 150 the fewest vectors in use of them.
        for vector in [0x21, 0x41, 0x61, 0xa1, 0xc1] {
            rig.assign(0, vector, 7).unwrap();
        }
        let cpus = [0, 1, 70, 150, 199];
        for (index, more) in [(1, 8), (70, 7), (150, 6), (199, 7)] {
            for number in 0..more {
                let among = mask(&[index]);
                let wanted = wanted(number, &among);
                rig.matrix.alloc(&PLATFORM, &wanted, false).unwrap();
            }
        }
        rig.check();
        assert_eq!(rig.alloc_block(1000, &cpus, 16).unwrap().cpu, cpu(0));
        rig.step(|matrix| matrix.free_block(&PLATFORM, slot(0, 0x30), irq(1000), 16))
            .unwrap();
        assert_eq!(rig.alloc_block(1000, &cpus, 32), Ok(slot(150, 0x40)));
        let machine = Wanted {
            irq: irq(2000),
            among: Among::Machine,
            near: None,
        };
        let anywhere = rig.step(|matrix| matrix.alloc_block(&PLATFORM, &machine, 32));
        let anywhere = anywhere.unwrap().cpu;
        assert!(!cpus.contains(&anywhere.get()));
        // Nor is a CPU taken that is offline, or isolated where another has a run.
        rig.offline(70);
        rig.matrix.isolate(&PLATFORM, cpu(199), true).unwrap();
        assert_eq!(rig.alloc_block(3000, &[0, 70, 1], 32).unwrap().cpu, cpu(1));
    }
}

#[test]
fn isolated_cpus_and_other_nodes_come_last_among_those_with_a_run() {
    let rig = Rig::new(130);
    for index in [0, 3, 64] {
        for vector in [0x21, 0x41, 0x61, 0xa1, 0xc1] {
            rig.assign(index, vector, 7).unwrap();
        }
    }
    for _ in 0..8 {
        rig.reserve_managed(&[1, 65, 70, 129]).unwrap();
    }
    rig.reserve_managed(&[65, 70]).unwrap();
    rig.matrix.isolate(&PLATFORM, cpu(1), true).unwrap();
    // Housekeeping before isolated, whatever the load; then load.
    let block = |number, cpus: &[u32]| rig.alloc_block(number, cpus, 32).unwrap().cpu.get();
    assert_eq!(block(100, &[0, 1, 65, 129]), 129);
    assert_eq!(block(200, &[0, 1, 65, 129]), 65);
    assert_eq!(block(300, &[0, 1, 64]), 1);
    // The device's node, 8, has CPUs 64 to 71, and 70 the only run there: 10 vectors are taken
    // of it, and none of CPU 128.
    let among = mask(&[3, 66, 64, 70, 128]);
    let near = Wanted {
        near: Some(NodeId::new(8)),
        ..wanted(400, &among)
    };
    for vector in [0x21, 0x41, 0x61, 0xa1, 0xc1] {
        rig.assign(66, vector, 7).unwrap();
    }
    let slot = rig.step(|matrix| matrix.alloc_block(&PLATFORM, &near, 32));
    assert_eq!(slot.unwrap().cpu, cpu(70));
}

#[test]
fn ties_between_banks_begin_at_the_irqs_turn() {
    for (number, expected) in [(5, 69), (69, 69), (70, 129), (130, 3), (259, 129)] {
        let rig = Rig::new(130);
        let cpus = [3, 69, 129];
        // The least loaded has no run.
        for vector in [0x21, 0x41, 0x61, 0xa1, 0xc1] {
            rig.assign(1, vector, 7).unwrap();
        }
        for _ in 0..6 {
            rig.reserve_managed(&cpus).unwrap();
        }
        let all = [1, 3, 69, 129];
        assert_eq!(
            rig.alloc_block(number, &all, 32).unwrap().cpu,
            cpu(expected),
            "{number}"
        );
    }
}

#[test]
fn the_node_of_a_request_is_all_that_is_looked_at() {
    let rig = Rig::new(20);
    let on_node = |number| Wanted {
        irq: irq(number),
        among: Among::Node(NodeId::new(1)),
        near: None,
    };
    let mut blocks = 0;
    while let Ok(slot) = rig.matrix.alloc_block(&PLATFORM, &on_node(blocks * 32), 32) {
        assert_eq!(slot.cpu.get() / 8, 1);
        blocks += 1;
    }
    rig.check();
    assert_eq!(blocks, 8 * 5);
    let last = rig.step(|matrix| matrix.alloc_block(&PLATFORM, &on_node(0), 32));
    assert_eq!(last, Err(NoCpu::Full.into()));
}

#[test]
fn a_block_is_freed_whole_or_one_by_one_and_only_by_its_owners() {
    let rig = Rig::new(1);
    let first = rig.alloc_block(40, &[0], 8).unwrap();
    let free = |first, number, count| {
        rig.step(|matrix| matrix.free_block(&PLATFORM, first, irq(number), count))
    };
    // Off by one, too long, of somebody else.
    assert!(free(first, 41, 8).is_err());
    assert!(free(first, 40, 9).is_err());
    assert!(free(slot(0, first.vector + 1), 40, 7).is_err());
    rig.free(slot(0, first.vector + 3), 43).unwrap();
    let partly = free(first, 40, 8);
    assert_eq!(
        partly,
        Err(Error::Invalid {
            what: "vector in use",
            value: u64::from(first.vector) + 3
        })
    );
    free(first, 40, 3).unwrap();
    free(slot(0, first.vector + 4), 44, 4).unwrap();
    assert_eq!(rig.account(0), [ALL, 0, 0, 0]);
    assert_eq!(rig.alloc_block(40, &[0], 8), Ok(first));
}

#[test]
fn blocks_take_what_single_vectors_left_and_leave_the_rest_to_them() {
    let rig = Rig::new(1);
    let mut number = 0;
    while rig.alloc_block(number, &[0], 8).is_ok() {
        number += 8;
    }
    // 25 runs of 8 with 80H and the last four left out of them: 24 * 8.
    assert_eq!(number, 24 * 8);
    let mut singles = 0;
    while rig.alloc(number + singles, &[0]).is_ok() {
        singles += 1;
    }
    assert_eq!(singles, ALL - number);
    assert_eq!(rig.account(0), [0, 0, 0, ALL]);
}
