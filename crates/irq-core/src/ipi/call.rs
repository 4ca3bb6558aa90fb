// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote calls: a function runs on another CPU, and the caller waits for its result.

use irq_hal::callback::Callback;
use irq_hal::percpu::OnCpu;
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{CpuIndex, Error, Platform};

use crate::cpu::CpuSet;
use crate::driver::Kick;
use crate::interrupts::Interrupts;
use crate::patience::patience;

use super::mailbox::{CALL, OFFLINE};
use super::send::Without;
use super::{Block, Ipis};

static ANSWER: WaitFor = WaitFor {
    register: "remote call",
    state: "ended",
};

impl Interrupts {
    /// Runs `function(word, to)` on the CPU `to` and returns what it returned. On the caller's
    /// own CPU it is simply called.
    ///
    /// While it waits, this CPU runs what others call on it, and kinds made by
    /// [`Kind::anywhere`](crate::Kind::anywhere): two CPUs may call each other with interrupts
    /// masked. All other kinds stay for the interrupt. The function runs there under the same
    /// conditions, perhaps while that CPU waits under locks of its own: it must take none, and
    /// must return soon.
    ///
    /// It waits a second, or ten million polls; [`remote`](Self::remote) takes another bound.
    ///
    /// # Errors
    /// - [`Error::NoAnswer`]: the CPU did not begin in time. The call is withdrawn and will
    ///   never run.
    /// - [`Error::Unfinished`]: it began and did not end in time; it goes on. Until it ends,
    ///   calls from this CPU return [`Error::Busy`].
    /// - [`Error::Busy`]: this CPU waits for a call already, which this one interrupted or runs
    ///   under.
    /// - [`Error::Unwound`]: the function did, over there, where the unwind goes on.
    /// - [`Error::CpuOffline`], [`Error::NoSuchCpu`], [`Error::Unsupported`] without IPIs, and
    ///   what the driver returns: it did not run.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, with interrupts on or off. No lock, no allocation.
    pub fn call(
        &self,
        platform: &dyn Platform,
        kick: &(impl Kick + ?Sized),
        from: &OnCpu,
        to: CpuIndex,
        function: Callback,
        word: usize,
    ) -> Result<usize, Error> {
        self.remote(platform, kick, from).call(to, function, word)
    }

    /// Runs `function(word, cpu)` on each CPU of `to` at the same time, on the caller's as well
    /// if it is a member, and returns how many ran it. CPUs that are offline are skipped.
    ///
    /// # Errors
    /// As [`call`](Self::call), with one of the CPUs that an error is about: those that could
    /// run the function did, or do. After [`Error::NoAnswer`] for one of them another may still
    /// run it: until it ends, calls from this CPU return [`Error::Busy`]. [`Error::NoSuchCpu`] for a member beyond the possible CPUs:
    /// it ran nowhere.
    ///
    /// # Context
    /// As [`call`](Self::call).
    pub fn call_mask(
        &self,
        platform: &dyn Platform,
        kick: &(impl Kick + ?Sized),
        from: &OnCpu,
        to: &dyn CpuSet,
        function: Callback,
        word: usize,
    ) -> Result<u32, Error> {
        self.remote(platform, kick, from)
            .call_mask(to, function, word)
    }

    /// Remote calls from the CPU of `from`, where the bound of the wait can be chosen.
    pub fn remote<'a, K: Kick + ?Sized>(
        &'a self,
        platform: &'a dyn Platform,
        kick: &'a K,
        from: &'a OnCpu,
    ) -> Remote<'a, K> {
        Remote {
            interrupts: self,
            platform,
            kick,
            from,
            bound: None,
        }
    }
}

/// Remote calls from one CPU; see [`Interrupts::remote`].
pub struct Remote<'a, K: Kick + ?Sized> {
    interrupts: &'a Interrupts,
    platform: &'a dyn Platform,
    kick: &'a K,
    from: &'a OnCpu,
    bound: Option<Bound>,
}

