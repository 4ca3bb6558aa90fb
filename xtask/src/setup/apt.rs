// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the steps that [`super::debian`] plans. It never upgrades or removes a package by itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::debian::{APT, Newer, State, Step, Want, plan};
use crate::refused::refuse;

/// Installs `wants`. What was added to apt's sources is taken back if it does not help.
pub fn install(wants: &[Want]) -> Result<()> {
    conflicts(wants)?;
    update(None)?;
    let state = State::look().context("this is no Debian")?;
    let mut written = Vec::new();
    let result = plan(&state, wants).and_then(|steps| run(&steps, wants, &mut written));
    if result.is_err() {
        for path in written {
            eprintln!("remove {}", Path::display(&path));
            // The error that is about to be told is the first one.
            let _ = std::fs::remove_file(path);
        }
    }
    result
}

fn run(steps: &[Step], wants: &[Want], written: &mut Vec<PathBuf>) -> Result<()> {
    for step in steps {
        match step {
            Step::Write { path, text } => {
                let path = Path::new(APT).join(path);
                eprintln!("write {}", path.display());
                written.push(path.clone());
                std::fs::write(&path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                if path.extension().is_some_and(|e| e == "sources") {
                    update(Some(&path))?;
                }
            }
            Step::Update => {
                update(None)?;
                let state = State::look().context("this is no Debian")?;
                if let Some(why) = wants.iter().find_map(|w| state.too_old(w)) {
                    refuse!("{why}, even with the suite that was added");
                }
            }
            Step::Install(packages) => {
                // From here on the sources are in use: they stay whatever happens.
                written.clear();
                eprintln!("apt-get install {}", packages.join(" "));
                let mut command = apt_get();
                command
                    .args(["install", "-y", "--no-install-recommends"])
                    .args(packages);
                if !command.status().context("cannot start apt-get")?.success() {
                    refuse!("apt-get could not install: {}", packages.join(" "));
                }
            }
        }
    }
    Ok(())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args([
            "-q",
            "-o",
            "DPkg::Lock::Timeout=300",
            "-o",
            "Acquire::Retries=3",
        ])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

/// Fetches all lists, or those of one new source, where any error counts.
fn update(only: Option<&Path>) -> Result<()> {
    let mut command = apt_get();
    command.arg("update");
    let Some(only) = only else {
        eprintln!("apt-get update");
        // A foreign source that fails is no matter of ours; what we need is checked afterwards.
        if !command
            .stdout(Stdio::null())
            .status()
            .context("cannot start apt-get")?
            .success()
        {
            eprintln!("apt-get update did not succeed; going on with the lists that are there");
        }
        return Ok(());
    };
    command
        .args(["-o", &format!("Dir::Etc::sourcelist={}", only.display())])
        .args([
            "-o",
            "Dir::Etc::sourceparts=-",
            "-o",
            "APT::Get::List-Cleanup=0",
        ])
        .args(["-o", "APT::Update::Error-Mode=any"]);
    let out = command.output().context("cannot start apt-get")?;
    if !out.status.success() {
        refuse!(
            "the suite in {} is not to be had:\n{}",
            only.display(),
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(())
}

/// Debian's compiler family excludes others; those are not ours to remove.
fn conflicts(wants: &[Want]) -> Result<()> {
    if !wants.iter().any(|w| w.newer == Newer::Security) {
        return Ok(());
    }
    let others = [
        "rustc",
        "cargo",
        "rustc-mozilla",
        "cargo-mozilla",
        "rustup",
        "rust-src",
        "rust-clippy",
        "rustfmt",
    ];
    let there: Vec<_> = others.into_iter().filter(|p| is_installed(p)).collect();
    if !there.is_empty() {
        let list = there.join(" ");
        refuse!(
            "rustc-web cannot stand beside the installed package(s) {list}; if they may go: apt-get remove {list}"
        );
    }
    Ok(())
}

fn is_installed(package: &str) -> bool {
    let out = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .output();
    out.is_ok_and(|o| o.stdout == b"installed")
}
