// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios and the runner.
//!
//! A board lists its scenarios once, in a table; the command line's `scenario=a,b` chooses. A
//! test's context `C` is what the board has brought up.

use crate::cmdline::CommandLine;
use crate::machine::Machine;
use crate::protocol::{self, TestName};
use crate::time::millis_since;
use crate::verdict::{Failure, Stop, Verdict};

/// One test: a name and a function.
#[derive(Debug)]
pub struct Test<C: 'static> {
    /// The name within its scenario, of `[a-z0-9_.]`.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&C) -> Verdict,
}

/// A list of tests that are run together, in order.
#[derive(Debug)]
pub struct Scenario<C: 'static> {
    /// The name on the command line, of `[a-z0-9_.]`.
    pub name: &'static str,
    /// The tests.
    pub tests: &'static [Test<C>],
}

/// A table of tests from a list of functions; a test is named like its function. Each entry
/// may be a path.
///
/// ```
/// # use boards_common::{tests, verdict::Verdict};
/// fn two_and_two_are_four(_: &()) -> Verdict { Ok(()) }
/// const TESTS: &[boards_common::scenario::Test<()>] = tests![two_and_two_are_four];
/// assert_eq!(TESTS[0].name, "two_and_two_are_four");
/// ```
#[macro_export]
macro_rules! tests {
    ($($(#[$meta:meta])* $($path:ident)::+),* $(,)?) => {
        &[$($(#[$meta])* $crate::scenario::Test {
            name: $crate::tests!(@last $($path)::+),
            run: $($path)::+,
        }),*]
    };
    (@last $last:ident) => { ::core::stringify!($last) };
    (@last $first:ident :: $($rest:ident)::+) => { $crate::tests!(@last $($rest)::+) };
}

/// The scenario that runs when the command line names none.
pub const DEFAULT: &str = "smoke";

/// Runs the scenarios that `line` names, reports each test, and powers off.
pub fn run<C>(
    machine: &dyn Machine,
    line: CommandLine<'_>,
    scenarios: &[Scenario<C>],
    context: &C,
) -> ! {
    report(machine, line, scenarios, context);
    machine.power_off()
}

/// Runs the scenarios that `line` names, and reports each test.
///
/// A name that no scenario has fails the run, with the names there are.
pub fn report<C>(
    machine: &dyn Machine,
    line: CommandLine<'_>,
    scenarios: &[Scenario<C>],
    context: &C,
) {
    let chosen = line.list("scenario");
    let none = chosen.clone().next().is_none();
    let wanted = none.then_some(DEFAULT).into_iter().chain(chosen);
    let find = |name| scenarios.iter().find(|scenario| scenario.name == name);
    protocol::plan(
        wanted
            .clone()
            .map(|name| find(name).map_or(1, |found| found.tests.len()))
            .sum(),
    );
    for name in wanted {
        match find(name) {
            Some(scenario) => run_one(machine, scenario, context),
            None => unknown(name, scenarios),
        }
    }
    protocol::end();
}

fn run_one<C>(machine: &dyn Machine, scenario: &Scenario<C>, context: &C) {
    for test in scenario.tests {
        let name = TestName::new(scenario.name, test.name);
        protocol::start(name);
        let start = machine.now();
        match (test.run)(context) {
            Ok(()) => protocol::ok(name, millis_since(machine, start)),
            Err(Stop::Fail(failure)) => protocol::fail(name, &failure),
            Err(Stop::Skip(why)) => protocol::skip(name, why),
        }
    }
}

/// Reports a scenario that the image does not have, as a failed test of its name.
fn unknown<C>(wanted: &str, scenarios: &[Scenario<C>]) {
    for scenario in scenarios {
        crate::println!("this image has scenario {}", scenario.name);
    }
    let shown = if protocol::is_name(wanted) {
        wanted
    } else {
        "unknown"
    };
    let name = TestName::new(shown, "is_a_scenario");
    protocol::start(name);
    let failure = Failure::new(
        file!(),
        line!(),
        format_args!("no scenario is named {wanted}"),
    );
    protocol::fail(name, &failure);
}
