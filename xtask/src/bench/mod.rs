// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench`: host programs and boots that measure, and how their values compare.
//!
//! A host program is a `[[bench]]` target of the package `irq-tests`, without libtest's harness.
//! It prints a row as a line that begins in column 0; whatever else it prints is shown:
//!
//! ```text
//! @row bench variant cpus nodes value unit     names [a-z0-9_.], value decimal
//! ```
//!
//! A boot is a `[[bench]]` entry of a `board.toml`; a row is a metric `bench.variant`, shown as
//! `bench@machine`. The first variant of a bench is its baseline. The benches that a source gives rows of are told before it
//! runs, so that a filter knows them and a row that is missing is noticed: in `board.toml`, of a
//! program in `[package.metadata.benches]`; where nothing is told it is one bench of the source's
//! name, without `trace_` or `core_`.

mod plot;
mod rows;
mod source;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::board::{self, Board, Planned};
use crate::boot::report::Verdict;
use crate::boot::{self, For};
use crate::metadata::{Package, packages};
use crate::refused::Refused;
use crate::run::{Images, build_images};
use crate::setup::toolchain::{Seen, Toolchain};
use crate::setup::{self, Needs, Ready};
use crate::term::Progress;
use crate::{host_tests, output, process, workspace};
use rows::Row;
use source::{Kind, Source};

/// The longest that a program may take.
const LIMIT: Duration = Duration::from_secs(900);

/// What `bench` was asked for.
#[derive(Debug)]
pub struct Asked {
    /// Only host programs whose name begins with `core`.
    pub core: bool,
    /// Only sources and benches whose name contains this.
    pub filter: Option<String>,
    /// Where the rows go as JSON.
    pub json: Option<PathBuf>,
    /// Where a chart of each bench goes.
    pub plots: Option<PathBuf>,
}

