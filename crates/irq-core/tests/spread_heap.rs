// SPDX-License-Identifier: MIT OR Apache-2.0
//! Absurd requests and a lack of memory are errors that keep nothing; what spreading costs.
#![cfg(not(loom))]

mod common;
mod spread_common;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use common::heap::{Counting, heap, with_memory_for};
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, MAX_CPUS};
use irq_core::spread::{Flat, MAX_VECTORS, Machine, Request, Shared, Sharing, Spread};
use irq_hal::{Error, ErrorKind, NoCpu};
use spread_common::{Table, mask, shared};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const EMPTY_MASK: Error = Error::NoCpu {
    why: NoCpu::EmptyMask,
};

const fn invalid(what: &'static str, value: u64) -> Error {
    Error::Invalid { what, value }
}

fn all(cpus: u32) -> CpuMask {
    let mut mask = CpuMask::try_new(cpus).unwrap();
    mask.fill();
    mask
}

/// The error of a request; and what was allocated for it is free again.
fn refused(request: &Request<'_>, machine: &Machine<'_>) -> Error {
    let (made, used) = heap(|| Spread::new(request, machine));
    assert_eq!(used.allocations, used.frees);
    made.unwrap_err()
}

#[test]
fn a_request_that_makes_no_sense_is_an_error_and_keeps_no_memory() {
    let cpus = all(64);
    let machine = Machine {
        cpus: 64,
        possible: &cpus,
        present: &cpus,
        default: &cpus,
        sharing: &Flat,
    };
    let request = |vectors, before, after, sets| Request {
        vectors,
        before,
        after,
        sets,
    };
    let vectors = |count: u32| invalid("number of vectors", count.into());
    let unspread = |count| invalid("number of vectors that are not spread", count);
    let sum = |sum| invalid("sum of the sets", sum);
    const MAX: u32 = u32::MAX;
    for (request, error) in [
        (request(0, 0, 0, &[]), vectors(0)),
        (request(0, 0, 0, &[0]), vectors(0)),
        (request(65_536, 0, 0, &[]), vectors(65_536)),
        (request(4097, 0, 0, &[]), vectors(4097)),
        (request(MAX, 0, 0, &[MAX]), vectors(MAX)),
        (request(4, 5, 0, &[]), unspread(5)),
        (request(4, 0, 5, &[]), unspread(5)),
        (request(4, 2, 3, &[]), unspread(5)),
        (request(4, MAX, 5, &[]), unspread(0x1_0000_0004)),
        (request(4, MAX, MAX, &[]), unspread(0x1_ffff_fffe)),
        (request(4, 1, 0, &[4]), sum(4)),
        (request(4, 1, 1, &[1]), sum(1)),
        (request(4, 0, 0, &[0, 0]), sum(0)),
        (request(4, 2, 2, &[1]), sum(1)),
        (request(4, 0, 0, &[MAX, 5]), sum(0x1_0000_0004)),
    ] {
        assert_eq!(request.useful(&cpus), Err(error), "{request:?}");
        assert_eq!(refused(&request, &machine), error, "{request:?}");
    }
}

#[test]
fn the_largest_request_is_none_too_many() {
    let cpus = all(4096);
    let machine = Machine {
        cpus: 4096,
        possible: &cpus,
        present: &cpus,
        default: &cpus,
        sharing: &Flat,
    };
    let request = Request::new(MAX_VECTORS);
    assert_eq!(request.useful(&cpus), Ok(4096));
    let spread = Spread::new(&request, &machine).unwrap();
    for (cpu, affinity) in (0..).map(CpuIndex::new).zip(spread.iter()) {
        assert_eq!(
            (affinity.mask.first(), affinity.mask.count()),
            (Some(cpu), 1)
        );
    }
    assert_eq!(spread.vectors(), 4096);
}

