// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests that need no bare machine: unit, model and property tests, doctests, and named
//! tests under `--cfg loom` and `--cfg irq_trace`.
//!
//! Integration tests whose name begins with `loom` or `trace` are built once more with that
//! cfg, in a target folder of their own, and those of a feature with it. Tests that drive the emulator find its path in the
//! environment variable that the board names; without one they skip themselves.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::board::Board;
use crate::boot::report::Outcome;
use crate::metadata::{self, Package, packages};
use crate::refused::Refused;
use crate::setup::qemu;
use crate::setup::toolchain::{Seen, Toolchain};
use crate::tally::{Section, row};
use crate::term::Progress;
use crate::{libtest, process, workspace};

/// The longest that one test binary may take.
const LIMIT: Duration = Duration::from_secs(900);

/// What is built with a cfg of its own.
pub struct Named {
    cfg: &'static str,
    prefix: &'static str,
    release: bool,
    folder: &'static str,
}

/// Loom walks through thousands of interleavings: unoptimised it takes minutes.
const LOOM: Named = Named {
    cfg: "loom",
    prefix: "loom",
    release: true,
    folder: "loom",
};

/// Atomics, locks and allocations are logged.
pub const TRACED: Named = Named {
    cfg: "irq_trace",
    prefix: "trace",
    release: false,
    folder: "trace",
};

impl Named {
    /// Adds cfg, profile and target folder.
    pub fn apply(&self, command: &mut Command) {
        command
            .args(self.release.then_some("--release"))
            .arg("--target-dir")
            .arg(workspace::target(self.folder))
            // Enough for a backtrace; the full information of images takes a sixth longer.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
            .env("RUSTFLAGS", format!("--cfg {}", self.cfg));
    }
}

/// Tests of a package's feature: package, feature, integration test.
const FEATURED: [(&str, &str, &str); 1] = [("irq-hal", "log", "log")];

/// The binary of a test or bench.
#[derive(Debug, Eq, PartialEq)]
pub struct Binary {
    path: PathBuf,
    name: String,
    kind: String,
    folder: PathBuf,
}

/// Runs all of them whose name contains `filter`.
pub fn run(boards: &[Board], filter: &str) -> Result<Vec<Section>> {
    let seen = Seen::look();
    let toolchain = seen
        .active()
        .ok_or_else(|| Refused("no active Rust tool chain that is new enough".into()))?;
    let emulators = emulators(boards);
    let mut sections = Vec::new();
    let mut command = toolchain.host_cargo("test");
    command.args([
        "--no-run",
        "--locked",
        "--message-format=json-render-diagnostics",
    ]);
    command.args(metadata::host_packages(boards));
    match build("host tests", command)? {
        Some(binaries) => {
            for binary in binaries {
                sections.push(run_binary(&binary, "", filter, &emulators)?);
            }
            sections.push(doctests(toolchain, boards, filter)?);
        }
        None => sections.push(unbuilt("host tests")),
    }
    for (package, feature, test) in FEATURED {
        let mut command = toolchain.host_cargo("test");
        command
            .args([
                "--no-run",
                "--locked",
                "--message-format=json-render-diagnostics",
            ])
            .args(["--package", package, "--features", feature, "--test", test]);
        let what = format!("{package} with feature {feature}");
        match build(&what, command)? {
            Some(binaries) => {
                for binary in binaries {
                    sections.push(run_binary(&binary, feature, filter, &emulators)?);
                }
            }
            None => sections.push(unbuilt(&what)),
        }
    }
    let packages = packages(toolchain)?;
    for named in &[LOOM, TRACED] {
        sections.extend(run_named(named, toolchain, &packages, filter, &emulators)?);
    }
    sections.retain(|s| !s.rows.is_empty());
    Ok(sections)
}

fn run_named(
    named: &Named,
    toolchain: &Toolchain,
    packages: &[Package],
    filter: &str,
    emulators: &[(String, OsString)],
) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for package in packages.iter().filter(|p| !p.is_below("boards")) {
        let tests = package.tests(named.prefix);
        if tests.is_empty() {
            continue;
        }
        let mut command = toolchain.host_cargo("test");
        command
            .args([
                "--no-run",
                "--locked",
                "--message-format=json-render-diagnostics",
                "--package",
                &package.name,
            ])
            .args(tests.iter().flat_map(|t| ["--test", t]));
        named.apply(&mut command);
        let what = format!("{} under --cfg {}", package.name, named.cfg);
        match build(&what, command)? {
            Some(binaries) => {
                for binary in binaries {
                    sections.push(run_binary(&binary, named.cfg, filter, emulators)?);
                }
            }
            None => sections.push(unbuilt(&what)),
        }
    }
    Ok(sections)
}

