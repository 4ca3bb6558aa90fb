// SPDX-License-Identifier: MIT OR Apache-2.0
//! One local APIC and the state of its CPU that interrupts see.

use irq_hal::CpuIndex;

use super::lvt::{Lvt, MASK};
use super::machine::{CpuSpec, Machine, Mode};
use super::timer::Timer;
use super::vectors::Vectors;
use super::{Aps, msr};

/// `SVR[8]`.
pub(super) const SOFT_ENABLE: u32 = 1 << 8;

/// Whether a CPU executes instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Run {
    Running,
    /// Halted by firmware, with a live APIC.
    Parked,
    /// After INIT.
    Waiting,
}

/// What a CPU entered its handler for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entered {
    /// A vector that is in service until its EOI.
    InService,
    /// A vector that was ended.
    Ended,
    /// The spurious vector.
    Spurious,
    /// A vector of the 8259s.
    External,
}

/// The IPIs that one publish covers: one command to several destinations, physical and logical.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub command: Option<u32>,
    /// Destination and its mode, at their places in the register.
    pub sent: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct LocalApic {
    pub cpu: CpuIndex,
    pub spec: CpuSpec,
    /// `IA32_APIC_BASE`.
    pub base: u64,
    pub run: Run,
    /// The page of the start-up IPI that it took.
    pub page: Option<u8>,
    /// When INIT reached it last.
    pub init_at: u64,
    pub inits: u64,
    /// Start-up IPIs since the last INIT.
    pub sipis: u64,
    pub tpr: u8,
    pub svr: u32,
    /// `ESR` as it reads.
    pub esr: u32,
    /// Errors since the last write of `ESR`.
    pub errors: u32,
    pub icr: u64,
    pub irr: Vectors,
    pub isr: Vectors,
    pub tmr: Vectors,
    /// By [`Lvt`].
    pub lvt: [u32; 7],
    /// The pins LINT0 and LINT1.
    pub pins: [bool; 2],
    pub timer: Timer,
    /// What it is inside of, innermost last.
    pub entered: Vec<Entered>,
    /// An interrupt was signalled and then masked by the task priority: the CPU asks, and is
    /// told the spurious vector.
    pub late: bool,
    /// `IA32_BIOS_SIGN_ID` holds the revision: CPUID leaf 1 was read since it was cleared.
    pub signed: bool,
    pub nmis: u64,
    pub nmi_pending: bool,
    pub in_nmi: bool,
    /// What was published and is not used up.
    pub published: Option<Batch>,
    /// Memory was published for CPUs to be started.
    pub start_published: bool,
    /// A start-up IPI was sent since.
    pub start_sent: bool,
}

impl LocalApic {
    pub fn new(machine: &Machine, cpu: usize) -> Self {
        let spec = machine.cpus[cpu].clone();
        let boot = cpu == machine.boot_cpu;
        let mode = match spec.mode {
            Mode::Disabled => 0,
            Mode::Xapic => 1 << 11,
            Mode::X2apic => 3 << 10,
        };
        let run = match machine.aps {
            _ if boot => Run::Running,
            Aps::Running => Run::Running,
            Aps::Parked => Run::Parked,
            Aps::Waiting => Run::Waiting,
        };
        let mut apic = Self {
            cpu: CpuIndex::new(cpu as u32),
            spec,
            base: 0xfee0_0000 | u64::from(boot) << 8 | mode,
            run,
            page: None,
            init_at: 0,
            inits: 0,
            sipis: 0,
            tpr: 0,
            svr: 0xff,
            esr: 0,
            errors: 0,
            icr: 0,
            irr: Vectors::default(),
            isr: Vectors::default(),
            tmr: Vectors::default(),
            lvt: [MASK; 7],
            pins: [false; 2],
            timer: Timer::default(),
            entered: Vec::new(),
            late: false,
            signed: false,
            nmis: 0,
            nmi_pending: false,
            in_nmi: false,
            published: None,
            start_published: false,
            start_sent: false,
        };
        if boot && machine.firmware {
            apic.svr |= SOFT_ENABLE;
            apic.lvt[Lvt::Lint0 as usize] = 0x8700;
            apic.lvt[Lvt::Lint1 as usize] = 0x8400;
        }
        apic.leave_over();
        apic
    }

