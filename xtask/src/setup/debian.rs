// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans what to install on Debian from what apt knows. The steps can be run or printed.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::sources::{self, Source};
use super::toolchain::MIN_RUST;
use crate::boot::shell::quote;
use crate::refused::refuse;
use crate::version::Version;

/// Apt's folder.
pub const APT: &str = "/etc/apt";
const SECURITY: &str = "sources.list.d/irq-drivers-security.sources";
const BACKPORTS: &str = "sources.list.d/irq-drivers-backports.sources";
const PIN: &str = "preferences.d/irq-drivers-backports";
/// The only release whose newer emulator comes from backports.
const PINNED_RELEASE: &str = "bookworm";

/// Packages to install together, and the version that one of them must have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Want {
    /// The packages.
    pub packages: Vec<String>,
    /// The package whose version counts, and the oldest that will do.
    pub min: Option<(String, Version)>,
    /// Where a newer one may be had from.
    pub newer: Newer,
}

/// Where a newer version of a package may be had from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Newer {
    /// The security suite.
    Security,
    /// Backports, for the emulator alone.
    Backports,
}

/// Debian's compiler family at a version that will do.
pub fn rust(packages: &[&str]) -> Want {
    Want {
        packages: packages.iter().map(|p| p.to_string()).collect(),
        min: Some(("rustc-web".into(), MIN_RUST)),
        newer: Newer::Security,
    }
}

/// One step of an installation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Write a file below apt's folder.
    Write { path: &'static str, text: String },
    /// Fetch the package lists.
    Update,
    /// Install packages.
    Install(Vec<String>),
}

/// What apt knows.
#[derive(Debug)]
pub struct State {
    /// The release's code name.
    pub release: String,
    /// Where packages come from.
    pub sources: Vec<Source>,
    /// The emulator is pinned to backports already.
    pub pinned: bool,
    /// The version that apt would install of a package.
    pub candidate: fn(&str) -> Option<Version>,
}

impl State {
    /// Looks at this machine; `None` if it is no Debian.
    pub fn look() -> Option<State> {
        let text = std::fs::read_to_string("/etc/os-release").ok()?;
        let field = |key: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(key))
                .map(|v| v.trim_matches('"').to_string())
        };
        let ids = [field("ID="), field("ID_LIKE=")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
        if !ids.split(' ').any(|id| id == "debian") || super::in_path("apt-get").is_none() {
            return None;
        }
        let etc = Path::new(APT);
        Some(State {
            release: field("VERSION_CODENAME=").unwrap_or_default(),
            sources: sources::read_all(etc),
            pinned: is_pinned(etc),
            candidate,
        })
    }

    /// Why apt cannot bring what is wanted, if it cannot.
    pub fn too_old(&self, want: &Want) -> Option<String> {
        let (package, needed) = want.min.as_ref()?;
        match (self.candidate)(package) {
            Some(found) if found >= *needed => None,
            Some(found) => Some(format!(
                "apt has {package} {found}, needed is {needed} or newer"
            )),
            None => Some(format!("apt has no package {package}")),
        }
    }
}

/// The steps that bring `wants`. The first update is the caller's.
pub fn plan(state: &State, wants: &[Want]) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for want in wants {
        let Some(why) = state.too_old(want) else {
            continue;
        };
        let main = sources::main_source(&state.sources, &state.release);
        let (Some(main), true) = (main, state.release == PINNED_RELEASE) else {
            refuse!(
                "{why}, and no newer suite is known for the release `{}`",
                state.release
            )
        };
        let suite = |name: &str| format!("{}-{name}", state.release);
        match want.newer {
            Newer::Security if !sources::has_suite(&state.sources, &suite("security")) => {
                let Some(uri) = sources::security_uri(&main.uris[0]) else {
                    refuse!(
                        "{why}, and the security suite is not found from {}",
                        main.uris[0]
                    )
                };
                let text = sources::entry(main, &uri, &suite("security"));
                steps.push(Step::Write {
                    path: SECURITY,
                    text,
                });
            }
            Newer::Backports if !state.pinned => {
                let suite = suite("backports");
                let known = sources::has_suite(&state.sources, &suite);
                if !known {
                    let text = sources::entry(main, &main.uris[0], &suite);
                    steps.push(Step::Write {
                        path: BACKPORTS,
                        text,
                    });
                }
                // Where someone else uses backports already, only our own packages are pinned.
                let all = format!("Package: *\nPin: release n={suite}\nPin-Priority: -1\n\n");
                let ours = format!(
                    "Package: src:qemu seabios\nPin: release n={suite}\nPin-Priority: 600\n"
                );
                let text = if known { ours } else { all + &ours };
                steps.push(Step::Write { path: PIN, text });
            }
            _ => refuse!("{why}"),
        }
    }
    let mut seen = Vec::new();
    steps.retain(|s| {
        !seen.contains(s) && {
            seen.push(s.clone());
            true
        }
    });
    if !steps.is_empty() {
        steps.push(Step::Update);
    }
    let mut packages: Vec<_> = wants.iter().flat_map(|w| w.packages.clone()).collect();
    packages.sort();
    packages.dedup();
    steps.push(Step::Install(packages));
    Ok(steps)
}

