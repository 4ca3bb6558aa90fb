// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what passed, across checks, host tests and boots, and says so at the end.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::boot::report::{Outcome, Suite, TestRow, write_junit};

/// Rows that belong together.
#[derive(Debug)]
pub struct Section {
    /// What they belong to.
    pub name: String,
    /// How long they took.
    pub time: Duration,
    /// The rows.
    pub rows: Vec<TestRow>,
}

/// All sections of one command.
#[derive(Debug, Default)]
pub struct Tally {
    /// In the order in which they ran.
    pub sections: Vec<Section>,
}

impl Tally {
    fn rows(&self, outcome: Outcome) -> impl Iterator<Item = (&str, &TestRow)> {
        let all = self
            .sections
            .iter()
            .flat_map(|s| s.rows.iter().map(move |r| (s.name.as_str(), r)));
        all.filter(move |(_, r)| r.verdict == outcome)
    }

    /// The closing line.
    pub fn line(&self) -> String {
        let count = |outcome| self.rows(outcome).count();
        format!(
            "{} passed, {} failed",
            count(Outcome::Passed),
            count(Outcome::Failed)
        )
    }

    fn write_junit(&self, path: &Path) -> Result<()> {
        let suites = self.sections.iter().map(|s| Suite {
            name: s.name.clone(),
            time: s.time,
            tests: &s.rows,
        });
        write_junit(path, &suites.collect::<Vec<_>>())
    }

    /// Prints what was skipped and what failed, then the closing line as the last one.
    pub fn close(&self, junit: Option<&Path>) -> Result<ExitCode> {
        // Before the text: the reader of that may be gone.
        let written = junit.map_or(Ok(()), |path| self.write_junit(path));
        for (section, row) in self.rows(Outcome::Skipped) {
            println!("  skipped: {section}: {}: {}", row.name, row.text);
        }
        match self.rows(Outcome::Skipped).count() {
            0 => {}
            skipped => println!("{skipped} skipped"),
        }
        for (section, row) in self.rows(Outcome::Failed) {
            println!("  failed: {section}: {}: {}", row.name, row.text);
        }
        if let Err(why) = &written {
            eprintln!("error: {why:#}");
        }
        println!("{}", self.line());
        let failed = self.rows(Outcome::Failed).next().is_some();
        // A run that tested nothing proves nothing.
        let empty = self.rows(Outcome::Passed).next().is_none();
        Ok(if failed || empty || written.is_err() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// A row that says how something went.
pub fn row(name: &str, trouble: Option<String>, ms: u64) -> TestRow {
    let verdict = if trouble.is_none() {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    TestRow {
        name: name.into(),
        verdict,
        ms,
        text: trouble.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(outcomes: &[Outcome]) -> Tally {
        let rows = outcomes.iter().map(|&verdict| TestRow {
            name: "n".into(),
            verdict,
            ms: 0,
            text: String::new(),
        });
        Tally {
            sections: vec![Section {
                name: "s".into(),
                time: Duration::ZERO,
                rows: rows.collect(),
            }],
        }
    }

    #[test]
    fn the_closing_line_is_the_contracts_whatever_was_skipped() {
        use Outcome::*;
        assert_eq!(tally(&[Passed, Passed]).line(), "2 passed, 0 failed");
        assert_eq!(
            tally(&[Passed, Failed, Skipped]).line(),
            "1 passed, 1 failed"
        );
    }

    #[test]
    fn a_junit_file_that_cannot_be_written_fails_a_tally_that_passed() {
        let dir = tempfile::tempdir().unwrap();
        let passed = tally(&[Outcome::Passed]);
        assert_eq!(passed.close(Some(dir.path())).unwrap(), ExitCode::FAILURE);
        let file = dir.path().join("junit.xml");
        assert_eq!(passed.close(Some(&file)).unwrap(), ExitCode::SUCCESS);
        assert!(file.exists());
    }

    #[test]
    fn nothing_tested_is_no_success() {
        assert_eq!(tally(&[]).close(None).unwrap(), ExitCode::FAILURE);
        assert_eq!(
            tally(&[Outcome::Skipped]).close(None).unwrap(),
            ExitCode::FAILURE
        );
        assert_eq!(
            tally(&[Outcome::Passed]).close(None).unwrap(),
            ExitCode::SUCCESS
        );
    }
}
