// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interprocessor interrupts: what the command may say, whom it reaches, what becomes of it.

use super::State;
use super::call::Call;
use super::local::{Batch, LocalApic, Run};
use super::machine::{Mode, Vendor};

/// Delivery modes of the command.
const FIXED: u64 = 0;
const LOWEST: u64 = 1;
const SMI: u64 = 2;
const NMI: u64 = 4;
const INIT: u64 = 5;
const STARTUP: u64 = 6;

/// The bit of the destination mode.
const LOGICAL: u32 = 1 << 11;

/// The destination that is everybody.
const EVERYBODY: u32 = u32::MAX;

/// Why a CPU did not accept an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its APIC is disabled by software (`SVR[8]=0`).
    SoftDisabled,
    /// Its APIC is disabled globally.
    Disabled,
    /// It waits for a start-up IPI.
    Waiting,
    /// The vector is below 16: `ESR[6]` there.
    Illegal,
}

/// An IPI that reached nobody, or was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// No APIC answers to that destination.
    NoCpu {
        /// The destination.
        destination: u32,
        /// Whether it was a logical one.
        logical: bool,
    },
    /// A CPU refused it.
    Refused {
        /// The CPU.
        cpu: u32,
        /// The vector, or the vector field of an NMI.
        vector: u8,
        /// Why.
        why: Refusal,
    },
}

impl LocalApic {
    /// Whether a message to `destination` is for this APIC.
    fn addressed(&self, destination: u32, logical: bool) -> bool {
        let id = self.id();
        match (self.mode(), logical) {
            _ if destination == EVERYBODY => true,
            (Mode::X2apic, false) => destination == id,
            (Mode::X2apic, true) => {
                let ldr = self.ldr();
                id < 1 << 20 && ldr >> 16 == destination >> 16 && ldr & destination & 0xffff != 0
            }
            // Eight bits, of which all ones is everybody.
            (_, false) => destination == 0xff || destination == id & 0xff,
            // The logical id of xAPIC mode is not set by any software here.
            (_, true) => false,
        }
    }

    /// An IPI that others act on leaves: stores before it must have been published.
    fn use_published(&mut self, call: &Call, value: u64) {
        let command = value as u32 & !LOGICAL;
        let to = value >> 32 << 32 | value & u64::from(LOGICAL);
        let batch = self.published.as_mut();
        let covered = batch.filter(|batch| {
            batch.command.is_none_or(|sent| sent == command) && !batch.sent.contains(&to)
        });
        let Some(batch) = covered else {
            call.forbid("payload not published: no mfence; lfence since the last IPIs left");
        };
        batch.command = Some(command);
        batch.sent.push(to);
    }

    /// What a fence does.
    pub fn publish(&mut self) {
        self.published = Some(Batch::default());
        self.start_published = true;
        self.start_sent = false;
    }

    /// Another access than an ICR write ends a batch that has begun.
    pub fn end_batch(&mut self) {
        if self
            .published
            .as_ref()
            .is_some_and(|batch| batch.command.is_some())
        {
            self.published = None;
        }
    }
}

