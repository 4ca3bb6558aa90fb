// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU: which SGI, who is rung, by how many register writes.

use std::cell::{Cell, RefCell};

use irq_core::Kick;
use irq_core::cpu::CpuSet;
use irq_gicv3::regs::icc::ICC_SGI1R_EL1;
use irq_gicv3::{Config, EoiMode, Gic, Sgi};
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::SimPlatform;
use irq_sim::gic::{Affinity, GicBuilder, GicModel, Region, Security};
use irq_sim::log::{Event, Fence};
use irq_tests::gicv3::{IPI, Machine, cpu_set, describe, icc, probe, with_ipi};
use proptest::prelude::*;

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

fn machine(affinities: &[Affinity], change: impl FnOnce(GicBuilder) -> GicBuilder) -> Machine {
    let all = affinities.to_vec();
    let cpus = affinities.len() as u32;
    Machine::with(cpus, |builder| change(builder.affinities(all)), with_ipi())
}

/// A machine whose CPUs are not online yet.
fn cold(cpus: u32, change: impl FnOnce(GicBuilder) -> GicBuilder, config: Config<'_>) -> Machine {
    let sim = SimPlatform::new(cpus);
    let model = change(GicModel::builder(&sim)).build();
    let gic = probe(&model, config).unwrap();
    Machine { sim, model, gic }
}

/// Who has the IPI pending.
fn rung(machine: &Machine) -> Vec<u32> {
    let pending = |cpu: &u32| {
        let source = machine.model.private_source(*cpu, IPI.get().into());
        source.pending
    };
    (0..machine.sim.cpus()).filter(pending).collect()
}

#[test]
fn the_sgi_for_ipis_is_unmasked_on_cpus_present_and_future_and_the_others_are_the_kernels() {
    let machine = cold(3, |builder| builder, with_ipi());
    for cpu in [2, 0, 1] {
        machine.online(cpu).unwrap();
        for sgi in 0..16 {
            let source = machine.model.private_source(cpu, sgi);
            assert_eq!(
                source.enabled,
                sgi == IPI.get().into(),
                "cpu{cpu} SGI {sgi}"
            );
            assert_eq!(source.priority, 0xc0);
        }
    }
    machine.offline(1).unwrap();
    machine.online(1).unwrap();
    assert!(machine.model.private_source(1, IPI.get().into()).enabled);
    let irq = machine.gic.ipi_irq().unwrap();
    assert_eq!(machine.gic.intid(irq), Ok(IPI.intid()));
    // What is sent is what is received, under the number that the driver says.
    machine.gic.kick(cpu(1), || true).unwrap();
    let (taken, active) = machine.ack(1).unwrap();
    machine.end(1, active);
    assert_eq!(taken, irq);
}

