// SPDX-License-Identifier: MIT OR Apache-2.0
//! From pending interrupts to a CPU: who gets what, acknowledge, priority drop, deactivation.

use super::State;
use super::bank::{Group, Source};
use super::distributor::Distributor;
use super::redistributor::{private_index, private_intid};

/// No interrupt is active: any priority may be signalled.
pub(super) const IDLE: u16 = 0x100;

/// An interrupt that a CPU could take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub intid: u32,
    pub priority: u8,
    pub group: Group,
}

/// An interrupt that a CPU has acknowledged and not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    pub intid: u32,
    pub group: Group,
}

impl State {
    /// The source of `intid` as `cpu` sees it.
    pub fn source(&self, cpu: usize, intid: u32) -> Option<&Source> {
        match private_index(intid) {
            Some(index) => self.rds[self.cpus[cpu].rd?].sources.get(index),
            None => self.dist.source(intid),
        }
    }

    pub fn source_mut(&mut self, cpu: usize, intid: u32) -> Option<&mut Source> {
        match private_index(intid) {
            Some(index) => {
                let rd = self.cpus[cpu].rd?;
                self.rds[rd].sources.get_mut(index)
            }
            None => self.dist.source_mut(intid),
        }
    }

    /// The pending interrupt of the highest priority that `cpu` could take, whatever its
    /// priority mask; of equal ones the lowest number.
    pub fn best(&self, cpu: usize) -> Option<Candidate> {
        let interface = &self.cpus[cpu];
        let rd = &self.rds[interface.rd?];
        if !rd.awake() {
            return None;
        }
        let ready = |intid: u32, source: &Source| {
            let group = source.group(self.dist.ds);
            let ready = source.live()
                && source.pending()
                && !source.active
                && self.dist.passes(group)
                && interface.enables(group);
            ready.then_some(Candidate {
                intid,
                priority: source.priority,
                group,
            })
        };
        let private = rd.sources.iter().enumerate();
        let private = private.filter_map(|(index, source)| ready(private_intid(index), source));
        let affinity = interface.spec.affinity;
        let here = |source: &Source| {
            // First: most are not, and machines of hundreds of CPUs ask often.
            source.pending()
                && Distributor::targets(source, affinity)
                && (source.route & 1 << 31 == 0 || rd.takes_any(source.group(self.dist.ds)))
        };
        let shared = self.dist.sources().filter(|(_, source)| here(source));
        let shared = shared.filter_map(|(intid, source)| ready(intid, source));
        let best = private
            .chain(shared)
            .min_by_key(|one| (one.priority, one.intid))?;
        if (1056..8192).contains(&best.intid) && !interface.spec.ext_range {
            panic!(
                "UNPREDICTABLE: interrupt {} goes to {}, whose ICC_CTLR_EL1.ExtRange is 0",
                best.intid, interface.cpu
            );
        }
        Some(best)
    }

    /// The interrupt that is signalled to `cpu` now.
    pub fn signalled(&self, cpu: usize) -> Option<Candidate> {
        let interface = &self.cpus[cpu];
        let best = self.best(cpu)?;
        let group_priority = u16::from(best.priority & interface.group_mask(best.group));
        let passes = best.priority < interface.pmr_seen && group_priority < interface.running();
        passes.then_some(best)
    }

    /// `cpu` acknowledges an interrupt of `group`.
    pub fn acknowledge(&mut self, cpu: usize, group: Group) -> Option<u32> {
        let best = self.signalled(cpu).filter(|best| best.group == group)?;
        let interface = &mut self.cpus[cpu];
        let mask = interface.group_mask(group);
        interface.set_active_priority(group, best.priority & mask);
        interface.stack.push(Taken {
            intid: best.intid,
            group,
        });
        if let Some(source) = self.source_mut(cpu, best.intid) {
            source.active = true;
            source.latch = false;
        }
        Some(best.intid)
    }

    /// `cpu` deactivates `intid`; lost where the machine has the erratum.
    pub fn deactivate(&mut self, cpu: usize, intid: u32) {
        let affinity = self.cpus[cpu].spec.affinity;
        let erratum = self.machine.quirks.lost_deactivation;
        let shared = private_index(intid).is_none();
        if let Some(source) = self.source_mut(cpu, intid) {
            if erratum && shared && !Distributor::targets(source, affinity) {
                self.lost_deactivations += 1;
                return;
            }
            source.active = false;
        }
    }

    /// What SGIs `cpu` has written goes out.
    pub fn flush_sgis(&mut self, cpu: usize) {
        for sgi in std::mem::take(&mut self.cpus[cpu].sgi_out) {
            for affinity in sgi.targets {
                let target = self
                    .cpus
                    .iter()
                    .position(|one| one.spec.affinity == affinity);
                let rd = target.and_then(|target| self.cpus[target].rd);
                let Some(rd) = rd else {
                    self.strays.push(Stray::NoCpu {
                        intid: sgi.intid,
                        affinity,
                    });
                    continue;
                };
                let ds = self.dist.ds;
                let source = &mut self.rds[rd].sources[sgi.intid as usize];
                if source.group(ds) == sgi.group {
                    source.latch = true;
                } else {
                    self.strays.push(Stray::WrongGroup {
                        intid: sgi.intid,
                        affinity,
                    });
                }
            }
        }
    }
}

/// An SGI that reached nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// There is no CPU, or no redistributor, with that affinity.
    NoCpu {
        /// The SGI.
        intid: u32,
        /// Whom it was for.
        affinity: super::Affinity,
    },
    /// The target has the SGI in another group than the sender may send to.
    WrongGroup {
        /// The SGI.
        intid: u32,
        /// Whom it was for.
        affinity: super::Affinity,
    },
}