fn unbuilt(what: &str) -> Section {
    let rows = vec![row("build", Some("it does not build".into()), 0)];
    Section {
        name: what.into(),
        time: Duration::ZERO,
        rows,
    }
}

/// The emulators that are there, as the environment of tests.
type Emulators = Vec<(String, OsString)>;

fn emulators(boards: &[Board]) -> Emulators {
    let found = |b: &Board| Some((b.qemu.env.clone(), qemu::find(&b.qemu).ok()?.path.into()));
    boards.iter().filter_map(found).collect()
}

/// Builds tests or benches; `None` if they do not build.
pub fn build(what: &str, mut command: Command) -> Result<Option<Vec<Binary>>> {
    eprintln!("build {what}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let out = child
        .stdout
        .take()
        .ok_or_else(|| anyhow!("no output of cargo"))?;
    let mut binaries = Vec::new();
    for line in BufReader::new(out).lines() {
        binaries.extend(test_binary(&line?));
    }
    Ok(child.wait()?.success().then_some(binaries))
}

fn test_binary(message: &str) -> Option<Binary> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    Some(Binary {
        path: message["executable"].as_str()?.into(),
        name: message["target"]["name"].as_str()?.into(),
        kind: message["target"]["kind"][0].as_str()?.into(),
        folder: Path::new(message["manifest_path"].as_str()?)
            .parent()?
            .into(),
    })
}

/// The binary in the folder of its package, as cargo would run it.
pub fn command(binary: &Binary) -> Command {
    let mut command = Command::new(&binary.path);
    command
        .current_dir(&binary.folder)
        .env("CARGO_MANIFEST_DIR", &binary.folder);
    command
}

fn run_binary(
    binary: &Binary,
    cfg: &str,
    filter: &str,
    emulators: &[(String, OsString)],
) -> Result<Section> {
    let package = binary
        .folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let mut name = match binary.kind.as_str() {
        "test" => format!("{package}/tests/{}", binary.name),
        kind => format!("{package} {kind}"),
    };
    if !cfg.is_empty() {
        name += &format!(" --cfg {cfg}");
    }
    let mut command = command(binary);
    command
        .envs(emulators.iter().cloned())
        .arg(libtest::SHOW_OUTPUT);
    if !filter.is_empty() {
        command.arg(filter);
    }
    run_suite(name, command, LIMIT)
}

fn doctests(toolchain: &Toolchain, boards: &[Board], filter: &str) -> Result<Section> {
    let mut command = toolchain.host_cargo("test");
    command
        .args(["--doc", "--locked"])
        .args(metadata::host_packages(boards));
    if !filter.is_empty() {
        command.args(["--", filter]);
    }
    run_suite("doctests".into(), command, LIMIT)
}

fn run_suite(name: String, command: Command, limit: Duration) -> Result<Section> {
    let progress = Progress::start(&format!("test {name}"));
    let started = Instant::now();
    let said = process::capture(command, limit)?;
    let rows = libtest::read(&said.out, said.trouble.as_deref());
    let failed = rows.iter().any(|r| r.verdict == Outcome::Failed);
    let passed = rows.iter().filter(|r| r.verdict == Outcome::Passed).count();
    if failed {
        progress.line(&format!("{}{}", said.out, said.err));
    }
    let time = started.elapsed();
    if !rows.is_empty() {
        progress.line(&format!(
            "  {passed} of {} passed ({} ms): {name}",
            rows.len(),
            time.as_millis()
        ));
    }
    Ok(Section { name, time, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_are_taken_from_cargos_messages() {
        let line = r#"{"profile":{"test":true},"executable":"/t/a-1","manifest_path":"/w/a/Cargo.toml",
            "target":{"name":"lesson","kind":["test"]}}"#;
        let binary = Binary {
            path: "/t/a-1".into(),
            name: "lesson".into(),
            kind: "test".into(),
            folder: "/w/a".into(),
        };
        assert_eq!(test_binary(line), Some(binary));
        assert_eq!(test_binary(&line.replace("true", "false")), None);
        assert_eq!(test_binary("noise"), None);
    }

    #[test]
    fn a_suite_without_end_is_a_failed_test() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let section = run_suite("s".into(), command, Duration::from_millis(200)).unwrap();
        assert!(section.rows[0].text.contains("no end after 0.2 s"));
    }
}
