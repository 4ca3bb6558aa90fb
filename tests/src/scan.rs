// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vector matrix as kernels keep it, to measure against: one record per CPU on a line of its
//! own, the online CPUs of a mask read in order, one lock over everything.
//!
//! The rules are those of [`irq_core::placement`], and it is as fast as the layout allows: what a
//! CPU is compared by is one word, words of CPUs are skipped whole, the order of reading is that
//! of ties, and a CPU with nothing ends the search. A request that cannot be met changes nothing,
//! but [`Scan::remove_managed`] passes CPUs over that have nothing to give back, as kernels do.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::placement::Class;
use irq_hal::lock::MaskedLock;
use irq_hal::{CpuIndex, Platform};

/// Vectors of a CPU.
const VECTORS: usize = 256;
const WORDS: usize = VECTORS / 64;
/// In the slot table: nothing.
const UNUSED: u32 = u32::MAX;

type Bits = [u64; WORDS];

/// What choosing reads of a CPU, and the counts that change with it.
#[repr(align(64))]
#[derive(Clone)]
struct Record {
    /// Own load, then the core's, of each class.
    keys: [u64; 2],
    allocated: u32,
    managed: u32,
    managed_allocated: u32,
    /// The next thread of its core: a ring.
    sibling: u32,
    /// Whether there is a vector for one more, of each class.
    rooms: [bool; 2],
}

/// The bitmaps of a CPU, beside its record.
#[repr(align(64))]
#[derive(Clone)]
struct Maps {
    alloc: Bits,
    managed: Bits,
}

/// A unit of a CPU's own load.
const OWN: u64 = 1 << 32;

/// Sets of CPUs, by words.
type Cpus = Vec<u64>;

struct State {
    records: Vec<Record>,
    maps: Vec<Maps>,
    system: Bits,
    /// Vectors that are not the system's.
    capacity: u64,
    online: Cpus,
    isolated: Cpus,
    /// Online, not isolated, with room, of each class; and the isolated ones.
    open: [Cpus; 2],
    isolated_open: [Cpus; 2],
    nodes: Vec<Cpus>,
}

/// The CPUs that may serve: all, or those of a mask.
pub type Mask<'a> = Option<&'a [u64]>;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// For which interrupt; a tie begins at the CPU of this number.
    pub irq: u32,
    /// Who may serve it.
    pub mask: Mask<'a>,
    /// The device's node.
    pub near: Option<u32>,
}

/// The matrix.
pub struct Scan {
    state: MaskedLock<State, 2>,
    slots: Vec<AtomicU32>,
    cpus: u32,
}

/// The first bit that is set.
#[inline(always)]
fn first(bits: impl Fn(usize) -> u64) -> Option<usize> {
    (0..WORDS).find_map(|at| {
        let word = bits(at);
        (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)
    })
}

#[inline(always)]
fn put(words: &mut [u64], at: usize, to: bool) {
    let bit = 1 << (at % 64);
    match to {
        true => words[at / 64] |= bit,
        false => words[at / 64] &= !bit,
    }
}

#[inline(always)]
fn has(words: &[u64], at: usize) -> bool {
    words[at / 64] >> (at % 64) & 1 != 0
}

/// Calls `f` for each CPU of `mask` that exists, as long as it says so.
#[inline(always)]
fn each(mask: &[u64], cpus: usize, mut f: impl FnMut(usize) -> bool) {
    for (at, word) in mask.iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let cpu = at * 64 + bits.trailing_zeros() as usize;
            if cpu >= cpus || !f(cpu) {
                return;
            }
            bits &= bits - 1;
        }
    }
}

