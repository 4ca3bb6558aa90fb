// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event queues: rings of 4-byte entries that the controller writes and one CPU reads.
//!
//! An entry holds the number of the source's EAS in its lower 31 bits, and above it a generation
//! bit that the controller turns over each time it begins again at the start. The reader counts
//! entries from 0 on: the low bits of the count are the place in the ring, the bit above them is
//! the generation to expect, turned over. So a wrap is nothing special, and costs nothing.
//!
//! The controller does not look whether there is room. Whoever routes sources to a queue counts
//! them: each has one entry in it at most.

use core::alloc::Layout;

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::{Error, NodeId, PhysAddr, Platform};

/// The bytes of an entry, as a power of 2.
const ENTRY: u32 = 2;
/// The number in an entry.
const DATA: u32 = 0x7fff_ffff;

/// The memory of a queue. Where its reader stands is kept elsewhere, by the reader.
#[derive(Debug)]
pub struct EventQueue {
    memory: DmaRegion,
    log2: u32,
}

impl EventQueue {
    /// An empty queue of 2 to the power of `log2` bytes, aligned to as much, near `node`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] for a size that cannot be.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new<P: Platform + ?Sized>(platform: &P, log2: u32, node: NodeId) -> Result<Self, Error> {
        let invalid = Error::Invalid {
            what: "size of an event queue",
            value: u64::from(log2),
        };
        // Positions are 32 bits, and one of them is the generation.
        if !(ENTRY..30).contains(&log2) {
            return Err(invalid);
        }
        let bytes = 1 << log2;
        let layout = Layout::from_size_align(bytes, bytes).map_err(|_| invalid)?;
        let memory = platform.dma_alloc(layout, node, DmaLimits::NONE)?;
        Ok(Self { memory, log2 })
    }

    /// Where it is, for the controller.
    pub const fn device(&self) -> PhysAddr {
        self.memory.device()
    }

    /// The base-2 logarithm of its bytes.
    pub const fn log2(&self) -> u32 {
        self.log2
    }

    /// How many entries it holds.
    pub const fn capacity(&self) -> u32 {
        1 << (self.log2 - ENTRY)
    }

    /// The number in the entry at `position`, counted from the queue's start on, if the
    /// controller has written it. It is there at the latest when its notification is
    /// acknowledged and the CPU has synchronized.
    ///
    /// # Context
    /// Any. Touches no device.
    #[inline(always)]
    pub fn entry(&self, position: u32) -> Option<u32> {
        let entry = self.memory.read_u32(self.place(position)).swap_bytes();
        let generation = position >> (self.log2 - ENTRY) & 1;
        if entry >> 31 == generation {
            return None;
        }
        Some(entry & DATA)
    }

    /// The first position from `position` on that the controller has not written, if that is the
    /// reader's: in time that grows with the entries between.
    ///
    /// # Context
    /// Any. Touches no device.
    pub fn tail(&self, position: u32) -> u32 {
        let written = (0..self.capacity()).map(|ahead| position.wrapping_add(ahead));
        let mut tail = position;
        for position in written.take_while(|&position| self.entry(position).is_some()) {
            tail = position.wrapping_add(1);
        }
        tail
    }

    /// Puts `data` in place of what the controller wrote at `position`.
    ///
    /// # Context
    /// While nobody reads that entry.
    pub(crate) fn overwrite(&self, position: u32, data: u32) {
        let generation = !(position >> (self.log2 - ENTRY)) << 31;
        let entry = generation | data & DATA;
        self.memory
            .write_u32(self.place(position), entry.swap_bytes());
    }

    #[inline(always)]
    const fn place(&self, position: u32) -> usize {
        (position as usize) << ENTRY & (self.memory.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;
    use proptest::prelude::*;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    /// A queue of 2 to the power of `log2` bytes in memory that stays.
    fn queue(log2: u32) -> EventQueue {
        let words: &'static mut [u32] = Box::leak(vec![0_u32; 1 << (log2 - ENTRY)].into());
        let cpu = NonNull::from(words).cast();
        // SAFETY: the words are zero, and leaked for this region alone.
        let memory = unsafe { DmaRegion::new(cpu, PhysAddr::new(0), 1 << log2, None) };
        EventQueue { memory, log2 }
    }

    /// The controller's side: where it writes next, and which generation.
    struct Writer {
        at: u32,
        generation: u32,
    }

    impl Writer {
        fn push(&mut self, queue: &EventQueue, data: u32) {
            let entry = self.generation << 31 | data;
            queue
                .memory
                .write_u32(self.at as usize * 4, entry.swap_bytes());
            self.at += 1;
            if self.at == queue.capacity() {
                self.at = 0;
                self.generation ^= 1;
            }
        }
    }

    #[test]
    fn a_zeroed_queue_is_empty_and_its_first_generation_is_one() {
        let queue = queue(12);
        assert_eq!(queue.entry(0), None);
        assert_eq!(queue.tail(0), 0);
        // Big-endian bytes, as the controller writes them.
        queue.memory.write_u8(0, 0x80);
        queue.memory.write_u8(3, 7);
        assert_eq!(queue.entry(0), Some(7));
        assert_eq!(queue.entry(1), None);
        // Generation 0 of the first pass is nothing.
        queue.memory.write_u8(0, 0);
        assert_eq!(queue.entry(0), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_once_and_in_order_over_many_wraps(
            bursts in prop::collection::vec(1_u32..=16, 1..200),
            start in any::<u32>(),
        ) {
            let queue = queue(6);
            // A count that wraps somewhere on the way, from a whole number of passes on.
            let mut position = start & !(2 * queue.capacity() - 1);
            let mut writer = Writer { at: 0, generation: 1 };
            let mut next = 1;
            for burst in bursts {
                let sent: Vec<u32> = (next..next + burst).collect();
                next += burst;
                sent.iter().for_each(|&data| writer.push(&queue, data));
                prop_assert_eq!(queue.tail(position), position.wrapping_add(burst));
                for data in sent {
                    prop_assert_eq!(queue.entry(position), Some(data));
                    position = position.wrapping_add(1);
                }
                prop_assert_eq!(queue.entry(position), None);
            }
        }

        #[test]
        fn an_entry_that_is_overwritten_keeps_its_generation(passes in 0_u32..5, at in 0_u32..16) {
            let queue = queue(6);
            let mut writer = Writer { at: 0, generation: 1 };
            for data in 0..passes * 16 + at + 1 {
                writer.push(&queue, data + 1);
            }
            let position = passes * 16 + at;
            queue.overwrite(position, 0x1234);
            prop_assert_eq!(queue.entry(position), Some(0x1234));
            prop_assert_eq!(queue.tail(position), position + 1);
        }
    }

    #[test]
    fn a_full_queue_ends_where_it_begins() {
        let queue = queue(6);
        let mut writer = Writer {
            at: 0,
            generation: 1,
        };
        for data in 1..=16 {
            writer.push(&queue, data);
        }
        assert_eq!(queue.tail(0), 16);
    }
}
