// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending a kind to a CPU, to several, or to all others.

use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error};

use crate::cpu::CpuSet;
use crate::driver::Kick;
use crate::interrupts::Interrupts;

use super::kind::IpiKind;
use super::mailbox::OFFLINE;
use super::{Ipis, MISSING, NONE};

/// How a kind reached its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Sent {
    /// By an interrupt of its own.
    Rung,
    /// By one that was under way: the controller was not touched.
    Coalesced,
}

/// How a kind reached the CPUs of a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SentMany {
    /// CPUs that were rung.
    pub rung: u32,
    /// CPUs to which an interrupt was under way.
    pub coalesced: u32,
    /// CPUs that are offline: nothing was sent to them.
    pub offline: u32,
}

impl Interrupts {
    /// Sends `kind` to the CPU `to`, which may be the sender.
    ///
    /// The kind runs there once or more after the call began, and sees what the sender wrote
    /// before it, whether the send rang or coalesced.
    ///
    /// # Errors
    /// [`Error::CpuOffline`]; [`Error::NoSuchCpu`]; [`Error::Invalid`] for a kind without a
    /// function; [`Error::Unsupported`] without IPIs; what the driver returns. Nothing was sent
    /// then.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, also inside an action or a kind. No lock, no
    /// allocation, no log. With interrupts on, what interrupts it must return, and must not wait
    /// for a CPU to run a kind: the ring for `to` may still be owed.
    #[inline]
    pub fn send(
        &self,
        kick: &(impl Kick + ?Sized),
        from: &OnCpu,
        to: CpuIndex,
        kind: IpiKind,
    ) -> Result<Sent, Error> {
        let ipis = self.any_ipis();
        let bit = ipis.bit(kind)?;
        let own = ipis.block(from.cpu())?;
        let target = ipis.block(to)?;
        let mut before = OFFLINE;
        kick.kick(to, || {
            before = target.mailbox.post(bit);
            before == 0
        })?;
        if before & OFFLINE != 0 {
            return Err(Error::CpuOffline { cpu: to });
        }
        let count = own.tally.to(target.mailbox.place());
        if before == 0 {
            if let Some(count) = count {
                count.count_rung();
            }
            Ok(Sent::Rung)
        } else {
            if let Some(count) = count {
                count.count_coalesced();
            }
            Ok(Sent::Coalesced)
        }
    }

    /// Sends `kind` to each CPU of `to`, with the fewest accesses to the controller.
    ///
    /// CPUs that are offline are counted, and are no error.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] for a member beyond the possible CPUs, [`Error::Invalid`] for a kind
    /// without a function, [`Error::Unsupported`] without IPIs: nothing was sent then. Any
    /// other error of the driver comes after the rest was served.
    ///
    /// # Context
    /// As [`send`](Self::send).
    pub fn send_mask(
        &self,
        kick: &(impl Kick + ?Sized),
        from: &OnCpu,
        to: &dyn CpuSet,
        kind: IpiKind,
    ) -> Result<SentMany, Error> {
        let ipis = self.any_ipis();
        let bit = ipis.bit(kind)?;
        let own = ipis.block(from.cpu())?;
        let members = ipis.check(to)?;
        let mut sent = SentMany::default();
        let kicked = kick.kick_mask(to, |cpu| {
            let Ok(target) = ipis.block(cpu) else {
                return false;
            };
            let before = target.mailbox.post(bit);
            if before & OFFLINE != 0 {
                return false;
            }
            let count = own.tally.to(target.mailbox.place());
            if before != 0 {
                sent.coalesced += 1;
                count.inspect(|count| count.count_coalesced());
                return false;
            }
            sent.rung += 1;
            count.inspect(|count| count.count_rung());
            true
        });
        sent.offline = members.saturating_sub(sent.rung + sent.coalesced);
        match kicked {
            Ok(()) | Err(Error::CpuOffline { .. }) => Ok(sent),
            Err(error) => Err(error),
        }
    }

    /// Sends `kind` to every CPU that is online, but not to the sender.
    ///
    /// # Errors
    /// As [`send_mask`](Self::send_mask).
    ///
    /// # Context
    /// As [`send`](Self::send).
    pub fn broadcast_others(
        &self,
        kick: &(impl Kick + ?Sized),
        from: &OnCpu,
        kind: IpiKind,
    ) -> Result<SentMany, Error> {
        let others = Without {
            set: self.topology().online_cpus(),
            cpu: from.cpu(),
        };
        self.send_mask(kick, from, &others, kind)
    }
}

impl Ipis<'_> {
    /// The bit of a kind that has a function.
    #[inline]
    fn bit(self, kind: IpiKind) -> Result<u32, Error> {
        let bit = kind.bit();
        if self.ipi.kinds.known & bit == 0 {
            return Err(self.unknown(kind));
        }
        Ok(bit)
    }

    #[cold]
    fn unknown(self, kind: IpiKind) -> Error {
        match self.ipi.key {
            NONE => MISSING,
            _ => Error::Invalid {
                what: "kind of IPI",
                value: u64::from(kind.get()),
            },
        }
    }

    /// How many members `set` has, all of them possible CPUs.
    pub(super) fn check(self, set: &dyn CpuSet) -> Result<u32, Error> {
        let cpus = self.interrupts.cpus();
        let (mut members, mut beyond) = (0, None);
        set.each_word(&mut |first, bits| {
            let Some(highest) = bits.checked_ilog2() else {
                return;
            };
            members += bits.count_ones();
            let last = CpuIndex::new(first.get() | highest);
            if last.get() >= cpus {
                beyond = beyond.or(Some(last));
            }
        });
        match beyond {
            Some(cpu) => Err(Error::NoSuchCpu { cpu }),
            None => Ok(members),
        }
    }
}

/// A set but for one CPU.
pub(super) struct Without<'a> {
    pub(super) set: &'a dyn CpuSet,
    pub(super) cpu: CpuIndex,
}

impl CpuSet for Without<'_> {
    fn contains(&self, cpu: CpuIndex) -> bool {
        cpu != self.cpu && self.set.contains(cpu)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        self.set.each_word(&mut |first, mut bits| {
            if let Some(n) = self.cpu.get().checked_sub(first.get())
                && n < u64::BITS
            {
                bits &= !(1 << n);
            }
            if bits != 0 {
                f(first, bits);
            }
        });
    }
}
