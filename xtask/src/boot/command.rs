// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line from a board's templates.
//!
//! The order: the machine's `args`, its `node_args` for each node with CPUs, its
//! `empty_node_args` for each node without, the scenarios' `args`, the boot's own `args`. Where
//! there is one node alone nothing is said of it: that is the machine without nodes, which an
//! image has to take too.
//!
//! | placeholder | what |
//! |---|---|
//! | `{cpus}`, `{nodes}`, `{threads}` | as asked; `{cores}` are those of a node |
//! | `{memory_mib}` | the machine's memory |
//! | `{console}`, `{defmt}` | where port 0 and port 1 lead to |
//! | `{image}` | the image's path |
//! | `{scenarios}` | their names, with commas between |
//! | `{append}` | the boot's own words for the image, each with a blank before it |
//! | `{node}`, `{first_cpu}`, `{last_cpu}`, `{node_mib}` | of one node, in its arguments only |

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::Job;
use crate::board::Machine;
use crate::topology::Node;

/// Where the two serial ports lead to, in QEMU's words.
pub struct Ports {
    /// Port 0.
    pub console: String,
    /// Port 1.
    pub defmt: String,
}

/// A placeholder's name and what takes its place.
type Value = (&'static str, String);

const PLACEHOLDERS: [&str; 10] = [
    "cpus",
    "nodes",
    "threads",
    "cores",
    "memory_mib",
    "console",
    "defmt",
    "image",
    "scenarios",
    "append",
];
const OF_A_NODE: [&str; 2] = ["node", "node_mib"];
const OF_CPUS: [&str; 2] = ["first_cpu", "last_cpu"];

/// The machine's template has a second port.
pub fn has_second_port(machine: &Machine) -> bool {
    machine.args.iter().any(|a| a.contains("{defmt}"))
}

/// Says what is wrong with the machine's templates.
pub fn check(machine: &Machine) -> Result<()> {
    check_args(&machine.args)?;
    let of_a_node = [&PLACEHOLDERS[..], &OF_A_NODE].concat();
    known(&machine.empty_node_args, &of_a_node)?;
    known(&machine.node_args, &[&of_a_node[..], &OF_CPUS].concat())?;
    let all = machine.args.iter().chain(&machine.node_args);
    for name in ["memory_mib", "node_mib"] {
        if machine.memory_mib.is_none()
            && all
                .clone()
                .chain(&machine.empty_node_args)
                .any(|a| placeholders(a).any(|p| p == name))
        {
            bail!("{{{name}}} without memory_mib");
        }
    }
    Ok(())
}

/// Says what is wrong with arguments that belong to no node.
pub fn check_args(args: &[String]) -> Result<()> {
    known(args, &PLACEHOLDERS)
}

/// Says why the machine's image cannot be given these words.
pub fn check_append(machine: &Machine, words: &[String]) -> Result<()> {
    if !words.is_empty() && !machine.args.iter().any(|a| a.contains("{append}")) {
        bail!("{} takes no more words: no {{append}}", machine.name);
    }
    match words
        .iter()
        .find(|w| w.is_empty() || w.contains(char::is_whitespace))
    {
        Some(word) => bail!("`{word}` is not one word"),
        None => Ok(()),
    }
}

fn known(args: &[String], names: &[&str]) -> Result<()> {
    match args
        .iter()
        .flat_map(|a| placeholders(a))
        .find(|p| !names.contains(p))
    {
        Some(name) => bail!("no placeholder {{{name}}} here"),
        None => Ok(()),
    }
}

/// The names in braces; braces around anything else are QEMU's.
fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    let name = |b: u8| b.is_ascii_lowercase() || b == b'_';
    template
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(inner, _)| inner)
        .filter(move |inner| !inner.is_empty() && inner.bytes().all(name))
}

