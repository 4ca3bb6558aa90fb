// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choices among tool chains that are shell scripts.

use super::*;

const TARGET: &str = "bare-unknown-none";

/// A folder that looks like a tool chain.
struct Fake {
    dir: tempfile::TempDir,
}

impl Fake {
    fn new(release: &str) -> Fake {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let rustc = format!(
            "case $1 in\n-vV) printf 'rustc {release}\\nhost: h\\nrelease: {release}\\n';;\n*) echo {};;\nesac\n",
            dir.path().display()
        );
        for (name, text) in [("rustc", rustc.as_str()), ("cargo", "")] {
            crate::process::tests::script(&bin.join(name), text);
        }
        Fake { dir }
    }

    fn file(self, path: &str) -> Fake {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        self
    }

    fn sources(self) -> Fake {
        self.file("lib/rustlib/src/rust/library/core/src/lib.rs")
            .file("lib/rustlib/src/rust/library/Cargo.lock")
    }

    fn target(self) -> Fake {
        self.file("lib/rustlib/bare-unknown-none/lib/libcore-1.rlib")
    }

    fn lld(self) -> Fake {
        self.file("lib/rustlib/h/bin/rust-lld")
    }

    fn probe(&self, what: &str) -> Result<Toolchain, String> {
        Toolchain::probe(what, &self.dir.path().join("bin"))
    }
}

fn seen(nightly: &Fake, active: &Fake, debian: &Fake) -> Seen {
    Seen {
        nightly: nightly.probe("nightly"),
        active: active.probe("active"),
        debian: debian.probe("Debian"),
        system_lld: None,
    }
}

fn args(command: &Command) -> Vec<String> {
    command
        .get_args()
        .map(|a| a.to_string_lossy().into_owned())
        .collect()
}

fn env(command: &Command, name: &str) -> Option<String> {
    let found = command.get_envs().find(|(n, _)| *n == name)?;
    found.1.map(|v| v.to_string_lossy().into_owned())
}

#[test]
fn a_nightly_with_sources_comes_first() {
    let [n, a, d] = ["1.97.0-nightly", "1.95.0", "1.96.0"].map(|v| Fake::new(v).sources().lld());
    let chosen = seen(&n, &a, &d).choose(TARGET).unwrap();
    assert_eq!(chosen.name, "nightly 1.97.0-nightly");
    let command = chosen.cargo("build", TARGET);
    assert!(args(&command).contains(&"-Zbuild-std=core,alloc,compiler_builtins".to_string()));
    assert_eq!(env(&command, "RUSTC_BOOTSTRAP"), None);
}

#[test]
fn a_stable_one_with_sources_comes_next_and_is_told_to_take_unstable_flags() {
    let (n, a, d) = (
        Fake::new("1.97.0-nightly").lld(),
        Fake::new("1.95.0").sources().target().lld(),
        Fake::new("1.96.0"),
    );
    let chosen = seen(&n, &a, &d).choose(TARGET).unwrap();
    assert_eq!(chosen.name, "active 1.95.0");
    assert_eq!(
        env(&chosen.cargo("build", TARGET), "RUSTC_BOOTSTRAP").as_deref(),
        Some("1")
    );
}

#[test]
fn an_installed_target_is_used_as_it_is() {
    let (n, a, d) = (
        Fake::new("1.97.0-nightly"),
        Fake::new("1.95.0").target().lld(),
        Fake::new("1.96.0").sources(),
    );
    let chosen = seen(&n, &a, &d).choose(TARGET).unwrap();
    assert_eq!(chosen.name, "active 1.95.0");
    let command = chosen.cargo("build", TARGET);
    assert!(!args(&command).iter().any(|a| a.starts_with("-Z")));
    assert_eq!(env(&command, "RUSTC_BOOTSTRAP"), None);
}

#[test]
fn debians_comes_last_and_borrows_a_linker() {
    let (n, a, d) = (
        Fake::new("1.97.0-nightly"),
        Fake::new("1.95.0").lld(),
        Fake::new("1.96.0").sources(),
    );
    let chosen = seen(&n, &a, &d).choose(TARGET).unwrap();
    assert_eq!(chosen.name, "Debian 1.96.0");
    let linker = env(
        &chosen.cargo("build", TARGET),
        "CARGO_TARGET_BARE_UNKNOWN_NONE_LINKER",
    )
    .unwrap();
    assert!(linker.ends_with("rust-lld"));
}

#[test]
fn what_each_candidate_lacks_is_told() {
    let (n, a, d) = (
        Fake::new("1.94.0-nightly").sources(),
        Fake::new("1.95.0"),
        Fake::new("1.96.0").sources(),
    );
    let lacks: Vec<_> = seen(&n, &a, &d)
        .candidates(TARGET)
        .into_iter()
        .map(|c| c.found.unwrap_err())
        .collect();
    assert_eq!(
        lacks,
        [
            "Rust 1.95.0 (it is 1.94.0-nightly)",
            "the sources of core (rust-src)",
            "the target bare-unknown-none",
            "a linker (rust-lld or ld.lld)",
        ]
    );
}

#[test]
fn a_folder_without_a_compiler_is_no_tool_chain() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        Toolchain::probe("x", dir.path())
            .unwrap_err()
            .contains("rustc in")
    );
}

#[test]
fn a_tool_chain_without_lint_programs_is_passed_over() {
    let lints = |f: Fake| {
        ["cargo-clippy", "clippy-driver", "cargo-fmt", "rustfmt"]
            .iter()
            .fold(f, |f, p| f.file(&format!("bin/{p}")))
    };
    let (n, a, d) = (
        Fake::new("1.97.0-nightly"),
        Fake::new("1.95.0"),
        lints(Fake::new("1.96.0")),
    );
    assert_eq!(seen(&n, &a, &d).linting().unwrap().name, "Debian 1.96.0");
    assert!(seen(&n, &a, &n).linting().is_none());
}
