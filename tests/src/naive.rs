// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vector matrix as a plain list: for each CPU, what each of its vectors is used for.
//!
//! What the tests hold [`irq_core::matrix`] against. Nothing is counted or remembered: every
//! number is made from the list when it is asked for, so it cannot drift.

use std::collections::BTreeSet;

use irq_hal::ErrorKind;

/// What a vector of a CPU is used for. Managed and regular ones with their irq.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Nothing.
    Free,
    /// The system's: for no interrupt.
    System,
    /// For a managed interrupt that does not run there.
    Reserved,
    /// A managed interrupt that runs there.
    Managed(u32),
    /// A regular interrupt.
    Regular(u32),
}

/// How a CPU is picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Housekeeping, near, own load, the core's load, the turn.
    Balanced,
    /// Own load alone, after near for a regular interrupt; of equal ones the lowest CPU for that,
    /// the highest for a managed one.
    Compatible,
    /// As it was before managed interrupts were counted apart: the most available, and of equal
    /// ones the lowest, for both.
    Old,
}

/// The CPUs that may serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Among {
    /// All.
    Machine,
    /// Those of a node.
    Node(u32),
    /// Those of a set.
    Mask(BTreeSet<u32>),
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// For which interrupt; a tie begins at the CPU of this number.
    pub irq: u32,
    /// Who may serve it.
    pub among: Among,
    /// The device's node.
    pub near: Option<u32>,
}

/// A CPU and a vector of it.
pub type Slot = (u32, u8);

/// A CPU.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// It can be picked.
    pub online: bool,
    /// It is the last to be picked.
    pub isolated: bool,
    /// Core and node, once it has been online.
    pub place: Option<(u32, u32)>,
    /// From the first vector of the area on.
    pub vectors: Vec<Use>,
}

/// What a CPU has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Free vectors.
    pub available: u32,
    /// Vectors with an interrupt.
    pub allocated: u32,
    /// Reserved vectors, those with an interrupt among them.
    pub managed: u32,
    /// Reserved vectors with an interrupt.
    pub managed_allocated: u32,
}

/// The matrix.
#[derive(Clone, Debug)]
pub struct Naive {
    /// How a CPU is picked.
    pub rule: Rule,
    /// The possible CPUs.
    pub cpus: Vec<Cpu>,
    /// Reserved for regular interrupts that have no vector yet.
    pub reserved: u32,
    first: u8,
    /// Vectors of the system, inside of the area or not.
    system: BTreeSet<u8>,
}

impl Cpu {
    fn count(&self, of: impl Fn(Use) -> bool) -> u32 {
        self.vectors.iter().filter(|to| of(**to)).count() as u32
    }

    /// What it has.
    pub fn counts(&self) -> Counts {
        let is_managed = |to| matches!(to, Use::Managed(_));
        let managed_allocated = self.count(is_managed);
        Counts {
            available: self.count(|to| to == Use::Free),
            allocated: managed_allocated + self.count(|to| matches!(to, Use::Regular(_))),
            managed: managed_allocated + self.count(|to| to == Use::Reserved),
            managed_allocated,
        }
    }

    /// What orders CPUs: the managed interrupts there, or the vectors that are not available.
    pub fn load(&self, managed: bool) -> u32 {
        match managed {
            true => self.placed(true),
            false => self.count(|to| to != Use::Free),
        }
    }

    /// The interrupts of the class that run there.
    fn placed(&self, managed: bool) -> u32 {
        self.count(|to| match to {
            Use::Managed(_) => managed,
            Use::Regular(_) => !managed,
            _ => false,
        })
    }

    fn position(&self, to: Use) -> Option<usize> {
        self.vectors.iter().position(|has| *has == to)
    }

    /// The first vector that is used for `from` is for `to` instead.
    fn change(&mut self, from: Use, to: Use) {
        if let Some(at) = self.position(from) {
            self.vectors[at] = to;
        }
    }

    /// The first run of `count` free vectors that begins at a multiple of `count`.
    fn run(&self, first: u8, count: usize) -> Option<usize> {
        let ends = self.vectors.len().checked_sub(count)?;
        (0..=ends).find(|at| {
            (usize::from(first) + at).is_multiple_of(count)
                && self.vectors[*at..at + count]
                    .iter()
                    .all(|to| *to == Use::Free)
        })
    }
}

