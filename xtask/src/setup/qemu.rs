// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds an emulator that is new enough.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::board::Qemu;
use crate::process;
use crate::version::Version;

/// Time that an emulator has to tell its version.
const PATIENCE: Duration = Duration::from_secs(10);
/// What stands before the version.
const WORDS: &str = "QEMU emulator version ";

/// An emulator that was found to run.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// The program.
    pub path: PathBuf,
    /// What `--version` says.
    pub version: Version,
}

/// Why there is none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Lack {
    /// The environment names one that will not do; installing another does not help.
    Named { env: String, why: String },
    /// Not there.
    Missing { program: String },
    /// There, but it does not say that it is QEMU.
    Broken { program: String, why: String },
    /// Too old.
    TooOld {
        program: String,
        found: Version,
        needed: Version,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Named { env, why } => write!(f, "{env}: {why}"),
            Lack::Missing { program } => write!(f, "{program} is missing"),
            Lack::Broken { program, why } => write!(f, "{program} does not answer: {why}"),
            Lack::TooOld {
                program,
                found,
                needed,
            } => {
                write!(f, "{program} is {found}, needed is {needed} or newer")
            }
        }
    }
}

/// The emulator that the environment names, else the one in `PATH`.
pub fn find(qemu: &Qemu) -> Result<Emulator, Lack> {
    let named = std::env::var_os(&qemu.env).filter(|v| !v.is_empty());
    find_as(qemu, named.map(PathBuf::from))
}

fn find_as(qemu: &Qemu, named: Option<PathBuf>) -> Result<Emulator, Lack> {
    let needed = Version::find(&qemu.min_version).unwrap_or(Version([0; 3]));
    if let Some(path) = named {
        return probe(&path, needed, PATIENCE).map_err(|why| Lack::Named {
            env: qemu.env.clone(),
            why: why.to_string(),
        });
    }
    match super::in_path(&qemu.program) {
        Some(path) => probe(&path, needed, PATIENCE),
        None => Err(Lack::Missing {
            program: qemu.program.clone(),
        }),
    }
}

fn probe(path: &Path, needed: Version, limit: Duration) -> Result<Emulator, Lack> {
    let program = path.display().to_string();
    if !path.exists() {
        return Err(Lack::Missing { program });
    }
    let mut command = Command::new(path);
    command.arg("--version");
    let found = match process::capture(command, limit) {
        Err(why) => Err(format!("{why:#}")),
        Ok(said) => match said.trouble {
            Some(trouble) => Err(format!("{trouble} of --version")),
            None => version(&said.out).ok_or("its --version is not QEMU's".into()),
        },
    };
    match found {
        Err(why) => Err(Lack::Broken { program, why }),
        Ok(found) if found < needed => Err(Lack::TooOld {
            program,
            found,
            needed,
        }),
        Ok(version) => Ok(Emulator {
            path: path.into(),
            version,
        }),
    }
}

/// The version, if it is QEMU that said it.
fn version(said: &str) -> Option<Version> {
    let (_, rest) = said.split_once(WORDS)?;
    Version::find(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qemu() -> Qemu {
        Qemu {
            program: "no-such-emulator".into(),
            env: "IRQ_QEMU_TEST".into(),
            min_version: "10.0".into(),
            packages: vec![],
        }
    }

    fn fake(script: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qemu");
        crate::process::tests::script(&path, script);
        (dir, path)
    }

    #[test]
    fn an_emulator_that_is_missing_is_told_by_name() {
        let lack = find_as(&qemu(), None).unwrap_err();
        assert_eq!(lack.to_string(), "no-such-emulator is missing");
    }

    #[test]
    fn an_emulator_that_is_too_old_is_told_with_both_versions() {
        let (_dir, path) = fake("echo 'QEMU emulator version 7.2.17 (Debian)'");
        let lack = find_as(&qemu(), Some(path)).unwrap_err().to_string();
        assert!(
            lack.starts_with("IRQ_QEMU_TEST: ")
                && lack.ends_with("is 7.2.17, needed is 10.0.0 or newer"),
            "{lack}"
        );
    }

    #[test]
    fn a_named_emulator_that_is_missing_is_told() {
        let lack = find_as(&qemu(), Some("/no/such/qemu".into())).unwrap_err();
        assert_eq!(lack.to_string(), "IRQ_QEMU_TEST: /no/such/qemu is missing");
    }

    #[test]
    fn an_emulator_that_does_not_run_is_not_called_missing() {
        let (_dir, path) = fake("exit 1");
        let lack = find_as(&qemu(), Some(path.clone())).unwrap_err();
        assert!(matches!(lack, Lack::Named { .. }));
        let text = lack.to_string();
        assert!(
            text.ends_with("does not answer: status 1 of --version"),
            "{text}"
        );
        std::fs::write(&path, "").unwrap();
        let text = find_as(&qemu(), Some(path)).unwrap_err().to_string();
        assert!(text.contains("does not answer"), "{text}");
    }

    #[test]
    fn an_emulator_that_hangs_at_its_version_is_ended_and_told() {
        let (_dir, path) = fake("exec sleep 60");
        let started = std::time::Instant::now();
        let lack = probe(&path, Version([10, 0, 0]), Duration::from_millis(300)).unwrap_err();
        let text = lack.to_string();
        assert!(
            text.contains("does not answer: no end after 0.3 s"),
            "{text}"
        );
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_program_that_is_not_qemu_is_no_emulator() {
        let (_dir, path) = fake("echo 'frobnicator 42.0'");
        let text = find_as(&qemu(), Some(path)).unwrap_err().to_string();
        assert!(text.contains("is not QEMU's"), "{text}");
    }

    #[test]
    fn a_new_emulator_is_taken() {
        let (_dir, path) = fake("echo 'QEMU emulator version 11.0.50'");
        assert_eq!(
            find_as(&qemu(), Some(path)).unwrap().version,
            Version([11, 0, 50])
        );
    }
}
