// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vectors of regular interrupts, and giving back those of any.

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::{CpuIndex, Error, Platform};

use super::area::invalid;
use super::bank::Bank;
use super::choice::{CONTENDED, TRIES};
use super::{Entry, Matrix, Slot, Wanted};
use crate::irq::Irq;
use crate::placement::Class;

impl Matrix {
    /// Counts an interrupt that is set up and not in use, and gives how many there are now. Its
    /// source is programmed with the [`shutdown_vector`](Self::shutdown_vector). More of them than
    /// vectors [`available`](Self::available) may fail when they are activated.
    ///
    /// # Errors
    /// [`Error::Full`] if that cannot be counted.
    pub fn reserve(&self) -> Result<u32, Error> {
        self.count_reserved(|count| count.checked_add(1))
            .map_err(|capacity| Error::Full {
                what: "reserved interrupts",
                capacity,
            })
    }

    /// One less is set up and not in use; gives how many are left.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none.
    pub fn remove_reserved(&self) -> Result<u32, Error> {
        self.count_reserved(|count| count.checked_sub(1))
            .map_err(|count| invalid("number of reserved interrupts", u64::from(count)))
    }

    /// Changes the count and gives the new one, or the old one where `step` has no next.
    fn count_reserved(&self, step: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        // A count and nothing else: no order.
        let mut count = self.reserved.load(Relaxed);
        loop {
            let next = step(count).ok_or(count)?;
            match self
                .reserved
                .compare_exchange(count, next, Relaxed, Relaxed)
            {
                Ok(_) => return Ok(next),
                Err(now) => count = now,
            }
        }
    }

    /// How many interrupts are set up and not in use.
    pub fn reserved(&self) -> u32 {
        self.reserved.load(Relaxed)
    }

