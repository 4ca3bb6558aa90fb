// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vectors of 64 CPUs, laid out by vector: two words say of each CPU whether the vector is
//! reserved there, and whether it is in use. Under the bank's lock.
//!
//! What concerns a mask of CPUs is word work; what concerns one CPU begins at its hint.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::heap::try_vec;

use super::area::{Area, VectorSet};
use super::counter::Counters;
use super::hints::Hints;

/// A vector on 64 CPUs.
#[derive(Clone, Copy)]
struct Cell {
    managed: u64,
    alloc: u64,
}

/// What a vector is on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) system: bool,
    pub(super) managed: bool,
    pub(super) alloc: bool,
}

/// The vectors of 64 CPUs.
pub(super) struct Bank {
    area: Area,
    cells: Vec<Cell>,
    system: VectorSet,
    /// System vectors of the area that were not at construction.
    late: u32,
    /// The possible CPUs.
    cpus: u64,
    /// Reservations that are free to be used, for each CPU.
    pub(super) spare: Counters,
    free_from: Hints,
    spare_from: Hints,
}

impl Bank {
    /// For the CPUs of `cpus`, with nothing in use.
    pub(super) fn new(area: Area, system: VectorSet, cpus: u64) -> Result<Self, Error> {
        let mut cells = try_vec(area.len())?;
        cells.resize(
            area.len(),
            Cell {
                managed: 0,
                alloc: 0,
            },
        );
        Ok(Self {
            area,
            cells,
            system,
            late: 0,
            cpus,
            spare: Counters::new(),
            free_from: Hints::new(0),
            spare_from: Hints::new(area.len()),
        })
    }

    #[inline]
    fn is_system(&self, at: usize) -> bool {
        self.system.contains(self.area.vector(at))
    }

    /// The CPUs on which the vector cannot be had.
    #[inline]
    fn taken(&self, at: usize) -> u64 {
        match self.is_system(at) {
            true => u64::MAX,
            false => self.cells[at].managed | self.cells[at].alloc,
        }
    }

    #[inline]
    pub(super) fn state(&self, bit: u64, at: usize) -> State {
        let Cell { managed, alloc } = self.cells[at];
        State {
            system: self.is_system(at),
            managed: managed & bit != 0,
            alloc: alloc & bit != 0,
        }
    }

    /// How many reservations the CPU of `bit` has to spare.
    #[inline]
    pub(super) fn spare(&self, bit: u64) -> u32 {
        self.spare.get(bit)
    }

    /// The CPUs that have one to spare.
    #[inline]
    pub(super) fn spares(&self) -> u64 {
        self.spare.nonzero()
    }

    /// How many vectors became system vectors since construction.
    #[inline]
    pub(super) const fn late(&self) -> u32 {
        self.late
    }

    /// Below which vector of the CPU of `bit` there is none free, and none to spare.
    #[inline]
    pub(super) fn hints(&self, bit: u64) -> (usize, usize) {
        (self.free_from.peek(bit), self.spare_from.peek(bit))
    }

    /// Reserves a vector on each CPU of `bits`, or on none if one of them has no vector left.
    #[inline]
    pub(super) fn reserve(&mut self, bits: u64) -> bool {
        let len = self.area.len();
        let start = match bits.is_power_of_two() {
            true => self.free_from.start(bits),
            false => self.free_from.start_of_all(),
        };
        let (mut left, mut end) = (bits, start);
        while left != 0 {
            if end == len {
                return false;
            }
            let taken = self.taken(end);
            // Only while all that was passed is taken on all CPUs.
            if end == self.free_from.start_of_all() && taken & self.cpus == self.cpus {
                self.free_from.pass_all(end + 1);
            }
            left &= taken;
            end += 1;
        }
        let mut left = bits;
        for at in start..end {
            let mine = left & !self.taken(at);
            if mine != 0 {
                self.cells[at].managed |= mine;
                self.spare_from.lower(mine, at);
                left &= !mine;
            }
        }
        self.spare.raise(bits);
        true
    }

