// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a test ends: [`Verdict`], and the macros that make one.
//!
//! A test returns at the first thing that is wrong; it never panics for it, so that the run
//! goes on.

use alloc::string::String;
use core::fmt;

use irq_hal::CpuIndex;

/// How a test ends.
pub type Verdict = Result<(), Stop>;

/// Why a test stopped before its end.
#[derive(Debug)]
pub enum Stop {
    /// Something is wrong.
    Fail(Failure),
    /// The test does not apply to this machine.
    Skip(&'static str),
}

impl Stop {
    /// The same, noticed by a job on `cpu`.
    #[must_use]
    pub fn on(self, cpu: CpuIndex) -> Self {
        match self {
            Self::Fail(failure) => Self::Fail(Failure {
                text: alloc::format!("{cpu}: {failure}"),
                ..failure
            }),
            skip => skip,
        }
    }
}

/// What is wrong, and the place in the image's source that noticed.
#[derive(Debug)]
pub struct Failure {
    file: &'static str,
    line: u32,
    text: String,
}

impl Failure {
    /// A failure noticed at `file:line`.
    pub fn new(file: &'static str, line: u32, text: fmt::Arguments<'_>) -> Self {
        let text = alloc::fmt::format(text);
        Self { file, line, text }
    }

    /// A failure noticed by the caller.
    #[track_caller]
    pub fn here(text: fmt::Arguments<'_>) -> Self {
        let place = core::panic::Location::caller();
        Self::new(place.file(), place.line(), text)
    }

    /// File and line.
    pub const fn place(&self) -> (&'static str, u32) {
        (self.file, self.line)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Names the place of the call that ended in an error, and stops the test.
pub trait OrFail<T> {
    /// The value; else a failure at the caller's place, that says `what` and the error.
    ///
    /// # Errors
    /// [`Stop::Fail`].
    #[track_caller]
    fn or_fail(self, what: &str) -> Result<T, Stop>;
}

impl<T, E: fmt::Display> OrFail<T> for Result<T, E> {
    #[track_caller]
    fn or_fail(self, what: &str) -> Result<T, Stop> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(Stop::Fail(Failure::here(format_args!("{what}: {error}")))),
        }
    }
}

/// Stops the test as failed, with a text.
#[macro_export]
macro_rules! fail {
    ($($arg:tt)*) => {
        return ::core::result::Result::Err($crate::verdict::Stop::Fail(
            $crate::verdict::Failure::new(
                ::core::file!(), ::core::line!(), ::core::format_args!($($arg)*),
            ),
        ))
    };
}

/// Stops the test as failed unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($arg:tt)+) => {
        if !$condition {
            $crate::fail!($($arg)+);
        }
    };
}

/// Stops the test as failed unless the two are equal; the text says what they are.
#[macro_export]
macro_rules! check_eq {
    ($left:expr, $right:expr, $($arg:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if *left != *right {
                    $crate::fail!(
                        "{}: {:?} instead of {:?}", ::core::format_args!($($arg)+), left, right,
                    );
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_are_three() -> Verdict {
        check_eq!(1 + 1, 3, "sum of {}", 2);
        Ok(())
    }

    #[test]
    fn a_failure_carries_place_and_text() {
        let Err(Stop::Fail(failure)) = two_are_three() else {
            panic!("must fail")
        };
        assert_eq!(failure.to_string(), "sum of 2: 2 instead of 3");
        assert!(failure.place().0.ends_with("verdict.rs"));
        assert!(failure.place().1 > 0);
    }
}
