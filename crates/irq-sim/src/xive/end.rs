// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue descriptor (END): where events of one virtual processor and priority are written.

use irq_hal::PhysAddr;

use super::pq::Pq;
use crate::memory::Memory;

/// Which queue: virtual processor and priority.
pub(super) type QueueId = (u32, u8);

/// Where an entry was written: queue, the queue's incarnation, number of the entry in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub queue: QueueId,
    pub epoch: u64,
    pub position: u64,
}

/// What the hardware knows of a queue, for assertions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Set up.
    pub enabled: bool,
    /// Notifies at each event, whatever `esn` says.
    pub always_notify: bool,
    /// Where it is; 0 if nothing is written.
    pub page: u64,
    /// Log2 of its bytes; 0 if nothing is written.
    pub size: u32,
    /// The entry that is written next.
    pub index: u32,
    /// The generation bit that is written next.
    pub generation: bool,
    /// State of its notifications.
    pub esn: Pq,
    /// Entries written since it was set up.
    pub written: u64,
    /// Entries of which it is not certain that software has read them.
    pub unread: u64,
}

#[derive(Clone, Debug)]
pub(super) struct End {
    pub enabled: bool,
    pub flags: u64,
    pub page: u64,
    pub size: u32,
    pub index: u32,
    pub generation: bool,
    pub esn: Pq,
    pub ese: Pq,
    /// Which set-up this is.
    pub epoch: u64,
    pub written: u64,
    /// Entries that software has read for certain. It reads in order: the end of an event
    /// proves the reading of its entry and of all before it.
    pub read: u64,
}

/// `SET_QUEUE_INFO`: set up.
pub(super) const ENABLED: u64 = 1;
/// `SET_QUEUE_INFO`: notify at each event.
pub(super) const ALWAYS_NOTIFY: u64 = 2;
/// `SET_QUEUE_INFO`: escalate.
pub(super) const ESCALATE: u64 = 4;

impl End {
    pub const fn new() -> Self {
        Self {
            enabled: false,
            flags: 0,
            page: 0,
            size: 0,
            index: 0,
            generation: true,
            esn: Pq::Off,
            ese: Pq::Off,
            epoch: 0,
            written: 0,
            read: 0,
        }
    }

    /// Set up anew. The notification states stay.
    pub fn enable(&mut self, page: u64, size: u32, flags: u64) {
        *self = Self {
            enabled: true,
            flags,
            page,
            size,
            esn: self.esn,
            ese: self.ese,
            epoch: self.epoch + 1,
            ..Self::new()
        };
    }

    /// Wiped.
    pub fn disable(&mut self) {
        *self = Self {
            epoch: self.epoch + 1,
            ..Self::new()
        };
    }

    pub fn always_notify(&self) -> bool {
        self.flags & ALWAYS_NOTIFY != 0
    }

    /// Entries that fit.
    pub fn entries(&self) -> u64 {
        if self.size == 0 {
            0
        } else {
            1 << (self.size - 2)
        }
    }

    /// Writes the entry of an event.
    ///
    /// None if there is no memory: the event only notifies.
    pub fn enqueue(
        &mut self,
        queue: QueueId,
        data: u32,
        memory: &Memory,
        check: bool,
    ) -> Option<Place> {
        let (vp, prio) = queue;
        if self.size == 0 {
            if !self.always_notify() {
                panic!(
                    "an event for the queue of {vp:#x}/{prio} is lost: it has no memory, and does \
                     not notify each"
                );
            }
            return None;
        }
        if check && self.written - self.read >= self.entries() {
            panic!(
                "the queue of {vp:#x}/{prio} overflows: entry {} is written over, which \
                 software has not read ({} entries fit)",
                self.written - self.entries(),
                self.entries()
            );
        }
        let at = self.page + 4 * u64::from(self.index);
        if !memory.holds(PhysAddr::new(at), 4) {
            panic!("the queue of {vp:#x}/{prio} is written at {at:#x}: no memory there");
        }
        let word = u32::from(self.generation) << 31 | data;
        memory.device_write_be32(PhysAddr::new(at), word);
        let position = self.written;
        self.written += 1;
        self.index += 1;
        if u64::from(self.index) == self.entries() {
            self.index = 0;
            self.generation = !self.generation;
        }
        Some(Place {
            queue,
            epoch: self.epoch,
            position,
        })
    }

    /// The event at `place` was ended.
    pub fn ended(&mut self, place: Place) {
        if self.epoch == place.epoch {
            self.read = self.read.max(place.position + 1);
        }
    }

    pub fn shown(&self) -> Queue {
        Queue {
            enabled: self.enabled,
            always_notify: self.always_notify(),
            page: self.page,
            size: self.size,
            index: self.index,
            generation: self.generation,
            esn: self.esn,
            written: self.written,
            unread: self.written - self.read,
        }
    }
}
