// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what a test binary prints when it is run with [`SHOW_OUTPUT`].
//!
//! libtest has no way to skip a test while it runs. A test that finds nothing to test prints
//! `skipped: why` in column 0 and returns: it is counted as skipped, not as passed.

use crate::boot::report::{Outcome, TestRow};

/// Makes libtest print what successful tests printed.
pub const SHOW_OUTPUT: &str = "--show-output";

/// The tests in `out`, which ended with `trouble` if any. What cannot be accounted for is a
/// failed test named `suite`.
pub fn read(out: &str, trouble: Option<&str>) -> Vec<TestRow> {
    let mut rows: Vec<TestRow> = out.lines().filter_map(test_line).collect();
    let told = out
        .lines()
        .filter_map(summary)
        .reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    let count = |o| rows.iter().filter(|r| r.verdict == o).count();
    let read = [
        count(Outcome::Passed),
        count(Outcome::Failed),
        count(Outcome::Skipped),
    ];
    let why = match (told, trouble) {
        (_, Some(how)) if read[1] == 0 => Some(format!("it ended with {how}")),
        (None, _) => Some("it gave no result".to_string()),
        (Some(told), _) if told != read => Some(format!(
            "it tells of {told:?} tests passed, failed, ignored, but shows {read:?}"
        )),
        _ => None,
    };
    for (name, why) in skipped(out) {
        let row = rows
            .iter_mut()
            .find(|r| r.name == name && r.verdict == Outcome::Passed);
        if let Some(row) = row {
            (row.verdict, row.text) = (Outcome::Skipped, why.into());
        }
    }
    if let Some(text) = why {
        rows.push(TestRow {
            name: "suite".into(),
            verdict: Outcome::Failed,
            ms: 0,
            text,
        });
    }
    rows
}

fn test_line(line: &str) -> Option<TestRow> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let (verdict, text) = match result {
        "ok" => (Outcome::Passed, ""),
        "FAILED" => (Outcome::Failed, "see its output above"),
        "ignored" => (Outcome::Skipped, "ignored"),
        _ => (Outcome::Skipped, result.strip_prefix("ignored, ")?),
    };
    Some(TestRow {
        name: name.into(),
        verdict,
        ms: 0,
        text: text.into(),
    })
}

/// The tests that say that they skipped themselves, with their reason.
fn skipped(out: &str) -> Vec<(&str, &str)> {
    let mut test = "";
    let mut found = Vec::new();
    for line in out.lines() {
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|l| l.strip_suffix(" stdout ----"))
        {
            test = name;
        } else if let Some(why) = line.strip_prefix("skipped: ") {
            found.push((test, why));
        }
    }
    found
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; ...`
fn summary(line: &str) -> Option<[usize; 3]> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut numbers = counts
        .split("; ")
        .map(|c| c.split(' ').next().and_then(|n| n.parse().ok()));
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
running 3 tests
test a::b ... ok
test c - should panic ... ok
test d ... ignored, takes an hour

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn passed_and_ignored_tests_are_counted_with_their_reason() {
        let rows = read(GOOD, None);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            (rows[2].verdict, rows[2].text.as_str()),
            (Outcome::Skipped, "takes an hour")
        );
    }

    #[test]
    fn a_test_that_says_it_skipped_itself_is_skipped() {
        let out = GOOD.replace(
            "\ntest result",
            "\nsuccesses:\n\n---- a::b stdout ----\nskipped: no emulator\n\n\nsuccesses:\n    a::b\n    c\n\ntest result",
        );
        let rows = read(&out, None);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            (rows[0].verdict, rows[0].text.as_str()),
            (Outcome::Skipped, "no emulator")
        );
        assert_eq!(rows[1].verdict, Outcome::Passed);
    }

    #[test]
    fn a_failed_test_is_failed_whatever_it_says_of_skipping() {
        let out = "test a ... FAILED\n---- a stdout ----\nskipped: x\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n";
        assert_eq!(read(out, Some("status 101"))[0].verdict, Outcome::Failed);
    }

    #[test]
    fn a_failed_test_is_counted_once() {
        let out = "test a ... FAILED\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n";
        let rows = read(out, Some("status 101"));
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].verdict, Outcome::Failed);
    }

    #[test]
    fn a_binary_that_dies_is_a_failed_test() {
        let rows = read("running 2 tests\ntest a ... ok\n", Some("signal 6"));
        assert_eq!(rows[1].text, "it ended with signal 6");
        assert_eq!(
            read(GOOD, Some("status 1")).last().unwrap().verdict,
            Outcome::Failed
        );
    }

    #[test]
    fn a_binary_that_gives_no_result_is_a_failed_test() {
        assert_eq!(read("", None)[0].verdict, Outcome::Failed);
        assert_eq!(read("running 1 test\n", None)[0].verdict, Outcome::Failed);
    }

    #[test]
    fn counts_that_do_not_agree_are_a_failed_test() {
        let rows = read(&GOOD.replace("test a::b ... ok\n", ""), None);
        assert!(rows.last().unwrap().text.contains("but shows"));
    }

    #[test]
    fn several_summaries_are_added_up() {
        assert_eq!(read(&format!("{GOOD}{GOOD}"), None).len(), 6);
    }
}
