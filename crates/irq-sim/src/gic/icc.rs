// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU interface's system registers: what each access does, and which rules it breaks.

use super::State;
use super::bank::Group;
use super::call::{Call, View};
use super::cpu_interface::{Acked, CpuInterface, NS, S, SPURIOUS, Sgi, apr_bank};
use super::machine::{Affinity, Security};
use super::sysreg::*;

impl State {
    /// The access is a non-secure one on a machine that shifts priorities for it.
    fn shifted(&self, call: &Call) -> bool {
        !self.dist.ds
            && call.view == View::NonSecure
            && self.machine.security == (Security::Two { fiq: true })
    }

    fn own_group1(&self, call: &Call) -> (usize, Group) {
        if !self.dist.ds && call.view == View::Secure {
            (S, Group::OneSecure)
        } else {
            (NS, Group::One)
        }
    }

    pub fn icc(&mut self, call: &Call, cpu: usize) -> u64 {
        let strict = self.machine.strict;
        if let ICC_SRE_EL1 | ICC_SRE_EL2 = call.offset {
            return self.sre(call, cpu);
        }
        let interface = &mut self.cpus[cpu];
        if interface.sre_fresh {
            call.forbid("no isb between the write of ICC_SRE and this access");
        }
        if !interface.sre {
            call.forbid("ICC_SRE_EL1.SRE is 0: the system registers are undefined");
        }
        let hidden = matches!(
            call.offset,
            ICC_IAR0_EL1
                | ICC_EOIR0_EL1
                | ICC_HPPIR0_EL1
                | ICC_BPR0_EL1
                | ICC_IGRPEN0_EL1
                | ICC_SGI0R_EL1
                | ICC_AP0R0_EL1..=ICC_AP0R3_EL1
        );
        if hidden && self.shifted(call) {
            call.forbid("Group 0 registers trap to EL3 (SCR_EL3.FIQ=1)");
        }
        let (bank, group1) = self.own_group1(call);
        match call.offset {
            ICC_PMR_EL1 => self.pmr(call, cpu),
            ICC_IAR0_EL1 => {
                call.read_only();
                self.iar(call, cpu, Group::Zero)
            }
            ICC_IAR1_EL1 => {
                call.read_only();
                self.iar(call, cpu, group1)
            }
            ICC_EOIR0_EL1 => self.eoir(call, cpu, Group::Zero),
            ICC_EOIR1_EL1 => self.eoir(call, cpu, group1),
            ICC_DIR_EL1 => self.dir(call, cpu),
            ICC_HPPIR0_EL1 | ICC_HPPIR1_EL1 => {
                call.read_only();
                let group = if call.offset == ICC_HPPIR0_EL1 {
                    Group::Zero
                } else {
                    group1
                };
                let best = self.best(cpu).filter(|best| best.group == group);
                best.map_or(SPURIOUS, |best| best.intid).into()
            }
            ICC_RPR_EL1 => {
                call.read_only();
                let running = self.cpus[cpu].running().min(0xff) as u8;
                match running {
                    0xff => 0xff,
                    raw if self.shifted(call) => u64::from(if raw < 0x80 { 0 } else { raw << 1 }),
                    raw => raw.into(),
                }
            }
            ICC_BPR0_EL1 => {
                let interface = &mut self.cpus[cpu];
                let Some(value) = call.store else {
                    return interface.bpr0.into();
                };
                call.reserved(strict, value, 7);
                interface.set_bpr0(value as u8 & 7);
                interface.setup_fresh = true;
                0
            }
            ICC_BPR1_EL1 => {
                let interface = &mut self.cpus[cpu];
                let Some(value) = call.store else {
                    let common = (interface.bpr0 + 1).min(7);
                    return if interface.cbpr {
                        common
                    } else {
                        interface.bpr1[bank]
                    }
                    .into();
                };
                call.reserved(strict, value, 7);
                if !interface.cbpr {
                    let least = if bank == S { 7 } else { 8 } - interface.prebits();
                    interface.bpr1[bank] = (value as u8 & 7).max(least);
                }
                interface.setup_fresh = true;
                0
            }
            ICC_AP0R0_EL1..=ICC_AP0R3_EL1 => self.apr(call, cpu, 0, ICC_AP0R0_EL1),
            ICC_AP1R0_EL1..=ICC_AP1R3_EL1 => self.apr(call, cpu, 1 + bank, ICC_AP1R0_EL1),
            ICC_CTLR_EL1 => self.icc_ctlr(call, cpu),
            ICC_IGRPEN0_EL1 | ICC_IGRPEN1_EL1 => self.igrpen(call, cpu, bank),
            ICC_SGI1R_EL1 => self.sgi(call, cpu, group1),
            ICC_SGI0R_EL1 => self.sgi(call, cpu, Group::Zero),
            _ => call.forbid("this system register is not modelled"),
        }
    }

