// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a trigger to a thread: source, assignment, queue, presenter.

use irq_hal::CpuIndex;

use super::State;
use super::access::Call;
use super::end::{End, QueueId};
use super::pq::Pq;
use super::source::{Op, Source};

impl State {
    pub fn source(&self, girq: u32) -> &Source {
        let source = self.sources.get(&girq);
        source.unwrap_or_else(|| panic!("no source {girq:#x}"))
    }

    pub fn source_mut(&mut self, girq: u32) -> &mut Source {
        let source = self.sources.get_mut(&girq);
        source.unwrap_or_else(|| panic!("no source {girq:#x}"))
    }

    pub fn end_mut(&mut self, queue: QueueId) -> &mut End {
        self.ends.entry(queue).or_insert_with(End::new)
    }

    /// The thread that is this virtual processor.
    pub fn thread_of(&self, vp: u32) -> Option<usize> {
        self.threads.iter().position(|one| one.spec.pir == vp)
    }

    /// Someone triggers the source.
    pub fn trigger(&mut self, girq: u32) {
        let source = self.source_mut(girq);
        if source.pq == Pq::Off {
            source.lost += 1;
        }
        if source.pq.trigger() {
            self.forward(girq);
        }
    }

    /// The wire of an LSI is high: an event, unless one is under way already.
    pub fn sample(&mut self, girq: u32) -> bool {
        let silicon = self.machine.silicon_lsi;
        let source = self.source_mut(girq);
        let idle = source.pq == Pq::Reset || silicon && source.pq == Pq::Off;
        if !(source.asserted && idle) {
            return false;
        }
        source.pq = Pq::Pending;
        self.forward(girq);
        true
    }

    /// The end of an event: re-arms the source, forwards what waited.
    pub fn end(&mut self, girq: u32) -> bool {
        self.note_read(girq);
        let source = self.source_mut(girq);
        let lsi = source.lsi();
        if source.pq.end() {
            self.forward(girq);
            return true;
        }
        lsi && self.sample(girq)
    }

    /// Software ends the event of this source: it has read the event's entry.
    fn note_read(&mut self, girq: u32) {
        if let Some(place) = self.source_mut(girq).place.take() {
            self.end_mut(place.queue).ended(place);
        }
    }

    /// An event leaves the source.
    fn forward(&mut self, girq: u32) {
        let check = self.machine.overflow_check;
        let source = self.source_mut(girq);
        let (eas, from) = (source.eas, source.spec.chip);
        if eas.masked {
            source.lost += 1;
            return;
        }
        let queue = (eas.vp, eas.prio);
        let to = match self.thread_of(eas.vp) {
            Some(thread) => self.threads[thread].spec.chip,
            None => from,
        };
        *self.forwards.entry((from, to)).or_insert(0) += 1;
        let memory = self.memory.clone();
        let end = self.end_mut(queue);
        if !end.enabled {
            panic!(
                "source {girq:#x} forwards an event to the queue of {:#x}/{}, which is not set up",
                eas.vp, eas.prio
            );
        }
        let place = end.enqueue(queue, eas.data, &memory, check);
        let notify = end.always_notify() || end.esn.trigger();
        self.source_mut(girq).place = place;
        if notify {
            self.notify(queue);
        }
    }

    /// The queue notifies its virtual processor.
    pub fn notify(&mut self, (vp, prio): QueueId) {
        match self.thread_of(vp) {
            Some(thread) if self.threads[thread].vt => self.threads[thread].present(prio),
            _ => {
                // Firmware sets the backlog bit of each queue that is set up.
                if let Some(processor) = self.vps.get_mut(&vp) {
                    processor.ipb |= 0x80 >> prio;
                }
            }
        }
    }

    /// An access to the pages of a source.
    pub fn esb(&mut self, call: &Call, girq: u32) -> u64 {
        let generation = self.machine.generation;
        let source = self.source_mut(girq);
        let op = source.op(generation, call);
        if source.failing {
            return u64::MAX;
        }
        let owed = source.owed.take_if(|cpu| *cpu == call.cpu);
        if op == Op::Trigger {
            self.judge_trigger(call, girq, owed.is_some());
            self.trigger(girq);
            return 0;
        }
        // The event whose Q was cleared was not triggered again.
        source.lost += u64::from(owed.is_some());
        if let Some(thread) = self.threads.get_mut(call.cpu()) {
            thread.end_batch();
        }
        match op {
            Op::Eoi => u64::from(self.end(girq)),
            Op::StoreEoi => {
                self.end(girq);
                self.source_mut(girq).posted = true;
                0
            }
            Op::Get => self.source(girq).pq.bits(),
            Op::Set(to) => self.set_pq(call.cpu, girq, to).bits(),
            Op::Trigger => 0,
        }
    }

    fn set_pq(&mut self, cpu: CpuIndex, girq: u32, to: Pq) -> Pq {
        let before = self.source(girq).pq;
        match to {
            Pq::Reset if before.p() => self.note_read(girq),
            // What is made up by software proves nothing about what was read.
            Pq::Queued => self.source_mut(girq).place = None,
            _ => {}
        }
        let source = self.source_mut(girq);
        if to == Pq::Reset && before == Pq::Queued && source.trigger_page() != 0 {
            source.owed = Some(cpu);
        }
        source.pq = to;
        before
    }

    /// Judges that what a trigger announces to another CPU is published.
    fn judge_trigger(&mut self, call: &Call, girq: u32, again: bool) {
        let eas = self.source(girq).eas;
        let elsewhere = !eas.masked && self.thread_of(eas.vp) != Some(call.cpu());
        if elsewhere
            && !again
            && let Some(thread) = self.threads.get_mut(call.cpu())
        {
            thread.ring(call, girq);
        }
    }

    /// An access to the pages of a queue's notification and escalation states.
    pub fn end_esb(&mut self, call: &Call, queue: QueueId) -> u64 {
        call.width(8);
        let page = super::machine::END_PAGE as usize;
        if call.store.is_some() {
            call.forbid("stores to the pages of a queue are not modelled");
        }
        let end = self.end_mut(queue);
        if !end.enabled {
            call.forbid("the queue is not set up");
        }
        let notification = call.offset < page;
        let state = if notification {
            &mut end.esn
        } else {
            &mut end.ese
        };
        let before = *state;
        match call.offset % page {
            0x000 => {
                let again = state.end() && notification;
                if again {
                    self.notify(queue);
                }
                u64::from(again)
            }
            0x800 => before.bits(),
            set @ (0xc00 | 0xd00 | 0xe00 | 0xf00) => {
                *state = Pq::from_bits(set as u64 >> 8);
                before.bits()
            }
            _ => call.forbid("no such operation"),
        }
    }
}
