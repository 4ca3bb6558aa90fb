// SPDX-License-Identifier: MIT OR Apache-2.0
//! System vectors that are told after construction.

use irq_hal::{CpuIndex, Error, NoCpu, Platform};

use super::area::{EXCEPTIONS, invalid};
use super::words::possible;
use super::{Entry, Matrix};
use crate::cpu::WORD;
use crate::placement::Class;

impl Matrix {
    /// Makes `vector` a system vector of all CPUs: while no more than one is online, and only
    /// `replace` if one is. To replace is to take the vector from the interrupt that has it on
    /// that CPU, such as a legacy one that turns out to be routed otherwise.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::Invalid`] for an exception; [`Error::Exists`] if it is
    /// one already; [`Error::Context`] for too many CPUs online; [`Error::NoCpu`] if there is
    /// none to replace it on; [`Error::Busy`] if it is in use or reserved on a CPU, other than to
    /// be replaced; [`Error::Invalid`] if there is nothing to replace.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc); one call at a time, while the kernel boots.
    pub fn assign_system<P>(&self, platform: &P, vector: u8, replace: bool) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        if vector < EXCEPTIONS {
            return Err(invalid("system vector", u64::from(vector)));
        }
        let all = || (0..self.cpus()).map(CpuIndex::new);
        let mut online = all().filter(|cpu| self.is_online(*cpu));
        let (only, more) = (online.next(), online.next());
        if more.is_some() || (only.is_some() && !replace) {
            return Err(Error::Context {
                what: "a system vector with that many CPUs online",
            });
        }
        let from = match (replace, only) {
            (true, None) => return Err(NoCpu::Offline.into()),
            (true, only) => only,
            (false, _) => None,
        };
        if let Some(cpu) = from {
            self.expect_replaceable(platform, cpu, vector)?;
        }
        for bank in 0..self.placement.banks() {
            if let Err(error) = self.claim(platform, bank, vector, from) {
                (0..bank).for_each(|bank| self.disclaim(platform, bank, vector, from));
                return Err(error);
            }
        }
        match (from, self.area.position(vector)) {
            (Some(cpu), Some(at)) => self.replace(platform, cpu, at),
            _ => Ok(()),
        }
    }

    fn expect_replaceable<P>(&self, platform: &P, cpu: CpuIndex, vector: u8) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let at = self.area.expect_vector(vector)?;
        self.placement.update(platform, cpu, |change, bank| {
            let state = bank.state(change.bit(), at);
            match state {
                _ if state.system => Err(EXISTS),
                _ if state.managed => Err(BUSY),
                _ if state.alloc => Ok(()),
                _ => Err(invalid("vector to replace", u64::from(vector))),
            }
        })?
    }

    /// The CPUs of a bank whose account changes when a vector of the area does.
    fn affected(&self, bank: u32, from: Option<CpuIndex>) -> u64 {
        let replaced = from.filter(|cpu| cpu.get() / WORD == bank);
        let replaced = replaced.map_or(0, |cpu| 1 << (cpu.get() % WORD));
        possible(self.cpus(), bank) & !replaced
    }

    /// A vector is a system vector for the CPUs of a bank, but still in use on `from`.
    fn claim<P>(
        &self,
        platform: &P,
        bank: u32,
        vector: u8,
        from: Option<CpuIndex>,
    ) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        let at = self.area.position(vector);
        let bits = self.affected(bank, from);
        self.placement.update_bank(platform, bank, |change, data| {
            if data.has_system(vector) {
                return Err(EXISTS);
            }
            if at.is_some_and(|at| data.users(at) & bits != 0) {
                return Err(BUSY);
            }
            data.set_system(vector, true);
            if at.is_some() {
                change.raise(Class::Regular, bits);
            }
            Ok(())
        })?
    }

    fn disclaim<P>(&self, platform: &P, bank: u32, vector: u8, from: Option<CpuIndex>)
    where
        P: Platform + ?Sized,
    {
        let bits = self.affected(bank, from);
        let _ = self.placement.update_bank(platform, bank, |change, data| {
            data.set_system(vector, false);
            if self.area.position(vector).is_some() {
                change.lower(Class::Regular, bits);
            }
        });
    }

    /// The system vector at `at` is not in use on `cpu` any more; it stays unavailable there.
    fn replace<P>(&self, platform: &P, cpu: CpuIndex, at: usize) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.placement.update(platform, cpu, |change, bank| {
            // Unless its owner gave it back meanwhile.
            if bank.state(change.bit(), at).alloc {
                bank.put(change.bit(), at);
                self.slots.set(cpu, at, Entry::Unused);
                change.place(Class::Regular, -1);
            }
            change.shift(Class::Regular, 1);
        })
    }
}

const EXISTS: Error = Error::Exists {
    what: "the system vector",
};

const BUSY: Error = Error::Busy { what: "the vector" };