    fn sre(&mut self, call: &Call, cpu: usize) -> u64 {
        let el2 = self.machine.el2;
        let sticks = self.machine.sre_sticks;
        let interface = &mut self.cpus[cpu];
        if interface.sre_fresh {
            call.forbid("no isb between the write of ICC_SRE and this access");
        }
        if call.offset == ICC_SRE_EL2 {
            if !el2 {
                call.forbid("ICC_SRE_EL2 is undefined at EL1");
            }
            let Some(value) = call.store else {
                return interface.sre2;
            };
            call.reserved(self.machine.strict, value, 0xf);
            interface.sre2 = if sticks { value } else { value & !1 };
            interface.sre_fresh = true;
            return 0;
        }
        if el2 && interface.sre2 & 9 != 9 {
            call.forbid("ICC_SRE_EL2.SRE and Enable are not set: ICC_SRE_EL1 is not usable yet");
        }
        let Some(value) = call.store else {
            return u64::from(interface.sre) | 6;
        };
        call.reserved(self.machine.strict, value, 7);
        if interface.sre && value & 1 == 0 {
            call.forbid("UNPREDICTABLE: ICC_SRE_EL1.SRE goes from 1 to 0");
        }
        interface.sre = value & 1 != 0 && (sticks || interface.sre);
        interface.sre_fresh = true;
        0
    }

    fn pmr(&mut self, call: &Call, cpu: usize) -> u64 {
        let shifted = self.shifted(call);
        let interface = &mut self.cpus[cpu];
        let raw = interface.pmr;
        let Some(value) = call.store else {
            return match (shifted, raw & 0x80) {
                (false, _) => raw,
                (true, 0) => 0,
                (true, _) => raw << 1,
            }
            .into();
        };
        call.reserved(self.machine.strict, value, 0xff);
        if shifted && raw & 0x80 == 0 {
            return 0; // The Secure side masks at its own level: the write is ignored.
        }
        let value = if shifted {
            0x80 | value as u8 >> 1
        } else {
            value as u8
        };
        interface.pmr = value & interface.mask();
        if !interface.pmhe || interface.pmr < interface.pmr_seen {
            interface.pmr_seen = interface.pmr;
        }
        interface.setup_fresh = true;
        0
    }

    /// The interface signals and sends only while its redistributor is awake.
    fn needs_awake(&self, call: &Call, cpu: usize) {
        let awake = self.cpus[cpu].rd.is_some_and(|rd| self.rds[rd].awake());
        if !awake && !self.machine.early_use {
            call.forbid("the CPU interface is used before this CPU's redistributor woke");
        }
    }

