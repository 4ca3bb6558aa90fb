// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask doc`: documentation on host and bare metal, with broken links denied.

use anyhow::Result;

use crate::board::{self, Board};
use crate::lint::{Checks, by_target, is_board_of, libraries_of};
use crate::metadata::packages;
use crate::refused::Refused;
use crate::setup::toolchain::{Seen, short};
use crate::setup::{self, Needs};
use crate::tally::Section;
use crate::workspace;

/// Builds the documentation of every crate.
pub fn run() -> Result<Vec<Section>> {
    let boards = board::load_all(&workspace::root())?;
    let all: Vec<&Board> = boards.iter().collect();
    let ready = setup::ensure(
        &all,
        Needs {
            images: true,
            ..Needs::default()
        },
    )?;
    let seen = Seen::look();
    let active = seen
        .active()
        .ok_or_else(|| Refused("no active Rust tool chain that is new enough".into()))?;
    let mut checks = Checks::default();
    // What the boards share is documented for bare metal only: parts of it are nowhere else.
    let mut host = active.host_cargo("doc");
    host.args(["--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings");
    checks.add("doc host", &mut host)?;
    let packages = packages(active)?;
    for (target, boards) in by_target(&all) {
        let mut bare = ready.toolchain(&target)?.cargo("doc", &target);
        bare.args(["--no-deps", "--locked", "--target-dir"])
            .arg(workspace::target("bare"));
        let images = packages.iter().filter(|p| is_board_of(p, &boards));
        for package in libraries_of(&packages, &boards).chain(images) {
            bare.args(["--package", &package.name]);
        }
        checks.add(
            &format!("doc {}", short(&target)),
            bare.env("RUSTDOCFLAGS", "-D warnings"),
        )?;
    }
    Ok(vec![Section {
        name: "doc".into(),
        time: checks.time,
        rows: checks.rows,
    }])
}
