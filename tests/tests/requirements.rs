// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/requirements.md is complete, and the tests that it names exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../../docs/requirements.md");

/// A file of the workspace and the tests in it that a row names.
struct Proof {
    file: String,
    tests: Vec<String>,
}

/// The rows by number.
fn rows() -> BTreeMap<u32, Vec<Proof>> {
    let mut rows = BTreeMap::new();
    for line in TABLE.lines() {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let Ok(number) = cells[0].parse() else {
            continue;
        };
        let [_, property, proofs] = cells[..] else {
            panic!("row {number} has {} cells", cells.len());
        };
        assert!(property.ends_with(['.', ')']), "row {number}: {property}");
        let proofs = proofs.split("; ").map(|proof| parse(number, proof));
        let before = rows.insert(number, proofs.collect());
        assert!(before.is_none(), "row {number} twice");
    }
    rows
}

/// Reads "[name](../path): `test`, `test`".
fn parse(number: u32, proof: &str) -> Proof {
    let wrong = format!("row {number}: {proof}");
    let (link, tests) = proof.split_once(": ").expect(&wrong);
    let (name, file) = link.split_once("](../").expect(&wrong);
    let file = file.strip_suffix(')').expect(&wrong).to_owned();
    let name = name.strip_prefix('[').expect(&wrong);
    assert!(file.ends_with(&format!("/{name}")), "{wrong}");
    let tests = tests.split(", ").map(|test| {
        let test = test.strip_prefix('`').expect(&wrong);
        test.strip_suffix('`').expect(&wrong).to_owned()
    });
    Proof {
        file,
        tests: tests.collect(),
    }
}

/// Whether `source` has `test`, as a test function that is not ignored or as a doctest.
fn has(source: &str, test: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let function = format!("fn {test}(");
    let item = format!("pub struct {test};");
    lines.iter().enumerate().any(|(at, line)| {
        // Attributes and comments of the item.
        let above = lines[..at].iter().rev();
        let mut above = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        if line.starts_with(&function) {
            let attributes: Vec<_> = above.collect();
            attributes.contains(&&"#[test]") && !attributes.iter().any(|a| a.contains("ignore"))
        } else {
            *line == item && above.any(|line| line.starts_with("/// ```"))
        }
    })
}

#[test]
fn no_requirement_is_missing_and_none_is_without_a_test() {
    let rows = rows();
    let numbers: Vec<_> = rows.keys().copied().collect();
    let expected = (1..=33).chain([36, 37]).chain(40..=48);
    assert_eq!(numbers, expected.collect::<Vec<_>>());
    for (number, proofs) in rows {
        assert!(!proofs.is_empty(), "row {number}");
        assert!(proofs.iter().all(|proof| !proof.tests.is_empty()));
    }
}

#[test]
fn every_test_that_the_table_names_is_in_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut missing = Vec::new();
    for (number, proofs) in rows() {
        for Proof { file, tests } in proofs {
            let source = fs::read_to_string(root.join(&file)).unwrap_or_default();
            for test in tests.iter().filter(|test| !has(&source, test)) {
                missing.push(format!("row {number}: {test} in {file}"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_function_that_is_no_test_and_an_item_without_a_doctest_are_none() {
    let source = "#[test]\nfn good() {}\nfn helper() {}\n#[test]\n#[ignore]\nfn off() {}\n\
                  /// ```\n/// ```\n#[cfg(doctest)]\npub struct Shown;\npub struct Bare;\n";
    let found = ["good", "helper", "off", "Shown", "Bare", "goo"].map(|test| has(source, test));
    assert_eq!(found, [true, false, false, true, false, false]);
}