#[test]
fn without_an_sgi_for_ipis_a_kick_is_refused_before_anything_is_posted() {
    let machine = Machine::new(2);
    assert_eq!(machine.gic.ipi_irq(), None);
    let trace = machine.trace(|| {
        let one = machine.gic.kick(cpu(1), || panic!("posted"));
        let many = machine
            .gic
            .kick_mask(&cpu_set([0, 1]), |_| panic!("posted"));
        for error in [one, many] {
            assert_eq!(error.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
        }
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn an_sgi_that_is_the_secure_sides_is_refused_when_a_cpu_comes_online() {
    let config = Config {
        ipi: Sgi::new(9),
        ..Config::default()
    };
    let two = |builder: GicBuilder| builder.security(Security::Two { fiq: true });
    let machine = cold(1, two, config);
    let refused = Err(Error::Refused {
        register: "GICR_ISENABLER0",
        value: 0,
    });
    assert_eq!(machine.online(0), refused);
    let machine = cold(1, two, with_ipi());
    machine.online(0).unwrap();
}

#[test]
fn a_kick_posts_then_writes_once_between_publish_and_isb() {
    let machine = Machine::with(2, |builder| builder, with_ipi());
    let locks = machine.sim.irq_saves(0);
    let log = machine.sim.log().clone();
    let trace = machine.trace(|| {
        let start = log.mark();
        let post = || {
            assert_eq!(log.since(start).events(), [], "before the post");
            true
        };
        machine.gic.kick(cpu(1), post).unwrap();
    });
    assert_eq!(machine.sim.irq_saves(0), locks, "a lock was taken");
    let barrier = |fence| Event::Barrier { cpu: cpu(0), fence };
    let [publish, send, isb] = trace.events() else {
        panic!("{trace}")
    };
    assert_eq!(*publish, barrier(Fence::Publish));
    assert!(matches!(send, Event::Store(access) if access.offset == ICC_SGI1R_EL1));
    assert_eq!(*isb, barrier(Fence::Synchronize));
    assert_eq!(rung(&machine), [1]);
}

#[test]
fn a_kick_that_is_not_to_be_makes_no_access_and_no_barrier() {
    let machine = Machine::with(20, |builder| builder, with_ipi());
    let trace = machine.trace(|| {
        machine.gic.kick(cpu(1), || false).unwrap();
        machine.gic.kick_mask(&cpu_set(0..20), |_| false).unwrap();
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn a_cpu_that_cannot_be_reached_is_an_error_before_anything_is_posted() {
    let all = [0, 1, 16].map(|aff0| Affinity::new(0, 0, 0, aff0));
    let machine = machine(&all, |builder| builder.rss(true).cpu_rss(0, false));
    machine.offline(1).unwrap();
    let trace = machine.trace(|| {
        let kick = |to| machine.gic.kick(cpu(to), || panic!("posted to cpu{to}"));
        assert_eq!(kick(1), Err(Error::CpuOffline { cpu: cpu(1) }));
        assert_eq!(kick(3), Err(Error::NoSuchCpu { cpu: cpu(3) }));
        let refused = kick(2).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Unsupported));
    });
    assert_eq!(trace.events(), []);
    // In a set, all others are served first.
    let posted = RefCell::new(Vec::new());
    let result = machine.gic.kick_mask(&cpu_set([0, 1, 2, 3]), |cpu| {
        posted.borrow_mut().push(cpu.get());
        true
    });
    assert!(result.is_err());
    assert_eq!(*posted.borrow(), [0]);
    assert_eq!(rung(&machine), [0]);
    // Each of them is an error there, too.
    let kick = |to| machine.gic.kick_mask(&cpu_set([0, to]), |_| true);
    assert_eq!(kick(0), Ok(()));
    assert_eq!(kick(1), Err(Error::CpuOffline { cpu: cpu(1) }));
    assert_eq!(kick(3), Err(Error::NoSuchCpu { cpu: cpu(3) }));
    let refused = kick(2).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::Unsupported));
}

#[test]
fn an_urgent_kick_is_refused() {
    let machine = Machine::with(1, |builder| builder, with_ipi());
    let refused = machine.gic.kick_urgent(cpu(0)).map_err(|e| e.kind());
    assert_eq!(refused, Err(ErrorKind::Unsupported));
}

#[test]
fn a_kick_of_many_posts_to_a_cluster_then_publishes_then_writes() {
    let machine = Machine::with(40, |builder| builder, with_ipi());
    let log = machine.sim.log().clone();
    let start = log.mark();
    // Each post, by what the log held then.
    let posts = RefCell::new(Vec::new());
    machine
        .gic
        .kick_mask(&cpu_set(0..40), |_| {
            posts.borrow_mut().push(log.since(start).events().len());
            true
        })
        .unwrap();
    let trace = log.since(start);
    let events = trace.events();
    let is_store = |event: &Event| matches!(event, Event::Store(_));
    assert_eq!(trace.stores(icc(0)), 3, "{trace}");
    assert_eq!(trace.accesses(), 3);
    for (at, _) in events
        .iter()
        .enumerate()
        .filter(|(_, event)| is_store(event))
    {
        // No post stands between a write and the publish before it.
        assert!(matches!(
            events[at - 1],
            Event::Barrier {
                fence: Fence::Publish,
                ..
            }
        ));
        assert!(!posts.borrow().contains(&at), "{trace}");
    }
    assert_eq!(trace.barriers(Fence::Synchronize), 1);
    assert!(matches!(
        events.last(),
        Some(Event::Barrier {
            fence: Fence::Synchronize,
            ..
        })
    ));
    assert!(rung(&machine).into_iter().eq(0..40));
}

#[test]
fn interleaved_clusters_take_one_write_each_and_coalesced_ones_none() {
    // Neighbours by index are in different clusters, of 8 CPUs.
    let all: Vec<_> = (0..32).map(|n| Affinity::new(0, 0, n % 4, n / 4)).collect();
    let machine = machine(&all, |builder| builder);
    let trace = machine.trace(|| {
        machine.gic.kick_mask(&cpu_set(0..32), |_| true).unwrap();
    });
    assert_eq!((trace.accesses(), trace.stores(icc(0))), (4, 4), "{trace}");
    (0..32).for_each(|cpu| assert!(machine.take(cpu).is_some()));
    // Cluster 1 has nobody to ring, the others two each.
    let two = |cpu: CpuIndex| cpu.get() % 4 != 1 && cpu.get() < 8;
    let trace = machine.trace(|| {
        machine.gic.kick_mask(&cpu_set(0..32), two).unwrap();
    });
    assert_eq!(trace.stores(icc(0)), 3);
    assert_eq!(rung(&machine), [0, 2, 3, 4, 6, 7]);
}

#[test]
fn redistributors_without_a_cpu_and_indices_without_a_redistributor_are_passed_over() {
    let affinity = |n: u32| Affinity::new(0, 0, (n / 4) as u8, (n % 4) as u8);
    let sim = SimPlatform::new(3);
    let model = GicModel::builder(&sim)
        .affinities([5, 2, 11].map(affinity))
        .regions([Region::new().rds((0..16).map(affinity))])
        .build();
    let config = Config {
        cpus: Some(200),
        ..with_ipi()
    };
    let gic = Gic::probe(sim.clone(), describe(&model, &[]), model.sysregs(), config).unwrap();
    let machine = Machine { sim, model, gic };
    (0..3).for_each(|cpu| machine.online(cpu).unwrap());
    let posts = Cell::new(0);
    let trace = machine.trace(|| {
        let kicked = machine.gic.kick_mask(&cpu_set([0, 1, 2, 199, 200]), |_| {
            posts.set(posts.get() + 1);
            true
        });
        assert!(kicked.is_err());
    });
    assert_eq!(posts.get(), 3);
    assert_eq!(trace.accesses(), 3, "three clusters");
    assert_eq!(rung(&machine), [0, 1, 2]);
    assert!(machine.model.strays().is_empty());
}

#[test]
fn a_kick_costs_the_same_when_ends_are_split() {
    let config = Config {
        eoi_mode: EoiMode::Split,
        ..with_ipi()
    };
    let machine = Machine::with(2, |builder| builder, config);
    let trace = machine.trace(|| machine.gic.kick(cpu(1), || true).unwrap());
    assert_eq!(trace.accesses(), 1);
    let trace = machine.trace(|| assert_eq!(machine.take(1), Some(IPI.get().into())));
    assert_eq!((trace.accesses(), trace.mmio()), (3, 0), "{trace}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_set_of_any_machine_is_rung_exactly_by_one_write_per_cluster(
        numbers in proptest::sample::subsequence((0_u32..96).collect::<Vec<_>>(), 1..40)
            .prop_shuffle(),
        offline in any::<u64>(),
        members in any::<u64>(),
        says in any::<u64>(),
        from in any::<proptest::sample::Index>(),
    ) {
        // Aff0 over two ranges, two values of Aff1 and Aff3 each, in any order of indices.
        let affinity = |n: &u32| {
            Affinity::new((n / 48) as u8, 0, (n / 24 % 2) as u8, (n % 24) as u8)
        };
        let all: Vec<_> = numbers.iter().map(affinity).collect();
        let cpus = all.len() as u32;
        let machine = machine(&all, |builder| builder.rss(true));
        let from = from.index(all.len()) as u32;
        let has = |bits: u64, cpu: u32| bits >> cpu & 1 != 0;
        let gone = |cpu: &u32| has(offline, *cpu) && *cpu != from;
        (0..cpus).filter(gone).for_each(|cpu| machine.offline(cpu).unwrap());

        let set = cpu_set((0..cpus).filter(|&cpu| has(members, cpu)));
        let trace = machine.trace(|| {
            let kicked = machine.sim.as_cpu(from, |_| {
                machine.gic.kick_mask(&set, |cpu| has(says, cpu.get()))
            });
            assert_eq!(kicked.is_err(), (0..cpus).any(|cpu| gone(&cpu) && has(members, cpu)));
        });
        let expect: Vec<_> = (0..cpus)
            .filter(|&cpu| set.contains(CpuIndex::new(cpu)) && has(says, cpu) && !gone(&cpu))
            .collect();
        let mut clusters: Vec<_> = expect
            .iter()
            .map(|&cpu| all[cpu as usize].0 & !0xf)
            .collect();
        clusters.sort_unstable();
        clusters.dedup();
        prop_assert_eq!(rung(&machine), expect);
        prop_assert_eq!(trace.stores(icc(from)), clusters.len());
        prop_assert_eq!(trace.accesses(), clusters.len());
        prop_assert!(machine.model.strays().is_empty());
    }
}

#[test]
fn cpus_that_come_and_go_take_no_ring_from_those_that_stay() {
    // CPUs of one cluster come and go, each between the indices and affinities of others,
    // while one sends to all of them.
    let machine = cold(8, |builder| builder, with_ipi());
    (0..8).for_each(|cpu| machine.online(cpu).unwrap());
    let all = cpu_set(0..8);
    let rounds = 200;
    std::thread::scope(|scope| {
        for cpu in [1, 6] {
            let machine = &machine;
            scope.spawn(move || {
                for _ in 0..50 {
                    machine.offline(cpu).unwrap();
                    machine.online(cpu).unwrap();
                }
            });
        }
        machine.sim.as_cpu(0, |_| {
            for _ in 0..rounds {
                let posted = RefCell::new([0_u32; 8]);
                let kicked = machine.gic.kick_mask(&all, |cpu| {
                    posted.borrow_mut()[cpu.index()] += 1;
                    true
                });
                let gone = |error| matches!(error, Error::CpuOffline { cpu } if [1, 6].contains(&cpu.get()));
                assert!(kicked.is_ok() || kicked.is_err_and(gone));
                for (cpu, posts) in posted.into_inner().into_iter().enumerate() {
                    match cpu {
                        1 | 6 => assert!(posts <= 1),
                        _ => assert_eq!(posts, 1, "cpu{cpu}"),
                    }
                }
            }
        });
    });
    // What the others were rung for is there, and nothing else.
    for cpu in 0..8 {
        let taken = machine.take(cpu);
        assert!(
            taken == Some(IPI.get().into()) || [1, 6].contains(&cpu),
            "cpu{cpu}"
        );
        assert_eq!(machine.take(cpu), None);
    }
}
