// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choosing a CPU, beside a list of CPUs that is looked through.
#![cfg(not(loom))]

mod common;

use std::collections::HashMap;

use common::Cpu as TestCpu;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::placement::{Among, Choice, Class, Limits, Placement, Request};
use irq_hal::{Error, NoCpu};

static PLATFORM: TestCpu = TestCpu::new(0);

/// A set that gives its words one by one, as live ones do.
struct Live<'a>(&'a CpuMask);

impl CpuSet for Live<'_> {
    fn contains(&self, cpu: CpuIndex) -> bool {
        self.0.contains(cpu)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        self.0.each_word(f);
    }
}

/// A CPU of the list.
#[derive(Clone, Default)]
struct Cpu {
    place: (u32, u32),
    bound: bool,
    online: bool,
    isolated: bool,
    own: [u32; 2],
    placed: [u32; 2],
    room: [bool; 2],
}

/// The list.
struct List {
    cpus: Vec<Cpu>,
    limit: u32,
    threads: u32,
}

impl List {
    /// What is placed on each core.
    fn cores(&self, class: Class) -> HashMap<(u32, u32), u32> {
        let mut cores = HashMap::new();
        for cpu in self.cpus.iter().filter(|cpu| cpu.bound) {
            *cores.entry(cpu.place).or_default() += cpu.placed[class as usize];
        }
        let most = self.limit * self.threads;
        cores
            .values_mut()
            .for_each(|load: &mut u32| *load = most.min(*load));
        cores
    }

    fn choose(
        &self,
        class: Class,
        mask: &[bool],
        near: Option<u32>,
        turn: u32,
    ) -> Result<Choice, NoCpu> {
        let count = self.cpus.len();
        let asked = |cpu: &usize| mask.get(*cpu).copied().unwrap_or(false);
        let usable = |cpu: &usize| {
            let of = &self.cpus[*cpu];
            of.online && of.room[class as usize] && of.own[class as usize] < self.limit
        };
        let cores = self.cores(class);
        let core_load = |cpu: usize| cores.get(&self.cpus[cpu].place).copied();
        // Smallest key first; a CPU's distance from the turn makes it unique.
        let key = |cpu: usize| {
            let of = &self.cpus[cpu];
            let far = near.is_some_and(|near| of.place.1 != near);
            let distance = (cpu + count - turn as usize % count) % count;
            (
                of.isolated,
                far,
                of.own[class as usize],
                core_load(cpu),
                distance,
            )
        };
        let asked_for: Vec<usize> = (0..count).filter(asked).collect();
        let Some(cpu) = asked_for
            .iter()
            .copied()
            .filter(usable)
            .min_by_key(|cpu| key(*cpu))
        else {
            return Err(match asked_for.iter().any(|cpu| self.cpus[*cpu].online) {
                true => NoCpu::Full,
                false if asked_for.is_empty() => NoCpu::EmptyMask,
                false => NoCpu::Offline,
            });
        };
        Ok(Choice {
            cpu: CpuIndex::new(cpu as u32),
            load: self.cpus[cpu].own[class as usize],
            core_load: core_load(cpu).unwrap(),
            isolated: self.cpus[cpu].isolated,
        })
    }
}

/// A generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// How a machine numbers its CPUs: (core, node) of each.
type Numbering = fn(cpu: u32, cpus: u32, nodes: u32) -> (u32, u32);

/// Nodes one after another, siblings side by side.
fn adjacent(cpu: u32, cpus: u32, nodes: u32) -> (u32, u32) {
    let core = cpu / 2;
    (core, core * 2 * nodes / cpus.max(1))
}

/// All second threads behind all first ones.
fn halves(cpu: u32, cpus: u32, nodes: u32) -> (u32, u32) {
    let cores = cpus.div_ceil(2);
    let core = cpu % cores;
    (core, core * nodes / cores)
}

