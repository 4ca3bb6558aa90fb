// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask lint`: format, clippy on host and bare metal with warnings denied, each library
//! crate alone with every set of its logging features, and packaging.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::board::{self, Board};
use crate::metadata::{self, Package, packages};
use crate::refused::Refused;
use crate::setup::toolchain::{Seen, Toolchain, short};
use crate::setup::{self, Needs};
use crate::tally::{Section, row};
use crate::workspace;

/// Features that change what is compiled.
const FEATURES: [&str; 2] = ["defmt", "log"];
const DENY: [&str; 3] = ["--", "-D", "warnings"];

/// Runs every check.
pub fn run() -> Result<Vec<Section>> {
    let boards = board::load_all(&workspace::root())?;
    let all: Vec<&Board> = boards.iter().collect();
    let ready = setup::ensure(
        &all,
        Needs {
            images: true,
            emulators: false,
            lints: true,
        },
    )?;
    let seen = Seen::look();
    let active = seen
        .active()
        .ok_or_else(|| Refused("no active Rust tool chain that is new enough".into()))?;
    let packages = packages(active)?;
    let mut checks = Checks::default();
    let host = ready.lints()?;
    checks.add("rustfmt", host.host_cargo("fmt").args(["--all", "--check"]))?;
    let mut clippy = host.host_cargo("clippy");
    clippy
        .args(["--locked", "--all-targets"])
        .args(metadata::host_packages(&boards))
        .arg("--target-dir")
        .arg(workspace::target("lint"))
        .args(DENY);
    checks.add("clippy host", &mut clippy)?;
    for (target, boards) in by_target(&all) {
        let toolchain = ready.toolchain(&target)?;
        for package in libraries_of(&packages, &boards) {
            for features in feature_sets(package) {
                let with = if features.is_empty() {
                    "no features"
                } else {
                    &features
                };
                let name = format!("clippy {} ({with}) {}", package.name, short(&target));
                checks.add(
                    &name,
                    &mut library(toolchain, &target, &package.name, &features),
                )?;
            }
        }
        let mut clippy = bare(toolchain, &target);
        for package in packages.iter().filter(|p| is_board_of(p, &boards)) {
            clippy.args(["--package", &package.name]);
        }
        checks.add(
            &format!("clippy boards {}", short(&target)),
            clippy.args(DENY),
        )?;
    }
    if let Some(home) = cargo_home() {
        forget_unpacked(&home, &packages)?;
    }
    checks.add("package", &mut package(active, &packages))?;
    Ok(vec![Section {
        name: "lint".into(),
        time: checks.time,
        rows: checks.rows,
    }])
}

/// Removes what cargo has unpacked of earlier packages of this workspace. It keeps them in its home
/// by the path of the workspace and by version, and takes them for the new ones.
fn forget_unpacked(home: &Path, packages: &[Package]) -> Result<()> {
    let Ok(registries) = std::fs::read_dir(home.join("registry/src")) else {
        return Ok(());
    };
    for registry in registries {
        let registry = registry?;
        // A registry without a host is the temporary one of a packaging.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for package in packages.iter().filter(|p| p.is_published()) {
            let name = format!("{}-{}", package.name, env!("CARGO_PKG_VERSION"));
            let unpacked = registry.path().join(name);
            if unpacked.exists() {
                std::fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("cannot remove {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// Cargo's home, as cargo finds it.
fn cargo_home() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// One `cargo package` call for all published crates, each built from its package.
fn package(toolchain: &Toolchain, packages: &[Package]) -> Command {
    let mut command = toolchain.host_cargo("package");
    command
        .args(["--locked", "--allow-dirty", "--target-dir"])
        .arg(workspace::target("lint"));
    for package in packages.iter().filter(|p| p.is_published()) {
        command.args(["--package", &package.name]);
    }
    command
}

fn library(toolchain: &Toolchain, target: &str, package: &str, features: &str) -> Command {
    let mut command = bare(toolchain, target);
    command
        .args([
            "--package",
            package,
            "--no-default-features",
            "--features",
            features,
        ])
        .args(DENY);
    command
}

fn bare(toolchain: &Toolchain, target: &str) -> Command {
    let mut command = toolchain.cargo("clippy", target);
    command
        .args(["--locked", "--release", "--target-dir"])
        .arg(workspace::target("bare"));
    command
}

/// The image's package, or what the boards share.
pub fn is_board_of(package: &Package, boards: &[&Board]) -> bool {
    let own = boards.iter().any(|b| b.image.package == package.name);
    own || (package.is_below("boards") && !package.folder().join("board.toml").exists())
}

/// The published crates that the images of `boards` are built from: those that build for their
/// target.
pub fn libraries_of<'a>(
    packages: &'a [Package],
    boards: &[&Board],
) -> impl Iterator<Item = &'a Package> {
    let is_image = |p: &&Package| boards.iter().any(|b| b.image.package == p.name);
    let images: Vec<_> = packages.iter().filter(is_image).collect();
    packages.iter().filter(move |library| {
        let needs = |image: &&&Package| image.dependencies.iter().any(|d| d.name == library.name);
        library.is_below("crates") && library.is_published() && images.iter().any(|i| needs(&i))
    })
}

/// Boards by their target.
pub fn by_target<'a>(boards: &[&'a Board]) -> Vec<(String, Vec<&'a Board>)> {
    let mut all: Vec<(String, Vec<&Board>)> = Vec::new();
    for board in boards {
        match all.iter_mut().find(|(t, _)| *t == board.image.target) {
            Some((_, list)) => list.push(board),
            None => all.push((board.image.target.clone(), vec![board])),
        }
    }
    all
}

