// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts between CPUs: kinds that are sent, and functions that are called remotely.
//!
//! # Vocabulary
//! - *kind*: a reason to interrupt a CPU, [`Kind`], up to [`MAX_KINDS`] of them, fixed at
//!   construction. A kind carries no data: kernels keep their own queues behind it.
//! - *mailbox*: one word for each CPU, with a bit for each kind that was sent and not yet run.
//!   It stands on a line of its own, beside what its senders read.
//! - *ring*: make the controller interrupt the CPU. Only who finds the mailbox empty does it;
//!   who finds something there *coalesces* with the ring that is under way.
//! - *remote call*: a function that another CPU runs while the caller waits for its result.
//!
//! ```text
//! sender                          receiver
//! post: set the kind's bit        acknowledge and end the IPI
//! mailbox was empty? then ring    take: swap the mailbox for an empty one
//! count in the own block          count in the own block, run what was taken
//! ```
//! Both sides change the word by single atomic updates. Of a post and a take one comes first:
//! either the take finds the bit, or the post finds an empty mailbox and rings again.
//!
//! All nodes together have one interrupt, and each node that has CPUs has one descriptor,
//! `IPI-<node>`, with [`IpiCounts`]. What a CPU counts stands in its own block, so no two CPUs
//! write the same line: the mailbox of the receiver is the only line that both touch.

mod call;
mod callers;
mod counts;
mod kind;
mod mailbox;
mod online;
mod receive;
mod send;
mod slot;

use core::fmt;

use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error, NodeId};

use crate::interrupts::Interrupts;
use crate::irq::Irq;

pub use call::Remote;
pub use counts::IpiCounts;
pub use irq_hal::callback::Callback;
pub use kind::{AnywhereFn, IpiKind, Kind, KindFn, MAX_KINDS};
pub use send::{Sent, SentMany};

use callers::Callers;
use counts::Tally;
use kind::Kinds;
use mailbox::Mailbox;
use slot::Slot;

/// What IPIs need, in [`Setup`](crate::Setup). With them each CPU's memory grows with the
/// machine: 128 bytes for every 512 possible CPUs (who calls it), 16 for every possible node
/// (its counts).
#[derive(Clone, Copy, Debug)]
pub struct IpiSetup<'a> {
    /// The interrupt that the driver's [`Kick`](crate::Kick) rings.
    pub irq: Irq,
    /// The kinds: number `n` is `kinds[n]`. At most [`MAX_KINDS`], perhaps none where only remote
    /// calls are wanted.
    pub kinds: &'a [Kind],
}

/// What one CPU has for IPIs, each part on lines of its own.
#[derive(Debug)]
pub(crate) struct Block {
    /// Written by every sender.
    mailbox: CachePadded<Mailbox>,
    /// Written by every caller.
    callers: Callers,
    /// The call that this CPU waits for; written by those that it calls.
    slot: CachePadded<Slot>,
    /// Written by this CPU alone.
    tally: CachePadded<Tally>,
}

impl Block {
    /// For machines without IPIs, of no CPU and no node.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(cpus: u32, nodes: u32) -> Result<Self, Error> {
        Ok(Self {
            mailbox: CachePadded::new(Mailbox::new()),
            callers: Callers::new(cpus)?,
            slot: CachePadded::new(Slot::new()),
            tally: CachePadded::new(Tally::new(nodes)?),
        })
    }

    /// As new, where the block served other interrupts before.
    pub(crate) fn reset(&self) {
        self.mailbox.reset();
        self.tally.reset();
    }
}

/// The IPIs of a machine: the part that is read by every send and take, and written by none.
#[derive(Debug)]
pub(crate) struct Ipi {
    /// The interrupt's number, or [`NONE`]: so that one compare finds both.
    key: u64,
    kinds: Kinds,
}

/// What no number of an interrupt is.
const NONE: u64 = u64::MAX;

impl Ipi {
    /// # Errors
    /// [`Error::Invalid`] for too many kinds.
    pub(crate) fn new(setup: Option<IpiSetup<'_>>) -> Result<Self, Error> {
        Ok(Self {
            key: setup.map_or(NONE, |setup| setup.irq.get().into()),
            kinds: Kinds::new(setup.map_or(&[], |setup| setup.kinds))?,
        })
    }

    /// Whether there are IPIs, and `irq` is theirs.
    #[inline]
    pub(crate) const fn is(&self, irq: Irq) -> bool {
        irq.get() as u64 == self.key
    }

    /// Their interrupt; any, if there are none.
    #[inline]
    const fn irq(&self) -> Irq {
        Irq::new(self.key as u32)
    }
}

/// The IPIs of a machine with the blocks of its CPUs.
#[derive(Clone, Copy)]
pub(crate) struct Ipis<'a> {
    ipi: &'a Ipi,
    interrupts: &'a Interrupts,
}

impl<'a> Ipis<'a> {
    // The sender's block is found by the index in its `OnCpu`: one load, and the proof cannot
    // name another machine's block.
    #[inline]
    fn block(self, cpu: CpuIndex) -> Result<&'a Block, Error> {
        match self.interrupts.descriptors.block(cpu) {
            Some(parts) => Ok(&parts.ipi),
            None => Err(Error::NoSuchCpu { cpu }),
        }
    }

    fn blocks(self) -> impl Iterator<Item = (CpuIndex, &'a Block)> {
        let parts = self.interrupts.descriptors.blocks();
        (0..).map(CpuIndex::new).zip(parts.map(|parts| &parts.ipi))
    }

    /// How often `cpu` took the interrupt.
    pub(crate) fn taken_on(self, cpu: CpuIndex) -> Option<u64> {
        Some(self.block(cpu).ok()?.tally.taken())
    }

    /// A line for each node that ever had a CPU online.
    pub(crate) fn snapshot(self, out: &mut dyn fmt::Write) -> fmt::Result {
        for node in 0..self.interrupts.topology.nodes() {
            let Some(counts) = self.counts(NodeId::new(node)) else {
                continue;
            };
            let IpiCounts {
                sent,
                rung,
                coalesced,
                taken,
            } = counts;
            writeln!(
                out,
                "IPI-{node} sent={sent} rung={rung} coalesced={coalesced} taken={taken}"
            )?;
        }
        Ok(())
    }
}

const MISSING: Error = Error::Unsupported {
    feature: "an IPI that was not set up",
};

impl Interrupts {
    /// The IPIs, whether there are any or not.
    #[inline]
    pub(crate) const fn any_ipis(&self) -> Ipis<'_> {
        Ipis {
            ipi: &self.ipi,
            interrupts: self,
        }
    }

    /// The IPIs, if there are any.
    pub(crate) fn ipis(&self) -> Result<Ipis<'_>, Error> {
        match self.ipi.key {
            NONE => Err(MISSING),
            _ => Ok(self.any_ipis()),
        }
    }
}
