// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios that test the harness, on demand only: a run that panics, on the boot CPU or on
//! another, one that dies, one that hangs, one that says nothing.

use crate::bench::Bench;
use crate::cmdline::CommandLine;
use crate::crew::{Crew, online};
use crate::machine::{self, Machine};
use crate::scenario::Scenario;
use crate::verdict::{Stop, Verdict};

/// The scenario after which an image prints nothing at all.
pub const SILENT: &str = "silent";

/// `panic`: a panic within a test.
pub const fn panic<C>() -> Scenario<C> {
    Scenario {
        name: "panic",
        tests: crate::tests![panics],
    }
}

/// `panic_elsewhere`: a panic within a job of the last CPU, while the boot CPU waits.
pub const fn panic_elsewhere<B: Bench>() -> Scenario<B> {
    Scenario {
        name: "panic_elsewhere",
        tests: crate::tests![panics_elsewhere],
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

fn panics_elsewhere<B: Bench>(bench: &B) -> Verdict {
    /// Longer than a run may be silent: waiting for it would show.
    const MS: u32 = 60_000;
    match online(*bench).last() {
        Some(&last) if last != bench.machine().this_cpu() => {
            Crew::on(*bench, last, MS, |cpu| panic!("a panic on {cpu}"))
        }
        _ => Err(Stop::Skip("there is one CPU")),
    }
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
