// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go.

use irq_hal::percpu::OnCpu;
use irq_hal::{Error, Platform};

use crate::action::ActionContext;
use crate::context::IrqContext;
use crate::driver::Kick;
use crate::interrupts::Interrupts;
use crate::outcome::Bits;
use crate::topology::Place;

use super::counts;
use super::mailbox::{CALL, Mailbox};

impl Interrupts {
    /// Binds this CPU to its `place` and takes it online: from now on it may be sent to.
    /// Allocates nothing, and is legal on several CPUs at once.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] and [`Error::Invalid`] for a CPU or a node beyond the possible ones,
    /// [`Error::CpuIsOnline`], and what
    /// [`Topology::online`](crate::topology::Topology::online) returns for a place that cannot
    /// be. Nothing has changed then.
    ///
    /// # Context
    /// On that CPU, interrupts masked, after the driver's own online: the CPU can be rung.
    pub fn cpu_online(
        &self,
        platform: &dyn Platform,
        on: &OnCpu,
        place: Place,
    ) -> Result<(), Error> {
        let cpu = on.cpu();
        let Ok(ipis) = self.ipis() else {
            return self.topology.online(platform, cpu, place);
        };
        let mailbox = &ipis.block(cpu)?.mailbox;
        if mailbox.is_open() {
            return Err(Error::CpuIsOnline { cpu });
        }
        self.topology.online(platform, cpu, place)?;
        mailbox.bind(counts::place(place.node));
        mailbox.open(0);
        Ok(())
    }

    /// Takes this CPU offline: from now on nothing can be sent to it, and all that was accepted
    /// before, kinds and remote calls, runs before the call returns. Kinds made by
    /// [`Kind::last`](crate::Kind::last) run too, and the CPU stays as it is if one never
    /// returns. If something unwinds, the CPU stays online, and nothing is lost.
    ///
    /// Returns the bits that kinds asked for.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::CpuOffline`]. Nothing has changed then.
    ///
    /// # Context
    /// On that CPU, interrupts masked, before the driver's own offline. An IPI that comes
    /// afterwards finds nothing.
    pub fn cpu_offline(
        &self,
        kick: &(impl Kick + ?Sized),
        cx: &IrqContext<'_>,
    ) -> Result<Bits, Error> {
        let cpu = cx.cpu();
        let mut bits = Bits::NONE;
        if let Ok(ipis) = self.ipis() {
            let mailbox = &ipis.block(cpu)?.mailbox;
            if !mailbox.is_open() {
                return Err(Error::CpuOffline { cpu });
            }
            let cx = ActionContext::new(cx, ipis.ipi.irq());
            // Callers are looked for in any case: one that has not posted yet is served too.
            let accepted = mailbox.close() | CALL;
            let closed = Closed(mailbox);
            ipis.pending(kick, cpu, accepted, true).run(&cx);
            core::mem::forget(closed);
            bits = cx.bits();
        }
        self.topology.offline(cpu)?;
        Ok(bits)
    }
}

/// A mailbox on the way offline. If what was accepted unwinds it is opened again, unless what is
/// left has gone back into it and opened it.
struct Closed<'a>(&'a Mailbox);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if !self.0.is_open() {
            self.0.open(0);
        }
    }
}