/// Nodes take turns, cores of four threads.
fn interleaved(cpu: u32, _: u32, nodes: u32) -> (u32, u32) {
    (cpu / nodes / 4 * nodes + cpu % nodes, cpu % nodes)
}

struct Both {
    placement: Placement<()>,
    list: List,
    nodes: u32,
    random: Random,
}

impl Both {
    fn new(
        cpus: u32,
        nodes: u32,
        limit: u32,
        threads: u32,
        numbering: Numbering,
        seed: u64,
    ) -> Self {
        let limits = Limits {
            cpus,
            nodes,
            load: limit,
            threads,
        };
        let place = |cpu| {
            let (core, node) = numbering(cpu, cpus, nodes);
            (core * 7 + 1, node.min(nodes - 1))
        };
        let cpu = |cpu| Cpu {
            place: place(cpu),
            room: [false, true],
            ..Cpu::default()
        };
        Self {
            placement: Placement::new(limits, || Ok(())).unwrap(),
            list: List {
                cpus: (0..cpus).map(cpu).collect(),
                limit,
                threads,
            },
            nodes,
            random: Random(seed | 1),
        }
    }

    fn cpus(&self) -> u32 {
        self.list.cpus.len() as u32
    }

    fn online(&mut self, cpu: u32) {
        let index = CpuIndex::new(cpu);
        let of = &mut self.list.cpus[cpu as usize];
        let (core, node) = of.place;
        let result = self
            .placement
            .online(&PLATFORM, index, core, NodeId::new(node));
        match of.online {
            true => assert_eq!(result, Err(Error::CpuIsOnline { cpu: index })),
            false => assert_eq!(result, Ok(())),
        }
        (of.online, of.bound) = (true, true);
    }

    fn offline(&mut self, cpu: u32) {
        let index = CpuIndex::new(cpu);
        let of = &mut self.list.cpus[cpu as usize];
        let result = self.placement.offline(&PLATFORM, index);
        match of.online {
            true => assert_eq!(result, Ok(())),
            false => assert_eq!(result, Err(Error::CpuOffline { cpu: index })),
        }
        of.online = false;
    }

    fn class(&mut self) -> Class {
        Class::ALL[self.random.below(2) as usize]
    }

    fn step(&mut self) {
        let cpu = self.random.below(self.cpus());
        let index = CpuIndex::new(cpu);
        let class = self.class();
        match self.random.below(10) {
            0 => self.online(cpu),
            1 => self.offline(cpu),
            2 => {
                let isolated = self.random.below(4) == 0;
                self.placement.isolate(&PLATFORM, index, isolated).unwrap();
                self.list.cpus[cpu as usize].isolated = isolated;
            }
            3..6 => self.change(cpu, class),
            6 => self.change_bank(class),
            7 => self.change_mask(class),
            _ => {}
        }
        for _ in 0..2 {
            self.compare();
        }
    }

    /// Up to three interrupts are placed, taken away, or counted beside; room comes and goes.
    fn change(&mut self, cpu: u32, class: Class) {
        let (what, count) = (self.random.below(4), self.random.below(3) as i32 + 1);
        let limit = self.list.limit;
        let of = &mut self.list.cpus[cpu as usize];
        let (own, placed) = (of.own[class as usize], of.placed[class as usize]);
        let up = count.min((limit - own) as i32);
        let down = count.min(own.min(placed) as i32);
        let alone = count.min((own - own.min(placed)) as i32);
        let index = CpuIndex::new(cpu);
        let result = self.placement.update(&PLATFORM, index, |change, ()| {
            assert_eq!(change.online(), of.online);
            assert_eq!(change.bit(), 1 << (cpu % 64));
            assert_eq!(change.load(class), own);
            match what {
                0 => change.place(class, up),
                1 => change.place(class, -down),
                2 => change.shift(class, -alone),
                _ => change.room(class, count != 1),
            }
        });
        if !of.bound {
            assert_eq!(result, Err(Error::CpuOffline { cpu: index }));
            return;
        }
        result.unwrap();
        let own = &mut of.own[class as usize];
        let placed = &mut of.placed[class as usize];
        match what {
            0 => (*own, *placed) = (*own + up as u32, *placed + up as u32),
            1 => (*own, *placed) = (*own - down as u32, *placed - down as u32),
            2 => *own -= alone as u32,
            _ => of.room[class as usize] = count != 1,
        }
    }

