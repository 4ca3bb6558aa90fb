// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix against a list of what each vector is used for, over random machines and random
//! sequences of everything that can be asked of it.
//!
//! A sequence that fails prints its seed; with that in `SEED` it is played alone.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;

use irq_core::matrix::Policy;
use irq_tests::machine::{Machine, Random};
use irq_tests::naive::{Among, Slot, Wanted};
use irq_tests::pair::{Area, Pair, Step};

/// Says which sequence it was, if the thread unwinds.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the seed was {}", self.0);
        }
    }
}

/// Runs `f` for so many seeds from `first` on, on two threads.
fn for_each_seed(first: u64, seeds: u64, f: impl Fn(u64) + Sync) {
    if let Ok(seed) = env::var("SEED") {
        return f(seed.parse().unwrap());
    }
    thread::scope(|scope| {
        for odd in [0, 1] {
            let f = &f;
            scope.spawn(move || {
                for seed in (first + odd..first + seeds).step_by(2) {
                    let _told = Told(seed);
                    f(seed);
                }
            });
        }
    });
}

fn machine(random: &mut Random, sizes: &[(u32, u32)]) -> Machine {
    let (least, most) = sizes[random.below(sizes.len() as u32) as usize];
    let cpus = least + random.below(most - least + 1);
    let threads = [1, 2, 2, 4, 8][random.below(5) as usize];
    Machine {
        cpus,
        nodes: 1 + random.below(cpus.div_ceil(threads).min(5)),
        threads,
        apart: random.once_in(2),
    }
}

fn area(random: &mut Random) -> Area {
    let first = 32 + random.below(200) as u8;
    let size = match random.below(8) {
        0 => 1 + random.below(3),
        1 => 16 + random.below(24),
        _ => 3 + random.below(12),
    };
    let end = u32::from(first) + size;
    let end = end.min(256) as u16;
    // One vector at least is for interrupts; a system vector may be outside of the area.
    let system = (0..random.below(3)).map(|_| first.saturating_add(random.below(size + 2) as u8));
    let system = system.filter(|vector| *vector != first);
    Area {
        first,
        end,
        system: system.collect(),
    }
}

/// Draws steps: mostly such that are of use, some absurd.
struct Player {
    random: Random,
    area: Area,
    /// Sets that come again, so that reservations meet allocations.
    masks: Vec<BTreeSet<u32>>,
    /// What was given out: irq, slot, and how many in a row.
    live: Vec<(u32, Slot, u32)>,
    irq: u32,
}

impl Player {
    fn new(mut random: Random, area: Area, machine: &Machine) -> Self {
        let count = 1 + random.below(4);
        let masks = (0..count).map(|_| mask(&mut random, machine)).collect();
        let irq = random.below(1000);
        Self {
            random,
            area,
            masks,
            live: Vec::new(),
            irq,
        }
    }

    fn cpu(&mut self, machine: &Machine) -> u32 {
        let beyond = u32::from(self.random.once_in(40));
        self.random.below(machine.cpus + beyond)
    }

    fn vector(&mut self) -> u8 {
        let size = u32::from(self.area.end) - u32::from(self.area.first);
        let beyond = 2 * u32::from(self.random.once_in(10));
        let at = u32::from(self.area.first) + self.random.below(size + beyond);
        at.min(255) as u8
    }

    fn mask(&mut self, machine: &Machine) -> BTreeSet<u32> {
        match self.random.below(12) {
            0 => mask(&mut self.random, machine),
            _ => self.masks[self.random.below(self.masks.len() as u32) as usize].clone(),
        }
    }

    fn wanted(&mut self, machine: &Machine) -> Wanted {
        // Numbers mostly follow each other, as those of a device's interrupts do.
        self.irq += 1 + u32::from(self.random.once_in(5)) * self.random.below(300);
        let nodes = machine.nodes + u32::from(self.random.once_in(40));
        let near = self.random.once_in(3).then(|| self.random.below(nodes));
        let among = match self.random.below(6) {
            0 | 1 => Among::Machine,
            2 => Among::Node(self.random.below(nodes)),
            _ => Among::Mask(self.mask(machine)),
        };
        Wanted {
            irq: self.irq,
            among,
            near,
        }
    }

