// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology against a naive model, over random machines and sequences.
#![cfg(not(loom))]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuSet, NodeId};
use irq_core::topology::{Level, LevelSet, Place, Topology};
use irq_hal::{Error, ErrorKind};
use proptest::prelude::*;

static PLATFORM: Cpu = Cpu::new(0);

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn place(ids: [u32; 5]) -> Place {
    let [core, l2, group, package, node] = ids;
    Place {
        core,
        l2,
        group,
        package,
        node: NodeId::new(node),
    }
}

fn members(set: &dyn CpuSet) -> Vec<u32> {
    let mut members = Vec::new();
    set.each(&mut |cpu| members.push(cpu.get()));
    members
}

/// What the topology must say, the slow way: a set for each domain.
#[derive(Default)]
struct Model {
    places: BTreeMap<u32, Place>,
    online: BTreeSet<u32>,
    domains: BTreeMap<(Level, u32), BTreeSet<u32>>,
}

impl Model {
    fn online(&mut self, index: u32, place: Place, cpus: u32, nodes: u32) -> Option<ErrorKind> {
        if index >= cpus {
            return Some(ErrorKind::NotFound);
        }
        if place.node.get() >= nodes {
            return Some(ErrorKind::Invalid);
        }
        if *self.places.entry(index).or_insert(place) != place || !self.online.insert(index) {
            return Some(ErrorKind::Exists);
        }
        for level in Level::ALL {
            let domain = self.domains.entry((level, place.id(level))).or_default();
            domain.insert(index);
        }
        None
    }

    fn offline(&mut self, index: u32, cpus: u32) -> Option<ErrorKind> {
        if index >= cpus {
            return Some(ErrorKind::NotFound);
        }
        if !self.online.remove(&index) {
            return Some(ErrorKind::Offline);
        }
        for level in Level::ALL {
            let key = (level, self.places[&index].id(level));
            self.domains.get_mut(&key).unwrap().remove(&index);
        }
        None
    }

    fn domain(&self, index: u32, level: Level) -> &BTreeSet<u32> {
        &self.domains[&(level, self.places[&index].id(level))]
    }

    /// The levels, in sets that `equal` puts together.
    fn merged(equal: impl Fn(Level, Level) -> bool) -> Vec<LevelSet> {
        let mut sets = Vec::<Vec<Level>>::new();
        for level in Level::ALL {
            match sets.iter_mut().find(|set| equal(set[0], level)) {
                Some(set) => set.push(level),
                None => sets.push(vec![level]),
            }
        }
        sets.iter().map(|set| LevelSet::of(set)).collect()
    }

    fn levels(&self, index: u32) -> Vec<LevelSet> {
        Self::merged(|one, other| self.domain(index, one) == self.domain(index, other))
    }

    fn merged_levels(&self) -> Vec<LevelSet> {
        Self::merged(|one, other| {
            let mut online = self.online.iter();
            online.all(|cpu| self.domain(*cpu, one) == self.domain(*cpu, other))
        })
    }

    /// Everything about one CPU.
    fn check_cpu(&self, topology: &Topology, index: u32) {
        let place = self.places.get(&index).copied();
        assert_eq!(topology.place(cpu(index)), place);
        assert_eq!(topology.node_of(cpu(index)), place.map(|place| place.node));
        let online = self.online.contains(&index);
        assert_eq!(topology.is_online(cpu(index)), online);
        let Some(place) = place else { return };
        for level in Level::ALL {
            let ours = topology.domain(cpu(index), level).unwrap();
            let theirs = self.domain(index, level);
            assert_eq!(ours.id(), place.id(level));
            assert!(members(&ours).iter().eq(theirs));
            assert!(ours.iter().map(CpuIndex::get).eq(theirs.iter().copied()));
            assert_eq!(ours.count() as usize, theirs.len());
            assert_eq!(ours.contains(cpu(index)), online);
            assert_eq!(
                ours.first().map(CpuIndex::get),
                theirs.iter().next().copied()
            );
        }
        if online {
            let levels = topology.levels(cpu(index)).map(|level| level.levels);
            assert!(levels.eq(self.levels(index)));
            for level in topology.levels(cpu(index)) {
                let first = level.levels.iter().next().unwrap();
                assert_eq!(level.domain.level(), first);
                assert!(members(&level.domain).iter().eq(self.domain(index, first)));
            }
        }
    }

