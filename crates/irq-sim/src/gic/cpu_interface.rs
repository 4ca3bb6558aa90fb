// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU interface: ICC system registers of one CPU.

use std::collections::VecDeque;

use irq_hal::CpuIndex;

use super::bank::Group;
use super::delivery::{IDLE, Taken};
use super::machine::{Affinity, CpuSpec, Machine, Security};
use crate::log::Fence;

/// What `ICC_IAR1_EL1` says when there is nothing.
pub(super) const SPURIOUS: u32 = 1023;

/// How far the barriers after an acknowledge are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acked {
    NeedsComplete,
    NeedsSynchronize,
    Done,
}

/// An SGI on its way out of the CPU: it leaves at the next `isb`.
#[derive(Clone, Debug)]
pub(super) struct Sgi {
    pub intid: u32,
    pub group: Group,
    pub targets: Vec<Affinity>,
}

#[derive(Debug)]
pub(super) struct CpuInterface {
    pub cpu: CpuIndex,
    pub spec: CpuSpec,
    /// This CPU's redistributor, if there is one.
    pub rd: Option<usize>,
    pub priority_bits: u8,
    pub sre: bool,
    pub sre2: u64,
    /// `ICC_SRE_*` was written and no `isb` followed.
    pub sre_fresh: bool,
    pub pmr: u8,
    /// The mask that the redistributor goes by.
    pub pmr_seen: u8,
    pub bpr0: u8,
    /// Non-secure (or only) and Secure.
    pub bpr1: [u8; 2],
    pub cbpr: bool,
    pub eoi_splits: bool,
    pub pmhe: bool,
    pub enable0: bool,
    pub enable1: [bool; 2],
    /// Active priorities: Group 0, Group 1 Non-secure (or only), Group 1 Secure.
    pub apr: [[u32; 4]; 3],
    /// Which `ICC_AP1R<n>` were cleared since the interface came up.
    pub apr_cleared: u8,
    /// Set-up was written and no `isb` followed.
    pub setup_fresh: bool,
    /// A group enable changed and no `isb` followed.
    pub groups_fresh: bool,
    /// Memory was published since the last SGIs left: one publish covers a batch of them.
    pub published: bool,
    pub acked: Acked,
    pub stack: Vec<Taken>,
    pub sgi_out: Vec<Sgi>,
    /// Values that the next acknowledges return instead of an interrupt.
    pub injected: VecDeque<u32>,
    pub last: Option<u32>,
    /// One value that [`acknowledge`] returned out of turn; see erratum 23154.
    pub stale: bool,
}

pub(super) const NS: usize = 0;
pub(super) const S: usize = 1;

pub(super) fn apr_bank(group: Group) -> usize {
    match group {
        Group::Zero => 0,
        Group::One => 1,
        Group::OneSecure => 2,
    }
}

impl CpuInterface {
    pub fn new(machine: &Machine, cpu: usize, rd: Option<usize>) -> Self {
        let mut interface = Self {
            cpu: CpuIndex::new(cpu as u32),
            spec: machine.cpus[cpu],
            rd,
            priority_bits: machine.priority_bits,
            sre: machine.sre_on,
            sre2: if machine.sre_on { 9 } else { 0 },
            sre_fresh: false,
            pmr: 0,
            pmr_seen: 0,
            bpr0: 0,
            bpr1: [0; 2],
            cbpr: false,
            eoi_splits: machine.left_over,
            pmhe: false,
            enable0: false,
            enable1: [false; 2],
            apr: [[0; 4]; 3],
            apr_cleared: 0,
            setup_fresh: false,
            groups_fresh: false,
            published: false,
            acked: Acked::Done,
            stack: Vec::new(),
            sgi_out: Vec::new(),
            injected: VecDeque::new(),
            last: None,
            stale: false,
        };
        if machine.security != Security::One {
            // Firmware opened the mask for the non-secure side.
            interface.pmr = interface.mask();
            interface.pmr_seen = interface.pmr;
        }
        if machine.left_over {
            interface.apr[1][0] = 1 << 3;
            if machine.security == Security::One {
                interface.apr[0][0] = 1 << 2;
                interface.cbpr = true;
                interface.enable0 = true;
            }
            interface.bpr1 = [7; 2];
        }
        interface.set_bpr0(interface.bpr0);
        interface.bpr1 = interface.bpr1.map(|bpr| bpr.max(8 - interface.prebits()));
        interface
    }

