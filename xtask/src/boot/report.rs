// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a boot gave: the records that the table, JSON and JUnit are made of.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// How a boot ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The plan is complete, nothing failed, QEMU left by itself.
    Passed,
    /// A test failed or the protocol was broken.
    Failed,
    /// QEMU ended before `@end`, or the image panicked.
    Died,
    /// Cut off: silent, or too long, or endless output.
    Hung,
    /// There was no image to boot.
    Unbuilt,
}

impl Verdict {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Died => "died",
            Verdict::Hung => "hung",
            Verdict::Unbuilt => "unbuilt",
        }
    }
}

/// How a test ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It held.
    Passed,
    /// It did not hold.
    Failed,
    /// It was not run; the text says why.
    Skipped,
}

/// One test of a boot.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct TestRow {
    /// `scenario.test`; what concerns the boot as a whole is `boot.verdict`.
    pub name: String,
    /// How it ended.
    pub verdict: Outcome,
    /// Milliseconds: the image's own count, the host's where a test failed.
    pub ms: u64,
    /// Why it failed or was skipped, with the place.
    pub text: String,
}

/// A number that a test reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// The test that ran.
    pub test: String,
    /// The metric's name.
    pub name: String,
    /// Its value.
    pub value: serde_json::Number,
    /// Its unit.
    pub unit: String,
}

/// One boot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Boot {
    /// The name that `--machine` takes.
    pub machine: String,
    /// The board whose image was booted.
    pub board: String,
    /// CPUs in all.
    pub cpus: u32,
    /// Nodes they stand in.
    pub nodes: u32,
    /// Threads of a core.
    pub threads: u32,
    /// QEMU's version.
    pub qemu: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Wall-clock milliseconds from QEMU's start to its end.
    pub wall_ms: u64,
    /// Its tests in the order in which they ended.
    pub tests: Vec<TestRow>,
    /// Its metrics in the order in which they came.
    pub metrics: Vec<Metric>,
}

impl Boot {
    /// How many of its tests ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|t| t.verdict == outcome).count()
    }
}

/// All boots of one command, as `run --json` writes them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The version of this layout: 1.
    pub schema: u32,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that were skipped.
    pub skipped: usize,
    /// The boots in order.
    pub boots: Vec<Boot>,
}

impl Report {
    /// Sums up `boots`.
    pub fn new(boots: Vec<Boot>) -> Report {
        let sum = |outcome| boots.iter().map(|b| b.count(outcome)).sum();
        Report {
            schema: 1,
            passed: sum(Outcome::Passed),
            failed: sum(Outcome::Failed),
            skipped: sum(Outcome::Skipped),
            boots,
        }
    }

    /// Every boot passed, and some test did: a run that tested nothing proves nothing.
    pub fn success(&self) -> bool {
        self.passed > 0 && self.boots.iter().all(|b| b.verdict == Verdict::Passed)
    }

    /// Writes the report as JSON.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The table that ends `run`.
    pub fn table(&self) -> String {
        let head = [
            "machine", "cpus", "nodes", "threads", "passed", "failed", "skipped", "verdict", "ms",
        ];
        let rows = self.boots.iter().map(|b| {
            vec![
                b.machine.clone(),
                b.cpus.to_string(),
                b.nodes.to_string(),
                b.threads.to_string(),
                b.count(Outcome::Passed).to_string(),
                b.count(Outcome::Failed).to_string(),
                b.count(Outcome::Skipped).to_string(),
                b.verdict.word().to_string(),
                b.wall_ms.to_string(),
            ]
        });
        columns(&head, rows.collect())
    }
}

/// Text in aligned columns: words to the left, numbers to the right.
pub fn columns(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let width = |i: usize| {
        rows.iter()
            .map(|r| r[i].len())
            .chain([head[i].len()])
            .max()
            .unwrap_or(0)
    };
    let number = |i: usize| {
        rows.iter().all(|r| {
            r[i].bytes()
                .all(|b| b.is_ascii_digit() || b"+-.".contains(&b))
        })
    };
    let shape: Vec<_> = (0..head.len()).map(|i| (width(i), number(i))).collect();
    let show = |cells: Vec<&str>| {
        let cells: Vec<_> = cells
            .iter()
            .zip(&shape)
            .map(|(cell, &(w, right))| {
                if right {
                    format!("{cell:>w$}")
                } else {
                    format!("{cell:<w$}")
                }
            })
            .collect();
        cells.join("  ").trim_end().to_string() + "\n"
    };
    let mut text = show(head.to_vec());
    for row in &rows {
        text += &show(row.iter().map(String::as_str).collect());
    }
    text
}

