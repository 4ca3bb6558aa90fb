// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows the protocol line by line and passes the verdict at the end.
//!
//! A boot passes only if its plan is complete, nothing failed, `@end` was seen
//! and QEMU left by itself. Memory is bounded whatever the image prints.

use std::collections::HashSet;

use super::protocol::Line;
use super::report::{Metric, Outcome, TestRow, Verdict};

/// Largest plan that is taken seriously.
const MAX_TESTS: u32 = 10_000;
/// Metrics kept of one boot.
const MAX_METRICS: usize = 100_000;
/// Broken rules that are told one by one.
const MAX_FAULTS: usize = 5;

/// How QEMU's run came to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// It left by itself with the status that the machine is to leave with.
    Left,
    /// It left with another status, or by a signal.
    Broke(String),
    /// It was cut off, for this reason.
    CutOff(String),
}

/// The state between two lines.
pub struct Judge {
    scenarios: Vec<String>,
    plan: Option<u32>,
    running: Option<(String, u64)>,
    names: HashSet<String>,
    tests: Vec<TestRow>,
    metrics: Vec<Metric>,
    faults: Vec<String>,
    more_faults: usize,
    ended: bool,
    panic: Option<String>,
}

/// What the judge found.
#[derive(Debug, PartialEq)]
pub struct Judged {
    /// How the boot ended.
    pub verdict: Verdict,
    /// Its tests; `boot.verdict` is added when the boot itself is at fault.
    pub tests: Vec<TestRow>,
    /// Its metrics.
    pub metrics: Vec<Metric>,
}

impl Judged {
    /// Takes the first guest error beyond the allowed ones, and how many there were.
    pub fn guest_errors(&mut self, beyond: Option<(String, usize)>) {
        let Some((first, count)) = beyond else {
            return;
        };
        self.tests.push(TestRow {
            name: "boot.guest_errors".into(),
            verdict: Outcome::Failed,
            ms: 0,
            text: format!("{count} guest errors that are not allowed, the first: {first}"),
        });
        if self.verdict == Verdict::Passed {
            self.verdict = Verdict::Failed;
        }
    }
}

impl Judge {
    /// A judge for a boot that was asked for `scenarios`.
    pub fn new(scenarios: &[String]) -> Judge {
        Judge {
            scenarios: scenarios.to_vec(),
            plan: None,
            running: None,
            names: HashSet::new(),
            tests: Vec::new(),
            metrics: Vec::new(),
            faults: Vec::new(),
            more_faults: 0,
            ended: false,
            panic: None,
        }
    }

    /// The tests that ended, and how many were planned.
    pub fn progress(&self) -> (usize, Option<u32>) {
        (self.tests.len(), self.plan)
    }

    /// The test that ended last.
    pub fn last(&self) -> Option<&TestRow> {
        self.tests.last()
    }

    /// The image has said that it panicked.
    pub fn panicked(&self) -> bool {
        self.panic.is_some()
    }

    /// Takes one line. `empty` lines of text after `@end` are no fault. `now_ms` counts from
    /// QEMU's start.
    pub fn line(&mut self, line: Line, empty: bool, now_ms: u64) {
        if self.ended && !(line == Line::Text && empty) {
            self.fault("a line after `@end`".into());
        }
        if self.plan.is_none()
            && !matches!(
                line,
                Line::Plan(_) | Line::Text | Line::Panic(_) | Line::Bad(_)
            )
        {
            self.fault("`@plan` is not the first protocol line".into());
        }
        match line {
            Line::Plan(n) => self.planned(n),
            Line::Start(name) => self.start(name, now_ms),
            Line::Ok { name, ms } => {
                self.finish_test(name, Outcome::Passed, Some(ms), String::new(), now_ms)
            }
            Line::Fail { name, text } => {
                self.finish_test(name, Outcome::Failed, None, text, now_ms)
            }
            Line::Skip { name, why } => self.skip(name, why, now_ms),
            Line::Metric { name, value, unit } => self.metric(name, value, unit),
            Line::End => self.end(),
            Line::Panic(text) => self.panic = self.panic.take().or(Some(text)),
            Line::Text => {}
            Line::Bad(why) => self.fault(why),
        }
    }