/// Runs what was asked.
pub fn run(asked: &Asked) -> Result<ExitCode> {
    let boards = board::load_all(&workspace::root())?;
    let seen = Seen::look();
    let toolchain = seen
        .active()
        .ok_or_else(|| Refused("no active Rust tool chain that is new enough".into()))?;
    let packages = packages(toolchain)?;
    let filter = asked.filter.as_deref().unwrap_or_default();
    let chosen = source::choose(source::all(&boards, &packages)?, asked.core, filter)?;
    asked.json.as_deref().map(output::writable).transpose()?;
    asked.plots.as_deref().map(output::folder).transpose()?;
    let boots = Boots::ready_for(&boards, &chosen)?;
    let (mut rows, mut troubles) = (Vec::new(), Vec::new());
    for source in &chosen {
        let gave = match source.kind {
            Kind::Program(package) => program(source, package, toolchain)?,
            Kind::Boot(board, planned) => boots.run(board, planned)?,
        };
        match gave.and_then(|rows| wanted(source, rows)) {
            Ok(more) => rows.extend(more),
            Err(why) => troubles.push(format!("{}: {why}", source.name)),
        }
    }
    troubles.extend(rows::twice(&rows));
    let rows = rows::compare(rows);
    // Before the table: the reader of that may be gone.
    let json = asked
        .json
        .as_deref()
        .map(|path| rows::write_json(&rows, path));
    let plots = asked.plots.as_deref().map(|dir| plot::write(&rows, dir));
    if !rows.is_empty() {
        print!("{}", rows::table(&rows));
    }
    for why in &troubles {
        eprintln!("failed: {why}");
    }
    json.transpose()?;
    plots.transpose()?;
    Ok(if troubles.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Rows, or why there are none.
type Gave = Result<Vec<Row>, String>;

/// The rows that were asked for, of a source that gave all that it tells of.
fn wanted(source: &Source, mut rows: Vec<Row>) -> Gave {
    if let Some(row) = rows.iter().find(|r| !source.benches.contains(&r.bench)) {
        return Err(format!(
            "a row of `{}`, but its benches are {}",
            row.bench,
            source.benches.join(", ")
        ));
    }
    let missing = |b: &&String| !rows.iter().any(|r| r.bench == **b);
    if let Some(bench) = source.benches.iter().find(missing) {
        return Err(format!("no row of `{bench}`"));
    }
    rows.retain(|r| source.wanted.contains(&r.bench));
    Ok(rows)
}

/// Builds and runs a host program, and shows what it prints.
fn program(source: &Source, package: &Package, toolchain: &Toolchain) -> Result<Gave> {
    // What is traced is counted, not timed, and shares what the traced tests have built.
    let mut command = toolchain.host_cargo(if source.is_traced() { "test" } else { "bench" });
    command.args([
        "--no-run",
        "--locked",
        "--message-format=json-render-diagnostics",
        "--package",
        &package.name,
        "--bench",
        source.name,
    ]);
    if source.is_traced() {
        host_tests::TRACED.apply(&mut command);
    }
    let Some(binaries) = host_tests::build(source.name, command)? else {
        return Ok(Err("it does not build".into()));
    };
    let Some(binary) = binaries.first() else {
        return Ok(Err("it is no program".into()));
    };
    let said = {
        let _progress = Progress::start(&format!("bench {}", source.name));
        process::capture(host_tests::command(binary), LIMIT)?
    };
    let (rest, gave) = heard(&said);
    eprint!("{}", said.err);
    print!("{rest}");
    Ok(gave)
}

/// What a program that ended so gave, beside the lines that are no rows.
fn heard(said: &process::Said) -> (String, Gave) {
    let (rest, rows) = rows::read(&said.out);
    match &said.trouble {
        Some(how) => (rest, Err(format!("it ended with {how}"))),
        None => (rest, rows),
    }
}

/// What boots need.
#[derive(Default)]
struct Boots {
    ready: Ready,
    images: Images,
}

impl Boots {
    /// Sets up and builds what those of `chosen` need that are boots.
    fn ready_for(boards: &[Board], chosen: &[Source]) -> Result<Boots> {
        let is_of =
            |s: &Source, b: &Board| matches!(s.kind, Kind::Boot(of, _) if of.name == b.name);
        let used = boards.iter().filter(|b| chosen.iter().any(|s| is_of(s, b)));
        let used: Vec<&Board> = used.collect();
        if used.is_empty() {
            return Ok(Boots::default());
        }
        output::folder(&workspace::target("boot"))?;
        let needs = Needs {
            images: true,
            emulators: true,
            lints: false,
        };
        let ready = setup::ensure(&used, needs)?;
        let images = build_images(&used, &ready)?;
        Ok(Boots { ready, images })
    }

    fn run(&self, board: &Board, planned: &Planned) -> Result<Gave> {
        let image = match &self.images[&board.name] {
            Ok(image) => image,
            Err(why) => return Ok(Err(why.clone())),
        };
        let emulator = self.ready.emulator(board)?;
        let job = boot::planned(board, planned, For::Bench(&planned.name), image, emulator)?;
        let boot = boot::boot(&job, Verdict::Passed)?.boot;
        Ok(match boot.verdict {
            Verdict::Passed => Ok(rows::of_boot(&boot)),
            other => Err(format!("the boot's verdict is {}", other.word())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Said;

    fn source() -> Source<'static> {
        Source {
            name: "trace_lines",
            benches: vec!["lines".into(), "locks".into()],
            wanted: vec!["lines".into()],
            kind: Kind::Program(Box::leak(Box::new(
                serde_json::from_str(
                    r#"{"name":"p","manifest_path":"/","features":{},"publish":null,"targets":[]}"#,
                )
                .unwrap(),
            ))),
        }
    }

    fn gave(text: &str) -> Result<Vec<String>, String> {
        let rows = wanted(&source(), rows::tests::rows(text))?;
        Ok(rows.into_iter().map(|r| r.bench).collect())
    }

    #[test]
    fn only_rows_that_were_asked_for_are_kept() {
        assert_eq!(gave("lines v 1 1 3 n\nlocks v 1 1 0 n").unwrap(), ["lines"]);
    }

    #[test]
    fn a_bench_without_a_row_is_told() {
        assert_eq!(gave("").unwrap_err(), "no row of `lines`");
        assert_eq!(gave("lines v 1 1 3 n").unwrap_err(), "no row of `locks`");
    }

    #[test]
    fn a_row_of_an_unknown_bench_is_told() {
        assert_eq!(
            gave("lines v 1 1 3 n\nlocks v 1 1 0 n\nmore v 1 1 1 n").unwrap_err(),
            "a row of `more`, but its benches are lines, locks"
        );
    }

    fn said(trouble: Option<&str>, out: &str) -> Said {
        Said {
            trouble: trouble.map(Into::into),
            out: out.into(),
            err: String::new(),
        }
    }

    #[test]
    fn a_program_that_fails_gives_no_rows_but_its_text_is_shown() {
        let out = "report\n@row lines v 1 1 3 n\nlast words\n";
        let (rest, gave) = heard(&said(Some("signal 6"), out));
        assert_eq!(rest, "report\nlast words\n");
        assert_eq!(gave.unwrap_err(), "it ended with signal 6");
        assert_eq!(heard(&said(None, out)).1.unwrap().len(), 1);
    }

    #[test]
    fn a_broken_row_spoils_the_program_but_its_text_is_shown() {
        let (rest, gave) = heard(&said(None, "report\n@row lines v\n"));
        assert_eq!(rest, "report\n");
        assert_eq!(gave.unwrap_err(), "a row has six words: `@row lines v`");
    }
}
