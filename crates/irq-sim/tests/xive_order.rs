// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order: what is published before a trigger, what interrupts keep of it, threads that race.

mod xive_kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use irq_hal::{Barrier, Bus};
use irq_sim::xive::{Gen, call};
use xive_kit::*;

/// A machine whose CPUs are open, with an IPI for each at priority 5, notified only.
fn ipis(cpus: u32, generation: Gen) -> (Rig, Vec<u32>) {
    let rig = Rig::new(cpus, generation);
    let ipis = (0..cpus).map(|cpu| {
        let args = [rig.pir(cpu).into(), 5, 0, 0, ON | NOTIFY];
        assert_eq!(rig.call(call::SET_QUEUE_INFO, &args), 0);
        rig.ipi(cpu, 5, 1)
    });
    let ipis = ipis.collect();
    (0..cpus).for_each(|cpu| rig.open(cpu));
    (rig, ipis)
}

const RULE: &str = "payload not published";

#[test]
fn a_trigger_for_another_cpu_follows_a_publish() {
    for generation in GENS {
        let (rig, ipis) = ipis(2, generation);
        let esb = rig.esb(ipis[1]);
        refused(RULE, || esb.trigger());
        rig.tima.synchronize();
        refused(RULE, || esb.trigger());
        rig.tima.publish();
        esb.trigger();
        assert_eq!(rig.serve(1, ipis[1]), 0x8005);
        refused(RULE, || esb.trigger());
        rig.tima.complete();
        esb.trigger();
        assert!(rig.model.signalled(1));
    }
}

#[test]
fn a_trigger_for_oneself_needs_none() {
    for generation in GENS {
        let (rig, ipis) = ipis(2, generation);
        rig.esb(ipis[0]).trigger();
        assert!(rig.model.signalled(0));
        // Of a source that leads elsewhere by now.
        rig.route(ipis[0], 1, 5, 1);
        refused(RULE, || rig.esb(ipis[0]).trigger());
    }
}

#[test]
fn one_publish_covers_a_batch_of_triggers_of_different_sources() {
    for generation in GENS {
        let (rig, ipis) = ipis(4, generation);
        let pages: Vec<_> = ipis.iter().map(|girq| rig.esb(*girq)).collect();
        rig.tima.publish();
        pages[1..].iter().for_each(Esb::trigger);
        refused(RULE, || pages[1].trigger());
        rig.tima.publish();
        pages[1].trigger();
        // Whatever lies between ends the batch.
        Bus::<u32>::load(&rig.tima, 0x30);
        refused(RULE, || pages[2].trigger());
        rig.tima.publish();
        pages[1].trigger();
        assert_eq!(rig.call(call::SYNC, &[1, ipis[0].into()]), 0);
        refused(RULE, || pages[2].trigger());
        rig.tima.publish();
        pages[1].trigger();
        pages[3].load(GET);
        refused(RULE, || pages[2].trigger());
    }
}

#[test]
fn a_publish_is_the_cpus_own() {
    let (rig, ipis) = ipis(3, Gen::One);
    let esb = rig.esb(ipis[2]);
    rig.tima.publish();
    rig.sim.as_cpu(1, |_| refused(RULE, || esb.trigger()));
    esb.trigger();
}

#[test]
fn an_event_that_waited_is_triggered_again_without_a_publish() {
    let (rig, ipis) = ipis(2, Gen::One);
    let esb = rig.esb(ipis[1]);
    esb.fire();
    esb.fire();
    assert_eq!(esb.load(SET_00), 0b11);
    // Another CPU that looks does not take that away.
    rig.sim.as_cpu(1, |_| assert_eq!(esb.load(GET), 0b00));
    esb.trigger();
    assert_eq!(rig.model.lost(ipis[1]), 0);
    assert_eq!(esb.load(SET_00), 0b10);
    refused(RULE, || esb.trigger());
}

#[test]
fn an_interrupt_between_publish_and_trigger_takes_nothing_away() {
    let (rig, ipis) = ipis(2, Gen::One);
    let esb = rig.esb(ipis[1]);
    rig.esb(ipis[0]).trigger();
    rig.tima.publish();
    let taken = rig.model.take(0, |_| {
        assert_eq!(rig.serve(0, ipis[0]), 0x8005);
        // What was published out there is not what is told here.
        refused(RULE, || esb.trigger());
    });
    assert!(taken);
    esb.trigger();
    assert!(rig.model.signalled(1));
}

#[test]
fn a_firmware_call_follows_a_synchronized_acknowledge() {
    let (rig, ipis) = ipis(1, Gen::Two);
    rig.esb(ipis[0]).trigger();
    assert_eq!(Bus::<u16>::load(&rig.tima, ACK).swap_bytes(), 0x8005);
    refused("no isync", || rig.call(call::INT_EOI, &[ipis[0].into()]));
    rig.tima.synchronize();
    assert_eq!(rig.call(call::INT_EOI, &[ipis[0].into()]), 0);
    rig.open(0);
}

#[test]
fn threads_that_are_cpus_ring_each_other_and_nothing_is_lost() {
    const ROUNDS: u64 = 300;
    for generation in GENS {
        let (rig, ipis) = ipis(4, generation);
        let posted: Arc<[AtomicU64]> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let seen: Arc<[AtomicU64]> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let done = AtomicU64::new(0);
        let (rig, ipis) = (&rig, &ipis);
        // CPU 0 has sources mapped before, since it alone has the out-parameters.
        let pages: Vec<_> = ipis.iter().map(|girq| rig.esb(*girq)).collect();
        let (pages, posted, seen, done) = (&pages, &posted, &seen, &done);
        let receive = move |cpu: u32| {
            rig.model.take(cpu, |_| {
                let ack = Bus::<u16>::load(&rig.tima, ACK).swap_bytes();
                rig.tima.synchronize();
                assert_eq!(ack, 0x8005);
                let own = &pages[cpu as usize];
                if own.load(SET_00) == 0b11 {
                    own.trigger();
                }
                // Looked at after the end: what comes later rings again.
                let now = posted[cpu as usize].load(Ordering::SeqCst);
                seen[cpu as usize].store(now, Ordering::SeqCst);
                Bus::<u8>::store(&rig.tima, CPPR, 0xff);
            })
        };
        thread::scope(|scope| {
            for cpu in 0..4_u32 {
                scope.spawn(move || {
                    rig.sim.as_cpu(cpu, |_| {
                        for round in 0..ROUNDS {
                            let to = (u64::from(cpu) + 1 + round % 3) as usize % 4;
                            posted[to].fetch_add(1, Ordering::SeqCst);
                            rig.tima.publish();
                            pages[to].trigger();
                            while receive(cpu) {}
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                        while done.load(Ordering::SeqCst) < 4 {
                            receive(cpu);
                            thread::yield_now();
                        }
                        while receive(cpu) {}
                    });
                });
            }
        });
        for cpu in 0..4 {
            assert!(!rig.model.signalled(cpu as u32));
            assert_eq!(posted[cpu].load(Ordering::SeqCst), ROUNDS);
            assert_eq!(seen[cpu].load(Ordering::SeqCst), ROUNDS, "cpu{cpu}");
            assert_eq!(rig.model.lost(ipis[cpu]), 0);
        }
    }
}