/// One suite for JUnit: name, seconds, tests.
pub struct Suite<'a> {
    /// The suite's name.
    pub name: String,
    /// How long it took.
    pub time: Duration,
    /// Its tests.
    pub tests: &'a [TestRow],
}

/// Writes suites as JUnit XML.
pub fn write_junit(path: &Path, suites: &[Suite]) -> Result<()> {
    use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
    let mut report = quick_junit::Report::new("cargo xtask");
    for suite in suites {
        let mut out = TestSuite::new(suite.name.as_str());
        out.set_time(suite.time);
        for test in suite.tests {
            let mut status = match test.verdict {
                Outcome::Passed => TestCaseStatus::success(),
                Outcome::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
                Outcome::Skipped => TestCaseStatus::skipped(),
            };
            if test.verdict != Outcome::Passed {
                status.set_message(test.text.as_str());
            }
            let mut case = TestCase::new(test.name.as_str(), status);
            case.set_classname(suite.name.as_str());
            case.set_time(Duration::from_millis(test.ms));
            out.add_test_case(case);
        }
        report.add_test_suite(out);
    }
    let text = report.to_string()?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot() -> Boot {
        let test = |name: &str, verdict| TestRow {
            name: name.into(),
            verdict,
            ms: 3,
            text: "<&>".into(),
        };
        Boot {
            machine: "m".into(),
            board: "b".into(),
            cpus: 8,
            nodes: 2,
            threads: 1,
            qemu: "10.0.2".into(),
            verdict: Verdict::Failed,
            wall_ms: 1234,
            tests: vec![
                test("s.a", Outcome::Passed),
                test("s.b", Outcome::Failed),
                test("s.c", Outcome::Skipped),
            ],
            metrics: vec![Metric {
                test: "s.a".into(),
                name: "n".into(),
                value: 7.into(),
                unit: "ns".into(),
            }],
        }
    }

    #[test]
    fn json_has_exactly_the_fields_of_schema_1() {
        let report = Report::new(vec![boot()]);
        let value = serde_json::to_value(&report).unwrap();
        let keys =
            |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            keys(&value),
            ["boots", "failed", "passed", "schema", "skipped"]
        );
        assert_eq!(
            keys(&value["boots"][0]),
            [
                "board", "cpus", "machine", "metrics", "nodes", "qemu", "tests", "threads",
                "verdict", "wall_ms"
            ]
        );
        assert_eq!(
            keys(&value["boots"][0]["tests"][0]),
            ["ms", "name", "text", "verdict"]
        );
        assert_eq!(
            keys(&value["boots"][0]["metrics"][0]),
            ["name", "test", "unit", "value"]
        );
        assert_eq!(value["schema"], 1);
        assert_eq!(
            (&value["passed"], &value["failed"], &value["skipped"]),
            (&1.into(), &1.into(), &1.into())
        );
        assert_eq!(value["boots"][0]["verdict"], "failed");
        assert_eq!(value["boots"][0]["tests"][2]["verdict"], "skipped");
    }

    #[test]
    fn a_run_whose_tests_were_all_skipped_is_no_success() {
        let with = |outcome| {
            let mut boot = boot();
            boot.verdict = Verdict::Passed;
            boot.tests.retain(|t| t.verdict == outcome);
            Report::new(vec![boot])
        };
        assert!(with(Outcome::Passed).success());
        assert!(!with(Outcome::Skipped).success());
        assert!(!Report::new(vec![boot()]).success());
    }

    #[test]
    fn verdicts_are_spelt_alike_in_table_and_json() {
        for v in [
            Verdict::Passed,
            Verdict::Failed,
            Verdict::Died,
            Verdict::Hung,
            Verdict::Unbuilt,
        ] {
            assert_eq!(serde_json::to_value(v).unwrap(), v.word());
        }
    }

    #[test]
    fn the_table_aligns_words_left_and_numbers_right() {
        let text = Report::new(vec![boot()]).table();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "machine  cpus  nodes  threads  passed  failed  skipped  verdict    ms"
        );
        assert_eq!(
            lines[1],
            "m           8      2        1       1       1        1  failed   1234"
        );
    }

    #[test]
    fn junit_escapes_what_xml_reserves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("junit.xml");
        let boot = boot();
        let suite = Suite {
            name: "m".into(),
            time: Duration::from_millis(5),
            tests: &boot.tests,
        };
        write_junit(&path, &[suite]).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(
            text.contains("&lt;&amp;&gt;") && text.contains("s.b") && text.contains("skipped"),
            "{text}"
        );
    }
}
