// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs and memory, how they stand in nodes, and every reason why they cannot.

use anyhow::Result;

use crate::board::Machine;
use crate::refused::refuse;

/// CPUs, and how they stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Topology {
    /// CPUs in all.
    pub cpus: u32,
    /// Nodes with CPUs, equally many each.
    pub nodes: u32,
    /// Threads of a core.
    pub threads: u32,
    /// Further nodes, with memory only.
    pub empty_nodes: u32,
}

/// One node as the emulator is told of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its first and its last CPU; a node may have none.
    pub cpus: Option<(u32, u32)>,
    /// Its memory in MiB.
    pub mib: u32,
}

impl Topology {
    /// Cores of a node.
    pub fn cores(&self) -> u32 {
        self.cpus / self.nodes / self.threads
    }

    /// Every node, those without CPUs last. What does not divide of the memory goes to the
    /// first ones, MiB by MiB, so that the sum is right.
    pub fn split(self, memory_mib: u32) -> impl Iterator<Item = Node> {
        let all = self.nodes + self.empty_nodes;
        let each = self.cpus / self.nodes;
        (0..all).map(move |id| Node {
            id,
            cpus: (id < self.nodes).then(|| (id * each, id * each + each - 1)),
            mib: memory_mib / all + u32::from(id < memory_mib % all),
        })
    }