    /// Gives back a spare reservation of each CPU of `bits`, whose vectors are free then; or says
    /// which CPUs have none and does nothing.
    #[inline]
    pub(super) fn remove(&mut self, bits: u64) -> Result<(), u64> {
        match bits & !self.spare.nonzero() {
            0 => self.spare.lower(bits),
            none => return Err(none),
        }
        let mut left = bits;
        for at in self.spare_from.start_of_all()..self.area.len() {
            let Cell { managed, alloc } = self.cells[at];
            let spare = managed & !alloc;
            if spare == 0 && at == self.spare_from.start_of_all() {
                self.spare_from.pass_all(at + 1);
            }
            let mine = left & spare;
            if mine != 0 {
                self.cells[at].managed &= !mine;
                self.free_from.lower(mine, at);
                left &= !mine;
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The first spare reservation of the CPU of `bit` is in use.
    #[inline]
    pub(super) fn take_spare(&mut self, bit: u64) -> Option<usize> {
        if self.spare.nonzero() & bit == 0 {
            return None;
        }
        let start = self.spare_from.start(bit);
        let is_spare = |cell: &Cell| cell.managed & !cell.alloc & bit != 0;
        let cells = self.cells.get_mut(start..)?;
        let (at, cell) = (start..).zip(cells).find(|(_, cell)| is_spare(cell))?;
        cell.alloc |= bit;
        self.spare_from.pass(bit, at + 1);
        self.spare.lower(bit);
        Some(at)
    }

    /// The first free vector of the CPU of `bit` is in use.
    #[inline]
    pub(super) fn take_free(&mut self, bit: u64) -> Option<usize> {
        let start = self.free_from.start(bit);
        let at = (start..self.area.len()).find(|at| self.taken(*at) & bit == 0)?;
        self.cells[at].alloc |= bit;
        self.free_from.pass(bit, at + 1);
        Some(at)
    }

    /// The first free run of `count` vectors is in use.
    #[inline]
    pub(super) fn take_run(&mut self, bit: u64, count: usize) -> Option<usize> {
        let area = self.area;
        let free = |at: &usize| (*at..at + count).all(|at| self.taken(at) & bit == 0);
        let at = area.runs(count).find(free)?;
        self.cells[at..at + count]
            .iter_mut()
            .for_each(|cell| cell.alloc |= bit);
        Some(at)
    }

    /// The CPUs that have such a run.
    #[inline]
    pub(super) fn with_run(&self, count: usize) -> u64 {
        let run = |at: usize| (at..at + count).fold(u64::MAX, |free, at| free & !self.taken(at));
        self.area.runs(count).fold(0, |any, at| any | run(at))
    }

    /// The vector, which is free, is in use on the CPU of `bit`.
    #[inline]
    pub(super) fn take(&mut self, bit: u64, at: usize) {
        self.cells[at].alloc |= bit;
    }

    /// The vector, which is in use, is not any more. True if it stays reserved.
    #[inline]
    pub(super) fn put(&mut self, bit: u64, at: usize) -> bool {
        self.cells[at].alloc &= !bit;
        let managed = self.cells[at].managed & bit != 0;
        if managed {
            self.spare.raise(bit);
            self.spare_from.lower(bit, at);
        } else {
            self.free_from.lower(bit, at);
        }
        managed
    }

    /// The CPUs on which a vector of the area is reserved or in use.
    #[inline]
    pub(super) fn users(&self, at: usize) -> u64 {
        self.cells[at].managed | self.cells[at].alloc
    }

    /// Whether `vector` is a system vector.
    #[inline]
    pub(super) const fn has_system(&self, vector: u8) -> bool {
        self.system.contains(vector)
    }

    /// `vector` is a system vector from now on, or is not any more.
    #[inline]
    pub(super) fn set_system(&mut self, vector: u8, system: bool) {
        let at = self.area.position(vector);
        let counted = u32::from(at.is_some());
        match system {
            true => {
                self.system.insert(vector);
                self.late += counted;
            }
            false => {
                self.system.remove(vector);
                self.late -= counted;
                if let Some(at) = at {
                    self.free_from.lower(self.cpus, at);
                }
            }
        }
    }
}
