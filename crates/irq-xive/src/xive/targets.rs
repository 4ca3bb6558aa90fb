// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPU a source's events go to, and how many sources a CPU's queue has room for.
//!
//! The controller does not look whether a queue has room, so sources are counted. One that moves
//! away may have an event left in the queue it leaves, and is counted there until the CPU has read
//! past everything that was in the queue when the move was over.

use alloc::vec::Vec;

use irq_core::Irq;
use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::heap::try_vec;
use irq_hal::{CpuIndex, Error, Platform};

use super::{Cpu, Xive};
use crate::firmware::{Firmware, Window};
use crate::ids::SourceNumber;
use crate::layout::Layout;
use crate::queue::EventQueue;

/// What a place in the table of sources is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Nothing yet.
    Free,
    /// A source that is not ours at the moment.
    Given,
    /// A source of ours, of which somebody changes something.
    Changing,
    /// A source of ours.
    Ours,
}

/// A place in the table of sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub used: Use,
    pub number: SourceNumber,
    pub target: CpuIndex,
    /// Whether firmware gave the number, and gets it back.
    pub allocated: bool,
}

/// What is counted against a CPU's queue.
#[derive(Clone, Copy, Default, Debug)]
struct Load {
    /// Sources whose events go there.
    bound: u32,
    /// Sources that went away and may have an event there.
    leaving: u32,
    /// The position at which they have none any more.
    until: u32,
}

impl Load {
    /// Forgets those that left, once the CPU has read as far as `at`.
    fn settle(&mut self, at: u32) {
        if self.leaving != 0 && (at.wrapping_sub(self.until) as i32) >= 0 {
            self.leaving = 0;
        }
    }
}

/// What control keeps of sources and queues.
#[derive(Debug)]
pub(super) struct Ledger {
    pub entries: Vec<Entry>,
    loads: Vec<Load>,
}

/// How many sources a queue of `capacity` entries takes. Each has one entry at most, and each of
/// these may have one of the reserved source behind it; see the module of the entry.
pub(super) const fn room(capacity: u32) -> u32 {
    (capacity / 2).saturating_sub(1)
}

impl Ledger {
    pub fn new(sources: u32, cpus: usize) -> Result<Self, Error> {
        let mut entries = try_vec(sources as usize)?;
        let none = Entry {
            used: Use::Free,
            number: SourceNumber::new(0),
            target: CpuIndex::new(0),
            allocated: false,
        };
        entries.extend((0..sources).map(|_| none));
        let mut loads = try_vec(cpus)?;
        loads.extend((0..cpus).map(|_| Load::default()));
        Ok(Self { entries, loads })
    }

    /// Counts one more source at `target`, whose queue and reader's position are these.
    pub fn bind(&mut self, target: CpuIndex, queue: &EventQueue, at: u32) -> Result<(), Error> {
        let none = Error::NoSuchCpu { cpu: target };
        let load = self.loads.get_mut(target.index()).ok_or(none)?;
        load.settle(at);
        let room = room(queue.capacity());
        if load.bound + load.leaving >= room {
            return Err(Error::Full {
                what: "sources of the CPU's event queue",
                capacity: room,
            });
        }
        load.bound += 1;
        Ok(())
    }

    /// One less at `target`, of which no event is in the queue.
    pub fn unbind(&mut self, target: CpuIndex) {
        if let Some(load) = self.loads.get_mut(target.index()) {
            load.bound = load.bound.saturating_sub(1);
        }
    }

    /// One less at `target`, of which an event may be in the queue before `tail`.
    fn leave(&mut self, target: CpuIndex, at: u32, tail: u32) {
        let Some(load) = self.loads.get_mut(target.index()) else {
            return;
        };
        load.settle(at);
        load.bound = load.bound.saturating_sub(1);
        load.leaving += 1;
        load.until = tail;
        load.settle(at);
    }

    /// The place of a source of ours.
    pub fn ours(&mut self, index: u32) -> Option<&mut Entry> {
        let entry = self.entries.get_mut((index as usize).checked_sub(1)?);
        entry.filter(|entry| matches!(entry.used, Use::Ours | Use::Changing))
    }
}

