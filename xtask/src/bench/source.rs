// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where rows come from: host programs and boots of boards, chosen by name before any runs.

use anyhow::Result;

use super::rows;
use crate::board::{Board, Planned};
use crate::metadata::Package;
use crate::refused::refuse;

/// The package whose `[[bench]]` targets are the host programs.
const PACKAGE: &str = "irq-tests";
/// Programs whose name begins so are built with `--cfg irq_trace`.
const TRACE: &str = "trace";
/// Programs whose name begins so are what `--core` runs.
const CORE: &str = "core";

/// A program or a boot that measures.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its name.
    pub name: &'a str,
    /// The benches that it gives rows of, all of them.
    pub benches: Vec<String>,
    /// Those of them that were asked for.
    pub wanted: Vec<String>,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What a source is.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// A bench target of a package.
    Program(&'a Package),
    /// A boot of a board.
    Boot(&'a Board, &'a Planned),
}

impl Source<'_> {
    /// It is built with `--cfg irq_trace`.
    pub fn is_traced(&self) -> bool {
        self.name.starts_with(TRACE)
    }

    fn is_core(&self) -> bool {
        matches!(self.kind, Kind::Program(_)) && self.name.starts_with(CORE)
    }

    fn told(&self) -> String {
        if self.benches == [self.name] {
            self.name.into()
        } else {
            format!("{} ({})", self.name, self.benches.join(", "))
        }
    }
}

/// Every source, programs first.
pub fn all<'a>(boards: &'a [Board], packages: &'a [Package]) -> Result<Vec<Source<'a>>> {
    let mut all: Vec<Source> = Vec::new();
    for package in packages.iter().filter(|p| p.name == PACKAGE) {
        let names = package.benches();
        let told = package.metadata.benches.keys();
        if let Some(name) = told.into_iter().find(|n| !names.contains(&n.as_str())) {
            refuse!("{PACKAGE} tells of the benches of {name}, which is no program of it");
        }
        for name in names {
            let told = package.metadata.benches.get(name).cloned();
            let benches = told.unwrap_or_else(|| vec![topic(name).into()]);
            all.push(Source {
                name,
                benches,
                wanted: vec![],
                kind: Kind::Program(package),
            });
        }
    }
    for board in boards {
        for boot in &board.benches {
            let told = match boot.benches.as_slice() {
                [] => std::slice::from_ref(&boot.name),
                told => told,
            };
            let benches = told.iter().map(|bench| rows::on(bench, &boot.machine));
            let benches = benches.collect();
            all.push(Source {
                name: &boot.name,
                benches,
                wanted: vec![],
                kind: Kind::Boot(board, boot),
            });
        }
    }
    for (i, source) in all.iter().enumerate() {
        if all[..i].iter().any(|s| s.name == source.name) {
            refuse!("two benches have the name {}", source.name);
        }
    }
    Ok(all)
}

/// A program's name without the word that says how it is built.
fn topic(name: &str) -> &str {
    let prefixes = [TRACE, CORE].into_iter();
    prefixes
        .filter_map(|p| name.strip_prefix(p)?.strip_prefix('_'))
        .find(|rest| !rest.is_empty())
        .unwrap_or(name)
}

