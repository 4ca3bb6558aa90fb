// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where SGIs go: what a sender knows of each CPU, and of the clusters that one write reaches.
//!
//! Senders read these lines and nobody writes them, but for CPUs that come and go. A cluster is
//! the CPUs that agree in all but the lower 4 bits of Aff0, those that one write of
//! `ICC_SGI1R_EL1` can name (IHI 0069, its description); which clusters there are is known
//! from the redistributors, who is in one only when CPUs come online, in any order of indices.
//!
//! ```text
//! wires      CPU index -> target (0: offline), place = cluster * 16 + Aff0 % 16
//! clusters   place -> CPU index
//! ```
//! Nothing here is locked. A wire is written by its own CPU alone, a member's place by the CPU
//! that has claimed the redistributor of that place. A CPU is bound while both name each other.

use alloc::vec::Vec;
use core::array;

use irq_core::cpu::CpuSet;
use irq_hal::atomic::{AtomicU32, AtomicU64, Ordering};
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error};

use crate::redistributor::Place;
use crate::sgi::{Sgi, SgiCommand, SgiTarget};

/// Members of a cluster: the bits of a `TargetList`.
const MEMBERS: usize = 16;
/// Wires in a chunk: no more than fill one line.
const WIRES: usize = 8;
/// Neither a place nor a CPU.
const NONE: u32 = u32::MAX;
/// How many clusters one walk over a set keeps apart, on its own stack.
const CLUSTERS_AT_ONCE: usize = 1024;

/// One CPU, as senders see it.
#[derive(Debug)]
struct Wire {
    /// Its [`SgiTarget`] while it is online, else 0.
    target: AtomicU64,
    /// Its [`Place`], kept while it is offline.
    place: AtomicU32,
}

impl Wire {
    fn new() -> Self {
        Self {
            target: AtomicU64::new(0),
            place: AtomicU32::new(NONE),
        }
    }
}

/// All CPUs as targets of SGIs.
#[derive(Debug)]
pub(super) struct Targets {
    cpus: u32,
    /// Padded, so that no end of the list shares a line with what others write.
    wires: Vec<CachePadded<[Wire; WIRES]>>,
    clusters: Vec<CachePadded<[AtomicU32; MEMBERS]>>,
}

impl Targets {
    /// For CPU indices below `cpus`, in `clusters` clusters.
    pub fn new(cpus: u32, clusters: usize) -> Result<Self, Error> {
        let chunks = (cpus as usize).div_ceil(WIRES);
        let mut wires = try_vec(chunks)?;
        let chunk = || CachePadded::new(array::from_fn(|_| Wire::new()));
        wires.extend((0..chunks).map(|_| chunk()));
        let mut members = try_vec(clusters)?;
        let empty = || CachePadded::new(array::from_fn(|_| AtomicU32::new(NONE)));
        members.extend((0..clusters).map(|_| empty()));
        Ok(Self {
            cpus,
            wires,
            clusters: members,
        })
    }

    fn wire(&self, cpu: CpuIndex) -> Result<&Wire, Error> {
        let chunk = self.wires.get(cpu.index() / WIRES);
        match chunk.map(|chunk| &chunk[cpu.index() % WIRES]) {
            Some(wire) if cpu.get() < self.cpus => Ok(wire),
            _ => Err(Error::NoSuchCpu { cpu }),
        }
    }

    fn member(&self, place: Place) -> Option<&AtomicU32> {
        let cluster = self.clusters.get(place.cluster())?;
        Some(&cluster[place.position()])
    }

    /// `cpu`, which is online, as a target.
    #[inline]
    pub fn get(&self, cpu: CpuIndex) -> Result<SgiTarget, Error> {
        let chunk = self.wires.get(cpu.index() / WIRES);
        // Acquire: pairs with the release in `online`. A wire beyond the last CPU stays at 0.
        let word = chunk.map_or(0, |chunk| {
            chunk[cpu.index() % WIRES].target.load(Ordering::Acquire)
        });
        match word {
            0 => Err(self.unreachable(cpu)),
            word => Ok(SgiTarget::from_word(word)),
        }
    }

    #[cold]
    fn unreachable(&self, cpu: CpuIndex) -> Error {
        match cpu.get() < self.cpus {
            true => Error::CpuOffline { cpu },
            false => Error::NoSuchCpu { cpu },
        }
    }

