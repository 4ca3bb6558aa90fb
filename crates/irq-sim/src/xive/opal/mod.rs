// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware: OPAL calls, as skiboot of both generations answers them.

mod queues;
mod routes;
mod vps;

use irq_hal::PhysAddr;

use super::machine::Gen;
use super::{State, XiveModel};
use crate::log::{Access, Event, Unit};

/// Numbers of calls.
pub mod call {
    /// `POLL_EVENTS(*events)`.
    pub const POLL_EVENTS: u64 = 10;
    /// `INT_EOI(number)`: ends a source that the CPU cannot end.
    pub const INT_EOI: u64 = 124;
    /// `XIVE_RESET(mode)`: 0 emulation of XICS, 1 exploitation.
    pub const RESET: u64 = 128;
    /// `XIVE_GET_IRQ_INFO(girq, *flags, *eoi_page, *trigger_page, *shift, *chip)`.
    pub const GET_IRQ_INFO: u64 = 129;
    /// `XIVE_GET_IRQ_CONFIG(girq, *vp, *prio, *data)`.
    pub const GET_IRQ_CONFIG: u64 = 130;
    /// `XIVE_SET_IRQ_CONFIG(girq, vp, prio, data)`.
    pub const SET_IRQ_CONFIG: u64 = 131;
    /// `XIVE_GET_QUEUE_INFO(vp, prio, *page, *size, *eoi_page, *escalation, *flags)`.
    pub const GET_QUEUE_INFO: u64 = 132;
    /// `XIVE_SET_QUEUE_INFO(vp, prio, page, size, flags)`.
    pub const SET_QUEUE_INFO: u64 = 133;
    /// `XIVE_DONATE_PAGE(chip, page)`.
    pub const DONATE_PAGE: u64 = 134;
    /// `XIVE_ALLOCATE_VP_BLOCK(order)`.
    pub const ALLOCATE_VP_BLOCK: u64 = 135;
    /// `XIVE_FREE_VP_BLOCK(vp)`.
    pub const FREE_VP_BLOCK: u64 = 136;
    /// `XIVE_GET_VP_INFO(vp, *flags, *cam, *report_line, *chip)`.
    pub const GET_VP_INFO: u64 = 137;
    /// `XIVE_SET_VP_INFO(vp, flags, report_line)`.
    pub const SET_VP_INFO: u64 = 138;
    /// `XIVE_ALLOCATE_IRQ(chip)`.
    pub const ALLOCATE_IRQ: u64 = 139;
    /// `XIVE_FREE_IRQ(girq)`.
    pub const FREE_IRQ: u64 = 140;
    /// `XIVE_SYNC(type, girq)`: 1 routing, 2 queue.
    pub const SYNC: u64 = 141;
    /// `XIVE_DUMP(type, id)`.
    pub const DUMP: u64 = 142;
    /// `XIVE_GET_QUEUE_STATE(vp, prio, *generation, *index)`.
    pub const GET_QUEUE_STATE: u64 = 143;
    /// `XIVE_SET_QUEUE_STATE(vp, prio, generation, index)`.
    pub const SET_QUEUE_STATE: u64 = 144;
    /// `XIVE_GET_VP_STATE(vp, *state)`.
    pub const GET_VP_STATE: u64 = 170;
}

/// Answers of calls.
pub mod code {
    /// Done.
    pub const SUCCESS: i64 = 0;
    /// An argument that cannot be.
    pub const PARAMETER: i64 = -1;
    /// To be repeated.
    pub const BUSY: i64 = -2;
    /// Hardware failed.
    pub const HARDWARE: i64 = -6;
    /// No such call, or not on this machine.
    pub const UNSUPPORTED: i64 = -7;
    /// None is left.
    pub const RESOURCE: i64 = -10;
    /// Firmware failed.
    pub const INTERNAL_ERROR: i64 = -11;
    /// To be repeated after `POLL_EVENTS`.
    pub const BUSY_EVENT: i64 = -12;
    /// Not in this mode, or of what is not set up.
    pub const WRONG_STATE: i64 = -14;
    /// To be repeated after `DONATE_PAGE`.
    pub const PROVISIONING: i64 = -31;
    /// Still in use.
    pub const FREE_ACTIVE: i64 = -32;
}

/// How a call ends otherwise than well.
type Answer = Result<i64, i64>;

impl XiveModel {
    /// Makes a firmware call on the CPU that runs. Arguments that are pointers are physical
    /// addresses of big-endian values, or 0 for what is not wanted. Returns the signed answer.
    ///
    /// # Panics
    /// If a pointer is not aligned or there is no memory, or the call breaks a rule that
    /// firmware does not look after.
    pub fn opal(&self, number: u64, args: [u64; 7]) -> i64 {
        let sim = self.sim();
        let cpu = sim.current();
        sim.note_access();
        let mut state = self.state();
        if let Some(thread) = state.threads.get_mut(cpu.index()) {
            assert!(
                !thread.unsynchronized(),
                "{cpu} calls OPAL {number}: no isync between the acknowledge and what follows it"
            );
            thread.end_batch();
        }
        let fault = state.faults.next(number);
        let answer = fault.unwrap_or_else(|| match state.call(number, args) {
            Ok(answer) | Err(answer) => answer,
        });
        sim.log().push(Event::Load(Access {
            cpu,
            unit: Unit::Opal,
            offset: number as usize,
            width: 8,
            value: answer as u64,
            cost: sim.costs().local,
        }));
        answer
    }
}

