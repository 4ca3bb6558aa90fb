// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs QEMU once: feeds its console to the judge, and ends it, whatever happens.
//!
//! QEMU never outlives xtask: it is killed when its handle is dropped, and the kernel kills it
//! when xtask itself is killed.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::judge::{End, Judge, Judged};
use super::line::{Lines, RawLine};
use super::protocol::parse;
use crate::process::{Held, keep, trouble};

/// Time in which the console of a QEMU that has ended is read on.
const DRAIN: Duration = Duration::from_secs(1);
const LOG: &str = "cannot write the console's log";

/// Console lines that are kept to be shown.
pub const TAIL: usize = 50;

/// When QEMU is ended by force.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Time without a byte on the console.
    pub silence: Duration,
    /// Time in all.
    pub wall: Duration,
    /// Bytes on the console, and in each of `files`.
    pub output: u64,
    /// Time left to an image that has panicked.
    pub after_panic: Duration,
    /// Files that QEMU writes and that may not grow without end.
    pub files: Vec<PathBuf>,
    /// The status with which QEMU leaves when the image ends the machine.
    pub exit_status: i32,
}

impl Bounds {
    /// The usual bounds for these limits in seconds.
    pub fn new(silence_s: u64, limit_s: u64) -> Bounds {
        Bounds {
            silence: Duration::from_secs(silence_s),
            wall: Duration::from_secs(limit_s),
            output: 64 << 20,
            after_panic: Duration::from_secs(2),
            files: Vec::new(),
            exit_status: 0,
        }
    }
}

/// What a run left behind.
#[derive(Debug)]
pub struct Ran {
    /// The judge's finding.
    pub judged: Judged,
    /// The last [`TAIL`] console lines.
    pub tail: VecDeque<String>,
    /// What QEMU itself said on standard error.
    pub complaints: String,
    /// Time from start to end.
    pub wall: Duration,
}

/// Runs `command`, whose standard output is the console. Each console line goes to `log`;
/// `each` sees the judge after each line.
pub fn run(
    mut command: Command,
    bounds: &Bounds,
    log: &mut dyn Write,
    judge: Judge,
    each: impl FnMut(&Judge),
) -> Result<Ran> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let mut held = Held::spawn(&mut command)?;
    let console = chunks(held.0.stdout.take().context("no console")?);
    let complaints = keep(held.0.stderr.take().context("no standard error")?, 16 << 10);
    let mut run = Run {
        started,
        lines: Lines::default(),
        judge,
        tail: VecDeque::new(),
        log,
        each,
    };
    let end = run.watch(&mut held, &console, bounds)?;
    held.kill();
    if let Some(raw) = run.lines.rest() {
        run.take(raw)?;
    }
    run.log.flush().context(LOG)?;
    let wall = started.elapsed();
    // The pipe is closed by now, unless a grandchild holds it; that one is not waited for.
    let complaints = complaints
        .recv_timeout(Duration::from_millis(500))
        .unwrap_or_default();
    Ok(Ran {
        judged: run.judge.finish(&end, wall.as_millis() as u64),
        tail: run.tail,
        complaints,
        wall,
    })
}

struct Run<'a, F> {
    started: Instant,
    lines: Lines,
    judge: Judge,
    tail: VecDeque<String>,
    log: &'a mut dyn Write,
    each: F,
}

impl<F: FnMut(&Judge)> Run<'_, F> {
    fn watch(
        &mut self,
        held: &mut Held,
        console: &Receiver<Vec<u8>>,
        bounds: &Bounds,
    ) -> Result<End> {
        let mut heard = Instant::now();
        let mut bytes = 0;
        let mut panicked: Option<Instant> = None;
        loop {
            match console.recv_timeout(Duration::from_millis(50)) {
                Ok(chunk) => {
                    heard = Instant::now();
                    bytes += chunk.len() as u64;
                    self.push(&chunk)?;
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Whoever watches the log sees what is there.
                    self.log.flush().context(LOG)?;
                    // A child of QEMU's may hold the console open.
                    if let Some(status) = held.0.try_wait()? {
                        self.drain(console, bounds.output.saturating_sub(bytes))?;
                        return Ok(end_of(status, bounds.exit_status));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    if let Some(status) = held.0.try_wait()? {
                        return Ok(end_of(status, bounds.exit_status));
                    }
                    // The console is closed, QEMU is still there: the bounds below end it.
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            if self.judge.panicked() {
                panicked.get_or_insert_with(Instant::now);
            }
            let why = if heard.elapsed() > bounds.silence {
                format!("silent for {} s", bounds.silence.as_secs_f32())
            } else if self.started.elapsed() > bounds.wall {
                format!("not done after {} s", bounds.wall.as_secs_f32())
            } else if bytes > bounds.output || bounds.files.iter().any(|f| size(f) > bounds.output)
            {
                format!("printed more than {} bytes", bounds.output)
            } else if panicked.is_some_and(|t| t.elapsed() > bounds.after_panic) {
                "did not leave after its panic".to_string()
            } else {
                continue;
            };
            // What is still in the pipe was printed before the cut: it belongs to the log.
            held.kill();
            self.drain(console, bounds.output.saturating_sub(bytes))?;
            return Ok(End::CutOff(why));
        }
    }

    /// Takes what is left on the console: to its end, at most `most` bytes, and for [`DRAIN`].
    fn drain(&mut self, console: &Receiver<Vec<u8>>, mut most: u64) -> Result<()> {
        let started = Instant::now();
        while let Some(left) = DRAIN.checked_sub(started.elapsed())
            && let Ok(chunk) = console.recv_timeout(left)
        {
            let Some(rest) = most.checked_sub(chunk.len() as u64) else {
                break;
            };
            most = rest;
            self.push(&chunk)?;
        }
        Ok(())
    }

    fn push(&mut self, chunk: &[u8]) -> Result<()> {
        let mut whole = Vec::new();
        self.lines.push(chunk, |raw| whole.push(raw));
        whole.into_iter().try_for_each(|raw| self.take(raw))
    }

    fn take(&mut self, raw: RawLine) -> Result<()> {
        let text = raw.printable();
        writeln!(self.log, "{text}").context(LOG)?;
        self.judge.line(
            parse(&raw),
            raw.bytes.is_empty(),
            self.started.elapsed().as_millis() as u64,
        );
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(text);
        (self.each)(&self.judge);
        Ok(())
    }
}

fn size(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

fn end_of(status: ExitStatus, expected: i32) -> End {
    if status.code() == Some(expected) {
        return End::Left;
    }
    End::Broke(trouble(status).unwrap_or_else(|| "status 0".into()))
}

/// Reads `from` in a thread. The channel is bounded, so a fast printer waits for the judge.
fn chunks(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = sync_channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n) = from.read(&mut buffer) {
            if n == 0 || send.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}

#[cfg(test)]
#[path = "qemu_tests.rs"]
mod tests;
