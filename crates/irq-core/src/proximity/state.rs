// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept under the lock, and who is settled again when it changes.

use alloc::vec::Vec;

use irq_hal::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error};

use super::answer::Word;
use super::units::{Units, no_such};
use super::{CpuPlace, Distances, Unit, UnitIndex};
use crate::cpu::CpuMask;

/// What CPUs read: a line for each.
pub(super) struct Lines(Vec<CachePadded<AtomicU64>>);

impl Lines {
    pub(super) fn new(cpus: u32) -> Result<Self, Error> {
        let mut lines = try_vec(cpus as usize)?;
        let offline = || CachePadded::new(AtomicU64::new(Word::OFFLINE.bits()));
        lines.extend((0..cpus).map(|_| offline()));
        Ok(Self(lines))
    }

    pub(super) const fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// What `cpu` finds now.
    #[inline]
    pub(super) fn read(&self, cpu: CpuIndex) -> Result<Word, Error> {
        let line = self.0.get(cpu.index()).ok_or(Error::NoSuchCpu { cpu })?;
        // Pairs with `publish`: who finds a unit finds it as it was when it was added.
        Ok(Word::from_bits(line.load(Acquire)))
    }

    /// What `cpu` finds from now on. Under the lock, which every writer holds; a line whose
    /// content stays is not written.
    fn publish(&self, cpu: CpuIndex, word: Word) {
        let line = &self.0[cpu.index()];
        if line.load(Relaxed) != word.bits() {
            // Pairs with `read`.
            line.store(word.bits(), Release);
        }
    }
}

/// A CPU that is online.
#[derive(Clone, Copy, Debug)]
struct Known {
    place: CpuPlace,
    /// The unit that its own key gave it.
    own: Option<UnitIndex>,
}

/// All of it. Each change ends with every answer being that of the rules.
#[derive(Debug)]
pub(super) struct State {
    units: Units,
    cpus: Vec<Option<Known>>,
    /// The online CPUs to which their own key gave nothing.
    others: CpuMask,
}

impl State {
    pub(super) fn new(cpus: u32, units: u32, distances: Distances) -> Result<Self, Error> {
        let units = Units::new(units, distances)?;
        // Refuses absurd numbers.
        let others = CpuMask::try_new(cpus)?;
        let mut list = try_vec(cpus as usize)?;
        list.resize(cpus as usize, None);
        Ok(Self {
            units,
            cpus: list,
            others,
        })
    }

    pub(super) fn add(&mut self, lines: &Lines, index: UnitIndex, unit: Unit) -> Result<(), Error> {
        self.units.distances().check(unit.node)?;
        let slot = self.units.slot(index)?;
        if slot.is_some() {
            return Err(Error::Exists { what: "the unit" });
        }
        *slot = Some(unit);
        self.settle_again(lines, &unit)
    }

    pub(super) fn remove(&mut self, lines: &Lines, index: UnitIndex) -> Result<(), Error> {
        let unit = self.units.slot(index)?.take().ok_or(no_such(index))?;
        self.settle_again(lines, &unit)
    }

    pub(super) fn online(
        &mut self,
        lines: &Lines,
        cpu: CpuIndex,
        place: CpuPlace,
    ) -> Result<(), Error> {
        let known = self.cpus.get_mut(cpu.index());
        let known = known.ok_or(Error::NoSuchCpu { cpu })?;
        if known.is_some() {
            return Err(Error::CpuIsOnline { cpu });
        }
        self.units.distances().check(place.node)?;
        let own = self.units.by_own_key(&place);
        *known = Some(Known { place, own });
        match own {
            Some(unit) => {
                lines.publish(cpu, self.units.own_answer(&place, unit));
                if self.units.gain(unit) {
                    self.settle_others(lines);
                }
            }
            None => {
                self.others.insert(cpu)?;
                lines.publish(cpu, self.units.other_answer(&place));
            }
        }
        Ok(())
    }

    pub(super) fn offline(&mut self, lines: &Lines, cpu: CpuIndex) -> Result<(), Error> {
        let known = self.cpus.get_mut(cpu.index());
        let known = known.ok_or(Error::NoSuchCpu { cpu })?;
        let Known { own, .. } = known.take().ok_or(Error::CpuOffline { cpu })?;
        lines.publish(cpu, Word::OFFLINE);
        match own {
            Some(unit) => {
                if self.units.lose(unit) {
                    self.settle_others(lines);
                }
            }
            None => {
                self.others.remove(cpu);
            }
        }
        Ok(())
    }

    /// `unit` came or went. The own key of a CPU leads elsewhere only if it is the unit's.
    fn settle_again(&mut self, lines: &Lines, unit: &Unit) -> Result<(), Error> {
        for (index, known) in (0..).zip(&mut self.cpus) {
            let cpu = CpuIndex::new(index);
            let Some(known) = known.as_mut().filter(|known| unit.has_key_of(&known.place)) else {
                continue;
            };
            let own = self.units.by_own_key(&known.place);
            if own == known.own {
                continue;
            }
            if let Some(before) = known.own {
                self.units.lose(before);
            }
            known.own = own;
            match own {
                Some(unit) => {
                    self.units.gain(unit);
                    self.others.remove(cpu);
                    lines.publish(cpu, self.units.own_answer(&known.place, unit));
                }
                None => {
                    self.others.insert(cpu)?;
                }
            }
        }
        self.settle_others(lines);
        Ok(())
    }

    /// The answers that depend on all units and on other CPUs.
    fn settle_others(&self, lines: &Lines) {
        for cpu in &self.others {
            if let Some(known) = &self.cpus[cpu.index()] {
                lines.publish(cpu, self.units.other_answer(&known.place));
            }
        }
    }
}
