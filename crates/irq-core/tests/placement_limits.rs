// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bounds of a placement, and calls that are refused.
#![cfg(not(loom))]

mod common;

use common::Cpu;
use irq_core::cpu::{CpuIndex, CpuMask, MAX_CPUS, NodeId};
use irq_core::placement::{Among, Choice, Class, Limits, Placement, Request};
use irq_hal::{Error, NoCpu};

static PLATFORM: Cpu = Cpu::new(0);

const LIMITS: Limits = Limits {
    cpus: 100,
    nodes: 2,
    load: 3,
    threads: 2,
};

fn placement() -> Placement<()> {
    Placement::new(LIMITS, || Ok(())).unwrap()
}

fn cpu(cpu: u32) -> CpuIndex {
    CpuIndex::new(cpu)
}

fn choose(placement: &Placement<()>, among: Among<'_>) -> Result<u32, NoCpu> {
    let request = Request {
        class: Class::Regular,
        among,
        near: None,
        turn: 0,
    };
    placement.choose(&request).map(|choice| choice.cpu.get())
}

#[test]
fn limits_out_of_their_ranges_are_refused() {
    let refused = |limits| Placement::new(limits, || Ok(())).err();
    let invalid = |what, value| Some(Error::Invalid { what, value });
    for cpus in [0, MAX_CPUS + 1, u32::MAX] {
        let limits = Limits { cpus, ..LIMITS };
        assert_eq!(refused(limits), invalid("number of CPUs", cpus.into()));
    }
    for nodes in [0, MAX_CPUS + 1] {
        let limits = Limits { nodes, ..LIMITS };
        assert_eq!(refused(limits), invalid("number of nodes", nodes.into()));
    }
    for load in [0, 65_537, u32::MAX] {
        let limits = Limits { load, ..LIMITS };
        assert_eq!(refused(limits), invalid("highest load", load.into()));
    }
    for threads in [0, 65, u32::MAX] {
        let limits = Limits { threads, ..LIMITS };
        assert_eq!(
            refused(limits),
            invalid("threads of a core", threads.into())
        );
    }
    let ends = Limits {
        cpus: 1,
        nodes: 1,
        load: 65_536,
        threads: 64,
    };
    assert_eq!(refused(ends), None);
}

#[test]
fn an_error_of_the_callers_data_is_handed_on() {
    let mut made = 0;
    let error = Error::Unsupported { feature: "more" };
    let refused = Placement::new(LIMITS, || {
        made += 1;
        if made == 2 { Err(error) } else { Ok(()) }
    });
    assert_eq!(refused.err(), Some(error));
    let placement = placement();
    assert_eq!(
        (placement.banks(), placement.nodes(), placement.cpus()),
        (2, 2, 100)
    );
}

#[test]
fn cpus_and_banks_that_cannot_be_are_refused() {
    let placement = placement();
    for beyond in [100, 127, 128, u32::MAX] {
        let cpu = cpu(beyond);
        let refused = Err(Error::NoSuchCpu { cpu });
        assert_eq!(placement.online(&PLATFORM, cpu, 0, NodeId::FLAT), refused);
        assert_eq!(placement.offline(&PLATFORM, cpu), refused);
        assert_eq!(placement.isolate(&PLATFORM, cpu, true), refused);
        let never = |_: &mut irq_core::placement::Change<'_>, (): &mut ()| unreachable!();
        assert_eq!(placement.update(&PLATFORM, cpu, never), refused);
        assert!(!placement.is_online(cpu) && !placement.is_isolated(cpu));
        assert_eq!(placement.load(Class::Regular, cpu), 0);
        assert_eq!(placement.core_load(Class::Regular, cpu), 0);
        assert!(!placement.has_room(Class::Regular, cpu));
        assert_eq!(placement.node(cpu), None);
    }
    let what = "bank of CPUs";
    let refused = Err(Error::Invalid { what, value: 2 });
    assert_eq!(
        placement.update_bank(&PLATFORM, 2, |_, ()| unreachable!()),
        refused
    );
    // The bits of a last bank that are no CPUs.
    let all = |change: &mut irq_core::placement::BankChange<'_>, (): &mut ()| {
        change.raise(Class::Regular, u64::MAX);
        change.room(Class::Managed, u64::MAX, true);
    };
    placement.update_bank(&PLATFORM, 1, all).unwrap();
    assert_eq!(placement.load(Class::Regular, cpu(99)), 1);
    assert_eq!(placement.load(Class::Regular, cpu(100)), 0);
}

#[test]
fn a_cpu_is_bound_to_its_core_and_node_by_its_first_online_call() {
    let placement = placement();
    let node = NodeId::new(1);
    assert_eq!(placement.node(cpu(5)), None);
    let beyond = placement.online(&PLATFORM, cpu(5), 3, NodeId::new(2));
    assert_eq!(
        beyond,
        Err(Error::Invalid {
            what: "node",
            value: 2
        })
    );
    placement.online(&PLATFORM, cpu(5), 3, node).unwrap();
    assert_eq!(placement.node(cpu(5)), Some(node));
    let again = placement.online(&PLATFORM, cpu(5), 3, node);
    assert_eq!(again, Err(Error::CpuIsOnline { cpu: cpu(5) }));
    placement.offline(&PLATFORM, cpu(5)).unwrap();
    let again = placement.offline(&PLATFORM, cpu(5));
    assert_eq!(again, Err(Error::CpuOffline { cpu: cpu(5) }));
    let what = "another place of the CPU";
    for (core, node) in [(4, node), (3, NodeId::FLAT)] {
        let other = placement.online(&PLATFORM, cpu(5), core, node);
        assert_eq!(other, Err(Error::Exists { what }));
        assert!(!placement.is_online(cpu(5)));
    }
    placement.online(&PLATFORM, cpu(5), 3, node).unwrap();
}

