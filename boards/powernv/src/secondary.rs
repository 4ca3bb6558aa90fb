// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every CPU but the boot CPU: started by OPAL, at work, taken down.
//!
//! ```text
//! boot CPU             start -> OPAL_START_CPU
//! secondary_start      byte order, its block, stack          start.rs
//!   main               control registers, controller, irq-core, then jobs until dismissed
//!     OPAL_RETURN_CPU  and may be started again
//! ```

use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error};

use crate::cpu::{self, CpuBlock};
use crate::interrupts::{System, system};
use crate::platform::MACHINE;
use crate::{power, start};

/// Starts every CPU but this one, without waiting for any. Who comes up reports to the crew, who
/// cannot be started is reported here.
pub fn start_all(system: &'static System) {
    let this = cpu::this().index;
    for block in system.blocks.iter().filter(|block| block.index != this) {
        if let Err(error) = start(system, block.index) {
            system.crew.report(block.index, Err(error));
        }
    }
}

/// Starts `cpu`, which is off.
///
/// # Errors
/// [`Error::NoSuchCpu`], or what OPAL says.
pub fn start(system: &'static System, cpu: CpuIndex) -> Result<(), Error> {
    let block = system.block(cpu)?;
    system.crew.forget(cpu);
    let entry = (&raw const start::secondary_start).addr();
    // SAFETY: the entry is start-up's, made for this.
    unsafe { power::cpu_on(block.pir(), entry) }
}

/// Whether `cpu` is off.
///
/// # Errors
/// As for [`start()`].
pub fn is_off(system: &System, cpu: CpuIndex) -> Result<bool, Error> {
    power::is_off(system.block(cpu)?.pir())
}

/// Comes from `secondary_start` on its own stack, all interrupts masked.
pub extern "C" fn main(block: &'static CpuBlock) -> ! {
    cpu::set_up();
    let system = match system() {
        Ok(system) => system,
        Err(error) => panic!("{error}"),
    };
    if system.stuck == Some(block.index) {
        power::halt();
    }
    let online = system.cpu_online(&here(block));
    system.crew.report(block.index, online);
    if online.is_ok() {
        cpu::unmask();
        system.crew.work(&MACHINE, block.index);
        cpu::irq_save();
        if let Err(error) = system.cpu_offline(here(block)) {
            system.crew.report(block.index, Err(error));
        }
    }
    power::cpu_off()
}

/// The proof of this CPU, for a masked call.
fn here(block: &CpuBlock) -> OnCpu {
    // SAFETY: `main` uses the value while interrupts are masked; the block is this CPU's alone.
    unsafe { OnCpu::new(block.index) }
}
