// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a board's file may hold, and what is told of one that holds something else.

use super::*;

pub const SAMPLE: &str = r#"
        [image]
        package = "p"
        target = "t"
        [qemu]
        program = "qemu-x"
        env = "IRQ_QEMU_X"
        min_version = "10.0"
        packages = ["qemu-x"]
        [[machine]]
        name = "one"
        args = ["-smp", "{cpus}", "-serial", "{console}", "-append", "scenario={scenarios}"]
        max_cpus = 1
        max_nodes = 1
        max_threads = 1
        [[machine]]
        name = "many"
        args = [
            "-smp", "{cpus},sockets={nodes},cores={cores},threads={threads}", "-m", "{memory_mib}M",
            "-serial", "{defmt}", "-kernel", "{image}", "-append", "scenario={scenarios}{append}",
        ]
        node_args = ["-numa", "{node}:{first_cpu}-{last_cpu}:{node_mib}"]
        empty_node_args = ["-numa", "{node}::{node_mib}"]
        memory_mib = 96
        max_cpus = 64
        max_nodes = 4
        max_threads = 2
        [[scenario]]
        name = "smoke"
        [[scenario]]
        name = "die"
        args = ["-device", "x"]
        [[boot]]
        name = "it_boots"
        machine = "one"
        cpus = 1
        nodes = 1
        scenarios = ["smoke"]
    "#;

#[test]
fn a_board_is_read_with_its_defaults() {
    let board = Board::parse("b", SAMPLE).unwrap();
    assert_eq!(board.name, "b");
    assert_eq!((board.limits.silence_s, board.limits.limit_s), (30, 300));
    assert_eq!(board.boots[0].expect, Verdict::Passed);
    assert_eq!(board.boots[0].threads, 1);
}

#[test]
fn an_unknown_key_is_an_error() {
    let text = SAMPLE.replace("name = \"smoke\"", "name = \"smoke\"\nabuot = \"x\"");
    assert!(
        Board::parse("b", &text)
            .unwrap_err()
            .to_string()
            .contains("abuot")
    );
}

/// The sample is an error with `to` in the place of `from`, and says `why`.
#[track_caller]
fn broken(from: &str, to: &str, why: &str) {
    assert!(SAMPLE.contains(from));
    let error = Board::parse("b", &SAMPLE.replace(from, to)).unwrap_err();
    let said = format!("{error:#}");
    assert!(said.contains(why), "{said} lacks {why}");
}

#[test]
fn a_boot_that_names_nothing_known_is_an_error() {
    broken("machine = \"one\"", "machine = \"none\"", "no machine none");
    broken(
        "scenarios = [\"smoke\"]",
        "scenarios = [\"x\"]",
        "no scenario x",
    );
}

#[test]
fn a_name_that_is_taken_twice_is_an_error() {
    broken("\"die\"", "\"smoke\"", "two scenarios have the name smoke");
    let boot = SAMPLE.find("[[boot]]").unwrap();
    let error = Board::parse("b", &format!("{SAMPLE}{}", &SAMPLE[boot..])).unwrap_err();
    assert_eq!(error.to_string(), "two boots have the name it_boots");
}

#[test]
fn a_limit_of_zero_is_an_error() {
    broken("max_cpus = 1", "max_cpus = 0", "one: a limit of 0");
}

#[test]
fn a_limit_of_no_time_is_an_error() {
    broken(
        "[image]",
        "[limits]\nsilence_s = 0\n[image]",
        "a limit of 0 s",
    );
    let boot = "scenarios = [\"smoke\"]";
    broken(
        boot,
        &format!("{boot}\nsilence_s = 0"),
        "boot it_boots: a limit of 0 s",
    );
}

#[test]
fn a_name_that_would_leave_its_folder_or_its_word_is_an_error() {
    for (from, what) in [
        ("[[machine]]\n        name = \"one\"", "machine"),
        ("[[scenario]]\n        name = \"die\"", "scenario"),
        ("[[boot]]\n        name = \"it_boots\"", "boot"),
    ] {
        for name in ["../x", "", "a b", "a,b", "A"] {
            let (head, _) = from.rsplit_once("= ").unwrap();
            broken(
                from,
                &format!("{head}= \"{name}\""),
                &format!("`{name}` is not a {what}'s name"),
            );
        }
    }
}

#[test]
fn a_version_that_is_none_is_an_error() {
    broken("\"10.0\"", "\"ten\"", "`ten` is no version");
}