#[test]
fn why_there_is_no_cpu_is_told() {
    let placement = placement();
    let mut mask = CpuMask::try_new(200).unwrap();
    let all = [Among::Machine, Among::Node(NodeId::FLAT)];
    assert_eq!(
        choose(&placement, Among::Mask(&mask)),
        Err(NoCpu::EmptyMask)
    );
    // Beyond the possible CPUs is nothing.
    mask.insert(cpu(100)).unwrap();
    mask.insert(cpu(199)).unwrap();
    assert_eq!(
        choose(&placement, Among::Mask(&mask)),
        Err(NoCpu::EmptyMask)
    );
    assert_eq!(choose(&placement, Among::Machine), Err(NoCpu::Offline));
    // Nothing is known of a node before a CPU of it was online.
    assert_eq!(choose(&placement, all[1]), Err(NoCpu::EmptyMask));
    assert_eq!(
        choose(&placement, Among::Node(NodeId::new(9))),
        Err(NoCpu::EmptyMask)
    );
    mask.insert(cpu(70)).unwrap();
    placement
        .online(&PLATFORM, cpu(3), 3, NodeId::FLAT)
        .unwrap();
    assert_eq!(choose(&placement, Among::Mask(&mask)), Err(NoCpu::Offline));
    assert_eq!(choose(&placement, Among::Machine), Ok(3));
    placement
        .update(&PLATFORM, cpu(3), |change, ()| {
            change.place(Class::Regular, 3)
        })
        .unwrap();
    for among in all {
        assert_eq!(choose(&placement, among), Err(NoCpu::Full));
    }
    placement.offline(&PLATFORM, cpu(3)).unwrap();
    for among in all {
        assert_eq!(choose(&placement, among), Err(NoCpu::Offline));
    }
}

#[test]
fn loads_end_at_their_limits() {
    let placement = placement();
    placement
        .online(&PLATFORM, cpu(0), 0, NodeId::FLAT)
        .unwrap();
    let change = |count| {
        let change = |change: &mut irq_core::placement::Change<'_>, (): &mut ()| {
            change.place(Class::Regular, count);
        };
        placement.update(&PLATFORM, cpu(0), change).unwrap();
        placement.load(Class::Regular, cpu(0))
    };
    assert_eq!(change(i32::MAX), 3);
    assert_eq!(change(i32::MIN), 0);
    // Likewise a bank's.
    let raise = |change: &mut irq_core::placement::BankChange<'_>, (): &mut ()| {
        change.raise(Class::Regular, 0b11);
    };
    let lower = |change: &mut irq_core::placement::BankChange<'_>, (): &mut ()| {
        change.lower(Class::Regular, 0b11);
    };
    for load in [1, 2, 3, 3] {
        placement.update_bank(&PLATFORM, 0, raise).unwrap();
        assert_eq!(placement.load(Class::Regular, cpu(1)), load);
    }
    for load in [2, 1, 0, 0] {
        placement.update_bank(&PLATFORM, 0, lower).unwrap();
        assert_eq!(placement.load(Class::Regular, cpu(1)), load);
    }
}

#[test]
fn own_load_goes_before_the_cores_and_a_core_before_its_siblings() {
    let placement = placement();
    for thread in 0..4 {
        placement
            .online(&PLATFORM, cpu(thread), thread / 2, NodeId::FLAT)
            .unwrap();
    }
    let mut mask = CpuMask::try_new(4).unwrap();
    for thread in [0, 2, 3] {
        mask.insert(cpu(thread)).unwrap();
    }
    // The core of CPU 0 has one thread in the mask, the other has two: equal loads all the same.
    let chosen: Vec<u32> = (0..6)
        .map(|_| {
            let chosen = choose(&placement, Among::Mask(&mask)).unwrap();
            placement
                .update(&PLATFORM, cpu(chosen), |change, ()| {
                    change.place(Class::Regular, 1)
                })
                .unwrap();
            chosen
        })
        .collect();
    assert_eq!(chosen, [0, 2, 3, 0, 2, 3]);
}

#[test]
fn an_isolated_cpu_serves_only_where_no_other_can() {
    let placement = placement();
    for thread in 0..3 {
        let node = NodeId::new(thread % 2);
        placement
            .online(&PLATFORM, cpu(thread), thread, node)
            .unwrap();
        placement
            .isolate(&PLATFORM, cpu(thread), thread != 1)
            .unwrap();
    }
    let place = |near| {
        let request = Request {
            class: Class::Regular,
            among: Among::Machine,
            near: Some(NodeId::new(near)),
            turn: 0,
        };
        let choice = placement.choose(&request).unwrap();
        placement
            .update(&PLATFORM, choice.cpu, |change, ()| {
                change.place(Class::Regular, 1)
            })
            .unwrap();
        (choice.cpu.get(), choice.isolated)
    };
    // Not even the device's node makes an isolated CPU better.
    let chosen: Vec<_> = (0..6).map(|_| place(0)).collect();
    let (house, isolated) = ((1, false), |cpu| (cpu, true));
    assert_eq!(chosen[..3], [house; 3]);
    assert_eq!(chosen[3..], [isolated(0), isolated(2), isolated(0)]);
    let _: Choice = placement
        .choose(&Request {
            class: Class::Regular,
            among: Among::Node(NodeId::FLAT),
            near: None,
            turn: 0,
        })
        .unwrap();
}