impl State {
    pub fn icr(&mut self, call: &Call, cpu: usize) -> u64 {
        let Some(value) = call.store else {
            return self.cpus[cpu].icr;
        };
        let allowed = !0 << 32 | 0x000c_cfff;
        let status = if self.machine.vendor == Vendor::Intel {
            1 << 12
        } else {
            0
        };
        call.reserved(value, allowed | status);
        let (mode, logical) = (value >> 8 & 7, value >> 11 & 1 != 0);
        let (assert, level) = (value >> 14 & 1 != 0, value >> 15 & 1 != 0);
        let shorthand = value >> 18 & 3;
        let (vector, destination) = (value as u8, (value >> 32) as u32);
        if matches!(mode, 3 | 7) {
            call.forbid(format_args!("delivery mode {mode:03b} is reserved"));
        }
        if matches!(shorthand, 1 | 2) && mode != FIXED {
            call.forbid("a shorthand that includes the sender takes fixed mode only");
        }
        if matches!(mode, INIT | SMI) && vector != 0 {
            call.forbid("the vector of INIT and SMI must be 0");
        }
        self.cpus[cpu].icr = value & !(1 << 12);
        match (assert, mode, level) {
            // INIT de-assert: nothing since the Pentium 4.
            (false, INIT, true) => return 0,
            (false, ..) => call.forbid("level must be 1 (assert) but for INIT de-assert"),
            (true, INIT, _) | (true, _, false) => {}
            (true, _, true) => call.forbid("trigger mode level is for INIT only"),
        }
        let targets = self.targets(cpu, shorthand, destination, logical);
        match mode {
            FIXED | LOWEST if vector < 16 => self.cpus[cpu].detect(5),
            LOWEST if !self.machine.lowest_priority => {
                self.cpus[cpu].detect(4);
                return 0;
            }
            SMI => call.forbid("system management belongs to firmware"),
            STARTUP if vector >= 0xa0 => {
                call.forbid("the start-up page is not in the first 640 KiB")
            }
            _ => {}
        }
        self.judge_publication(call, cpu, mode, &targets);
        if targets.is_empty() {
            self.strays.push(Stray::NoCpu {
                destination,
                logical,
            });
        }
        let targets = match mode {
            // Which one is the hardware's choice.
            LOWEST => targets.last().copied().into_iter().collect(),
            _ => targets,
        };
        for target in targets {
            let refused = match mode {
                FIXED | LOWEST => self.send_fixed(call, target, vector),
                NMI => self.send_nmi(call, target),
                INIT => {
                    self.init(call, target);
                    Ok(())
                }
                _ => {
                    self.startup(target, vector);
                    Ok(())
                }
            };
            if let Err(why) = refused {
                let cpu = target as u32;
                self.strays.push(Stray::Refused { cpu, vector, why });
            }
        }
        0
    }

    fn targets(&self, cpu: usize, shorthand: u64, destination: u32, logical: bool) -> Vec<usize> {
        let is = |target: &usize| match shorthand {
            0 => self.cpus[*target].addressed(destination, logical),
            1 => *target == cpu,
            2 => true,
            _ => *target != cpu,
        };
        (0..self.cpus.len()).filter(is).collect()
    }

    fn judge_publication(&mut self, call: &Call, cpu: usize, mode: u64, targets: &[usize]) {
        let others = targets.is_empty() || targets.iter().any(|target| *target != cpu);
        if !self.machine.vendor.reorders() || !others {
            return;
        }
        let apic = &mut self.cpus[cpu];
        let value = call.store.unwrap_or(0);
        match mode {
            INIT if apic.start_sent => {
                apic.start_published = false;
                apic.start_sent = false;
            }
            INIT => {}
            STARTUP => {
                if !apic.start_published {
                    call.forbid("payload not published: no mfence; lfence before the start-up IPI");
                }
                apic.start_sent = true;
            }
            _ => apic.use_published(call, value),
        }
    }

    fn send_fixed(&mut self, call: &Call, target: usize, vector: u8) -> Result<(), Refusal> {
        let apic = &mut self.cpus[target];
        if apic.run == Run::Parked && apic.soft_enabled() && vector >= 16 {
            call.forbid(format_args!(
                "{} takes the IPI, which firmware parked with its own interrupt table",
                apic.cpu
            ));
        }
        apic.accept(vector, false)
    }

    fn send_nmi(&mut self, call: &Call, target: usize) -> Result<(), Refusal> {
        let apic = &mut self.cpus[target];
        if apic.mode() == Mode::Disabled {
            return Err(Refusal::Disabled);
        }
        match apic.run {
            Run::Running => apic.nmi(),
            Run::Parked => call.forbid(format_args!(
                "{} takes the NMI, which firmware parked with its own interrupt table",
                apic.cpu
            )),
            Run::Waiting => return Err(Refusal::Waiting),
        }
        Ok(())
    }

    pub fn self_ipi(&mut self, call: &Call, cpu: usize) -> u64 {
        let value = call.write_only();
        call.reserved(value, 0xff);
        let vector = value as u8;
        let apic = &mut self.cpus[cpu];
        if vector < 16 {
            apic.detect(5);
        }
        if let Err(why) = apic.accept(vector, false) {
            let cpu = cpu as u32;
            self.strays.push(Stray::Refused { cpu, vector, why });
        }
        0
    }
}
