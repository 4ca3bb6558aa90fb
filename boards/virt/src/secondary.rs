// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every CPU but the boot CPU: started by PSCI, at work, taken down.
//!
//! ```text
//! boot CPU             start -> CPU_ON
//! secondary_start      exception level, MMU, stack           start.rs
//!   main               vectors, controller, irq-core, then jobs until dismissed
//!     CPU_OFF          and may be started again
//! ```

use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error};

use crate::cpu::{self, CpuBlock};
use crate::interrupts::{System, system};
use crate::platform::MACHINE;
use crate::{power, start, vectors};

/// Starts every CPU but this one. Returns at once: who comes up reports to the crew, who cannot
/// be started is reported here.
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
/// [`Error::NoSuchCpu`]; [`Error::Unsupported`] without PSCI, or what PSCI says.
pub fn start(system: &'static System, cpu: CpuIndex) -> Result<(), Error> {
    let block = system.block(cpu)?;
    let conduit = MACHINE.conduit().ok_or(Error::Unsupported {
        feature: "starting CPUs without PSCI",
    })?;
    system.crew.forget(cpu);
    let entry = (&raw const start::secondary_start).addr();
    let word = core::ptr::from_ref(block).addr();
    // SAFETY: the entry is start-up's, made for this; PSCI refuses a CPU that is on, so that its
    // block is one CPU's.
    unsafe { conduit.cpu_on(block.mpidr, entry, word) }
}

/// Whether `cpu` is off.
///
/// # Errors
/// As for [`start()`].
pub fn is_off(system: &System, cpu: CpuIndex) -> Result<bool, Error> {
    let conduit = MACHINE.conduit().ok_or(Error::Unsupported {
        feature: "CPU states without PSCI",
    })?;
    conduit.is_off(system.block(cpu)?.mpidr)
}

/// Comes from `secondary_start` on its own stack, MMU and caches on, all interrupts masked.
pub extern "C" fn main(block: &'static CpuBlock) -> ! {
    vectors::install();
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
    power::cpu_off(MACHINE.conduit())
}

/// The proof of this CPU, for a masked call.
fn here(block: &CpuBlock) -> OnCpu {
    // SAFETY: `main` uses the value while interrupts are masked; the block is this CPU's alone.
    unsafe { OnCpu::new(block.index) }
}