    /// Binds `cpu` to `place`, and lets senders reach it. For `cpu` itself, which has claimed
    /// the redistributor of that place.
    pub fn online(&self, cpu: CpuIndex, place: Place, target: SgiTarget) -> Result<(), Error> {
        let wire = self.wire(cpu)?;
        let member = self.member(place).ok_or(Error::Invalid {
            what: "place among the targets of SGIs",
            value: place.get().into(),
        })?;
        wire.place.store(place.get(), Ordering::Relaxed);
        member.store(cpu.get(), Ordering::Relaxed);
        // Release: who sees the target sees the place, and all that came before.
        wire.target.store(target.word(), Ordering::Release);
        Ok(())
    }

    /// Senders do not reach `cpu` any more. For `cpu` itself.
    pub fn offline(&self, cpu: CpuIndex) {
        if let Ok(wire) = self.wire(cpu) {
            wire.target.store(0, Ordering::Release);
        }
    }

    /// The place that `cpu` is bound to.
    fn place(&self, cpu: CpuIndex) -> Result<Place, Error> {
        let wire = self.wire(cpu)?;
        // Whoever is in a set that the CPU joined after its online is bound here: Relaxed does.
        let place = Place::from_word(wire.place.load(Ordering::Relaxed));
        match self.member(place) {
            Some(member) if member.load(Ordering::Relaxed) == cpu.get() => Ok(place),
            _ => Err(Error::CpuOffline { cpu }),
        }
    }

    /// The CPU that is bound to `place`.
    fn bound_to(&self, place: Place) -> Option<CpuIndex> {
        let cpu = CpuIndex::new(self.member(place)?.load(Ordering::Relaxed));
        let wire = self.wire(cpu).ok()?;
        (wire.place.load(Ordering::Relaxed) == place.get()).then_some(cpu)
    }

    /// Calls `post` for each CPU of `cpus` that can be reached, then `ring` for those of a
    /// cluster for which it said yes: once for each cluster that has one, whatever the order of
    /// CPU indices. `check` refuses targets.
    ///
    /// The first CPU of a cluster that turns up serves all of it. The set may be a live one: a
    /// CPU that is online and in it all the while is posted to once, one that comes or goes
    /// meanwhile once at most.
    pub fn kick(
        &self,
        cpus: &dyn CpuSet,
        sgi: Sgi,
        check: impl Fn(SgiTarget) -> Result<(), Error>,
        mut post: impl FnMut(CpuIndex) -> bool,
        mut ring: impl FnMut(SgiCommand),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for first in (0..self.clusters.len()).step_by(CLUSTERS_AT_ONCE) {
            let mut served = [0_u64; CLUSTERS_AT_ONCE / 64];
            cpus.each(&mut |cpu| {
                let cluster = match self.place(cpu) {
                    Ok(place) => place.cluster(),
                    Err(error) => {
                        result = result.and(Err(error));
                        return;
                    }
                };
                let number = cluster.wrapping_sub(first);
                let Some(word) = served.get_mut(number / 64) else {
                    return; // In another round.
                };
                let bit = 1 << (number % 64);
                if *word & bit == 0 {
                    *word |= bit;
                    let one = self.kick_cluster(cluster, cpus, sgi, &check, &mut post, &mut ring);
                    result = result.and(one);
                }
            });
        }
        result
    }

    /// The part of [`kick`](Self::kick) for one cluster.
    fn kick_cluster(
        &self,
        cluster: usize,
        cpus: &dyn CpuSet,
        sgi: Sgi,
        check: &impl Fn(SgiTarget) -> Result<(), Error>,
        post: &mut impl FnMut(CpuIndex) -> bool,
        ring: &mut impl FnMut(SgiCommand),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        let mut command: Option<SgiCommand> = None;
        for position in 0..MEMBERS as u32 {
            let place = Place::new(cluster as u32, position);
            let Some(cpu) = self.bound_to(place).filter(|cpu| cpus.contains(*cpu)) else {
                continue;
            };
            let target = match self.get(cpu).and_then(|to| check(to).map(|()| to)) {
                Ok(target) => target,
                Err(error) => {
                    result = result.and(Err(error));
                    continue;
                }
            };
            if !post(cpu) {
                continue;
            }
            command = Some(match command {
                None => SgiCommand::one(sgi, target),
                Some(command) => command.and(target).unwrap_or_else(|| {
                    // Redistributors that show Aff0 alone do not tell all clusters apart.
                    ring(command);
                    SgiCommand::one(sgi, target)
                }),
            });
        }
        if let Some(command) = command {
            ring(command);
        }
        result
    }
}

#[cfg(test)]
mod tests;
