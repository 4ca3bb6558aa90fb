// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device's interrupt: messages, a mask, a line.

use std::collections::VecDeque;

use super::Slot;

pub struct Source {
    /// A line that stays high until it is served; else each event is a message.
    level: bool,
    /// Where it points.
    pub at: Option<Slot>,
    pub held: bool,
    masked: bool,
    /// Events that wait for the mask, or for the line's next message.
    kept: Vec<u64>,
    /// A message of the line is on its way, pending, or being handled.
    remote: bool,
    /// Messages that have left and not arrived, oldest first.
    pub under_way: VecDeque<(Slot, Vec<u64>)>,
    /// What was pending at places whose CPUs went, for each of them.
    pub stranded: Vec<Vec<u64>>,
    /// Replays that may come after one that stood for theirs too.
    merged: usize,
}

impl Source {
    pub const fn new(level: bool) -> Self {
        Self {
            level,
            at: None,
            held: true,
            masked: false,
            kept: Vec::new(),
            remote: false,
            under_way: VecDeque::new(),
            stranded: Vec::new(),
            merged: 0,
        }
    }

    pub fn fire(&mut self, event: u64) {
        self.kept.push(event);
        self.send();
    }

    fn send(&mut self) {
        let Some(at) = self.at else { return };
        if self.held || self.masked || self.kept.is_empty() || self.remote {
            return;
        }
        // A line stays high, and what it wants is found out by who serves it.
        let events = match self.level {
            true => Vec::new(),
            false => std::mem::take(&mut self.kept),
        };
        self.remote = self.level;
        self.under_way.push_back((at, events));
    }

    pub fn mask(&mut self, masked: bool) {
        self.masked = masked;
        self.send();
    }

    pub fn release(&mut self) {
        self.held = false;
        self.send();
    }

    /// A handler serves what a message says, or what the line wants.
    pub fn handle(&mut self, events: Vec<u64>) -> Vec<u64> {
        if !self.level {
            assert!(!events.is_empty(), "an interrupt without an event");
            return events;
        }
        assert!(self.remote, "a message of a line that sent none");
        let served = std::mem::take(&mut self.kept);
        assert!(!served.is_empty(), "an interrupt of a line that is low");
        self.remote = false;
        served
    }

    /// What a replay stands for; nothing if an earlier one stood for it.
    pub fn replay(&mut self) -> Option<Vec<u64>> {
        let stranded = std::mem::take(&mut self.stranded);
        match stranded.len() {
            0 => {
                self.merged = self.merged.checked_sub(1).expect("nothing to replay");
                None
            }
            places => {
                self.merged += places - 1;
                Some(stranded.concat())
            }
        }
    }
}
