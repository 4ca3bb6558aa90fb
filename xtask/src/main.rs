// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one tool of this workspace.
//!
//! `cargo xtask help` lists what it does. Exit status: 0 all passed, 1 something failed, 2 usage
//! or set-up, where nothing was judged. It knows no machine by itself: `boards/*/board.toml` does.

mod bench;
mod board;
mod boot;
mod boot_tests;
mod debug;
mod doc;
mod fuzz;
mod host_tests;
mod image;
mod libtest;
mod lint;
mod metadata;
mod output;
mod process;
mod refused;
mod run;
mod select;
mod setup;
mod sizes;
mod tally;
mod term;
mod test;
mod topology;
mod version;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use board::Board;
use refused::Refused;
use setup::Needs;
use tally::Tally;

/// Set-up, builds, boots, tests and lints of this workspace.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Exit status: 0 all passed, 1 something failed, 2 usage or set-up (nothing was judged)."
)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Boot machines and run scenarios; a table at the end
    Run {
        #[command(flatten)]
        asked: BootArgs,
        /// Write all results as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Host tests, then the boots of each board.toml; ends with "N passed, N failed"
    Test {
        /// Host tests only: nothing boots, nothing is installed
        #[arg(long)]
        host: bool,
        /// Boots of this machine only (again for more)
        #[arg(long, value_name = "M")]
        machine: Vec<String>,
        /// Only tests and boots whose name contains this
        #[arg(long, value_name = "S")]
        filter: Option<String>,
        /// Write all results as JUnit XML
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
    /// Counts and ratios of benches; a table at the end
    Bench {
        /// Only host programs whose name begins with `core`: nothing boots
        #[arg(long)]
        core: bool,
        /// Only benches whose name, or whose program's or boot's name, contains this
        #[arg(long, value_name = "S")]
        filter: Option<String>,
        /// Write all rows as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Draw a bar chart of each bench as SVG
        #[arg(long, value_name = "DIR")]
        plots: Option<PathBuf>,
    },
    /// Install what is missing (Debian, as root); elsewhere print the exact commands
    Setup {
        /// Only say what is there and what is missing; status 2 if something is
        #[arg(long)]
        check: bool,
    },
    /// What CI runs: lint, doc, test
    Ci,
    /// Format, clippy on host and bare metal, each feature set, packaging
    Lint,
    /// Documentation, with warnings denied
    Doc,
    /// Run a fuzz target of fuzz/ on readers of firmware tables
    Fuzz {
        /// Its name
        target: String,
        /// For how long
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u32,
    },
    /// Start a machine that waits for gdb
    Debug {
        #[command(flatten)]
        asked: BootArgs,
        /// Where gdb connects to
        #[arg(long, default_value_t = 1234)]
        port: u16,
    },
    /// Code and data of each image
    Sizes {
        /// Show growth since this file was written
        #[arg(long, value_name = "FILE")]
        compare: Option<PathBuf>,
        /// Write the sizes as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

#[derive(Args)]
struct BootArgs {
    /// Machine to boot (again for more); all if not given
    #[arg(long, value_name = "M")]
    machine: Vec<String>,
    /// CPUs in all; 8 if the board allows
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Nodes they stand in; 2 if the board allows
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Threads of a core; 1 if not given
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Scenario to run (again for more); smoke and ipistorm where the board offers them
    #[arg(long, value_name = "S")]
    scenario: Vec<String>,
}

impl From<BootArgs> for select::Asked {
    fn from(a: BootArgs) -> select::Asked {
        let BootArgs {
            machine,
            cpus,
            nodes,
            threads,
            scenario,
        } = a;
        select::Asked {
            machines: machine,
            cpus,
            nodes,
            threads,
            scenarios: scenario,
        }
    }
}

fn main() -> ExitCode {
    output::leave_when_nobody_reads();
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<Refused>() { 2 } else { 1 })
        }
    }
}

fn dispatch(command: Cmd) -> Result<ExitCode> {
    match command {
        Cmd::Run { asked, json } => run::run(&asked.into(), json.as_deref()),
        Cmd::Test {
            host,
            machine,
            filter,
            junit,
        } => {
            junit.as_deref().map(output::writable).transpose()?;
            let asked = test::Asked {
                host,
                machines: machine,
                filter,
            };
            Tally {
                sections: test::run(&asked)?,
            }
            .close(junit.as_deref())
        }
        Cmd::Bench {
            core,
            filter,
            json,
            plots,
        } => bench::run(&bench::Asked {
            core,
            filter,
            json,
            plots,
        }),
        Cmd::Setup { check } => set_up(check),
        Cmd::Ci => {
            // All is set up first, so that a machine that cannot do it says so at once.
            let boards = board::load_all(&workspace::root())?;
            let all: Vec<&Board> = boards.iter().collect();
            setup::ensure(
                &all,
                Needs {
                    images: true,
                    emulators: true,
                    lints: true,
                },
            )?;
            let mut sections = lint::run()?;
            sections.extend(doc::run()?);
            sections.extend(test::run(&test::Asked::default())?);
            Tally { sections }.close(None)
        }
        Cmd::Lint => Tally {
            sections: lint::run()?,
        }
        .close(None),
        Cmd::Doc => Tally {
            sections: doc::run()?,
        }
        .close(None),
        Cmd::Fuzz { target, seconds } => fuzz::run(&target, seconds),
        Cmd::Debug { asked, port } => debug::run(&asked.into(), port),
        Cmd::Sizes { compare, json } => sizes::run(compare.as_deref(), json.as_deref()),
    }
}

fn set_up(check: bool) -> Result<ExitCode> {
    let boards = board::load_all(&workspace::root())?;
    let all: Vec<&Board> = boards.iter().collect();
    if !check {
        setup::ensure(
            &all,
            Needs {
                images: true,
                emulators: true,
                lints: true,
            },
        )?;
    }
    Ok(if setup::check(&all) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}
