// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MSRs of a local APIC: which there are, and what may be read and written.

use super::State;
use super::call::Call;
use super::local::{Run, SOFT_ENABLE};
use super::lvt::{Lvt, MASK};
use super::machine::Mode;
use super::msr::*;

impl State {
    /// One access to an MSR.
    pub fn msr(&mut self, call: &Call) -> u64 {
        let cpu = call.cpu.index();
        if cpu >= self.cpus.len() {
            call.forbid("the CPU is not of this machine");
        }
        match self.cpus[cpu].run {
            Run::Running => {}
            Run::Parked => call.forbid("firmware has parked this CPU: it executes nothing"),
            Run::Waiting => call.forbid("the CPU waits for a start-up IPI: it executes nothing"),
        }
        if call.offset != IA32_X2APIC_ICR {
            self.cpus[cpu].end_batch();
        }
        let spec = &self.cpus[cpu].spec;
        if call.store.is_some() && spec.ignores.contains(&call.offset) {
            return 0;
        }
        let shown = spec.shows.iter().find(|(number, _)| *number == call.offset);
        let shown = shown.map(|(_, value)| *value);
        let loaded = match call.offset {
            IA32_APIC_BASE => self.apic_base(call, cpu),
            IA32_BIOS_SIGN_ID => self.bios_sign_id(call, cpu),
            IA32_XAPIC_DISABLE_STATUS => self.disable_status(call),
            IA32_ARCH_CAPABILITIES => self.arch_capabilities(call),
            IA32_TSC_DEADLINE => self.deadline(call, cpu),
            0x800..0x900 => {
                if self.cpus[cpu].mode() != Mode::X2apic {
                    call.fault("the local APIC is not in x2APIC mode");
                }
                self.x2apic(call, cpu)
            }
            _ => call.fault("there is no such MSR"),
        };
        shown.unwrap_or(loaded)
    }

    fn x2apic(&mut self, call: &Call, cpu: usize) -> u64 {
        if let Some(lvt) = Lvt::of(call.offset) {
            return self.lvt(call, cpu, lvt);
        }
        match call.offset {
            IA32_X2APIC_APICID
            | IA32_X2APIC_PPR
            | IA32_X2APIC_LDR
            | IA32_X2APIC_CUR_COUNT
            | IA32_X2APIC_ISR0..IA32_X2APIC_ESR => call.read_only(self.cpus[cpu].peek(call.offset)),
            IA32_X2APIC_VERSION => call.read_only(self.version()),
            IA32_X2APIC_TPR => {
                let apic = &mut self.cpus[cpu];
                let Some(value) = call.store else {
                    return apic.tpr.into();
                };
                call.reserved(value, 0xff);
                apic.set_tpr(value as u8);
                0
            }
            IA32_X2APIC_EOI => self.eoi(call, cpu),
            IA32_X2APIC_SIVR => self.svr(call, cpu),
            IA32_X2APIC_ESR => {
                let apic = &mut self.cpus[cpu];
                match call.store {
                    None => return apic.esr.into(),
                    Some(0) => {}
                    Some(_) => call.fault("only 0 may be written"),
                }
                apic.esr = std::mem::take(&mut apic.errors);
                0
            }
            IA32_X2APIC_ICR => self.icr(call, cpu),
            IA32_X2APIC_INIT_COUNT => self.initial_count(call, cpu),
            IA32_X2APIC_DIV_CONF => self.divide(call, cpu),
            IA32_X2APIC_SELF_IPI => self.self_ipi(call, cpu),
            _ => call.fault("there is no such register in x2APIC mode"),
        }
    }

    /// `IA32_X2APIC_VERSION`.
    pub fn version(&self) -> u64 {
        0x15 | u64::from(self.machine.max_lvt) << 16 | u64::from(self.machine.directed_eoi) << 24
    }

    fn svr(&mut self, call: &Call, cpu: usize) -> u64 {
        let Some(value) = call.store else {
            return self.cpus[cpu].svr.into();
        };
        let directed = u64::from(self.machine.directed_eoi) << 12;
        call.reserved(value, 0x1ff | directed);
        let value = value as u32;
        if value & SOFT_ENABLE == 0 {
            self.leaves_pic(call, cpu);
        } else if value & 0xff < 32 {
            call.forbid("the spurious vector is that of a CPU exception");
        }
        let apic = &mut self.cpus[cpu];
        apic.svr = value;
        if value & SOFT_ENABLE == 0 {
            apic.lvt.iter_mut().for_each(|entry| *entry |= MASK);
        }
        0
    }
}
