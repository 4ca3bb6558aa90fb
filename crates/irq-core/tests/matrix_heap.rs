// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix allocates when it is made and never again, and can be refused memory.
#![cfg(not(loom))]

mod common;
mod matrix_common;

use core::fmt;

use common::heap::{Counting, Heap, UNTOUCHED, heap, with_memory_for};
use irq_core::matrix::{Matrix, Policy, Setup, Wanted};
use irq_core::placement::Among;
use irq_hal::ErrorKind;
use matrix_common::{Live, PLATFORM, cpu, irq, mask, place, wanted};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CPUS: u32 = 130;

fn setup(policy: Policy) -> Setup<'static> {
    Setup {
        nodes: CPUS.div_ceil(8),
        policy,
        ..Setup::new(CPUS)
    }
}

struct Sink;

impl fmt::Write for Sink {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

#[test]
fn nothing_but_construction_touches_the_heap() {
    let few = mask(&[1, 64, 129]);
    let live = Live(&few);
    // The first use of the platform makes a record for the thread.
    let warm = Matrix::new(&setup(Policy::Balanced)).unwrap();
    warm.check(&PLATFORM).unwrap();
    for policy in [Policy::Balanced, Policy::Compatible] {
        let (matrix, made) = heap(|| Matrix::new(&setup(policy)).unwrap());
        assert_ne!(made.allocations, 0);
        let ((), used) = heap(|| {
            for index in 0..CPUS {
                matrix.online(&PLATFORM, cpu(index), place(index)).unwrap();
            }
            matrix.reserve_managed(&PLATFORM, &few).unwrap();
            matrix.reserve_managed(&PLATFORM, &live).unwrap();
            assert!(
                matrix
                    .reserve_managed(&PLATFORM, &mask_of_one_too_many())
                    .is_err()
            );
            let managed = matrix.alloc_managed(&PLATFORM, &wanted(1, &few)).unwrap();
            matrix.reserve().unwrap();
            let regular = matrix.alloc(&PLATFORM, &wanted(2, &live), true).unwrap();
            let machine = Wanted {
                irq: irq(16),
                among: Among::Machine,
                near: Some(place(60).node),
            };
            let block = matrix.alloc_block(&PLATFORM, &machine, 16).unwrap();
            matrix.assign(&PLATFORM, cpu(5), 0xe0, irq(3)).unwrap();
            matrix.check(&PLATFORM).unwrap();
            let snapshot = matrix.snapshot(&PLATFORM);
            fmt::write(&mut Sink, format_args!("{snapshot}")).unwrap();
            snapshot.write_json(&mut Sink).unwrap();
            matrix.free(&PLATFORM, managed, irq(1)).unwrap();
            matrix.free_to_reserved(&PLATFORM, regular, irq(2)).unwrap();
            matrix.free_block(&PLATFORM, block, irq(16), 16).unwrap();
            matrix.remove_managed(&PLATFORM, &few).unwrap();
            matrix.remove_managed(&PLATFORM, &live).unwrap();
            assert!(matrix.remove_managed(&PLATFORM, &live).is_err());
            matrix.offline(&PLATFORM, cpu(9)).unwrap();
            matrix.isolate(&PLATFORM, cpu(9), true).unwrap();
            assert_ne!(matrix.available(), 0);
        });
        assert_eq!(used, UNTOUCHED);
    }
}

/// Made without the heap: a set that names CPU 130.
fn mask_of_one_too_many() -> impl irq_core::cpu::CpuSet {
    struct One;
    impl irq_core::cpu::CpuSet for One {
        fn contains(&self, index: irq_core::cpu::CpuIndex) -> bool {
            index == cpu(CPUS)
        }

        fn each_word(&self, f: &mut dyn FnMut(irq_core::cpu::CpuIndex, u64)) {
            f(cpu(128), 1 << (CPUS - 128));
        }
    }
    One
}

#[test]
fn a_matrix_that_is_refused_memory_is_an_error_and_keeps_none() {
    let refused = [irq_core::IrqRange::new(irq(2), 1).unwrap()];
    let setup = Setup {
        refused: &refused,
        ..setup(Policy::Balanced)
    };
    let (made, needed) = heap(|| Matrix::new(&setup));
    drop(made);
    for left in 0..needed.allocations {
        let make = || Matrix::new(&setup).err();
        let (made, used) = with_memory_for(left, || heap(make));
        assert_eq!(made.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
        let Heap {
            allocations, frees, ..
        } = used;
        assert_eq!((allocations, frees), (left, left));
    }
}
