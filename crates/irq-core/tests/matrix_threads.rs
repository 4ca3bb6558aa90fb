// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls on many threads at once: every vector has one owner, and the accounts are right in the
//! end.
#![cfg(not(loom))]

mod matrix_common;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use irq_core::matrix::{Policy, Setup, Slot, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, NoCpu};
use matrix_common::{ALL, PLATFORM, Rig, cpu, irq, mask, wanted};

const THREADS: u32 = 6;

/// Runs `f` on threads, from one moment on, and gives what it gave on each.
fn on_threads<R: Send>(f: impl Fn(u32) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        let run = |thread| {
            let (f, start) = (&f, &start);
            scope.spawn(move || {
                start.wait();
                f(thread)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.collect()
    })
}

/// A few numbers that look random.
fn next(seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as u32
}

#[test]
fn every_vector_is_handed_out_once_to_threads_that_want_all() {
    for policy in [Policy::Balanced, Policy::Compatible] {
        for (cpus, managed) in [(2, 0), (70, 10)] {
            let rig = Rig::with(&Setup {
                policy,
                ..Setup::new(cpus)
            });
            let all: Vec<_> = (0..cpus).collect();
            let all = mask(&all);
            for _ in 0..managed {
                rig.matrix.reserve_managed(&PLATFORM, &all).unwrap();
            }
            let had = on_threads(|thread| {
                let (mut slots, mut done) = (Vec::new(), [false; 2]);
                for number in 0.. {
                    let number = thread << 20 | number;
                    let wanted = wanted(number, &all);
                    let regular = number & 1 == 0;
                    let slot = match regular {
                        true => rig.matrix.alloc(&PLATFORM, &wanted, false),
                        false => rig.matrix.alloc_managed(&PLATFORM, &wanted),
                    };
                    match slot {
                        Ok(slot) => slots.push((slot, number)),
                        Err(Error::NoCpu { why: NoCpu::Full }) => {
                            done[usize::from(regular)] = true;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    if done == [true; 2] {
                        break;
                    }
                }
                slots
            });
            rig.check();
            let had: Vec<_> = had.into_iter().flatten().collect();
            let slots: BTreeSet<_> = had.iter().map(|(s, _)| (s.cpu, s.vector)).collect();
            assert_eq!((had.len(), slots.len()), ((cpus * ALL) as usize, had.len()));
            for (slot, number) in &had {
                let owner = rig.matrix.entry(slot.cpu, slot.vector).owner();
                assert_eq!(owner, Some(irq(*number)));
            }
            assert_eq!(rig.matrix.available(), 0);
            // And back.
            on_threads(|thread| {
                for (slot, number) in had.iter().filter(|(_, number)| number >> 20 == thread) {
                    rig.matrix.free(&PLATFORM, *slot, irq(*number)).unwrap();
                }
            });
            rig.check();
            assert_eq!(rig.matrix.available(), cpus * (ALL - managed));
        }
    }
}

type Used = Option<(Slot, u32)>;

/// What one thread does at random, with what it owns.
struct Owner<'a> {
    rig: &'a Rig,
    seed: u64,
    thread: u32,
    slots: Vec<(Slot, u32, u32)>,
    /// Masks reserved, and the vector in use there.
    managed: Vec<(Vec<u32>, Used)>,
    count: u32,
}

impl Owner<'_> {
    fn cpus(&mut self) -> Vec<u32> {
        let first = next(&mut self.seed) % 130;
        let cpus = (0..1 + next(&mut self.seed) % 90).map(|offset| (first + offset) % 130);
        cpus.collect()
    }

    fn fits(result: Result<Slot, Error>) -> Option<Slot> {
        match result {
            Ok(slot) => Some(slot),
            Err(Error::NoCpu {
                why: NoCpu::Full | NoCpu::Offline,
            }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self) {
        self.count += 32;
        let (number, matrix) = (self.thread << 24 | self.count, &self.rig.matrix);
        let any = next(&mut self.seed) as usize;
        match any % 8 {
            0 | 1 => {
                let cpus = mask(&self.cpus());
                let slot = matrix.alloc(&PLATFORM, &wanted(number, &cpus), false);
                if let Some(slot) = Self::fits(slot) {
                    assert!(irq_core::cpu::CpuSet::contains(&cpus, slot.cpu));
                    self.slots.push((slot, number, 1));
                }
            }
            2 => {
                let machine = Wanted {
                    irq: irq(number),
                    among: Among::Machine,
                    near: None,
                };
                let count = 1 << (any / 8 % 5);
                let slot = matrix.alloc_block(&PLATFORM, &machine, count);
                if let Some(slot) = Self::fits(slot) {
                    self.slots.push((slot, number, count));
                }
            }
            3 | 4 if !self.slots.is_empty() => {
                let (slot, number, count) = self.slots.swap_remove(any / 8 % self.slots.len());
                matrix
                    .free_block(&PLATFORM, slot, irq(number), count)
                    .unwrap();
            }
            5 => {
                let cpus = self.cpus();
                match matrix.reserve_managed(&PLATFORM, &mask(&cpus)) {
                    Ok(()) => self.managed.push((cpus, None)),
                    Err(Error::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            6 if !self.managed.is_empty() => {
                let at = any / 8 % self.managed.len();
                let (cpus, used) = &mut self.managed[at];
                match used.take() {
                    None => {
                        let cpus = mask(cpus);
                        let slot = matrix.alloc_managed(&PLATFORM, &wanted(number, &cpus));
                        *used = Self::fits(slot).map(|slot| (slot, number));
                    }
                    Some((slot, number)) => matrix.free(&PLATFORM, slot, irq(number)).unwrap(),
                }
            }
            7 if !self.managed.is_empty() => {
                let at = any / 8 % self.managed.len();
                let (cpus, used) = self.managed.swap_remove(at);
                if let Some((slot, number)) = used {
                    matrix.free(&PLATFORM, slot, irq(number)).unwrap();
                }
                matrix.remove_managed(&PLATFORM, &mask(&cpus)).unwrap();
            }
            _ => {}
        }
    }

    fn end(mut self) {
        let matrix = &self.rig.matrix;
        for (slot, number, count) in self.slots.drain(..) {
            matrix
                .free_block(&PLATFORM, slot, irq(number), count)
                .unwrap();
        }
        for (cpus, used) in self.managed.drain(..) {
            if let Some((slot, number)) = used {
                matrix.free(&PLATFORM, slot, irq(number)).unwrap();
            }
            matrix.remove_managed(&PLATFORM, &mask(&cpus)).unwrap();
        }
    }
}

/// Ends the CPUs' coming and going, also when a check fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn any_mix_of_calls_and_cpus_that_come_and_go_ends_with_exact_accounts() {
    for policy in [Policy::Balanced, Policy::Compatible] {
        let rig = Rig::with(&Setup {
            policy,
            ..Setup::new(130)
        });
        let over = AtomicBool::new(false);
        on_threads(|thread| {
            let mut seed = u64::from(thread) + 1;
            if thread == 0 {
                // Half of the CPUs come and go meanwhile.
                while !over.load(Relaxed) {
                    let index = next(&mut seed) % 65 * 2;
                    rig.matrix.offline(&PLATFORM, cpu(index)).unwrap();
                    let online =
                        rig.matrix
                            .online(&PLATFORM, cpu(index), matrix_common::place(index));
                    online.unwrap();
                }
                return;
            }
            let _over = Over(&over);
            let mut owner = Owner {
                rig: &rig,
                seed,
                thread,
                slots: Vec::new(),
                managed: Vec::new(),
                count: 0,
            };
            for _ in 0..3000 {
                owner.step();
            }
            owner.end();
        });
        rig.check();
        for index in 0..130 {
            assert_eq!(rig.account(index), [ALL, 0, 0, 0], "{index}");
        }
        assert_eq!(rig.matrix.available(), 130 * ALL);
    }
}

#[test]
fn what_is_reserved_at_once_is_activated_once_each() {
    let rig = Rig::new(2);
    for _ in 0..100 {
        rig.matrix.reserve().unwrap();
    }
    let both = mask(&[0, 1]);
    let had = on_threads(|thread| {
        let alloc = |number| {
            let wanted = wanted(thread << 20 | number, &both);
            rig.matrix.alloc(&PLATFORM, &wanted, true)
        };
        (0..100).filter(|number| alloc(*number).is_ok()).count()
    });
    assert_eq!(had.iter().sum::<usize>(), 100);
    assert_eq!(rig.matrix.reserved(), 0);
    assert_eq!(rig.matrix.allocated(&PLATFORM), 100);
    rig.check();
}
