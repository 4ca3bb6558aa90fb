// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must be true of the accounts, found out from the bitmaps and the slots alone.

use core::fmt;

use irq_hal::{CpuIndex, Platform};

use super::bank::Bank;
use super::{Counts, Matrix};
use crate::placement::Class;

/// What must be true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Invariant {
    /// I1: no system vector is in use or reserved. The numbers are the vector.
    System,
    /// I2: reservations.
    Managed,
    /// I2: reservations in use.
    ManagedAllocated,
    /// I2: vectors in use.
    Allocated,
    /// I3: vectors that are neither system vectors, nor reserved, nor in use.
    Available,
    /// I4: the sum of those of CPUs that are online. The CPU is the last one.
    AllAvailable,
    /// I5: no account has more than there are vectors.
    Bounds,
    /// I6: a vector has an owner exactly if it is in use. The numbers are the vector, and its
    /// owner.
    Owner,
    /// A CPU can be chosen for managed interrupts exactly if it has a reservation to spare. The
    /// numbers are whether it can be, and how many it has.
    Spare,
    /// Below where the search begins there is nothing to find. The numbers are where it begins,
    /// and what there is, counted from the first vector.
    Search,
}

/// An account that is not as it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Violation {
    /// What is not true.
    pub invariant: Invariant,
    /// Of which CPU.
    pub cpu: CpuIndex,
    /// What is kept.
    pub kept: u32,
    /// What was found.
    pub found: u32,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            cpu,
            kept,
            found,
        } = self;
        write!(f, "{invariant:?} of {cpu}: {kept} is kept, {found} found")
    }
}

impl core::error::Error for Violation {}

/// What the bitmaps of a CPU say.
#[derive(Default)]
struct Found {
    counts: Counts,
    /// The first free vector, and the first reservation to spare.
    free: Option<usize>,
    spare: Option<usize>,
}

impl Matrix {
    /// Counts everything anew and compares it with what is kept. While other calls change
    /// something, the sum over CPUs may seem wrong.
    ///
    /// # Errors
    /// The first thing that is not as it must be.
    ///
    /// # Context
    /// As [`counts`](Self::counts), but slow: each vector of each CPU is looked at.
    pub fn check<P>(&self, platform: &P) -> Result<(), Violation>
    where
        P: Platform + ?Sized,
    {
        let mut available = 0;
        for cpu in (0..self.cpus()).map(CpuIndex::new) {
            let Ok((index, bit)) = self.home(cpu) else {
                continue;
            };
            let checked = self.placement.update_bank(platform, index, |change, bank| {
                let online = change.online() & bit != 0;
                let found = self.check_cpu(bank, cpu, online)?;
                Ok(if online { found.available } else { 0 })
            });
            available += checked.unwrap_or(Ok(0))?;
        }
        let last = CpuIndex::new(self.cpus() - 1);
        same(Invariant::AllAvailable, last, self.available(), available)
    }

    /// Under the bank's lock.
    fn check_cpu(&self, bank: &Bank, cpu: CpuIndex, online: bool) -> Result<Counts, Violation> {
        let (_, bit) = crate::cpu::word_and_bit(cpu);
        let Found {
            counts,
            free,
            spare,
        } = self.found(bank, cpu)?;
        let kept = self.kept(bank, cpu);
        let len = self.area.len() as u32;
        let used = self.placement.load(Class::Regular, cpu);
        let most = used.max(kept.managed).max(kept.allocated);
        if most > len {
            return same(Invariant::Bounds, cpu, most, len).map(|()| counts);
        }
        for (invariant, kept, found) in [
            (Invariant::Managed, kept.managed, counts.managed),
            (
                Invariant::ManagedAllocated,
                kept.managed_allocated,
                counts.managed_allocated,
            ),
            (Invariant::Allocated, kept.allocated, counts.allocated),
            (Invariant::Available, kept.available, counts.available),
        ] {
            same(invariant, cpu, kept, found)?;
        }
        let can = online && self.placement.has_room(Class::Managed, cpu);
        let spares = counts.managed - counts.managed_allocated;
        if online && can != (spares != 0) {
            return same(Invariant::Spare, cpu, u32::from(can), spares).map(|()| counts);
        }
        let (free_from, spare_from) = bank.hints(bit);
        for (from, first) in [(free_from, free), (spare_from, spare)] {
            if let Some(first) = first
                && first < from
            {
                same(Invariant::Search, cpu, from as u32, first as u32)?;
            }
        }
        Ok(counts)
    }

