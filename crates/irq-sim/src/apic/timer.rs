// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timer: one-shot, periodic, TSC deadline.

use super::call::Call;
use super::lvt::Lvt;
use super::{State, msr};

/// `LVTT[18:17]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimerMode {
    OneShot,
    Periodic,
    Deadline,
}

impl TimerMode {
    /// The mode in an LVT entry; `None` for the reserved value.
    pub fn of(entry: u32) -> Option<Self> {
        match entry >> 17 & 3 {
            0 => Some(Self::OneShot),
            1 => Some(Self::Periodic),
            2 => Some(Self::Deadline),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Timer {
    pub initial: u32,
    /// Zero: it does not run.
    pub current: u32,
    /// Ticks since the last decrement.
    phase: u64,
    /// The divide configuration register.
    pub divide: u32,
    /// Zero: not armed.
    pub deadline: u64,
}

impl Timer {
    /// How many ticks make one count.
    pub fn divisor(&self) -> u64 {
        match self.divide >> 1 & 4 | self.divide & 3 {
            7 => 1,
            bits => 2 << bits,
        }
    }

    pub fn start(&mut self, count: u32) {
        self.initial = count;
        self.current = count;
        self.phase = 0;
    }

    fn disarm(&mut self) {
        self.current = 0;
        self.deadline = 0;
    }

    /// `ticks` pass; whether it fires.
    fn advance(&mut self, ticks: u64, mode: TimerMode, tsc: u64) -> bool {
        if mode == TimerMode::Deadline {
            let fires = self.deadline != 0 && self.deadline <= tsc;
            if fires {
                self.deadline = 0;
            }
            return fires;
        }
        if self.current == 0 {
            return false;
        }
        self.phase += ticks;
        let counts = self.phase / self.divisor();
        self.phase %= self.divisor();
        let Some(over) = counts.checked_sub(self.current.into()) else {
            self.current -= counts as u32;
            return false;
        };
        self.current = match mode {
            TimerMode::Periodic if self.initial != 0 => {
                self.initial - (over % u64::from(self.initial)) as u32
            }
            _ => 0,
        };
        true
    }
}

impl State {
    fn timer_mode(&self, cpu: usize) -> TimerMode {
        // The reserved value cannot be written.
        TimerMode::of(self.cpus[cpu].lvt[Lvt::Timer as usize]).unwrap_or(TimerMode::OneShot)
    }

    /// The mode changes from that of `old` to that of the present entry.
    pub fn timer_mode_changed(&mut self, cpu: usize, old: u32) {
        let old = TimerMode::of(old).unwrap_or(TimerMode::OneShot);
        let new = self.timer_mode(cpu);
        if old != new && (old == TimerMode::Deadline || new == TimerMode::Deadline) {
            self.cpus[cpu].timer.disarm();
        }
    }

    /// `ticks` of the timers' clock, and of the TSC, pass.
    pub fn advance(&mut self, ticks: u64) {
        self.tsc += ticks;
        for cpu in 0..self.cpus.len() {
            self.advance_timer(cpu, ticks);
        }
    }

    fn advance_timer(&mut self, cpu: usize, ticks: u64) {
        let mode = self.timer_mode(cpu);
        let fires = self.cpus[cpu].timer.advance(ticks, mode, self.tsc);
        let dead = mode == TimerMode::Deadline && self.machine.dead_deadline;
        if fires && !dead {
            self.cpus[cpu].fire(Lvt::Timer);
        }
    }

    pub fn initial_count(&mut self, call: &Call, cpu: usize) -> u64 {
        let mode = self.timer_mode(cpu);
        let timer = &mut self.cpus[cpu].timer;
        let Some(value) = call.store else {
            return timer.initial.into();
        };
        call.reserved(value, 0xffff_ffff);
        if mode != TimerMode::Deadline {
            timer.start(value as u32);
        }
        0
    }

    pub fn divide(&mut self, call: &Call, cpu: usize) -> u64 {
        let timer = &mut self.cpus[cpu].timer;
        let Some(value) = call.store else {
            return timer.divide.into();
        };
        call.reserved(value, 0b1011);
        timer.divide = value as u32;
        0
    }

    /// `IA32_TSC_DEADLINE`: it reads 0 and ignores writes in the other modes.
    pub fn deadline(&mut self, call: &Call, cpu: usize) -> u64 {
        if !self.machine.deadline {
            call.fault("CPUID.1:ECX[24] is 0: there is no TSC deadline");
        }
        let mode = self.timer_mode(cpu);
        let Some(value) = call.store else {
            return self.cpus[cpu].timer.deadline;
        };
        debug_assert_eq!(call.offset, msr::IA32_TSC_DEADLINE);
        if mode == TimerMode::Deadline {
            self.cpus[cpu].timer.deadline = value;
            self.advance_timer(cpu, 0);
        }
        0
    }
}
