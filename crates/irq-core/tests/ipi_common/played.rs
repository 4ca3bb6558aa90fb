// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that one thread plays, and what ran on it.

use std::cell::RefCell;
use std::rc::Rc;

use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::{ActionContext, IpiCounts, Kind};

use super::{IPI, Machine};

thread_local! {
    /// What ran, as (word of the kind, CPU).
    static RAN: RefCell<Vec<(usize, u32)>> = const { RefCell::new(Vec::new()) };
    /// For functions, which capture nothing.
    static MACHINE: RefCell<Option<Rc<Machine>>> = const { RefCell::new(None) };
}

pub fn played() -> Rc<Machine> {
    MACHINE.with_borrow(|machine| machine.clone().unwrap())
}

pub fn play(machine: Machine) -> Rc<Machine> {
    let machine = Rc::new(machine);
    MACHINE.set(Some(machine.clone()));
    machine
}

pub fn ran() -> Vec<(usize, u32)> {
    RAN.take()
}

pub fn note(word: usize, cx: &ActionContext<'_>) {
    assert_eq!(cx.irq(), IPI);
    RAN.with_borrow_mut(|ran| ran.push((word, cx.cpu().get())));
}

pub fn note_anywhere(word: usize, cpu: CpuIndex) {
    RAN.with_borrow_mut(|ran| ran.push((word, cpu.get())));
}

/// Kinds 0 to 2, with 10 to 12 for a word.
pub fn plain() -> [Kind; 3] {
    [
        Kind::new(note, 10),
        Kind::new(note, 11),
        Kind::new(note, 12),
    ]
}

pub fn counts(machine: &Machine, node: u32) -> Option<IpiCounts> {
    machine.interrupts.ipi_counts(NodeId::new(node))
}

pub fn exact(rung: u64, coalesced: u64, taken: u64) -> Option<IpiCounts> {
    Some(IpiCounts {
        sent: rung + coalesced,
        rung,
        coalesced,
        taken,
    })
}