    /// What the bitmaps of a CPU and its slots say.
    fn found(&self, bank: &Bank, cpu: CpuIndex) -> Result<Found, Violation> {
        let (_, bit) = crate::cpu::word_and_bit(cpu);
        let mut found = Found::default();
        let counts = &mut found.counts;
        for at in 0..self.area.len() {
            let (state, vector) = (bank.state(bit, at), u32::from(self.area.vector(at)));
            if state.system && (state.managed || state.alloc) {
                return Err(Violation {
                    invariant: Invariant::System,
                    cpu,
                    kept: vector,
                    found: vector,
                });
            }
            let owner = self.slots.at(cpu, at).owner();
            if owner.is_some() != state.alloc {
                return Err(Violation {
                    invariant: Invariant::Owner,
                    cpu,
                    kept: vector,
                    found: owner.map_or(u32::MAX, |irq| irq.get()),
                });
            }
            counts.managed += u32::from(state.managed);
            counts.allocated += u32::from(state.alloc);
            counts.managed_allocated += u32::from(state.managed && state.alloc);
            if !(state.system || state.managed || state.alloc) {
                counts.available += 1;
                found.free = found.free.or(Some(at));
            }
            if state.managed && !state.alloc {
                found.spare = found.spare.or(Some(at));
            }
        }
        Ok(found)
    }
}

fn same(invariant: Invariant, cpu: CpuIndex, kept: u32, found: u32) -> Result<(), Violation> {
    match kept == found {
        true => Ok(()),
        false => Err(Violation {
            invariant,
            cpu,
            kept,
            found,
        }),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::irq::Irq;
    use crate::matrix::area::VectorSet;
    use crate::matrix::{Entry, Setup};

    const CPU: CpuIndex = CpuIndex::new(1);
    const BIT: u64 = 2;

    /// What the check says of CPU 1, offline and with all loads at 0, if its bank, which has only
    /// 80H as a system vector, is as `f` makes it.
    fn checked(
        system: &[u8],
        online: bool,
        f: impl FnOnce(&Matrix, &mut Bank),
    ) -> Result<Counts, (Invariant, u32, u32)> {
        let setup = Setup {
            system,
            ..Setup::new(2)
        };
        let matrix = Matrix::new(&setup).unwrap();
        let mut known = VectorSet::default();
        known.insert(0x80);
        let mut bank = Bank::new(matrix.area, known, 3).unwrap();
        f(&matrix, &mut bank);
        let checked = matrix.check_cpu(&bank, CPU, online);
        checked.map_err(|violation| {
            assert_eq!(violation.cpu, CPU);
            (violation.invariant, violation.kept, violation.found)
        })
    }

    fn own(matrix: &Matrix, at: usize) {
        matrix.slots.set(CPU, at, Entry::Irq(Irq::new(9)));
    }

    #[test]
    fn each_account_that_is_not_what_the_bitmaps_say_is_found() {
        let fresh = Counts {
            available: 203,
            ..Counts::default()
        };
        assert_eq!(checked(&[0x80], true, |_, _| {}), Ok(fresh));
        let system = checked(&[0x80], true, |matrix, bank| {
            bank.take(BIT, 0x60);
            own(matrix, 0x60);
        });
        assert_eq!(system, Err((Invariant::System, 0x80, 0x80)));
        let managed = checked(&[0x80], true, |_, bank| {
            assert!(bank.reserve(BIT));
            bank.spare.lower(BIT);
        });
        assert_eq!(managed, Err((Invariant::Managed, 0, 1)));
        let managed_allocated = checked(&[0x80], true, |matrix, bank| {
            assert!(bank.reserve(BIT));
            bank.take(BIT, 0);
            own(matrix, 0);
        });
        assert_eq!(managed_allocated, Err((Invariant::ManagedAllocated, 0, 1)));
        let allocated = checked(&[0x80], true, |matrix, bank| {
            bank.take(BIT, 5);
            own(matrix, 5);
        });
        assert_eq!(allocated, Err((Invariant::Allocated, 0, 1)));
        let available = checked(&[0x80], true, |_, bank| {
            assert!(bank.reserve(BIT));
        });
        assert_eq!(available, Err((Invariant::Available, 203, 202)));
        let bounds = checked(&[0x80], true, |_, bank| {
            (0..205).for_each(|_| bank.spare.raise(BIT));
        });
        assert_eq!(bounds, Err((Invariant::Bounds, 205, 204)));
    }

    #[test]
    fn an_entry_without_a_vector_and_a_vector_without_an_entry_are_found() {
        let nobody = checked(&[0x80], false, |_, bank| bank.take(BIT, 3));
        assert_eq!(nobody, Err((Invariant::Owner, 0x23, u32::MAX)));
        let nothing = checked(&[0x80], false, |matrix, _| own(matrix, 4));
        assert_eq!(nothing, Err((Invariant::Owner, 0x24, 9)));
        let marks = checked(&[0x80], false, |matrix, _| {
            matrix.slots.set(CPU, 4, Entry::Shutdown);
        });
        assert!(marks.is_ok());
    }

    #[test]
    fn a_reservation_to_spare_that_cannot_be_chosen_is_found() {
        // With one vector less, the account of one that has a reservation is right.
        let system = [0x80, 0x90];
        let reserve = |_: &Matrix, bank: &mut Bank| assert!(bank.reserve(BIT));
        assert_eq!(
            checked(&system, true, reserve),
            Err((Invariant::Spare, 0, 1))
        );
        assert!(checked(&system, false, reserve).is_ok());
    }
}
