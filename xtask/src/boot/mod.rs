// SPDX-License-Identifier: MIT OR Apache-2.0
//! One boot from the image to its artefacts.

pub mod command;
pub mod defmt;
pub mod dtb;
pub mod guest_errors;
pub mod judge;
pub mod line;
pub mod protocol;
pub mod qemu;
pub mod report;
pub mod shell;

use std::fs::{self, File, TryLockError};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::board::{Board, Limits, Machine, Planned};
use crate::setup::qemu::Emulator;
use crate::term::Progress;
use crate::topology::Topology;
use crate::workspace;
use judge::Judge;
use report::{Boot, Outcome, Suite, TestRow, Verdict, write_junit};

/// One boot to be made.
pub struct Job<'a> {
    /// The board.
    pub board: &'a Board,
    /// The machine, one of the board's.
    pub machine: &'a Machine,
    /// CPUs, nodes, threads.
    pub topology: Topology,
    /// The scenarios asked for.
    pub scenarios: &'a [String],
    /// What a board's own boots add.
    pub more: More<'a>,
    /// When it is cut off.
    pub limits: Limits,
    /// What it is made for.
    pub purpose: For<'a>,
    /// The image.
    pub image: &'a Path,
    /// The emulator.
    pub emulator: &'a Emulator,
}

/// What one boot of a board adds to its machine and scenarios.
#[derive(Clone, Copy, Debug, Default)]
pub struct More<'a> {
    /// Arguments of the emulator.
    pub args: &'a [String],
    /// Words on the image's command line.
    pub append: &'a [String],
    /// `reg` of a CPU that only the devicetree has.
    pub absent_cpu: Option<u32>,
}

/// What a boot is made for: boots of one topology keep their artefacts apart.
#[derive(Clone, Copy, Debug)]
pub enum For<'a> {
    /// `cargo xtask run`.
    Run,
    /// The test of this name.
    Test(&'a str),
    /// The bench of this name.
    Bench(&'a str),
}

/// The folder of a boot's artefacts.
pub fn folder(machine: &str, t: Topology, purpose: For) -> PathBuf {
    let name = format!("{machine}-{}c{}n{}t", t.cpus, t.nodes, t.threads);
    let boots = workspace::target("boot");
    match purpose {
        For::Run => boots.join(name),
        For::Test(test) => boots.join("test").join(format!("{name}-{test}")),
        For::Bench(bench) => boots.join("bench").join(format!("{name}-{bench}")),
    }
}

/// The job of a boot that the board plans.
pub fn planned<'a>(
    board: &'a Board,
    boot: &'a Planned,
    purpose: For<'a>,
    image: &'a Path,
    emulator: &'a Emulator,
) -> Result<Job<'a>> {
    let machine = board
        .machine(&boot.machine)
        .context("a boot of an unknown machine")?;
    Ok(Job {
        board,
        machine,
        topology: boot.topology(),
        scenarios: &boot.scenarios,
        more: More {
            args: &boot.args,
            append: &boot.append,
            absent_cpu: boot.absent_cpu,
        },
        limits: Limits {
            silence_s: boot.silence_s.unwrap_or(board.limits.silence_s),
            ..board.limits
        },
        purpose,
        image,
        emulator,
    })
}

/// A boot and where its console is.
pub struct Booted {
    /// The record.
    pub boot: Boot,
    /// The folder of artefacts.
    pub folder: PathBuf,
}

