// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of loads: of a CPU, of the CPUs of a bank, of a mask.

use irq_hal::{CpuIndex, Error, Platform};

use super::bank::{BANK, Bank, MIXED};
use super::change::{BankChange, Change, Changed};
use super::least::FAN;
use super::settle::{Batch, Moved};
use super::{Class, Placement};
use crate::cpu::CpuSet;

impl<T: Send> Placement<T> {
    /// Runs `f` with what the bank of `cpu` holds, under the bank's lock, and makes the changes
    /// that `f` asks for. Changes beyond the limits of a load end there.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`] for a CPU that has never been online: nothing is
    /// placed there. `f` is not called then.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, under no lock of rank 2 or above. Nothing allocates.
    pub fn update<P, R>(
        &self,
        platform: &P,
        cpu: CpuIndex,
        f: impl FnOnce(&mut Change<'_>, &mut T) -> R,
    ) -> Result<R, Error>
    where
        P: Platform + ?Sized,
    {
        let (index, bit) = self.place_of(cpu)?;
        if self.cores.node(cpu.get()).is_none() {
            return Err(Error::CpuOffline { cpu });
        }
        let bank = &self.banks[index as usize];
        // Not returned with the result: what is copied in pieces and read at once costs as much
        // as the rest.
        let (mut moved, mut elsewhere) = (Moved::default(), None);
        let result = bank.lock.with(platform, |data| {
            let mut change = Change::new(&self.rows, &self.cores, cpu, bank.online());
            let result = f(&mut change, data);
            for class in Class::ALL {
                match change.changed(class) {
                    Changed::Nothing => {}
                    Changed::Grew(cpus) if self.shrink(class, index, cpus) => {}
                    _ => self.refresh(class, index, bit, &mut moved),
                }
            }
            if change.elsewhere {
                elsewhere = Some(change.counts);
            }
            result
        });
        self.settle(platform, index, bit, moved);
        if let Some(counts) = elsewhere {
            self.show_elsewhere(platform, cpu.get(), counts);
        }
        Ok(result)
    }

    /// Brings what other banks show of the core of `cpu` up to date. Under no lock.
    #[inline(never)]
    fn show_elsewhere<P>(&self, platform: &P, cpu: u32, counts: [i32; 2])
    where
        P: Platform + ?Sized,
    {
        for class in Class::ALL {
            let count = counts[class as usize];
            if count != 0 {
                self.cores
                    .siblings(cpu)
                    .filter(|sibling| sibling / BANK != cpu / BANK)
                    .for_each(|sibling| self.show_core_there(platform, class, sibling, count));
            }
        }
    }

    /// Likewise for the CPUs of a bank at once: bit `i` of a word is CPU `64 * bank + i`; bits of
    /// CPUs that cannot be are ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bank beyond the last; `f` is not called then.
    ///
    /// # Context
    /// As [`update`](Self::update).
    pub fn update_bank<P, R>(
        &self,
        platform: &P,
        bank: u32,
        f: impl FnOnce(&mut BankChange<'_>, &mut T) -> R,
    ) -> Result<R, Error>
    where
        P: Platform + ?Sized,
    {
        if bank >= self.banks() {
            return Err(Error::Invalid {
                what: "bank of CPUs",
                value: u64::from(bank),
            });
        }
        let (result, touched, moved) = self.change_bank(platform, bank, f);
        self.settle(platform, bank, touched, moved);
        Ok(result)
    }

    /// Likewise for the banks of the CPUs of `set`, one after another in rising order: `f` is
    /// called with the bank's number and the CPUs of the set there, of those that can be. It
    /// ends with the first error of `f`; what was changed until then stays changed. What is kept
    /// above the banks is brought up to date for 64 of them at once.
    ///
    /// # Errors
    /// The first of `f`.
    ///
    /// # Context
    /// As [`update`](Self::update). Banks are locked one by one: others may see a part of it.
    pub fn update_mask<P, E>(
        &self,
        platform: &P,
        set: &dyn CpuSet,
        mut f: impl FnMut(u32, u64, &mut BankChange<'_>, &mut T) -> Result<(), E>,
    ) -> Result<(), E>
    where
        P: Platform + ?Sized,
    {
        let mut batch = Batch::default();
        let mut result = Ok(());
        let mut one = |bank: u32, bits: u64| {
            if bank >= self.banks() || result.is_err() {
                return;
            }
            let bits = bits & self.possible(bank);
            if bits == 0 {
                return;
            }
            if bank / FAN != batch.first / FAN {
                self.settle_batch(platform, &mut batch);
                batch.first = bank - bank % FAN;
            }
            let change = |change: &mut BankChange<'_>, data: &mut T| f(bank, bits, change, data);
            let (done, touched, moved) = self.change_bank(platform, bank, change);
            result = done;
            if self.banks[bank as usize].node() == MIXED {
                self.settle(platform, bank, touched, moved);
            } else {
                batch.note(bank % FAN, moved);
            }
        };
        match set.words() {
            Some(words) => (0..).zip(words).for_each(|(bank, bits)| one(bank, *bits)),
            None => set.each_word(&mut |cpu, bits| one(cpu.get() / BANK, bits)),
        }
        self.settle_batch(platform, &mut batch);
        result
    }

    /// Runs `f` under the lock of a bank and makes the changes. For which CPUs, and what follows.
    #[inline(always)]
    fn change_bank<P, R>(
        &self,
        platform: &P,
        index: u32,
        f: impl FnOnce(&mut BankChange<'_>, &mut T) -> R,
    ) -> (R, u64, Moved)
    where
        P: Platform + ?Sized,
    {
        let bank = &self.banks[index as usize];
        let (mut moved, mut touched) = (Moved::default(), 0);
        let result = bank.lock.with(platform, |data| {
            let possible = self.possible(index);
            let mut change = BankChange::new(&self.rows, index, possible, bank.online());
            let result = f(&mut change, data);
            touched = change.touched;
            for class in Class::ALL {
                match change.changed(class) {
                    Changed::Nothing => {}
                    Changed::Grew(cpus) if self.shrink(class, index, cpus) => {}
                    _ => self.refresh(class, index, touched, &mut moved),
                }
            }
            result
        });
        (result, touched, moved)
    }

    /// Brings what the bank of another thread shows up to date. Under no lock.
    fn show_core_there<P>(&self, platform: &P, class: Class, cpu: u32, count: i32)
    where
        P: Platform + ?Sized,
    {
        let (index, bit) = (cpu / BANK, 1 << (cpu % BANK));
        let moved = self.banks[index as usize].lock.with(platform, |_| {
            let placed = self.cores.placed(class, cpu);
            self.row(class, index).show(cpu, placed, count);
            let mut moved = Moved::default();
            self.refresh(class, index, bit, &mut moved);
            moved
        });
        self.settle(platform, index, bit, moved);
    }

    /// `cpu` is a thread of a core that may have others: shows for it what is placed on them.
    pub(super) fn join_core<P>(&self, platform: &P, cpu: u32)
    where
        P: Platform + ?Sized,
    {
        // Who changes a sibling's count from here on finds the new thread in the ring; and what
        // was counted before is seen after its lock.
        self.cores.siblings(cpu).for_each(|sibling| {
            let bank = &self.banks[(sibling / BANK) as usize];
            bank.lock.with(platform, |_| ());
        });
        for class in Class::ALL {
            self.show_core_there(platform, class, cpu, 0);
        }
    }

    /// Changes what CPUs are to be chosen from, not their loads.
    pub(super) fn reopen<P>(&self, platform: &P, index: u32, bit: u64, f: impl FnOnce(&Bank<T>))
    where
        P: Platform + ?Sized,
    {
        let bank = &self.banks[index as usize];
        let moved = bank.lock.with(platform, |_| {
            f(bank);
            let mut moved = Moved::default();
            for class in Class::ALL {
                self.refresh(class, index, bit, &mut moved);
            }
            moved
        });
        self.settle(platform, index, bit, moved);
    }
}
