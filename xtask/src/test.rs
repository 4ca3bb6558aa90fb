// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: host tests, then the boots of each `board.toml`.

use anyhow::Result;

use crate::board::{self, Board};
use crate::setup::{self, Needs, Ready};
use crate::tally::Section;
use crate::{boot_tests, host_tests, output, select, workspace};

/// What `test` was asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// No boots.
    pub host: bool,
    /// Boots of these machines only.
    pub machines: Vec<String>,
    /// Only tests and boots whose name contains this.
    pub filter: Option<String>,
}

/// Runs what was asked.
pub fn run(asked: &Asked) -> Result<Vec<Section>> {
    let boards = board::load_all(&workspace::root())?;
    let chosen = select::machines(&boards, &asked.machines)?;
    let used: Vec<&Board> = boards
        .iter()
        .filter(|b| chosen.iter().any(|(c, _)| c.name == b.name))
        .collect();
    let ready = if asked.host {
        Ready::default()
    } else {
        output::folder(&workspace::target("boot"))?;
        setup::ensure(
            &used,
            Needs {
                images: true,
                emulators: true,
                lints: false,
            },
        )?
    };
    let filter = asked.filter.as_deref().unwrap_or_default();
    let mut sections = host_tests::run(&boards, filter)?;
    if !asked.host {
        sections.extend(boot_tests::run(&boards, &asked.machines, filter, &ready)?);
    }
    Ok(sections)
}
