// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the work needs from the machine: found, installed on Debian as root, told elsewhere.

pub mod apt;
pub mod debian;
pub mod qemu;
pub mod sources;
pub mod toolchain;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::board::Board;
use crate::refused::refuse;
use crate::version::Version;
use debian::{Newer, State, Want};
use qemu::{Emulator, Lack};
use toolchain::{Seen, Toolchain};

/// What a command is going to use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// A tool chain for each board's target.
    pub images: bool,
    /// Each board's emulator.
    pub emulators: bool,
    /// clippy and rustfmt, for the host and for each target.
    pub lints: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Ready {
    toolchains: BTreeMap<String, Toolchain>,
    emulators: BTreeMap<String, Emulator>,
    lints: Option<Toolchain>,
}

impl Ready {
    /// The tool chain for a bare-metal target.
    pub fn toolchain(&self, target: &str) -> Result<&Toolchain> {
        match self.toolchains.get(target) {
            Some(toolchain) => Ok(toolchain),
            None => refuse!("no tool chain was set up for {target}"),
        }
    }

    /// A board's emulator.
    pub fn emulator(&self, board: &Board) -> Result<&Emulator> {
        match self.emulators.get(&board.qemu.program) {
            Some(emulator) => Ok(emulator),
            None => refuse!("{} was not set up", board.qemu.program),
        }
    }

    /// The tool chain with clippy and rustfmt for the host.
    pub fn lints(&self) -> Result<&Toolchain> {
        match &self.lints {
            Some(toolchain) => Ok(toolchain),
            None => refuse!("clippy and rustfmt were not set up"),
        }
    }
}

/// One thing that is missing.
struct Missing {
    what: String,
    /// What brings it on Debian; nothing does if empty.
    debian: Vec<Want>,
    /// What brings it elsewhere.
    elsewhere: String,
}

/// Finds what `needs` names for `boards`; installs what is missing where it can.
pub fn ensure(boards: &[&Board], needs: Needs) -> Result<Ready> {
    let (ready, missing) = look(boards, needs);
    if missing.is_empty() {
        return Ok(ready);
    }
    for m in &missing {
        eprintln!("missing: {}", m.what);
    }
    let may_install =
        rustix::process::geteuid().is_root() && missing.iter().all(|m| !m.debian.is_empty());
    if !may_install || State::look().is_none() {
        refuse!("{}", advice(&missing));
    }
    apt::install(
        &missing
            .iter()
            .flat_map(|m| m.debian.clone())
            .collect::<Vec<_>>(),
    )?;
    let (ready, missing) = look(boards, needs);
    if !missing.is_empty() {
        refuse!("{}", advice(&missing));
    }
    Ok(ready)
}

/// Says what is there and what is missing; changes nothing. True if nothing is missing.
pub fn check(boards: &[&Board]) -> bool {
    let needs = Needs {
        images: true,
        emulators: true,
        lints: true,
    };
    let seen = Seen::look();
    for target in targets(boards) {
        println!("tool chain for {}:", toolchain::short(&target));
        let mut chosen = false;
        for candidate in seen.candidates(&target) {
            match candidate.found {
                Ok(_) if !chosen => {
                    chosen = true;
                    println!("  chosen  {}", candidate.name);
                }
                Ok(_) => println!("  usable  {}", candidate.name),
                Err(lack) => println!("  no      {}: lacks {lack}", candidate.name),
            }
        }
    }
    if let Some(lints) = seen.linting() {
        println!("clippy and rustfmt for the host: {}", lints.name);
    }
    let (ready, missing) = look(boards, needs);
    for (program, emulator) in &ready.emulators {
        println!(
            "{program}: {} at {}",
            emulator.version,
            emulator.path.display()
        );
    }
    if missing.is_empty() {
        println!("nothing is missing");
        return true;
    }
    for m in &missing {
        println!("missing: {}", m.what);
    }
    println!("{}", advice(&missing));
    false
}

fn targets(boards: &[&Board]) -> Vec<String> {
    let mut all: Vec<_> = boards.iter().map(|b| b.image.target.clone()).collect();
    all.sort();
    all.dedup();
    all
}

