// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line protocol that a run is judged by.
//!
//! ```text
//! @plan N                    once, first: how many tests follow
//! @start name                name is scenario.test, of [a-z0-9_.]
//! @metric name value unit    value decimal; belongs to the running test
//! @ok name ms
//! @fail name file:line text
//! @skip name why
//! @end                       nothing of the protocol after it
//! ```
//! Each line begins in column 0 and is written whole, under one lock.

use core::fmt;

use crate::console::protocol_line;
use crate::verdict::Failure;

/// A test's full name, `scenario.test`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TestName<'a> {
    scenario: &'a str,
    test: &'a str,
}

impl<'a> TestName<'a> {
    /// The name of `test` of `scenario`.
    ///
    /// # Panics
    /// If a part is empty or holds anything but `[a-z0-9_.]`: names are constants of an image.
    pub const fn new(scenario: &'a str, test: &'a str) -> Self {
        assert!(
            is_name(scenario) && is_name(test),
            "a test's name is of [a-z0-9_.]"
        );
        Self { scenario, test }
    }
}

impl fmt::Display for TestName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.scenario, self.test)
    }
}

/// Whether `text` can be a name of the protocol.
pub const fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty()
}

/// `@plan`: how many tests will report.
pub fn plan(tests: usize) {
    protocol_line(format_args!("@plan {tests}"));
}

/// `@start`: the test begins.
pub fn start(name: TestName<'_>) {
    protocol_line(format_args!("@start {name}"));
}

/// `@ok`: the test passed, in `ms` milliseconds.
pub fn ok(name: TestName<'_>, ms: u64) {
    protocol_line(format_args!("@ok {name} {ms}"));
}

/// `@fail`: the test failed, where and why.
pub fn fail(name: TestName<'_>, failure: &Failure) {
    let (file, line) = failure.place();
    protocol_line(format_args!("@fail {name} {file}:{line} {failure}"));
}

/// `@skip`: the test does not apply, and why.
pub fn skip(name: TestName<'_>, why: &str) {
    protocol_line(format_args!("@skip {name} {why}"));
}

/// `@metric`: a number of the running test. `name` and `unit` are of `[a-z0-9_.]`.
///
/// # Panics
/// If they are not.
pub fn metric(name: &str, value: u64, unit: &str) {
    assert!(
        is_name(name) && is_name(unit),
        "a metric's name and unit are of [a-z0-9_.]"
    );
    protocol_line(format_args!("@metric {name} {value} {unit}"));
}

/// `@end`: the run is complete.
pub fn end() {
    protocol_line(format_args!("@end"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_small_letters_digits_underscore_and_dot() {
        assert!(is_name("smoke.ten_ticks.2"));
        for bad in ["", "Smoke", "a b", "a-b", "é", "a\n"] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