impl Naive {
    /// `cpus` CPUs, none online, with the vectors `first` to `end - 1`, of which those of
    /// `system` are not for interrupts.
    pub fn new(rule: Rule, cpus: u32, first: u8, end: u16, system: &[u8]) -> Self {
        let vectors = (u16::from(first)..end).map(|vector| {
            match system.iter().any(|other| u16::from(*other) == vector) {
                true => Use::System,
                false => Use::Free,
            }
        });
        let cpu = Cpu {
            online: false,
            isolated: false,
            place: None,
            vectors: vectors.collect(),
        };
        Self {
            rule,
            cpus: vec![cpu; cpus as usize],
            reserved: 0,
            first,
            system: system.iter().copied().collect(),
        }
    }

    fn cpu(&mut self, cpu: u32) -> Result<&mut Cpu, ErrorKind> {
        self.cpus.get_mut(cpu as usize).ok_or(ErrorKind::NotFound)
    }

    /// The place of a vector in a CPU's list.
    fn at(&self, vector: u8) -> Result<usize, ErrorKind> {
        let at = usize::from(vector).checked_sub(usize::from(self.first));
        at.filter(|at| *at < self.cpus[0].vectors.len())
            .ok_or(ErrorKind::Invalid)
    }

    fn vector(&self, at: usize) -> u8 {
        self.first + at as u8
    }

    /// Lets a CPU be picked; where it stands is said for good.
    pub fn online(&mut self, cpu: u32, core: u32, node: u32) -> Result<(), ErrorKind> {
        let cpu = self.cpu(cpu)?;
        if cpu.online || cpu.place.is_some_and(|known| known != (core, node)) {
            return Err(ErrorKind::Exists);
        }
        (cpu.online, cpu.place) = (true, Some((core, node)));
        Ok(())
    }

    /// The CPU keeps what it has, and gets no more.
    pub fn offline(&mut self, cpu: u32) -> Result<(), ErrorKind> {
        let cpu = self.cpu(cpu)?;
        if !cpu.online {
            return Err(ErrorKind::Offline);
        }
        cpu.online = false;
        Ok(())
    }

    /// Makes the CPU the last to be picked, or one like others.
    pub fn isolate(&mut self, cpu: u32, isolated: bool) -> Result<(), ErrorKind> {
        self.cpu(cpu)?.isolated = isolated;
        Ok(())
    }

    /// Takes a vector of the area away on every CPU. To be done before the second CPU is online;
    /// once one is, only to replace what was assigned there.
    pub fn assign_system(&mut self, vector: u8, replace: bool) -> Result<(), ErrorKind> {
        let online: Vec<usize> = self.online_cpus().collect();
        let here = match online[..] {
            [] if !replace => None,
            [one] if replace => Some(one),
            [] => return Err(ErrorKind::Offline),
            _ => return Err(ErrorKind::Context),
        };
        if replace {
            self.at(vector)?;
        }
        if self.system.contains(&vector) {
            return Err(ErrorKind::Exists);
        }
        if let Ok(at) = self.at(vector) {
            let uses = |cpu: usize| self.cpus[cpu].vectors[at];
            match here.map(uses) {
                Some(Use::Free) => return Err(ErrorKind::Invalid),
                None | Some(Use::Regular(_)) => {}
                _ => return Err(ErrorKind::Busy),
            }
            let mut others = (0..self.cpus.len()).filter(|cpu| Some(*cpu) != here);
            if others.any(|cpu| uses(cpu) != Use::Free) {
                return Err(ErrorKind::Busy);
            }
            for cpu in &mut self.cpus {
                cpu.vectors[at] = Use::System;
            }
        }
        self.system.insert(vector);
        Ok(())
    }

    /// Gives `irq` this very vector of an online CPU.
    pub fn assign(&mut self, cpu: u32, vector: u8, irq: u32) -> Result<(), ErrorKind> {
        let at = self.at(vector)?;
        let online = self.cpu(cpu)?.online;
        if !online {
            return Err(ErrorKind::Offline);
        }
        match &mut self.cpus[cpu as usize].vectors[at] {
            free @ Use::Free => *free = Use::Regular(irq),
            _ => return Err(ErrorKind::Busy),
        }
        Ok(())
    }

