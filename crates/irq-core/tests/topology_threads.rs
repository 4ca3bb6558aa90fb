// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go at once, each on a thread.
#![cfg(not(loom))]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuSet, NodeId};
use irq_core::topology::{Level, Place, Topology};
use irq_hal::ErrorKind;

const CPUS: u32 = 192;
const THREADS: u32 = 8;

/// Domains that CPUs of all threads share.
fn place(cpu: u32) -> Place {
    Place {
        core: cpu % 96,
        l2: !(cpu % 48),
        group: (cpu % 5) << 20,
        package: cpu / 100,
        node: NodeId::new(cpu % 3),
    }
}

/// Runs `f` on threads, each with CPUs of its own, all from one moment on.
fn on_threads(f: impl Fn(&Cpu, &mut dyn Iterator<Item = u32>) + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (f, start) = (&f, &start);
            scope.spawn(move || {
                let platform = Cpu::new(thread);
                start.wait();
                f(&platform, &mut (thread..CPUS).step_by(THREADS as usize));
            });
        }
    });
}

/// Each mask and count is what the CPUs for which `online` holds make it.
fn assert_masks(topology: &Topology, online: impl Fn(u32) -> bool) {
    for cpu in 0..CPUS {
        for level in Level::ALL {
            let id = place(cpu).id(level);
            let expected: Vec<_> = (0..CPUS)
                .filter(|other| online(*other) && place(*other).id(level) == id)
                .collect();
            let domain = topology.domain(CpuIndex::new(cpu), level).unwrap();
            assert!(
                domain
                    .iter()
                    .map(CpuIndex::get)
                    .eq(expected.iter().copied())
            );
            assert_eq!((domain.id(), domain.count()), (id, expected.len() as u32));
        }
    }
    let all = (0..CPUS).filter(|cpu| online(*cpu));
    assert!(topology.online_cpus().iter().map(CpuIndex::get).eq(all));
}

#[test]
fn cpus_that_come_online_at_once_find_their_domains() {
    for _ in 0..20 {
        let topology = Topology::new(CPUS, 3).unwrap();
        on_threads(|platform, cpus| {
            for cpu in cpus {
                let index = CpuIndex::new(cpu);
                topology.online(platform, index, place(cpu)).unwrap();
                // At once, whatever the others do.
                for level in Level::ALL {
                    let domain = topology.domain(index, level).unwrap();
                    assert!(domain.contains(index) && domain.iter().any(|cpu| cpu == index));
                }
            }
        });
        assert_masks(&topology, |_| true);
    }
}

#[test]
fn who_sees_a_cpu_in_a_mask_sees_its_place_and_its_domains() {
    for _ in 0..20 {
        let topology = Topology::new(CPUS, 3).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    for node in (0..3)
                        .map(NodeId::new)
                        .filter_map(|node| topology.node(node))
                    {
                        let mut last = None;
                        for cpu in node.iter() {
                            assert!(last < Some(cpu), "out of order");
                            last = Some(cpu);
                            assert_eq!(topology.place(cpu), Some(place(cpu.get())));
                        }
                    }
                    for cpu in topology.online_cpus().iter() {
                        for level in Level::ALL {
                            let domain = topology.domain(cpu, level).unwrap();
                            assert!(domain.contains(cpu) && domain.count() > 0);
                        }
                    }
                }
            });
            on_threads(|platform, cpus| {
                for cpu in cpus {
                    topology
                        .online(platform, CpuIndex::new(cpu), place(cpu))
                        .unwrap();
                }
            });
            done.store(true, Relaxed);
        });
    }
}

#[test]
fn cpus_that_come_and_go_at_once_leave_exact_masks_and_counts() {
    let topology = Topology::new(CPUS, 3).unwrap();
    on_threads(|platform, cpus| {
        for cpu in cpus {
            let index = CpuIndex::new(cpu);
            for round in 0..100 {
                topology.online(platform, index, place(cpu)).unwrap();
                if round < 99 || cpu % 7 == 0 {
                    topology.offline(index).unwrap();
                }
            }
        }
    });
    assert_masks(&topology, |cpu| cpu % 7 != 0);
}

#[test]
fn of_calls_for_the_same_cpu_one_wins_and_the_masks_agree_with_it() {
    let topology = Topology::new(CPUS, 3).unwrap();
    for cpu in 0..CPUS {
        let index = CpuIndex::new(cpu);
        let won = |call: &(dyn Fn(&Cpu) -> Result<(), irq_hal::Error> + Sync)| {
            let start = Barrier::new(4);
            thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|thread| {
                        let start = &start;
                        scope.spawn(move || {
                            let platform = Cpu::new(thread);
                            start.wait();
                            call(&platform)
                        })
                    })
                    .collect();
                let results = threads.into_iter().map(|thread| thread.join().unwrap());
                results
                    .filter(|result| match result.map_err(|error| error.kind()) {
                        Ok(()) => true,
                        Err(kind) => {
                            use ErrorKind::{Busy, Exists, Offline};
                            assert!(matches!(kind, Busy | Exists | Offline), "{kind:?}");
                            false
                        }
                    })
                    .count()
            })
        };
        assert_eq!(
            won(&|platform| topology.online(platform, index, place(cpu))),
            1
        );
        assert_eq!(won(&|_| topology.offline(index)), 1);
        assert_eq!(
            won(&|platform| topology.online(platform, index, place(cpu))),
            1
        );
        // Of different places the first one holds.
        let next = cpu + 1;
        let elsewhere = |platform: &Cpu| topology.online(platform, index, place(next));
        assert_eq!(won(&elsewhere), 0);
    }
    assert_masks(&topology, |_| true);
}
