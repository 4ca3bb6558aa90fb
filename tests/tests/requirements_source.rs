// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the library crates that only their source shows.

use std::fs;
use std::path::Path;

const CRATES: [&str; 3] = ["irq-hal", "irq-core", "irq-gicv3"];

/// One file of a library crate, without comments and tests.
struct Source {
    path: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut sources = Vec::new();
    for name in CRATES {
        let folder = crates.join(name).join("src");
        walk(&folder, &format!("{name}/src"), &mut sources);
    }
    assert!(sources.len() > 40, "{} files", sources.len());
    sources
}

fn walk(folder: &Path, name: &str, sources: &mut Vec<Source>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap())
        .collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let file = entry.file_name().into_string().unwrap();
        let path = format!("{name}/{file}");
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &path, sources);
        } else if file.ends_with(".rs") && file != "tests.rs" {
            let text = fs::read_to_string(entry.path()).unwrap();
            let code = text
                .lines()
                // Unit tests stand at the end of their file.
                .take_while(|line| {
                    !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test")
                })
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect::<Vec<_>>()
                .join("\n");
            sources.push(Source { path, code });
        }
    }
}

/// `path: line` of each line of the library crates that has one of `words`.
fn lines_with(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources() {
        for line in source.code.lines() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

/// The text between the parenthesis at the beginning of `text` and the one that closes it.
fn in_parentheses(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return &text[1..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    panic!("no end of {text}")
}

#[test]
fn code_is_selected_by_architecture_and_byte_order_alone_and_no_feature_of_the_compiler_is_asked_for()
 {
    const WORDS: [&str; 12] = [
        "all",
        "any",
        "not",
        "target_arch",
        "target_endian",
        "feature",
        // Builds of our tests.
        "test",
        "loom",
        "irq_trace",
        "doctest",
        "debug_assertions",
        "no_std",
    ];
    let mut seen = 0;
    for source in sources() {
        let conditions = source.code.match_indices("cfg").filter_map(|(at, _)| {
            let (before, rest) = source.code.split_at(at);
            if !before.ends_with(['[', ' ', '(']) {
                return None;
            }
            let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || "_!".contains(c));
            rest.starts_with('(').then(|| in_parentheses(rest))
        });
        for condition in conditions {
            seen += 1;
            // What an attribute adds when a logging feature is on is no condition.
            let condition = match condition.split_once("derive(") {
                Some((condition, _)) => condition,
                None => condition,
            };
            let words = condition
                .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '"'))
                .filter(|word| !word.is_empty() && !word.starts_with('"'));
            for word in words {
                let known = WORDS.contains(&word);
                assert!(known, "{}: cfg({condition}) selects by {word}", source.path);
            }
            for (_, value) in condition.match_indices("feature = ").map(|(at, m)| {
                let value = &condition[at + m.len()..];
                (at, value.trim_start_matches('"'))
            }) {
                let ours = value.starts_with("log") || value.starts_with("defmt");
                assert!(ours, "{}: cfg({condition})", source.path);
            }
        }
    }
    assert!(seen > 50, "{seen}");
    assert_eq!(lines_with(&["feature("]), [""; 0]);
    // Neither floating point nor vector registers: soft-float and hard-float are the same.
    assert_eq!(lines_with(&["f32", "f64", "vreg"]), [""; 0]);
}

#[test]
fn device_registers_and_tables_are_touched_in_two_files_and_swapped_in_both() {
    let raw = ["read_volatile", "write_volatile", "asm!(", "from_ptr("];
    let places: Vec<_> = lines_with(&raw)
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    let allowed = [
        // Barriers.
        "irq-hal/src/bus.rs",
        "irq-hal/src/dma.rs",
        "irq-hal/src/mmio.rs",
        // System registers have no byte order.
        "irq-gicv3/src/sysregs.rs",
    ];
    for place in &places {
        assert!(allowed.contains(&place.as_str()), "{place}");
    }
    for file in ["irq-hal/src/dma.rs", "irq-hal/src/mmio.rs"] {
        let source = sources().into_iter().find(|source| source.path == file);
        let code = source.unwrap().code;
        for swap in ["<$t>::from_le(", "value.to_le()"] {
            assert_eq!(code.matches(swap).count(), 1, "{swap} in {file}");
        }
    }
}

#[test]
fn library_code_unwraps_nothing_and_asserts_in_known_places_alone() {
    let words = [
        ".unwrap()",
        ".expect(",
        "panic!(",
        "todo!(",
        "unimplemented!(",
        "unreachable!(",
        "assert!(",
        "assert_eq!(",
        "assert_ne!(",
    ];
    let found: Vec<_> = lines_with(&words)
        .into_iter()
        .filter(|line| !line.contains("debug_assert") && !line.contains("const {"))
        // Not part of what a kernel builds.
        .filter(|line| !line.starts_with("irq-hal/src/atomic/trace.rs"))
        .map(|line| line.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        found,
        [
            // An offset outside of a region, by an error of the driver: bounds and alignment.
            "irq-hal/src/dma.rs",
            "irq-hal/src/dma.rs",
            // The rank of a lock, in debug builds; loom's lock, in its builds.
            "irq-hal/src/lock.rs",
            "irq-hal/src/lock.rs",
            // An offset outside of a window, by an error of the driver.
            "irq-hal/src/mmio.rs",
        ]
    );
}

#[test]
fn the_parser_of_firmware_tables_is_in_no_public_type() {
    const ITEMS: [&str; 8] = [
        "fn ", "const ", "struct ", "enum ", "trait ", "type ", "use ", "unsafe ",
    ];
    let mut items = 0;
    for source in sources() {
        for (at, _) in source.code.match_indices("pub ") {
            let item = &source.code[at..];
            if !ITEMS.iter().any(|word| item[4..].starts_with(word)) {
                continue;
            }
            let end = match item.find(['{', ';']) {
                // With its fields.
                Some(_) if item.starts_with("pub struct ") => item.find("\n}"),
                end => end,
            };
            let item = &item[..end.unwrap_or(item.len())];
            items += 1;
            for word in ["dtoolkit", "Fdt<", "FdtNode"] {
                assert!(!item.contains(word), "{}: {item}", source.path);
            }
        }
    }
    assert!(items > 300, "{items}");
}
