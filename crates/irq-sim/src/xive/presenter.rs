// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PHYS ring of one hardware thread, and what that thread owes in order.

use super::access::Call;
use super::machine::{Machine, ThreadSpec};
use crate::log::Fence;

/// `NSR`: an interrupt of the PHYS ring.
const HE_PHYS: u8 = 0x80;
/// No priority.
const NONE: u8 = 0xff;

/// Whether what a thread has stored to memory is on its way before the next trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Published {
    No,
    Yes,
    /// One publish covers a batch of triggers: these so far.
    Ringing(Vec<u32>),
}

/// An acknowledge whose priority is not given back yet.
#[derive(Clone, Copy, Debug)]
struct Level {
    before: u8,
    now: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub spec: ThreadSpec,
    /// The thread's virtual processor is valid: events find it.
    pub vt: bool,
    pub nsr: u8,
    pub cppr: u8,
    pub ipb: u8,
    pub lsmfb: u8,
    pub lgs: u8,
    pub pipr: u8,
    /// The last byte of W2.
    pub w2_low: u8,
    /// `LPCR.HVICE`: the virtualization interrupt can be taken.
    pub hvice: bool,
    /// The exception was raised for nothing.
    pub spurious: bool,
    sticky_nsr: bool,
    pipr_recomputed: bool,
    /// Acknowledged, and not synchronized since.
    acked: bool,
    published: Published,
    levels: Vec<Level>,
}

impl Thread {
    pub fn new(machine: &Machine, spec: ThreadSpec) -> Self {
        Self {
            spec,
            vt: true,
            nsr: 0,
            cppr: 0,
            ipb: 0,
            lsmfb: 0,
            lgs: 0,
            pipr: NONE,
            w2_low: 0,
            hvice: true,
            spurious: false,
            sticky_nsr: machine.sticky_nsr,
            pipr_recomputed: machine.pipr_recomputed,
            acked: false,
            published: Published::No,
            levels: Vec::new(),
        }
    }

    /// The most favoured pending priority.
    fn best(&self) -> u8 {
        if self.ipb == 0 {
            NONE
        } else {
            self.ipb.leading_zeros() as u8
        }
    }

    /// `PIPR` and the exception follow `IPB` and `CPPR`.
    fn evaluate(&mut self) {
        self.pipr = self.best();
        if self.pipr < self.cppr {
            self.nsr = HE_PHYS;
        } else if !self.sticky_nsr {
            self.nsr = 0;
        }
    }

    /// An event of `prio` arrives.
    pub fn present(&mut self, prio: u8) {
        self.ipb |= 0x80 >> prio;
        self.evaluate();
    }

    /// Whether the exception line is up.
    pub fn signalled(&self) -> bool {
        self.nsr != 0 || self.spurious
    }

    /// The 2-byte load at 0x830.
    pub fn acknowledge(&mut self) -> u16 {
        self.spurious = false;
        let nsr = std::mem::take(&mut self.nsr);
        if nsr != 0 {
            self.levels.push(Level {
                before: self.cppr,
                now: self.pipr,
            });
            self.cppr = self.pipr;
            if self.pipr < 8 {
                self.ipb &= !(0x80 >> self.pipr);
            }
            self.acked = true;
            if self.pipr_recomputed {
                self.pipr = self.best();
            }
        }
        u16::from(nsr) << 8 | u16::from(self.cppr)
    }

    /// The 1-byte store at 0x31.
    pub fn set_cppr(&mut self, call: &Call, value: u8) {
        let mut interrupted = None;
        while let Some(level) = self.levels.last()
            && (level.now < value || level.before == value)
        {
            interrupted = Some(level.before);
            self.levels.pop();
        }
        if let Some(before) = interrupted
            && value > before
        {
            call.forbid(format_args!(
                "CPPR opens beyond the interrupted level, which is {before:#x}"
            ));
        }
        self.cppr = value;
        self.evaluate();
    }

    /// How many acknowledges have not given their priority back; none of a thread that has
    /// closed itself.
    pub fn unrestored(&self) -> usize {
        if self.cppr == 0 { 0 } else { self.levels.len() }
    }

    /// As firmware's reset leaves it. Pending bits survive.
    pub fn reset(&mut self) {
        self.vt = true;
        self.cppr = 0;
        self.nsr = 0;
        self.levels.clear();
        self.evaluate();
    }

    /// The thread takes an interrupt, which orders what it has loaded. Returns what it has
    /// published, for [`leave`](Self::leave).
    pub fn enter(&mut self) -> Published {
        self.acked = false;
        std::mem::replace(&mut self.published, Published::No)
    }

    /// The thread goes on where it was interrupted.
    pub fn leave(&mut self, outer: Published) {
        self.acked = false;
        self.published = outer;
    }

    pub fn fence(&mut self, fence: Fence) {
        match fence {
            Fence::Publish => self.published = Published::Yes,
            Fence::Complete => {
                self.published = Published::Yes;
                self.acked = false;
            }
            Fence::Synchronize => self.acked = false,
        }
    }

    /// Whether an acknowledge was not synchronized.
    pub fn unsynchronized(&self) -> bool {
        self.acked
    }

    /// Judges that an access follows a synchronized acknowledge.
    pub fn judge_order(&self, call: &Call) {
        if self.acked {
            call.forbid("no isync between the acknowledge and what follows it");
        }
    }

    /// An access that is no trigger ends a batch of triggers.
    pub fn end_batch(&mut self) {
        if matches!(self.published, Published::Ringing(_)) {
            self.published = Published::No;
        }
    }

    /// A trigger of `girq` that another CPU will receive.
    pub fn ring(&mut self, call: &Call, girq: u32) {
        match &mut self.published {
            Published::Yes => self.published = Published::Ringing(vec![girq]),
            Published::Ringing(rung) if !rung.contains(&girq) => rung.push(girq),
            _ => call.forbid("payload not published: no sync before this trigger"),
        }
    }
}