    /// Some CPUs of a bank rise by one, others fall, of yet others the room changes.
    fn change_bank(&mut self, class: Class) {
        let bank = self.random.below(self.placement.banks());
        let limit = self.list.limit;
        let bits = |random: &mut Random| {
            (0..64).fold(0_u64, |all, _| all << 1 | u64::from(random.below(2)))
        };
        let (some, which, room) = (
            bits(&mut self.random),
            bits(&mut self.random),
            bits(&mut self.random),
        );
        let with_room = self.random.below(2) == 0;
        let first = bank as usize * 64;
        let (mut raise, mut lower) = (0, 0);
        for bit in 0..64 {
            let Some(of) = self.list.cpus.get_mut(first + bit) else {
                break;
            };
            let (own, placed) = (&mut of.own[class as usize], of.placed[class as usize]);
            if some >> bit & 1 == 1 && which >> bit & 1 == 1 && *own < limit {
                raise |= 1 << bit;
                *own += 1;
            } else if some >> bit & 1 == 1 && which >> bit & 1 == 0 && *own > placed {
                lower |= 1 << bit;
                *own -= 1;
            }
            if room >> bit & 1 == 1 {
                of.room[class as usize] = with_room;
            }
        }
        let list = &self.list;
        let word = |of: &dyn Fn(&Cpu) -> bool| {
            let cpus = list.cpus.iter().skip(first).take(64).enumerate();
            cpus.fold(0_u64, |all, (bit, cpu)| all | u64::from(of(cpu)) << bit)
        };
        self.placement
            .update_bank(&PLATFORM, bank, |change, ()| {
                assert_eq!(change.online(), word(&|cpu| cpu.online));
                change.raise(class, raise);
                change.lower(class, lower);
                change.room(class, room, with_room);
            })
            .unwrap();
        let usable =
            |cpu: &Cpu| cpu.online && cpu.room[class as usize] && cpu.own[class as usize] < limit;
        self.placement
            .update_bank(&PLATFORM, bank, |change, ()| {
                assert_eq!(change.usable(class), word(&usable));
            })
            .unwrap();
    }

    /// The CPUs of a mask rise by one, or fall, up to a bank where that ends.
    fn change_mask(&mut self, class: Class) {
        let (up, cpus) = (self.random.below(2) == 0, self.cpus());
        // Beyond the possible CPUs, too.
        let mut set = CpuMask::try_new(cpus + 70).unwrap();
        set.insert(CpuIndex::new(cpus + self.random.below(70)))
            .unwrap();
        for (cpu, of) in (0..).zip(&self.list.cpus) {
            let (own, placed) = (of.own[class as usize], of.placed[class as usize]);
            let can = if up {
                own < self.list.limit
            } else {
                own > placed
            };
            if can && self.random.below(3) != 0 {
                set.insert(CpuIndex::new(cpu)).unwrap();
            }
        }
        let end = self.random.below(2 * self.placement.banks());
        let mut seen = Vec::new();
        let live = Live(&set);
        let set: &dyn CpuSet = if self.random.below(2) == 0 {
            &set
        } else {
            &live
        };
        let result = self
            .placement
            .update_mask(&PLATFORM, set, |bank, bits, change, ()| {
                if bank >= end {
                    return Err(bank);
                }
                seen.extend(
                    (0..64)
                        .filter(|bit| bits >> bit & 1 == 1)
                        .map(|bit| bank * 64 + bit),
                );
                match up {
                    true => change.raise(class, bits),
                    false => change.lower(class, bits),
                }
                Ok(())
            });
        let mut expected = Vec::new();
        set.each(&mut |cpu| expected.push(cpu.get()));
        expected.retain(|cpu| *cpu < cpus);
        let beyond = expected.iter().find(|cpu| **cpu / 64 >= end);
        assert_eq!(result.err(), beyond.map(|cpu| cpu / 64));
        expected.retain(|cpu| cpu / 64 < end);
        assert_eq!(seen, expected);
        for cpu in seen {
            let own = &mut self.list.cpus[cpu as usize].own[class as usize];
            *own = own.wrapping_add_signed(if up { 1 } else { -1 });
        }
    }