    /// A vector on every CPU of `mask`, or nothing.
    ///
    /// Where that fails, what was reserved on CPUs in words before is given back: reserved vectors
    /// are alike, so it may be another one.
    pub fn reserve_managed(&mut self, mask: &BTreeSet<u32>) -> Result<(), ErrorKind> {
        let mask = self.expect_mask(mask)?;
        let full = |cpu: &&usize| self.cpus[**cpu].position(Use::Free).is_none();
        let failed = mask.iter().find(full).map(|cpu| cpu / 64);
        let done = mask
            .iter()
            .filter(|cpu| failed.is_none_or(|word| **cpu / 64 < word));
        done.clone()
            .for_each(|cpu| self.cpus[*cpu].change(Use::Free, Use::Reserved));
        if failed.is_some() {
            done.for_each(|cpu| self.cpus[*cpu].change(Use::Reserved, Use::Free));
            return Err(ErrorKind::Full);
        }
        Ok(())
    }

    /// Gives a vector back on every CPU of `mask`, or nothing.
    pub fn remove_managed(&mut self, mask: &BTreeSet<u32>) -> Result<(), ErrorKind> {
        let mask = self.expect_mask(mask)?;
        if mask
            .iter()
            .any(|cpu| self.cpus[*cpu].position(Use::Reserved).is_none())
        {
            return Err(ErrorKind::Invalid);
        }
        mask.iter()
            .for_each(|cpu| self.cpus[*cpu].change(Use::Reserved, Use::Free));
        Ok(())
    }

    fn expect_mask(&self, mask: &BTreeSet<u32>) -> Result<Vec<usize>, ErrorKind> {
        match mask.last() {
            None => Err(ErrorKind::Invalid),
            Some(last) if *last as usize >= self.cpus.len() => Err(ErrorKind::NotFound),
            Some(_) => Ok(mask.iter().map(|cpu| *cpu as usize).collect()),
        }
    }

    /// One of the reserved vectors.
    pub fn alloc_managed(&mut self, wanted: &Wanted) -> Result<Slot, ErrorKind> {
        let room = |cpu: &Cpu| cpu.position(Use::Reserved);
        let (cpu, at) = self.pick(wanted, true, room)?;
        self.cpus[cpu].vectors[at] = Use::Managed(wanted.irq);
        Ok((cpu as u32, self.vector(at)))
    }

    /// A free vector; `reserved` takes one reservation back for it.
    pub fn alloc(&mut self, wanted: &Wanted, reserved: bool) -> Result<Slot, ErrorKind> {
        if reserved && self.reserved == 0 {
            return Err(ErrorKind::Invalid);
        }
        let room = |cpu: &Cpu| cpu.position(Use::Free);
        let (cpu, at) = self.pick(wanted, false, room)?;
        self.cpus[cpu].vectors[at] = Use::Regular(wanted.irq);
        self.reserved -= u32::from(reserved);
        Ok((cpu as u32, self.vector(at)))
    }

    /// `count` vectors in a row on one CPU, for as many irqs.
    pub fn alloc_block(&mut self, wanted: &Wanted, count: u32) -> Result<Slot, ErrorKind> {
        if !count.is_power_of_two() || count > 32 {
            return Err(ErrorKind::Invalid);
        }
        let first = self.first;
        let room = |cpu: &Cpu| cpu.run(first, count as usize);
        let (cpu, at) = self.pick(wanted, false, room)?;
        for next in 0..count {
            self.cpus[cpu].vectors[at + next as usize] = Use::Regular(wanted.irq + next);
        }
        Ok((cpu as u32, self.vector(at)))
    }

    /// Notes an interrupt that has no vector yet.
    pub fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Such an interrupt is gone.
    pub fn remove_reserved(&mut self) -> Result<(), ErrorKind> {
        self.reserved = self.reserved.checked_sub(1).ok_or(ErrorKind::Invalid)?;
        Ok(())
    }

    /// Gives the vector of an interrupt back; a managed one stays reserved.
    pub fn free(&mut self, slot: Slot, irq: u32) -> Result<(), ErrorKind> {
        self.free_block(slot, irq, 1)
    }