fn fill(template: &str, values: &[Value]) -> String {
    values
        .iter()
        .fold(template.to_string(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
}

fn values(job: &Job, ports: &Ports) -> Vec<Value> {
    let t = job.topology;
    let append: String = job.more.append.iter().map(|w| format!(" {w}")).collect();
    let texts: [String; PLACEHOLDERS.len()] = [
        t.cpus.to_string(),
        t.nodes.to_string(),
        t.threads.to_string(),
        t.cores().to_string(),
        job.machine.memory_mib.unwrap_or(0).to_string(),
        ports.console.clone(),
        ports.defmt.clone(),
        job.image.to_string_lossy().into_owned(),
        job.scenarios.join(","),
        append,
    ];
    PLACEHOLDERS.into_iter().zip(texts).collect()
}

fn of_node(node: Node) -> Vec<Value> {
    let (first, last) = node.cpus.unwrap_or_default();
    let texts = [node.id, node.mib, first, last].map(|n| n.to_string());
    OF_A_NODE.into_iter().chain(OF_CPUS).zip(texts).collect()
}

/// The whole command.
pub fn qemu(job: &Job, ports: &Ports, dtb: Option<&Path>) -> Command {
    let machine = job.machine;
    let values = values(job, ports);
    let mut command = Command::new(&job.emulator.path);
    command.args(machine.args.iter().map(|a| fill(a, &values)));
    let nodes = job.topology.split(machine.memory_mib.unwrap_or(0));
    let alone = job.topology.nodes + job.topology.empty_nodes == 1;
    for node in nodes.filter(|_| !alone) {
        let args = match node.cpus {
            Some(_) => &machine.node_args,
            None => &machine.empty_node_args,
        };
        let values = [values.clone(), of_node(node)].concat();
        command.args(args.iter().map(|a| fill(a, &values)));
    }
    let scenarios = job.scenarios.iter().filter_map(|s| job.board.scenario(s));
    for args in scenarios.map(|s| &s.args[..]).chain([job.more.args]) {
        command.args(args.iter().map(|a| fill(a, &values)));
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
    use crate::boot::{For, More};
    use crate::setup::qemu::Emulator;
    use crate::topology::Topology;
    use crate::version::Version;

    fn line(machine: &str, topology: Topology, more: More, dtb: Option<&Path>) -> String {
        let board = Board::parse("b", SAMPLE).unwrap();
        let emulator = Emulator {
            path: "/q/qemu".into(),
            version: Version([10, 0, 2]),
        };
        let job = Job {
            board: &board,
            machine: board.machine(machine).unwrap(),
            topology,
            scenarios: &["smoke".into(), "die".into()],
            more,
            limits: board.limits,
            purpose: For::Run,
            image: Path::new("/i/image"),
            emulator: &emulator,
        };
        let ports = Ports {
            console: "stdio".into(),
            defmt: "null".into(),
        };
        crate::boot::shell::line(&qemu(&job, &ports, dtb))
    }

    const ONE: Topology = Topology {
        cpus: 1,
        nodes: 1,
        threads: 1,
        empty_nodes: 0,
    };

    #[test]
    fn templates_are_filled_in_and_scenarios_bring_their_devices() {
        assert_eq!(
            line("one", ONE, More::default(), Some(Path::new("/d.dtb"))),
            "/q/qemu -smp 1 -serial stdio -append scenario=smoke,die -device x -dtb /d.dtb"
        );
    }

    #[test]
    fn each_node_has_its_arguments_and_a_boot_has_its_own() {
        let topology = Topology {
            cpus: 8,
            nodes: 2,
            threads: 2,
            empty_nodes: 1,
        };
        let more = More {
            args: &["-icount".into(), "shift=0,cpus={cpus}".into()],
            append: &["threshold=9".into(), "quiet".into()],
            absent_cpu: None,
        };
        assert_eq!(
            line("many", topology, more, None),
            "/q/qemu -smp 8,sockets=2,cores=2,threads=2 -m 96M -serial null -kernel /i/image \
             -append 'scenario=smoke,die threshold=9 quiet' -numa 0:0-3:32 -numa 1:4-7:32 \
             -numa 2::32 -device x -icount shift=0,cpus=8"
        );
    }

    #[test]
    fn of_a_node_that_stands_alone_nothing_is_said() {
        let topology = Topology { cpus: 8, ..ONE };
        assert_eq!(
            line("many", topology, More::default(), None),
            "/q/qemu -smp 8,sockets=1,cores=8,threads=1 -m 96M -serial null -kernel /i/image \
             -append scenario=smoke,die -device x"
        );
    }

    #[test]
    fn braces_that_are_the_emulators_stay() {
        let text = r#"{"driver":"x"}"#;
        assert_eq!(placeholders(text).count(), 0);
        assert_eq!(fill(text, &[("driver", "y".into())]), text);
    }
}
