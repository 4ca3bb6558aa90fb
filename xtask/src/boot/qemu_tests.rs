// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runner against shell scripts that stand in for QEMU.

use super::*;
use crate::boot::report::{Outcome, Verdict};

fn bounds() -> Bounds {
    Bounds {
        silence: Duration::from_secs(20),
        wall: Duration::from_secs(40),
        output: 1 << 20,
        after_panic: Duration::from_millis(100),
        files: Vec::new(),
        exit_status: 0,
    }
}

fn boot(script: &str, bounds: &Bounds) -> Ran {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    let mut log = tempfile::tempfile().unwrap();
    run(command, bounds, &mut log, Judge::new(&["s".into()]), |_| {}).unwrap()
}

const GOOD: &str = r"printf '@plan 1\r\n@start s.a\r\n@ok s.a 4\r\n@end\r\n'";

#[test]
fn an_image_that_says_its_lines_and_leaves_passes() {
    let ran = boot(GOOD, &bounds());
    assert_eq!(ran.judged.verdict, Verdict::Passed);
    assert_eq!(ran.judged.tests[0].ms, 4);
    assert_eq!(ran.tail.back().unwrap(), "@end");
}

#[test]
fn a_machine_leaves_with_the_status_that_its_board_tells() {
    let bounds = Bounds {
        exit_status: 33,
        ..bounds()
    };
    let ran = boot(&format!("{GOOD}; exit 33"), &bounds);
    assert_eq!(ran.judged.verdict, Verdict::Passed);
    let ran = boot(GOOD, &bounds);
    assert_eq!(ran.judged.verdict, Verdict::Failed);
    let text = &ran.judged.tests.last().unwrap().text;
    assert!(text.contains("QEMU ended with status 0"), "{text}");
}

#[test]
fn an_image_that_dies_is_reported_with_its_status_and_complaints() {
    let ran = boot(
        r"printf '@plan 1\n@start s.a\n'; echo 'no such device' >&2; exit 3",
        &bounds(),
    );
    assert_eq!(ran.judged.verdict, Verdict::Died);
    assert!(ran.judged.tests[0].text.contains("status 3"));
    assert!(ran.complaints.contains("no such device"));
}

#[test]
fn an_image_that_is_killed_is_reported_with_the_signal() {
    let ran = boot("kill -9 $$", &bounds());
    assert_eq!(ran.judged.verdict, Verdict::Died);
    assert!(ran.judged.tests[0].text.contains("signal 9"));
}

#[test]
fn an_image_that_prints_nothing_is_cut_off() {
    let started = Instant::now();
    let ran = boot(
        "exec sleep 60",
        &Bounds {
            silence: Duration::from_millis(300),
            ..bounds()
        },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
    assert!(ran.judged.tests[0].text.contains("silent for 0.3 s"));
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_image_that_hangs_in_a_test_is_cut_off_and_the_test_failed() {
    let script =
        r"printf 'hello\n@plan 2\n@start s.a\n@ok s.a 1\n@start s.b\nlast words\n'; exec sleep 60";
    let ran = boot(
        script,
        &Bounds {
            silence: Duration::from_millis(500),
            ..bounds()
        },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
    assert_eq!(ran.judged.tests[1].name, "s.b");
    assert_eq!(ran.judged.tests[1].verdict, Outcome::Failed);
    assert_eq!(ran.tail.back().unwrap(), "last words");
}

#[test]
fn an_image_that_talks_for_ever_meets_the_wall_clock() {
    let wall = Duration::from_millis(700);
    let ran = boot(
        "while :; do echo tick; sleep 0.05; done",
        &Bounds { wall, ..bounds() },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
    assert!(ran.judged.tests[0].text.contains("not done after 0.7 s"));
}

#[test]
fn an_image_that_prints_without_end_meets_the_output_bound() {
    let ran = boot("exec yes", &bounds());
    assert_eq!(ran.judged.verdict, Verdict::Hung);
    assert!(
        ran.judged.tests[0]
            .text
            .contains("printed more than 1048576 bytes")
    );
    assert_eq!(ran.tail.len(), TAIL);
}

#[test]
fn an_image_that_prints_one_endless_line_meets_the_output_bound() {
    let ran = boot("exec tr '\\0' x </dev/zero", &bounds());
    assert_eq!(ran.judged.verdict, Verdict::Hung);
    assert!(ran.tail.back().unwrap().len() < 5000);
}

#[test]
fn a_file_that_grows_without_end_meets_the_output_bound() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("defmt.bin");
    std::fs::write(&file, vec![0; 2 << 20]).unwrap();
    let ran = boot(
        "exec sleep 60",
        &Bounds {
            files: vec![file],
            ..bounds()
        },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
}

#[test]
fn an_image_that_spins_after_its_panic_is_ended_and_died() {
    let started = Instant::now();
    let ran = boot(
        r"printf '@plan 1\n@start s.a\npanic at x.rs:3: oh\n'; exec sleep 60",
        &bounds(),
    );
    assert_eq!(ran.judged.verdict, Verdict::Died);
    assert_eq!(ran.judged.tests[0].text, "panic at x.rs:3: oh");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_image_that_stays_after_end_is_cut_off() {
    let ran = boot(
        &format!("{GOOD}; exec sleep 60"),
        &Bounds {
            silence: Duration::from_millis(300),
            ..bounds()
        },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
}

#[test]
fn a_console_that_is_closed_early_is_cut_off_too() {
    let ran = boot(
        "exec >&-; exec sleep 60",
        &Bounds {
            silence: Duration::from_millis(300),
            ..bounds()
        },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
}

#[test]
fn bytes_that_are_no_text_are_survived() {
    let ran = boot(
        r"head -c 20000 /dev/urandom; printf '\n@plan 1\n@start s.a\n@ok s.a 4\n@end\n'",
        &bounds(),
    );
    assert!(ran.tail.iter().all(|l| l.chars().all(|c| !c.is_control())));
    assert!(ran.judged.tests.iter().any(|t| t.name == "s.a"));
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let mut log = tempfile::tempfile().unwrap();
    let command = Command::new("no-such-emulator");
    let error = run(command, &bounds(), &mut log, Judge::new(&[]), |_| {}).unwrap_err();
    assert!(error.to_string().contains("no-such-emulator"));
}

#[test]
fn no_emulator_outlives_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = format!("echo $$ >{}; exec sleep 60", pid.display());
    boot(
        &script,
        &Bounds {
            silence: Duration::from_millis(300),
            ..bounds()
        },
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn an_emulator_that_leaves_while_its_child_holds_the_console_is_not_waited_for() {
    let started = Instant::now();
    let ran = boot(&format!("sleep 8 & {GOOD}"), &bounds());
    assert_eq!(ran.judged.verdict, Verdict::Passed);
    assert!(started.elapsed() < Duration::from_secs(6));
}

#[test]
fn a_child_that_prints_on_after_the_cut_is_not_heard_for_long() {
    let started = Instant::now();
    let wall = Duration::from_millis(300);
    let ran = boot(
        "while :; do echo x; sleep 0.01; done & wait",
        &Bounds { wall, ..bounds() },
    );
    assert_eq!(ran.judged.verdict, Verdict::Hung);
    assert!(started.elapsed() < Duration::from_secs(6));
}