    /// The registers that firmware left, and the stale bits.
    fn leave_over(&mut self) {
        for (number, value) in self.spec.left.clone() {
            let value32 = value as u32;
            match number {
                msr::IA32_X2APIC_TPR => self.tpr = value as u8,
                msr::IA32_X2APIC_SIVR => self.svr = value32,
                msr::IA32_X2APIC_INIT_COUNT => self.timer.start(value32),
                msr::IA32_X2APIC_DIV_CONF => self.timer.divide = value32,
                msr::IA32_TSC_DEADLINE => self.timer.deadline = value,
                msr::IA32_X2APIC_ESR => self.errors = value32,
                _ => match Lvt::of(number) {
                    Some(lvt) => self.lvt[lvt as usize] = value32,
                    None => panic!("{} cannot be left over", msr::name(number)),
                },
            }
        }
        self.stale();
    }

    fn stale(&mut self) {
        for vector in &self.spec.stale_irr {
            self.irr.insert(*vector);
        }
        for vector in &self.spec.stale_isr {
            self.isr.insert(*vector);
        }
    }

    pub fn id(&self) -> u32 {
        self.spec.id
    }

    pub fn boot(&self) -> bool {
        self.base & 1 << 8 != 0
    }

    pub fn mode(&self) -> Mode {
        match self.base >> 10 & 3 {
            3 => Mode::X2apic,
            2 => Mode::Xapic,
            _ => Mode::Disabled,
        }
    }

    pub fn soft_enabled(&self) -> bool {
        self.svr & SOFT_ENABLE != 0
    }

    /// `LDR` of x2APIC mode.
    pub fn ldr(&self) -> u32 {
        (self.id() >> 4 & 0xffff) << 16 | 1 << (self.id() & 15)
    }

    /// All registers as after a reset, the mode but.
    pub fn reset_registers(&mut self) {
        self.tpr = 0;
        self.svr = 0xff;
        self.esr = 0;
        self.errors = 0;
        self.icr = 0;
        self.irr = Vectors::default();
        self.isr = Vectors::default();
        self.tmr = Vectors::default();
        self.lvt = [MASK; 7];
        self.timer = Timer::default();
        self.late = false;
    }

    /// The registers and the CPU as after INIT.
    pub fn reset_cpu(&mut self) {
        self.reset_registers();
        self.stale();
        self.entered.clear();
        self.nmi_pending = false;
        self.in_nmi = false;
        self.published = None;
        self.page = None;
        self.sipis = 0;
    }

    /// The value of a register, without any effect.
    pub fn peek(&self, number: usize) -> u64 {
        let value = match number {
            msr::IA32_APIC_BASE => return self.base,
            msr::IA32_X2APIC_ICR => return self.icr,
            msr::IA32_TSC_DEADLINE => return self.timer.deadline,
            msr::IA32_X2APIC_APICID => self.id(),
            msr::IA32_X2APIC_TPR => self.tpr.into(),
            msr::IA32_X2APIC_PPR => self.ppr().into(),
            msr::IA32_X2APIC_LDR => self.ldr(),
            msr::IA32_X2APIC_SIVR => self.svr,
            msr::IA32_X2APIC_ISR0..msr::IA32_X2APIC_TMR0 => self.isr.word(number & 7),
            msr::IA32_X2APIC_TMR0..msr::IA32_X2APIC_IRR0 => self.tmr.word(number & 7),
            msr::IA32_X2APIC_IRR0..msr::IA32_X2APIC_ESR => self.irr.word(number & 7),
            msr::IA32_X2APIC_ESR => self.esr,
            msr::IA32_X2APIC_INIT_COUNT => self.timer.initial,
            msr::IA32_X2APIC_CUR_COUNT => self.timer.current,
            msr::IA32_X2APIC_DIV_CONF => self.timer.divide,
            _ => match Lvt::of(number) {
                Some(lvt) => self.lvt[lvt as usize],
                None => panic!("{} (MSR {number:X}H) has no value", msr::name(number)),
            },
        };
        value.into()
    }
}
