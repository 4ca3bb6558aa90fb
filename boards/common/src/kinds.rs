// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of IPI that the images send, and how often each CPU took them.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use irq_core::ActionContext;
use irq_core::{IpiKind, Kind};
use irq_hal::percpu::PerCpu;
use irq_hal::{CpuIndex, Error};
use spin::Once;

use crate::smoke;

/// Ends a CPU's sleep: there is a job.
pub const WAKE: IpiKind = kind(0);
/// Is counted by the CPU that takes it.
pub const PROBE: IpiKind = kind(1);
/// Switches stacks, behind all other kinds.
pub const SWITCH: IpiKind = kind(2);
/// The first number of the kinds that a board adds.
pub const OWN: u8 = 3;

/// The kind of that number.
///
/// # Panics
/// If there are not that many; where it is a constant's value, when it is compiled.
pub const fn kind(number: u8) -> IpiKind {
    match IpiKind::new(number) {
        Some(kind) => kind,
        None => panic!("too many kinds"),
    }
}

/// How often a CPU took each kind. Written by that CPU alone, masked.
#[derive(Default)]
struct Taken {
    wakes: AtomicU64,
    probes: AtomicU64,
}

static TAKEN: Once<PerCpu<Taken>> = Once::new();

/// Makes room for the counts of `cpus` CPUs, and gives the kinds up to [`OWN`].
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn prepare(cpus: u32) -> Result<[Kind; OWN as usize], Error> {
    let counts = PerCpu::new(cpus, |_| Taken::default())?;
    TAKEN.call_once(|| counts);
    Ok([
        Kind::new(wake, 0),
        Kind::new(probe, 0),
        Kind::last(smoke::on_switch, 0),
    ])
}

/// How many [`WAKE`]s `cpu` took.
pub fn wakes(cpu: CpuIndex) -> u64 {
    taken(cpu).map_or(0, |taken| taken.wakes.load(Relaxed))
}

/// How many [`PROBE`]s `cpu` took.
pub fn probes(cpu: CpuIndex) -> u64 {
    taken(cpu).map_or(0, |taken| taken.probes.load(Relaxed))
}

fn taken(cpu: CpuIndex) -> Option<&'static Taken> {
    TAKEN.get()?.get(cpu)
}

fn wake(_: usize, cx: &ActionContext<'_>) {
    if let Some(taken) = taken(cx.cpu()) {
        taken.wakes.store(taken.wakes.load(Relaxed) + 1, Relaxed);
    }
}

fn probe(_: usize, cx: &ActionContext<'_>) {
    if let Some(taken) = taken(cx.cpu()) {
        taken.probes.store(taken.probes.load(Relaxed) + 1, Relaxed);
    }
}