    /// A choice, and what is said of a CPU.
    fn compare(&mut self) {
        let class = self.class();
        let turn = self.random.below(3 * self.cpus());
        let near = (self.random.below(3) == 0).then(|| self.random.below(self.nodes));
        let mut mask = vec![true; self.cpus() as usize];
        // Of another size than the machine, now and then.
        let size = (self.cpus() - self.random.below(2) * self.random.below(self.cpus()))
            + 64 * self.random.below(2);
        let mut set = CpuMask::try_new(size).unwrap();
        let among = match self.random.below(4) {
            0 => Among::Machine,
            1 => {
                let node = self.random.below(self.nodes);
                let cpus = self.list.cpus.iter();
                mask = cpus.map(|cpu| cpu.bound && cpu.place.1 == node).collect();
                Among::Node(NodeId::new(node))
            }
            of => {
                let density = self.random.below(5);
                mask = vec![false; size as usize];
                for cpu in 0..size {
                    if self.random.below(4) < density {
                        set.insert(CpuIndex::new(cpu)).unwrap();
                        mask[cpu as usize] = true;
                    }
                }
                match of {
                    2 => Among::Mask(&set),
                    _ => Among::Mask(&Live(&set)),
                }
            }
        };
        let request = Request {
            class,
            among,
            near: near.map(NodeId::new),
            turn,
        };
        let expected = self.list.choose(class, &mask, near, turn);
        assert_eq!(
            self.placement.choose(&request),
            expected,
            "{class:?} near {near:?} turn {turn}"
        );
        let cpu = self.random.below(self.cpus());
        let index = CpuIndex::new(cpu);
        let of = &self.list.cpus[cpu as usize];
        assert_eq!(self.placement.load(class, index), of.own[class as usize]);
        let core_load = match of.bound {
            true => self.list.cores(class)[&of.place],
            false => 0,
        };
        assert_eq!(self.placement.core_load(class, index), core_load);
        assert_eq!(self.placement.is_online(index), of.online);
        assert_eq!(self.placement.is_isolated(index), of.isolated);
    }
}

fn random_machines(cpus: u32, nodes: u32, limit: u32, threads: u32, steps: u32) {
    for (seed, numbering) in [adjacent, halves, interleaved].into_iter().enumerate() {
        let mut both = Both::new(
            cpus,
            nodes,
            limit,
            threads,
            numbering,
            seed as u64 * 977 + 5,
        );
        for _ in 0..4 {
            both.compare();
        }
        for cpu in 0..cpus {
            if both.random.below(4) != 0 {
                both.online(cpu);
            }
        }
        for _ in 0..steps {
            both.step();
        }
    }
}

#[test]
fn of_one_bank_the_choice_is_that_of_a_look_through_all_cpus() {
    random_machines(1, 1, 3, 1, 500);
    random_machines(7, 2, 4, 2, 2000);
    random_machines(16, 4, 9, 4, 2000);
    random_machines(64, 3, 20, 2, 2000);
}

#[test]
fn of_several_banks_the_choice_is_that_of_a_look_through_all_cpus() {
    random_machines(65, 2, 5, 2, 2000);
    random_machines(200, 5, 6, 4, 2000);
    random_machines(320, 70, 3, 1, 1000);
}

#[test]
fn of_more_than_64_banks_the_choice_is_that_of_a_look_through_all_cpus() {
    random_machines(4096 + 200, 3, 3, 2, 150);
}
