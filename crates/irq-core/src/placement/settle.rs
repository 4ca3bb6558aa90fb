// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from a change in a bank: its summary, its nodes', and the trees above.

use core::mem;

use irq_hal::Platform;

use super::bank::{BANK, MIXED};
use super::least::FAN;
use super::nodes::Node;
use super::{Class, Placement};

/// In which classes, a bit each, the least key of a bank changed, and that of a node's part of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    bank: u8,
    nodes: u8,
}

impl Moved {
    #[inline(always)]
    fn note(&mut self, class: Class, bank: bool, nodes: bool) {
        self.bank |= u8::from(bank) << class as u8;
        self.nodes |= u8::from(nodes) << class as u8;
    }

    #[inline(always)]
    const fn bank(self, class: Class) -> bool {
        self.bank >> class as u8 & 1 == 1
    }

    #[inline(always)]
    const fn nodes(self, class: Class) -> bool {
        self.nodes >> class as u8 & 1 == 1
    }
}

/// Banks whose least keys changed, of those below one vertex: from `first` on.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) first: u32,
    moved: [u64; 2],
}

impl Batch {
    #[inline]
    pub(super) fn note(&mut self, at: u32, moved: Moved) {
        for class in Class::ALL {
            self.moved[class as usize] |= u64::from(moved.bank(class)) << at;
        }
    }
}

impl<T: Send> Placement<T> {
    /// Brings the summaries of a bank up to date with a change for the CPUs of `bits`, and notes
    /// whether a least key changed. Under the bank's lock.
    #[inline(always)]
    pub(super) fn refresh(&self, class: Class, index: u32, bits: u64, moved: &mut Moved) {
        let bank = &self.banks[index as usize];
        let row = self.row(class, index);
        let changed = row.refresh(bank.online() & row.with_room() & !bank.isolated());
        let nodes = match bank.node() {
            MIXED => {
                let mut any = false;
                self.each_node(index, bits, |node| any |= node.refresh(class, index, row));
                any
            }
            _ => changed,
        };
        moved.note(class, changed, nodes);
    }

    /// The loads of `cpus` rose: the others that have the least key have it still. Whether there
    /// are such, and that is all. Under the bank's lock.
    #[inline(always)]
    pub(super) fn shrink(&self, class: Class, index: u32, cpus: u64) -> bool {
        let row = self.row(class, index);
        let full = cpus & !row.own().below(self.limit) != 0;
        if full || self.banks[index as usize].node() == MIXED {
            return false;
        }
        row.leave_least(cpus)
    }

    /// Brings what is kept above a bank up to date. Under no lock.
    #[inline(always)]
    pub(super) fn settle<P>(&self, platform: &P, index: u32, bits: u64, moved: Moved)
    where
        P: Platform + ?Sized,
    {
        if moved.bank | moved.nodes != 0 {
            self.settle_above(platform, index, bits, moved);
        }
    }

    #[inline(never)]
    fn settle_above<P>(&self, platform: &P, index: u32, bits: u64, moved: Moved)
    where
        P: Platform + ?Sized,
    {
        let (first, which) = (index - index % FAN, 1 << (index % FAN));
        for class in Class::ALL {
            if moved.bank(class) {
                let key = |bank| self.row(class, bank).key();
                self.least[class as usize].settle(platform, first, which, key);
            }
            if moved.nodes(class) {
                self.each_node(index, bits, |node| {
                    let key = |bank| self.leaf(class, node, bank).0;
                    node.least[class as usize].settle(platform, first, which, key);
                });
            }
        }
    }

    /// Calls `f` for the nodes of the CPUs of `bits`, in as far as they are known.
    fn each_node(&self, index: u32, mut bits: u64, mut f: impl FnMut(&Node)) {
        while bits != 0 {
            let cpu = index * BANK + bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(node) = self.node_of(cpu) {
                bits &= !node.members(index);
                f(node);
            }
        }
    }

    /// Brings what is kept above the banks of a batch up to date, and empties it. Under no lock.
    pub(super) fn settle_batch<P>(&self, platform: &P, batch: &mut Batch)
    where
        P: Platform + ?Sized,
    {
        for class in Class::ALL {
            let which = mem::take(&mut batch.moved[class as usize]);
            if which == 0 {
                continue;
            }
            let key = |bank| self.row(class, bank).key();
            self.least[class as usize].settle(platform, batch.first, which, key);
            let mut rest = which;
            while rest != 0 {
                let of = |at: u32| self.banks[(batch.first + at) as usize].node();
                let node = of(rest.trailing_zeros());
                // Banks of a node are mostly side by side.
                let mut run = 0;
                while rest != 0 && of(rest.trailing_zeros()) == node {
                    run |= rest & rest.wrapping_neg();
                    rest &= rest - 1;
                }
                let Some(node) = self.nodes.get(node as usize) else {
                    continue;
                };
                let key = |bank| self.leaf(class, node, bank).0;
                node.least[class as usize].settle(platform, batch.first, run, key);
            }
        }
    }
}