    /// A vector for a regular interrupt, on the CPU of those wanted that has the most available.
    /// `reserved` says that it activates one that was counted by [`reserve`](Self::reserve).
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoCpu`] if there is no CPU; [`Error::Invalid`] for an
    /// irq that has no vector, or if none is reserved; [`Error::Busy`] if others were faster, time
    /// and again.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, under no lock of rank 2 or above. Nothing allocates.
    pub fn alloc<P>(&self, platform: &P, wanted: &Wanted<'_>, reserved: bool) -> Result<Slot, Error>
    where
        P: Platform + ?Sized,
    {
        self.expect_irqs(wanted.irq, 1)?;
        if reserved {
            self.remove_reserved()?;
        }
        let slot = self.take(platform, Class::Regular, wanted, |bank, bit| {
            bank.take_free(bit)
        });
        if reserved && slot.is_err() {
            self.reserved.fetch_add(1, Relaxed);
        }
        slot
    }

    /// A CPU by the policy, and what `find` takes of its bank.
    pub(super) fn take<P>(
        &self,
        platform: &P,
        class: Class,
        wanted: &Wanted<'_>,
        find: impl Fn(&mut Bank, u64) -> Option<usize>,
    ) -> Result<Slot, Error>
    where
        P: Platform + ?Sized,
    {
        for _ in 0..TRIES {
            let cpu = self.choose(platform, class, wanted)?;
            let found = self.placement.update(platform, cpu, |change, bank| {
                // What the choice saw may be over.
                let at = match change.online() {
                    true => find(bank, change.bit())?,
                    false => return None,
                };
                change.place(class, 1);
                if class == Class::Managed {
                    change.room(class, bank.spares() & change.bit() != 0);
                }
                self.slots.set(cpu, at, Entry::Irq(wanted.irq));
                Some(at)
            })?;
            if let Some(at) = found {
                return Ok(Slot {
                    cpu,
                    vector: self.area.vector(at),
                });
            }
        }
        Err(CONTENDED)
    }

    /// `irq` owns `vector` of `cpu`, which is online: for what was set up before us, such as
    /// legacy interrupts.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoSuchCpu`]; [`Error::CpuOffline`]; [`Error::Invalid`]
    /// for a vector outside of the area, or an irq that has none; [`Error::Busy`] for a system
    /// vector, or one that is in use or reserved there.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn assign<P>(
        &self,
        platform: &P,
        cpu: CpuIndex,
        vector: u8,
        irq: Irq,
    ) -> Result<Slot, Error>
    where
        P: Platform + ?Sized,
    {
        self.expect_irqs(irq, 1)?;
        let at = self.area.expect_vector(vector)?;
        self.placement.update(platform, cpu, |change, bank| {
            if !change.online() {
                return Err(Error::CpuOffline { cpu });
            }
            let state = bank.state(change.bit(), at);
            if state.system || state.managed || state.alloc {
                return Err(Error::Busy { what: "the vector" });
            }
            bank.take(change.bit(), at);
            change.place(Class::Regular, 1);
            self.slots.set(cpu, at, Entry::Irq(irq));
            Ok(Slot { cpu, vector })
        })?
    }

    /// The owner gives its vector back. A managed interrupt's stays reserved.
    ///
    /// Until the vector is used again its [`entry`](Self::entry) is [`Entry::Shutdown`] on a CPU
    /// that is online.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoSuchCpu`]; [`Error::CpuOffline`] for a CPU that has
    /// never been online; [`Error::Invalid`] for a vector that is not in use, or not by `irq`.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn free<P>(&self, platform: &P, slot: Slot, irq: Irq) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.put(platform, slot, irq, 1)
    }

    /// Likewise, and the interrupt is set up but not in use from now on, as after
    /// [`reserve`](Self::reserve).
    ///
    /// # Errors
    /// Those of [`free`](Self::free) and [`reserve`](Self::reserve); nothing has changed then.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn free_to_reserved<P>(&self, platform: &P, slot: Slot, irq: Irq) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.reserve()?;
        let freed = self.free(platform, slot, irq);
        if freed.is_err() {
            self.reserved.fetch_sub(1, Relaxed);
        }
        freed
    }

    /// The owners of `count` consecutive vectors, which are consecutive irqs, give them back.
    pub(super) fn put<P>(&self, platform: &P, slot: Slot, irq: Irq, count: u32) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        if count == 0 || irq.checked_add(count - 1).is_none() {
            return Err(invalid("number of vectors", u64::from(count)));
        }
        let Slot { cpu, vector } = slot;
        let first = self.area.expect_vector(vector)?;
        if count as usize > self.area.len() - first {
            return Err(invalid("vector", u64::from(vector) + u64::from(count) - 1));
        }
        let owned = |offset: u32| (first + offset as usize, Irq::new(irq.get() + offset));
        let all = || (0..count).map(owned);
        self.placement.update(platform, cpu, |change, bank| {
            for (at, irq) in all() {
                self.slots.expect_owner(cpu, at, irq)?;
            }
            let entry = match change.online() {
                true => Entry::Shutdown,
                false => Entry::Unused,
            };
            for (at, _) in all() {
                if bank.put(change.bit(), at) {
                    change.place(Class::Managed, -1);
                    change.room(Class::Managed, true);
                } else {
                    change.place(Class::Regular, -1);
                }
                self.slots.set(cpu, at, entry);
            }
            Ok(())
        })?
    }

    /// Reads the entry of a vector again, with nobody changing it, and forgets that an interrupt
    /// there may be late: for whoever acknowledged one and found [`Entry::Shutdown`], and does not
    /// want to lose what was installed meanwhile. Says what the interrupt stands for.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::Invalid`] for a vector outside of the area.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn settle<P>(&self, platform: &P, cpu: CpuIndex, vector: u8) -> Result<Entry, Error>
    where
        P: Platform + ?Sized,
    {
        let (bank, _) = self.home(cpu)?;
        let at = self.area.expect_vector(vector)?;
        self.placement.update_bank(platform, bank, |_, _| {
            let entry = self.slots.at(cpu, at);
            if entry == Entry::Shutdown {
                self.slots.set(cpu, at, Entry::Unused);
            }
            entry
        })
    }

    /// Notes that an interrupt which was pending at `slot`, owned by `irq`, was raised again on
    /// another CPU: should it still arrive, it is one too many.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn retriggered<P>(&self, platform: &P, slot: Slot, irq: Irq) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let Slot { cpu, vector } = slot;
        let (bank, _) = self.home(cpu)?;
        let at = self.area.expect_vector(vector)?;
        self.placement.update_bank(platform, bank, |_, _| {
            self.slots.expect_owner(cpu, at, irq)?;
            self.slots.set(cpu, at, Entry::Retriggered(irq));
            Ok(())
        })?
    }
}
