// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children that never outlive xtask, and never hang it.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A child that is killed when it is no longer held.
pub struct Held(pub Child);

impl Held {
    /// Starts `command`; the kernel kills it if this process dies first.
    pub fn spawn(command: &mut Command) -> Result<Held> {
        die_with_us(command);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        Ok(Held(child))
    }

    /// Ends it and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kill();
    }
}

fn die_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        use std::os::unix::process::CommandExt;
        let bind = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into);
        // SAFETY: between fork and exec the closure makes one system call and touches no memory
        // that another thread of the parent could have held locked.
        unsafe { command.pre_exec(bind) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// How a child ended, in words; `None` if with status 0.
pub fn trouble(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("status {code}")),
        (None, signal) => Some(format!("signal {}", signal.unwrap_or(0))),
    }
}

/// Keeps the first `most` bytes of `from` and drops the rest, so that the writer never blocks.
/// The text arrives when the stream ends.
pub fn keep(mut from: impl Read + Send + 'static, most: usize) -> Receiver<String> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 8192];
        while let Ok(n) = from.read(&mut buffer) {
            if n == 0 {
                break;
            }
            let room = most.saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..n.min(room)]);
        }
        // Nobody may be left to hear it.
        let _ = send.send(String::from_utf8_lossy(&kept).into_owned());
    });
    receive
}

/// What a child said.
pub struct Said {
    /// How it ended, in words; `None` if with status 0.
    pub trouble: Option<String>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `command` to its end, at most for `limit`.
pub fn capture(mut command: Command, limit: Duration) -> Result<Said> {
    const MOST: usize = 32 << 20;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let mut held = Held::spawn(&mut command)?;
    let out = keep(held.0.stdout.take().context("no standard output")?, MOST);
    let err = keep(held.0.stderr.take().context("no standard error")?, MOST);
    let trouble = loop {
        if let Some(status) = held.0.try_wait()? {
            break trouble(status);
        }
        if started.elapsed() > limit {
            held.kill();
            break Some(format!("no end after {} s", limit.as_secs_f32()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let wait = Duration::from_millis(500);
    let said = |from: Receiver<String>| from.recv_timeout(wait).unwrap_or_default();
    Ok(Said {
        trouble,
        out: said(out),
        err: said(err),
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::path::Path;

    /// Writes an executable shell script. A child writes it: if we did, a child that another
    /// test starts meanwhile could hold it open, and it would not execute.
    pub fn script(path: &Path, text: &str) {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1""#,
            "sh",
        ]);
        assert!(command.arg(path).arg(text).status().unwrap().success());
    }

    fn sh(script: &str, limit: Duration) -> Said {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        capture(command, limit).unwrap()
    }

    #[test]
    fn both_streams_and_the_status_are_kept() {
        let said = sh("echo out; echo err >&2; exit 4", Duration::from_secs(20));
        assert_eq!((said.out.as_str(), said.err.as_str()), ("out\n", "err\n"));
        assert_eq!(said.trouble.as_deref(), Some("status 4"));
        assert_eq!(sh("true", Duration::from_secs(20)).trouble, None);
    }

    #[test]
    fn a_child_without_end_is_ended() {
        let said = sh("echo out; exec sleep 60", Duration::from_millis(300));
        assert_eq!(said.trouble.as_deref(), Some("no end after 0.3 s"));
        assert_eq!(said.out, "out\n");
    }

    #[test]
    fn more_output_than_a_pipe_holds_does_not_block_the_child() {
        let said = sh(
            "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2",
            Duration::from_secs(20),
        );
        assert_eq!((said.out.len(), said.err.len()), (1_000_000, 1_000_000));
    }
}