/// The steps as commands for a root shell.
pub fn as_shell(steps: &[Step]) -> Vec<String> {
    let one = |step: &Step| match step {
        Step::Write { path, text } => format!("printf %s {} >{APT}/{path}", quote(text)),
        Step::Update => "apt-get update".into(),
        Step::Install(packages) => format!(
            "apt-get install --no-install-recommends {}",
            packages.join(" ")
        ),
    };
    steps.iter().map(one).collect()
}

fn candidate(package: &str) -> Option<Version> {
    let out = Command::new("apt-cache")
        .args(["policy", package])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    candidate_in(&String::from_utf8_lossy(&out.stdout))
}

fn candidate_in(policy: &str) -> Option<Version> {
    policy
        .lines()
        .find_map(|l| l.trim().strip_prefix("Candidate: "))
        .and_then(Version::find)
}

fn is_pinned(etc: &Path) -> bool {
    let parts = std::fs::read_dir(etc.join("preferences.d"))
        .into_iter()
        .flatten()
        .flatten();
    let files = parts.map(|e| e.path()).chain([etc.join("preferences")]);
    files
        .filter_map(|f| std::fs::read_to_string(f).ok())
        .any(|text| {
            text.split("\n\n")
                .any(|p| p.contains("src:qemu") && p.contains("backports"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(_: &str) -> Option<Version> {
        Some(Version([7, 2, 0]))
    }

    fn none(_: &str) -> Option<Version> {
        None
    }

    fn rust_185(_: &str) -> Option<Version> {
        Some(Version([1, 85, 0]))
    }

    fn new(_: &str) -> Option<Version> {
        Some(Version([100, 0, 0]))
    }

    fn state(candidate: fn(&str) -> Option<Version>, lines: &[&str]) -> State {
        let sources = lines.iter().filter_map(|l| sources::one_line(l)).collect();
        State {
            release: "bookworm".into(),
            sources,
            pinned: false,
            candidate,
        }
    }

    fn qemu() -> Want {
        Want {
            packages: vec!["qemu-x".into()],
            min: Some(("qemu-x".into(), Version([10, 0, 0]))),
            newer: Newer::Backports,
        }
    }

    const MAIN: &str = "deb [signed-by=/k.gpg] http://m.example/debian bookworm main";

    #[test]
    fn what_the_release_has_is_just_installed() {
        let steps = plan(&state(new, &[MAIN]), &[qemu(), rust(&["rustc-web", "lld"])]).unwrap();
        assert_eq!(
            steps,
            [Step::Install(vec![
                "lld".into(),
                "qemu-x".into(),
                "rustc-web".into()
            ])]
        );
    }

    #[test]
    fn an_old_emulator_brings_backports_pinned_to_the_emulator_alone() {
        let steps = plan(&state(old, &[MAIN]), &[qemu()]).unwrap();
        let Step::Write { path, text } = &steps[0] else {
            panic!()
        };
        assert_eq!(*path, BACKPORTS);
        assert_eq!(
            text,
            "Types: deb\nURIs: http://m.example/debian\nSuites: bookworm-backports\nComponents: main\nSigned-By: /k.gpg\n"
        );
        let Step::Write { path, text } = &steps[1] else {
            panic!()
        };
        assert_eq!(*path, PIN);
        assert!(
            text.starts_with("Package: *\nPin: release n=bookworm-backports\nPin-Priority: -1\n\n")
        );
        assert!(text.ends_with(
            "Package: src:qemu seabios\nPin: release n=bookworm-backports\nPin-Priority: 600\n"
        ));
        assert_eq!(
            steps[2..],
            [Step::Update, Step::Install(vec!["qemu-x".into()])]
        );
    }

    #[test]
    fn backports_that_someone_else_uses_stay_as_they_are() {
        let steps = plan(
            &state(
                old,
                &[MAIN, "deb http://m.example/debian bookworm-backports main"],
            ),
            &[qemu()],
        )
        .unwrap();
        let Step::Write { path, text } = &steps[0] else {
            panic!()
        };
        assert_eq!(*path, PIN);
        assert!(!text.contains("Package: *"));
    }

    #[test]
    fn a_pin_that_did_not_help_is_not_written_again() {
        let state = State {
            pinned: true,
            ..state(old, &[MAIN])
        };
        assert!(
            plan(&state, &[qemu()])
                .unwrap_err()
                .to_string()
                .contains("apt has qemu-x 7.2.0, needed is 10.0.0")
        );
    }

    #[test]
    fn an_old_compiler_brings_the_security_suite_of_the_same_mirror() {
        for candidate in [rust_185 as fn(&str) -> _, none] {
            let steps = plan(&state(candidate, &[MAIN]), &[rust(&["rustc-web"])]).unwrap();
            let Step::Write { path, text } = &steps[0] else {
                panic!()
            };
            assert_eq!(*path, SECURITY);
            assert!(
                text.contains(
                    "URIs: http://m.example/debian-security\nSuites: bookworm-security\n"
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn two_wants_of_one_suite_bring_it_once() {
        let steps = plan(
            &state(none, &[MAIN]),
            &[rust(&["rustc-web"]), rust(&["rustfmt-web"])],
        )
        .unwrap();
        assert!(
            matches!(&steps[..], [Step::Write { .. }, Step::Update, Step::Install(p)] if p.len() == 2),
            "{steps:?}"
        );
    }

    #[test]
    fn an_old_compiler_in_spite_of_the_security_suite_is_refused() {
        let security = "deb http://m.example/debian-security bookworm-security main";
        let error = plan(&state(rust_185, &[MAIN, security]), &[rust(&["rustc-web"])]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("apt has rustc-web 1.85.0, needed is 1.95.0")
        );
    }

    #[test]
    fn another_release_is_left_alone() {
        let state = State {
            release: "trixie".into(),
            ..state(old, &[MAIN])
        };
        assert!(
            plan(&state, &[qemu()])
                .unwrap_err()
                .to_string()
                .contains("no newer suite is known")
        );
    }

    #[test]
    fn steps_are_printed_as_a_shell_takes_them() {
        let steps = [
            Step::Write {
                path: PIN,
                text: "a b\nit's\n".into(),
            },
            Step::Update,
            Step::Install(vec!["x".into()]),
        ];
        let lines = as_shell(&steps);
        assert_eq!(
            lines[0],
            format!("printf %s 'a b\nit'\\''s\n' >{APT}/{PIN}")
        );
        assert_eq!(
            lines[1..],
            [
                "apt-get update",
                "apt-get install --no-install-recommends x"
            ]
        );
    }

    #[test]
    fn the_candidate_is_read_from_apts_policy() {
        assert_eq!(
            candidate_in("q:\n  Installed: (none)\n  Candidate: 1:10.0.2+ds\n"),
            Some(Version([10, 0, 2]))
        );
        assert_eq!(
            candidate_in("q:\n  Installed: (none)\n  Candidate: (none)\n"),
            None
        );
        assert_eq!(candidate_in(""), None);
    }

    #[test]
    fn a_pin_is_found_by_its_paragraph() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("preferences.d")).unwrap();
        assert!(!is_pinned(dir.path()));
        std::fs::write(
            dir.path().join("preferences.d/x"),
            "Package: src:qemu seabios\nPin: release n=bookworm-backports\n",
        )
        .unwrap();
        assert!(is_pinned(dir.path()));
    }
}
