// SPDX-License-Identifier: MIT OR Apache-2.0
//! How evenly the managed interrupts of several multi-queue devices come to stand: before they
//! were counted apart, and by our policies.

use std::collections::BTreeSet;

use irq_core::cpu::CpuMask;
use irq_core::matrix::Policy;
use irq_core::spread::{self, Spread};
use irq_tests::bare::Bare;
use irq_tests::machine::{Machine, Random};
use irq_tests::naive::{Among, Naive, Rule, Wanted};
use irq_tests::pair::{Area, ask, mask_of, matrix};

/// The area of the report, with the system's vector in it: 203 for interrupts.
fn area() -> Area {
    Area {
        first: 0x20,
        end: 0xec,
        system: vec![0x80],
    }
}

/// Devices, one after the other: the masks of each one's queues, in order.
type Devices = Vec<Vec<BTreeSet<u32>>>;

/// The masks of a device with `queues` queues.
fn queues(machine: &Machine, queues: u32) -> Vec<BTreeSet<u32>> {
    let mut all = CpuMask::try_new(machine.cpus).unwrap();
    all.fill();
    let cpus = spread::Machine {
        cpus: machine.cpus,
        possible: &all,
        present: &all,
        default: &all,
        sharing: machine,
    };
    let spread = Spread::new(&spread::Request::new(queues), &cpus).unwrap();
    let masks = spread.iter().map(|affinity| {
        assert!(affinity.managed);
        affinity.mask.iter().map(|cpu| cpu.get()).collect()
    });
    masks.collect()
}

/// The queues in the order in which they are activated: with their irqs, from `first` on.
fn requests(devices: &Devices, first: u32) -> Vec<Wanted> {
    let masks = devices.iter().flatten();
    let wanted = (first..).zip(masks).map(|(irq, mask)| Wanted {
        irq,
        among: Among::Mask(mask.clone()),
        near: None,
    });
    wanted.collect()
}

/// How many interrupts run on each CPU.
#[derive(Debug, PartialEq, Eq)]
struct Loads(Vec<u32>);

impl Loads {
    fn used(&self) -> usize {
        self.0.iter().filter(|load| **load != 0).count()
    }

    fn most(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    fn cores(&self, machine: &Machine) -> Self {
        let mut cores = vec![0; machine.cores() as usize];
        for (cpu, load) in (0..).zip(&self.0) {
            cores[machine.core(cpu) as usize] += load;
        }
        Self(cores)
    }

    /// The sum of their squares: less of it is more even, where the sum is the same.
    fn squares(&self) -> u64 {
        self.0.iter().map(|load| u64::from(load * load)).sum()
    }

    /// The loads in falling order: of two lists of the same sum the lower one is more even.
    fn sorted(&self) -> Vec<u32> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted
    }
}

/// Every device is there, then their queues are activated.
fn before(machine: &Machine, devices: &Devices) -> Loads {
    let area = area();
    let mut old = Naive::new(Rule::Old, machine.cpus, area.first, area.end, &area.system);
    for cpu in 0..machine.cpus {
        old.online(cpu, machine.core(cpu), machine.node(cpu))
            .unwrap();
    }
    devices
        .iter()
        .flatten()
        .for_each(|mask| old.reserve_managed(mask).unwrap());
    for wanted in requests(devices, 0) {
        old.alloc_managed(&wanted).unwrap();
    }
    let loads = old.cpus.iter().map(|cpu| cpu.counts().managed_allocated);
    Loads(loads.collect())
}

/// Likewise by the matrix; the first irq is `first`.
fn after(machine: &Machine, devices: &Devices, policy: Policy, first: u32) -> Loads {
    let matrix = matrix(machine, &area(), policy);
    for cpu in machine.each() {
        matrix.online(&Bare, cpu, machine.place(cpu.get())).unwrap();
    }
    let cpus = machine.cpus;
    for mask in devices.iter().flatten() {
        let mask = mask_of(cpus, mask);
        matrix.reserve_managed(&Bare, &mask).unwrap();
    }
    for wanted in requests(devices, first) {
        ask(cpus, &wanted, |wanted| matrix.alloc_managed(&Bare, wanted)).unwrap();
    }
    matrix.check(&Bare).unwrap();
    let loads = machine
        .each()
        .map(|cpu| matrix.counts(&Bare, cpu).unwrap().managed_allocated);
    Loads(loads.collect())
}

/// 64 cores with two threads each.
const fn large(apart: bool) -> Machine {
    Machine {
        cpus: 128,
        nodes: 2,
        threads: 2,
        apart,
    }
}

/// CPUs used, and the most per CPU.
type Seen = (usize, u32);

/// Queues of each device, devices; before and after.
const TABLE: [(u32, usize, Seen, Seen); 5] = [
    (16, 8, (16, 8), (128, 1)),
    (32, 2, (32, 2), (64, 1)),
    (32, 8, (32, 8), (128, 2)),
    (64, 4, (64, 4), (128, 2)),
    (64, 8, (64, 8), (128, 4)),
];

