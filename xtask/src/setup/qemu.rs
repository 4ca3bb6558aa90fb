// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds an emulator that is new enough.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::board::Qemu;
use crate::version::Version;

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
    /// Not there, or it does not run.
    Missing { program: String },
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
        return probe(&path, needed).map_err(|why| Lack::Named {
            env: qemu.env.clone(),
            why: why.to_string(),
        });
    }
    match super::in_path(&qemu.program) {
        Some(path) => probe(&path, needed),
        None => Err(Lack::Missing {
            program: qemu.program.clone(),
        }),
    }
}

fn probe(path: &Path, needed: Version) -> Result<Emulator, Lack> {
    let program = path.display().to_string();
    let out = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let said = out
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    match said.as_deref().and_then(Version::find) {
        None => Err(Lack::Missing { program }),
        Some(found) if found < needed => Err(Lack::TooOld {
            program,
            found,
            needed,
        }),
        Some(version) => Ok(Emulator {
            path: path.into(),
            version,
        }),
    }
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
    fn a_named_emulator_that_is_missing_or_does_not_run_is_told() {
        let lack = find_as(&qemu(), Some("/no/such/qemu".into())).unwrap_err();
        assert_eq!(lack.to_string(), "IRQ_QEMU_TEST: /no/such/qemu is missing");
        let (_dir, path) = fake("exit 1");
        assert!(matches!(
            find_as(&qemu(), Some(path)),
            Err(Lack::Named { .. })
        ));
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
