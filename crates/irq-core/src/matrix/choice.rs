// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPU gets the next interrupt, by either policy.

use core::ops::ControlFlow::Continue;

use irq_hal::{CpuIndex, Error, NoCpu, NodeId, Platform};

use super::bank::Bank;
use super::words::{each_bank, possible};
use super::{Matrix, Policy, Wanted};
use crate::cpu::{WORD, cpus_of};
use crate::placement::{Among, Class, Request};

/// How often a choice is made again after somebody else was faster on the chosen CPU. Each time
/// somebody made progress.
pub(super) const TRIES: u32 = 256;

/// Others were faster that often.
pub(super) const CONTENDED: Error = Error::Busy {
    what: "the vector matrix",
};

impl Matrix {
    pub(super) fn choose<P>(
        &self,
        platform: &P,
        class: Class,
        wanted: &Wanted<'_>,
    ) -> Result<CpuIndex, Error>
    where
        P: Platform + ?Sized,
    {
        match self.policy {
            Policy::Balanced => {
                let request = Request {
                    class,
                    among: wanted.among,
                    near: wanted.near,
                    turn: wanted.irq.get(),
                };
                Ok(self.placement.choose(&request)?.cpu)
            }
            Policy::Compatible => {
                let able = |bank: &Bank| match class {
                    Class::Managed => bank.spares(),
                    Class::Regular => u64::MAX,
                };
                self.scan_near(platform, class, wanted, &able)
            }
        }
    }

    /// The choice of [`Policy::Compatible`]: regular interrupts look on the device's node first.
    pub(super) fn scan_near<P>(
        &self,
        platform: &P,
        class: Class,
        wanted: &Wanted<'_>,
        able: &dyn Fn(&Bank) -> u64,
    ) -> Result<CpuIndex, Error>
    where
        P: Platform + ?Sized,
    {
        let scan = |node| self.scan(platform, class, wanted.among, node, able);
        match wanted.near {
            Some(node) if class == Class::Regular => scan(Some(node)).or_else(|_| scan(None)),
            _ => scan(None),
        }
    }

    /// The CPU with the least load of those that are online and able, and on `node`.
    fn scan<P>(
        &self,
        platform: &P,
        class: Class,
        among: Among<'_>,
        node: Option<NodeId>,
        able: &dyn Fn(&Bank) -> u64,
    ) -> Result<CpuIndex, Error>
    where
        P: Platform + ?Sized,
    {
        let (mut why, mut best) = (NoCpu::EmptyMask, None::<(u32, CpuIndex)>);
        self.each_bank_of(among, &mut |bank, bits| {
            let first = CpuIndex::new(bank * WORD);
            let looked = self.placement.update_bank(platform, bank, |change, data| {
                let online = bits & change.online();
                (online, online & able(data))
            });
            let Ok((online, able)) = looked else { return };
            why = match why {
                _ if online != 0 => NoCpu::Full,
                NoCpu::EmptyMask => NoCpu::Offline,
                why => why,
            };
            for cpu in cpus_of(first, able) {
                let load = self.placement.load(class, cpu);
                let known = best.map_or(u32::MAX, |(load, _)| load);
                let better = match class {
                    Class::Regular => load < known && load < self.vectors,
                    Class::Managed => load <= known,
                };
                if better && node.is_none_or(|node| self.node_of(cpu) == Some(node)) {
                    best = Some((load, cpu));
                }
            }
        });
        best.map(|(_, cpu)| cpu).ok_or(why.into())
    }

    /// Calls `f` for each bank with possible CPUs of `among`.
    pub(super) fn each_bank_of(&self, among: Among<'_>, f: &mut dyn FnMut(u32, u64)) {
        let mut possible = |bank: u32, bits: u64| {
            let bits = bits & possible(self.cpus(), bank);
            if bits != 0 {
                f(bank, bits);
            }
        };
        let all = 0..self.placement.banks();
        match among {
            Among::Machine => all.for_each(|bank| possible(bank, u64::MAX)),
            Among::Mask(mask) => {
                let _ = each_bank::<()>(mask, |bank, bits| {
                    if all.contains(&bank) {
                        possible(bank, bits);
                    }
                    Continue(())
                });
            }
            Among::Node(node) => all.for_each(|bank| {
                let all = cpus_of(CpuIndex::new(bank * WORD), u64::MAX);
                let members = all.filter(|cpu| self.node_of(*cpu) == Some(node));
                let bits = members.fold(0, |bits, cpu| bits | 1 << (cpu.get() % WORD));
                possible(bank, bits);
            }),
        }
    }

    /// The node of a CPU that has been online.
    pub(super) fn node_of(&self, cpu: CpuIndex) -> Option<NodeId> {
        self.placement.node(cpu)
    }
}