    fn free(&mut self) -> Step {
        if self.live.is_empty() || self.random.once_in(15) {
            let slot = (self.random.below(3), self.vector());
            return Step::Free(slot, self.irq);
        }
        let at = self.random.below(self.live.len() as u32) as usize;
        let (mut irq, slot, count) = self.live[at];
        match self.random.below(15) {
            // Not its owner; again, later; only a part of a block.
            0 => irq += 1,
            1 => {}
            2 => return Step::Free(slot, irq),
            _ => drop(self.live.swap_remove(at)),
        }
        match count {
            1 => Step::Free(slot, irq),
            _ => Step::FreeBlock(slot, irq, count),
        }
    }

    fn next(&mut self, machine: &Machine) -> Step {
        match self.random.below(100) {
            0..12 => Step::Online(self.cpu(machine)),
            12..17 => Step::Offline(self.cpu(machine)),
            17..20 => {
                let isolated = self.random.once_in(2);
                Step::Isolate(self.cpu(machine), isolated)
            }
            20 => {
                let replace = self.random.once_in(2);
                Step::AssignSystem(self.vector(), replace)
            }
            21..24 => {
                self.irq += 1;
                let cpu = self.cpu(machine);
                Step::Assign((cpu, self.vector()), self.irq)
            }
            24..36 => Step::ReserveManaged(self.mask(machine)),
            36..40 => Step::RemoveManaged(self.mask(machine)),
            40..57 => Step::AllocManaged(self.wanted(machine)),
            57..60 => Step::Reserve,
            60 => Step::RemoveReserved,
            61..79 => {
                let reserved = self.random.once_in(5);
                Step::Alloc(self.wanted(machine), reserved)
            }
            79..84 => {
                let count = [0, 1, 2, 2, 3, 4, 4, 8, 16, 512][self.random.below(10) as usize];
                let wanted = self.wanted(machine);
                self.irq += 16;
                Step::AllocBlock(wanted, count)
            }
            _ => self.free(),
        }
    }

    /// Notes what was given out.
    fn heard(&mut self, step: &Step, got: Option<Slot>) {
        match (step, got) {
            (Step::Alloc(wanted, _) | Step::AllocManaged(wanted), Some(slot)) => {
                self.live.push((wanted.irq, slot, 1));
            }
            (Step::AllocBlock(wanted, count), Some(slot)) => {
                self.live.push((wanted.irq, slot, *count));
            }
            (Step::Assign(slot, irq), _) => self.live.push((*irq, *slot, 1)),
            _ => {}
        }
    }
}

fn mask(random: &mut Random, machine: &Machine) -> BTreeSet<u32> {
    let cpus = machine.cpus;
    let kind = random.below(24);
    let (start, len) = (random.below(cpus), 1 + random.below(cpus));
    let (node, sparse) = (random.below(machine.nodes), 1 + random.below(6));
    let mut of = |cpu: &u32| match kind {
        0 => false,
        1..4 => true,
        4..10 => (*cpu + cpus - start) % cpus < len,
        10..13 => machine.node(*cpu) == node,
        13..15 => *cpu == start,
        _ => random.once_in(sparse),
    };
    let mut mask: BTreeSet<u32> = (0..cpus).filter(&mut of).collect();
    if random.once_in(60) {
        mask.insert(cpus + random.below(200));
    }
    mask
}

/// Plays the sequence of a seed.
fn play(seed: u64, sizes: &[(u32, u32)]) {
    let mut random = Random::new(seed);
    let machine = machine(&mut random, sizes);
    let area = area(&mut random);
    let policy = match random.once_in(3) {
        true => Policy::Compatible,
        false => Policy::Balanced,
    };
    let mut pair = Pair::new(machine, &area, policy);
    let steps = 30 + random.below(31);
    let online = 1 + random.below(8);
    let early = random.once_in(4);
    let isolated = random.once_in(4).then(|| random.below(5));
    let mut player = Player::new(random, area.clone(), &machine);
    if early {
        // Before any CPU is online, and with one.
        for _ in 0..2 {
            let (vector, replace) = (player.vector(), player.random.once_in(4));
            let _ = pair.step(&Step::AssignSystem(vector, replace));
        }
        let _ = pair.step(&Step::Online(0));
        let (vector, irq) = (player.vector(), player.irq);
        let given = pair.step(&Step::Assign((0, vector), irq));
        let replaced = pair.step(&Step::AssignSystem(vector, true));
        assert_eq!(given.is_ok(), replaced.is_ok());
    }
    for cpu in 0..machine.cpus {
        if player.random.below(8) < online {
            let _ = pair.quick_step(&Step::Online(cpu));
        }
        if isolated.is_some_and(|others| player.random.below(5) >= others) {
            let _ = pair.quick_step(&Step::Isolate(cpu, true));
        }
    }
    for _ in 0..steps {
        let step = player.next(&machine);
        if let Ok(got) = pair.step(&step) {
            player.heard(&step, got);
        }
    }
    pair.compare_owners(&area);
}