    /// Everything.
    fn check(&self, topology: &Topology) {
        for index in 0..topology.cpus() {
            self.check_cpu(topology, index);
        }
        assert!(members(topology.online_cpus()).iter().eq(&self.online));
        assert_eq!(topology.online_cpus().count() as usize, self.online.len());
        if !self.online.is_empty() {
            assert!(topology.merged_levels().eq(self.merged_levels()));
        }
        for level in Level::ALL {
            let ours: BTreeSet<_> = topology.domains(level).map(|domain| domain.id()).collect();
            assert_eq!(ours.len(), topology.domains(level).count());
            let theirs = self
                .domains
                .iter()
                .filter(|(key, members)| key.0 == level && !members.is_empty());
            assert!(ours.into_iter().eq(theirs.map(|(key, _)| key.1)));
            // Who is in which: for each domain and each CPU.
            for domain in topology.domains(level) {
                let theirs = &self.domains[&(level, domain.id())];
                for index in 0..topology.cpus() {
                    assert_eq!(domain.contains(cpu(index)), theirs.contains(&index));
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Online(u32),
    /// To where another CPU is.
    Elsewhere(u32, u32),
    Offline(u32),
    /// All of the CPUs whose index has a remainder, as when SMT goes off.
    OfflineMany(u32),
    OnlineAll,
}

#[derive(Clone, Debug)]
struct Machine {
    cpus: u32,
    nodes: u32,
    /// For each CPU, and one that is impossible.
    places: Vec<Place>,
    ops: Vec<Op>,
}

/// Sparse ids, few enough that CPUs share; levels that do not nest, or do.
fn machine() -> impl Strategy<Value = Machine> {
    let shape = (
        1..200_u32,
        1..6_u32,
        proptest::collection::vec(any::<u32>(), 1..40),
    );
    let machine = shape.prop_flat_map(|(cpus, nodes, pool)| {
        let id = proptest::sample::select(pool);
        // A node now and then that is impossible.
        let wild = (id.clone(), id.clone(), id.clone(), id, 0..=nodes)
            .prop_map(|(core, l2, group, package, node)| place([core, l2, group, package, node]));
        let count = cpus as usize + 1;
        let nested = (0..4_u32, 1..9_u32, any::<u32>()).prop_map(move |(shift, cores, salt)| {
            let at = |index: u32| {
                let (core, package) = ((index >> shift) ^ salt, (index >> shift) / cores);
                place([core, core, package ^ salt, package, package % nodes])
            };
            (0..cpus + 1).map(at).collect()
        });
        let places = prop_oneof![proptest::collection::vec(wild, count), nested];
        let any_cpu = 0..cpus + 1;
        let op = prop_oneof![
            18 => any_cpu.clone().prop_map(Op::Online),
            3 => (any_cpu.clone(), any_cpu.clone()).prop_map(|(a, b)| Op::Elsewhere(a, b)),
            12 => any_cpu.prop_map(Op::Offline),
            1 => (2..9_u32).prop_map(Op::OfflineMany),
            1 => Just(Op::OnlineAll),
        ];
        let ops = proptest::collection::vec(op, 0..120);
        (Just((cpus, nodes)), places, ops)
    });
    machine.prop_map(|((cpus, nodes), places, ops)| Machine {
        cpus,
        nodes,
        places,
        ops,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sequence_agrees_with_a_set_for_each_domain(machine in machine()) {
        let Machine { cpus, nodes, places, ops } = machine;
        let topology = Topology::new(cpus, nodes).unwrap();
        let mut model = Model::default();
        let kind = |result: Result<(), Error>| result.err().map(|error| error.kind());
        let online = |model: &mut Model, index: u32, place: Place| {
            let ours = kind(topology.online(&PLATFORM, cpu(index), place));
            assert_eq!(ours, model.online(index, place, cpus, nodes));
        };
        let offline = |model: &mut Model, index: u32| {
            let ours = kind(topology.offline(cpu(index)));
            assert_eq!(ours, model.offline(index, cpus));
        };
        for op in ops {
            let place = |index: u32| places[index as usize];
            match op {
                Op::Online(index) => online(&mut model, index, place(index)),
                Op::Elsewhere(index, there) => online(&mut model, index, place(there)),
                Op::Offline(index) => offline(&mut model, index),
                Op::OfflineMany(modulus) => {
                    let many = (0..cpus).filter(|index| index % modulus != 0);
                    many.for_each(|index| offline(&mut model, index));
                }
                Op::OnlineAll => (0..cpus).for_each(|index| online(&mut model, index, place(index))),
            }
            match op {
                Op::Online(index) | Op::Elsewhere(index, _) | Op::Offline(index) => {
                    model.check_cpu(&topology, index);
                }
                Op::OfflineMany(_) | Op::OnlineAll => model.check(&topology),
            }
        }
        model.check(&topology);
    }
}
