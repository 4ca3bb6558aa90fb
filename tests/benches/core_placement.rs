// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it takes to choose a CPU and to give out a vector, beside a scan of per-CPU records by
//! the same rules.
//!
//! Loads are as one of these left them, since what there is to look at depends on it:
//! - `even`: a little more than ten regular and two managed interrupts for each CPU, placed over
//!   the whole machine by the policy;
//! - `freed`: then a random tenth of them is gone;
//! - `masked`: as many, but for the CPUs of the mask alone.

#[allow(dead_code, reason = "each program uses its part")]
mod measure;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::matrix::{Matrix, Policy, Slot, Wanted};
use irq_core::placement::{Among, Class, Limits, Placement, Request};
use irq_tests::bare::Bare;
use irq_tests::heap::{Counting, held};
use irq_tests::machine::{Machine, Random};
use irq_tests::pair::{Area, matrix};
use irq_tests::scan::{self, Scan};
use measure::{Limit, Meter, Point, Variant};

#[global_allocator]
static HEAP: Counting = Counting;

const SMALL: Machine = machine(64, 1);
const TWO: Machine = machine(128, 2);
const LARGE: Machine = machine(4096, 16);

const fn machine(cpus: u32, nodes: u32) -> Machine {
    Machine {
        cpus,
        nodes,
        threads: 2,
        apart: false,
    }
}

fn area() -> Area {
    Area {
        first: 0x20,
        end: 0xec,
        system: vec![0x80],
    }
}

/// Interrupts for each CPU at first, of each class, and half as many CPUs get one more.
const REGULAR: u32 = 10;
const MANAGED: u32 = 2;
/// Reservations of each CPU.
const RESERVED: u32 = 4;
/// A driver with so many queues allocates one interrupt after the other, and frees them so.
const QUEUES: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Even,
    Freed,
    Masked,
}

/// The vectors of a machine with all CPUs online.
fn online(machine: &Machine) -> Matrix {
    let matrix = matrix(machine, &area(), Policy::Balanced);
    for cpu in machine.each() {
        matrix.online(&Bare, cpu, machine.place(cpu.get())).unwrap();
    }
    matrix
}

fn scan_of(machine: &Machine) -> Scan {
    let Area { first, end, system } = area();
    let scan = Scan::new(machine.cpus, machine.nodes, first, end, &system);
    for cpu in machine.each() {
        // Adjacent threads: the one before, unless this is the first.
        let sibling = (cpu.get() % machine.threads != 0).then(|| CpuIndex::new(cpu.get() - 1));
        scan.online(&Bare, cpu, sibling, machine.node(cpu.get()));
    }
    scan
}

/// Both, with the same loads, and these loads alone.
struct Both {
    ours: Matrix,
    loads: Placement<()>,
    scan: Scan,
}

/// An interrupt that both have placed, on the same CPU.
struct Placed {
    irq: u32,
    class: Class,
    slot: Slot,
    vector: u8,
}

impl Both {
    fn new(machine: &Machine) -> Self {
        let ours = online(machine);
        let limits = Limits {
            cpus: machine.cpus,
            nodes: machine.nodes,
            load: ours.capacity(),
            threads: machine.threads,
        };
        let loads = Placement::new(limits, || Ok(())).unwrap();
        for cpu in machine.each() {
            let (core, node) = (machine.core(cpu.get()), machine.place(cpu.get()).node);
            loads.online(&Bare, cpu, core, node).unwrap();
        }
        let scan = scan_of(machine);
        Self { ours, loads, scan }
    }

    fn in_state(machine: &Machine, state: State, mask: Option<&CpuMask>) -> Self {
        let both = Self::new(machine);
        let mut all = CpuMask::try_new(machine.cpus).unwrap();
        all.fill();
        let mask = match (state, mask) {
            (State::Masked, Some(mask)) => mask,
            _ => &all,
        };
        for _ in 0..RESERVED {
            both.ours.reserve_managed(&Bare, mask).unwrap();
            assert!(both.scan.reserve_managed(&Bare, words(mask)));
            // What the matrix makes of it.
            for cpu in mask {
                both.load(Class::Regular, cpu, 0, 1);
            }
        }
        let count = mask.count();
        let mut placed = Vec::new();
        for irq in 0..count * REGULAR + count / 2 {
            placed.push(both.place(irq, Class::Regular, mask));
        }
        for irq in 0..count * MANAGED + count / 2 {
            placed.push(both.place(irq, Class::Managed, mask));
        }
        if state == State::Freed {
            let mut random = Random::new(1);
            for _ in 0..placed.len() / 10 {
                let at = random.below(placed.len() as u32) as usize;
                both.free(&placed.swap_remove(at));
            }
        }
        both
    }

