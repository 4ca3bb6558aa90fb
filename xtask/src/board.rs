// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `boards/<name>/board.toml`: all that xtask knows about machines.
//!
//! Arguments of QEMU are templates; [`crate::boot::command`] has the placeholders and the order
//! in which arguments come.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::boot::command;
use crate::boot::report::Verdict;
use crate::refused::refuse;
use crate::topology::Topology;
use crate::version::Version;

/// One board: an image and the machines it boots on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// The folder's name; not in the file.
    #[serde(skip)]
    pub name: String,
    /// What is built.
    pub image: Image,
    /// The emulator.
    pub qemu: Qemu,
    /// When a boot is cut off.
    #[serde(default)]
    pub limits: Limits,
    /// The names that `--machine` takes.
    #[serde(rename = "machine")]
    pub machines: Vec<Machine>,
    /// The names that `--scenario` takes.
    #[serde(rename = "scenario")]
    pub scenarios: Vec<Scenario>,
    /// The boots of `cargo xtask test`.
    #[serde(default, rename = "boot")]
    pub boots: Vec<Planned>,
    /// The boots of `cargo xtask bench`.
    #[serde(default, rename = "bench")]
    pub benches: Vec<Planned>,
    /// Commands that `cargo xtask test` expects to be refused.
    #[serde(default, rename = "refusal")]
    pub refusals: Vec<Refusal>,
}

/// The image's package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Cargo's package, and its binary.
    pub package: String,
    /// The bare-metal target: a triple, or the path of a JSON target below the repository's root.
    pub target: String,
}

/// The emulator's program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qemu {
    /// The program's name, looked up in `PATH`.
    pub program: String,
    /// The environment variable that names another program instead.
    pub env: String,
    /// The oldest version that will do.
    pub min_version: String,
    /// Debian's packages that bring it.
    pub packages: Vec<String>,
}

/// When a boot is cut off, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Without a byte on port 0.
    pub silence_s: u64,
    /// In all.
    pub limit_s: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            silence_s: 30,
            limit_s: 300,
        }
    }
}

/// One machine of the emulator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name, unique over all boards.
    pub name: String,
    /// The emulator's arguments.
    pub args: Vec<String>,
    /// More of them for each node with CPUs, if there are several nodes.
    #[serde(default)]
    pub node_args: Vec<String>,
    /// More of them for each node without; a machine that has no such nodes gives none.
    #[serde(default)]
    pub empty_node_args: Vec<String>,
    /// Memory in MiB, split evenly over the nodes.
    #[serde(default)]
    pub memory_mib: Option<u32>,
    /// Most CPUs.
    pub max_cpus: u32,
    /// Most nodes, those without CPUs counted.
    pub max_nodes: u32,
    /// Most threads of a core.
    pub max_threads: u32,
    /// How many nodes there can be, where that is not any number to the most.
    #[serde(default)]
    pub node_counts: Option<NodeCounts>,
    /// The status with which the emulator leaves when the image ends the machine.
    #[serde(default)]
    pub exit_status: i32,
    /// Makes the emulator log what it calls guest errors, and says which lines may come. Any
    /// other line fails the boot.
    #[serde(default)]
    pub guest_errors: Option<Vec<GuestError>>,
}

/// The numbers of nodes that a machine can have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeCounts {
    /// They.
    pub counts: Vec<u32>,
    /// Why no others.
    pub reason: String,
}

/// A line of the emulator's log of guest errors that may come.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestError {
    /// The whole line; a `*` stands for any text.
    pub line: String,
    /// Why it is no error of ours.
    pub reason: String,
}

/// What the image can be asked to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name on the image's command line.
    pub name: String,
    /// Devices that it needs: arguments added to the machine's.
    #[serde(default)]
    pub args: Vec<String>,
}

/// One boot of `cargo xtask test` or `bench`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Of a test, a sentence about behaviour; of a bench, one word.
    pub name: String,
    /// The machine.
    pub machine: String,
    /// CPUs.
    pub cpus: u32,
    /// Nodes.
    pub nodes: u32,
    /// Threads of a core.
    #[serde(default = "one")]
    pub threads: u32,
    /// Further nodes, with memory only.
    #[serde(default)]
    pub empty_nodes: u32,
    /// The scenarios asked for.
    pub scenarios: Vec<String>,
    /// More arguments of the emulator.
    #[serde(default)]
    pub args: Vec<String>,
    /// More words on the image's command line.
    #[serde(default)]
    pub append: Vec<String>,
    /// The verdict that makes this boot a success. Of `passed` each test counts, of another
    /// verdict the boot counts as one test.
    #[serde(default = "passed")]
    pub expect: Verdict,
    /// Text that a failed test must carry.
    #[serde(default)]
    pub text: Option<String>,
    /// Text that the console must show.
    #[serde(default)]
    pub console: Option<String>,
    /// How many tests are skipped, exactly, of a boot that passes.
    #[serde(default)]
    pub skips: usize,
    /// A shorter silence than the board's.
    #[serde(default)]
    pub silence_s: Option<u64>,
    /// Boot with a devicetree that also names a CPU with this `reg`, which the machine lacks.
    #[serde(default)]
    pub absent_cpu: Option<u32>,
    /// Of a bench, the names that its rows come under, all of them; its own if none are told. A
    /// metric `name.variant` is a row.
    #[serde(default)]
    pub benches: Vec<String>,
}

/// A command that must end with status 2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// A sentence about behaviour.
    pub name: String,
    /// xtask's arguments.
    pub args: Vec<String>,
    /// Added to the environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What standard error must say.
    pub says: String,
}

