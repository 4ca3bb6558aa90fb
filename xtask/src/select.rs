// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the command line to the boots it asks for: machines, topology, scenarios.

use anyhow::Result;

use crate::board::{Board, Machine};
use crate::refused::refuse;
use crate::topology::Topology;

/// CPUs and nodes when none are asked for, where the machine allows them.
const DEFAULT_CPUS: u32 = 8;
const DEFAULT_NODES: u32 = 2;
/// Scenarios when none are asked for, where the board offers them.
const DEFAULT_SCENARIOS: [&str; 2] = ["smoke", "ipistorm"];

/// What `run` was asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// Machines; all if empty.
    pub machines: Vec<String>,
    /// CPUs.
    pub cpus: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// Threads of a core.
    pub threads: Option<u32>,
    /// Scenarios; the usual ones if empty.
    pub scenarios: Vec<String>,
}

/// One boot to be made.
#[derive(Debug)]
pub struct Choice<'a> {
    /// The board.
    pub board: &'a Board,
    /// The machine, one of the board's.
    pub machine: &'a Machine,
    /// CPUs, nodes, threads.
    pub topology: Topology,
    /// Scenarios, in the order asked.
    pub scenarios: Vec<String>,
    /// What differs from the usual, to be told.
    pub note: Option<String>,
}

/// The machines of these names, all if there are none.
pub fn machines<'a>(
    boards: &'a [Board],
    names: &[String],
) -> Result<Vec<(&'a Board, &'a Machine)>> {
    let all: Vec<_> = boards
        .iter()
        .flat_map(|b| b.machines.iter().map(move |m| (b, m)))
        .collect();
    let known = || {
        all.iter()
            .map(|(_, m)| m.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(name) = names
        .iter()
        .find(|n| !all.iter().any(|(_, m)| m.name == **n))
    {
        refuse!("no machine `{name}`; there is: {}", known());
    }
    Ok(all
        .into_iter()
        .filter(|(_, m)| names.is_empty() || names.contains(&m.name))
        .collect())
}

/// Every boot that `asked` means, or the reason why none is made.
pub fn choose<'a>(boards: &'a [Board], asked: &Asked) -> Result<Vec<Choice<'a>>> {
    machines(boards, &asked.machines)?
        .into_iter()
        .map(|(board, machine)| {
            let topology = Topology {
                cpus: asked.cpus.unwrap_or(DEFAULT_CPUS.min(machine.max_cpus)),
                nodes: asked.nodes.unwrap_or(DEFAULT_NODES.min(machine.max_nodes)),
                threads: asked.threads.unwrap_or(1),
                empty_nodes: 0,
            };
            topology.check(machine)?;
            let usual = (DEFAULT_CPUS, DEFAULT_NODES);
            let note = ((asked.cpus.is_none() && topology.cpus != usual.0)
                || (asked.nodes.is_none() && topology.nodes != usual.1))
                .then(|| {
                    format!(
                        "{}: {} CPU(s) in {} node(s): the board's limits are {} and {}, below the usual {} and {}",
                        machine.name, topology.cpus, topology.nodes, machine.max_cpus, machine.max_nodes, usual.0, usual.1
                    )
                });
            Ok(Choice { board, machine, topology, scenarios: scenarios(board, machine, asked)?, note })
        })
        .collect()
}

fn scenarios(board: &Board, machine: &Machine, asked: &Asked) -> Result<Vec<String>> {
    if asked.scenarios.is_empty() {
        let offered = DEFAULT_SCENARIOS
            .iter()
            .filter(|s| board.scenario(s).is_some());
        return Ok(offered.map(|s| s.to_string()).collect());
    }
    let mut chosen: Vec<String> = Vec::new();
    for name in &asked.scenarios {
        if board.scenario(name).is_none() {
            let known: Vec<_> = board.scenarios.iter().map(|s| s.name.as_str()).collect();
            refuse!(
                "{} offers no scenario `{name}`; there is: {}",
                machine.name,
                known.join(", ")
            );
        }
        if !chosen.contains(name) {
            chosen.push(name.clone());
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::SAMPLE;

    fn boards() -> Vec<Board> {
        vec![Board::parse("b", SAMPLE).unwrap()]
    }

    #[track_caller]
    fn refused(asked: Asked, why: &str) {
        let error = choose(&boards(), &asked).unwrap_err();
        assert!(error.is::<crate::refused::Refused>());
        assert!(error.to_string().contains(why), "{error} lacks {why}");
    }

    fn many() -> Asked {
        Asked {
            machines: vec!["many".into()],
            ..Asked::default()
        }
    }

    #[test]
    fn the_usual_topology_bows_to_the_boards_limits_and_says_so() {
        let boards = boards();
        let got = choose(&boards, &Asked::default()).unwrap();
        assert_eq!(
            got[0].topology,
            Topology {
                cpus: 1,
                nodes: 1,
                threads: 1,
                empty_nodes: 0,
            }
        );
        assert!(
            got[0]
                .note
                .as_ref()
                .unwrap()
                .contains("the board's limits are 1 and 1")
        );
        assert_eq!(
            got[1].topology,
            Topology {
                cpus: 8,
                nodes: 2,
                threads: 1,
                empty_nodes: 0,
            }
        );
        assert!(got[1].note.is_none());
    }

    #[test]
    fn the_usual_scenarios_are_those_that_the_board_offers() {
        let boards = boards();
        assert_eq!(
            choose(&boards, &Asked::default()).unwrap()[0].scenarios,
            ["smoke"]
        );
    }

    #[test]
    fn a_scenario_asked_twice_runs_once() {
        let boards = boards();
        let asked = Asked {
            scenarios: vec!["die".into(), "smoke".into(), "die".into()],
            ..many()
        };
        assert_eq!(
            choose(&boards, &asked).unwrap()[0].scenarios,
            ["die", "smoke"]
        );
    }

    #[test]
    fn an_unknown_machine_is_refused_and_the_known_ones_are_listed() {
        refused(
            Asked {
                machines: vec!["nosuch".into()],
                ..Asked::default()
            },
            "no machine `nosuch`; there is: one, many",
        );
    }

    #[test]
    fn an_unknown_scenario_is_refused_and_the_known_ones_are_listed() {
        refused(
            Asked {
                scenarios: vec!["nosuch".into()],
                ..many()
            },
            "no scenario `nosuch`; there is: smoke, die",
        );
    }

    #[test]
    fn cpus_that_do_not_divide_by_nodes_are_refused() {
        refused(
            Asked {
                cpus: Some(7),
                nodes: Some(2),
                ..many()
            },
            "7 CPUs do not divide by 2 nodes",
        );
        refused(
            Asked {
                cpus: Some(7),
                ..many()
            },
            "7 CPUs do not divide by 2 nodes",
        );
    }

    #[test]
    fn a_topology_beyond_the_boards_limits_is_refused() {
        refused(
            Asked {
                cpus: Some(2),
                nodes: Some(1),
                ..Asked::default()
            },
            "one: 2 CPUs asked, the board's limit is 1",
        );
    }
}