/// Every set of the logging features that the package has, as cargo takes it.
fn feature_sets(package: &Package) -> Vec<String> {
    let has: Vec<_> = FEATURES
        .into_iter()
        .filter(|f| package.features.contains_key(*f))
        .collect();
    (0..1_u32 << has.len())
        .map(|set| {
            let chosen = has.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
            chosen.map(|(_, f)| *f).collect::<Vec<_>>().join(",")
        })
        .collect()
}

/// Checks that are commands: they pass if they end with status 0.
#[derive(Default)]
pub struct Checks {
    /// Time in all.
    pub time: Duration,
    /// One row for each.
    pub rows: Vec<crate::boot::report::TestRow>,
}

impl Checks {
    /// Runs one; its output goes to the terminal.
    pub fn add(&mut self, name: &str, command: &mut Command) -> Result<()> {
        eprintln!("check {name}");
        let started = Instant::now();
        let status = command
            .stdin(Stdio::null())
            .status()
            .context("cannot start cargo")?;
        let time = started.elapsed();
        self.time += time;
        self.rows.push(row(
            name,
            crate::process::trouble(status),
            time.as_millis() as u64,
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(features: &str) -> Package {
        let text = format!(
            r#"{{"name":"p","manifest_path":"/w/p/Cargo.toml","features":{features},"publish":null,"targets":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_set_of_the_features_that_are_there_is_checked() {
        assert_eq!(feature_sets(&package("{}")), [""]);
        assert_eq!(
            feature_sets(&package(r#"{"log":[],"other":[]}"#)),
            ["", "log"]
        );
        assert_eq!(
            feature_sets(&package(r#"{"log":[],"defmt":[]}"#)),
            ["", "defmt", "log", "defmt,log"]
        );
    }

    #[test]
    fn packages_of_an_earlier_state_are_forgotten_and_those_of_others_are_not() {
        let home = tempfile::tempdir().unwrap();
        let src = home.path().join("registry/src");
        let ours = format!("p-{}", env!("CARGO_PKG_VERSION"));
        for folder in [
            format!("-1234/{ours}/src"),
            "-1234/q-1.0.0".into(),
            format!("host-1/{ours}"),
        ] {
            std::fs::create_dir_all(src.join(folder)).unwrap();
        }
        forget_unpacked(home.path(), &[package("{}")]).unwrap();
        assert!(!src.join("-1234").join(&ours).exists());
        assert!(src.join("-1234/q-1.0.0").exists());
        assert!(src.join("host-1").join(&ours).exists());
        forget_unpacked(&home.path().join("nothing"), &[package("{}")]).unwrap();
    }

    #[test]
    fn a_check_passes_by_its_status_alone() {
        let mut checks = Checks::default();
        checks.add("good", &mut Command::new("true")).unwrap();
        checks.add("bad", &mut Command::new("false")).unwrap();
        assert_eq!(checks.rows[0].text, "");
        assert_eq!(checks.rows[1].text, "status 1");
    }
}
