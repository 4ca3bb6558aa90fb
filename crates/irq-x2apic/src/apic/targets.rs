// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where interrupts go: what a sender knows of each CPU, and of the clusters that one write
//! reaches.
//!
//! Senders read these lines and nobody writes them, but for CPUs that come and go. A cluster is
//! the CPUs whose ids agree in all but the lower 4 bits; which ones there are, and who is in
//! one, is known when CPUs come online, in any order of indices. A cluster keeps the slot that
//! its first CPU took for it.
//!
//! ```text
//! wires      CPU index -> target (0: offline), place = slot of the cluster * 16 + id % 16
//! clusters   slot -> number of the cluster, place -> CPU index
//! ```
//! Nothing here is locked. A wire is written by its own CPU alone, a member's place by the CPU
//! that has the id of that place. A CPU is bound while both name each other.

use alloc::vec::Vec;
use core::array;

use irq_core::cpu::CpuSet;
use irq_hal::atomic::{AtomicU32, AtomicU64, Ordering};
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::{CpuIndex, Error};

use crate::id::{ApicId, CLUSTER};
use crate::ipi::Command;
use crate::vector::Vector;

/// Members of a cluster.
const MEMBERS: usize = CLUSTER as usize;
/// Wires in a chunk: no more than fill one line.
const WIRES: usize = 8;
/// Neither a place, nor a CPU, nor a cluster.
const NONE: u32 = u32::MAX;
/// How many clusters one walk over a set keeps apart, on its own stack.
const CLUSTERS_AT_ONCE: usize = 1024;

/// One CPU as a target: its id, and whether its logical destination can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    id: ApicId,
    logical: bool,
}

impl Target {
    const ONLINE: u64 = 1 << 32;
    const LOGICAL: u64 = 1 << 33;

    /// The CPU with `id`, whose LDR reads `ldr`.
    pub fn new(id: ApicId, ldr: u32) -> Self {
        Self {
            id,
            logical: id.logical() == Some(ldr),
        }
    }

    pub const fn id(self) -> ApicId {
        self.id
    }

    pub const fn is_logical(self) -> bool {
        self.logical
    }

    fn word(self) -> u64 {
        let logical = if self.logical { Self::LOGICAL } else { 0 };
        u64::from(self.id.get()) | Self::ONLINE | logical
    }

    #[inline]
    fn from_word(word: u64) -> Option<Self> {
        (word & Self::ONLINE != 0).then_some(Self {
            id: ApicId::from_word(word as u32),
            logical: word & Self::LOGICAL != 0,
        })
    }
}

/// One CPU, as senders see it.
#[derive(Debug)]
struct Wire {
    /// Its [`Target`] while it is online, else 0.
    target: AtomicU64,
    /// Its place, kept while it is offline.
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

#[derive(Debug)]
struct Cluster {
    /// Its number, once a CPU of it was online.
    number: AtomicU32,
    members: [AtomicU32; MEMBERS],
}

impl Cluster {
    fn new() -> Self {
        Self {
            number: AtomicU32::new(NONE),
            members: array::from_fn(|_| AtomicU32::new(NONE)),
        }
    }
}

/// All CPUs as targets.
#[derive(Debug)]
pub(super) struct Targets {
    cpus: u32,
    /// Padded, so that no end of the list shares a line with what others write.
    wires: Vec<CachePadded<[Wire; WIRES]>>,
    clusters: Vec<CachePadded<Cluster>>,
}

impl Targets {
    /// For CPU indices below `cpus`, in `clusters` clusters.
    pub fn new(cpus: u32, clusters: usize) -> Result<Self, Error> {
        let chunks = (cpus as usize).div_ceil(WIRES);
        let mut wires = try_vec(chunks)?;
        let chunk = || CachePadded::new(array::from_fn(|_| Wire::new()));
        wires.extend((0..chunks).map(|_| chunk()));
        let mut slots = try_vec(clusters)?;
        slots.extend((0..clusters).map(|_| CachePadded::new(Cluster::new())));
        Ok(Self {
            cpus,
            wires,
            clusters: slots,
        })
    }

    fn wire(&self, cpu: CpuIndex) -> Result<&Wire, Error> {
        let chunk = self.wires.get(cpu.index() / WIRES);
        match chunk.map(|chunk| &chunk[cpu.index() % WIRES]) {
            Some(wire) if cpu.get() < self.cpus => Ok(wire),
            _ => Err(Error::NoSuchCpu { cpu }),
        }
    }

    fn member(&self, place: u32) -> Option<&AtomicU32> {
        let cluster = self.clusters.get((place / CLUSTER) as usize)?;
        Some(&cluster.members[(place % CLUSTER) as usize])
    }

    /// `cpu`, which is online, as a target.
    #[inline]
    pub fn get(&self, cpu: CpuIndex) -> Result<Target, Error> {
        let chunk = self.wires.get(cpu.index() / WIRES);
        // Acquire: pairs with the release in `online`. A wire beyond the last CPU stays at 0.
        let word = chunk.map_or(0, |chunk| {
            chunk[cpu.index() % WIRES].target.load(Ordering::Acquire)
        });
        match Target::from_word(word) {
            None => Err(self.unreachable(cpu)),
            Some(target) => Ok(target),
        }
    }