#[test]
fn a_machine_that_cannot_be_is_an_error_and_keeps_no_memory() {
    let (some, none, beyond) = (mask([0, 63]), mask([]), mask([0, 64]));
    let machine = Machine {
        cpus: 64,
        possible: &some,
        present: &some,
        default: &some,
        sharing: &Flat,
    };
    let cpus = |cpus| Machine { cpus, ..machine };
    let no_such = |cpu| Error::NoSuchCpu {
        cpu: CpuIndex::new(cpu),
    };
    fn with<'a>(machine: Machine<'a>, set: &'a dyn CpuSet) -> [Machine<'a>; 3] {
        [
            Machine {
                possible: set,
                ..machine
            },
            Machine {
                present: set,
                ..machine
            },
            Machine {
                default: set,
                ..machine
            },
        ]
    }
    let request = Request::new(2);
    assert!(Spread::new(&request, &machine).is_ok());
    for machine in with(machine, &none) {
        assert_eq!(refused(&request, &machine), EMPTY_MASK);
    }
    for machine in with(machine, &beyond) {
        assert_eq!(refused(&request, &machine), no_such(64));
    }
    for (machine, error) in [
        (cpus(0), invalid("number of CPUs", 0)),
        (cpus(MAX_CPUS + 1), invalid("number of CPUs", 0x10_0001)),
        (cpus(u32::MAX), invalid("number of CPUs", 0xffff_ffff)),
        (cpus(63), no_such(63)),
    ] {
        assert_eq!(refused(&request, &machine), error);
    }
    assert_eq!(request.useful(&none), Err(EMPTY_MASK));
}

#[test]
fn a_spread_that_is_refused_memory_is_an_error_and_keeps_none() {
    let cpus = all(100);
    let machine = Machine {
        cpus: 100,
        possible: &cpus,
        present: &mask(0..50),
        default: &cpus,
        sharing: &Flat,
    };
    let request = Request {
        before: 1,
        sets: &[3, 4],
        ..Request::new(8)
    };
    let (made, needed) = heap(|| Spread::new(&request, &machine));
    assert!(made.is_ok());
    for left in 0..needed.allocations {
        let (error, used) =
            with_memory_for(left, || heap(|| Spread::new(&request, &machine).err()));
        assert_eq!(
            error.map(|error| error.kind()),
            Some(ErrorKind::OutOfMemory)
        );
        assert_eq!((used.allocations, used.frees), (left, left));
    }
}

/// What it takes for `vectors`, on a machine of 16 nodes with all that CPUs can share.
fn cost(cpus: u32, vectors: u32) -> (u32, usize) {
    let of_cpu = |cpu| {
        let core = cpu / 2;
        shared(cpu * 16 / cpus, Some(core / 4), Some(core))
    };
    let table = Table((0..cpus).map(of_cpu).collect());
    let possible = all(cpus);
    let machine = Machine {
        cpus,
        possible: &possible,
        present: &possible,
        default: &possible,
        sharing: &table,
    };
    let (made, used) = heap(|| Spread::new(&Request::new(vectors), &machine).unwrap());
    assert_eq!(
        made.iter().filter(|affinity| affinity.managed).count(),
        vectors as usize
    );
    (used.allocations, used.bytes)
}

#[test]
fn allocations_follow_the_vectors_and_not_the_cpus() {
    let (few, _) = cost(64, 1);
    for (cpus, vectors) in [(64, 9), (64, 64), (4096, 1), (4096, 64), (4096, 4096)] {
        assert_eq!(cost(cpus, vectors).0, few + vectors - 1);
    }
}

#[test]
fn memory_is_a_mask_and_a_few_words_for_each_vector_and_some_100_bytes_for_each_cpu() {
    for (cpus, mask) in [(64, 8), (1024, 128), (4096, 512)] {
        let each = (cost(cpus, cpus).1 - cost(cpus, 1).1) / (cpus as usize - 1);
        assert!((mask..=mask + 80).contains(&each), "{each} on {cpus} CPUs");
    }
    let each = cost(4096, 1).1 / 4096;
    assert!((50..=120).contains(&each), "{each}");
}

#[test]
fn what_a_cpu_shares_is_asked_once_for_each_possible_cpu() {
    struct Asked([AtomicU32; 8]);
    impl Sharing for Asked {
        fn shared(&self, cpu: CpuIndex) -> Shared {
            self.0[cpu.index()].fetch_add(1, Relaxed);
            Shared::FLAT
        }
    }
    let asked = Asked(Default::default());
    let machine = Machine {
        cpus: 8,
        possible: &mask([1, 2, 5, 7]),
        present: &mask([0, 1, 2, 3]),
        default: &mask([0]),
        sharing: &asked,
    };
    let request = Request {
        sets: &[2, 3, 2],
        ..Request::new(7)
    };
    Spread::new(&request, &machine).unwrap();
    let asked = asked.0.map(|count| count.into_inner());
    assert_eq!(asked, [0, 1, 1, 0, 0, 1, 0, 1]);
}
