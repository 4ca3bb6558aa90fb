// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local vector table, and the interrupts that come from inside the CPU or from its pins.

use super::State;
use super::call::Call;
use super::local::LocalApic;
use super::msr;
use super::timer::TimerMode;

/// The mask bit.
pub(super) const MASK: u32 = 1 << 16;
/// Delivery status, read-only.
const STATUS: u32 = 1 << 12;
/// Remote IRR, read-only.
const REMOTE: u32 = 1 << 14;
const LEVEL: u32 = 1 << 15;
const LOW: u32 = 1 << 13;

const FIXED: u32 = 0;
const SMI: u32 = 2;
const NMI: u32 = 4;
const INIT: u32 = 5;
const EXTINT: u32 = 7;

/// The entries, in the order in which `max_lvt` takes them in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lvt {
    Timer,
    Lint0,
    Lint1,
    Error,
    Perf,
    Thermal,
    Cmci,
}

impl Lvt {
    pub fn of(number: usize) -> Option<Self> {
        Some(match number {
            msr::IA32_X2APIC_LVT_TIMER => Self::Timer,
            msr::IA32_X2APIC_LVT_LINT0 => Self::Lint0,
            msr::IA32_X2APIC_LVT_LINT1 => Self::Lint1,
            msr::IA32_X2APIC_LVT_ERROR => Self::Error,
            msr::IA32_X2APIC_LVT_PMI => Self::Perf,
            msr::IA32_X2APIC_LVT_THERMAL => Self::Thermal,
            msr::IA32_X2APIC_LVT_CMCI => Self::Cmci,
            _ => return None,
        })
    }

    /// The bits that are not reserved.
    fn bits(self, deadline: bool) -> u32 {
        let common = 0xff | STATUS | MASK;
        match self {
            Self::Timer if deadline => common | 3 << 17,
            Self::Timer => common | 1 << 17,
            Self::Error => common,
            Self::Lint0 | Self::Lint1 => common | 7 << 8 | LOW | REMOTE | LEVEL,
            Self::Perf | Self::Thermal | Self::Cmci => common | 7 << 8,
        }
    }

    /// The delivery mode in `entry`; timer and error have none.
    fn delivery(self, entry: u32) -> u32 {
        match self {
            Self::Timer | Self::Error => FIXED,
            _ => entry >> 8 & 7,
        }
    }

    fn pin(self) -> Option<usize> {
        match self {
            Self::Lint0 => Some(0),
            Self::Lint1 => Some(1),
            _ => None,
        }
    }
}

impl LocalApic {
    /// The event of `lvt` happens: its interrupt is sent to this CPU, unless masked.
    pub fn fire(&mut self, lvt: Lvt) {
        let entry = self.lvt[lvt as usize];
        if entry & MASK != 0 {
            return;
        }
        let level = lvt.pin().is_some() && entry & LEVEL != 0;
        match lvt.delivery(entry) {
            FIXED => {
                // A masked, or disabled, APIC has no unmasked entry: nothing refuses here.
                let _ = self.accept(entry as u8, level);
                if level {
                    self.lvt[lvt as usize] |= REMOTE;
                }
            }
            NMI => self.nmi(),
            _ => {}
        }
        if lvt == Lvt::Perf {
            self.lvt[lvt as usize] |= MASK;
        }
    }

    /// The pin `pin` changes to `high`.
    pub fn set_pin(&mut self, pin: usize, high: bool) {
        let lvt = [Lvt::Lint0, Lvt::Lint1][pin];
        let active_before = self.asserted(lvt);
        self.pins[pin] = high;
        let entry = self.lvt[lvt as usize];
        let level = entry & LEVEL != 0 && lvt.delivery(entry) == FIXED;
        if !level && self.asserted(lvt) && !active_before {
            self.fire(lvt);
        }
        self.levels();
    }

    fn asserted(&self, lvt: Lvt) -> bool {
        let low = self.lvt[lvt as usize] & LOW != 0;
        lvt.pin().is_some_and(|pin| self.pins[pin] != low)
    }

    /// Level-triggered pins that are asserted, and not in service, fire.
    pub fn levels(&mut self) {
        for lvt in [Lvt::Lint0, Lvt::Lint1] {
            let entry = self.lvt[lvt as usize];
            let level = entry & LEVEL != 0 && lvt.delivery(entry) == FIXED;
            if level && entry & REMOTE == 0 && self.asserted(lvt) {
                self.fire(lvt);
            }
        }
    }

    /// The level-triggered `vector` was ended.
    pub fn level_ended(&mut self, vector: u8) {
        for lvt in [Lvt::Lint0, Lvt::Lint1] {
            if self.lvt[lvt as usize] as u8 == vector {
                self.lvt[lvt as usize] &= !REMOTE;
            }
        }
        self.levels();
    }

    /// Whether the CPU listens to the 8259s on LINT0.
    pub fn listens_to_pic(&self) -> bool {
        let entry = self.lvt[Lvt::Lint0 as usize];
        entry & MASK == 0 && Lvt::Lint0.delivery(entry) == EXTINT
    }
}

impl State {
    pub fn lvt(&mut self, call: &Call, cpu: usize, lvt: Lvt) -> u64 {
        if lvt as u8 > self.machine.max_lvt {
            call.fault(format_args!(
                "there is no such entry: max-LVT is {}",
                self.machine.max_lvt
            ));
        }
        let old = self.cpus[cpu].lvt[lvt as usize];
        let Some(value) = call.store else {
            return old.into();
        };
        call.reserved(value, lvt.bits(self.machine.deadline).into());
        let value = value as u32;
        if lvt == Lvt::Timer && TimerMode::of(value).is_none() {
            call.fault("timer mode 11 is reserved");
        }
        let inside = matches!(lvt, Lvt::Perf | Lvt::Thermal | Lvt::Cmci);
        match lvt.delivery(value) {
            FIXED | SMI | NMI => {}
            INIT | EXTINT if !inside => {}
            mode => call.forbid(format_args!("delivery mode {mode:03b} is reserved here")),
        }
        let apic = &self.cpus[cpu];
        if lvt == Lvt::Error && value & MASK == 0 && apic.errors != 0 {
            call.forbid(format_args!(
                "LVT error is unmasked with errors {:#x} not cleared: write ESR first",
                apic.errors
            ));
        }
        let mut new = value & !(STATUS | REMOTE) | old & REMOTE;
        if !apic.soft_enabled() {
            new |= MASK;
        }
        if lvt == Lvt::Lint0 && new & MASK != 0 {
            self.leaves_pic(call, cpu);
        }
        let apic = &mut self.cpus[cpu];
        apic.lvt[lvt as usize] = new;
        if lvt.delivery(new) == FIXED && new as u8 as u32 & 0xff < 16 {
            apic.detect(6);
        }
        if lvt == Lvt::Timer {
            self.timer_mode_changed(cpu, old);
        }
        self.cpus[cpu].levels();
        0
    }

    /// The CPU stops listening to the 8259s.
    pub fn leaves_pic(&self, call: &Call, cpu: usize) {
        if !self.cpus[cpu].listens_to_pic() {
            return;
        }
        let Some(pic) = &self.pic else { return };
        if pic.requests() {
            call.forbid("LINT0 is masked while the 8259 asserts INTR: mask both 8259s first");
        }
        if !pic.masked() {
            call.forbid("LINT0 is masked before both 8259s are");
        }
        if !call.masked {
            call.forbid("LINT0 is masked with interrupts enabled");
        }
    }
}
