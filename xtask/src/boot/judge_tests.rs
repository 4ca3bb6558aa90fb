// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule of the protocol, and the verdict it leads to.

use proptest::prelude::*;

use super::*;
use crate::boot::line::Lines;
use crate::boot::protocol::parse;

fn feed(judge: &mut Judge, bytes: &[u8]) {
    let mut lines = Lines::default();
    lines.push(bytes, |raw| {
        judge.line(parse(&raw), raw.bytes.is_empty(), 5)
    });
    if let Some(raw) = lines.rest() {
        judge.line(parse(&raw), false, 5);
    }
}

fn judged(text: &str, end: End) -> Judged {
    let mut judge = Judge::new(&["s".into()]);
    feed(&mut judge, text.as_bytes());
    judge.finish(&end, 9)
}

fn left(text: &str) -> Judged {
    judged(text, End::Left)
}

/// The boot fails, and its own row says `why`.
#[track_caller]
fn fails_with(text: &str, why: &str) {
    let got = left(text);
    assert_eq!(got.verdict, Verdict::Failed, "{got:?}");
    let row = got.tests.last().unwrap();
    assert_eq!(
        (row.name.as_str(), row.verdict),
        ("boot.verdict", Outcome::Failed)
    );
    assert!(row.text.contains(why), "{:?} lacks {why:?}", row.text);
}

#[test]
fn a_complete_plan_passes() {
    let got = left(
        "hello\n@plan 2\n@start s.a\n@metric n 3 ns\n@ok s.a 7\ntext\n@start s.b\n@ok s.b 0\n@end\n",
    );
    assert_eq!(got.verdict, Verdict::Passed);
    assert_eq!(got.tests.len(), 2);
    assert_eq!(
        got.tests[0],
        TestRow {
            name: "s.a".into(),
            verdict: Outcome::Passed,
            ms: 7,
            text: String::new()
        }
    );
    assert_eq!(
        (got.metrics[0].test.as_str(), got.metrics[0].name.as_str()),
        ("s.a", "n")
    );
}

#[test]
fn a_failed_test_fails_the_boot_and_keeps_its_place() {
    let got = left("@plan 1\n@start s.a\n@fail s.a src/x.rs:3 no\n@end\n");
    assert_eq!(got.verdict, Verdict::Failed);
    assert_eq!(got.tests.len(), 1);
    assert_eq!(got.tests[0].text, "src/x.rs:3 no");
}

#[test]
fn a_skipped_test_does_not_fail_the_boot() {
    let got = left("@plan 2\n@skip s.a none here\n@start s.b\n@skip s.b nor here\n@end\n");
    assert_eq!(got.verdict, Verdict::Passed);
    assert!(got.tests.iter().all(|t| t.verdict == Outcome::Skipped));
    assert_eq!(got.tests[0].text, "none here");
}

#[test]
fn an_unknown_word_fails_the_boot() {
    fails_with(
        "@plan 1\n@hello\n@start s.a\n@ok s.a 1\n@end\n",
        "unknown protocol word: `@hello`",
    );
}

#[test]
fn a_name_twice_fails_the_boot() {
    fails_with(
        "@plan 2\n@start s.a\n@ok s.a 1\n@start s.a\n@ok s.a 1\n@end\n",
        "s.a came twice",
    );
    fails_with(
        "@plan 2\n@start s.a\n@ok s.a 1\n@skip s.a x\n@end\n",
        "s.a came twice",
    );
}

#[test]
fn a_line_after_end_fails_the_boot() {
    for line in ["@end", "@start s.b", "console text", "@plan 1"] {
        fails_with(
            &format!("@plan 1\n@start s.a\n@ok s.a 1\n@end\n{line}\n"),
            "a line after `@end`",
        );
    }
}

#[test]
fn an_empty_line_after_end_is_no_fault() {
    assert_eq!(
        left("@plan 1\n@start s.a\n@ok s.a 1\n@end\n\r\n\n").verdict,
        Verdict::Passed
    );
}

#[test]
fn a_metric_outside_a_test_fails_the_boot() {
    fails_with(
        "@plan 1\n@metric n 1 ns\n@start s.a\n@ok s.a 1\n@end\n",
        "belongs to no running test",
    );
}

#[test]
fn a_value_that_is_not_decimal_fails_the_boot() {
    fails_with(
        "@plan 1\n@start s.a\n@metric n 0x1 ns\n@ok s.a 1\n@end\n",
        "not a decimal number",
    );
}

