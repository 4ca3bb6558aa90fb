// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packages of this workspace, as cargo tells them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer};

use crate::board::Board;
use crate::setup::toolchain::Toolchain;
use crate::workspace;

/// A package.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Its features.
    pub features: BTreeMap<String, Vec<String>>,
    /// Registries it may go to: `None` for all, empty for none.
    pub publish: Option<Vec<String>>,
    /// What it is built from.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// Its targets.
    pub targets: Vec<Target>,
    /// What `[package.metadata]` tells us.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Told,
}

/// What a package tells xtask.
#[derive(Debug, Default, Deserialize)]
pub struct Told {
    /// The names under which the rows of its bench programs come.
    #[serde(default)]
    pub benches: BTreeMap<String, Vec<String>>,
}

/// Cargo says `null` of a package that tells nothing.
fn or_default<'de, D: Deserializer<'de>>(from: D) -> Result<Told, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A dependency of a package.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
}

/// A target of a package.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `bin`, `test` and so on.
    pub kind: Vec<String>,
}

impl Package {
    /// It may be published.
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|to| !to.is_empty())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// It stands below the folder of this name in the workspace.
    pub fn is_below(&self, folder: &str) -> bool {
        self.manifest_path
            .starts_with(workspace::root().join(folder))
    }

    /// Its integration tests whose name begins so.
    pub fn tests(&self, prefix: &str) -> Vec<&str> {
        let mut tests = self.of_kind("test");
        tests.retain(|name| name.starts_with(prefix));
        tests
    }

    /// Its bench programs.
    pub fn benches(&self) -> Vec<&str> {
        self.of_kind("bench")
    }

    fn of_kind(&self, kind: &str) -> Vec<&str> {
        let targets = self.targets.iter().filter(|t| t.kind == [kind]);
        targets.map(|t| t.name.as_str()).collect()
    }
}

/// Cargo's arguments for every package that the host can build: all but the images.
pub fn host_packages(boards: &[Board]) -> Vec<String> {
    let images = boards
        .iter()
        .flat_map(|b| ["--exclude".to_string(), b.image.package.clone()]);
    ["--workspace".to_string()]
        .into_iter()
        .chain(images)
        .collect()
}

/// Every package of the workspace.
pub fn packages(toolchain: &Toolchain) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut command = toolchain.host_cargo("metadata");
    command
        .args(["--no-deps", "--format-version=1", "--locked"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let out = command.output().context("cannot start cargo")?;
    if !out.status.success() {
        bail!("cargo cannot read the workspace");
    }
    let metadata: Metadata = serde_json::from_slice(&out.stdout)?;
    Ok(metadata.packages)
}
