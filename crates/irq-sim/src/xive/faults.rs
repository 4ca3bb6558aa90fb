// SPDX-License-Identifier: MIT OR Apache-2.0
//! What firmware answers on a bad day.

use std::collections::{BTreeMap, VecDeque};

use super::opal::code;

#[derive(Clone, Debug, Default)]
struct Fault {
    /// Calls that still answer BUSY.
    busy: u32,
    /// Answers of BUSY_EVENT that still need a poll each.
    busy_event: u32,
    /// Answers to give once: calls that pass before, answer.
    once: VecDeque<(u32, i64)>,
    always: Option<i64>,
}

/// The faults to come, by number of the call.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    by_call: BTreeMap<u64, Fault>,
}

impl Faults {
    fn of(&mut self, call: u64) -> &mut Fault {
        self.by_call.entry(call).or_default()
    }

    pub fn busy(&mut self, call: u64, times: u32) {
        self.of(call).busy = times;
    }

    pub fn busy_event(&mut self, call: u64, times: u32) {
        self.of(call).busy_event = times;
    }

    pub fn answer_nth(&mut self, call: u64, nth: u32, answer: i64) {
        self.of(call).once.push_back((nth, answer));
    }

    pub fn answer_always(&mut self, call: u64, answer: i64) {
        self.of(call).always = Some(answer);
    }

    pub fn heal(&mut self, call: u64) {
        self.by_call.remove(&call);
    }

    /// `OPAL_POLL_EVENTS`: each call that waits for events gets on by one.
    pub fn poll(&mut self) {
        for fault in self.by_call.values_mut() {
            fault.busy_event = fault.busy_event.saturating_sub(1);
        }
    }

    /// What this call of `call` answers instead of acting.
    pub fn next(&mut self, call: u64) -> Option<i64> {
        let fault = self.by_call.get_mut(&call)?;
        if fault.busy > 0 {
            fault.busy -= 1;
            return Some(code::BUSY);
        }
        if fault.busy_event > 0 {
            return Some(code::BUSY_EVENT);
        }
        if let Some((before, answer)) = fault.once.front_mut() {
            if *before == 0 {
                let answer = *answer;
                fault.once.pop_front();
                return Some(answer);
            }
            *before -= 1;
        }
        fault.always
    }
}
