// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask debug`: a machine that waits for gdb, its console on the terminal.

use std::process::{ExitCode, Stdio};

use anyhow::Result;

use crate::boot::command::{self, Ports};
use crate::boot::{For, Job, More, shell};
use crate::process::Held;
use crate::refused::refuse;
use crate::select::{Asked, choose};
use crate::setup::{self, Needs};
use crate::{board, image, workspace};

/// Boots the first machine that was asked for, stopped before its first instruction.
pub fn run(asked: &Asked, port: u16) -> Result<ExitCode> {
    let boards = board::load_all(&workspace::root())?;
    let choices = choose(&boards, asked)?;
    let [choice] = choices.as_slice() else {
        refuse!("debug takes one machine")
    };
    let board = choice.board;
    let ready = setup::ensure(
        &[board],
        Needs {
            images: true,
            emulators: true,
            lints: false,
        },
    )?;
    let image = image::build(board, ready.toolchain(&board.image.target)?)?;
    let job = Job {
        board,
        machine: choice.machine,
        topology: choice.topology,
        scenarios: &choice.scenarios,
        more: More::default(),
        limits: board.limits,
        purpose: For::Run,
        image: &image,
        emulator: ready.emulator(board)?,
    };
    let ports = Ports {
        console: "stdio".into(),
        defmt: "null".into(),
    };
    let mut command = command::qemu(&job, &ports, None);
    command
        .args(["-S", "-gdb", &format!("tcp:127.0.0.1:{port}")])
        .stdin(Stdio::null());
    let image = shell::quote(&image.to_string_lossy());
    println!("{}", shell::line(&command));
    println!("in another terminal:\n  gdb-multiarch {image} -ex 'target remote 127.0.0.1:{port}'");
    let status = Held::spawn(&mut command)?.0.wait()?;
    Ok(if status.code() == Some(choice.machine.exit_status) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
