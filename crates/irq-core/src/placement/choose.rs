// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choosing: of the machine and of a node by their trees, of any mask in one pass over its words.
//!
//! The pass keeps the best CPU so far, and asks each bank one question: is there one of the mask
//! with less load, or with as much and a less loaded core? Three words answer that for 64 CPUs;
//! only where the answer is yes does it look closer. It ends at a CPU that has the least key of
//! the whole machine (or node), which the trees know.

use core::ptr;

use irq_hal::{CpuIndex, NoCpu};

use super::bank::BANK;
use super::nodes::Node;
use super::rows::{Key, Row, answer};
use super::{Among, Choice, Class, Placement, Request};
use crate::cpu::CpuSet;

/// Words of a mask that are looked at together where they may all be empty.
const LEAP: usize = 8;

/// All CPUs of so many banks.
struct All(u32);

impl CpuSet for All {
    fn contains(&self, cpu: CpuIndex) -> bool {
        cpu.get() / BANK < self.0
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        (0..self.0).for_each(|bank| f(CpuIndex::new(bank * BANK), u64::MAX));
    }
}

impl<T: Send> Placement<T> {
    /// The CPU of `request` to serve one interrupt more: of the housekeeping CPUs that are online
    /// and have room that with the least load; of those with as much the one whose core has the
    /// least, and of those the first at or after CPU `turn % cpus`, cyclic. CPUs of the node
    /// `near` come first. Where no housekeeping CPU can, an isolated one, by the same order.
    ///
    /// It is a snapshot: who acts on it looks again under the lock ([`update`](Self::update)).
    ///
    /// # Errors
    /// Why there is none.
    ///
    /// # Context
    /// Any. Nothing locks, allocates or writes. The machine, or a node, costs the levels of a
    /// tree with 64 children a vertex, whatever the number of CPUs; any other mask its words.
    pub fn choose(&self, request: &Request<'_>) -> Result<Choice, NoCpu> {
        let turn = request.turn;
        let start = match turn < self.cpus() {
            true => turn,
            false => turn % self.cpus(),
        };
        // The usual case, first.
        if let (Among::Machine, None) = (request.among, request.near)
            && let Some(choice) = self.of_machine(request.class, start)
        {
            return Ok(choice);
        }
        self.choose_from(request, start)
    }

    fn choose_from(&self, request: &Request<'_>, start: u32) -> Result<Choice, NoCpu> {
        let pass = |near, isolated| self.pass(request, start, near, isolated);
        let near = request.near.and_then(|node| self.nodes.get(node.index()));
        let found = near
            .and_then(|near| match request.among {
                Among::Machine => self.of_node(request.class, near, start),
                _ => pass(Some(near), false),
            })
            .or_else(|| match request.among {
                Among::Machine => self.of_machine(request.class, start),
                Among::Node(node) => {
                    let node = self.nodes.get(node.index())?;
                    self.of_node(request.class, node, start)
                }
                Among::Mask(_) => pass(None, false),
            });
        // Rare: no tree knows of isolated CPUs, and a tree that changes is missed.
        let found = found
            .or_else(|| pass(None, false))
            .or_else(|| near.and_then(|near| pass(Some(near), true)))
            .or_else(|| pass(None, true));
        found.ok_or_else(|| self.reason(request))
    }

    #[inline(always)]
    fn of_machine(&self, class: Class, start: u32) -> Option<Choice> {
        let leaf = |bank| {
            let row = self.row(class, bank);
            (row.key(), row.least())
        };
        let (cpu, key) = self.least[class as usize].find(start, leaf)?;
        Some(Choice::new(cpu, key))
    }

    #[inline(always)]
    fn of_node(&self, class: Class, node: &Node, start: u32) -> Option<Choice> {
        let leaf = |bank| self.leaf(class, node, bank);
        let (cpu, key) = node.least[class as usize].find(start, leaf)?;
        Some(Choice::new(cpu, key))
    }

    /// One pass over the words of the request; over those of `near` only, and of isolated CPUs
    /// or of the others.
    fn pass(
        &self,
        request: &Request<'_>,
        start: u32,
        near: Option<&Node>,
        isolated: bool,
    ) -> Option<Choice> {
        let class = request.class;
        let mut best = Best {
            own: self.limit + 1,
            core: 0,
            cpu: None,
            floor: self.least[class as usize].key(|bank| self.row(class, bank).key()),
        };
        match request.among {
            Among::Mask(set) => match (set.words(), isolated) {
                (Some(words), false) => self.look_along(class, &mut best, words, start, near),
                _ => self.look_around(class, &mut best, set, start, near, isolated),
            },
            Among::Machine => {
                self.look_around(class, &mut best, &All(self.banks()), start, near, isolated);
            }
            Among::Node(node) => {
                let node = self.nodes.get(node.index())?;
                if near.is_some_and(|near| !ptr::eq(near, node)) {
                    return None;
                }
                let all = All(self.banks());
                self.look_around(class, &mut best, &all, start, Some(node), isolated);
            }
        }
        let mut choice = Choice::new(best.cpu?, Key::new(best.own, best.core));
        choice.isolated = isolated;
        Some(choice)
    }

