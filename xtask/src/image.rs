// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a board's image with the chosen tool chain.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, bail};

use crate::board::Board;
use crate::setup::toolchain::{Toolchain, short};
use crate::workspace;

/// Builds and gives the ELF file's path. The compiler's messages go to the terminal.
pub fn build(board: &Board, toolchain: &Toolchain) -> Result<PathBuf> {
    let image = &board.image;
    eprintln!(
        "build {} for {} with {}",
        image.package,
        short(&image.target),
        toolchain.name
    );
    let mut command = toolchain.cargo("build", &image.target);
    command
        .args(["--package", &image.package, "--release", "--locked"])
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(workspace::target("bare"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let out = child
        .stdout
        .take()
        .ok_or_else(|| anyhow!("no output of cargo"))?;
    let mut path = None;
    for line in BufReader::new(out).lines() {
        path = executable(&line?, &image.package).or(path);
    }
    if !child.wait()?.success() {
        bail!("the image does not build");
    }
    path.ok_or_else(|| anyhow!("the package {} has no binary", image.package))
}

/// The file in one of cargo's messages, if it tells of the binary `name`.
fn executable(message: &str, name: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    (message["target"]["name"] == name)
        .then(|| message["executable"].as_str().map(PathBuf::from))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_cargos_messages() {
        let line =
            r#"{"reason":"compiler-artifact","target":{"name":"virt"},"executable":"/t/virt"}"#;
        assert_eq!(executable(line, "virt"), Some("/t/virt".into()));
        assert_eq!(executable(line, "other"), None);
        assert_eq!(
            executable(r#"{"target":{"name":"virt"},"executable":null}"#, "virt"),
            None
        );
        assert_eq!(executable("not json", "virt"), None);
    }
}
