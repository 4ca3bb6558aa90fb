// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU: which vector, who is rung, by how many register writes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use irq_core::Kick;
use irq_core::cpu::CpuSet;
use irq_hal::{CpuIndex, Error, ErrorKind};
use irq_sim::apic::{ApicBuilder, Mode, Vendor};
use irq_sim::log::{Event, Fence, Trace};
use irq_tests::gicv3::cpu_set;
use irq_tests::x2apic::{IPI, Machine, id, lapic, probe_as, vector, with_ipi};
use irq_x2apic::regs::apic::*;
use irq_x2apic::{Config, Description, Pics};
use proptest::prelude::*;

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

/// A machine with these ids, all online.
fn machine(ids: &[u32]) -> Machine {
    let all = ids.to_vec();
    let change = |builder: ApicBuilder| builder.mode(Mode::X2apic).ids(all);
    Machine::with(ids.len() as u32, change, with_ipi())
}

/// Who has the IPI pending.
fn rung(machine: &Machine) -> Vec<u32> {
    let waits = |cpu: &u32| machine.model.irr(*cpu).contains(&IPI.get());
    (0..machine.sim.cpus()).filter(waits).collect()
}

/// What was written to the ICR of `cpu`.
fn sent(trace: &Trace, cpu: u32) -> Vec<u64> {
    trace.stored(lapic(cpu), IA32_X2APIC_ICR)
}

#[test]
fn the_vector_for_ipis_is_the_embedders_and_what_is_sent_is_what_is_taken() {
    let machine = Machine::new(2);
    let irq = machine.apic.ipi_irq().unwrap();
    assert_eq!(machine.apic.vector(irq), Ok(IPI));
    machine.apic.kick(cpu(1), || true).unwrap();
    let taken = Cell::new(None);
    machine.model.take(1, |on, vector| {
        let (irq, active) = machine.ack(on, vector).unwrap();
        irq_core::Flow::end(&machine.apic, active);
        taken.set(Some(irq));
    });
    assert_eq!(taken.get(), Some(irq));
}

