// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a domain by its id: open addressing, sized once, at most half full.

use alloc::vec::Vec;

use irq_hal::Error;
use irq_hal::heap::try_vec;

use super::domains::NONE;

/// Slots of domains, at the hashes of their ids. Used under the topology's lock only.
pub(crate) struct Table {
    slots: Vec<u32>,
    shift: u32,
}

impl Table {
    /// Room for `domains` domains.
    pub(crate) fn new(domains: usize) -> Result<Self, Error> {
        let len = (2 * domains).next_power_of_two();
        let mut slots = try_vec(len)?;
        slots.resize(len, NONE);
        let shift = u32::BITS - len.ilog2();
        Ok(Self { slots, shift })
    }

    /// The place in the table where `id` is, or belongs: `id_of` is the id of a slot's domain.
    /// There is always an empty place, which ends the search.
    pub(crate) fn entry(&mut self, id: u32, id_of: impl Fn(u32) -> u32) -> &mut u32 {
        // The multiplier is 2^32 divided by the golden ratio: it spreads ids with a stride.
        let mut at = (id.wrapping_mul(0x9e37_79b9) >> self.shift) as usize;
        while self.slots[at] != NONE && id_of(self.slots[at]) != id {
            at = (at + 1) & (self.slots.len() - 1);
        }
        &mut self.slots[at]
    }
}