impl State {
    /// The first of the CPUs with the least key, from `start` on and around, of those in every
    /// word that `bits` gives.
    #[inline(always)]
    fn least(&self, class: Class, start: usize, bits: impl Fn(usize) -> u64) -> Option<usize> {
        let (first, before) = (start / 64, (1 << (start % 64)) - 1);
        let words = self.online.len();
        let (mut best, mut cpu) = (u64::MAX, None);
        // A loop of its own for words that are full was slower.
        let mut look = |at: usize, mut bits: u64| {
            if bits == 0 {
                return false;
            }
            let records = &self.records[at * 64..][..64];
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize & 63;
                let key = records[bit].keys[class as usize];
                if key < best {
                    (best, cpu) = (key, Some(at * 64 + bit));
                    if key == 0 {
                        return true;
                    }
                }
                bits &= bits - 1;
            }
            false
        };
        let _ = look(first, bits(first) & !before)
            || (first + 1..words).any(|at| look(at, bits(at)))
            || (0..first).any(|at| look(at, bits(at)))
            || look(first, bits(first) & before);
        cpu
    }

    /// Likewise of `open`, and of the mask.
    #[inline(always)]
    fn pass(
        &self,
        class: Class,
        wanted: &Wanted<'_>,
        start: usize,
        open: &[u64],
        near: Option<&[u64]>,
    ) -> Option<usize> {
        let word = |words: &[u64], at: usize| words.get(at).copied().unwrap_or(0);
        match (wanted.mask, near) {
            (None, None) => self.least(class, start, |at| open[at]),
            (None, Some(near)) => self.least(class, start, |at| open[at] & near[at]),
            (Some(mask), None) => self.least(class, start, |at| open[at] & word(mask, at)),
            (Some(mask), Some(near)) => {
                self.least(class, start, |at| open[at] & word(mask, at) & near[at])
            }
        }
    }

    fn choose(&self, class: Class, wanted: &Wanted<'_>, cpus: u32) -> Option<usize> {
        let start = match wanted.irq {
            irq if irq < cpus => irq,
            irq => irq % cpus,
        };
        let near = wanted.near.and_then(|node| self.nodes.get(node as usize));
        let near = near.map(Vec::as_slice);
        let pass = |open, near| self.pass(class, wanted, start as usize, open, near);
        for open in [&self.open, &self.isolated_open] {
            let open = &open[class as usize];
            let found = near.and_then(|near| pass(open, Some(near)));
            if let Some(cpu) = found.or_else(|| pass(open, None)) {
                return Some(cpu);
            }
        }
        None
    }

    /// Whether the CPU has room, after a change of what decides it.
    #[inline(always)]
    fn settle(&mut self, cpu: usize) {
        let record = &mut self.records[cpu];
        let rooms = [
            record.managed != record.managed_allocated,
            record.keys[Class::Regular as usize] / OWN < self.capacity,
        ];
        if rooms != record.rooms {
            record.rooms = rooms;
            self.reopen(cpu);
        }
    }

    /// Puts a CPU where it belongs.
    fn reopen(&mut self, cpu: usize) {
        let (online, isolated) = (has(&self.online, cpu), has(&self.isolated, cpu));
        for (class, room) in self.records[cpu].rooms.into_iter().enumerate() {
            let room = room && online;
            put(&mut self.open[class], cpu, room && !isolated);
            put(&mut self.isolated_open[class], cpu, room && isolated);
        }
    }

    /// An interrupt comes to, or leaves, the cores' threads.
    #[inline(always)]
    fn place(&mut self, class: Class, cpu: usize, by: u64) {
        let mut at = cpu;
        loop {
            let record = &mut self.records[at];
            let key = &mut record.keys[class as usize];
            *key = key.wrapping_add(by);
            at = record.sibling as usize;
            if at == cpu {
                return;
            }
        }
    }

    fn take(&mut self, class: Class, cpu: usize, vector: usize) {
        put(&mut self.maps[cpu].alloc, vector, true);
        self.place(class, cpu, 1);
        let record = &mut self.records[cpu];
        record.keys[class as usize] += OWN;
        record.allocated += 1;
        record.managed_allocated += u32::from(class == Class::Managed);
        self.settle(cpu);
    }

    /// The vector for an interrupt of the class on a CPU that has room.
    #[inline(always)]
    fn vector(&self, class: Class, cpu: usize) -> Option<usize> {
        let maps = &self.maps[cpu];
        match class {
            Class::Managed => first(|at| maps.managed[at] & !maps.alloc[at]),
            Class::Regular => first(|at| !(maps.managed[at] | maps.alloc[at] | self.system[at])),
        }
    }

    fn reserve_one(&mut self, cpu: usize) -> bool {
        let Some(vector) = self.vector(Class::Regular, cpu) else {
            return false;
        };
        put(&mut self.maps[cpu].managed, vector, true);
        let record = &mut self.records[cpu];
        record.managed += 1;
        record.keys[Class::Regular as usize] += OWN;
        self.settle(cpu);
        true
    }

    fn remove_one(&mut self, cpu: usize) -> bool {
        let Some(vector) = self.vector(Class::Managed, cpu) else {
            return false;
        };
        put(&mut self.maps[cpu].managed, vector, false);
        let record = &mut self.records[cpu];
        record.managed -= 1;
        record.keys[Class::Regular as usize] -= OWN;
        self.settle(cpu);
        true
    }
}