    #[cold]
    fn unreachable(&self, cpu: CpuIndex) -> Error {
        match cpu.get() < self.cpus {
            true => Error::CpuOffline { cpu },
            false => Error::NoSuchCpu { cpu },
        }
    }

    /// The slot of the cluster with this number; the first CPU of it takes one.
    fn slot(&self, number: u32) -> Result<u32, Error> {
        let slots = self.clusters.len();
        // Where numbers are dense, each is its own slot.
        let start = number as usize % slots.max(1);
        for slot in (start..slots).chain(0..start) {
            let here = &self.clusters[slot].number;
            let taken = here.compare_exchange(NONE, number, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() || taken == Err(number) {
                return Ok(slot as u32);
            }
        }
        Err(Error::Full {
            what: "clusters of CPUs",
            capacity: slots as u32,
        })
    }

    /// Binds `cpu` to its id, and lets senders reach it. For `cpu` itself, whose local APIC
    /// says so.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`]; [`Error::Exists`] if another CPU is online by this id;
    /// [`Error::Full`] if it is of one cluster more than were foreseen.
    pub fn online(&self, cpu: CpuIndex, target: Target) -> Result<(), Error> {
        let wire = self.wire(cpu)?;
        let place = self.slot(target.id.cluster())? * CLUSTER + target.id.position();
        let member = self.member(place).ok_or(Error::Full {
            what: "clusters of CPUs",
            capacity: self.clusters.len() as u32,
        })?;
        let other = CpuIndex::new(member.load(Ordering::Relaxed));
        if other != cpu && self.get(other).is_ok_and(|online| online.id == target.id) {
            return Err(Error::Exists {
                what: "a CPU that is online by this APIC id",
            });
        }
        wire.place.store(place, Ordering::Relaxed);
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
    fn place(&self, cpu: CpuIndex) -> Result<u32, Error> {
        let wire = self.wire(cpu)?;
        // Whoever is in a set that the CPU joined after its online is bound here: Relaxed does.
        let place = wire.place.load(Ordering::Relaxed);
        match self.member(place) {
            Some(member) if member.load(Ordering::Relaxed) == cpu.get() => Ok(place),
            _ => Err(Error::CpuOffline { cpu }),
        }
    }

    /// The CPU that is bound to `place`.
    fn bound_to(&self, place: u32) -> Option<CpuIndex> {
        let cpu = CpuIndex::new(self.member(place)?.load(Ordering::Relaxed));
        let wire = self.wire(cpu).ok()?;
        (wire.place.load(Ordering::Relaxed) == place).then_some(cpu)
    }

    /// Calls `post` for each CPU of `cpus` that can be reached, then `ring` for those of a
    /// cluster for which it said yes: once for each cluster that has one, whatever the order of
    /// CPU indices; and once for each CPU that has no logical destination.
    ///
    /// The first CPU of a cluster that turns up serves all of it. The set may be a live one: a
    /// CPU that is online and in it all the while is posted to once, one that comes or goes
    /// meanwhile once at most.
    pub fn kick(
        &self,
        cpus: &dyn CpuSet,
        vector: Vector,
        mut post: impl FnMut(CpuIndex) -> bool,
        mut ring: impl FnMut(Command),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for first in (0..self.clusters.len()).step_by(CLUSTERS_AT_ONCE) {
            let mut served = [0_u64; CLUSTERS_AT_ONCE / 64];
            cpus.each(&mut |cpu| {
                let slot = match self.place(cpu) {
                    Ok(place) => (place / CLUSTER) as usize,
                    Err(error) => {
                        result = result.and(Err(error));
                        return;
                    }
                };
                let number = slot.wrapping_sub(first);
                let Some(word) = served.get_mut(number / 64) else {
                    return; // In another round.
                };
                let bit = 1 << (number % 64);
                if *word & bit == 0 {
                    *word |= bit;
                    let one = self.kick_cluster(slot, cpus, vector, &mut post, &mut ring);
                    result = result.and(one);
                }
            });
        }
        result
    }

    /// The part of [`kick`](Self::kick) for one cluster.
    fn kick_cluster(
        &self,
        slot: usize,
        cpus: &dyn CpuSet,
        vector: Vector,
        post: &mut impl FnMut(CpuIndex) -> bool,
        ring: &mut impl FnMut(Command),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        let mut all: Option<Command> = None;
        for position in 0..CLUSTER {
            let place = slot as u32 * CLUSTER + position;
            let Some(cpu) = self.bound_to(place).filter(|cpu| cpus.contains(*cpu)) else {
                continue;
            };
            let target = match self.get(cpu) {
                Ok(target) => target,
                Err(error) => {
                    result = result.and(Err(error));
                    continue;
                }
            };
            if !post(cpu) {
                continue;
            }
            let extended = match (target.logical, all) {
                (false, _) => None,
                (true, None) => Command::logical(vector, target.id),
                (true, Some(command)) => command.and(target.id),
            };
            match extended {
                Some(command) => all = Some(command),
                None => ring(Command::one(vector, target.id)),
            }
        }
        if let Some(command) = all {
            ring(command);
        }
        result
    }
}

#[cfg(test)]
mod tests;