#[test]
fn without_a_vector_for_ipis_a_kick_is_refused_before_anything_is_posted() {
    let machine = Machine::with(2, |builder| builder, Config::default());
    assert_eq!(machine.apic.ipi_irq(), None);
    let trace = machine.trace(|| {
        let one = machine.apic.kick(cpu(1), || panic!("posted"));
        let many = machine
            .apic
            .kick_mask(&cpu_set([0, 1]), |_| panic!("posted"));
        for error in [one, many] {
            assert_eq!(error.map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
        }
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn a_kick_posts_then_fences_then_writes_once_by_the_physical_id() {
    let machine = machine(&[3, 0x123]);
    let log = machine.sim.log().clone();
    let trace = machine.trace(|| {
        let start = log.mark();
        let post = || {
            assert_eq!(log.since(start).events(), [], "before the post");
            true
        };
        machine.apic.kick(cpu(1), post).unwrap();
    });
    let [publish, send] = trace.events() else {
        panic!("{trace}")
    };
    let fence = Fence::Publish;
    assert_eq!(*publish, Event::Barrier { cpu: cpu(0), fence });
    let store = send.access().map(|access| (access.offset, access.value));
    assert_eq!(store, Some((IA32_X2APIC_ICR, 0x123_0000_40fd)));
    assert_eq!(rung(&machine), [1]);
}

#[test]
fn the_fence_before_a_send_is_decided_by_vendor() {
    for (vendor, fences) in [(Vendor::Intel, 1), (Vendor::Amd, 0), (Vendor::Hygon, 0)] {
        let machine = Machine::with(20, |builder| builder.vendor(vendor), with_ipi());
        let publishes = |f: &dyn Fn()| machine.trace(f).barriers(Fence::Publish);
        let one = publishes(&|| machine.apic.kick(cpu(1), || true).unwrap());
        let nmi = publishes(&|| machine.apic.kick_urgent(cpu(1)).unwrap());
        let two = publishes(&|| {
            let all = cpu_set(0..20);
            machine.apic.kick_mask(&all, |_| true).unwrap();
        });
        assert_eq!((one, nmi, two), (fences, fences, 2 * fences), "{vendor:?}");
    }
}

#[test]
fn a_kick_that_is_not_to_be_makes_no_access_and_no_barrier() {
    let machine = Machine::new(20);
    let trace = machine.trace(|| {
        machine.apic.kick(cpu(1), || false).unwrap();
        machine.apic.kick_mask(&cpu_set(0..20), |_| false).unwrap();
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn a_cpu_that_cannot_be_reached_is_an_error_before_anything_is_posted() {
    let machine = Machine::new(2);
    machine.offline(1).unwrap();
    let trace = machine.trace(|| {
        let kick = |to| machine.apic.kick(cpu(to), || panic!("posted to cpu{to}"));
        assert_eq!(kick(1), Err(Error::CpuOffline { cpu: cpu(1) }));
        assert_eq!(kick(2), Err(Error::NoSuchCpu { cpu: cpu(2) }));
        // 5 is beyond the CPUs, and in the same chunk of the table.
        assert_eq!(kick(5), Err(Error::NoSuchCpu { cpu: cpu(5) }));
        assert_eq!(kick(99), Err(Error::NoSuchCpu { cpu: cpu(99) }));
        let urgent = machine.apic.kick_urgent(cpu(1));
        assert_eq!(urgent, Err(Error::CpuOffline { cpu: cpu(1) }));
        let sent = machine.apic.send(vector(0x40), cpu(1));
        assert_eq!(sent, Err(Error::CpuOffline { cpu: cpu(1) }));
    });
    assert_eq!(trace.events(), []);
    // In a set, all others are served first.
    let posted = RefCell::new(Vec::new());
    let result = machine.apic.kick_mask(&cpu_set([0, 1, 2]), |cpu| {
        posted.borrow_mut().push(cpu.get());
        true
    });
    assert!(result.is_err());
    assert_eq!(*posted.borrow(), [0]);
    assert_eq!(rung(&machine), [0]);
}

#[test]
fn an_urgent_kick_is_an_nmi_that_needs_no_end() {
    let machine = Machine::new(3);
    machine.sim.set_masked(2, true);
    let trace = machine.trace(|| machine.apic.kick_urgent(cpu(2)).unwrap());
    assert_eq!(sent(&trace, 0), [0x2_0000_4400]);
    let ended = machine.trace(|| {
        assert!(machine.model.take_nmi(2, |_| {}));
    });
    assert_eq!(ended.accesses(), 0);
    assert_eq!([0, 1, 2].map(|cpu| machine.model.nmis(cpu)), [0, 0, 1]);
}

#[test]
fn a_set_is_rung_by_one_logical_write_per_cluster_whatever_the_order_of_indices() {
    // Neighbours by index are in different clusters, of 8 CPUs.
    let ids: Vec<_> = (0..32).map(|n| n % 4 * 16 + n / 4).collect();
    let machine = machine(&ids);
    let trace = machine.trace(|| {
        machine.apic.kick_mask(&cpu_set(0..32), |_| true).unwrap();
    });
    let all: Vec<u64> = (0..4).map(|n| (n << 16 | 0xff) << 32 | 0x48fd).collect();
    assert_eq!(sent(&trace, 0), all);
    assert_eq!(trace.accesses(), 4);
    (0..32).for_each(|cpu| assert_eq!(machine.take(cpu), Some(IPI.get())));
    // Cluster 1 has nobody to ring, the others two each.
    let two = |cpu: CpuIndex| cpu.get() % 4 != 1 && cpu.get() < 8;
    let trace = machine.trace(|| {
        machine.apic.kick_mask(&cpu_set(0..32), two).unwrap();
    });
    assert_eq!(trace.stores(lapic(0)), 3);
    assert_eq!(rung(&machine), [0, 2, 3, 4, 6, 7]);
}

#[test]
fn a_kick_of_many_posts_to_a_cluster_then_fences_then_writes() {
    let machine = Machine::new(40);
    let log = machine.sim.log().clone();
    let start = log.mark();
    // Each post, by what the log held then.
    let posts = RefCell::new(Vec::new());
    machine
        .apic
        .kick_mask(&cpu_set(0..40), |_| {
            posts.borrow_mut().push(log.since(start).events().len());
            true
        })
        .unwrap();
    let trace = log.since(start);
    let events = trace.events();
    assert_eq!(
        (trace.stores(lapic(0)), trace.accesses()),
        (3, 3),
        "{trace}"
    );
    for (at, event) in events.iter().enumerate() {
        if matches!(event, Event::Store(_)) {
            // No post stands between a write and the publish before it.
            let fence = Fence::Publish;
            let publish = Event::Barrier { cpu: cpu(0), fence };
            assert_eq!(events[at - 1], publish);
            assert!(!posts.borrow().contains(&at), "{trace}");
        }
    }
    assert_eq!(posts.borrow().len(), 40);
    assert!(rung(&machine).into_iter().eq(0..40));
}

#[test]
fn sparse_ids_and_ids_above_255_are_reached() {
    // Of one CPU of three in each package, of a machine of 288, and more.
    let ids = [0, 1, 2, 4, 5, 6, 255, 256, 287, 0x4c92, 0xf_ffff];
    let machine = machine(&ids);
    for to in 0..ids.len() as u32 {
        machine.apic.kick(cpu(to), || true).unwrap();
        assert_eq!(machine.take(to), Some(IPI.get()));
        assert_eq!(rung(&machine), []);
    }
    let trace = machine.trace(|| {
        machine.apic.kick_mask(&cpu_set(0..11), |_| true).unwrap();
    });
    // 0 to 6, 255, 256, 287, and two more.
    assert_eq!(trace.stores(lapic(0)), 6, "{trace}");
    assert!(rung(&machine).into_iter().eq(0..11));
    assert!(machine.model.strays().is_empty());
}

#[test]
fn ids_that_have_no_logical_destination_are_rung_by_their_id_each() {
    let ids = [0x10_0000, 3, 0x10_0001, 0x7fff_fff0, 5, 0xffff_fffe];
    let machine = machine(&ids);
    let trace = machine.trace(|| {
        machine.apic.kick_mask(&cpu_set(0..6), |_| true).unwrap();
    });
    let physical = sent(&trace, 0).into_iter().filter(|icr| icr & 1 << 11 == 0);
    let to: BTreeSet<_> = physical.map(|icr| icr >> 32).collect();
    assert_eq!(to, [0x10_0000, 0x10_0001, 0x7fff_fff0, 0xffff_fffe].into());
    assert_eq!(trace.stores(lapic(0)), 5);
    assert!(rung(&machine).into_iter().eq(0..6));
}

#[test]
fn a_list_of_ids_of_both_kinds_is_sent_to_behind_one_fence() {
    let ids = [0x10_0000, 3, 0x12, 5, 0x10_0001, 0x1f];
    let machine = machine(&ids);
    let mut targets = ids.map(id);
    let trace = machine.trace(|| machine.apic.send_many(vector(0x52), &mut targets));
    // Two clusters and two CPUs.
    assert_eq!((trace.accesses(), sent(&trace, 0).len()), (4, 4), "{trace}");
    assert_eq!(trace.barriers(Fence::Publish), 1);
    assert!((0..6).all(|cpu| machine.model.irr(cpu) == [0x52]));
    let trace = machine.trace(|| machine.apic.send_many(vector(0x52), &mut []));
    assert_eq!(trace.events(), []);
}

#[test]
fn ids_that_nobody_described_are_taken_as_they_come() {
    let sim = irq_sim::SimPlatform::new(4);
    let ids = [0x40, 0x141, 0x30, 0x42];
    let model = irq_sim::apic::ApicModel::builder(&sim)
        .mode(Mode::X2apic)
        .ids(ids)
        .build();
    let config = Config {
        cpus: Some(4),
        ..with_ipi()
    };
    let apic = probe_as(&model, Description::new(Pics::absent()), config).unwrap();
    let machine = Machine { sim, model, apic };
    (0..4).for_each(|cpu| machine.online(cpu).unwrap());
    let trace = machine.trace(|| {
        machine.apic.kick_mask(&cpu_set(0..4), |_| true).unwrap();
    });
    assert_eq!(trace.stores(lapic(0)), 3);
    assert_eq!(rung(&machine), [0, 1, 2, 3]);
}

#[test]
fn a_cluster_that_was_not_foreseen_is_an_error_and_leaves_the_cpu_offline() {
    let sim = irq_sim::SimPlatform::new(2);
    let model = irq_sim::apic::ApicModel::builder(&sim)
        .ids([0, 0x20])
        .build();
    // Two CPUs are described, in one cluster; the second one turns out to be another.
    let ids = [id(0), id(1)];
    let description = Description::new(Pics::absent()).with_cpus(&ids);
    let apic = probe_as(&model, description, with_ipi()).unwrap();
    let machine = Machine { sim, model, apic };
    machine.online(0).unwrap();
    let full = Error::Full {
        what: "clusters of CPUs",
        capacity: 1,
    };
    assert_eq!(machine.online(1), Err(full));
    assert_eq!(machine.model.register(1, IA32_X2APIC_SIVR), 0xff);
    let offline = Err(Error::CpuOffline { cpu: cpu(1) });
    assert_eq!(machine.apic.kick(cpu(1), || true), offline);
}

#[test]
fn no_shorthand_is_ever_used() {
    let machine = Machine::new(20);
    machine.offline(7).unwrap();
    let trace = machine.trace(|| {
        let online = cpu_set((0..20).filter(|cpu| *cpu != 7));
        machine.apic.kick_mask(&online, |_| true).unwrap();
        machine.apic.send_mask(vector(0x55), &online).unwrap();
        let mut ids: Vec<_> = (8..20).map(|n| machine.apic.id(cpu(n)).unwrap()).collect();
        machine.apic.send_many(vector(0x56), &mut ids);
    });
    assert!(sent(&trace, 0).iter().all(|icr| icr & 0b11 << 18 == 0));
    assert_eq!(machine.model.irr(7), []);
    assert!(machine.model.strays().is_empty());
    assert_eq!(machine.model.irr(19), [0x55, 0x56, IPI.get()]);
}

#[test]
fn a_vector_to_oneself_needs_no_fence() {
    let machine = Machine::new(2);
    let trace = machine.trace(|| {
        machine.on(1, |on| machine.apic.send_self(on, vector(0x51)).unwrap());
    });
    let [Event::Store(access)] = trace.events() else {
        panic!("{trace}")
    };
    assert_eq!((access.offset, access.value), (IA32_X2APIC_SELF_IPI, 0x51));
    assert_eq!(machine.take(1), Some(0x51));
    machine.offline(1).unwrap();
    let gone = machine.on(1, |on| machine.apic.send_self(on, vector(0x51)));
    assert_eq!(gone, Err(Error::CpuOffline { cpu: cpu(1) }));
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
        // A run at 0, one above 255, one around 2^20, in any order of indices.
        let apic_id = |n: &u32| match n / 32 {
            0 => *n,
            1 => 0x240 + n % 32 * 5,
            _ => 0xf_fff0 + n % 32,
        };
        let ids: Vec<_> = numbers.iter().map(apic_id).collect();
        let cpus = ids.len() as u32;
        let machine = machine(&ids);
        let from = from.index(ids.len()) as u32;
        let has = |bits: u64, cpu: u32| bits >> cpu & 1 != 0;
        let gone = |cpu: &u32| has(offline, *cpu) && *cpu != from;
        (0..cpus).filter(gone).for_each(|cpu| machine.offline(cpu).unwrap());

        let set = cpu_set((0..cpus).filter(|&cpu| has(members, cpu)));
        let trace = machine.trace(|| {
            let kicked = machine.sim.as_cpu(from, |_| {
                machine.apic.kick_mask(&set, |cpu| has(says, cpu.get()))
            });
            assert_eq!(kicked.is_err(), (0..cpus).any(|cpu| gone(&cpu) && has(members, cpu)));
        });
        let expect: Vec<_> = (0..cpus)
            .filter(|&cpu| set.contains(CpuIndex::new(cpu)) && has(says, cpu) && !gone(&cpu))
            .collect();
        // A CPU without logical destination is a cluster of its own.
        let write = |cpu: &u32| match ids[*cpu as usize] {
            id if id < 1 << 20 => id & !0xf,
            id => id,
        };
        let writes: BTreeSet<_> = expect.iter().map(write).collect();
        prop_assert_eq!(rung(&machine), expect);
        prop_assert_eq!(trace.stores(lapic(from)), writes.len());
        prop_assert_eq!(trace.accesses(), writes.len());
        prop_assert!(machine.model.strays().is_empty());
    }
}

#[test]
fn cpus_that_come_and_go_take_no_ring_from_those_that_stay() {
    // CPUs of one cluster come and go, each between the indices and ids of others, while one
    // sends to all of them.
    let machine = Machine::new(8);
    let all = cpu_set(0..8);
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
            for _ in 0..200 {
                let posted = RefCell::new([0_u32; 8]);
                let kicked = machine.apic.kick_mask(&all, |cpu| {
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
            taken == Some(IPI.get()) || [1, 6].contains(&cpu),
            "cpu{cpu}"
        );
        assert_eq!(machine.take(cpu), None);
    }
}