#[test]
fn an_end_of_a_test_that_is_not_running_fails_the_boot() {
    fails_with(
        "@plan 1\n@ok s.a 1\n@end\n",
        "s.a ended but was not running",
    );
    fails_with(
        "@plan 2\n@start s.a\n@ok s.b 1\n@ok s.a 1\n@end\n",
        "s.b ended but was not running",
    );
    fails_with(
        "@plan 1\n@fail s.a x.rs:1 t\n@end\n",
        "s.a ended but was not running",
    );
    fails_with(
        "@plan 2\n@start s.a\n@skip s.b why\n@ok s.a 1\n@end\n",
        "s.b ended but was not running",
    );
}

#[test]
fn a_start_inside_a_test_fails_the_boot() {
    fails_with(
        "@plan 2\n@start s.a\n@start s.b\n@ok s.a 1\n@end\n",
        "s.b began while s.a ran",
    );
}

#[test]
fn a_plan_that_is_not_first_fails_the_boot() {
    fails_with(
        "@start s.a\n@plan 1\n@ok s.a 1\n@end\n",
        "`@plan` is not the first",
    );
}

#[test]
fn a_missing_plan_fails_the_boot() {
    fails_with("@start s.a\n@ok s.a 1\n@end\n", "`@plan` is not the first");
    fails_with("@end\n", "`@plan` is not the first");
}

#[test]
fn a_plan_twice_fails_the_boot() {
    fails_with(
        "@plan 1\n@plan 1\n@start s.a\n@ok s.a 1\n@end\n",
        "`@plan` came twice",
    );
}

#[test]
fn an_incomplete_plan_fails_the_boot() {
    fails_with(
        "@plan 2\n@start s.a\n@ok s.a 1\n@end\n",
        "a plan of 2 tests, but 1 ended",
    );
}

#[test]
fn a_test_beyond_the_plan_fails_the_boot() {
    fails_with(
        "@plan 1\n@start s.a\n@ok s.a 1\n@start s.b\n@ok s.b 1\n@end\n",
        "s.b is beyond the plan",
    );
}

#[test]
fn an_absurd_plan_fails_the_boot() {
    fails_with(
        "@plan 4294967295\n@start s.a\n@ok s.a 1\n@end\n",
        "beyond 10000",
    );
}

#[test]
fn an_end_inside_a_test_fails_the_boot_and_the_test() {
    let got = left("@plan 1\n@start s.a\n@end\n");
    assert_eq!(got.verdict, Verdict::Failed);
    assert_eq!(got.tests[0].verdict, Outcome::Failed);
    assert!(got.tests[1].text.contains("`@end` while s.a ran"));
}

#[test]
fn a_scenario_that_ran_no_test_fails_the_boot() {
    fails_with(
        "@plan 1\n@start other.a\n@ok other.a 1\n@end\n",
        "the scenario s ran no test",
    );
    fails_with("@plan 0\n@end\n", "the scenario s ran no test");
}

#[test]
fn an_unfinished_protocol_line_fails_the_boot() {
    let got = left("@plan 1\n@start s.a\n@ok s.a 1\n@end");
    assert_eq!(got.verdict, Verdict::Died);
    assert!(got.tests.last().unwrap().text.contains("not written whole"));
}

#[test]
fn qemu_that_ends_before_end_died_and_the_running_test_failed() {
    let got = left("@plan 2\n@start s.a\n@ok s.a 1\n@start s.b\n");
    assert_eq!(got.verdict, Verdict::Died);
    assert_eq!(got.tests.len(), 2);
    assert_eq!(got.tests[1].verdict, Outcome::Failed);
    assert_eq!(got.tests[1].ms, 4);
    assert!(got.tests[1].text.contains("ended before `@end`"));
}

#[test]
fn qemu_that_prints_nothing_and_ends_died() {
    let got = left("");
    assert_eq!(got.verdict, Verdict::Died);
    assert_eq!(got.tests[0].name, "boot.verdict");
}

#[test]
fn qemu_that_ends_by_a_signal_is_told() {
    let got = judged("@plan 1\n", End::Broke("signal 11".into()));
    assert_eq!(got.verdict, Verdict::Died);
    assert!(got.tests[0].text.contains("signal 11"));
}

#[test]
fn a_bad_exit_status_after_end_fails_the_boot() {
    let got = judged(
        "@plan 1\n@start s.a\n@ok s.a 1\n@end\n",
        End::Broke("status 1".into()),
    );
    assert_eq!(got.verdict, Verdict::Failed);
    assert!(got.tests[1].text.contains("status 1"));
}

