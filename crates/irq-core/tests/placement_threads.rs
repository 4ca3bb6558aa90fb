// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that play CPUs change loads at once; when they are done, everything that is kept fits
//! together.
#![cfg(not(loom))]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuMask, NodeId};
use irq_core::placement::{Among, Class, Limits, Placement, Request};

const CPUS: u32 = 320;
const NODES: u32 = 3;
const LOAD: u32 = 6;

/// Siblings are in different banks, and nodes share banks.
fn place(cpu: u32) -> (u32, NodeId) {
    let core = cpu % (CPUS / 2);
    (core, NodeId::new(core % NODES))
}

struct Machine {
    placement: Placement<()>,
    /// What is placed on each CPU.
    placed: Vec<AtomicU32>,
}

impl Machine {
    fn place(&self, platform: &Cpu, cpu: u32, more: bool) -> bool {
        let placed = &self.placed[cpu as usize];
        let change = |change: &mut irq_core::placement::Change<'_>, (): &mut ()| {
            let count = placed.load(Relaxed);
            let usable = if more {
                change.online() && count < LOAD
            } else {
                count > 0
            };
            if usable {
                let by = if more { 1 } else { -1 };
                change.place(Class::Regular, by);
                // Under the lock of the CPU's bank, as all of it.
                placed.store(count.wrapping_add_signed(by), Relaxed);
            }
            usable
        };
        self.placement
            .update(platform, CpuIndex::new(cpu), change)
            .unwrap_or(false)
    }

    fn work(&self, platform: &Cpu, seed: u64) {
        let mut seed = seed;
        let mut below = |end: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (((seed >> 32) * u64::from(end)) >> 32) as u32
        };
        let mut mine = Vec::new();
        for _ in 0..4000 {
            let cpu = below(CPUS);
            match below(10) {
                0 => {
                    let (core, node) = place(cpu);
                    let _ = self
                        .placement
                        .online(platform, CpuIndex::new(cpu), core, node);
                }
                1 if below(4) == 0 => {
                    let _ = self.placement.offline(platform, CpuIndex::new(cpu));
                }
                2..7 => {
                    let among = match below(2) {
                        0 => Among::Machine,
                        _ => Among::Node(NodeId::new(below(NODES))),
                    };
                    let request = Request {
                        class: Class::Regular,
                        among,
                        near: None,
                        turn: cpu,
                    };
                    if let Ok(choice) = self.placement.choose(&request)
                        && self.place(platform, choice.cpu.get(), true)
                    {
                        mine.push(choice.cpu.get());
                    }
                }
                _ => {
                    if let Some(cpu) = mine.pop() {
                        assert!(self.place(platform, cpu, false));
                    }
                }
            }
        }
    }
}

/// Everything that is kept says the same: loads, cores' loads, and the trees, which give what a
/// pass over all words gives.
fn check(machine: &Machine) {
    let placement = &machine.placement;
    let placed = |cpu: u32| machine.placed[cpu as usize].load(Relaxed);
    let mut all = CpuMask::try_new(CPUS).unwrap();
    all.fill();
    for cpu in 0..CPUS {
        let index = CpuIndex::new(cpu);
        assert_eq!(placement.load(Class::Regular, index), placed(cpu));
        if placement.node(index).is_some() {
            let sibling = (cpu + CPUS / 2) % CPUS;
            let core = placed(cpu) + placed(sibling);
            assert_eq!(placement.core_load(Class::Regular, index), core, "{cpu}");
        }
        let choose = |among: Among<'_>| {
            placement.choose(&Request {
                class: Class::Regular,
                among,
                near: None,
                turn: cpu,
            })
        };
        assert_eq!(choose(Among::Machine), choose(Among::Mask(&all)));
        for node in 0..NODES {
            let mut cpus = CpuMask::try_new(CPUS).unwrap();
            for of in (0..CPUS).filter(|of| place(*of).1.get() == node) {
                cpus.insert(CpuIndex::new(of)).unwrap();
            }
            let by_mask = choose(Among::Mask(&cpus)).ok();
            assert_eq!(choose(Among::Node(NodeId::new(node))).ok(), by_mask);
        }
    }
}

#[test]
fn what_is_kept_fits_together_after_changes_on_several_cpus_at_once() {
    for round in 0..20 {
        let limits = Limits {
            cpus: CPUS,
            nodes: NODES,
            load: LOAD,
            threads: 2,
        };
        let machine = Machine {
            placement: Placement::new(limits, || Ok(())).unwrap(),
            placed: (0..CPUS).map(|_| AtomicU32::new(0)).collect(),
        };
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let (machine, start) = (&machine, &start);
                scope.spawn(move || {
                    let platform = Cpu::new(number as u32);
                    start.wait();
                    machine.work(&platform, round * 4 + number);
                });
            }
        });
        check(&machine);
    }
}