impl<K: Kick + ?Sized> Remote<'_, K> {
    /// Waits no longer than `bound` says.
    #[must_use]
    pub const fn within(mut self, bound: Bound) -> Self {
        self.bound = Some(bound);
        self
    }

    /// As [`Interrupts::call`].
    ///
    /// # Errors
    /// As [`Interrupts::call`].
    pub fn call(&self, to: CpuIndex, function: Callback, word: usize) -> Result<usize, Error> {
        let ipis = self.interrupts.ipis()?;
        let here = self.from.cpu();
        ipis.block(to)?;
        if to == here {
            return Ok(function(word, to));
        }
        let mut flight = self.begin(ipis, function, word)?;
        self.kick.kick(to, || flight.ask(to))?;
        if flight.asked == 0 {
            return Err(Error::CpuOffline { cpu: to });
        }
        self.wait(flight)
    }

    /// As [`Interrupts::call_mask`].
    ///
    /// # Errors
    /// As [`Interrupts::call_mask`].
    pub fn call_mask(
        &self,
        to: &dyn CpuSet,
        function: Callback,
        word: usize,
    ) -> Result<u32, Error> {
        let ipis = self.interrupts.ipis()?;
        let here = self.from.cpu();
        ipis.check(to)?;
        let mut flight = self.begin(ipis, function, word)?;
        let others = Without { set: to, cpu: here };
        let kicked = self.kick.kick_mask(&others, |cpu| flight.ask(cpu));
        let mut ran = flight.asked;
        if to.contains(here) {
            function(word, here);
            ran += 1;
        }
        self.wait(flight)?;
        match kicked {
            Ok(()) | Err(Error::CpuOffline { .. }) => Ok(ran),
            Err(error) => Err(error),
        }
    }

    fn begin<'i>(
        &self,
        ipis: Ipis<'i>,
        function: Callback,
        word: usize,
    ) -> Result<Flight<'i>, Error> {
        let cpu = self.from.cpu();
        let block = ipis.block(cpu)?;
        block.slot.begin(function, word)?;
        Ok(Flight {
            ipis,
            cpu,
            block,
            asked: 0,
            first: cpu,
        })
    }

    fn wait(&self, flight: Flight<'_>) -> Result<usize, Error> {
        let Flight {
            ipis, cpu, block, ..
        } = flight;
        let bound = self.bound.unwrap_or_else(|| patience(self.platform));
        let poll = || {
            ipis.serve_while_waiting(self.kick, cpu, block);
            block.slot.left()
        };
        match wait(self.platform, &ANSWER, bound, poll, |left| left == 0) {
            Ok(_) => {}
            Err(_) => flight.give_up()?,
        }
        block.slot.result()
    }
}

/// A call under way. Dropped early, also by an unwind, it withdraws what has not begun.
struct Flight<'a> {
    ipis: Ipis<'a>,
    cpu: CpuIndex,
    block: &'a Block,
    /// How many CPUs have accepted it.
    asked: u32,
    /// The first of them.
    first: CpuIndex,
}

impl Flight<'_> {
    /// Asks the CPU `to`, and says whether to ring it: always, if it is online. The ring that a
    /// full mailbox stands for may be owed by what this call interrupted, and the caller waits.
    fn ask(&mut self, to: CpuIndex) -> bool {
        let Ok(target) = self.ipis.block(to) else {
            return false;
        };
        let Some(caller) = target.callers.caller(self.cpu) else {
            return false;
        };
        let slot = &self.block.slot;
        slot.add();
        caller.join();
        let offline = target.mailbox.post(CALL) & OFFLINE != 0;
        // While it went offline it may have found the caller nonetheless.
        if offline && caller.withdraw() {
            slot.withdraw();
            return false;
        }
        if self.asked == 0 {
            self.first = to;
        }
        self.asked += 1;
        if let Some(count) = self.block.tally.to(target.mailbox.place())
            && !offline
        {
            count.count_rung();
        }
        !offline
    }

    /// Withdraws what has not begun. No error if everything has ended by now.
    #[cold]
    fn give_up(&self) -> Result<(), Error> {
        let (mut silent, mut running) = (None, None);
        for (cpu, target) in self.ipis.blocks() {
            let Some(caller) = target.callers.caller(self.cpu) else {
                continue;
            };
            if caller.withdraw() {
                self.block.slot.withdraw();
                silent = silent.or(Some(cpu));
            } else if caller.is_running() {
                running = running.or(Some(cpu));
            }
        }
        if let Some(cpu) = silent {
            return Err(Error::NoAnswer { cpu });
        }
        if self.block.slot.left() == 0 {
            return Ok(());
        }
        let cpu = running.unwrap_or(self.first);
        Err(Error::Unfinished { cpu })
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let slot = &self.block.slot;
        if slot.left() != 0 {
            // Whatever it says, the caller has an error, or unwinds.
            _ = self.give_up();
        }
        slot.give_back();
    }
}
