// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask fuzz TARGET --seconds N`: a reader of firmware tables against bytes that grow
//! from good ones.
//!
//! `fuzz/` is a workspace of its own with libFuzzer inside. Its instrumentation is a pass of
//! LLVM that the stable compiler has too, so that neither a nightly tool chain nor cargo-fuzz is
//! needed, only a C++ compiler; address checking, which does need nightly, would find nothing in
//! readers without unsafe code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process::{self, Held};
use crate::refused::{Refused, refuse};
use crate::setup::{in_path, toolchain::Seen};
use crate::{output, workspace};

/// Counters at each edge, a table of the edges, and the operands of comparisons.
const RUSTFLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The parts of `fuzz/Cargo.toml` that are read here.
#[derive(Deserialize)]
struct Manifest {
    package: Package,
    bin: Vec<Bin>,
}

#[derive(Deserialize)]
struct Package {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    seeds: BTreeMap<String, Seeds>,
}

#[derive(Deserialize)]
struct Bin {
    name: String,
}

/// The inputs that a target begins with.
#[derive(Deserialize)]
struct Seeds {
    /// A folder of the repository.
    folder: String,
    /// Its files with this extension.
    extension: String,
}

impl Manifest {
    fn read(root: &Path) -> Result<Manifest> {
        let path = root.join("fuzz/Cargo.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
    }

    fn names(&self) -> Vec<&str> {
        self.bin.iter().map(|bin| bin.name.as_str()).collect()
    }

    /// The files that `target` begins with.
    fn seeds(&self, root: &Path, target: &str) -> Result<Vec<PathBuf>> {
        let Some(seeds) = self.package.metadata.seeds.get(target) else {
            return Ok(Vec::new());
        };
        let folder = root.join(&seeds.folder);
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|e| *e == *seeds.extension) {
                files.push(path);
            }
        }
        Ok(files)
    }
}

/// Runs `target` for `seconds`. Status 1 if it found an input that makes a reader panic, or that
/// takes a reader too long or too much memory.
pub fn run(target: &str, seconds: u32) -> Result<ExitCode> {
    let root = workspace::root();
    let manifest = Manifest::read(&root)?;
    if !manifest.names().contains(&target) {
        let names = manifest.names().join(", ");
        refuse!("no fuzz target {target:?}; there are {names}");
    }
    if seconds == 0 {
        refuse!("--seconds 0 would never end");
    }
    if std::env::var_os("CXX").is_none() && in_path("c++").is_none() {
        refuse!("libFuzzer needs a C++ compiler: apt-get install g++");
    }
    let seen = Seen::look();
    let active = seen
        .active()
        .ok_or_else(|| Refused("no active Rust tool chain that is new enough".into()))?;
    let folder = workspace::target("fuzz").join(target);
    let [corpus, seeds] = ["corpus", "seeds"].map(|name| folder.join(name));
    for folder in [&corpus, &seeds] {
        output::folder(folder)?;
    }
    for file in manifest.seeds(&root, target)? {
        let name = file.file_name().context("a seed without a name")?;
        std::fs::copy(&file, seeds.join(name))
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    // With a target named, build scripts and macros are not instrumented. Not `--locked`: the
    // lock file of this workspace follows what our crates depend on.
    let mut command = active.host_cargo("run");
    command
        .args(["--release", "--target", "host-tuple"])
        .args(["--manifest-path", "fuzz/Cargo.toml", "--bin", target])
        .arg("--target-dir")
        .arg(workspace::target("fuzz/build"))
        .arg("--")
        .args([&corpus, &seeds])
        .arg(format!("-artifact_prefix={}/finding-", folder.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .env("RUSTFLAGS", RUSTFLAGS);
    let status = Held::spawn(&mut command)?.0.wait()?;
    match process::trouble(status) {
        None => {
            println!("{target}: nothing found");
            Ok(ExitCode::SUCCESS)
        }
        Some(trouble) => {
            println!("{target}: {trouble}; findings are in {}", folder.display());
            Ok(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fuzz_target_has_its_source_and_inputs_to_begin_with() {
        let root = workspace::root();
        let manifest = Manifest::read(&root).unwrap();
        for name in manifest.names() {
            let source = root.join(format!("fuzz/fuzz_targets/{name}.rs"));
            assert!(source.is_file(), "{name}");
            assert!(!manifest.seeds(&root, name).unwrap().is_empty(), "{name}");
        }
    }

    #[test]
    fn an_unknown_target_and_no_time_are_refused() {
        for (target, seconds, text) in [("madr", 1, "madt"), ("madt", 0, "--seconds")] {
            let error = run(target, seconds).unwrap_err();
            assert!(error.is::<Refused>(), "{error:#}");
            assert!(error.to_string().contains(text), "{error:#}");
        }
    }
}