/// A 32-bit argument.
fn word(value: u64, call: &str) -> Result<u32, i64> {
    // Upper halves of argument registers are the caller's to clear.
    let narrow = u32::try_from(value);
    assert!(
        narrow.is_ok(),
        "{call}({value:#x}): a 32-bit argument with more bits"
    );
    narrow.map_err(|_| code::PARAMETER)
}

impl State {
    fn call(&mut self, number: u64, args: [u64; 7]) -> Answer {
        let emulation = self.machine.generation == Gen::One && !self.exploitation;
        let xive = (call::GET_IRQ_INFO..=call::GET_VP_STATE).contains(&number);
        if emulation && (xive || number == call::INT_EOI) {
            return Err(code::WRONG_STATE);
        }
        let [a, b, c, d, e, f, g] = args;
        match number {
            call::POLL_EVENTS => {
                self.faults.poll();
                self.put64(a, 0);
                Ok(0)
            }
            call::INT_EOI => self.int_eoi(a),
            call::RESET => self.reset(a),
            call::GET_IRQ_INFO => self.get_irq_info(a, [b, c, d, e, f]),
            call::GET_IRQ_CONFIG => self.get_irq_config(a, [b, c, d]),
            call::SET_IRQ_CONFIG => self.set_irq_config(a, b, c, d),
            call::GET_QUEUE_INFO => self.get_queue_info(a, b, [c, d, e, f, g]),
            call::SET_QUEUE_INFO => self.set_queue_info(a, b, c, d, e),
            call::DONATE_PAGE => self.donate_page(a, b),
            call::ALLOCATE_VP_BLOCK => self.allocate_vp_block(a),
            call::FREE_VP_BLOCK => self.free_vp_block(a),
            call::GET_VP_INFO => self.get_vp_info(a, [b, c, d, e]),
            call::SET_VP_INFO => self.set_vp_info(a, b, c),
            call::ALLOCATE_IRQ => self.allocate_irq(a),
            call::FREE_IRQ => self.free_irq(a),
            call::SYNC => self.sync(a, b),
            call::DUMP if a <= 5 => Ok(0),
            call::DUMP => Err(code::PARAMETER),
            call::GET_QUEUE_STATE => self.get_queue_state(a, b, [c, d]),
            call::SET_QUEUE_STATE => self.set_queue_state(a, b, c, d),
            call::GET_VP_STATE => self.get_vp_state(a, b),
            _ => panic!("OPAL {number} with {args:x?}: this call is not modelled"),
        }
    }

    /// `XIVE_RESET`.
    fn reset(&mut self, mode: u64) -> Answer {
        if mode > 1 {
            return Err(code::PARAMETER);
        }
        self.exploitation = mode == 1 || self.machine.generation == Gen::Two;
        for source in self.sources.values_mut() {
            if source.configured {
                source.pq = super::Pq::Off;
            }
            source.eas.masked = true;
            source.configured = false;
            source.allocated = false;
            source.owed = None;
            source.place = None;
        }
        self.allocated.clear();
        let pages = self.ends.values().filter(|end| end.size != 0);
        let pages: Vec<_> = pages.map(|end| end.page).collect();
        let donated = self.donated.drain(..).map(|(_, page)| page);
        let released = pages.into_iter().chain(donated);
        for page in released.chain(self.unsynced.drain(..)) {
            self.memory.unpin(PhysAddr::new(page));
        }
        self.ends.values_mut().for_each(super::End::disable);
        self.drop_soft_vps();
        self.threads.iter_mut().for_each(super::Thread::reset);
        Ok(0)
    }

    /// `XIVE_DONATE_PAGE`.
    fn donate_page(&mut self, chip: u64, page: u64) -> Answer {
        let chip = self.chip(chip)?;
        if page == 0 || !page.is_multiple_of(super::machine::PROVISION_PAGE) {
            return Err(code::PARAMETER);
        }
        let at = PhysAddr::new(page);
        assert!(
            self.memory.holds(at, super::machine::PROVISION_PAGE),
            "DONATE_PAGE({at}): no such memory"
        );
        self.memory
            .pin(at, "firmware was given it, until XIVE_RESET".to_owned());
        self.donated.push((chip, page));
        Ok(0)
    }

    /// The number of the chip with this id.
    fn chip(&self, id: u64) -> Result<usize, i64> {
        let id = word(id, "chip")?;
        let chip = self.machine.chip_ids.iter().position(|one| *one == id);
        chip.ok_or(code::PARAMETER)
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        if at == 0 {
            return;
        }
        let len = bytes.len() as u64;
        let at = PhysAddr::new(at);
        assert!(
            at.get().is_multiple_of(len),
            "firmware writes {len} bytes at {at}: not aligned"
        );
        assert!(
            self.memory.holds(at, len),
            "firmware writes {len} bytes at {at}: no memory there"
        );
        self.memory.device_write(at, bytes);
    }

    fn put64(&self, at: u64, value: u64) {
        self.put(at, &value.to_be_bytes());
    }

    fn put32(&self, at: u64, value: u32) {
        self.put(at, &value.to_be_bytes());
    }

    fn put8(&self, at: u64, value: u8) {
        self.put(at, &[value]);
    }
}
