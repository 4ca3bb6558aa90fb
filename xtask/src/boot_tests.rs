// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boots and refusals that `cargo xtask test` finds in each `board.toml`.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::board::{Board, Planned, Refusal};
use crate::boot::report::{Boot, Outcome, Verdict};
use crate::boot::{self, For};
use crate::process;
use crate::run::build_images;
use crate::select::machines;
use crate::setup::Ready;
use crate::tally::{Section, row};

/// Runs the boots of the chosen machines whose name contains `filter`.
pub fn run(
    boards: &[Board],
    names: &[String],
    filter: &str,
    ready: &Ready,
) -> Result<Vec<Section>> {
    let chosen = machines(boards, names)?;
    let wanted = |boot: &Planned| {
        boot.name.contains(filter) && chosen.iter().any(|(_, m)| m.name == boot.machine)
    };
    let used: Vec<&Board> = boards
        .iter()
        .filter(|b| b.boots.iter().any(wanted))
        .collect();
    let images = build_images(&used, ready)?;
    let mut sections = Vec::new();
    for board in &used {
        for test in board.boots.iter().filter(|t| wanted(t)) {
            let started = Instant::now();
            let rows = match &images[&board.name] {
                Ok(image) => one_boot(board, test, image, ready)?,
                Err(why) => vec![row(&test.name, Some(why.clone()), 0)],
            };
            sections.push(Section {
                name: format!("boot {}", test.machine),
                time: started.elapsed(),
                rows,
            });
        }
    }
    for board in boards
        .iter()
        .filter(|b| chosen.iter().any(|(c, _)| c.name == b.name))
    {
        let started = Instant::now();
        let list = board.refusals.iter().filter(|r| r.name.contains(filter));
        let rows = list.map(one_refusal).collect::<Result<Vec<_>>>()?;
        if !rows.is_empty() {
            sections.push(Section {
                name: format!("refusals {}", board.name),
                time: started.elapsed(),
                rows,
            });
        }
    }
    Ok(sections)
}

type Rows = Vec<crate::boot::report::TestRow>;

fn one_boot(board: &Board, test: &Planned, image: &Path, ready: &Ready) -> Result<Rows> {
    let job = boot::planned(
        board,
        test,
        For::Test(&test.name),
        image,
        ready.emulator(board)?,
    )?;
    eprintln!("{}", test.name);
    let booted = boot::boot(&job, test.expect)?;
    let console = std::fs::read_to_string(booted.folder.join("console.log"))?;
    Ok(judge(test, booted.boot, &console))
}

/// Of a boot that is to pass each test counts, of another one the boot counts as one test.
fn judge(test: &Planned, boot: Boot, console: &str) -> Rows {
    let mut trouble = Vec::new();
    if boot.verdict != test.expect {
        trouble.push(format!(
            "the verdict is {}, not {}",
            boot.verdict.word(),
            test.expect.word()
        ));
    }
    if let Some(text) = &test.text
        && !boot
            .tests
            .iter()
            .any(|t| t.verdict == Outcome::Failed && t.text.contains(text))
    {
        trouble.push(format!("no failed test says `{text}`"));
    }
    if let Some(text) = &test.console
        && !console.contains(text)
    {
        trouble.push(format!("the console does not say `{text}`"));
    }
    let skips = boot.count(Outcome::Skipped);
    if test.expect == Verdict::Passed && skips != test.skips {
        trouble.push(format!("{skips} tests were skipped, not {}", test.skips));
    }
    let own = row(
        &test.name,
        (!trouble.is_empty()).then(|| trouble.join("; ")),
        boot.wall_ms,
    );
    match test.expect {
        Verdict::Passed => {
            let named = |mut t: crate::boot::report::TestRow| {
                t.name = format!("{}/{}", test.name, t.name);
                t
            };
            let mut rows: Rows = boot.tests.into_iter().map(named).collect();
            if own.verdict == Outcome::Failed || test.console.is_some() {
                rows.push(own);
            }
            rows
        }
        _ => vec![own],
    }
}

/// The program that runs, also when a build has replaced its file: building the tests of this
/// tool links it once more, in the same place.
fn this_tool() -> Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    Ok(std::env::current_exe()?)
}

