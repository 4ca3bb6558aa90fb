// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cannot be is a typed error, and changes nothing: [`Rig::step`] compares.
#![cfg(not(loom))]

mod matrix_common;

use irq_core::Irq;
use irq_core::cpu::{CpuIndex, MAX_CPUS, NodeId};
use irq_core::matrix::{Entry, Matrix, Setup, Wanted};
use irq_core::placement::Among;
use irq_hal::{Error, ErrorKind, NoCpu};
use matrix_common::{ALL, PLATFORM, Rig, cpu, irq, mask, place, slot, wanted};

fn refused(setup: &Setup<'_>) -> (&'static str, u64) {
    match Matrix::new(setup) {
        Err(Error::Invalid { what, value }) => (what, value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_cpus_or_absurdly_many_make_no_matrix() {
    for cpus in [0, MAX_CPUS + 1, u32::MAX] {
        let found = refused(&Setup::new(cpus));
        assert_eq!(found, ("number of CPUs", u64::from(cpus)));
    }
    for nodes in [0, MAX_CPUS + 1] {
        let setup = Setup {
            nodes,
            ..Setup::new(1)
        };
        assert_eq!(refused(&setup).0, "number of nodes");
    }
    for threads in [0, 65] {
        let setup = Setup {
            threads,
            ..Setup::new(1)
        };
        assert_eq!(refused(&setup).0, "threads of a core");
    }
}

#[test]
fn an_area_has_vectors_and_no_exceptions() {
    let area = |first, end| {
        refused(&Setup {
            first,
            end,
            system: &[],
            ..Setup::new(1)
        })
    };
    assert_eq!(area(0x1f, 0xec), ("first vector", 0x1f));
    assert_eq!(area(0, 0xec), ("first vector", 0));
    for end in [0, 0x20, 0x3f, 0x40, 0x101, u16::MAX] {
        assert_eq!(area(0x40, end), ("end of the vectors", u64::from(end)));
    }
    // Nothing but system vectors.
    let setup = Setup {
        first: 0x80,
        end: 0x81,
        ..Setup::new(1)
    };
    assert_eq!(refused(&setup), ("number of vectors", 0));
}

#[test]
fn the_shutdown_vector_is_never_handed_out() {
    let shutdown = |shutdown, system: &[u8]| {
        Matrix::new(&Setup {
            shutdown,
            system,
            ..Setup::new(1)
        })
        .map(|matrix| matrix.shutdown_vector())
    };
    for inside in [0x20, 0x80, 0xeb] {
        assert_eq!(
            shutdown(inside, &[]),
            Err(Error::Invalid {
                what: "shutdown vector",
                value: u64::from(inside)
            })
        );
        assert_eq!(shutdown(inside, &[inside]), Ok(inside));
    }
    assert!(shutdown(0x1f, &[]).is_err());
    assert_eq!(shutdown(0xec, &[]), Ok(0xec));
}

#[test]
fn an_exception_is_no_system_vector() {
    for system in [&[0_u8][..], &[0x80, 2], &[0x1f]] {
        let setup = Setup {
            system,
            ..Setup::new(1)
        };
        assert_eq!(refused(&setup).0, "system vector");
    }
    let rig = Rig::offline_with(&Setup::new(1));
    for vector in [0, 2, 0x1f] {
        let error = Err(Error::Invalid {
            what: "system vector",
            value: u64::from(vector),
        });
        assert_eq!(rig.assign_system(vector, false), error);
        assert_eq!(rig.assign_system(vector, true), error);
    }
    // Twice is once too often; and there is nothing to replace on no CPU, or outside.
    let exists = Err(Error::Exists {
        what: "the system vector",
    });
    assert_eq!(rig.assign_system(0x80, false), exists);
    rig.assign_system(0x20, false).unwrap();
    assert_eq!(rig.assign_system(0x20, false), exists);
    rig.assign_system(0xff, false).unwrap();
    assert_eq!(rig.assign_system(0xff, false), exists);
    assert_eq!(rig.assign_system(0x40, true), Err(NoCpu::Offline.into()));
    rig.online(0).unwrap();
    assert_eq!(rig.assign_system(0x20, true), exists);
    assert!(rig.assign_system(0xec, true).is_err());
    assert_eq!(rig.account(0), [ALL - 1, 0, 0, 0]);
}

#[test]
fn a_mask_with_cpus_that_do_not_exist_reserves_nothing() {
    let rig = Rig::new(70);
    for beyond in [70, 71, 127, 128, 4096] {
        let error = Err(Error::NoSuchCpu { cpu: cpu(beyond) });
        assert_eq!(rig.reserve_managed(&[0, 69, beyond]), error);
        assert_eq!(rig.remove_managed(&[0, 69, beyond]), error);
        // What needs one CPU takes one that there is.
        let none = Err(NoCpu::EmptyMask.into());
        assert_eq!(rig.alloc(1, &[beyond]), none);
        assert_eq!(rig.alloc_managed(1, &[beyond]), none);
        assert_eq!(rig.alloc_block(1, &[beyond], 2), none);
    }
    assert_eq!(rig.alloc(1, &[69, 70, 4096]).unwrap().cpu, cpu(69));
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error_everywhere() {
    let rig = Rig::new(3);
    for index in [3, 64, u32::MAX] {
        let cpu = CpuIndex::new(index);
        let none = Error::NoSuchCpu { cpu };
        let at = slot(index, 0x20);
        rig.step(|matrix| {
            assert_eq!(matrix.online(&PLATFORM, cpu, place(0)), Err(none));
            assert_eq!(matrix.offline(&PLATFORM, cpu), Err(none));
            assert_eq!(matrix.isolate(&PLATFORM, cpu, true), Err(none));
            assert_eq!(matrix.assign(&PLATFORM, cpu, 0x20, irq(1)), Err(none));
            assert_eq!(matrix.counts(&PLATFORM, cpu), Err(none));
            assert_eq!(matrix.to_move(&PLATFORM, cpu), Err(none));
            assert_eq!(matrix.settle(&PLATFORM, cpu, 0x20), Err(none));
            assert_eq!(matrix.retriggered(&PLATFORM, at, irq(1)), Err(none));
            assert_eq!(matrix.entry(cpu, 0x20), Entry::Unused);
            assert_eq!(matrix.headroom(cpu), 0);
            assert_eq!(matrix.available_without(cpu), 3 * ALL);
            assert!(!matrix.is_online(cpu) && !matrix.has_spare(cpu));
            matrix.free(&PLATFORM, at, irq(1))
        })
        .unwrap_err();
    }
}

#[test]
fn a_cpu_is_online_once_and_in_one_place() {
    let rig = Rig::new(2);
    assert_eq!(rig.online(1), Err(Error::CpuIsOnline { cpu: cpu(1) }));
    rig.offline(1);
    let again = rig.step(|matrix| matrix.offline(&PLATFORM, cpu(1)));
    assert_eq!(again, Err(Error::CpuOffline { cpu: cpu(1) }));
    let elsewhere = rig.step(|matrix| matrix.online(&PLATFORM, cpu(1), place(9)));
    assert!(elsewhere.is_err());
    rig.online(1).unwrap();
}

#[test]
fn a_node_that_does_not_exist_has_no_cpu() {
    let rig = Rig::new(2);
    let wanted = |number, near| Wanted {
        irq: irq(1),
        among: Among::Node(NodeId::new(number)),
        near,
    };
    for number in [1, u32::MAX] {
        let wanted = wanted(number, None);
        let found = rig.step(|matrix| matrix.alloc(&PLATFORM, &wanted, false));
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Invalid);
    }
    // A device may say so of its node.
    let wanted = wanted(0, Some(NodeId::new(77)));
    rig.step(|matrix| matrix.alloc(&PLATFORM, &wanted, false))
        .unwrap();
}

#[test]
fn a_vector_outside_of_the_area_is_an_error() {
    let rig = Rig::new(2);
    for vector in [0, 0x1f, 0xec, 0xef, 0xff] {
        let error = |what| Error::Invalid {
            what,
            value: u64::from(vector),
        };
        assert_eq!(rig.assign(0, vector, 1), Err(error("vector")));
        assert_eq!(rig.free(slot(0, vector), 1), Err(error("vector")));
        let settled = rig.step(|matrix| matrix.settle(&PLATFORM, cpu(0), vector));
        assert_eq!(settled, Err(error("vector")));
        let marked = rig.step(|matrix| matrix.retriggered(&PLATFORM, slot(0, vector), irq(1)));
        assert_eq!(marked, Err(error("vector")));
        assert_eq!(rig.matrix.entry(cpu(0), vector), Entry::Unused);
    }
}

#[test]
fn a_vector_that_is_taken_is_not_assigned() {
    let rig = Rig::new(2);
    let busy = Err(Error::Busy { what: "the vector" });
    assert_eq!(rig.assign(0, 0x80, 1), busy);
    rig.reserve_managed(&[0]).unwrap();
    assert_eq!(rig.assign(0, 0x20, 1), busy);
    rig.alloc_managed(2, &[0]).unwrap();
    assert_eq!(rig.assign(0, 0x20, 1), busy);
    rig.assign(0, 0x30, 1).unwrap();
    assert_eq!(rig.assign(0, 0x30, 1), busy);
    assert_eq!(rig.assign(0, 0x30, 9), busy);
    rig.assign(1, 0x30, 9).unwrap();
    assert_eq!(rig.matrix.entry(cpu(0), 0x30), Entry::Irq(irq(1)));
}

#[test]
fn another_interrupts_vector_is_not_freed() {
    let rig = Rig::new(2);
    rig.reserve_managed(&[0]).unwrap();
    let slots = [
        (rig.alloc(1, &[0]).unwrap(), 1),
        (rig.alloc_managed(3, &[0]).unwrap(), 3),
    ];
    for (slot, owner) in slots {
        for other in [0, 2, owner + 1, u32::MAX] {
            assert_eq!(
                rig.free(slot, other),
                Err(Error::Invalid {
                    what: "owner of the vector",
                    value: u64::from(other)
                })
            );
        }
        // The same vector of another CPU.
        let elsewhere = matrix_common::slot(1, slot.vector);
        assert!(rig.free(elsewhere, owner).is_err());
        rig.free(slot, owner).unwrap();
    }
}

#[test]
fn nothing_is_freed_on_a_cpu_that_has_never_been_online() {
    let rig = Rig::offline_with(&Setup::new(2));
    rig.reserve_managed(&[0, 1]).unwrap();
    assert_eq!(
        rig.free(slot(1, 0x20), 1),
        Err(Error::CpuOffline { cpu: cpu(1) })
    );
    assert_eq!(
        rig.assign(1, 0x21, 1),
        Err(Error::CpuOffline { cpu: cpu(1) })
    );
    assert_eq!(rig.alloc(1, &[0, 1]), Err(NoCpu::Offline.into()));
}

#[test]
fn the_last_numbers_are_no_irqs_with_vectors() {
    let rig = Rig::new(1);
    rig.reserve_managed(&[0]).unwrap();
    let last = (1 << 31) - 2;
    let slot = rig.alloc(last, &[0]).unwrap();
    assert_eq!(
        rig.matrix.entry(slot.cpu, slot.vector),
        Entry::Irq(Irq::new(last))
    );
    for number in [last + 1, 1 << 31, u32::MAX] {
        let error = Err(Error::Invalid {
            what: "irq",
            value: u64::from(number),
        });
        assert_eq!(rig.alloc(number, &[0]), error);
        assert_eq!(rig.alloc_managed(number, &[0]), error);
        assert_eq!(rig.assign(0, 0x40, number), error);
        assert_eq!(rig.alloc_block(number, &[0], 2), error);
    }
    assert!(rig.alloc_block(last, &[0], 2).is_err());
    let reserved = rig.activate(u32::MAX, &[0]);
    assert!(reserved.is_err());
    assert_eq!(rig.matrix.reserved(), 0);
}

#[test]
fn a_block_has_a_power_of_two_of_vectors_up_to_32() {
    let rig = Rig::new(1);
    for count in [0, 3, 5, 33, 64, 1 << 31, u32::MAX] {
        let error = Error::Invalid {
            what: "number of consecutive vectors",
            value: u64::from(count),
        };
        assert_eq!(rig.alloc_block(0, &[0], count), Err(error));
    }
    let first = rig.alloc_block(0, &[0], 4).unwrap();
    for count in [0, 5, u32::MAX] {
        let freed = rig.step(|matrix| matrix.free_block(&PLATFORM, first, irq(0), count));
        assert!(freed.is_err(), "{count}");
    }
    let freed = rig.step(|matrix| matrix.free_block(&PLATFORM, first, irq(u32::MAX), 2));
    assert!(freed.is_err());
    // To the end of the area, and beyond.
    let end = slot(0, 0xeb);
    rig.assign(0, 0xeb, 50).unwrap();
    let freed = rig.step(|matrix| matrix.free_block(&PLATFORM, end, irq(50), 2));
    assert_eq!(
        freed,
        Err(Error::Invalid {
            what: "vector",
            value: 0xec
        })
    );
}

#[test]
fn requests_of_a_full_machine_change_nothing() {
    let rig = Rig::with(&Setup {
        first: 0x40,
        end: 0x43,
        system: &[],
        ..Setup::new(2)
    });
    rig.reserve_managed(&[0, 1]).unwrap();
    for number in 0..4 {
        rig.alloc(number, &[0, 1]).unwrap();
    }
    let full = NoCpu::Full.into();
    assert_eq!(rig.alloc(9, &[0, 1]), Err(full));
    assert_eq!(rig.alloc_block(9, &[0, 1], 1), Err(full));
    assert!(matches!(
        rig.reserve_managed(&[1]),
        Err(Error::Full { capacity: 3, .. })
    ));
    let both = mask(&[0, 1]);
    let machine = Wanted {
        among: Among::Machine,
        ..wanted(9, &both)
    };
    let found = rig.step(|matrix| matrix.alloc(&PLATFORM, &machine, false));
    assert_eq!(found, Err(full));
    for number in [20, 21] {
        rig.alloc_managed(number, &[0, 1]).unwrap();
    }
    assert_eq!(rig.alloc_managed(22, &[0, 1]), Err(full));
}
