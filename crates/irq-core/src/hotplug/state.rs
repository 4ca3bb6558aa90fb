// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of each interrupt, place and CPU, under the lock.

use alloc::vec::Vec;
use core::mem;

use irq_hal::Error;
use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::atomic::{AtomicBool, AtomicU32};
use irq_hal::heap::try_vec;
use irq_hal::{CpuIndex, NodeId};

use super::affinity::Affinity;
use super::list::{Links, List, NONE};
use crate::cpu::{CpuMask, CpuSet, WORD};
use crate::placement::Class;

/// Places of one interrupt: where it is served, and two that it left. A move needs both of the
/// others to be free, so that one is there when the CPU that it moved to goes.
pub(super) const PLACES: u32 = 3;

/// Where an interrupt is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The number is not in use.
    Vacant,
    /// Held, without a place.
    Stopped,
    /// Served at its place.
    Started,
    /// Held, without a place: managed, and no CPU of its mask is open.
    Shut,
    /// Removed; old places are not given back yet.
    Ending,
}

/// What a place is to its interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Unused,
    /// The source will point here.
    Next,
    /// The source points here.
    Current,
    /// Old: messages may be under way to it.
    Waiting,
    /// Old: to be given back once nothing is pending there.
    Due,
    /// Someone is giving it back.
    Leaving,
}

/// An interrupt. Whoever has claimed it has taken its affinity out, and alone changes its phase,
/// its next and its current place.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) phase: Phase,
    pub(super) claimed: bool,
    pub(super) class: Class,
    pub(super) near: Option<NodeId>,
    pub(super) affinity: Option<Affinity>,
    /// Whether it has a reservation while it is stopped, and whether it has one now.
    pub(super) reserves: bool,
    pub(super) reserved: bool,
    /// Served outside of its mask.
    pub(super) broken: bool,
    /// An event of it was pending at a place that is no more.
    pub(super) owed: bool,
    /// A message came to the next place, before the move was noted down.
    pub(super) arrived: bool,
    /// The next arrival may be a replay, which says nothing of messages.
    pub(super) replayed: bool,
    pub(super) next: u32,
    pub(super) current: u32,
    /// Where the source of a stopped interrupt points, while that place is not given back.
    pub(super) last: u32,
    /// Which list of shut interrupts it is in.
    home: u32,
}

impl Record {
    const VACANT: Self = Self {
        phase: Phase::Vacant,
        claimed: false,
        class: Class::Regular,
        near: None,
        affinity: None,
        reserves: false,
        reserved: false,
        broken: false,
        owed: false,
        arrived: false,
        replayed: false,
        next: NONE,
        current: NONE,
        last: NONE,
        home: NONE,
    };
}

/// A place of an interrupt: three in a row belong to each.
#[derive(Debug)]
pub(super) struct Entry<P> {
    pub(super) place: Option<P>,
    pub(super) cpu: CpuIndex,
    pub(super) stage: Stage,
}

/// A CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu {
    pub(super) online: bool,
    /// Someone takes it online or offline.
    pub(super) changing: bool,
    /// At which of all closings of CPUs it closed last.
    pub(super) closed: u64,
    /// How many of the interrupts that it serves are regular.
    pub(super) regular: u32,
    serving: List,
    waiting: List,
    due: List,
}

/// Everything under the lock.
#[derive(Debug)]
pub(super) struct State<P> {
    pub(super) records: Vec<Record>,
    pub(super) entries: Vec<Entry<P>>,
    pub(super) cpus: Vec<Cpu>,
    /// The CPUs that places may be on.
    pub(super) open: CpuMask,
    /// How often a CPU closed.
    pub(super) closings: u64,
    links: Links,
    shut_links: Links,
    /// Shut interrupts: a list for each 64 CPUs, of those whose mask is in them; one of those whose
    /// mask is in several; and a list for each CPU, of those that it restarts.
    shut: Vec<List>,
    /// Which of these is the one for masks in several words.
    several: u32,
}