fn one() -> u32 {
    1
}

fn passed() -> Verdict {
    Verdict::Passed
}

impl Board {
    /// Reads and checks one file's text.
    pub fn parse(name: &str, text: &str) -> Result<Board> {
        let mut board: Board = toml::from_str(text)?;
        board.name = name.into();
        board.check()?;
        Ok(board)
    }

    /// The machine of that name.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|m| m.name == name)
    }

    /// The scenario of that name.
    pub fn scenario(&self, name: &str) -> Option<&Scenario> {
        self.scenarios.iter().find(|s| s.name == name)
    }

    fn check(&self) -> Result<()> {
        unique("scenarios", self.scenarios.iter().map(|s| &s.name))?;
        unique("boots", self.boots.iter().map(|b| &b.name))?;
        unique("refusals", self.refusals.iter().map(|r| &r.name))?;
        named("scenario", "", self.scenarios.iter().map(|s| &s.name))?;
        named("machine", "-", self.machines.iter().map(|m| &m.name))?;
        named("boot", "", self.boots.iter().map(|b| &b.name))?;
        named("bench", "", self.benches.iter().map(|b| &b.name))?;
        if Version::find(&self.qemu.min_version).is_none() {
            bail!("`{}` is no version", self.qemu.min_version);
        }
        if self.limits.silence_s == 0 || self.limits.limit_s == 0 {
            bail!("a limit of 0 s");
        }
        for machine in &self.machines {
            if machine.max_cpus == 0 || machine.max_nodes == 0 || machine.max_threads == 0 {
                bail!("{}: a limit of 0", machine.name);
            }
            command::check(machine).with_context(|| machine.name.clone())?;
            if let Some(nodes) = &machine.node_counts
                && (nodes.counts.is_empty() || nodes.reason.is_empty())
            {
                bail!("{}: node_counts without counts or reason", machine.name);
            }
            for allowed in machine.guest_errors.iter().flatten() {
                if allowed.reason.is_empty() || allowed.line.trim_matches('*').is_empty() {
                    bail!("{}: a guest error wants a line and a reason", machine.name);
                }
            }
        }
        for scenario in &self.scenarios {
            command::check_args(&scenario.args).with_context(|| scenario.name.clone())?;
        }
        for boot in &self.boots {
            self.check_boot(boot)
                .with_context(|| format!("boot {}", boot.name))?;
            if !boot.benches.is_empty() {
                bail!("boot {}: only a bench has benches", boot.name);
            }
            if boot.expect != Verdict::Passed && boot.skips > 0 {
                bail!("boot {}: only one that passes tells its skips", boot.name);
            }
        }
        for bench in &self.benches {
            self.check_boot(bench)
                .with_context(|| format!("bench {}", bench.name))?;
            if bench.expect != Verdict::Passed || bench.text.is_some() || bench.console.is_some() {
                bail!("bench {}: only a boot expects something", bench.name);
            }
        }
        Ok(())
    }

    fn check_boot(&self, boot: &Planned) -> Result<()> {
        let Some(machine) = self.machine(&boot.machine) else {
            bail!("no machine {}", boot.machine)
        };
        boot.topology().check(machine)?;
        if boot.scenarios.is_empty() {
            bail!("no scenario");
        }
        if boot.silence_s == Some(0) {
            bail!("a limit of 0 s");
        }
        if let Some(s) = boot.scenarios.iter().find(|s| self.scenario(s).is_none()) {
            bail!("no scenario {s}");
        }
        command::check_args(&boot.args)?;
        command::check_append(machine, &boot.append)
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            bail!("two {what} have the name {name}");
        }
    }
    Ok(())
}

/// Names become folders and words of command lines: `[a-z0-9_]`, and what `more` holds.
fn named<'a>(what: &str, more: &str, names: impl Iterator<Item = &'a String>) -> Result<()> {
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for name in names {
        if name.is_empty() || !name.chars().all(|c| ok(c) || more.contains(c)) {
            bail!("`{name}` is not a {what}'s name ([a-z0-9_{more}])");
        }
    }
    Ok(())
}

impl Planned {
    /// CPUs, nodes, threads.
    pub fn topology(&self) -> Topology {
        Topology {
            cpus: self.cpus,
            nodes: self.nodes,
            threads: self.threads,
            empty_nodes: self.empty_nodes,
        }
    }
}

/// Reads every board below `root/boards`, in the order of their names.
pub fn load_all(root: &Path) -> Result<Vec<Board>> {
    let dir = root.join("boards");
    let entries =
        std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut boards = Vec::new();
    for entry in entries {
        let file = entry?.path().join("board.toml");
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            // A folder without one, as the boards' common code is, or no folder.
            Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                continue;
            }
            Err(why) => refuse!("cannot read {}: {why}", file.display()),
        };
        let name = file
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default()
            .to_string_lossy();
        match Board::parse(&name, &text) {
            Ok(board) => boards.push(board),
            Err(why) => refuse!("{}: {why:#}", file.display()),
        }
    }
    boards.sort_by(|a, b| a.name.cmp(&b.name));
    let mut seen = HashSet::new();
    for machine in boards.iter().flat_map(|b| &b.machines) {
        if !seen.insert(&machine.name) {
            refuse!("two boards have a machine {}", machine.name);
        }
    }
    Ok(boards)
}

#[cfg(test)]
#[path = "board_tests.rs"]
pub mod tests;
