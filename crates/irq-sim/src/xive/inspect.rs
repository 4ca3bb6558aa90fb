// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests ask the machine, and what they do to it behind the driver's back.

use irq_hal::PhysAddr;

use super::{Eas, Line, Pq, Queue, XiveModel};

impl XiveModel {
    /// Where the hypervisor page of the thread interrupt management area is: 64 KiB.
    pub fn tima(&self) -> PhysAddr {
        self.shared.tima
    }

    /// The PIR of `cpu`.
    pub fn pir(&self, cpu: u32) -> u32 {
        self.state().threads[cpu as usize].spec.pir
    }

    /// Firmware's id of the chip of `cpu`.
    pub fn chip_id(&self, cpu: u32) -> u32 {
        let state = self.state();
        state.machine.chip_ids[state.threads[cpu as usize].spec.chip]
    }

    /// The levels that the builder added, in order.
    pub fn lsis(&self) -> Vec<u32> {
        self.shared.lsis.clone()
    }

    /// The message sources that the builder added, in order.
    pub fn msis(&self) -> Vec<u32> {
        self.shared.msis.clone()
    }

    /// The sources of any kind that the builder added, in order.
    pub fn extra(&self) -> Vec<u32> {
        self.shared.extra.clone()
    }

    /// The sources of chip number `chip` that are allocated, in the order of allocation.
    pub fn allocated(&self, chip: usize) -> Vec<u32> {
        let state = self.state();
        let here = |girq: &&u32| state.source(**girq).spec.chip == chip;
        state.allocated.iter().filter(here).copied().collect()
    }

    /// The device behind a source.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn line(&self, girq: u32) -> Line {
        Line::new(self.clone(), girq)
    }

    /// Where the pages of a source begin.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn esb(&self, girq: u32) -> PhysAddr {
        PhysAddr::new(self.state().source(girq).esb)
    }

    /// The state of a source.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn pq(&self, girq: u32) -> Pq {
        self.state().source(girq).pq
    }

    /// Where a source's events go.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn eas(&self, girq: u32) -> Eas {
        self.state().source(girq).eas
    }

    /// How many triggers of a source are lost.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn lost(&self, girq: u32) -> u64 {
        self.state().source(girq).lost
    }

    /// The queue of a virtual processor at a priority; not set up if nobody has.
    pub fn queue(&self, vp: u32, prio: u8) -> Queue {
        self.state().end_mut((vp, prio)).shown()
    }

    /// How many entries were written to a queue since it was set up.
    pub fn written(&self, vp: u32, prio: u8) -> u64 {
        self.queue(vp, prio).written
    }

    /// How many events went from sources of one chip to threads of another, or the same.
    pub fn forwarded(&self, from: usize, to: usize) -> u64 {
        let state = self.state();
        state.forwards.get(&(from, to)).copied().unwrap_or(0)
    }

    /// `IPB` of `cpu`: its pending priorities.
    pub fn ipb(&self, cpu: u32) -> u8 {
        self.state().threads[cpu as usize].ipb
    }

    /// `CPPR` of `cpu`.
    pub fn cppr(&self, cpu: u32) -> u8 {
        self.state().threads[cpu as usize].cppr
    }

    /// Whether the exception line of `cpu` is up, whether it can be taken or not.
    pub fn signalled(&self, cpu: u32) -> bool {
        self.state().threads[cpu as usize].signalled()
    }

    /// Sets `LPCR.HVICE` of `cpu`: whether it takes the interrupt. It does at first.
    pub fn set_hvice(&self, cpu: u32, enabled: bool) {
        self.state().threads[cpu as usize].hvice = enabled;
    }

    /// Sets whether the presenter finds the thread of `cpu` (`VT`).
    pub fn set_valid(&self, cpu: u32, valid: bool) {
        self.state().threads[cpu as usize].vt = valid;
    }

    /// Puts a source to PQ=00.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn switch_on(&self, girq: u32) {
        self.state().source_mut(girq).pq = Pq::Reset;
    }

    /// A priority is raised at `cpu` for which there is no entry, as after an entry that was
    /// consumed early.
    pub fn inject_ipb(&self, cpu: u32, prio: u8) {
        assert!(prio < 8, "priority {prio}");
        self.state().threads[cpu as usize].present(prio);
    }

    /// The exception line of `cpu` goes up for nothing: its acknowledge says that there is none.
    pub fn inject_spurious(&self, cpu: u32) {
        self.state().threads[cpu as usize].spurious = true;
    }

    /// From now on the pages of a source do not answer: loads are all ones. Or do again.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn fail_esb(&self, girq: u32, failing: bool) {
        self.state().source_mut(girq).failing = failing;
    }

    /// From now on nothing can be mapped. Or can again.
    pub fn fail_map(&self, failing: bool) {
        self.state().fail_map = failing;
    }

    /// The next `times` calls of `call` answer BUSY, and do nothing.
    pub fn busy(&self, call: u64, times: u32) {
        self.state().faults.busy(call, times);
    }

    /// Calls of `call` answer BUSY_EVENT, and do nothing, until `times` `POLL_EVENTS` came.
    pub fn busy_event(&self, call: u64, times: u32) {
        self.state().faults.busy_event(call, times);
    }

    /// One more call of `call`, the next if no other is to fail before, answers `answer`, and
    /// does nothing.
    pub fn answer(&self, call: u64, answer: i64) {
        self.answer_nth(call, 0, answer);
    }

    /// Likewise, after `nth` calls that act.
    pub fn answer_nth(&self, call: u64, nth: u32, answer: i64) {
        self.state().faults.answer_nth(call, nth, answer);
    }

    /// From now on each call of `call` answers `answer`, and does nothing.
    pub fn answer_always(&self, call: u64, answer: i64) {
        self.state().faults.answer_always(call, answer);
    }

    /// Calls of `call` act again.
    pub fn heal(&self, call: u64) {
        self.state().faults.heal(call);
    }
}