impl Scan {
    /// `cpus` CPUs in `nodes` nodes, none online, with the vectors `first` to `end - 1` but those
    /// of `system`.
    pub fn new(cpus: u32, nodes: u32, first: u8, end: u16, system: &[u8]) -> Self {
        let mut used = [0; WORDS];
        let area = usize::from(first)..usize::from(end);
        for vector in 0..VECTORS {
            let is_system = system.iter().any(|system| usize::from(*system) == vector);
            put(&mut used, vector, is_system || !area.contains(&vector));
        }
        let words = (cpus as usize).div_ceil(64);
        let none = || vec![0; words];
        let capacity = used.iter().map(|word| u64::from(word.count_zeros())).sum();
        let record = |sibling| Record {
            keys: [0; 2],
            allocated: 0,
            managed: 0,
            managed_allocated: 0,
            sibling,
            rooms: [false, true],
        };
        let maps = Maps {
            alloc: [0; WORDS],
            managed: [0; WORDS],
        };
        let state = State {
            records: (0..words as u32 * 64).map(record).collect(),
            maps: vec![maps; words * 64],
            system: used,
            capacity,
            online: none(),
            isolated: none(),
            open: [none(), none()],
            isolated_open: [none(), none()],
            nodes: (0..nodes).map(|_| none()).collect(),
        };
        let slots = cpus as usize * VECTORS;
        Self {
            state: MaskedLock::new(state),
            slots: (0..slots).map(|_| AtomicU32::new(UNUSED)).collect(),
            cpus,
        }
    }

    /// Lets a CPU be picked, of a core whose thread `sibling` is known already, if one is.
    pub fn online<P: Platform>(
        &self,
        platform: &P,
        cpu: CpuIndex,
        sibling: Option<CpuIndex>,
        node: u32,
    ) {
        self.state.with(platform, |state| {
            let at = cpu.index();
            put(&mut state.online, at, true);
            put(&mut state.nodes[node as usize], at, true);
            if let Some(sibling) = sibling {
                let next = state.records[sibling.index()].sibling;
                state.records[at].sibling = next;
                state.records[sibling.index()].sibling = cpu.get();
            }
            state.reopen(at);
        });
    }

    /// Makes a CPU the last to be picked, or one like others.
    pub fn isolate<P: Platform>(&self, platform: &P, cpu: CpuIndex, isolated: bool) {
        self.state.with(platform, |state| {
            put(&mut state.isolated, cpu.index(), isolated);
            state.reopen(cpu.index());
        });
    }

    /// The CPU that would serve.
    pub fn choose<P: Platform>(
        &self,
        platform: &P,
        class: Class,
        wanted: &Wanted<'_>,
    ) -> Option<CpuIndex> {
        let found = self
            .state
            .with(platform, |state| state.choose(class, wanted, self.cpus));
        found.map(|cpu| CpuIndex::new(cpu as u32))
    }

    /// A free vector, or for a managed interrupt a reserved one.
    pub fn alloc<P: Platform>(
        &self,
        platform: &P,
        class: Class,
        wanted: &Wanted<'_>,
    ) -> Option<(CpuIndex, u8)> {
        self.state.with(platform, |state| {
            let cpu = state.choose(class, wanted, self.cpus)?;
            let vector = state.vector(class, cpu)?;
            state.take(class, cpu, vector);
            self.slots[cpu * VECTORS + vector].store(wanted.irq, Relaxed);
            Some((CpuIndex::new(cpu as u32), vector as u8))
        })
    }

    /// Gives the vector of `irq` back. Whether it was its.
    pub fn free<P: Platform>(&self, platform: &P, (cpu, vector): (CpuIndex, u8), irq: u32) -> bool {
        self.state.with(platform, |state| {
            let (cpu, vector) = (cpu.index(), usize::from(vector));
            let slot = &self.slots[cpu * VECTORS + vector];
            if slot.load(Relaxed) != irq || !has(&state.maps[cpu].alloc, vector) {
                return false;
            }
            slot.store(UNUSED, Relaxed);
            put(&mut state.maps[cpu].alloc, vector, false);
            let class = match has(&state.maps[cpu].managed, vector) {
                true => Class::Managed,
                false => Class::Regular,
            };
            state.place(class, cpu, 1_u64.wrapping_neg());
            let record = &mut state.records[cpu];
            record.keys[class as usize] -= OWN;
            record.allocated -= 1;
            record.managed_allocated -= u32::from(class == Class::Managed);
            state.settle(cpu);
            true
        })
    }

    /// A vector on each CPU of the mask, or nothing.
    pub fn reserve_managed<P: Platform>(&self, platform: &P, mask: &[u64]) -> bool {
        self.state.with(platform, |state| {
            let (cpus, mut failed) = (self.cpus as usize, None);
            each(mask, cpus, |cpu| {
                let done = state.reserve_one(cpu);
                failed = (!done).then_some(cpu);
                done
            });
            let Some(failed) = failed else { return true };
            // Those that were done give one back: reserved vectors are alike.
            each(mask, cpus, |cpu| cpu < failed && state.remove_one(cpu));
            false
        })
    }

    /// Gives a vector back on each CPU of the mask that has one to give. Whether all had.
    pub fn remove_managed<P: Platform>(&self, platform: &P, mask: &[u64]) -> bool {
        self.state.with(platform, |state| {
            let mut all = true;
            each(mask, self.cpus as usize, |cpu| {
                all &= state.remove_one(cpu);
                true
            });
            all
        })
    }
}
