// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the two policies choose, and that the balanced one is at least as even.
#![cfg(not(loom))]

mod matrix_common;

use irq_core::cpu::NodeId;
use irq_core::matrix::{Policy, Setup, Slot, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, NoCpu};
use matrix_common::{PLATFORM, Rig, cpu, irq, mask, wanted};

fn alloc(rig: &Rig, wanted: &Wanted<'_>) -> Result<Slot, Error> {
    rig.step(|matrix| matrix.alloc(&PLATFORM, wanted, false))
}

#[test]
fn balanced_is_the_default() {
    assert_eq!(Setup::new(1).policy, Policy::default());
    assert_eq!(Rig::new(1).matrix.policy(), Policy::Balanced);
    assert_eq!(Rig::compatible(1).matrix.policy(), Policy::Compatible);
}

#[test]
fn compatible_ties_go_to_the_lowest_cpu_and_managed_ones_to_the_highest() {
    let rig = Rig::compatible(70);
    let cpus = [3, 5, 64, 69];
    for _ in 0..2 {
        rig.reserve_managed(&cpus).unwrap();
    }
    let order = |managed: bool| {
        [0, 1, 2, 3, 4].map(|number| match managed {
            true => rig.alloc_managed(number, &cpus).unwrap().cpu.get(),
            false => rig.alloc(number, &cpus).unwrap().cpu.get(),
        })
    };
    assert_eq!(order(false), [3, 5, 64, 69, 3]);
    assert_eq!(order(true), [69, 64, 5, 3, 69]);
}

#[test]
fn balanced_ties_begin_at_the_irqs_turn() {
    let rig = Rig::new(70);
    let cpus = [3, 5, 64, 69];
    rig.reserve_managed(&cpus).unwrap();
    // Cores of two threads: none of these shares one.
    for (number, expected) in [(4, 5), (65, 69), (70, 3), (64, 64)] {
        assert_eq!(rig.alloc(number, &cpus).unwrap().cpu, cpu(expected));
    }
    for (number, expected) in [(6, 64), (60, 69), (1, 3), (0, 5)] {
        assert_eq!(rig.alloc_managed(number, &cpus).unwrap().cpu, cpu(expected));
    }
}

#[test]
fn balanced_takes_cores_before_their_siblings() {
    let all: Vec<_> = (0..16).collect();
    let cores = |rig: &Rig| {
        let mut cores = [0; 8];
        for number in 0..8 {
            let slot = rig.alloc_managed(number, &all).unwrap();
            cores[slot.cpu.index() / 2] += 1;
        }
        cores
    };
    let (balanced, compatible) = (Rig::new(16), Rig::compatible(16));
    for rig in [&balanced, &compatible] {
        rig.reserve_managed(&all).unwrap();
    }
    assert_eq!(cores(&balanced), [1; 8]);
    assert_eq!(cores(&compatible), [0, 0, 0, 0, 2, 2, 2, 2]);
}

#[test]
fn compatible_knows_the_devices_node_for_regular_interrupts_only() {
    let rig = Rig::compatible(24);
    let all: Vec<_> = (0..24).collect();
    let cpus = mask(&all);
    rig.reserve_managed(&all).unwrap();
    rig.reserve_managed(&all).unwrap();
    let near = |number, node| Wanted {
        near: Some(NodeId::new(node)),
        ..wanted(number, &cpus)
    };
    for expected in [8, 9, 10] {
        assert_eq!(alloc(&rig, &near(1, 1)).unwrap().cpu, cpu(expected));
    }
    // A node outside of the mask is no reason to fail.
    let outside = mask(&[0, 1]);
    let wanted = Wanted {
        near: Some(NodeId::new(2)),
        ..wanted(1, &outside)
    };
    assert_eq!(alloc(&rig, &wanted).unwrap().cpu, cpu(0));
    let managed = rig.step(|matrix| matrix.alloc_managed(&PLATFORM, &near(2, 0)));
    assert_eq!(managed.unwrap().cpu, cpu(23));
}

#[test]
fn compatible_serves_machines_and_nodes_and_says_why_not() {
    let rig = Rig::with(&Setup {
        policy: Policy::Compatible,
        first: 0x40,
        end: 0x41,
        ..Setup::new(12)
    });
    let on = |among| Wanted {
        irq: irq(1),
        among,
        near: None,
    };
    let node = on(Among::Node(NodeId::new(1)));
    for expected in [8, 9, 10, 11] {
        assert_eq!(alloc(&rig, &node).unwrap().cpu, cpu(expected));
    }
    assert_eq!(alloc(&rig, &node), Err(NoCpu::Full.into()));
    assert_eq!(alloc(&rig, &on(Among::Machine)).unwrap().cpu, cpu(0));
    for index in 0..12 {
        rig.offline(index);
    }
    assert_eq!(alloc(&rig, &node), Err(NoCpu::Offline.into()));
    assert_eq!(alloc(&rig, &on(Among::Machine)), Err(NoCpu::Offline.into()));
    rig.online(8).unwrap();
    assert_eq!(alloc(&rig, &node), Err(NoCpu::Full.into()));
}

/// The same requests by both policies: the highest load of a CPU, and of a core, is never more.
#[test]
fn balanced_is_at_least_as_even() {
    let mut seed = 1_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    for _ in 0..40 {
        // Devices with as many queues, each with a run of CPUs of equal length.
        let queues = 1 << (next() % 5);
        let devices = 1 + next() % 6;
        let rigs = [Rig::new(32), Rig::compatible(32)];
        let highest = rigs.map(|rig| {
            let (mut cpus, mut cores) = ([0; 32], [0; 16]);
            for device in 0..devices {
                for queue in 0..queues {
                    let each = 32 / queues;
                    let run: Vec<_> = (queue * each..(queue + 1) * each).collect();
                    let run = mask(&run);
                    rig.matrix.reserve_managed(&PLATFORM, &run).unwrap();
                    let wanted = wanted(device * queues + queue, &run);
                    let slot = rig.matrix.alloc_managed(&PLATFORM, &wanted).unwrap();
                    cpus[slot.cpu.index()] += 1;
                    cores[slot.cpu.index() / 2] += 1;
                }
            }
            rig.check();
            (cpus.into_iter().max(), cores.into_iter().max())
        });
        let [balanced, compatible] = highest;
        assert!(
            balanced.0 <= compatible.0 && balanced.1 <= compatible.1,
            "{queues} {devices}: {highest:?}"
        );
    }
}
