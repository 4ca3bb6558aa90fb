// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/embedding.md shows the code of tests/src/hermit, word for word, and counts its lines.

use std::collections::BTreeMap;

const DOCUMENT: &str = include_str!("../../docs/embedding.md");
const GLUE: [(&str, &str); 3] = [
    (
        "tests/src/hermit/platform.rs",
        include_str!("../src/hermit/platform.rs"),
    ),
    (
        "tests/src/hermit/with_core.rs",
        include_str!("../src/hermit/with_core.rs"),
    ),
    (
        "tests/src/hermit/driver_alone.rs",
        include_str!("../src/hermit/driver_alone.rs"),
    ),
];

/// The parts between `// [name]` and `// [name end]` of the glue, by file and name.
fn parts() -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for (file, source) in GLUE {
        let mut open: Option<(&str, String)> = None;
        for line in source.split_inclusive('\n') {
            let marker = line.trim_end().strip_prefix("// [");
            let marker = marker.and_then(|line| line.strip_suffix(']'));
            match (marker, &mut open) {
                (Some(name), None) => open = Some((name, String::new())),
                (Some(end), Some(_)) => {
                    let (name, text) = open.take().unwrap();
                    assert_eq!(end, format!("{name} end"), "in {file}");
                    let key = format!("{file} [{name}]");
                    assert!(parts.insert(key, text).is_none(), "{name} twice");
                }
                (None, Some((_, text))) => text.push_str(line),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "a part of {file} has no end");
    }
    parts
}

/// The Rust blocks of the document, by the comment before each.
fn shown() -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    let mut rest = DOCUMENT;
    while let Some((before, after)) = rest.split_once("```rust\n") {
        let comment = before.trim_end().lines().last().unwrap_or_default();
        let key = comment.strip_prefix("<!-- ");
        let key = key.and_then(|line| line.strip_suffix(" -->"));
        let key = key.unwrap_or_else(|| panic!("no comment before a block: {comment}"));
        let (text, after) = after.split_once("```").expect("a block's end");
        assert!(shown.insert(key.to_owned(), text.to_owned()).is_none());
        rest = after;
    }
    shown
}

#[test]
fn the_document_shows_every_part_of_the_glue_and_no_other_code() {
    let (parts, shown) = (parts(), shown());
    assert_eq!(
        parts.keys().collect::<Vec<_>>(),
        shown.keys().collect::<Vec<_>>()
    );
    for (key, text) in parts {
        assert_eq!(text, shown[&key], "{key}");
    }
}

#[test]
fn the_document_counts_the_lines_of_each_part() {
    let lines = |name: &str| {
        let parts = parts();
        let key = parts.keys().find(|key| key.ends_with(&format!("[{name}]")));
        let text = &parts[key.unwrap_or_else(|| panic!("no part {name}"))];
        let code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        text.lines().filter(code).count()
    };
    let platform = lines("platform");
    let mut rows = vec![("platform", platform, platform)];
    for part in ["statics", "init", "entry", "drivers", "ipi"] {
        let of = |way| lines(&format!("{way} {part}"));
        rows.push((part, of("core"), of("alone")));
    }
    let sum = |column: fn(&(&str, usize, usize)) -> usize| rows.iter().map(column).sum();
    rows.push(("sum", sum(|row| row.1), sum(|row| row.2)));
    for (part, core, alone) in rows {
        let row = format!("\n| {part} | {core} | {alone} |\n");
        assert!(DOCUMENT.contains(&row), "the document lacks {row}");
    }
}