    /// Looks along words in a row.
    fn look_along(
        &self,
        class: Class,
        best: &mut Best,
        words: &[u64],
        start: u32,
        of: Option<&Node>,
    ) {
        let words = &words[..words.len().min(self.banks.len())];
        // Masks often are a small part of the machine: what is empty at both ends is left out.
        let is_empty = |words: &[u64]| words.iter().fold(0, |any, bits| any | bits) == 0;
        let low = words
            .chunks(LEAP)
            .take_while(|words| is_empty(words))
            .count()
            * LEAP;
        let Some(rest) = words.get(low..) else {
            return;
        };
        let high = rest
            .rchunks(LEAP)
            .take_while(|words| is_empty(words))
            .count()
            * LEAP;
        let high = words.len().saturating_sub(high);
        let (first, before) = ((start / BANK) as usize, (1_u64 << (start % BANK)) - 1);
        let mut part = |from: usize, words: &[u64]| {
            let from = from as u32;
            match of {
                None => self.look_on(class, best, from, words.iter().copied()),
                Some(node) => {
                    let members = node.members_from(from);
                    let words = words.iter().zip(members);
                    self.look_on(class, best, from, words.map(|(bits, of)| bits & of))
                }
            }
        };
        if !(low..high).contains(&first) {
            part(low, words.get(low..high).unwrap_or_default());
            return;
        }
        // From `start` on, and then what is before it.
        let word = words[first];
        let _ = part(first, &[word & !before])
            || part(first + 1, &words[first + 1..high])
            || part(low, &words[low..first])
            || part(first, &[word & before]);
    }

    /// Looks at the banks from `from` on, as many as there are words. True if the pass may end.
    #[inline(always)]
    fn look_on(
        &self,
        class: Class,
        best: &mut Best,
        from: u32,
        words: impl Iterator<Item = u64>,
    ) -> bool {
        let rows = &self.rows[class as usize];
        let mut rest = (from..).zip(words.zip(rows.from(from)));
        loop {
            let question = rows.question(best.own, best.core);
            let yes = |(_, (bits, row)): &(u32, (u64, &[_]))| {
                *bits != 0 && bits & answer(row, question) != 0
            };
            let Some((bank, (bits, _))) = rest.find(yes) else {
                return false;
            };
            let row = rows.row(bank);
            if best.take(bank, row, bits & row.open()) {
                return true;
            }
        }
    }

    /// Looks at any set, or at isolated CPUs.
    #[cold]
    fn look_around(
        &self,
        class: Class,
        best: &mut Best,
        set: &dyn CpuSet,
        start: u32,
        of: Option<&Node>,
        isolated: bool,
    ) {
        let (first, before) = (start / BANK, (1_u64 << (start % BANK)) - 1);
        let mut ended = false;
        let mut part = |after: bool| {
            set.each_word(&mut |cpu, bits| {
                let bank = cpu.get() / BANK;
                let bits = match bank == first {
                    true if after => bits & !before,
                    true => bits & before,
                    false if (bank > first) == after => bits,
                    false => 0,
                };
                if bits == 0 || bank >= self.banks() || ended {
                    return;
                }
                let row = self.row(class, bank);
                let open = match isolated {
                    true => self.usable(class, bank) & self.banks[bank as usize].isolated(),
                    false => row.open(),
                };
                let bits = bits & open & of.map_or(u64::MAX, |node| node.members(bank));
                ended = bits != 0 && best.take(bank, row, bits);
            });
        };
        // From `start` on, and then what is before it.
        part(true);
        part(false);
    }

    /// Why there is no CPU for a request.
    fn reason(&self, request: &Request<'_>) -> NoCpu {
        let mut why = NoCpu::EmptyMask;
        let mut look = |index: u32, bits: u64| {
            let Some(bank) = self.banks.get(index as usize) else {
                return;
            };
            let bits = bits & self.possible(index);
            if bits & bank.online() != 0 {
                why = NoCpu::Full;
            } else if bits != 0 && why == NoCpu::EmptyMask {
                why = NoCpu::Offline;
            }
        };
        match request.among {
            Among::Machine => (0..self.banks()).for_each(|index| look(index, u64::MAX)),
            Among::Mask(set) => set.each_word(&mut |cpu, bits| look(cpu.get() / BANK, bits)),
            Among::Node(node) => match self.nodes.get(node.index()) {
                None => {}
                Some(node) => (0..self.banks()).for_each(|index| look(index, node.members(index))),
            },
        }
        why
    }
}

impl Choice {
    fn new(cpu: u32, key: Key) -> Self {
        Self {
            cpu: CpuIndex::new(cpu),
            load: key.own(),
            core_load: key.core(),
            isolated: false,
        }
    }
}

/// The best CPU of a pass so far.
struct Best {
    own: u32,
    core: u32,
    cpu: Option<u32>,
    /// No key is less.
    floor: Key,
}

impl Best {
    /// Takes the best of the CPUs `bits` of a bank, all to choose from, if it is better. True if
    /// none can be better still. Loads may change while it looks: it takes one of `bits` all the
    /// same.
    #[inline(never)]
    fn take(&mut self, bank: u32, row: Row<'_>, bits: u64) -> bool {
        let (own, cores, key) = (row.own(), row.cores(), row.key().hint());
        let at_floor = bits & row.least();
        if row.key() == self.floor && at_floor != 0 {
            (self.own, self.core) = (self.floor.own(), self.floor.core());
            self.cpu = Some(bank * BANK + at_floor.trailing_zeros());
            return true;
        }
        let less = bits & own.below(self.own);
        let mut among = bits & own.below(self.own + 1) & cores.below(self.core);
        let mut hint = self.core;
        if less != 0 {
            self.own = own.least(less, key.own());
            among = or(less & own.below(self.own + 1), less);
            hint = key.core();
        }
        if among != 0 {
            self.core = cores.least(among, hint);
            let least = or(among & cores.below(self.core + 1), among);
            self.cpu = Some(bank * BANK + least.trailing_zeros());
        }
        false
    }
}

/// The CPUs of `least`; of `all`, where loads changed meanwhile so that none is left.
const fn or(least: u64, all: u64) -> u64 {
    match least {
        0 => all,
        least => least,
    }
}
