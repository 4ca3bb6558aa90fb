// SPDX-License-Identifier: MIT OR Apache-2.0
//! The domains of one level, and their masks.
//!
//! A mask is a list of chunks, each the word of 64 CPUs of which at least one is a member, in
//! rising order. Every CPU brings at most one domain and one chunk when it is bound, so pools of
//! one each per CPU are enough. Chunks are added, never removed or moved to another domain:
//! readers walk without a lock.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::atomic::AtomicU32;
use irq_hal::atomic::AtomicU64;
use irq_hal::atomic::Ordering::{Acquire, Relaxed, Release};
use irq_hal::heap::try_vec;

use super::table::Table;
use crate::cpu::{CpuIndex, WORD, word_and_bit};

/// No slot, no chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// A domain. Its id is written before anything leads to it.
struct Slot {
    id: AtomicU32,
    /// The list of chunks begins here.
    head: AtomicU32,
    /// The chunk at the list's end; of interest under the lock only.
    last: AtomicU32,
    /// The lowest CPU that was ever bound to it.
    lowest: AtomicU32,
}

/// A word of a domain's mask.
struct Chunk {
    bits: AtomicU64,
    /// It stands for the CPUs from `number * 64` on.
    number: AtomicU32,
    next: AtomicU32,
}

/// The domains of one level.
pub(super) struct Domains {
    slots: Vec<Slot>,
    chunks: Vec<Chunk>,
}

/// What of a level's pools is used. Kept under the topology's lock.
pub(super) struct Used {
    /// None where ids are slots: nodes.
    table: Option<Table>,
    slots: u32,
    chunks: u32,
}

impl Domains {
    /// For `cpus` CPUs in domains of any id, or in `dense` domains whose ids are slots.
    pub(super) fn new(cpus: usize, dense: Option<usize>) -> Result<(Self, Used), Error> {
        let count = dense.unwrap_or(cpus);
        let mut slots = try_vec(count)?;
        slots.extend((0..).take(count).map(|id| Slot {
            id: AtomicU32::new(id),
            head: AtomicU32::new(NONE),
            last: AtomicU32::new(NONE),
            lowest: AtomicU32::new(NONE),
        }));
        let mut chunks = try_vec(cpus)?;
        chunks.extend((0..cpus).map(|_| Chunk {
            bits: AtomicU64::new(0),
            number: AtomicU32::new(NONE),
            next: AtomicU32::new(NONE),
        }));
        let table = match dense {
            None => Some(Table::new(cpus)?),
            Some(_) => None,
        };
        let used = Used {
            table,
            slots: 0,
            chunks: 0,
        };
        Ok((Self { slots, chunks }, used))
    }

    /// Makes `cpu` one of the domain `id`: the slot of that and its chunk for the CPU, made if
    /// they are new.
    pub(super) fn bind(&self, used: &mut Used, id: u32, cpu: CpuIndex) -> (u32, u32) {
        let at = match &mut used.table {
            None => id,
            Some(table) => {
                let entry = table.entry(id, |slot| self.id(slot));
                if *entry == NONE {
                    *entry = used.slots;
                    self.slots[used.slots as usize].id.store(id, Relaxed);
                    used.slots += 1;
                }
                *entry
            }
        };
        let slot = &self.slots[at as usize];
        if cpu.get() < slot.lowest.load(Relaxed) {
            slot.lowest.store(cpu.get(), Relaxed);
        }
        let (number, _) = word_and_bit(cpu);
        (at, self.chunk(used, slot, number))
    }

    fn chunk(&self, used: &mut Used, slot: &Slot, number: u32) -> u32 {
        let number_of = |chunk: u32| self.chunks[chunk as usize].number.load(Relaxed);
        // The last chunk that is not behind the one looked for. CPUs mostly come in rising
        // order: the end of the list is tried first.
        let mut before = slot.last.load(Relaxed);
        if before != NONE && number_of(before) > number {
            before = NONE;
            let mut next = slot.head.load(Relaxed);
            while number_of(next) <= number {
                before = next;
                next = self.chunks[next as usize].next.load(Relaxed);
            }
        }
        if before != NONE && number_of(before) == number {
            return before;
        }
        let new = used.chunks;
        used.chunks += 1;
        let link = match before {
            NONE => &slot.head,
            before => &self.chunks[before as usize].next,
        };
        let chunk = &self.chunks[new as usize];
        let next = link.load(Relaxed);
        chunk.number.store(number, Relaxed);
        chunk.next.store(next, Relaxed);
        if next == NONE {
            slot.last.store(new, Relaxed);
        }
        // Pairs with the loads in `Words`: who finds the chunk finds its number and what follows.
        link.store(new, Release);
        new
    }

    /// Puts a CPU into a domain's mask.
    pub(super) fn set(&self, chunk: u32, bit: u64) {
        // Pairs with the loads of `bits`: who sees the CPU sees its place.
        self.chunks[chunk as usize].bits.fetch_or(bit, Release);
    }

    /// Takes a CPU out of it.
    pub(super) fn clear(&self, chunk: u32, bit: u64) {
        // Pairs with the loads of `bits`: who misses the CPU misses it among the online ones.
        self.chunks[chunk as usize].bits.fetch_and(!bit, Release);
    }

    /// Whether `bit` is set in `chunk`.
    pub(super) fn holds(&self, chunk: u32, bit: u64) -> bool {
        // Pairs with `set` and `clear`.
        self.chunks[chunk as usize].bits.load(Acquire) & bit != 0
    }

    /// The id of the domain in `slot`.
    pub(super) fn id(&self, slot: u32) -> u32 {
        self.slots[slot as usize].id.load(Relaxed)
    }

    /// The lowest CPU that was ever bound to the domain in `slot`, if one was and the slot is.
    pub(super) fn lowest(&self, slot: u32) -> Option<CpuIndex> {
        let lowest = self.slots.get(slot as usize)?.lowest.load(Relaxed);
        (lowest != NONE).then_some(CpuIndex::new(lowest))
    }

    /// The words of the mask of the domain in `slot` that have members.
    pub(super) fn words(&self, slot: u32) -> Words<'_> {
        Words {
            chunks: &self.chunks,
            // Pairs with the store of a new first chunk.
            next: self.slots[slot as usize].head.load(Acquire),
        }
    }
}

/// The words of a mask that have members, each with its first CPU, in rising order.
pub(super) struct Words<'a> {
    chunks: &'a [Chunk],
    next: u32,
}

impl Iterator for Words<'_> {
    type Item = (CpuIndex, u64);

    fn next(&mut self) -> Option<(CpuIndex, u64)> {
        loop {
            // `NONE` is beyond every pool.
            let chunk = self.chunks.get(self.next as usize)?;
            // Pairs with the store that links a new chunk.
            self.next = chunk.next.load(Acquire);
            // Pairs with `set` and `clear`.
            let bits = chunk.bits.load(Acquire);
            if bits != 0 {
                let first = chunk.number.load(Relaxed) * WORD;
                return Some((CpuIndex::new(first), bits));
            }
        }
    }
}
