// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tool when nobody reads what it prints.
#![allow(missing_docs)]

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_is_gone_ends_the_tool_without_a_word() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(["setup", "--check"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let said = child.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
}
