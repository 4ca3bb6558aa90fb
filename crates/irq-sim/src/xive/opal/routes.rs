// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls about sources: information, routing, allocation, the end through firmware.

use irq_hal::PhysAddr;

use super::super::State;
use super::super::machine::{Gen, flags};
use super::super::pq::Pq;
use super::super::source::Eas;
use super::{Answer, code, word};

/// The priority that masks.
const MASKED: u64 = 0xff;
/// Event data that fits an entry.
const DATA: u64 = 0x7fff_ffff;

impl State {
    fn girq(&self, girq: u64) -> Result<u32, i64> {
        let girq = word(girq, "source")?;
        match self.sources.contains_key(&girq) {
            true => Ok(girq),
            false => Err(code::PARAMETER),
        }
    }

    /// `INT_EOI`.
    pub(super) fn int_eoi(&mut self, number: u64) -> Answer {
        // As in the XICS: a priority, and the number in 24 bits.
        let number = match self.machine.generation {
            Gen::One => number & 0xff_ffff,
            Gen::Two => number,
        };
        let girq = self.girq(number)?;
        self.end(girq);
        Ok(0)
    }

    /// `XIVE_GET_IRQ_INFO`.
    pub(super) fn get_irq_info(&mut self, girq: u64, out: [u64; 5]) -> Answer {
        let source = self.source(self.girq(girq)?);
        let [flags, eoi_page, trigger_page, shift, chip] = out;
        self.put64(flags, source.spec.flags);
        self.put64(eoi_page, source.eoi_page());
        self.put64(trigger_page, source.trigger_page());
        self.put32(shift, source.spec.shift);
        self.put32(chip, self.machine.chip_ids[source.spec.chip]);
        Ok(0)
    }

    /// `XIVE_GET_IRQ_CONFIG`.
    pub(super) fn get_irq_config(&mut self, girq: u64, out: [u64; 3]) -> Answer {
        let eas = self.source(self.girq(girq)?).eas;
        let [vp, prio, data] = out;
        self.put64(vp, eas.vp.into());
        // Read from the queue: of one that is not set up it says nothing.
        let known = self.ends.get(&(eas.vp, eas.prio));
        let known = known.is_some_and(|end| end.enabled);
        let shown = match (eas.masked, known) {
            (true, _) => 0xff,
            (false, true) => eas.prio,
            (false, false) => 0,
        };
        self.put8(prio, shown);
        self.put32(data, eas.data);
        Ok(0)
    }

    /// `XIVE_SET_IRQ_CONFIG`.
    pub(super) fn set_irq_config(&mut self, girq: u64, vp: u64, prio: u64, data: u64) -> Answer {
        let girq = self.girq(girq)?;
        let vp = self.vp(vp)?;
        if prio > 7 && prio != MASKED {
            return Err(code::PARAMETER);
        }
        if data > DATA {
            panic!("SET_IRQ_CONFIG({girq:#x}): event data {data:#x} does not fit 31 bits");
        }
        let source = self.source_mut(girq);
        if prio == MASKED {
            judge_unrouted(source, girq);
            if source.spec.has(flags::MASK_VIA_FIRMWARE) {
                source.pq = Pq::Off;
            }
            source.configured = true;
            source.eas.masked = true;
            source.eas.data = data as u32;
            return Ok(0);
        }
        if data == 0 {
            panic!("SET_IRQ_CONFIG({girq:#x}): event data 0 looks like an empty entry");
        }
        source.configured = true;
        source.eas = Eas {
            masked: false,
            vp,
            prio: prio as u8,
            data: data as u32,
        };
        self.judge_capacity(vp, prio as u8);
        Ok(0)
    }

    /// Judges that a queue has room for an entry of each source that is led to it.
    fn judge_capacity(&mut self, vp: u32, prio: u8) {
        if !self.machine.overflow_check {
            return;
        }
        let entries = self.end_mut((vp, prio)).entries();
        let led = self.sources.values().map(|source| source.eas);
        let led = led.filter(|eas| !eas.masked && (eas.vp, eas.prio) == (vp, prio));
        let led = led.count() as u64;
        assert!(
            entries == 0 || led <= entries,
            "{led} sources are led to the queue of {vp:#x}/{prio}, which has {entries} entries: \
             it may overflow"
        );
    }

    /// `XIVE_ALLOCATE_IRQ`.
    pub(super) fn allocate_irq(&mut self, chip: u64) -> Answer {
        let chip = match chip {
            0xffff_ffff => None,
            id => Some(self.chip(id)?),
        };
        let free = self.sources.iter().find(|(_, source)| {
            source.pool && !source.allocated && chip.is_none_or(|chip| source.spec.chip == chip)
        });
        let Some((&girq, _)) = free else {
            return match self.machine.minus_one_when_exhausted {
                true => Ok(0xffff_ffff),
                false => Err(code::RESOURCE),
            };
        };
        self.source_mut(girq).allocated = true;
        self.allocated.push(girq);
        Ok(girq.into())
    }

    /// `XIVE_FREE_IRQ`.
    pub(super) fn free_irq(&mut self, girq: u64) -> Answer {
        let girq = self.girq(girq)?;
        let source = self.source_mut(girq);
        // Firmware looks at the rest afterwards.
        source.mask();
        if !source.allocated {
            return Err(code::PARAMETER);
        }
        source.allocated = false;
        self.allocated.retain(|one| *one != girq);
        Ok(0)
    }

    /// `XIVE_SYNC`.
    pub(super) fn sync(&mut self, kind: u64, girq: u64) -> Answer {
        self.girq(girq)?;
        match kind {
            1 => Ok(0),
            2 => {
                for page in self.unsynced.drain(..) {
                    self.memory.unpin(PhysAddr::new(page));
                }
                Ok(0)
            }
            _ => Err(code::PARAMETER),
        }
    }
}

/// Judges that a source that is unrouted sends nothing any more: what it sent would be lost,
/// and its P would stay.
fn judge_unrouted(source: &super::super::source::Source, girq: u32) {
    let exempt = source.eas.masked || source.failing || source.spec.has(flags::MASK_VIA_FIRMWARE);
    if !exempt && source.pq != Pq::Off {
        panic!(
            "SET_IRQ_CONFIG({girq:#x}) masks the assignment of a source in state {:?}: PQ=01 \
             comes first",
            source.pq
        );
    }
}
