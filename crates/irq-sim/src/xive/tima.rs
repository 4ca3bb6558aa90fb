// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hypervisor page of the thread interrupt management area.

use super::access::Call;
use super::machine::Gen;
use super::presenter::Thread;

/// Byte store: the processor priority.
const CPPR: usize = 0x31;
/// Byte load or store: the ring's valid bit.
const VALID: usize = 0x38;
/// Two-byte load: acknowledge.
const ACK: usize = 0x830;
/// The valid bit.
const VT: u8 = 0x80;

impl Thread {
    /// The running thread's access to its own ring.
    pub fn tima(&mut self, generation: Gen, call: &Call) -> u64 {
        match (call.offset, call.width, call.store) {
            (ACK, 2, None) => u64::from(self.acknowledge()),
            (ACK, _, None) => {
                call.forbid("wrong width, an acknowledge is a load of 2 bytes");
            }
            (CPPR, 1, Some(value)) => {
                judge_cppr(call, value as u8);
                if generation == Gen::Two && !self.vt {
                    call.forbid("CPPR is set before VT: nothing is evaluated");
                }
                self.set_cppr(call, value as u8);
                0
            }
            (VALID, 1, None) => u64::from(self.w2_high()),
            (VALID, 1, Some(value)) => {
                if value as u8 & !VT != 0 {
                    call.forbid("bits beside VT");
                }
                // Events that came meanwhile are not presented again.
                self.vt = value as u8 == VT;
                0
            }
            (0x30..0x40, 4 | 8, None) => self.raw_load(call),
            (0x30..0x40, 4 | 8, Some(value)) => {
                self.raw_store(call, value);
                0
            }
            (0x30..0x40, ..) => {
                call.forbid("wrong width, raw accesses are of 4 or 8 bytes");
            }
            _ => call.forbid("no such operation on this page, or not modelled"),
        }
    }

    fn w2_high(&self) -> u8 {
        if self.vt { VT } else { 0 }
    }

    /// The ring's 16 bytes: nothing where the page hides one.
    fn ring_bytes(&self) -> [Option<u8>; 16] {
        let mut bytes = [None; 16];
        bytes[0] = Some(self.nsr);
        bytes[1] = Some(self.cppr);
        bytes[2] = Some(self.ipb);
        bytes[3] = Some(self.lsmfb);
        bytes[5] = Some(self.lgs);
        bytes[7] = Some(self.pipr);
        bytes[8] = Some(self.w2_high());
        bytes[11] = Some(self.w2_low);
        bytes
    }

    fn raw_load(&self, call: &Call) -> u64 {
        let start = call.offset - 0x30;
        let bytes = self.ring_bytes();
        let seen = &bytes[start..start + usize::from(call.width)];
        if seen.iter().all(Option::is_none) {
            call.forbid("the page hides all of these bytes");
        }
        let add = |word, byte: &Option<u8>| word << 8 | u64::from(byte.unwrap_or(0));
        seen.iter().fold(0, add)
    }

    /// Stores without side effects; hidden and read-only bytes stay.
    fn raw_store(&mut self, call: &Call, value: u64) {
        let start = call.offset - 0x30;
        let width = usize::from(call.width);
        let bytes = value.to_be_bytes();
        for (index, byte) in bytes[8 - width..].iter().enumerate() {
            match start + index {
                0 => self.nsr = *byte,
                1 => {
                    judge_cppr(call, *byte);
                    self.cppr = *byte;
                }
                2 => self.ipb = *byte,
                3 => self.lsmfb = *byte,
                5 => self.lgs = *byte,
                8 => self.vt = byte & VT != 0,
                11 => self.w2_low = *byte,
                _ => {}
            }
        }
    }
}

fn judge_cppr(call: &Call, value: u8) {
    if (8..0xff).contains(&value) {
        call.forbid("CPPR above 7 is stored as 0xff");
    }
}