    fn iar(&mut self, call: &Call, cpu: usize, group: Group) -> u64 {
        self.needs_awake(call, cpu);
        if self.cpus[cpu].groups_fresh {
            call.forbid("no isb between the change of a group enable and the acknowledge");
        }
        if let Some(special) = self.cpus[cpu].injected.pop_front() {
            return special.into();
        }
        if let Some(intid) = self.acknowledge(cpu, group) {
            let interface = &mut self.cpus[cpu];
            interface.acked = Acked::NeedsComplete;
            interface.last = Some(intid);
            interface.stale = self.machine.quirks.stale_iar;
            return intid.into();
        }
        let interface = &mut self.cpus[cpu];
        match interface.last {
            Some(last) if interface.stale => {
                interface.stale = false;
                last.into()
            }
            _ => SPURIOUS.into(),
        }
    }

    fn eoir(&mut self, call: &Call, cpu: usize, group: Group) -> u64 {
        let value = call.write_only();
        call.reserved(self.machine.strict, value, 0xff_ffff);
        let intid = value as u32;
        if (1020..1024).contains(&intid) {
            call.forbid("special interrupt numbers are never ended");
        }
        let interface = &mut self.cpus[cpu];
        match interface.stack.last() {
            None => call.forbid("nothing is being handled: no acknowledge precedes this end"),
            Some(top) if top.intid != intid => call.forbid(format_args!(
                "ends must mirror acknowledges: interrupt {} is the innermost one",
                top.intid
            )),
            Some(top) if top.group != group => {
                call.forbid("the interrupt was acknowledged in another group")
            }
            Some(_) => {}
        }
        match interface.acked {
            Acked::NeedsComplete => call.forbid("no dsb sy between the acknowledge and the end"),
            Acked::NeedsSynchronize => {
                call.forbid("no isb after the dsb sy between the acknowledge and the end")
            }
            Acked::Done => {}
        }
        interface.stack.pop();
        interface.drop_priority(group);
        if !interface.eoi_splits {
            self.deactivate(cpu, intid);
        }
        0
    }

    fn dir(&mut self, call: &Call, cpu: usize) -> u64 {
        let value = call.write_only();
        call.reserved(self.machine.strict, value, 0xff_ffff);
        let intid = value as u32;
        if !self.cpus[cpu].eoi_splits {
            call.forbid("ICC_DIR_EL1 is written with EOImode 0");
        }
        if (1020..1024).contains(&intid) {
            call.forbid("special interrupt numbers are never deactivated");
        }
        if intid >= 8192 {
            call.forbid("LPIs have no active state");
        }
        match self.source(cpu, intid) {
            Some(source) if source.active => {}
            Some(_) => call.forbid("the interrupt is not active"),
            None => call.forbid("there is no such interrupt"),
        }
        self.deactivate(cpu, intid);
        0
    }

    fn apr(&mut self, call: &Call, cpu: usize, bank: usize, base: usize) -> u64 {
        let index = call.offset - base;
        let interface = &mut self.cpus[cpu];
        if index >= interface.aprs() {
            call.forbid(format_args!(
                "undefined: {} active-priority registers exist with {} priority bits",
                interface.aprs(),
                interface.priority_bits
            ));
        }
        let Some(value) = call.store else {
            return interface.apr[bank][index].into();
        };
        if value != 0 && value != u64::from(interface.apr[bank][index]) {
            call.forbid("UNPREDICTABLE: neither zero nor the value read before");
        }
        interface.apr[bank][index] = value as u32;
        if value == 0 {
            interface
                .stack
                .retain(|taken| apr_bank(taken.group) != bank);
            if bank > 0 {
                interface.apr_cleared |= 1 << index;
            }
        }
        interface.setup_fresh = true;
        0
    }

