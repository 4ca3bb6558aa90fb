// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask run`: builds images, boots machines, ends with a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::board::{self, Board};
use crate::boot::report::{Report, Verdict};
use crate::boot::{self, For, Job, More};
use crate::select::{Asked, choose};
use crate::setup::{self, Needs, Ready};
use crate::{image, output, workspace};

/// Images by board; the reason where one does not build.
pub type Images = BTreeMap<String, Result<PathBuf, String>>;

/// Builds each board's image once.
pub fn build_images(boards: &[&Board], ready: &Ready) -> Result<Images> {
    let mut images = Images::new();
    for board in boards {
        if !images.contains_key(&board.name) {
            let toolchain = ready.toolchain(&board.image.target)?;
            let built = image::build(board, toolchain).map_err(|why| format!("{why:#}"));
            images.insert(board.name.clone(), built);
        }
    }
    Ok(images)
}

/// Runs what was asked.
pub fn run(asked: &Asked, json: Option<&Path>) -> Result<ExitCode> {
    let boards = board::load_all(&workspace::root())?;
    let choices = choose(&boards, asked)?;
    json.map(output::writable).transpose()?;
    output::folder(&workspace::target("boot"))?;
    for note in choices.iter().filter_map(|c| c.note.as_ref()) {
        eprintln!("{note}");
    }
    let used: Vec<&Board> = choices.iter().map(|c| c.board).collect();
    let ready = setup::ensure(
        &used,
        Needs {
            images: true,
            emulators: true,
            lints: false,
        },
    )?;
    let images = build_images(&used, &ready)?;
    let mut boots = Vec::new();
    for choice in &choices {
        let emulator = ready.emulator(choice.board)?;
        let image = match &images[&choice.board.name] {
            Ok(image) => image,
            Err(why) => {
                boots.push(boot::unbuilt(
                    choice.board,
                    choice.machine,
                    choice.topology,
                    emulator,
                    why,
                ));
                continue;
            }
        };
        let job = Job {
            board: choice.board,
            machine: choice.machine,
            topology: choice.topology,
            scenarios: &choice.scenarios,
            more: More::default(),
            limits: choice.board.limits,
            purpose: For::Run,
            image,
            emulator,
        };
        boots.push(boot::boot(&job, Verdict::Passed)?.boot);
    }
    let report = Report::new(boots);
    // Before the table: the reader of that may be gone.
    let written = json.map(|path| report.write_json(path)).transpose();
    print!("{}", report.table());
    written?;
    if report.passed + report.failed == 0 {
        eprintln!("nothing was tested");
    }
    Ok(if report.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