/// What is read without the lock.
#[derive(Debug)]
pub(super) struct Shared {
    /// For each interrupt, whether an arrival matters.
    pub(super) watched: Vec<AtomicBool>,
    /// For each CPU, its places that are due.
    pub(super) due: Vec<AtomicU32>,
}

impl<P> State<P> {
    pub(super) fn new(cpus: u32, irqs: u32) -> Result<Self, Error> {
        let (count, places) = (cpus as usize, irqs as usize * PLACES as usize);
        let mut records = try_vec(irqs as usize)?;
        records.extend((0..irqs).map(|_| Record::VACANT));
        let mut entries = try_vec(places)?;
        entries.extend((0..places).map(|_| Entry {
            place: None,
            cpu: CpuIndex::new(0),
            stage: Stage::Unused,
        }));
        let mut list = try_vec(count)?;
        let cpu = Cpu {
            online: false,
            changing: false,
            closed: 0,
            regular: 0,
            serving: List::EMPTY,
            waiting: List::EMPTY,
            due: List::EMPTY,
        };
        list.resize(count, cpu);
        let several = count.div_ceil(WORD as usize);
        let homes = several + 1 + count;
        let mut shut = try_vec(homes)?;
        shut.resize(homes, List::EMPTY);
        Ok(Self {
            records,
            entries,
            cpus: list,
            open: CpuMask::try_new(cpus)?,
            closings: 0,
            links: Links::new(places)?,
            shut_links: Links::new(irqs as usize)?,
            shut,
            several: several as u32,
        })
    }
}

/// The state, while its lock is held, with what others read of it.
pub(super) struct Book<'a, P> {
    pub(super) state: &'a mut State<P>,
    pub(super) shared: &'a Shared,
}