    pub fn mask(&self) -> u8 {
        !(0xff_u32 >> self.priority_bits) as u8
    }

    /// Preemption bits.
    pub fn prebits(&self) -> u8 {
        self.priority_bits.min(7)
    }

    /// How many `ICC_AP1R<n>` there are.
    pub fn aprs(&self) -> usize {
        1 << (self.prebits().max(5) - 5)
    }

    pub fn set_bpr0(&mut self, value: u8) {
        self.bpr0 = value.max(7 - self.prebits());
    }

    pub fn enables(&self, group: Group) -> bool {
        match group {
            Group::Zero => self.enable0,
            Group::One => self.enable1[NS],
            Group::OneSecure => self.enable1[S],
        }
    }

    /// Whether a group is enabled, or may still be for want of an `isb`.
    pub fn any_enabled(&self) -> bool {
        self.groups_fresh || self.enable0 || self.enable1[NS] || self.enable1[S]
    }

    /// The bits of a priority that decide about preemption.
    pub fn group_mask(&self, group: Group) -> u8 {
        let shift = match group {
            Group::Zero => self.bpr0 + 1,
            _ if self.cbpr => self.bpr0 + 1,
            Group::One => self.bpr1[NS],
            Group::OneSecure => self.bpr1[S] + 1,
        };
        (0xff_u32 << shift) as u8 & self.mask()
    }

    /// The group priority of what is being handled, or [`IDLE`].
    pub fn running(&self) -> u16 {
        let word = |n: usize| self.apr.iter().fold(0, |all, bank| all | bank[n]);
        let first = (0..4).find(|&n| word(n) != 0);
        let level = first.map(|n| 32 * n as u32 + word(n).trailing_zeros());
        level.map_or(IDLE, |level| (level as u16) << (8 - self.prebits()))
    }

    pub fn set_active_priority(&mut self, group: Group, priority: u8) {
        let level = usize::from(priority >> (8 - self.prebits()));
        self.apr[apr_bank(group)][level / 32] |= 1 << (level % 32);
    }

    pub fn drop_priority(&mut self, group: Group) {
        let bank = &mut self.apr[apr_bank(group)];
        if let Some(word) = bank.iter_mut().find(|word| **word != 0) {
            *word &= *word - 1;
        }
    }

    /// The redistributor went to sleep: what follows is a new bring-up.
    pub fn slept(&mut self) {
        self.apr_cleared = 0;
    }

    pub fn fence(&mut self, fence: Fence) {
        match fence {
            Fence::Publish => self.published = true,
            Fence::Complete => {
                self.published = true;
                self.pmr_seen = self.pmr;
                if self.acked == Acked::NeedsComplete {
                    self.acked = Acked::NeedsSynchronize;
                }
            }
            Fence::Synchronize => {
                self.sre_fresh = false;
                self.setup_fresh = false;
                self.groups_fresh = false;
                // One publish covers the SGIs up to the isb: a batch.
                self.published &= self.sgi_out.is_empty();
                if self.acked == Acked::NeedsSynchronize {
                    self.acked = Acked::Done;
                }
            }
        }
    }

    /// The priority mask and the running priority, as the hardware compares them.
    pub fn priorities(&self) -> (u8, Option<u8>) {
        let running = self.running();
        (self.pmr, (running != IDLE).then_some(running as u8))
    }
}