    /// `count` vectors from `slot` on, which belong to the irqs from `irq` on.
    pub fn free_block(&mut self, slot: Slot, irq: u32, count: u32) -> Result<(), ErrorKind> {
        let at = self.at(slot.1)?;
        if count == 0 || at + count as usize > self.cpus[0].vectors.len() {
            return Err(ErrorKind::Invalid);
        }
        let cpu = self.cpu(slot.0)?;
        if cpu.place.is_none() {
            return Err(ErrorKind::Offline);
        }
        let vectors = &mut cpu.vectors[at..at + count as usize];
        let mut irqs = irq..;
        if !vectors.iter().zip(&mut irqs).all(|(to, irq)| match to {
            Use::Regular(owner) | Use::Managed(owner) => *owner == irq,
            _ => false,
        }) {
            return Err(ErrorKind::Invalid);
        }
        for to in vectors {
            *to = match to {
                Use::Managed(_) => Use::Reserved,
                _ => Use::Free,
            };
        }
        Ok(())
    }

    /// The CPU whose key is the least, of those asked for that are online and have `room`; and
    /// what `room` says of it.
    fn pick<R>(
        &self,
        wanted: &Wanted,
        managed: bool,
        room: impl Fn(&Cpu) -> Option<R>,
    ) -> Result<(usize, R), ErrorKind> {
        let mut asked = self.asked(&wanted.among);
        if asked.is_empty() {
            return Err(ErrorKind::Invalid);
        }
        asked.retain(|cpu| self.cpus[*cpu].online);
        if asked.is_empty() {
            return Err(ErrorKind::Offline);
        }
        asked.retain(|cpu| room(&self.cpus[*cpu]).is_some());
        let least = asked
            .into_iter()
            .min_by_key(|cpu| self.key(*cpu, wanted, managed))
            .ok_or(ErrorKind::Full)?;
        let room = room(&self.cpus[least]).ok_or(ErrorKind::Full)?;
        Ok((least, room))
    }

    fn key(&self, index: usize, wanted: &Wanted, managed: bool) -> (bool, bool, u32, u32, usize) {
        let (cpu, cpus) = (&self.cpus[index], self.cpus.len());
        let node = cpu.place.map(|(_, node)| node);
        let far = wanted.near.is_some() && node != wanted.near;
        match self.rule {
            Rule::Old => (false, false, cpu.load(false), 0, index),
            Rule::Compatible if managed => (false, false, cpu.load(true), 0, cpus - index),
            Rule::Compatible => (false, far, cpu.load(false), 0, index),
            Rule::Balanced => {
                let turn = wanted.irq as usize % cpus;
                let core = self.core_load(index, managed);
                let tie = (index + cpus - turn) % cpus;
                (cpu.isolated, far, cpu.load(managed), core, tie)
            }
        }
    }

    /// What runs on the core of a CPU that has been online.
    pub fn core_load(&self, index: usize, managed: bool) -> u32 {
        let place = self.cpus[index].place;
        let core = self.cpus.iter().filter(|cpu| cpu.place == place);
        core.map(|cpu| cpu.placed(managed)).sum()
    }

    /// The possible CPUs that are asked for.
    pub fn asked(&self, among: &Among) -> Vec<usize> {
        let is_asked = |cpu: &usize| match among {
            Among::Machine => true,
            Among::Node(node) => self.cpus[*cpu].place.is_some_and(|(_, on)| on == *node),
            Among::Mask(mask) => mask.contains(&(*cpu as u32)),
        };
        (0..self.cpus.len()).filter(is_asked).collect()
    }

    /// Those that can be picked.
    pub fn online_cpus(&self) -> impl Iterator<Item = usize> {
        (0..self.cpus.len()).filter(|cpu| self.cpus[*cpu].online)
    }

    /// The free vectors of the online CPUs.
    pub fn available(&self) -> u32 {
        let online = self.cpus.iter().filter(|cpu| cpu.online);
        online.map(|cpu| cpu.counts().available).sum()
    }

    /// The regular interrupts of a CPU: what has to move before it goes.
    pub fn to_move(&self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].placed(false)
    }
}