    fn load(&self, class: Class, cpu: CpuIndex, place: i32, shift: i32) {
        let change = self.loads.update(&Bare, cpu, |change, ()| {
            change.place(class, place);
            change.shift(class, shift);
        });
        change.unwrap();
    }

    fn place(&self, irq: u32, class: Class, mask: &CpuMask) -> Placed {
        let wanted = ours_for(irq, Some(mask));
        let slot = match class {
            Class::Managed => self.ours.alloc_managed(&Bare, &wanted),
            Class::Regular => self.ours.alloc(&Bare, &wanted, false),
        };
        let slot = slot.unwrap();
        let theirs = self.scan.alloc(&Bare, class, &scan_for(irq, Some(mask)));
        let (cpu, vector) = theirs.unwrap();
        assert_eq!(slot.cpu, cpu, "both are to do the same work");
        self.load(class, cpu, 1, 0);
        Placed {
            irq,
            class,
            slot,
            vector,
        }
    }

    fn free(&self, placed: &Placed) {
        let Placed { irq, slot, .. } = *placed;
        self.ours.free(&Bare, slot, Irq::new(irq)).unwrap();
        assert!(self.scan.free(&Bare, (slot.cpu, placed.vector), irq));
        self.load(placed.class, slot.cpu, -1, 0);
    }
}

fn words(mask: &CpuMask) -> &[u64] {
    mask.words().unwrap()
}

fn among(mask: Option<&CpuMask>) -> Among<'_> {
    mask.map_or(Among::Machine, |mask| Among::Mask(mask))
}

fn ours_for(irq: u32, mask: Option<&CpuMask>) -> Wanted<'_> {
    Wanted {
        irq: Irq::new(irq),
        among: among(mask),
        near: None,
    }
}

fn scan_for(irq: u32, mask: Option<&CpuMask>) -> scan::Wanted<'_> {
    scan::Wanted {
        irq,
        mask: mask.map(words),
        near: None,
    }
}

/// `passes` interrupts from `*irq` on are allocated, as many in a row as a driver has queues,
/// and freed.
fn in_rows<S>(
    passes: u64,
    irq: &mut u32,
    mut alloc: impl FnMut(u32) -> S,
    free: impl Fn(S, u32),
) -> Duration {
    let mut row = Vec::with_capacity(QUEUES);
    let start = Instant::now();
    let mut left = passes;
    while left != 0 {
        let count = left.min(QUEUES as u64) as u32;
        row.extend((*irq..*irq + count).map(&mut alloc));
        for (slot, irq) in row.drain(..).zip(*irq..) {
            free(slot, irq);
        }
        *irq = (*irq + count) % (1 << 20);
        left -= u64::from(count);
    }
    start.elapsed()
}

fn next(irq: &mut u32) -> u32 {
    *irq = (*irq + 1) % (1 << 20);
    *irq
}

/// The medians of the scan and ours.
type Medians = [f64; 2];

struct Bench {
    meter: Meter,
}

