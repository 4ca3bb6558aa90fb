// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a message to the CPU: acceptance, priorities, entry, end, errors.

use super::State;
use super::call::Call;
use super::icr::Refusal;
use super::local::{Entered, LocalApic, Run};
use super::lvt::Lvt;
use super::machine::Mode;

impl LocalApic {
    /// A fixed interrupt arrives.
    pub fn accept(&mut self, vector: u8, level: bool) -> Result<(), Refusal> {
        if self.mode() == Mode::Disabled {
            return Err(Refusal::Disabled);
        }
        if self.run == Run::Waiting {
            return Err(Refusal::Waiting);
        }
        if vector < 16 {
            self.detect(6);
            return Err(Refusal::Illegal);
        }
        if !self.soft_enabled() {
            return Err(Refusal::SoftDisabled);
        }
        self.irr.insert(vector);
        self.tmr.set(vector, level);
        Ok(())
    }

    /// An NMI arrives; one more than the one that is handled is kept.
    pub fn nmi(&mut self) {
        self.nmis += 1;
        self.nmi_pending = true;
    }

    /// The APIC finds an error: `bit` of `ESR`.
    pub fn detect(&mut self, bit: u32) {
        self.errors |= 1 << bit;
        let vector = self.lvt[Lvt::Error as usize] as u8;
        if vector >= 16 {
            self.fire(Lvt::Error);
        }
    }

    /// The processor priority.
    pub fn ppr(&self) -> u8 {
        let served = self.isr.highest().unwrap_or(0) & 0xf0;
        if self.tpr & 0xf0 >= served {
            self.tpr
        } else {
            served
        }
    }

    /// The vector that is signalled to the CPU.
    pub fn signalled(&self) -> Option<u8> {
        let highest = self.irr.highest()?;
        let passes = self.mode() != Mode::Disabled && highest >> 4 > self.ppr() >> 4;
        passes.then_some(highest)
    }

    /// The task priority becomes `tpr`; an interrupt that was signalled may be masked by it.
    pub fn set_tpr(&mut self, tpr: u8) {
        let before = self.signalled();
        self.tpr = tpr;
        self.late |= before.is_some() && self.signalled().is_none();
    }

    /// The CPU asks for a vector of the APIC and enters its handler.
    pub fn enter(&mut self) -> Option<u8> {
        if let Some(vector) = self.signalled() {
            self.irr.remove(vector);
            self.isr.insert(vector);
            self.late = false;
            self.entered.push(Entered::InService);
            return Some(vector);
        }
        if self.late {
            self.late = false;
            self.entered.push(Entered::Spurious);
            return Some(self.svr as u8);
        }
        None
    }
}

impl State {
    /// `cpu` takes an interrupt: its vector.
    pub fn enter(&mut self, cpu: usize) -> Option<u8> {
        if self.cpus[cpu].run != Run::Running {
            return None;
        }
        if let Some(vector) = self.cpus[cpu].enter() {
            return Some(vector);
        }
        if !self.pic_reaches(cpu) {
            return None;
        }
        let vector = self.pic.as_mut()?.acknowledge()?;
        self.cpus[cpu].entered.push(Entered::External);
        Some(vector)
    }

    /// Whether the output of the 8259s reaches `cpu`.
    pub fn pic_reaches(&self, cpu: usize) -> bool {
        let apic = &self.cpus[cpu];
        let direct = self.pic.as_ref().is_some_and(super::pic::Pair::bypasses);
        match apic.mode() {
            Mode::Disabled => apic.boot(),
            _ if direct && apic.boot() => true,
            _ => apic.listens_to_pic(),
        }
    }

    /// The vector that `cpu` would take.
    pub fn pending(&self, cpu: usize) -> Option<u8> {
        let apic = &self.cpus[cpu];
        if apic.run != Run::Running {
            return None;
        }
        let late = apic.late.then_some(apic.svr as u8);
        let external = || {
            let pic = self.pic.as_ref().filter(|_| self.pic_reaches(cpu))?;
            pic.offers()
        };
        apic.signalled().or(late).or_else(external)
    }

    pub fn eoi(&mut self, call: &Call, cpu: usize) -> u64 {
        if call.write_only() != 0 {
            call.fault("only 0 may be written");
        }
        let apic = &mut self.cpus[cpu];
        let Some(vector) = apic.isr.highest() else {
            call.forbid("spurious EOI: nothing is in service");
        };
        match apic.entered.last_mut() {
            Some(Entered::Spurious) => call.forbid(format_args!(
                "EOI for a spurious interrupt: it retires vector {vector:#x}"
            )),
            Some(Entered::External) => call.forbid(format_args!(
                "EOI for an interrupt of the 8259: it retires vector {vector:#x}"
            )),
            Some(Entered::Ended) => call.forbid(format_args!(
                "second EOI for one interrupt: it retires vector {vector:#x}"
            )),
            Some(entered) => *entered = Entered::Ended,
            None => {}
        }
        if !apic.spec.stuck_isr.contains(&vector) {
            apic.isr.remove(vector);
        }
        if apic.tmr.contains(vector) {
            apic.level_ended(vector);
            if self.cpus[cpu].svr & 1 << 12 == 0 {
                self.broadcasts.push(vector);
            }
        }
        0
    }
}