#[test]
fn a_panic_died_and_its_place_is_in_the_running_test() {
    for end in [
        End::Left,
        End::CutOff("silent".into()),
        End::Broke("status 1".into()),
    ] {
        let got = judged(
            "@plan 1\n@start s.a\npanic at boards/x.rs:7:3: oh\nmore\n",
            end,
        );
        assert_eq!(got.verdict, Verdict::Died);
        assert_eq!(got.tests.len(), 1);
        assert_eq!(got.tests[0].name, "s.a");
        assert_eq!(got.tests[0].text, "panic at boards/x.rs:7:3: oh");
    }
}

#[test]
fn a_panic_outside_a_test_is_told_by_the_boot() {
    let got = left("panic at x.rs:1: early\n");
    assert_eq!(got.verdict, Verdict::Died);
    assert_eq!(got.tests[0].name, "boot.verdict");
    assert_eq!(got.tests[0].text, "panic at x.rs:1: early");
}

#[test]
fn a_panic_after_a_complete_plan_still_died() {
    let got = left("@plan 1\n@start s.a\n@ok s.a 1\n@end\npanic at x.rs:1: late\n");
    assert_eq!(got.verdict, Verdict::Died);
}

#[test]
fn the_first_of_two_panics_is_told() {
    let got = left("panic at x.rs:1: first\npanic at x.rs:2: second\n");
    assert!(got.tests[0].text.contains("first"));
}

#[test]
fn silence_hung_and_the_running_test_says_so() {
    let got = judged(
        "@plan 1\n@start s.a\n",
        End::CutOff("silent for 5 s".into()),
    );
    assert_eq!(got.verdict, Verdict::Hung);
    assert_eq!(got.tests[0].text, "silent for 5 s");
}

#[test]
fn an_image_that_does_not_power_off_after_end_hung() {
    let got = judged(
        "@plan 1\n@start s.a\n@ok s.a 1\n@end\n",
        End::CutOff("silent".into()),
    );
    assert_eq!(got.verdict, Verdict::Hung);
    assert!(got.tests[1].text.contains("after `@end`"));
}

#[test]
fn broken_rules_are_told_up_to_a_bound() {
    let text: String = (0..10_000).map(|i| format!("@junk{i}\n")).collect();
    let got = left(&text);
    let row = got.tests.last().unwrap();
    assert!(
        row.text.len() < 1000 && row.text.contains("9995 more"),
        "{}",
        row.text
    );
}

#[test]
fn a_guest_error_that_is_not_allowed_fails_a_boot_that_would_pass() {
    let mut got = left("@plan 1\n@start s.a\n@ok s.a 0\n@end\n");
    got.guest_errors(None);
    assert_eq!((got.verdict, got.tests.len()), (Verdict::Passed, 1));
    got.guest_errors(Some(("bad".into(), 3)));
    assert_eq!(got.verdict, Verdict::Failed);
    assert_eq!(
        got.tests[1].text,
        "3 guest errors that are not allowed, the first: bad"
    );
    let mut died = left("@plan 1\n");
    died.guest_errors(Some(("bad".into(), 1)));
    assert_eq!(died.verdict, Verdict::Died);
}

proptest! {
    #[test]
    fn any_bytes_are_judged_without_a_panic_and_never_pass(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut judge = Judge::new(&["s".into()]);
        feed(&mut judge, &bytes);
        prop_assert_ne!(judge.finish(&End::Left, 1).verdict, Verdict::Passed);
    }

    #[test]
    fn any_sequence_of_protocol_lines_passes_only_when_each_planned_test_ended_well(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("@plan 1"), Just("@plan 2"), Just("@start s.a"), Just("@start s.b"), Just("@ok s.a 1"),
                Just("@ok s.b 1"), Just("@fail s.a x.rs:1 t"), Just("@skip s.b w"), Just("@metric m 1 n"),
                Just("@end"), Just("text"), Just("@bad"), Just("panic at x.rs:1: p"),
            ], 0..12),
        broke: bool,
    ) {
        let text = lines.join("\n") + "\n";
        let end = if broke { End::Broke("status 1".into()) } else { End::Left };
        let got = judged(&text, end);
        let failed = got.tests.iter().filter(|t| t.verdict == Outcome::Failed).count();
        prop_assert_eq!(got.verdict == Verdict::Passed, failed == 0);
        if got.verdict == Verdict::Passed {
            prop_assert!(!broke);
            prop_assert_eq!(lines.iter().filter(|l| **l == "@end").count(), 1);
            prop_assert_eq!(*lines.last().unwrap(), "@end");
            let planned = if lines.contains(&"@plan 1") { 1 } else { 2 };
            prop_assert_eq!(got.tests.len(), planned);
        }
    }
}