    fn icc_ctlr(&mut self, call: &Call, cpu: usize) -> u64 {
        let pmhe_fixed = !self.dist.ds && call.view == View::NonSecure;
        let interface = &mut self.cpus[cpu];
        let a3v = self.machine.a3v && interface.spec.a3v;
        let fixed = u64::from(interface.priority_bits - 1) << 8
            | 1 << 11
            | u64::from(a3v) << 15
            | u64::from(interface.spec.rss) << 18
            | u64::from(interface.spec.ext_range) << 19;
        let Some(value) = call.store else {
            return fixed
                | u64::from(interface.cbpr)
                | u64::from(interface.eoi_splits) << 1
                | u64::from(interface.pmhe) << 6;
        };
        call.reserved(
            self.machine.strict,
            value,
            0x43 | 7 << 8 | 7 << 11 | 3 << 14 | 3 << 18,
        );
        let splits = value & 2 != 0;
        if splits != interface.eoi_splits && !interface.stack.is_empty() {
            call.forbid("EOImode changes while an interrupt is being handled");
        }
        interface.eoi_splits = splits;
        interface.cbpr = value & 1 != 0;
        if !pmhe_fixed {
            interface.pmhe = value & 0x40 != 0;
        }
        interface.setup_fresh = true;
        0
    }

    fn igrpen(&mut self, call: &Call, cpu: usize, bank: usize) -> u64 {
        let zero = call.offset == ICC_IGRPEN0_EL1;
        let interface = &self.cpus[cpu];
        let now = if zero {
            interface.enable0
        } else {
            interface.enable1[bank]
        };
        let Some(value) = call.store else {
            return now.into();
        };
        call.reserved(self.machine.strict, value, 1);
        let on = value & 1 != 0;
        if on && !now {
            self.needs_awake(call, cpu);
            let all = (1 << interface.aprs()) - 1;
            if !zero && interface.apr_cleared & all != all {
                call.forbid("the group is enabled before ICC_AP1R<n> were all cleared");
            }
            if interface.setup_fresh {
                call.forbid("no isb between the set-up of the interface and enabling the group");
            }
        }
        let interface = &mut self.cpus[cpu];
        interface.groups_fresh |= on != now;
        if zero {
            interface.enable0 = on;
        } else {
            interface.enable1[bank] = on;
        }
        0
    }

    fn sgi(&mut self, call: &Call, cpu: usize, group: Group) -> u64 {
        let value = call.write_only();
        let field = |at: u32, mask: u64| (value >> at & mask) as u32;
        let allowed = 0x00ff_f1ff_0fff_ffff;
        call.reserved(self.machine.strict, value, allowed);
        self.needs_awake(call, cpu);
        if !self.cpus[cpu].published {
            call.forbid("payload not published: no dsb ishst since the last SGIs left");
        }
        let (list, intid, rs) = (field(0, 0xffff), field(24, 0xf), field(44, 0xf));
        let base = field(48, 0xff) << 24 | field(32, 0xff) << 16 | field(16, 0xff) << 8;
        if field(48, 0xff) != 0 && !(self.machine.a3v && self.cpus[cpu].spec.a3v) {
            call.forbid("Aff3 is not zero, and A3V is 0");
        }
        let own = self.cpus[cpu].spec.affinity;
        let targets: Vec<Affinity> = if value >> 40 & 1 != 0 {
            let awake = |one: &&CpuInterface| one.rd.is_some_and(|rd| self.rds[rd].awake());
            let others = self.cpus.iter().filter(awake).map(|one| one.spec.affinity);
            others.filter(|affinity| *affinity != own).collect()
        } else {
            if rs != 0 && !(self.machine.gicd_rss && self.cpus[cpu].spec.rss) {
                call.forbid("the range selector is not zero, and not supported here (RSS)");
            }
            let bits = (0..16).filter(|bit| list >> bit & 1 != 0);
            bits.map(|bit| Affinity(base | rs << 4 | bit)).collect()
        };
        if rs != 0 && value >> 40 & 1 == 0 {
            let lacks = |one: &&CpuInterface| targets.contains(&one.spec.affinity) && !one.spec.rss;
            if let Some(target) = self.cpus.iter().find(lacks) {
                call.forbid(format_args!(
                    "{} does not support the range selector",
                    target.cpu
                ));
            }
        }
        let interface = &mut self.cpus[cpu];
        interface.sgi_out.push(Sgi {
            intid,
            group,
            targets,
        });
        0
    }
}