impl<P: Copy> Book<'_, P> {
    pub(super) fn record(&mut self, at: u32) -> &mut Record {
        &mut self.state.records[at as usize]
    }

    pub(super) fn entry(&self, entry: u32) -> &Entry<P> {
        &self.state.entries[entry as usize]
    }

    pub(super) fn cpu(&mut self, cpu: CpuIndex) -> &mut Cpu {
        &mut self.state.cpus[cpu.index()]
    }

    /// The place of the interrupt, if it is served.
    pub(super) fn current(&self, at: u32) -> Option<P> {
        let current = self.state.records[at as usize].current;
        self.state.entries.get(current as usize)?.place
    }

    pub(super) fn is_open(&self, cpu: CpuIndex) -> bool {
        self.state.open.contains(cpu)
    }

    /// Whether a CPU of `affinity` is open.
    pub(super) fn has_open(&self, affinity: &Affinity) -> bool {
        affinity.meets(&self.state.open)
    }

    /// The first entry of the interrupt at `stage`.
    pub(super) fn find(&self, at: u32, stage: Stage) -> Option<u32> {
        let first = at * PLACES;
        (first..first + PLACES).find(|entry| self.entry(*entry).stage == stage)
    }

    /// How many of its places are at `stage`.
    pub(super) fn count(&self, at: u32, stage: Stage) -> u32 {
        let first = at * PLACES;
        let there = |entry: &u32| self.entry(*entry).stage == stage;
        (first..first + PLACES).filter(there).count() as u32
    }

    /// How many of its places an interrupt has left and not given back.
    pub(super) fn left(&self, at: u32) -> u32 {
        let old = [Stage::Waiting, Stage::Due, Stage::Leaving];
        old.map(|stage| self.count(at, stage)).iter().sum()
    }

    /// Whether it has left a place, and not given it back, on a CPU of which `on` says so.
    pub(super) fn has_left(&self, at: u32, on: impl Fn(&Self, CpuIndex) -> bool) -> bool {
        let first = at * PLACES;
        (first..first + PLACES).any(|entry| {
            let Entry { cpu, stage, .. } = *self.entry(entry);
            matches!(stage, Stage::Waiting | Stage::Due | Stage::Leaving) && on(self, cpu)
        })
    }

    /// Whether the interrupt has another place on the CPU of `entry`.
    pub(super) fn has_another(&self, at: u32, entry: u32) -> bool {
        let first = at * PLACES;
        let cpu = self.entry(entry).cpu;
        (first..first + PLACES).any(|other| {
            let known = self.entry(other);
            other != entry && known.stage != Stage::Unused && known.cpu == cpu
        })
    }

    /// Notes that `entry` is at `stage` now, in the list of its CPU that goes with it.
    pub(super) fn set(&mut self, entry: u32, stage: Stage) {
        let State {
            records,
            entries,
            cpus,
            links,
            ..
        } = &mut *self.state;
        let known = &mut entries[entry as usize];
        let cpu = &mut cpus[known.cpu.index()];
        let regular = records[(entry / PLACES) as usize].class == Class::Regular;
        if let Some(list) = list(cpu, known.stage) {
            links.unlink(list, entry);
        }
        if let Some(list) = list(cpu, stage) {
            links.push(list, entry);
        }
        let served = |stage| u32::from(regular && matches!(stage, Stage::Next | Stage::Current));
        cpu.regular = cpu.regular + served(stage) - served(known.stage);
        // Read by the CPU itself, whom a call tells when it has to look.
        self.shared.due[known.cpu.index()].store(cpu.due.len(), Relaxed);
        known.stage = stage;
        if stage == Stage::Unused {
            known.place = None;
            let record = &mut records[(entry / PLACES) as usize];
            if record.last == entry {
                record.last = NONE;
            }
        }
    }

    /// From now on no place on `cpu` is noted.
    pub(super) fn close(&mut self, cpu: CpuIndex) {
        self.state.open.remove(cpu);
        self.state.closings += 1;
        self.cpu(cpu).closed = self.state.closings;
    }

    /// Notes a place that was taken as the interrupt's next one, unless its CPU has closed since
    /// the closing `since`, since it may have been prepared before and be forgotten by now; or
    /// a managed one has left a place there.
    pub(super) fn install(&mut self, at: u32, cpu: CpuIndex, place: P, since: u64) -> Option<u32> {
        if !self.is_open(cpu) || self.cpu(cpu).closed > since {
            return None;
        }
        let managed = self.record(at).class == Class::Managed;
        if managed && self.has_left(at, |_, left| left == cpu) {
            return None;
        }
        let entry = self.find(at, Stage::Unused)?;
        let known = &mut self.state.entries[entry as usize];
        (known.place, known.cpu) = (Some(place), cpu);
        self.set(entry, Stage::Next);
        let record = self.record(at);
        record.next = entry;
        record.arrived = false;
        self.watch(at, true);
        Some(entry)
    }

    /// Whether arrivals of the interrupt matter. Relaxed: one that is missed leaves the old place
    /// until the next arrival.
    pub(super) fn watch(&self, at: u32, watched: bool) {
        self.shared.watched[at as usize].store(watched, Relaxed);
    }

    /// All messages to old places have arrived there: they may be given back when nothing is
    /// pending. Returns their CPUs.
    pub(super) fn all_due(&mut self, at: u32) -> Wakes {
        let mut wakes = Wakes::default();
        while let Some(entry) = self.find(at, Stage::Waiting) {
            self.set(entry, Stage::Due);
            wakes.add(self.entry(entry).cpu);
        }
        self.record(at).replayed = false;
        if self.record(at).next == NONE {
            self.watch(at, false);
        }
        wakes
    }

    /// The first interrupt that `cpu` serves.
    pub(super) fn first_served(&self, cpu: CpuIndex) -> Option<u32> {
        let first = self.state.cpus[cpu.index()].serving.first()?;
        Some(first / PLACES)
    }

    /// The interrupt behind `at` in the list of `cpu`, if it is in it.
    pub(super) fn served_after(&self, cpu: CpuIndex, at: u32) -> Option<u32> {
        let first = at * PLACES;
        let here = (first..first + PLACES).find(|entry| {
            let entry = self.entry(*entry);
            entry.cpu == cpu && matches!(entry.stage, Stage::Next | Stage::Current)
        })?;
        Some(self.state.links.next(here)? / PLACES)
    }

    /// How many interrupts `cpu` serves, how many old places of it wait for an arrival, and how
    /// many are due.
    pub(super) fn lengths(&self, cpu: CpuIndex) -> [u32; 3] {
        let cpu = &self.state.cpus[cpu.index()];
        [&cpu.serving, &cpu.waiting, &cpu.due].map(List::len)
    }

    /// Puts the first of the interrupts that `cpu` serves behind the others.
    pub(super) fn rotate(&mut self, cpu: CpuIndex) {
        let State { cpus, links, .. } = &mut *self.state;
        links.rotate(&mut cpus[cpu.index()].serving);
    }

    /// The first place of `cpu` that is due, or for which `all` waits for an arrival.
    pub(super) fn first_old(&self, cpu: CpuIndex, all: bool) -> Option<u32> {
        let cpu = &self.state.cpus[cpu.index()];
        let waiting = if all { cpu.waiting.first() } else { None };
        cpu.due.first().or(waiting)
    }

    /// Puts an interrupt into the list of those that wait for a CPU of their mask.
    pub(super) fn put_shut(&mut self, at: u32, affinity: &Affinity) {
        self.unpark(at);
        let home = affinity.only_word().unwrap_or(self.state.several);
        self.put(at, home);
    }

    fn put(&mut self, at: u32, home: u32) {
        self.state.records[at as usize].home = home;
        let list = &mut self.state.shut[home as usize];
        self.state.shut_links.push(list, at);
    }

    /// Takes it out again, if it is in one.
    pub(super) fn unpark(&mut self, at: u32) {
        let home = mem::replace(&mut self.record(at).home, NONE);
        if let Some(list) = self.state.shut.get_mut(home as usize) {
            self.state.shut_links.unlink(list, at);
        }
    }

    /// The list of interrupts that `cpu` restarts.
    fn own(&self, cpu: CpuIndex) -> u32 {
        self.state.several + 1 + cpu.get()
    }

    /// Puts all interrupts that wait for `cpu` into its own list, and those that somebody has
    /// claimed, whose masks are not here.
    pub(super) fn call_back(&mut self, cpu: CpuIndex) {
        let own = self.own(cpu);
        for home in [cpu.get() / WORD, self.state.several] {
            let mut next = self.state.shut[home as usize].first();
            while let Some(at) = next {
                next = self.state.shut_links.next(at);
                let affinity = &self.state.records[at as usize].affinity;
                if affinity.as_ref().is_none_or(|set| set.contains(cpu)) {
                    self.unpark(at);
                    self.put(at, own);
                }
            }
        }
    }

    /// The first interrupt that `cpu` restarts.
    pub(super) fn first_called_back(&self, cpu: CpuIndex) -> Option<u32> {
        self.state.shut[self.own(cpu) as usize].first()
    }
}

fn list(cpu: &mut Cpu, stage: Stage) -> Option<&mut List> {
    match stage {
        Stage::Next | Stage::Current => Some(&mut cpu.serving),
        Stage::Waiting => Some(&mut cpu.waiting),
        Stage::Due => Some(&mut cpu.due),
        Stage::Unused | Stage::Leaving => None,
    }
}

/// CPUs to be woken, once the lock is free.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Wakes([Option<CpuIndex>; PLACES as usize]);

impl Wakes {
    pub(super) fn add(&mut self, cpu: CpuIndex) {
        if self.0.contains(&Some(cpu)) {
            return;
        }
        if let Some(free) = self.0.iter_mut().find(|known| known.is_none()) {
            *free = Some(cpu);
        }
    }

    pub(super) fn each(self, f: impl FnMut(CpuIndex)) {
        self.0.into_iter().flatten().for_each(f);
    }
}
