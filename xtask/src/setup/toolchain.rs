// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a tool chain that can build for bare metal. Each candidate is probed, not assumed.
//!
//! In this order: a nightly or the active tool chain with the sources of `core`; the active one
//! with the bare-metal target installed; Debian's own. A stable compiler builds `core` with
//! `RUSTC_BOOTSTRAP=1`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::version::Version;

/// The oldest compiler that will do: the workspace's `rust-version`.
pub const MIN_RUST: Version = Version([1, 95, 0]);
/// Where Debian's packages put their programs.
const DEBIAN_BIN: &str = "/usr/bin";

/// Time that a compiler has to say what it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// A tool chain that was found to work.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// What to call it.
    pub name: String,
    bin: PathBuf,
    sysroot: PathBuf,
    host: String,
    nightly: bool,
    build_std: bool,
    linker: Option<PathBuf>,
}

/// A tool chain that was looked at.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What to call it.
    pub name: String,
    /// It, with the way `core` is had; or what it lacks.
    pub found: Result<(Toolchain, &'static str), String>,
}

impl Toolchain {
    /// Looks at the tool chain whose `rustc` and `cargo` are in `bin`.
    pub fn probe(what: &str, bin: &Path) -> Result<Toolchain, String> {
        for program in ["rustc", "cargo"] {
            if !bin.join(program).is_file() {
                return Err(format!("{program} in {}", bin.display()));
            }
        }
        let rustc = bin.join("rustc");
        let said = output(&rustc, ["-vV"]).ok_or("a rustc that runs")?;
        let field = |key: &str| {
            said.lines()
                .find_map(|l| l.strip_prefix(key))
                .map(str::to_string)
        };
        let release = field("release: ").ok_or("a rustc that tells its release")?;
        let version = Version::find(&release).ok_or("a rustc that tells its version")?;
        let sysroot = output(&rustc, ["--print", "sysroot"])
            .ok_or("a sysroot")?
            .trim()
            .into();
        let toolchain = Toolchain {
            name: format!("{what} {release}"),
            bin: bin.into(),
            sysroot,
            host: field("host: ").ok_or("a rustc that tells its host")?,
            nightly: release.contains("nightly") || release.contains("dev"),
            build_std: false,
            linker: None,
        };
        if version < MIN_RUST {
            return Err(format!("Rust {MIN_RUST} (it is {release})"));
        }
        Ok(toolchain)
    }

    /// The one that runs us: cargo's, else the one in `PATH`.
    pub fn active() -> Result<Toolchain, String> {
        let sysroot = output(Path::new("rustc"), ["--print", "sysroot"]).ok_or("rustc in PATH")?;
        let bin = Path::new(sysroot.trim()).join("bin");
        Toolchain::probe(
            if bin == Path::new(DEBIAN_BIN) {
                "Debian"
            } else {
                "active"
            },
            &bin,
        )
    }

    /// Debian's.
    pub fn debian() -> Result<Toolchain, String> {
        Toolchain::probe("Debian", Path::new(DEBIAN_BIN))
    }

    /// It has the sources that `-Zbuild-std` wants.
    fn has_sources(&self) -> bool {
        let library = self.sysroot.join("lib/rustlib/src/rust/library");
        library.join("core/src/lib.rs").is_file() && library.join("Cargo.lock").is_file()
    }

    /// It has `core` for `target`, ready-made.
    fn has_target(&self, target: &str) -> bool {
        let lib = self.sysroot.join("lib/rustlib").join(target).join("lib");
        let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
        entries
            .into_iter()
            .any(|e| e.file_name().to_string_lossy().starts_with("libcore-"))
    }

    /// Its program of that name, if it has one.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        Some(self.bin.join(name)).filter(|p| p.is_file())
    }

    fn own_lld(&self) -> Option<PathBuf> {
        let lld = self
            .sysroot
            .join("lib/rustlib")
            .join(&self.host)
            .join("bin/rust-lld");
        lld.is_file().then_some(lld)
    }

    /// `core` built from source.
    fn building_core(mut self) -> Toolchain {
        self.build_std = true;
        self
    }

    /// `cargo <sub>` for the host.
    pub fn host_cargo(&self, sub: &str) -> Command {
        let own = self.bin.join(format!("cargo-{sub}"));
        let mut command = Command::new(if own.is_file() {
            own
        } else {
            self.cargo_path()
        });
        command.arg(sub);
        for (name, _) in std::env::vars_os() {
            if is_of_the_outer_cargo(&name) {
                command.env_remove(name);
            }
        }
        command
            .env("CARGO", self.cargo_path())
            .env("RUSTC", self.bin.join("rustc"))
            .env("RUSTDOC", self.bin.join("rustdoc"))
            .env("RUSTFMT", self.bin.join("rustfmt"))
            .current_dir(crate::workspace::root());
        command
    }

    fn cargo_path(&self) -> PathBuf {
        self.bin.join("cargo")
    }

    /// `cargo <sub>` for the bare-metal `target`.
    pub fn cargo(&self, sub: &str, target: &str) -> Command {
        let mut command = self.host_cargo(sub);
        command.args(["--target", target]);
        if target.ends_with(".json") {
            command.arg("-Zjson-target-spec");
        }
        if self.build_std {
            command.args([
                "-Zbuild-std=core,alloc,compiler_builtins",
                "-Zbuild-std-features=compiler-builtins-mem",
                // What a later compiler says of `core` itself is no news for us.
                "--config=future-incompat-report.frequency='never'",
            ]);
            if !self.nightly {
                command.env("RUSTC_BOOTSTRAP", "1");
            }
        }
        if let Some(linker) = &self.linker {
            let target = short(target).to_uppercase().replace(['-', '.'], "_");
            command.env(format!("CARGO_TARGET_{target}_LINKER"), linker);
        }
        command
    }
}

