// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things are.

use std::path::{Path, PathBuf};

/// The workspace's root: the folder above this package's.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    package.parent().map(Path::to_path_buf).unwrap_or(package)
}

/// A folder below `target/`. It is ours whatever `CARGO_TARGET_DIR` says, so that artefacts
/// are where the documents say.
pub fn target(name: &str) -> PathBuf {
    root().join("target").join(name)
}
