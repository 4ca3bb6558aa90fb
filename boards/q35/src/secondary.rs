// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every CPU but the boot CPU: started by INIT and start IPIs, at work, taken down.
//!
//! ```text
//! boot CPU             prepare: the first page, the roster; start: INIT, then start
//! trampoline           to 32 bits, to long mode, its block by its APIC id, stack    start.rs
//!   main               segments, controller, irq-core, then jobs until dismissed
//!     park             and may be started again
//! ```

use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use irq_hal::heap::try_vec;
use irq_hal::percpu::{self, OnCpu};
use irq_hal::{CpuIndex, Error};
use irq_x2apic::ApicId;
use irq_x2apic::start::{Delays, Page, StartError, Starter};

use crate::cpu::{self, CpuBlock};
use crate::interrupts::{System, system};
use crate::platform::MACHINE;
use crate::segments::Segments;
use crate::{power, start, vectors};

/// The blocks that a starting CPU looks for its own in.
#[repr(C)]
pub struct Roster {
    /// The first one.
    pub first: AtomicPtr<CpuBlock>,
    /// How many there are.
    pub count: AtomicUsize,
}

/// All CPUs' blocks; none before [`prepare`].
pub static ROSTER: Roster = Roster {
    first: AtomicPtr::new(core::ptr::null_mut()),
    count: AtomicUsize::new(0),
};

/// Copies the first code of other CPUs to the page at `address`, which is nobody's, and lets
/// them find `blocks`.
///
/// # Errors
/// Those of [`Page::new`].
pub fn prepare(address: u64, blocks: &'static [CpuBlock]) -> Result<Page, Error> {
    let page = Page::new(address)?;
    let first = &raw const start::trampoline;
    let len = (&raw const start::trampoline_end).addr() - first.addr();
    // SAFETY: from one symbol to the other there is code, shorter than a page; the page is
    // mapped, being of the first block, and in nobody's use.
    unsafe { core::ptr::copy_nonoverlapping(first, address as *mut u8, len) };
    ROSTER
        .first
        .store(blocks.as_ptr().cast_mut(), Ordering::Relaxed);
    ROSTER.count.store(blocks.len(), Ordering::Release);
    Ok(page)
}

/// Starts every CPU but this one, all at once. Returns when they have been told to: who comes up
/// reports to the crew.
pub fn start_all(system: &'static System) {
    let this = cpu::this().index;
    let others = || system.blocks.iter().filter(|block| block.index != this);
    let started = (|| {
        let mut ids: Vec<ApicId> = try_vec(system.blocks.len())?;
        ids.extend(others().filter_map(|block| ApicId::new(block.id)));
        start_these(system, &ids)
    })();
    if let Err(error) = started {
        others().for_each(|block| system.crew.report(block.index, Err(error)));
    }
}

/// Starts `cpu`, which is off.
///
/// # Errors
/// [`Error::NoSuchCpu`], or the driver's.
pub fn start(system: &'static System, cpu: CpuIndex) -> Result<(), Error> {
    let block = system.block(cpu)?;
    let id = ApicId::new(block.id).ok_or(Error::NoSuchCpu { cpu })?;
    system.crew.forget(cpu);
    block.here.store(false, Ordering::Relaxed);
    // Acquire: pairs with the release in `power::park`.
    if !block.parked.swap(false, Ordering::Acquire) {
        return Err(Error::CpuIsOnline { cpu });
    }
    start_these(system, &[id])
}

/// INIT and start to `ids`. The crew waits for them, so that nobody waits here.
fn start_these(system: &System, ids: &[ApicId]) -> Result<(), Error> {
    let delays = Delays {
        alive: 0,
        ..Delays::default()
    };
    let here = |id: ApicId| {
        let block = system.blocks.iter().find(|block| block.id == id.get());
        block.is_some_and(|block| block.here.load(Ordering::Acquire))
    };
    percpu::masked(&MACHINE, |on| {
        let local = system.apic.local(on)?;
        // SAFETY: `prepare` put the code there that a CPU begins with, for any number at once;
        // the page is theirs for good.
        let starter = unsafe { Starter::new(&MACHINE, &local, system.page, delays) };
        match starter.start(ids, here) {
            Ok(()) | Err(StartError::Silent { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
}

/// Whether `cpu` is off.
///
/// # Errors
/// [`Error::NoSuchCpu`].
pub fn is_off(system: &System, cpu: CpuIndex) -> Result<bool, Error> {
    Ok(system.block(cpu)?.parked.load(Ordering::Acquire))
}

/// Comes from the trampoline on its own stack, in long mode, interrupts masked.
pub extern "C" fn main(block: &'static CpuBlock) -> ! {
    cpu::install(block);
    let segments = Segments::new(&block.tss);
    // SAFETY: this function never returns, and the CPU begins anew when it is started again.
    unsafe { segments.load() };
    vectors::install_table();
    let system = match system() {
        Ok(system) => system,
        Err(error) => panic!("{error}"),
    };
    block.here.store(true, Ordering::Release);
    if system.stuck == Some(block.index) {
        power::halt();
    }
    cpu::note_hand_over();
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
    power::park(block)
}

/// The proof of this CPU, for a masked call.
fn here(block: &CpuBlock) -> OnCpu {
    // SAFETY: `main` uses the value while interrupts are masked; the block is this CPU's alone.
    unsafe { OnCpu::new(block.index) }
}
