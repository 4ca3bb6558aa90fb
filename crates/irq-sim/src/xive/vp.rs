// SPDX-License-Identifier: MIT OR Apache-2.0
//! A virtual processor, as firmware keeps it.

/// A virtual processor.
#[derive(Clone, Debug)]
pub(super) struct Processor {
    pub chip: usize,
    /// The index on that chip of its first queue.
    pub first_end: u32,
    /// That of a hardware thread: always there, always enabled.
    pub hard: bool,
    pub flags: u64,
    pub report_line: u64,
    /// Priorities of events that came while no thread was it.
    pub ipb: u8,
}

impl Processor {
    /// That of a hardware thread.
    pub fn hard(chip: usize, first_end: u32) -> Self {
        Self {
            chip,
            first_end,
            hard: true,
            flags: 1,
            report_line: 0,
            ipb: 0,
        }
    }

    /// One of an allocated block.
    pub fn soft(chip: usize, first_end: u32) -> Self {
        Self {
            hard: false,
            flags: 0,
            ..Self::hard(chip, first_end)
        }
    }
}
