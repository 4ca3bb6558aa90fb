// SPDX-License-Identifier: MIT OR Apache-2.0
//! Software-generated interrupts: who gets one, and what the write must look like.

mod kit;

use irq_hal::{Barrier, Bus};
use irq_sim::gic::sysreg::*;
use irq_sim::gic::{Affinity, GicModel, Stray};
use kit::*;

fn enable_sgis(model: &GicModel) {
    for cpu in 0..model.sim().cpus() as usize {
        w32(
            &model.gicr(0),
            cpu * 0x2_0000 + SGI_BASE + ISENABLER,
            0xffff,
        );
    }
}

fn who(model: &GicModel, intid: u32) -> Vec<u32> {
    (0..model.sim().cpus())
        .filter(|cpu| model.private_source(*cpu, intid).pending)
        .collect()
}

fn sgi(intid: u64, aff3: u64, aff2: u64, aff1: u64, rs: u64, list: u64) -> u64 {
    list | aff1 << 16 | intid << 24 | aff2 << 32 | rs << 44 | aff3 << 48
}

#[test]
fn a_target_list_names_cpus_of_one_cluster() {
    let (sim, model) = running(20);
    enable_sgis(&model);
    send(&model.icc(0), sgi(3, 0, 0, 0, 0, 0b1000_0000_0000_0110));
    assert_eq!(who(&model, 3), [1, 2, 15]);
    send(&model.icc(0), sgi(4, 0, 0, 1, 0, 0b1001));
    assert_eq!(who(&model, 4), [16, 19]);
    assert_eq!(model.strays(), []);
    sim.as_cpu(19, |_| {
        assert!(model.signalled(19));
        assert_eq!(ack(&model.icc(19)), 4);
        eoi(&model.icc(19), 4);
    });
    assert_eq!(who(&model, 4), [16]);
}

#[test]
fn an_sgi_leaves_the_cpu_at_the_isb() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    icc.publish();
    icc.store(ICC_SGI1R_EL1, sgi(0, 0, 0, 0, 0, 1));
    assert_eq!(who(&model, 0), []);
    icc.synchronize();
    assert_eq!(who(&model, 0), [0]);
}

#[test]
fn irm_reaches_all_but_the_sender() {
    let (sim, model) = running(4);
    sim.as_cpu(2, |_| send(&model.icc(2), 5 << 24 | 1 << 40));
    assert_eq!(who(&model, 5), [0, 1, 3]);
}

#[test]
fn all_four_affinity_levels_count() {
    let cpus = [
        Affinity::new(0, 0, 0, 0),
        Affinity::new(9, 8, 7, 6),
        Affinity::new(9, 8, 7, 22),
    ];
    let (_, model) = machine(3, |gic| gic.affinities(cpus).rss(true));
    up(&model);
    send(&model.icc(0), sgi(1, 9, 8, 7, 0, 1 << 6));
    assert_eq!(who(&model, 1), [1]);
    send(&model.icc(0), sgi(2, 9, 8, 7, 1, 1 << 6));
    assert_eq!(who(&model, 2), [2]);
}

#[test]
fn an_sgi_to_nobody_is_a_stray() {
    let (_, model) = running(2);
    send(&model.icc(0), sgi(1, 0, 0, 0, 0, 1 << 5));
    let affinity = Affinity::new(0, 0, 0, 5);
    assert_eq!(model.strays(), [Stray::NoCpu { intid: 1, affinity }]);
}

#[test]
fn an_sgi_in_another_group_at_the_target_is_a_stray() {
    let (_, model) = running(2);
    w32(&model.gicr(0), 0x2_0000 + SGI_BASE + IGROUPR, !(1 << 6));
    send(&model.icc(0), sgi(6, 0, 0, 0, 0, 2));
    let affinity = Affinity::new(0, 0, 0, 1);
    assert_eq!(model.strays(), [Stray::WrongGroup { intid: 6, affinity }]);
    assert_eq!(who(&model, 6), []);
}

#[test]
fn the_payload_must_be_published_before_each_batch_of_sgis() {
    let (_, model) = running(1);
    let icc = model.icc(0);
    let sgi = || icc.store(ICC_SGI1R_EL1, 1);
    refused("payload not published", sgi);
    icc.publish();
    sgi();
    sgi();
    icc.synchronize();
    refused("payload not published", sgi);
    icc.complete();
    icc.synchronize();
    sgi();
}

#[test]
fn the_range_selector_needs_distributor_sender_and_target() {
    let cpus = || [Affinity(0), Affinity(16)];
    let write = sgi(0, 0, 0, 0, 1, 1);
    let all = machine(2, |gic| gic.affinities(cpus()).rss(true)).1;
    up(&all);
    send(&all.icc(0), write);
    assert_eq!(who(&all, 0), [1]);
    let none = machine(2, |gic| gic.affinities(cpus())).1;
    up(&none);
    refused("range selector", || send(&none.icc(0), write));
    let no_gicd = machine(2, |gic| gic.affinities(cpus()).rss(true).gicd_rss(false)).1;
    up(&no_gicd);
    refused("range selector", || send(&no_gicd.icc(0), write));
    let no_sender = machine(2, |gic| gic.affinities(cpus()).rss(true).cpu_rss(0, false)).1;
    up(&no_sender);
    assert_eq!(no_sender.icc(0).load(ICC_CTLR_EL1) >> 18 & 1, 0);
    refused("range selector", || send(&no_sender.icc(0), write));
    let no_target = machine(2, |gic| gic.affinities(cpus()).rss(true).cpu_rss(1, false)).1;
    up(&no_target);
    refused("cpu1 does not support the range selector", || {
        send(&no_target.icc(0), write)
    });
}

#[test]
fn an_unmasked_number_or_an_aff3_without_a3v_is_refused() {
    let (_, model) = machine(1, |gic| gic.a3v(false));
    up(&model);
    refused("reserved bits", || send(&model.icc(0), 0x1f << 24));
    refused("A3V is 0", || send(&model.icc(0), sgi(0, 1, 0, 0, 0, 1)));
}

#[test]
fn an_sgi_is_an_edge_of_the_target_and_can_be_sent_to_oneself() {
    let (_, model) = running(1);
    enable_sgis(&model);
    let icc = model.icc(0);
    for intid in 0..16 {
        send(&icc, sgi(intid, 0, 0, 0, 0, 1));
        send(&icc, sgi(intid, 0, 0, 0, 0, 1));
        assert_eq!(ack(&icc), intid);
        send(&icc, sgi(intid, 0, 0, 0, 0, 1));
        eoi(&icc, intid);
        assert_eq!(ack(&icc), intid, "sent again while it was handled");
        eoi(&icc, intid);
        assert_eq!(ack(&icc), 1023, "two before the acknowledge are one");
    }
}