fn one_refusal(refusal: &Refusal) -> Result<crate::boot::report::TestRow> {
    eprintln!("{}", refusal.name);
    let started = Instant::now();
    let mut command = Command::new(this_tool()?);
    command.args(&refusal.args).envs(&refusal.env);
    let said = process::capture(command, Duration::from_secs(60))?;
    let trouble = if said.trouble.as_deref() != Some("status 2") {
        Some(format!(
            "it ended with {}, not with status 2",
            said.trouble.as_deref().unwrap_or("status 0")
        ))
    } else if !said.err.contains(&refusal.says) {
        Some(format!(
            "it does not say `{}` but: {}",
            refusal.says,
            said.err.trim()
        ))
    } else {
        None
    };
    Ok(row(
        &refusal.name,
        trouble,
        started.elapsed().as_millis() as u64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::report::TestRow;

    fn test(more: &str) -> Planned {
        toml::from_str(&format!(
            "name = \"n\"\nmachine = \"m\"\ncpus = 1\nnodes = 1\nscenarios = []\n{more}"
        ))
        .unwrap()
    }

    fn boot(verdict: Verdict, text: &str) -> Boot {
        let outcome = if verdict == Verdict::Passed {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        Boot {
            machine: "m".into(),
            board: "b".into(),
            cpus: 1,
            nodes: 1,
            threads: 1,
            qemu: "10.0.2".into(),
            verdict,
            wall_ms: 1,
            tests: vec![TestRow {
                name: "s.a".into(),
                verdict: outcome,
                ms: 0,
                text: text.into(),
            }],
            metrics: vec![],
        }
    }

    fn verdicts(rows: &Rows) -> Vec<(String, Outcome)> {
        rows.iter().map(|r| (r.name.clone(), r.verdict)).collect()
    }

    #[test]
    fn a_boot_that_is_to_pass_counts_its_tests() {
        let rows = judge(&test(""), boot(Verdict::Passed, ""), "");
        assert_eq!(verdicts(&rows), [("n/s.a".into(), Outcome::Passed)]);
    }

    #[test]
    fn a_boot_that_is_to_pass_and_does_not_fails_by_its_own_name_too() {
        let rows = judge(&test(""), boot(Verdict::Hung, "silent"), "");
        assert_eq!(
            verdicts(&rows),
            [
                ("n/s.a".into(), Outcome::Failed),
                ("n".into(), Outcome::Failed)
            ]
        );
    }

    #[test]
    fn a_boot_that_skips_other_tests_than_it_tells_fails() {
        let skipped = || {
            let mut boot = boot(Verdict::Passed, "");
            boot.tests[0].verdict = Outcome::Skipped;
            boot
        };
        let rows = judge(&test(""), skipped(), "");
        assert_eq!(rows[1].verdict, Outcome::Failed);
        assert_eq!(rows[1].text, "1 tests were skipped, not 0");
        let rows = judge(&test("skips = 1"), skipped(), "");
        assert_eq!(verdicts(&rows), [("n/s.a".into(), Outcome::Skipped)]);
        let rows = judge(&test("skips = 1"), boot(Verdict::Passed, ""), "");
        assert_eq!(rows[1].verdict, Outcome::Failed);
    }

    #[test]
    fn an_expected_bad_verdict_counts_as_one_passed_test() {
        let rows = judge(
            &test("expect = \"hung\""),
            boot(Verdict::Hung, "silent"),
            "",
        );
        assert_eq!(verdicts(&rows), [("n".into(), Outcome::Passed)]);
    }

    #[test]
    fn a_verdict_that_was_not_expected_fails() {
        for got in [Verdict::Passed, Verdict::Failed, Verdict::Hung] {
            let rows = judge(&test("expect = \"died\""), boot(got, ""), "");
            assert_eq!(verdicts(&rows), [("n".into(), Outcome::Failed)]);
        }
    }

    #[test]
    fn the_text_that_is_expected_must_be_there() {
        let test = test("expect = \"died\"\ntext = \"panic at \"");
        assert_eq!(
            judge(&test, boot(Verdict::Died, "panic at x.rs:1"), "")[0].verdict,
            Outcome::Passed
        );
        assert_eq!(
            judge(&test, boot(Verdict::Died, "gone"), "panic at x.rs:1")[0].verdict,
            Outcome::Failed
        );
    }

    #[test]
    fn the_console_text_that_is_expected_must_be_there() {
        let test = test("console = \"no redistributor\"");
        let rows = judge(
            &test,
            boot(Verdict::Passed, ""),
            "cpu 3: no redistributor\n",
        );
        assert_eq!(
            verdicts(&rows),
            [
                ("n/s.a".into(), Outcome::Passed),
                ("n".into(), Outcome::Passed)
            ]
        );
        assert_eq!(
            judge(&test, boot(Verdict::Passed, ""), "")[1].verdict,
            Outcome::Failed
        );
    }
}
