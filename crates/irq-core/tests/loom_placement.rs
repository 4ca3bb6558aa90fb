// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of one core in two banks, and the tree above them, changed at once. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_placement`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::Cpu;
use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::placement::{Among, Class, Limits, Placement, Request};
use loom::thread;

/// One in each bank.
const ONE: u32 = 0;
const OTHER: u32 = 64;

fn placement() -> Arc<Placement<()>> {
    let limits = Limits {
        cpus: 65,
        nodes: 1,
        load: 2,
        threads: 1,
    };
    Arc::new(Placement::new(limits, || Ok(())).unwrap())
}

fn online(placement: &Placement<()>, cpu: u32, core: u32) {
    let platform = Cpu::new(cpu);
    placement
        .online(&platform, CpuIndex::new(cpu), core, NodeId::FLAT)
        .unwrap();
}

fn place(placement: &Placement<()>, cpu: u32, count: i32) {
    let platform = Cpu::new(cpu);
    placement
        .update(&platform, CpuIndex::new(cpu), |change, ()| {
            change.place(Class::Regular, count);
        })
        .unwrap();
}

fn core_loads(placement: &Placement<()>) -> [u32; 2] {
    [ONE, OTHER].map(|cpu| placement.core_load(Class::Regular, CpuIndex::new(cpu)))
}

/// Every interleaving with three preemptions: a change reads and writes some forty words.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 100_000;
    builder.check(f);
}

#[test]
fn both_banks_show_what_both_threads_of_a_core_have() {
    model(|| {
        let placement = placement();
        online(&placement, ONE, 7);
        online(&placement, OTHER, 7);
        let other = Arc::clone(&placement);
        let thread = thread::spawn(move || place(&other, OTHER, 1));
        place(&placement, ONE, 1);
        thread.join().unwrap();
        assert_eq!(core_loads(&placement), [2, 2]);
    });
}

#[test]
fn a_thread_that_joins_its_core_shows_what_is_placed_there_meanwhile() {
    model(|| {
        let placement = placement();
        online(&placement, ONE, 7);
        let other = Arc::clone(&placement);
        let thread = thread::spawn(move || online(&other, OTHER, 7));
        place(&placement, ONE, 1);
        thread.join().unwrap();
        assert_eq!(core_loads(&placement), [1, 1]);
    });
}

#[test]
fn the_tree_knows_the_least_key_of_banks_that_change_at_once() {
    model(|| {
        let placement = placement();
        online(&placement, ONE, 7);
        online(&placement, OTHER, 8);
        let other = Arc::clone(&placement);
        let thread = thread::spawn(move || place(&other, OTHER, 2));
        place(&placement, ONE, 1);
        thread.join().unwrap();
        for among in [Among::Machine, Among::Node(NodeId::FLAT)] {
            let request = Request {
                class: Class::Regular,
                among,
                near: None,
                turn: OTHER,
            };
            let choice = placement.choose(&request).unwrap();
            assert_eq!((choice.cpu.get(), choice.load), (ONE, 1));
        }
    });
}