impl Bench {
    fn rows(&mut self, point: &Point, unit: &str, variants: [Variant<'_>; 2]) -> Medians {
        // criterion's name for it: one for each unit.
        let bench = format!("{} {unit}", point.bench);
        let named = Point {
            bench: bench.leak(),
            ..*point
        };
        let medians = self.meter.medians(&named, variants);
        for (variant, value) in ["scan", "ours"].into_iter().zip(medians) {
            point.row(variant, value, unit);
        }
        medians
    }

    fn choose(&mut self, point: &Point, both: &Both, mask: Option<&CpuMask>) -> Medians {
        let (class, [mut a, mut b]) = (Class::Regular, [0; 2]);
        let scan = || {
            both.scan
                .choose(&Bare, class, &scan_for(next(&mut a), mask))
        };
        let ours = || {
            let request = Request {
                class,
                among: among(mask),
                near: None,
                turn: next(&mut b),
            };
            both.loads.choose(&request)
        };
        let variants = [Variant::each("scan", scan), Variant::each("ours", ours)];
        self.rows(point, "ns/choice", variants)
    }

    fn alloc(&mut self, point: &Point, both: &Both, mask: Option<&CpuMask>) -> Medians {
        let (class, [mut a, mut b]) = (Class::Regular, [0; 2]);
        let scan = |passes| {
            let alloc = |irq| both.scan.alloc(&Bare, class, &scan_for(irq, mask)).unwrap();
            let free = |slot, irq| assert!(both.scan.free(&Bare, slot, irq));
            in_rows(passes, &mut a, alloc, free)
        };
        let ours = |passes| {
            let alloc = |irq| both.ours.alloc(&Bare, &ours_for(irq, mask), false).unwrap();
            let free = |slot, irq| both.ours.free(&Bare, slot, Irq::new(irq)).unwrap();
            in_rows(passes, &mut b, alloc, free)
        };
        let variants = [Variant::new("scan", scan), Variant::new("ours", ours)];
        self.rows(point, "ns/alloc+free", variants)
    }

    fn managed(&mut self, point: &Point, both: &Both, mask: &CpuMask) -> Medians {
        let (class, [mut a, mut b]) = (Class::Managed, [0; 2]);
        let wanted = Some(mask);
        let scan = |passes| {
            let alloc = |irq| {
                let wanted = scan_for(irq, wanted);
                both.scan.alloc(&Bare, class, &wanted).unwrap()
            };
            let free = |slot, irq| assert!(both.scan.free(&Bare, slot, irq));
            in_rows(passes, &mut a, alloc, free)
        };
        let ours = |passes| {
            let alloc = |irq| {
                let wanted = ours_for(irq, wanted);
                both.ours.alloc_managed(&Bare, &wanted).unwrap()
            };
            let free = |slot, irq| both.ours.free(&Bare, slot, Irq::new(irq)).unwrap();
            in_rows(passes, &mut b, alloc, free)
        };
        let variants = [Variant::new("scan", scan), Variant::new("ours", ours)];
        self.rows(point, "ns/managed_alloc+free", variants)
    }

    fn reserve(&mut self, point: &Point, both: &Both, mask: &CpuMask) -> Medians {
        let scan = || {
            assert!(both.scan.reserve_managed(&Bare, words(mask)));
            assert!(both.scan.remove_managed(&Bare, words(mask)));
        };
        let ours = || {
            both.ours.reserve_managed(&Bare, mask).unwrap();
            both.ours.remove_managed(&Bare, mask).unwrap();
        };
        let variants = [Variant::each("scan", scan), Variant::each("ours", ours)];
        self.rows(point, "ns/reserve+remove", variants)
    }

    /// From a queue's reservation to its removal.
    fn queue(&mut self, point: &Point, both: &Both, mask: &CpuMask) -> Medians {
        let (class, [mut a, mut b]) = (Class::Managed, [0; 2]);
        let wanted = Some(mask);
        let scan = || {
            let irq = next(&mut a);
            assert!(both.scan.reserve_managed(&Bare, words(mask)));
            let slot = both.scan.alloc(&Bare, class, &scan_for(irq, wanted));
            assert!(both.scan.free(&Bare, slot.unwrap(), irq));
            assert!(both.scan.remove_managed(&Bare, words(mask)));
        };
        let ours = || {
            let irq = next(&mut b);
            both.ours.reserve_managed(&Bare, mask).unwrap();
            let slot = both.ours.alloc_managed(&Bare, &ours_for(irq, wanted));
            both.ours.free(&Bare, slot.unwrap(), Irq::new(irq)).unwrap();
            both.ours.remove_managed(&Bare, mask).unwrap();
        };
        let variants = [Variant::each("scan", scan), Variant::each("ours", ours)];
        self.rows(point, "ns/reserve+alloc+free+remove", variants)
    }

    /// Two threads, each for a node of its own, on an instance each, and on one.
    fn two_threads(&mut self, machine: &Machine) -> f64 {
        let point = Point {
            bench: "two_threads",
            cpus: machine.cpus,
            nodes: machine.nodes,
        };
        let (own, one) = ([online(machine), online(machine)], online(machine));
        let variants = [
            Variant::new("an_instance_each", |passes| {
                together([&own[0], &own[1]], passes)
            }),
            Variant::new("one_instance", |passes| together([&one, &one], passes)),
        ];
        let [each, together] = self.meter.rows(&point, variants);
        together / each
    }
}

/// Two threads at the same time, each with the interrupts of a node.
fn together(matrices: [&Matrix; 2], passes: u64) -> Duration {
    let barrier = Barrier::new(2);
    let spans = thread::scope(|scope| {
        let run = |node: u32| {
            let (matrix, barrier) = (matrices[node as usize], &barrier);
            move || {
                let wanted = |irq| Wanted {
                    irq: Irq::new(irq),
                    among: Among::Node(NodeId::new(node)),
                    near: None,
                };
                barrier.wait();
                let start = Instant::now();
                let alloc = |irq| matrix.alloc(&Bare, &wanted(irq), false).unwrap();
                let free = |slot, irq| matrix.free(&Bare, slot, Irq::new(irq)).unwrap();
                in_rows(passes, &mut 0, alloc, free);
                (start, Instant::now())
            }
        };
        [0, 1]
            .map(|node| scope.spawn(run(node)))
            .map(|thread| thread.join().unwrap())
    });
    let (first, last) = (spans.map(|span| span.0), spans.map(|span| span.1));
    last[0].max(last[1]) - first[0].min(first[1])
}

/// 512 CPUs of the large machine: next to each other, not from a word's first on; or any.
fn masks() -> [CpuMask; 2] {
    let [mut contiguous, mut scattered] = [(); 2].map(|()| CpuMask::try_new(LARGE.cpus).unwrap());
    for cpu in 1000..1512 {
        contiguous.insert(CpuIndex::new(cpu)).unwrap();
    }
    let mut random = Random::new(2);
    while scattered.count() < 512 {
        let cpu = CpuIndex::new(random.below(LARGE.cpus));
        scattered.insert(cpu).unwrap();
    }
    [contiguous, scattered]
}

fn bytes(machine: &Machine) {
    let point = Point {
        bench: "memory",
        cpus: machine.cpus,
        nodes: machine.nodes,
    };
    let (_scan, scan) = held(|| scan_of(machine));
    let (ours, own) = held(|| online(machine));
    let vectors = f64::from(ours.capacity());
    for (variant, bytes) in [("scan", scan), ("ours", own)] {
        let each = bytes as f64 / f64::from(machine.cpus);
        point.row(variant, each, "bytes/CPU");
        point.row(variant, each / vectors, "bytes/vector");
    }
}

/// What holds, or not, at the end.
type Holds = Vec<(Limit, String, f64)>;

fn whole_machine(bench: &mut Bench, limits: &mut Holds, name: &'static str, state: State) {
    let mut ours = Vec::new();
    for machine in [SMALL, LARGE] {
        let point = Point {
            bench: name,
            cpus: machine.cpus,
            nodes: machine.nodes,
        };
        let both = Both::in_state(&machine, state, None);
        let choice = bench.choose(&point, &both, None);
        let alloc = bench.alloc(&point, &both, None);
        ours.push([choice[1], alloc[1]]);
        let at = format!("{name}, {} CPUs", machine.cpus);
        if machine == SMALL {
            let told = format!("{at}: allocate + free, ours to the scan's");
            limits.push((Limit::AtMost(1.2), told, alloc[1] / alloc[0]));
        } else {
            for (what, least, of) in [("choice", 50.0, choice), ("allocate + free", 30.0, alloc)] {
                let told = format!("{at}: {what}, the scan's to ours");
                limits.push((Limit::AtLeast(least), told, of[0] / of[1]));
            }
        }
    }
    for (what, at) in [("choice", 0), ("allocate + free", 1)] {
        let told = format!("{name}: {what}, ours at 4096 CPUs to ours at 64");
        limits.push((Limit::AtMost(3.0), told, ours[1][at] / ours[0][at]));
    }
}

fn with_mask(
    bench: &mut Bench,
    limits: &mut Holds,
    name: &'static str,
    state: State,
    mask: &CpuMask,
) {
    let point = Point {
        bench: name,
        cpus: LARGE.cpus,
        nodes: LARGE.nodes,
    };
    let both = Both::in_state(&LARGE, state, Some(mask));
    for (what, least, of) in [
        ("choice", 10.0, bench.choose(&point, &both, Some(mask))),
        (
            "allocate + free",
            4.0,
            bench.alloc(&point, &both, Some(mask)),
        ),
        (
            "managed, allocate + free",
            4.0,
            bench.managed(&point, &both, mask),
        ),
        (
            "managed, reserve + remove",
            4.0,
            bench.reserve(&point, &both, mask),
        ),
        ("managed, all four", 4.0, bench.queue(&point, &both, mask)),
    ] {
        let told = format!("512 of 4096 CPUs, {name}: {what}, the scan's to ours");
        limits.push((Limit::AtLeast(least), told, of[0] / of[1]));
    }
}

fn main() {
    // The command gives none: all are run.
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter));
    let mut bench = Bench {
        meter: Meter::new(21, Duration::from_millis(600)),
    };
    let mut limits = Holds::new();
    for (name, state) in [
        ("machine.even", State::Even),
        ("machine.freed", State::Freed),
    ] {
        if wanted(name) {
            whole_machine(&mut bench, &mut limits, name, state);
        }
    }
    let [contiguous, scattered] = masks();
    for (name, state, mask) in [
        ("contiguous.even", State::Even, &contiguous),
        ("contiguous.freed", State::Freed, &contiguous),
        ("contiguous.masked", State::Masked, &contiguous),
        ("scattered.even", State::Even, &scattered),
        ("scattered.freed", State::Freed, &scattered),
        ("scattered.masked", State::Masked, &scattered),
    ] {
        if wanted(name) {
            with_mask(&mut bench, &mut limits, name, state, mask);
        }
    }
    for machine in [TWO, LARGE] {
        if wanted("two_threads") {
            let told = format!(
                "two threads on two nodes of {} CPUs, one instance to an instance each",
                machine.cpus
            );
            limits.push((Limit::AtMost(1.2), told, bench.two_threads(&machine)));
        }
    }
    if wanted("memory") {
        bytes(&SMALL);
        bytes(&LARGE);
    }
    for (limit, what, value) in limits {
        limit.tell(&what, value);
    }
}
