// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packages of this workspace, as cargo tells them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

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
    pub features: std::collections::BTreeMap<String, Vec<String>>,
    /// Registries it may go to: `None` for all, empty for none.
    pub publish: Option<Vec<String>>,
    /// Its targets.
    pub targets: Vec<Target>,
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
        let tests = self
            .targets
            .iter()
            .filter(|t| t.kind == ["test"] && t.name.starts_with(prefix));
        tests.map(|t| t.name.as_str()).collect()
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