#[test]
fn the_table_of_128_cpus_before_and_after() {
    for apart in [false, true] {
        let machine = large(apart);
        for (count, devices, was, is) in TABLE {
            let devices = vec![queues(&machine, count); devices];
            let old = before(&machine, &devices);
            assert_eq!((old.used(), old.most()), was, "{count} queues, before");
            for policy in [Policy::Balanced, Policy::Compatible] {
                for first in [0, 1, 24, 100_001] {
                    let new = after(&machine, &devices, policy, first);
                    assert_eq!((new.used(), new.most()), is, "{count} queues, {policy:?}");
                }
            }
        }
    }
}

#[test]
fn two_devices_of_32_queues_use_64_of_64_cores_whatever_the_numbering() {
    for apart in [false, true] {
        let machine = large(apart);
        let devices = vec![queues(&machine, 32); 2];
        for first in [0, 1, 24, 100_001] {
            let loads = after(&machine, &devices, Policy::Balanced, first);
            assert_eq!((loads.used(), loads.most()), (64, 1));
            let cores = loads.cores(&machine);
            assert_eq!(
                (cores.used(), cores.most()),
                (64, 1),
                "threads apart: {apart}"
            );
        }
    }
    // What it is measured by: by own load alone siblings are neighbours in each mask.
    let machine = large(false);
    let devices = vec![queues(&machine, 32); 2];
    let loads = after(&machine, &devices, Policy::Compatible, 0);
    assert_eq!(loads.cores(&machine).used(), 32);
}

/// The loads of CPUs by both policies, the balanced one first: it is as even as the other.
fn as_even(machine: &Machine, devices: &Devices, first: u32) -> [Loads; 2] {
    let both = [Policy::Balanced, Policy::Compatible];
    let both = both.map(|policy| after(machine, devices, policy, first));
    assert!(
        both[0].sorted() <= both[1].sorted(),
        "{both:?} on {machine:?}"
    );
    both
}

/// Likewise, and of cores.
fn cores_as_even(machine: &Machine, devices: &Devices, first: u32) {
    let cores = as_even(machine, devices, first).map(|loads| loads.cores(machine));
    assert!(
        cores[0].sorted() <= cores[1].sorted(),
        "{cores:?} on {machine:?}"
    );
}

#[test]
fn balanced_is_as_even_as_compatible_in_each_row() {
    for apart in [false, true] {
        let machine = large(apart);
        for (count, devices, ..) in TABLE {
            cores_as_even(&machine, &vec![queues(&machine, count); devices], 0);
        }
    }
}

/// A machine of `cores` cores.
fn any_machine(random: &mut Random, cores: u32, nodes: u32) -> Machine {
    let threads = 1 << random.below(4);
    Machine {
        cpus: threads * cores,
        nodes,
        threads,
        apart: random.once_in(2),
    }
}

#[test]
fn balanced_is_as_even_as_compatible_where_queues_have_whole_cores() {
    let mut random = Random::new(9);
    for _ in 0..200 {
        let nodes = 1 + random.below(4);
        let count = nodes * (1 + random.below(8));
        let cores = count * (1 + random.below(4));
        let machine = any_machine(&mut random, cores, nodes);
        let devices = vec![queues(&machine, count); 1 + random.below(9) as usize];
        cores_as_even(&machine, &devices, random.below(1000));
    }
}

#[test]
fn balanced_is_as_even_as_compatible_with_devices_of_one_kind_and_on_average_with_any() {
    let mut random = Random::new(10);
    let [mut equal, mut mixed] = [[[0; 2]; 2]; 2];
    let add = |to: &mut [[u64; 2]; 2], machine: &Machine, loads: &[Loads; 2]| {
        for (to, loads) in to.iter_mut().zip(loads) {
            *to = [
                to[0] + loads.squares(),
                to[1] + loads.cores(machine).squares(),
            ];
        }
    };
    for _ in 0..200 {
        let cores = 1 + random.below(24);
        let nodes = 1 + random.below(cores.min(4));
        let machine = any_machine(&mut random, cores, nodes);
        let first = random.below(1000);
        let count = 2 + random.below(5) as usize;
        let devices = vec![queues(&machine, 1 + random.below(machine.cpus)); count];
        add(&mut equal, &machine, &as_even(&machine, &devices, first));
        let devices = (0..count).map(|_| queues(&machine, 1 + random.below(machine.cpus)));
        let devices = devices.collect();
        let both = [Policy::Balanced, Policy::Compatible];
        let both = both.map(|policy| after(&machine, &devices, policy, first));
        add(&mut mixed, &machine, &both);
    }
    println!("sums of squares, CPUs and cores, balanced and compatible: {equal:?} {mixed:?}");
    for [ours, theirs] in [equal, mixed] {
        assert!(
            ours[0] <= theirs[0] && ours[1] <= theirs[1],
            "{ours:?} {theirs:?}"
        );
    }
}
