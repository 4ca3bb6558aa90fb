// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios that test the harness, on demand only: a run that panics, one that dies, one that
//! hangs, one that says nothing.

use crate::cmdline::CommandLine;
use crate::machine::{self, Machine};
use crate::scenario::Scenario;
use crate::verdict::Verdict;

/// The scenario after which an image prints nothing at all.
pub const SILENT: &str = "silent";

/// `panic`: a panic within a test.
pub const fn panic<C>() -> Scenario<C> {
    Scenario {
        name: "panic",
        tests: crate::tests![panics],
    }
}

/// `die`: the machine powers off within a test.
pub const fn die<C>() -> Scenario<C> {
    Scenario {
        name: "die",
        tests: crate::tests![dies],
    }
}

/// `hang`: a test that never ends.
pub const fn hang<C>() -> Scenario<C> {
    Scenario {
        name: "hang",
        tests: crate::tests![hangs],
    }
}

/// Stops the CPU if the command line asks for silence. Called before anything is printed.
pub fn silence(machine: &dyn Machine, line: CommandLine<'_>) {
    if line.list("scenario").any(|name| name == SILENT) {
        machine.halt();
    }
}

fn panics<C>(_: &C) -> Verdict {
    panic!("a panic that was asked for,\nof two lines")
}

fn dies<C>(_: &C) -> Verdict {
    match machine::get() {
        Some(machine) => machine.power_off(),
        None => Ok(()),
    }
}

fn hangs<C>(_: &C) -> Verdict {
    match machine::get() {
        Some(machine) => machine.halt(),
        None => Ok(()),
    }
}
