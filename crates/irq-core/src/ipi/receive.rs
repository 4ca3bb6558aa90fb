// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking an IPI, and running what was asked for.

use irq_hal::CpuIndex;

use crate::action::ActionContext;
use crate::context::IrqContext;
use crate::driver::{Flow, Kick};
use crate::outcome::{Outcome, Taken};

use super::mailbox::CALL;
use super::{Block, Ipis};

impl<'a> Ipis<'a> {
    /// Takes the interrupt, which `flow` has acknowledged: ends it, then runs what it was for.
    /// One that finds nothing, since an earlier one took it all, is handled too.
    #[inline]
    pub(crate) fn receive<F>(self, flow: &F, cx: &IrqContext<'_>, active: F::Active) -> Outcome
    where
        F: Flow + Kick + ?Sized,
    {
        let cpu = cx.cpu();
        let Ok(block) = self.block(cpu) else {
            flow.end(active);
            return Outcome::UNHANDLED;
        };
        block.tally.count_taken();
        flow.end(active);
        let cx = ActionContext::new(cx, self.ipi.irq());
        // After the acknowledge: who finds the mailbox empty from here on rings again.
        let bits = block.mailbox.take();
        match self.ipi.kinds.alone(bits) {
            // Nothing is left for later, nor to put back if this unwinds.
            Some((run, word)) => run(word, &cx),
            None => self.run_any(flow, &cx, bits),
        }
        Outcome {
            taken: Taken::Handled,
            bits: cx.bits(),
        }
    }

    /// Runs whatever `bits` are, perhaps nothing.
    #[inline(never)]
    fn run_any<K: Kick + ?Sized>(self, kick: &K, cx: &ActionContext<'_>, bits: u32) {
        self.pending(kick, cx.cpu(), bits, false).run(cx);
    }

    /// `bits` that were taken on `cpu`; out of a mailbox that was closed for good if `closed`.
    #[inline]
    pub(super) const fn pending<K: Kick + ?Sized>(
        self,
        kick: &'a K,
        cpu: CpuIndex,
        bits: u32,
        closed: bool,
    ) -> Pending<'a, K> {
        let last = self.ipi.kinds.last;
        Pending {
            ipis: self,
            kick,
            cpu,
            first: bits & !last,
            last: bits & last,
            closed,
        }
    }

    /// Runs what can run anywhere, for a CPU that waits for a remote call of its own.
    pub(super) fn serve_while_waiting<K>(self, kick: &K, cpu: CpuIndex, block: &Block)
    where
        K: Kick + ?Sized,
    {
        let bits = block.mailbox.take_some(CALL | self.ipi.kinds.anywhere);
        if bits == 0 {
            return;
        }
        let mut pending = self.pending(kick, cpu, bits, false);
        pending.serve_calls();
        while let Some(n) = pop(&mut pending.first) {
            self.ipi.kinds.run_anywhere(n, cpu);
        }
    }

    /// Runs what others wait for on `cpu`.
    #[inline(never)]
    fn serve_calls(self, cpu: CpuIndex) {
        if let Ok(block) = self.block(cpu) {
            block.callers.claim_each(|from, caller| {
                if let Ok(block) = self.block(from) {
                    block.slot.run(cpu, caller);
                }
            });
        }
    }

    /// Leaves `bits` for the next interrupt of this CPU, which is `cpu`, and rings it. Opens a
    /// mailbox that is closed.
    #[cold]
    #[inline(never)]
    fn put_back<K: Kick + ?Sized>(self, kick: &K, cpu: CpuIndex, bits: u32, closed: bool) {
        let Ok(block) = self.block(cpu) else {
            return;
        };
        let mut rings = false;
        let kicked = kick.kick(cpu, || {
            rings = if closed {
                block.mailbox.open(bits);
                true
            } else {
                block.mailbox.post(bits) == 0
            };
            rings
        });
        // A driver that cannot ring this CPU would never ring it for a mailbox that is not
        // empty: what is left is lost then, and the mailbox works on.
        if kicked.is_ok()
            && rings
            && let Some(count) = block.tally.to(block.mailbox.place())
        {
            count.count_rung();
        }
    }
}

/// Takes the lowest bit out.
#[inline]
const fn pop(bits: &mut u32) -> Option<u32> {
    if *bits == 0 {
        return None;
    }
    let n = bits.trailing_zeros();
    *bits &= *bits - 1;
    Some(n)
}

/// What was taken out of the mailbox and has not begun. If what runs unwinds, the rest goes
/// back, and the CPU rings itself.
pub(super) struct Pending<'a, K: Kick + ?Sized> {
    ipis: Ipis<'a>,
    kick: &'a K,
    cpu: CpuIndex,
    /// Remote calls and the kinds that return.
    first: u32,
    /// The kinds that may not.
    last: u32,
    closed: bool,
}

impl<K: Kick + ?Sized> Pending<'_, K> {
    /// Runs everything: remote calls, kinds that return, then those that may not.
    #[inline]
    pub(super) fn run(mut self, cx: &ActionContext<'_>) {
        self.serve_calls();
        while let Some(n) = pop(&mut self.first) {
            self.ipis.ipi.kinds.run(n, cx);
        }
        while let Some(n) = pop(&mut self.last) {
            if self.last != 0 && !self.closed {
                let rest = core::mem::take(&mut self.last);
                self.ipis.put_back(self.kick, self.cpu, rest, false);
            }
            // It may come back on another CPU, or never: nothing is left to do here.
            self.ipis.ipi.kinds.run(n, cx);
        }
    }

    #[inline]
    fn serve_calls(&mut self) {
        if self.first & CALL != 0 {
            self.ipis.serve_calls(self.cpu);
            self.first &= !CALL;
        }
    }
}

impl<K: Kick + ?Sized> Drop for Pending<'_, K> {
    #[inline]
    fn drop(&mut self) {
        let rest = self.first | self.last;
        if rest != 0 {
            self.ipis.put_back(self.kick, self.cpu, rest, self.closed);
        }
    }
}