/// The name of a target: of one that is a JSON file, that of the file.
pub fn short(target: &str) -> &str {
    let file = target.rsplit('/').next().unwrap_or(target);
    file.strip_suffix(".json").unwrap_or(target)
}

/// Variables that cargo and rustup set for us and that would bend the tool chain we call.
fn is_of_the_outer_cargo(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let exact = [
        "CARGO",
        "RUSTC",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTUP_TOOLCHAIN",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_BOOTSTRAP",
        "LD_LIBRARY_PATH",
        "OUT_DIR",
    ];
    exact.contains(&name.as_ref())
        || name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
}

/// The tool chains of this machine, best first.
pub struct Seen {
    nightly: Result<Toolchain, String>,
    active: Result<Toolchain, String>,
    debian: Result<Toolchain, String>,
    system_lld: Option<PathBuf>,
}

impl Seen {
    /// Looks at this machine.
    pub fn look() -> Seen {
        Seen {
            nightly: nightly(),
            active: Toolchain::active(),
            debian: Toolchain::debian(),
            system_lld: super::in_path("ld.lld"),
        }
    }

    /// The active one.
    pub fn active(&self) -> Option<&Toolchain> {
        self.active.as_ref().ok()
    }

    /// A linker for bare metal was found apart from any tool chain's own.
    fn any_lld(&self) -> Option<PathBuf> {
        let own = |t: &Result<Toolchain, String>| t.as_ref().ok().and_then(Toolchain::own_lld);
        own(&self.active)
            .or_else(|| own(&self.nightly))
            .or_else(|| self.system_lld.clone())
    }

    /// Debian's tool chain would find a linker.
    pub fn has_lld(&self) -> bool {
        self.any_lld().is_some()
    }

    /// Every candidate for `target` in the order of choice.
    pub fn candidates(&self, target: &str) -> Vec<Candidate> {
        let sources = |t: &Toolchain| match t.has_sources() {
            true => Ok(t.clone().building_core()),
            false => Err("the sources of core (rust-src)".to_string()),
        };
        let ready = |t: &Toolchain| match t.has_target(target) {
            true => Ok(t.clone()),
            false => Err(format!("the target {target}")),
        };
        let (from_source, ready_made) = ("core from its sources", "core ready-made");
        let list = [
            (
                "rustup's nightly",
                from_source,
                self.nightly.clone().and_then(|t| sources(&t)),
            ),
            (
                "the active one",
                from_source,
                self.active.clone().and_then(|t| sources(&t)),
            ),
            (
                "the active one",
                ready_made,
                self.active.clone().and_then(|t| ready(&t)),
            ),
            (
                "Debian's",
                from_source,
                self.debian.clone().and_then(|t| sources(&t)),
            ),
        ];
        list.into_iter()
            .map(|(name, how, found)| {
                let found = found.and_then(|t| self.with_linker(t)).map(|t| (t, how));
                let name = match &found {
                    Ok((t, _)) => format!("{name} ({}), {how}", t.name),
                    Err(_) => format!("{name}, {how}"),
                };
                Candidate { name, found }
            })
            .collect()
    }

    /// A tool chain with its own linker needs no telling.
    fn with_linker(&self, mut toolchain: Toolchain) -> Result<Toolchain, String> {
        if toolchain.own_lld().is_none() {
            toolchain.linker = Some(self.any_lld().ok_or("a linker (rust-lld or ld.lld)")?);
        }
        Ok(toolchain)
    }

    /// The first that is usable.
    pub fn choose(&self, target: &str) -> Option<Toolchain> {
        self.candidates(target)
            .into_iter()
            .find_map(|c| c.found.ok())
            .map(|(t, _)| t)
    }

    /// A tool chain for the host that has clippy and rustfmt.
    pub fn linting(&self) -> Option<Toolchain> {
        [&self.active, &self.debian]
            .into_iter()
            .flatten()
            .find(|t| has_lints(t))
            .cloned()
    }
}

/// It has clippy and rustfmt.
pub fn has_lints(toolchain: &Toolchain) -> bool {
    ["cargo-clippy", "clippy-driver", "cargo-fmt", "rustfmt"]
        .iter()
        .all(|p| toolchain.program(p).is_some())
}

/// rustup's nightly, if rustup is there and has one. It is never made to install anything.
fn nightly() -> Result<Toolchain, String> {
    let mut command = Command::new("rustup");
    command
        .args(["which", "--toolchain", "nightly", "rustc"])
        .env("RUSTUP_AUTO_INSTALL", "0");
    let path = said(command).ok_or("rustup with a nightly")?;
    let bin = Path::new(path.trim())
        .parent()
        .ok_or("a folder")?
        .to_path_buf();
    Toolchain::probe("nightly", &bin)
}

fn output<const N: usize>(program: &Path, args: [&str; N]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args);
    said(command)
}

fn said(command: Command) -> Option<String> {
    let said = process::capture(command, PATIENCE).ok()?;
    said.trouble.is_none().then_some(said.out)
}

#[cfg(test)]
#[path = "toolchain_tests.rs"]
mod tests;