#[test]
fn the_matrix_says_what_its_model_says_and_keeps_its_invariants() {
    let sizes = [(1, 4), (1, 4), (3, 12), (3, 12), (8, 24), (20, 64)];
    for_each_seed(0, 10_000, |seed| play(seed, &sizes));
}

#[test]
fn so_it_does_on_machines_of_several_banks() {
    let sizes = [(65, 130), (120, 200), (128, 128), (192, 300)];
    for_each_seed(1 << 32, 120, |seed| play(seed, &sizes));
}

/// The history of a CPU: each request, and how the CPU stood towards it.
fn note(history: &mut u64, of: impl Hash) {
    let mut hasher = DefaultHasher::new();
    (*history, of).hash(&mut hasher);
    *history = hasher.finish();
}

fn even(seed: u64) {
    let mut random = Random::new(seed);
    let machine = machine(&mut random, &[(2, 12), (8, 40)]);
    let area = area(&mut random);
    let policy = match random.once_in(4) {
        true => Policy::Compatible,
        false => Policy::Balanced,
    };
    let mut pair = Pair::new(machine, &area, policy);
    let mut player = Player::new(random, area, &machine);
    let mut histories = vec![0; machine.cpus as usize];
    for cpu in 0..machine.cpus {
        if !player.random.once_in(6) {
            let _ = pair.quick_step(&Step::Online(cpu));
        }
        if player.random.once_in(10) {
            let _ = pair.quick_step(&Step::Isolate(cpu, true));
        }
    }
    for number in 0..80 {
        let step = player.next(&machine);
        let (wanted, mask) = match &step {
            Step::AllocManaged(wanted) | Step::Alloc(wanted, _) => (Some(wanted), None),
            Step::ReserveManaged(mask) => (None, Some(mask)),
            // What was equal before need not be afterwards.
            Step::Online(cpu) | Step::Offline(cpu) | Step::Isolate(cpu, _) => {
                if let Some(history) = histories.get_mut(*cpu as usize) {
                    note(history, number);
                }
                let _ = pair.step(&step);
                continue;
            }
            _ => continue,
        };
        let asked = wanted.map(|wanted| pair.model.asked(&wanted.among));
        for (index, history) in histories.iter_mut().enumerate() {
            let among = match (&asked, mask) {
                (Some(asked), _) => asked.contains(&index),
                (None, mask) => mask.is_some_and(|mask| mask.contains(&(index as u32))),
            };
            let near = wanted.is_some_and(|w| w.near == Some(machine.node(index as u32)));
            let cpu = &pair.model.cpus[index];
            note(
                history,
                (number, among, among && near, cpu.online, cpu.isolated),
            );
        }
        let _ = pair.step(&step);
        let mut loads = BTreeMap::<u64, Vec<(u32, u32)>>::new();
        for (cpu, history) in machine.each().zip(&histories) {
            let counts = pair.real.counts(&irq_tests::bare::Bare, cpu).unwrap();
            let regular = counts.allocated - counts.managed_allocated;
            let load = (counts.managed_allocated, regular);
            loads.entry(*history).or_default().push(load);
        }
        for equals in loads.values() {
            for of in [|load: &(u32, u32)| load.0, |load: &(u32, u32)| load.1] {
                let (least, most) = (equals.iter().map(of).min(), equals.iter().map(of).max());
                assert!(
                    most <= least.map(|least| least + 1),
                    "{step:?}: {equals:?} on {machine:?}"
                );
            }
        }
    }
}

#[test]
fn cpus_that_are_asked_the_same_stay_within_one_while_nothing_is_freed() {
    for_each_seed(2 << 32, 1_000, even);
}