    fn fault(&mut self, why: String) {
        if self.faults.contains(&why) {
            return;
        }
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(why);
        } else {
            self.more_faults += 1;
        }
    }

    fn planned(&mut self, n: u32) {
        if self.plan.is_some() {
            self.fault("`@plan` came twice".into());
        } else if n > MAX_TESTS {
            self.fault(format!("a plan of {n} tests is beyond {MAX_TESTS}"));
            self.plan = Some(MAX_TESTS);
        } else {
            self.plan = Some(n);
        }
    }

    /// Books a name; false when it may not be used.
    fn book(&mut self, name: &str) -> bool {
        if self.names.contains(name) {
            self.fault(format!("the name {name} came twice"));
            return false;
        }
        if self.names.len() >= self.plan.unwrap_or(MAX_TESTS) as usize {
            self.fault(format!("{name} is beyond the plan"));
            return false;
        }
        self.names.insert(name.into());
        true
    }

    fn start(&mut self, name: String, now_ms: u64) {
        if let Some((other, _)) = &self.running {
            self.fault(format!("{name} began while {other} ran"));
            return;
        }
        if self.book(&name) {
            self.running = Some((name, now_ms));
        }
    }

    fn finish_test(
        &mut self,
        name: String,
        verdict: Outcome,
        ms: Option<u64>,
        text: String,
        now_ms: u64,
    ) {
        match self.running.take() {
            Some((running, since)) if running == name => {
                let ms = ms.unwrap_or(now_ms.saturating_sub(since));
                self.tests.push(TestRow {
                    name,
                    verdict,
                    ms,
                    text,
                });
            }
            other => {
                self.running = other;
                self.fault(format!("{name} ended but was not running"));
            }
        }
    }

    /// A test may be skipped with or without its `@start`.
    fn skip(&mut self, name: String, why: String, now_ms: u64) {
        if self.running.is_none() && self.book(&name) {
            self.running = Some((name.clone(), now_ms));
        }
        self.finish_test(name, Outcome::Skipped, Some(0), why, now_ms);
    }

    fn metric(&mut self, name: String, value: serde_json::Number, unit: String) {
        let Some((test, _)) = &self.running else {
            return self.fault(format!("the metric {name} belongs to no running test"));
        };
        if self.metrics.len() >= MAX_METRICS {
            return self.fault(format!("more than {MAX_METRICS} metrics"));
        }
        self.metrics.push(Metric {
            test: test.clone(),
            name,
            value,
            unit,
        });
    }

    fn end(&mut self) {
        if let Some((name, _)) = &self.running {
            self.fault(format!("`@end` while {name} ran"));
        }
        if let Some(plan) = self.plan
            && self.tests.len() != plan as usize
        {
            self.fault(format!(
                "a plan of {plan} tests, but {} ended",
                self.tests.len()
            ));
        }
        for scenario in self.scenarios.clone() {
            let ran = self
                .names
                .iter()
                .any(|n| n.split('.').next() == Some(&scenario));
            if !ran {
                self.fault(format!("the scenario {scenario} ran no test"));
            }
        }
        self.ended = true;
    }

    /// Passes the verdict. `now_ms` counts from QEMU's start.
    pub fn finish(mut self, end: &End, now_ms: u64) -> Judged {
        let (mut verdict, mut why) = match (end, &self.panic, self.ended) {
            (_, Some(panic), _) => (Verdict::Died, panic.clone()),
            (End::CutOff(why), None, false) => (Verdict::Hung, why.clone()),
            (End::CutOff(why), None, true) => (Verdict::Hung, format!("after `@end`: {why}")),
            (End::Left, None, false) => (Verdict::Died, "QEMU ended before `@end`".into()),
            (End::Broke(how), None, false) => (
                Verdict::Died,
                format!("QEMU ended before `@end`, with {how}"),
            ),
            (End::Broke(how), None, true) => (Verdict::Failed, format!("QEMU ended with {how}")),
            (End::Left, None, true) => (Verdict::Passed, String::new()),
        };
        if let Some((name, since)) = self.running.take() {
            let text = if why.is_empty() {
                "did not end".into()
            } else {
                std::mem::take(&mut why)
            };
            let ms = now_ms.saturating_sub(since);
            self.tests.push(TestRow {
                name,
                verdict: Outcome::Failed,
                ms,
                text,
            });
        }
        if self.more_faults > 0 {
            self.faults.push(format!("{} more", self.more_faults));
        }
        if !why.is_empty() {
            self.faults.insert(0, why);
        }
        if !self.faults.is_empty() {
            let text = self.faults.join("; ");
            let name = "boot.verdict".into();
            self.tests.push(TestRow {
                name,
                verdict: Outcome::Failed,
                ms: now_ms,
                text,
            });
        }
        if verdict == Verdict::Passed && self.tests.iter().any(|t| t.verdict == Outcome::Failed) {
            verdict = Verdict::Failed;
        }
        Judged {
            verdict,
            tests: self.tests,
            metrics: self.metrics,
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
