// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a CPU is started: INIT, wait for SIPI, start-up IPI.

use super::State;
use super::call::Call;
use super::local::Run;
use super::machine::Mode;

impl State {
    /// INIT reaches `target`: its mode and id stay, all else is as after a reset.
    pub fn init(&mut self, call: &Call, target: usize) {
        let apic = &mut self.cpus[target];
        if apic.boot() {
            call.forbid(format_args!(
                "INIT reaches {}, the boot CPU, which starts at the reset vector",
                apic.cpu
            ));
        }
        apic.inits += 1;
        if apic.mode() == Mode::Disabled || apic.spec.never_starts {
            return;
        }
        apic.reset_cpu();
        apic.run = Run::Waiting;
        apic.init_at = self.now;
    }

    /// A start-up IPI reaches `target`: it starts one that waits, others ignore it.
    pub fn startup(&mut self, target: usize, page: u8) {
        let init_ticks = self.machine.init_ticks;
        let now = self.now;
        let apic = &mut self.cpus[target];
        apic.sipis += 1;
        let early = apic.inits > 0 && now - apic.init_at < init_ticks;
        let deaf = apic.spec.never_starts || apic.spec.second_sipi && apic.sipis < 2;
        if apic.run != Run::Waiting || early || deaf {
            return;
        }
        apic.run = Run::Running;
        apic.page = Some(page);
        self.started.push((target as u32, page));
    }
}
