// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two CPUs that want the same vector. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_matrix`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::Cpu;
use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask};
use irq_core::matrix::{Entry, Matrix, Setup, Slot, Wanted};
use irq_core::placement::Among;
use irq_core::topology::Place;
use irq_hal::{Error, NoCpu};
use loom::thread;

const CPU: CpuIndex = CpuIndex::new(0);

/// One CPU with one vector.
fn matrix() -> Arc<Matrix> {
    let matrix = Matrix::new(&Setup {
        first: 0x40,
        end: 0x41,
        threads: 1,
        ..Setup::new(1)
    });
    let matrix = matrix.unwrap();
    matrix.online(&Cpu::new(0), CPU, Place::flat(CPU)).unwrap();
    Arc::new(matrix)
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 10_000;
    model.check(f);
}

fn beside<R: 'static>(
    matrix: &Arc<Matrix>,
    f: impl FnOnce(&Matrix, &Cpu) -> R + 'static,
) -> thread::JoinHandle<R> {
    let matrix = matrix.clone();
    thread::spawn(move || f(&matrix, &Cpu::new(1)))
}

fn alloc(matrix: &Matrix, platform: &Cpu, irq: u32) -> Result<Slot, Error> {
    let wanted = Wanted {
        irq: Irq::new(irq),
        among: Among::Machine,
        near: None,
    };
    matrix.alloc(platform, &wanted, false)
}

fn check(matrix: &Matrix) {
    matrix.check(&Cpu::new(0)).unwrap();
}

#[test]
fn an_owner_that_comes_while_a_late_interrupt_is_settled_is_not_lost() {
    model(|| {
        let matrix = matrix();
        let slot = alloc(&matrix, &Cpu::new(0), 1).unwrap();
        matrix.free(&Cpu::new(0), slot, Irq::new(1)).unwrap();
        let other = beside(&matrix, |matrix, platform| {
            alloc(matrix, platform, 2).unwrap();
        });
        // What an entry does that finds the vector shut down.
        if matrix.entry(CPU, slot.vector) == Entry::Shutdown {
            let settled = matrix.settle(&Cpu::new(0), CPU, slot.vector).unwrap();
            assert!([Entry::Shutdown, Entry::Irq(Irq::new(2))].contains(&settled));
        }
        other.join().unwrap();
        assert_eq!(matrix.entry(CPU, slot.vector), Entry::Irq(Irq::new(2)));
        check(&matrix);
    });
}

#[test]
fn the_last_vector_goes_to_one_of_two() {
    model(|| {
        let matrix = matrix();
        let other = beside(&matrix, |matrix, platform| alloc(matrix, platform, 2));
        let mine = alloc(&matrix, &Cpu::new(0), 1);
        let theirs = other.join().unwrap();
        let full = Err(NoCpu::Full.into());
        assert!(
            (mine.is_ok() && theirs == full) || (mine == full && theirs.is_ok()),
            "{mine:?} {theirs:?}"
        );
        check(&matrix);
    });
}

#[test]
fn a_reservation_is_used_or_removed_and_not_both() {
    model(|| {
        let matrix = matrix();
        let mask = || {
            let mut mask = CpuMask::try_new(1).unwrap();
            mask.fill();
            mask
        };
        matrix.reserve_managed(&Cpu::new(0), &mask()).unwrap();
        let other = beside(&matrix, move |matrix, platform| {
            matrix.remove_managed(platform, &mask()).is_ok()
        });
        let wanted = Wanted {
            irq: Irq::new(1),
            among: Among::Machine,
            near: None,
        };
        let used = matrix.alloc_managed(&Cpu::new(0), &wanted).is_ok();
        let removed = other.join().unwrap();
        assert_ne!(used, removed);
        check(&matrix);
        let counts = matrix.counts(&Cpu::new(0), CPU).unwrap();
        assert_eq!(counts.available, u32::from(removed));
    });
}

#[test]
fn a_vector_is_freed_by_one_of_two() {
    model(|| {
        let matrix = matrix();
        let slot = alloc(&matrix, &Cpu::new(0), 1).unwrap();
        let other = beside(&matrix, move |matrix, platform| {
            matrix.free(platform, slot, Irq::new(1)).is_ok()
        });
        let mine = matrix.free(&Cpu::new(0), slot, Irq::new(1)).is_ok();
        assert_ne!(mine, other.join().unwrap());
        check(&matrix);
        assert_eq!(matrix.available(), 1);
    });
}

#[test]
fn a_removal_that_comes_too_late_in_one_bank_is_undone_in_the_others() {
    model(|| {
        let matrix = Matrix::new(&Setup {
            first: 0x40,
            end: 0x41,
            threads: 1,
            ..Setup::new(65)
        });
        let matrix = Arc::new(matrix.unwrap());
        let mask = |cpus: &[u32]| {
            let mut mask = CpuMask::try_new(65).unwrap();
            for cpu in cpus {
                mask.insert(CpuIndex::new(*cpu)).unwrap();
            }
            mask
        };
        let (both, second) = (mask(&[0, 64]), mask(&[64]));
        matrix.reserve_managed(&Cpu::new(0), &both).unwrap();
        let other = beside(&matrix, move |matrix, platform| {
            matrix.remove_managed(platform, &second).is_ok()
        });
        let whole = matrix.remove_managed(&Cpu::new(0), &both).is_ok();
        assert_ne!(whole, other.join().unwrap());
        let managed = |cpu| {
            let counts = matrix.counts(&Cpu::new(0), CpuIndex::new(cpu));
            counts.unwrap().managed
        };
        assert_eq!((managed(0), managed(64)), (u32::from(!whole), 0));
    });
}