/// Boots once. The console's last lines are shown when the verdict is not `passed`, unless
/// `expected` says that this is what the caller wants to see.
pub fn boot(job: &Job, expected: Verdict) -> Result<Booted> {
    let folder = folder(&job.machine.name, job.topology, job.purpose);
    let _only_one = lock(&folder, |text| eprintln!("{text}"))?;
    empty(&folder)?;
    let defmt_bin = folder.join("defmt.bin");
    let dtb = match job.more.absent_cpu {
        Some(reg) => Some(dtb::with_absent_cpu(job, &folder, reg)?),
        None => None,
    };
    let mut ports = command::Ports {
        console: "stdio".into(),
        defmt: format!("file:{}", defmt_bin.display()),
    };
    if !command::has_second_port(job.machine) {
        ports.defmt.clear();
    }
    let mut command = command::qemu(job, &ports, dtb.as_deref());
    let guest_log = folder.join("guest_errors.log");
    if job.machine.guest_errors.is_some() {
        command
            .args(["-d", "guest_errors", "-D"])
            .arg(guest_log.as_os_str());
    }
    let shown = shell::line(&command);
    fs::write(folder.join("qemu.cmd"), format!("{shown}\n"))?;
    let mut bounds = qemu::Bounds::new(job.limits.silence_s, job.limits.limit_s);
    bounds.files = vec![defmt_bin.clone(), guest_log.clone()];
    bounds.exit_status = job.machine.exit_status;
    let mut log = BufWriter::new(File::create(folder.join("console.log"))?);
    let t = job.topology;
    let progress = Progress::start(&format!(
        "boot {}: {} CPU(s) in {} node(s), {}",
        job.machine.name,
        t.cpus,
        t.nodes,
        job.scenarios.join(",")
    ));
    // Failures that are wanted would only alarm the reader.
    let tell = |row: &TestRow| {
        if expected == Verdict::Passed {
            progress.line(&test_line(row));
        }
    };
    let mut told = 0;
    let ran = qemu::run(
        command,
        &bounds,
        &mut log,
        Judge::new(job.scenarios),
        |judge| {
            let (done, plan) = judge.progress();
            if done > told {
                told = done;
                judge.last().into_iter().for_each(tell);
                let plan = plan.map_or("?".into(), |n| n.to_string());
                progress.at(&format!("{} test {done} of {plan}", job.machine.name));
            }
        },
    )?;
    let mut judged = ran.judged;
    if let Some(allowed) = &job.machine.guest_errors {
        let log = fs::read(&guest_log).context("QEMU wrote no log of guest errors")?;
        let beyond = guest_errors::beyond(&String::from_utf8_lossy(&log), allowed);
        judged.guest_errors(beyond);
    }
    judged.tests.iter().skip(told).for_each(tell);
    drop(progress);
    defmt::decode_file(&defmt_bin, job.image, &folder.join("defmt.log"))?;
    let suite = Suite {
        name: job.machine.name.clone(),
        time: ran.wall,
        tests: &judged.tests,
    };
    write_junit(&folder.join("junit.xml"), &[suite])?;
    if judged.verdict == expected && expected != Verdict::Passed {
        eprintln!("  {}, as expected", expected.word());
    }
    if judged.verdict != expected {
        eprintln!("{}: the last lines of its console:", job.machine.name);
        ran.tail.iter().for_each(|l| eprintln!("  | {l}"));
        if !ran.complaints.trim().is_empty() {
            eprintln!("QEMU said:\n{}", ran.complaints.trim_end());
        }
        eprintln!("artefacts: {}", folder.display());
    }
    let boot = Boot {
        machine: job.machine.name.clone(),
        board: job.board.name.clone(),
        cpus: t.cpus,
        nodes: t.nodes,
        threads: t.threads,
        qemu: job.emulator.version.to_string(),
        verdict: judged.verdict,
        wall_ms: ran.wall.as_millis() as u64,
        tests: judged.tests,
        metrics: judged.metrics,
    };
    Ok(Booted { boot, folder })
}

/// The record of a boot that could not be made for lack of an image.
pub fn unbuilt(board: &Board, machine: &Machine, t: Topology, qemu: &Emulator, why: &str) -> Boot {
    let row = TestRow {
        name: "boot.verdict".into(),
        verdict: Outcome::Failed,
        ms: 0,
        text: why.into(),
    };
    Boot {
        machine: machine.name.clone(),
        board: board.name.clone(),
        cpus: t.cpus,
        nodes: t.nodes,
        threads: t.threads,
        qemu: qemu.version.to_string(),
        verdict: Verdict::Unbuilt,
        wall_ms: 0,
        tests: vec![row],
        metrics: Vec::new(),
    }
}

/// One test as a line of text.
pub fn test_line(test: &TestRow) -> String {
    match test.verdict {
        Outcome::Passed => format!("  ok   {} ({} ms)", test.name, test.ms),
        Outcome::Failed => format!("  FAIL {}: {}", test.name, test.text),
        Outcome::Skipped => format!("  skip {}: {}", test.name, test.text),
    }
}

/// Keeps a second xtask from booting into the same folder; released when dropped. A wait is told.
fn lock(folder: &Path, tell: impl FnOnce(&str)) -> Result<File> {
    let path = folder.with_extension("lock");
    fs::create_dir_all(path.parent().unwrap_or(folder))
        .with_context(|| format!("cannot make the folder of {}", path.display()))?;
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            tell(&format!(
                "another xtask boots into {}; waiting",
                folder.display()
            ));
            file.lock()
        }
        Err(TryLockError::Error(why)) => Err(why),
        Ok(()) => Ok(()),
    };
    locked.with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_boot_into_a_folder_says_that_it_waits() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("m-1c1n1t");
        let first = lock(&folder, |text| panic!("{text}")).unwrap();
        let mut told = String::new();
        // The first one leaves once the second has said that it waits.
        lock(&folder, |text| {
            told = text.into();
            drop(first);
        })
        .unwrap();
        assert!(told.starts_with("another xtask boots into "), "{told}");
        assert!(told.ends_with("m-1c1n1t; waiting"), "{told}");
    }
}