fn look(boards: &[&Board], needs: Needs) -> (Ready, Vec<Missing>) {
    let mut ready = Ready::default();
    let mut missing = Vec::new();
    if needs.images || needs.lints {
        let seen = Seen::look();
        for target in targets(boards) {
            match seen.choose(&target) {
                Some(t) if needs.lints && !toolchain::has_lints(&t) => {
                    missing.push(no_lints(&t.name))
                }
                Some(t) => drop(ready.toolchains.insert(target, t)),
                None => missing.push(no_toolchain(&target, &seen, needs.lints)),
            }
        }
        if needs.lints {
            ready.lints = seen.linting();
            if ready.lints.is_none() {
                missing.push(no_lints("the host"));
            }
        }
    }
    if needs.emulators {
        for board in boards {
            match qemu::find(&board.qemu) {
                Ok(emulator) => drop(ready.emulators.insert(board.qemu.program.clone(), emulator)),
                Err(lack) => missing.push(no_emulator(board, &lack)),
            }
        }
    }
    (ready, missing)
}

fn no_toolchain(target: &str, seen: &Seen, lints: bool) -> Missing {
    let mut packages = vec!["rustc-web", "cargo-web", "rust-web-src"];
    if !seen.has_lld() {
        packages.push("lld");
    }
    if lints {
        packages.extend(["rust-web-clippy", "rustfmt-web"]);
    }
    Missing {
        what: format!("a tool chain for {}", toolchain::short(target)),
        debian: vec![debian::rust(&packages)],
        elsewhere: match target.ends_with(".json") {
            true => "rustup component add rust-src".into(),
            false => format!("rustup target add {target}    # or: rustup component add rust-src"),
        },
    }
}

fn no_lints(whose: &str) -> Missing {
    Missing {
        what: format!("clippy and rustfmt of {whose}"),
        debian: vec![debian::rust(&[
            "cargo-web",
            "rust-web-clippy",
            "rustfmt-web",
        ])],
        elsewhere: "rustup component add clippy rustfmt".into(),
    }
}

fn no_emulator(board: &Board, lack: &Lack) -> Missing {
    let q = &board.qemu;
    let debian = match lack {
        Lack::Named { .. } => Vec::new(),
        _ => q
            .packages
            .first()
            .map(|first| Want {
                packages: q.packages.clone(),
                min: Version::find(&q.min_version).map(|v| (first.clone(), v)),
                newer: Newer::Backports,
            })
            .into_iter()
            .collect(),
    };
    let elsewhere = match lack {
        Lack::Named { env, .. } => format!(
            "unset {env}    # or set it to a {} of version {} or newer",
            q.program, q.min_version
        ),
        _ => format!(
            "export {}=PATH    # of a {} of version {} or newer",
            q.env, q.program, q.min_version
        ),
    };
    Missing {
        what: lack.to_string(),
        debian,
        elsewhere,
    }
}

/// The exact commands that bring what is missing.
fn advice(missing: &[Missing]) -> String {
    let mut text = String::from("set-up is incomplete");
    let wants: Vec<_> = missing.iter().flat_map(|m| m.debian.clone()).collect();
    let state = State::look().filter(|_| !wants.is_empty());
    let plan = state.map(|s| debian::plan(&s, &wants));
    let by_apt = matches!(plan, Some(Ok(_)));
    match plan {
        Some(Ok(steps)) => {
            text += "; as root (or run `cargo xtask setup` as root):\n  apt-get update\n";
            for line in debian::as_shell(&steps) {
                let _ = writeln!(text, "  {line}");
            }
        }
        Some(Err(why)) => {
            let _ = writeln!(text, "; {why}; elsewhere than on Debian:");
        }
        None => text += "; do:\n",
    }
    for m in missing {
        // What the commands above bring is a comment, so that all lines can be pasted.
        let other = if by_apt && !m.debian.is_empty() {
            "# elsewhere: "
        } else {
            ""
        };
        let _ = writeln!(text, "  # {}\n  {other}{}", m.what, m.elsewhere);
    }
    text.trim_end().into()
}

/// The program of that name in `PATH`.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_an_advice_can_be_pasted() {
        let missing = Missing {
            what: "it's (a thing) & more".into(),
            debian: Vec::new(),
            elsewhere: "false    # or: true".into(),
        };
        let text = advice(&[missing]);
        let (_, pasted) = text.split_once('\n').unwrap();
        let mut shell = std::process::Command::new("sh");
        let status = shell.args(["-n", "-c", pasted]).status().unwrap();
        assert!(status.success(), "{pasted}");
        assert_eq!(
            pasted.lines().map(str::trim).collect::<Vec<_>>(),
            ["# it's (a thing) & more", "false    # or: true"]
        );
    }
}
