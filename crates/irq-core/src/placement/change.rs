// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a caller sees under a bank's lock, and changes there.

use irq_hal::CpuIndex;

use super::Class;
use super::bank::BANK;
use super::cores::Cores;
use super::rows::{Row, Rows};

/// What changed in a class.
#[derive(Clone, Copy)]
pub(super) enum Changed {
    /// Nothing.
    Nothing,
    /// Loads of these CPUs, and of no others, rose.
    Grew(u64),
    /// Anything.
    Otherwise,
}

impl Changed {
    /// And the loads of these rose.
    #[inline(always)]
    const fn and_grew(self, cpus: u64) -> Self {
        match self {
            Self::Nothing => Self::Grew(cpus),
            Self::Grew(others) => Self::Grew(others | cpus),
            Self::Otherwise => Self::Otherwise,
        }
    }
}

/// A CPU under the lock of its bank: what is there, and what changes for it.
pub struct Change<'a> {
    rows: &'a [Rows; 2],
    cores: &'a Cores,
    cpu: CpuIndex,
    bit: u64,
    online: bool,
    changed: [Changed; 2],
    /// Whether the core's load changed and other banks show it, too; by how much.
    pub(super) elsewhere: bool,
    pub(super) counts: [i32; 2],
}

impl<'a> Change<'a> {
    #[inline(always)]
    pub(super) const fn new(
        rows: &'a [Rows; 2],
        cores: &'a Cores,
        cpu: CpuIndex,
        online: u64,
    ) -> Self {
        let bit = 1 << (cpu.get() % BANK);
        Self {
            rows,
            cores,
            cpu,
            bit,
            online: online & bit != 0,
            changed: [Changed::Nothing; 2],
            elsewhere: false,
            counts: [0; 2],
        }
    }

    /// What changed in a class.
    #[inline(always)]
    pub(super) const fn changed(&self, class: Class) -> Changed {
        self.changed[class as usize]
    }

    /// The loads of these CPUs changed by `count`.
    #[inline(always)]
    fn note(&mut self, class: Class, cpus: u64, count: i32) {
        let changed = &mut self.changed[class as usize];
        *changed = match count > 0 {
            true => changed.and_grew(cpus),
            false => Changed::Otherwise,
        };
    }

    #[inline(always)]
    fn row(&self, class: Class) -> Row<'a> {
        self.rows[class as usize].row(self.cpu.get() / BANK)
    }

    /// The CPU's bit in words of its bank.
    pub const fn bit(&self) -> u64 {
        self.bit
    }

    /// Whether the CPU is online.
    pub const fn online(&self) -> bool {
        self.online
    }

    /// The CPU's load.
    pub fn load(&self, class: Class) -> u32 {
        self.row(class).load(self.bit)
    }

    /// `count` interrupts more, or less, are placed on the CPU: its load and its core's change.
    #[inline(always)]
    pub fn place(&mut self, class: Class, count: i32) {
        self.shift(class, count);
        self.run(class, count);
    }

    /// The CPU's load alone changes. It ends at 0 and at the highest load.
    #[inline(always)]
    pub fn shift(&mut self, class: Class, count: i32) {
        let row = self.row(class);
        let own = row.own();
        // One that is to have less has more than the least, most of the time.
        let hint = row.key().hint().own() + u32::from(count < 0);
        let load = own.least(self.bit, hint);
        let to = load.saturating_add_signed(count).min(own.highest());
        own.shift(self.bit, load, to);
        self.note(class, self.bit, count);
    }

    /// The CPU's core's load alone changes: what its own load counted before is placed now.
    #[inline(always)]
    pub fn run(&mut self, class: Class, count: i32) {
        let (row, cpu) = (self.row(class), self.cpu.get());
        self.cores.place(class, cpu, count);
        // Mostly all threads are in this bank, and show the same: that is what is placed, unless
        // it is more than what is kept apart.
        if let Some(threads) = self.cores.all_here(cpu) {
            let cores = row.cores();
            let hint = row.key().hint().core() + u32::from(count < 0);
            let from = cores.least(threads, hint);
            let to = from.saturating_add_signed(count);
            let equal = cores.below(from + 1) & threads == threads;
            if equal && from.max(to) < cores.highest() {
                cores.shift(threads, from, to);
                self.note(class, threads, count);
                return;
            }
        }
        self.show(class, row, count);
    }

    /// Shows what is placed on the core for each of its threads in this bank, after that changed
    /// by `count`.
    #[inline(never)]
    fn show(&mut self, class: Class, row: Row<'_>, count: i32) {
        let cpu = self.cpu.get();
        self.changed[class as usize] = Changed::Otherwise;
        let placed = self.cores.placed(class, cpu);
        row.show(cpu, placed, count);
        let counts = &mut self.counts[class as usize];
        *counts = counts.saturating_add(count);
        for sibling in self.cores.siblings(cpu) {
            match sibling / BANK == cpu / BANK {
                true => row.show(sibling, placed, count),
                false => self.elsewhere = true,
            }
        }
    }

    /// Whether the CPU has room in the class, its load left aside.
    pub fn room(&mut self, class: Class, room: bool) {
        if self.row(class).set_room(self.bit, room) {
            self.changed[class as usize] = Changed::Otherwise;
        }
    }
}

/// The CPUs of a bank under its lock: what is there, and what changes for some of them.
pub struct BankChange<'a> {
    rows: &'a [Rows; 2],
    bank: u32,
    possible: u64,
    online: u64,
    changed: [Changed; 2],
    /// For which CPUs something changed.
    pub(super) touched: u64,
}

impl<'a> BankChange<'a> {
    #[inline(always)]
    pub(super) const fn new(rows: &'a [Rows; 2], bank: u32, possible: u64, online: u64) -> Self {
        Self {
            rows,
            bank,
            possible,
            online,
            changed: [Changed::Nothing; 2],
            touched: 0,
        }
    }

    /// What changed in a class.
    #[inline(always)]
    pub(super) const fn changed(&self, class: Class) -> Changed {
        self.changed[class as usize]
    }

    #[inline(always)]
    fn row(&self, class: Class) -> Row<'a> {
        self.rows[class as usize].row(self.bank)
    }

    /// The CPUs that are online.
    pub const fn online(&self) -> u64 {
        self.online
    }

    /// The CPUs that are online and have room, isolated or not.
    pub fn usable(&self, class: Class) -> u64 {
        self.online & self.row(class).with_room()
    }

    /// The own loads of `bits` rise by one, but for those that are as high as can be.
    #[inline(always)]
    pub fn raise(&mut self, class: Class, bits: u64) {
        let row = self.row(class);
        let own = row.own();
        let bits = bits & self.possible & own.below(own.highest());
        own.raise_each(bits, row.key().hint().own());
        self.touched |= bits;
        let changed = &mut self.changed[class as usize];
        *changed = changed.and_grew(bits);
    }

    /// The own loads of `bits` fall by one, but for those that have none.
    #[inline(always)]
    pub fn lower(&mut self, class: Class, bits: u64) {
        let row = self.row(class);
        let own = row.own();
        let bits = bits & self.possible & !own.below(1);
        own.lower_each(bits, row.key().hint().own());
        self.touched |= bits;
        self.changed[class as usize] = Changed::Otherwise;
    }

    /// Whether `bits` have room in the class, their loads left aside.
    #[inline(always)]
    pub fn room(&mut self, class: Class, bits: u64, room: bool) {
        let bits = bits & self.possible;
        if self.row(class).set_room(bits, room) {
            self.touched |= bits;
            self.changed[class as usize] = Changed::Otherwise;
        }
    }
}