#[test]
fn a_boot_that_runs_nothing_is_an_error() {
    broken(
        "scenarios = [\"smoke\"]",
        "scenarios = []",
        "boot it_boots: no scenario",
    );
}

#[test]
fn only_a_boot_that_passes_tells_its_skips() {
    let boot = "scenarios = [\"smoke\"]";
    let skips = format!("{boot}\nskips = 2");
    let board = Board::parse("b", &SAMPLE.replace(boot, &skips)).unwrap();
    assert_eq!(board.boots[0].skips, 2);
    broken(
        boot,
        &format!("{skips}\nexpect = \"died\""),
        "only one that passes tells its skips",
    );
}

#[test]
fn a_board_that_cannot_be_read_is_refused_and_a_folder_without_one_is_none() {
    let root = tempfile::tempdir().unwrap();
    let boards = root.path().join("boards");
    std::fs::create_dir_all(boards.join("common")).unwrap();
    std::fs::write(boards.join("README.md"), "").unwrap();
    assert!(load_all(root.path()).unwrap().is_empty());
    std::fs::write(boards.join("common/board.toml"), b"\xff").unwrap();
    let error = load_all(root.path()).unwrap_err();
    assert!(error.is::<crate::refused::Refused>());
    assert!(error.to_string().starts_with("cannot read "), "{error}");
}

#[test]
fn a_boot_whose_topology_is_wrong_is_an_error_before_any_boots() {
    broken(
        "cpus = 1\n        nodes = 1\n        scenarios",
        "cpus = 8\n        nodes = 3\n        scenarios",
        "boot it_boots: 8 CPUs do not divide by 3 nodes",
    );
    broken(
        "scenarios = [\"smoke\"]",
        "scenarios = [\"smoke\"]\nempty_nodes = 1",
        "2 nodes asked, the board's limit is 1",
    );
}

#[test]
fn arguments_that_cannot_be_filled_in_are_an_error() {
    broken("\"{cpus}\"", "\"{cpu}\"", "one: no placeholder {cpu}");
    broken("\"-device\"", "\"{node}\"", "die: no placeholder {node}");
    broken(
        "memory_mib = 96",
        "",
        "many: {memory_mib} without memory_mib",
    );
    let with = |key: &str| format!("scenarios = [\"smoke\"]\n{key}");
    let boot = "scenarios = [\"smoke\"]";
    broken(
        boot,
        &with("args = [\"{x}\"]"),
        "boot it_boots: no placeholder {x}",
    );
    broken(boot, &with("append = [\"a=1\"]"), "one takes no more words");
    let many = SAMPLE.replace("machine = \"one\"", "machine = \"many\"");
    let text = |key| many.replace(boot, &with(key));
    assert!(Board::parse("b", &text("append = [\"a=1\"]")).is_ok());
    let error = Board::parse("b", &text("append = [\"a b\"]")).unwrap_err();
    assert!(
        format!("{error:#}").ends_with("`a b` is not one word"),
        "{error:#}"
    );
}

#[test]
fn a_bench_expects_nothing_and_a_boot_measures_nothing() {
    let boot = "[[boot]]\n        name = \"it_boots\"";
    broken(
        boot,
        &format!("{boot}\nbenches = [\"x\"]"),
        "boot it_boots: only a bench has benches",
    );
    broken(
        boot,
        "[[bench]]\nname = \"icount\"\nexpect = \"died\"",
        "bench icount: only a boot expects something",
    );
}

#[test]
fn the_boards_of_this_workspace_are_valid() {
    let boards = load_all(&crate::workspace::root()).unwrap();
    assert!(boards.iter().any(|b| b.machine("virt-gicv3").is_some()));
}

#[test]
fn a_guest_error_without_a_reason_and_node_counts_without_one_are_errors() {
    let key = "max_threads = 1";
    for (more, why) in [
        (
            r#"guest_errors = [{ line = "x", reason = "" }]"#,
            "one: a guest error wants a line and a reason",
        ),
        (
            r#"guest_errors = [{ line = "*", reason = "r" }]"#,
            "one: a guest error wants a line and a reason",
        ),
        (
            r#"node_counts = { counts = [], reason = "r" }"#,
            "one: node_counts without counts or reason",
        ),
        (
            r#"node_counts = { counts = [1], reason = "" }"#,
            "one: node_counts without counts or reason",
        ),
    ] {
        broken(key, &format!("{key}\n{more}"), why);
    }
}