/// A CPU's queue, and where its reader stands.
pub(super) fn read<W: Window>(cpu: &Cpu<W>) -> (&EventQueue, u32) {
    (&cpu.fixed.queue, cpu.own.at.load(Relaxed))
}

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// The CPU that the events of `irq` go to.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`] for a number without a source; [`Error::Invalid`] for the IPI.
    ///
    /// # Context
    /// Any but a non-maskable interrupt. Touches no hardware.
    pub fn target(&self, irq: Irq) -> Result<CpuIndex, Error> {
        let index = self.device(irq)?;
        self.ledger.with(&self.platform, |ledger| {
            let entry = ledger.ours(index).map(|entry| entry.target);
            entry.ok_or(Error::NoSuchIrq { irq: irq.get() })
        })
    }

    /// How many device sources are counted against the queue of `cpu`: those that go there, and
    /// those that went away and may have an event left there. Before a CPU goes offline the
    /// first are to be moved.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// Any but a non-maskable interrupt. Touches no hardware.
    pub fn load(&self, cpu: CpuIndex) -> Result<(u32, u32), Error> {
        let (_, at) = read(self.cpu(cpu)?);
        self.ledger.with(&self.platform, |ledger| {
            let load = ledger.loads.get_mut(cpu.index());
            let load = load.ok_or(Error::NoSuchCpu { cpu })?;
            load.settle(at);
            Ok((load.bound, load.leaving))
        })
    }

    /// Lets the events of `irq` go to the CPU `to`. One that is in the queue of the old target is
    /// still taken there; if that CPU is offline, it is sent to the new one.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`]; [`Error::Invalid`] for the IPI; [`Error::NoSuchCpu`];
    /// [`Error::CpuOffline`]; [`Error::Full`] if the queue of `to` has no room;
    /// [`Error::Busy`] if somebody else changes the source; [`Error::Refused`] and
    /// [`Error::Timeout`] of firmware. The source goes where it went, then.
    ///
    /// # Context
    /// Any but a handler or a non-maskable interrupt.
    pub fn set_target(&self, irq: Irq, to: CpuIndex) -> Result<(), Error> {
        let index = self.device(irq)?;
        let cpu = self.cpu(to)?;
        if !cpu.fixed.is_online() {
            return Err(Error::CpuOffline { cpu: to });
        }
        let old = self.change(irq, index)?;
        let result = self.move_to(index, old, to, cpu);
        self.ledger.with(&self.platform, |ledger| {
            if let Some(entry) = ledger.ours(index) {
                entry.used = Use::Ours;
            }
        });
        if result? {
            self.replay(index);
        }
        Ok(())
    }

    /// Claims a source of ours for a change.
    pub(super) fn change(&self, irq: Irq, index: u32) -> Result<Entry, Error> {
        self.ledger.with(&self.platform, |ledger| {
            let none = Error::NoSuchIrq { irq: irq.get() };
            let entry = ledger.ours(index).ok_or(none)?;
            if entry.used == Use::Changing {
                return Err(Error::Busy {
                    what: "the interrupt's source",
                });
            }
            let before = *entry;
            entry.used = Use::Changing;
            Ok(before)
        })
    }

    /// Whether there was an event in a queue that nobody reads, which is to be sent again.
    fn move_to(
        &self,
        index: u32,
        old: Entry,
        to: CpuIndex,
        cpu: &Cpu<F::Window>,
    ) -> Result<bool, Error> {
        if old.target == to {
            return Ok(false);
        }
        let (queue, at) = read(cpu);
        self.ledger
            .with(&self.platform, |ledger| ledger.bind(to, queue, at))?;
        if let Err(error) = self.route(index, old.number, to) {
            self.ledger.with(&self.platform, |ledger| ledger.unbind(to));
            return Err(error);
        }
        let from = self.cpu(old.target)?;
        Ok(self.ledger.with(&self.platform, |ledger| {
            if let Some(entry) = ledger.ours(index) {
                entry.target = to;
            }
            let stranded = !from.fixed.is_online() && self.take_out(from, index);
            let (queue, at) = read(from);
            ledger.leave(old.target, at, queue.tail(at));
            stranded
        }))
    }

    /// Makes an event of the source at `index` meaningless that is in the queue of a CPU that is
    /// offline. Whether there was one. Under the ledger's lock, as those who read that queue.
    pub(super) fn take_out(&self, cpu: &Cpu<F::Window>, index: u32) -> bool {
        let (queue, at) = read(cpu);
        let tail = queue.tail(at);
        let waiting = (0..tail.wrapping_sub(at)).map(|ahead| at.wrapping_add(ahead));
        let mut found = false;
        for position in waiting {
            if queue.entry(position) == Some(Layout::data(index)) {
                queue.overwrite(position, self.hot.layout.again());
                found = true;
            }
        }
        found
    }

    /// Routes a device's source to a CPU.
    pub(super) fn route(
        &self,
        index: u32,
        number: SourceNumber,
        to: CpuIndex,
    ) -> Result<(), Error> {
        let pir = self.cpu(to)?.fixed.thread.pir;
        let priority = self.hot.device_priority;
        self.opal
            .route(&self.platform, number, pir, priority, Layout::data(index))
    }

    /// The place of a device's `irq`.
    pub(super) fn device(&self, irq: Irq) -> Result<u32, Error> {
        match self.hot.layout.index(irq)? {
            crate::layout::IPI => Err(Error::Invalid {
                what: "a device's irq",
                value: u64::from(irq.get()),
            }),
            index => Ok(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_left_count_until_the_reader_is_past_what_was_there() {
        // Also across the end of the 32 bits.
        for start in [0, u32::MAX - 1] {
            let mut load = Load {
                bound: 0,
                leaving: 2,
                until: start + 1,
            };
            load.settle(start);
            assert_eq!(load.leaving, 2);
            load.settle(start.wrapping_add(1));
            assert_eq!(load.leaving, 0);
        }
    }

    #[test]
    fn a_queue_has_room_for_each_source_and_a_ring_behind_each() {
        assert_eq!(room(16384), 8191);
        assert_eq!(room(1024), 511);
        for capacity in [2, 4, 1024, 16384] {
            assert!(2 * room(capacity) + 2 <= capacity);
        }
    }
}