    /// Checks the numbers themselves, then what the machine takes.
    pub fn check(&self, machine: &Machine) -> Result<()> {
        let Topology {
            cpus,
            nodes,
            threads,
            empty_nodes,
        } = *self;
        if cpus == 0 || nodes == 0 || threads == 0 {
            refuse!("CPUs, nodes and threads are at least 1");
        }
        let all = nodes.saturating_add(empty_nodes);
        // First: where the machine cannot have the nodes, no number of CPUs will do.
        if let Some(allowed) = &machine.node_counts
            && !allowed.counts.contains(&all)
        {
            refuse!(
                "{}: {all} nodes asked, but {}",
                machine.name,
                allowed.reason
            );
        }
        if !cpus.is_multiple_of(nodes) {
            refuse!("{cpus} CPUs do not divide by {nodes} nodes");
        }
        if !(cpus / nodes).is_multiple_of(threads) {
            refuse!(
                "{} CPUs of a node do not divide by {threads} threads",
                cpus / nodes
            );
        }
        for (what, asked, most) in [
            ("CPUs", cpus, machine.max_cpus),
            ("nodes", all, machine.max_nodes),
            ("threads of a core", threads, machine.max_threads),
        ] {
            if asked > most {
                refuse!(
                    "{}: {asked} {what} asked, the board's limit is {most}",
                    machine.name
                );
            }
        }
        if empty_nodes > 0 && machine.empty_node_args.is_empty() {
            refuse!("{} has no nodes without CPUs", machine.name);
        }
        if machine.memory_mib.is_some_and(|mib| mib < all) {
            refuse!("{}: less than 1 MiB for each of {all} nodes", machine.name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, tests::SAMPLE};
    use crate::refused::Refused;

    const USUAL: Topology = Topology {
        cpus: 8,
        nodes: 2,
        threads: 1,
        empty_nodes: 0,
    };

    #[track_caller]
    fn refused(machine: &str, asked: Topology, why: &str) {
        let board = Board::parse("b", SAMPLE).unwrap();
        let error = asked.check(board.machine(machine).unwrap()).unwrap_err();
        assert!(error.is::<Refused>());
        assert!(error.to_string().contains(why), "{error} lacks {why}");
    }

    #[test]
    fn cpus_and_memory_are_split_over_the_nodes_without_a_rest() {
        let odd = Topology {
            cpus: 6,
            nodes: 3,
            ..USUAL
        };
        let node = |id, first, mib| Node {
            id,
            cpus: Some((first, first + 1)),
            mib,
        };
        assert_eq!(
            odd.split(512).collect::<Vec<_>>(),
            [node(0, 0, 171), node(1, 2, 171), node(2, 4, 170)]
        );
    }

    #[test]
    fn a_node_without_cpus_has_its_share_of_the_memory() {
        let with_empty = Topology {
            empty_nodes: 2,
            ..USUAL
        };
        let nodes: Vec<_> = with_empty.split(64).collect();
        assert!(nodes.iter().all(|n| n.mib == 16));
        let cpus: Vec<_> = nodes.iter().map(|n| n.cpus).collect();
        assert_eq!(cpus, [Some((0, 3)), Some((4, 7)), None, None]);
    }

    #[test]
    fn cpus_that_do_not_divide_by_nodes_are_refused() {
        for (cpus, nodes) in [(7, 2), (8, 3), (1, 2), (2, 4)] {
            refused(
                "many",
                Topology {
                    cpus,
                    nodes,
                    ..USUAL
                },
                &format!("{cpus} CPUs do not divide by {nodes} nodes"),
            );
        }
    }

    #[test]
    fn cpus_of_a_node_that_do_not_divide_by_threads_are_refused() {
        let asked = Topology {
            cpus: 6,
            threads: 2,
            ..USUAL
        };
        refused("many", asked, "3 CPUs of a node do not divide by 2 threads");
    }

    #[test]
    fn a_count_of_zero_is_refused() {
        for asked in [
            Topology { cpus: 0, ..USUAL },
            Topology { nodes: 0, ..USUAL },
            Topology {
                threads: 0,
                ..USUAL
            },
        ] {
            refused("many", asked, "at least 1");
        }
    }

    #[test]
    fn a_topology_beyond_the_machines_limits_is_refused() {
        let asked = |cpus, nodes, threads, empty_nodes| Topology {
            cpus,
            nodes,
            threads,
            empty_nodes,
        };
        refused(
            "one",
            asked(2, 1, 1, 0),
            "one: 2 CPUs asked, the board's limit is 1",
        );
        refused(
            "many",
            asked(40, 5, 1, 0),
            "many: 5 nodes asked, the board's limit is 4",
        );
        refused("many", asked(8, 1, 4, 0), "4 threads of a core asked");
        refused("many", asked(8, 4, 1, 1), "5 nodes asked");
        refused("many", asked(8, 4, 1, u32::MAX), "nodes asked");
    }

    #[test]
    fn a_number_of_nodes_that_the_machine_cannot_have_is_refused_with_the_reason() {
        let text = SAMPLE.replace(
            "max_nodes = 4",
            "max_nodes = 4\nnode_counts = { counts = [1, 2, 4], reason = \"chips come in powers of two\" }",
        );
        let board = Board::parse("b", &text).unwrap();
        let machine = board.machine("many").unwrap();
        for nodes in [1, 2, 4] {
            let asked = Topology {
                cpus: 12,
                nodes,
                ..USUAL
            };
            asked.check(machine).unwrap();
        }
        for cpus in [6, 8] {
            let asked = Topology {
                cpus,
                nodes: 3,
                ..USUAL
            };
            let error = asked.check(machine).unwrap_err();
            assert!(error.is::<Refused>());
            assert_eq!(
                error.to_string(),
                "many: 3 nodes asked, but chips come in powers of two"
            );
        }
    }

    #[test]
    fn a_node_without_cpus_is_refused_where_the_machine_has_none() {
        let board = Board::parse("b", &SAMPLE.replace("max_nodes = 1", "max_nodes = 2")).unwrap();
        let asked = Topology {
            cpus: 1,
            nodes: 1,
            threads: 1,
            empty_nodes: 1,
        };
        let error = asked.check(board.machine("one").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "one has no nodes without CPUs");
    }

    #[test]
    fn a_node_without_memory_is_refused() {
        let board =
            Board::parse("b", &SAMPLE.replace("memory_mib = 96", "memory_mib = 1")).unwrap();
        let error = USUAL.check(board.machine("many").unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "many: less than 1 MiB for each of 2 nodes"
        );
    }
}
