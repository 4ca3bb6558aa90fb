// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls about queues.

use irq_hal::PhysAddr;

use super::super::State;
use super::super::end::{ALWAYS_NOTIFY, ENABLED, ESCALATE, QueueId};
use super::super::machine::Gen;
use super::{Answer, code, word};

impl State {
    fn queue_id(&self, vp: u64, prio: u64) -> Result<QueueId, i64> {
        let vp = self.vp(vp)?;
        match prio {
            0..8 => Ok((vp, prio as u8)),
            _ => Err(code::PARAMETER),
        }
    }

    /// `XIVE_SET_QUEUE_INFO`.
    pub(super) fn set_queue_info(
        &mut self,
        vp: u64,
        prio: u64,
        page: u64,
        size: u64,
        flags: u64,
    ) -> Answer {
        let queue = self.queue_id(vp, prio)?;
        if flags & !(ENABLED | ALWAYS_NOTIFY | ESCALATE) != 0 {
            return Err(code::PARAMETER);
        }
        let on = flags & ENABLED != 0;
        if on && !matches!(size, 0 | 12 | 16 | 21 | 24) {
            return Err(code::PARAMETER);
        }
        if on && size != 0 {
            self.judge_memory(queue, page, size);
        }
        self.let_go(queue);
        if !on {
            self.end_mut(queue).disable();
            return Ok(0);
        }
        let (vp, prio) = queue;
        if size == 0 {
            self.end_mut(queue).enable(0, 0, flags);
            return Ok(0);
        }
        let user = format!("the queue of {vp:#x}/{prio} is still set up there");
        self.memory.pin(PhysAddr::new(page), user);
        self.unsynced.retain(|one| *one != page);
        self.end_mut(queue).enable(page, size as u32, flags);
        Ok(0)
    }

    /// Judges memory that is to be a queue.
    fn judge_memory(&self, (vp, prio): QueueId, page: u64, size: u64) {
        let what = format!(
            "SET_QUEUE_INFO({vp:#x}/{prio}): a queue of {:#x}",
            1 << size
        );
        assert!(
            page.is_multiple_of(1 << size),
            "{what} at {page:#x} is not aligned to its size"
        );
        let at = PhysAddr::new(page);
        assert!(
            self.memory.holds(at, 1 << size),
            "{what} at {at}: no such memory"
        );
        assert!(
            self.memory.device_sees_zero(at, 1 << size),
            "{what} at {at} is not zero: old entries look new"
        );
        let taken = self.ends.iter().find(|(id, end)| {
            **id != (vp, prio) && end.size != 0 && end.page >> end.size == page >> end.size
        });
        if let Some(((vp, prio), _)) = taken {
            panic!("{what} at {at} is that of {vp:#x}/{prio}");
        }
    }

    /// The memory of a queue is its owner's again, once late writes are in.
    fn let_go(&mut self, queue: QueueId) {
        let (vp, prio) = queue;
        let end = self.end_mut(queue);
        if end.size == 0 {
            return;
        }
        let page = end.page;
        let user =
            format!("the queue of {vp:#x}/{prio} was there, and no SYNC of a queue came since");
        self.memory.pin(PhysAddr::new(page), user);
        self.unsynced.push(page);
    }

    /// `XIVE_GET_QUEUE_INFO`.
    pub(super) fn get_queue_info(&mut self, vp: u64, prio: u64, out: [u64; 5]) -> Answer {
        let queue = self.queue_id(vp, prio)?;
        let [page, size, eoi_page, escalation, flags] = out;
        let end = self.end_mut(queue).clone();
        // POWER10's firmware puts the low half together wrongly.
        let shown = match self.machine.generation {
            Gen::One => end.page,
            Gen::Two => end.page >> 32 << 32 | (end.page & 0xffff_ffff) >> 7,
        };
        let processor = &self.vps[&queue.0];
        let index = processor.first_end + u32::from(queue.1);
        let escalates = match self.machine.generation {
            Gen::One => 1 << 24,
            Gen::Two => 1 << 28,
        };
        let escalates = escalates | self.machine.girq(processor.chip, index);
        self.put64(page, shown);
        self.put64(size, end.size.into());
        self.put64(eoi_page, self.machine.end_esb(processor.chip, index));
        self.put32(escalation, escalates);
        self.put64(flags, end.flags);
        Ok(0)
    }

    /// `XIVE_GET_QUEUE_STATE`.
    pub(super) fn get_queue_state(&mut self, vp: u64, prio: u64, out: [u64; 2]) -> Answer {
        let queue = self.queue_id(vp, prio)?;
        let end = self.end_mut(queue).clone();
        if !end.enabled {
            return Err(code::WRONG_STATE);
        }
        let [generation, index] = out;
        self.put32(generation, end.generation.into());
        self.put32(index, end.index);
        Ok(0)
    }

    /// `XIVE_SET_QUEUE_STATE`.
    pub(super) fn set_queue_state(
        &mut self,
        vp: u64,
        prio: u64,
        generation: u64,
        index: u64,
    ) -> Answer {
        let queue = self.queue_id(vp, prio)?;
        let index = word(index, "index")?;
        let end = self.end_mut(queue);
        if !end.enabled {
            return Err(code::WRONG_STATE);
        }
        assert!(
            u64::from(index) < end.entries().max(1),
            "SET_QUEUE_STATE: index {index} of {} entries",
            end.entries()
        );
        end.generation = generation & 1 != 0;
        end.index = index;
        Ok(0)
    }
}