/// Those whose name contains `filter`, with all their benches; of the others those benches whose
/// name contains it.
pub fn choose<'a>(all: Vec<Source<'a>>, core: bool, filter: &str) -> Result<Vec<Source<'a>>> {
    let known: Vec<_> = all.iter().map(Source::told).collect();
    let mut chosen = Vec::new();
    for mut source in all.into_iter().filter(|s| !core || s.is_core()) {
        source.wanted = source.benches.clone();
        if !source.name.contains(filter) {
            source.wanted.retain(|b| b.contains(filter));
        }
        if !source.wanted.is_empty() {
            chosen.push(source);
        }
    }
    if chosen.is_empty() {
        let what = match (core, filter) {
            (true, "") => "begins with `core`".to_string(),
            (true, _) => format!("begins with `core` and matches `{filter}`"),
            (false, _) => format!("matches `{filter}`"),
        };
        let known = if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        };
        refuse!("no bench {what}; there is: {known}");
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::SAMPLE;
    use crate::refused::Refused;

    fn boards() -> Vec<Board> {
        let text = format!(
            "{SAMPLE}\n[[bench]]\nname = \"icount\"\nbenches = [\"self_sgi\", \"there_and_back\"]\n\
             machine = \"one\"\ncpus = 1\nnodes = 1\nscenarios = [\"smoke\"]\n"
        );
        vec![Board::parse("b", &text).unwrap()]
    }

    fn packages() -> Vec<Package> {
        let package = |name: &str, targets: serde_json::Value| {
            let told = serde_json::json!({"benches": {"rates": ["send", "mask"]}});
            let package = serde_json::json!({"name": name, "manifest_path": "/w/t/Cargo.toml",
                "features": {}, "publish": null, "metadata": told, "targets": targets});
            serde_json::from_value(package).unwrap()
        };
        let bench = |name: &str| serde_json::json!({"name": name, "kind": ["bench"]});
        vec![
            package("other", serde_json::json!([bench("foreign")])),
            package(
                "irq-tests",
                serde_json::json!([
                    {"name": "trace_test", "kind": ["test"]},
                    bench("trace_lines"),
                    bench("core_masks"),
                    bench("rates"),
                ]),
            ),
        ]
    }

    /// Names and wanted benches.
    fn chosen(core: bool, filter: &str) -> Result<Vec<(String, String)>> {
        let (boards, packages) = (boards(), packages());
        let chosen = choose(all(&boards, &packages)?, core, filter)?;
        Ok(chosen
            .iter()
            .map(|s| (s.name.to_string(), s.wanted.join(" ")))
            .collect())
    }

    #[track_caller]
    fn gives(core: bool, filter: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(n, w)| (n.to_string(), w.to_string()))
            .collect();
        assert_eq!(chosen(core, filter).unwrap(), expected);
    }

    #[test]
    fn without_a_filter_programs_and_boots_all_run() {
        gives(
            false,
            "",
            &[
                ("trace_lines", "lines"),
                ("core_masks", "masks"),
                ("rates", "send mask"),
                ("icount", "self_sgi@one there_and_back@one"),
            ],
        );
    }

    #[test]
    fn a_filter_matches_a_program_a_boot_or_one_of_their_benches() {
        gives(false, "lines", &[("trace_lines", "lines")]);
        gives(
            false,
            "icount",
            &[("icount", "self_sgi@one there_and_back@one")],
        );
        gives(false, "there", &[("icount", "there_and_back@one")]);
        gives(false, "mask", &[("core_masks", "masks"), ("rates", "mask")]);
    }

    #[test]
    fn core_means_programs_of_that_name_only() {
        gives(true, "", &[("core_masks", "masks")]);
        gives(true, "masks", &[("core_masks", "masks")]);
    }

    #[test]
    fn a_filter_that_matches_nothing_is_refused_with_the_names() {
        let known = "trace_lines (lines), core_masks (masks), rates (send, mask), \
                     icount (self_sgi@one, there_and_back@one)";
        for (core, filter, what) in [
            (false, "nosuch", "matches `nosuch`"),
            (true, "lines", "begins with `core` and matches `lines`"),
        ] {
            let error = chosen(core, filter).unwrap_err();
            assert!(error.is::<Refused>());
            assert_eq!(
                error.to_string(),
                format!("no bench {what}; there is: {known}")
            );
        }
        let none = choose(vec![], true, "").unwrap_err().to_string();
        assert_eq!(none, "no bench begins with `core`; there is: none");
    }

    #[test]
    fn a_name_that_is_taken_twice_is_refused() {
        let mut boards = boards();
        boards[0].benches[0].name = "rates".into();
        let error = all(&boards, &packages()).unwrap_err().to_string();
        assert_eq!(error, "two benches have the name rates");
    }

    #[test]
    fn benches_that_are_told_of_no_program_are_refused() {
        let mut packages = packages();
        packages[1].targets.retain(|t| t.name != "rates");
        let error = all(&boards(), &packages).unwrap_err().to_string();
        assert!(
            error.contains("benches of rates, which is no program"),
            "{error}"
        );
    }

    #[test]
    fn traced_programs_are_known_by_their_name() {
        let (boards, packages) = (boards(), packages());
        let all = all(&boards, &packages).unwrap();
        let traced: Vec<_> = all
            .iter()
            .filter(|s| s.is_traced())
            .map(|s| s.name)
            .collect();
        assert_eq!(traced, ["trace_lines"]);
    }
}
