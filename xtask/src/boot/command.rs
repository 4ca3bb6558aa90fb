// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line from a board's templates.

use std::path::Path;
use std::process::Command;

use super::Job;
use crate::board::Machine;

/// Where the two serial ports lead to, in QEMU's words.
pub struct Ports {
    /// Port 0.
    pub console: String,
    /// Port 1.
    pub defmt: String,
}

/// The machine's template has a second port.
pub fn has_second_port(machine: &Machine) -> bool {
    machine.args.iter().any(|a| a.contains("{defmt}"))
}

/// The whole command: the machine's arguments, then those of each scenario.
pub fn qemu(job: &Job, ports: &Ports, dtb: Option<&Path>) -> Command {
    let t = job.topology;
    let scenarios = job.scenarios.join(",");
    let image = job.image.to_string_lossy();
    let fill = |template: &String| {
        template
            .replace("{cpus}", &t.cpus.to_string())
            .replace("{nodes}", &t.nodes.to_string())
            .replace("{threads}", &t.threads.to_string())
            .replace("{cores}", &t.cores().to_string())
            .replace("{console}", &ports.console)
            .replace("{defmt}", &ports.defmt)
            .replace("{image}", &image)
            .replace("{scenarios}", &scenarios)
    };
    let mut command = Command::new(&job.emulator.path);
    command.args(job.machine.args.iter().map(fill));
    for scenario in job.scenarios.iter().filter_map(|s| job.board.scenario(s)) {
        command.args(scenario.args.iter().map(fill));
    }
    if let Some(dtb) = dtb {
        command.arg("-dtb").arg(dtb);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, tests::SAMPLE};
    use crate::select::Topology;
    use crate::setup::qemu::Emulator;
    use crate::version::Version;

    #[test]
    fn templates_are_filled_in_and_scenarios_bring_their_devices() {
        let board = Board::parse("b", SAMPLE).unwrap();
        let emulator = Emulator {
            path: "/q/qemu".into(),
            version: Version([10, 0, 2]),
        };
        let job = Job {
            board: &board,
            machine: board.machine("one").unwrap(),
            topology: Topology {
                cpus: 1,
                nodes: 1,
                threads: 1,
            },
            scenarios: &["smoke".into(), "die".into()],
            limits: board.limits,
            label: None,
            image: Path::new("/i/image"),
            emulator: &emulator,
            absent_cpu: None,
        };
        let ports = Ports {
            console: "stdio".into(),
            defmt: "null".into(),
        };
        let line = crate::boot::shell::line(&qemu(&job, &ports, Some(Path::new("/d.dtb"))));
        assert_eq!(
            line,
            "/q/qemu -smp 1 -serial stdio -append scenario=smoke,die -device x -dtb /d.dtb"
        );
    }
}
