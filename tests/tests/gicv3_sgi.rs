// SPDX-License-Identifier: MIT OR Apache-2.0
//! SGIs between CPUs of many affinities.

use irq_core::Lines;
use irq_gicv3::regs::icc::ICC_SGI1R_EL1;
use irq_gicv3::{Config, IntId, Sgi, SgiTarget};
use irq_hal::{CpuIndex, ErrorKind};
use irq_sim::gic::{Affinity, GicBuilder};
use irq_tests::gicv3::{Machine, icc};

fn machine(affinities: &[Affinity], change: impl FnOnce(GicBuilder) -> GicBuilder) -> Machine {
    let all = affinities.to_vec();
    let machine = Machine::with(
        affinities.len() as u32,
        |builder| change(builder.affinities(all)),
        Config::default(),
    );
    for sgi in 0..16 {
        machine
            .gic
            .unmask_private(IntId::sgi(sgi).unwrap())
            .unwrap();
    }
    machine
}

fn sgi(n: u8) -> Sgi {
    Sgi::new(n).unwrap()
}

#[test]
fn an_sgi_reaches_the_cpu_it_names_and_no_other() {
    let all = [
        Affinity::new(0, 0, 0, 0),
        Affinity::new(0, 0, 0, 3),
        Affinity::new(0, 0, 1, 0),
        Affinity::new(0, 7, 0, 0),
        Affinity::new(5, 0, 0, 0),
        Affinity::new(5, 7, 1, 15),
    ];
    let machine = machine(&all, |builder| builder);
    for from in 0..6 {
        for to in 0..6 {
            for n in [0, 9, 15] {
                machine
                    .sim
                    .as_cpu(from, |_| machine.gic.send_sgi(sgi(n), CpuIndex::new(to)))
                    .unwrap();
                let got: Vec<_> = (0..6).filter(|&cpu| machine.model.signalled(cpu)).collect();
                assert_eq!(got, [to], "SGI {n} from {from}");
                assert_eq!(machine.take(to), Some(n.into()));
            }
        }
    }
    assert!(machine.model.strays().is_empty());
}

#[test]
fn an_sgi_to_all_others_spares_the_sender() {
    let all: Vec<_> = (0..20)
        .map(|cpu| Affinity::new(0, 0, cpu / 4, cpu % 4))
        .collect();
    let machine = machine(&all, |builder| builder);
    machine
        .sim
        .as_cpu(7, |_| machine.gic.send_sgi_others(sgi(1)));
    let got: Vec<_> = (0..20)
        .filter(|&cpu| machine.model.signalled(cpu))
        .collect();
    let expect: Vec<_> = (0..20).filter(|&cpu| cpu != 7).collect();
    assert_eq!(got, expect);
}

#[test]
fn cpus_with_aff0_above_15_are_reached_by_the_range_selector() {
    let all: Vec<_> = [0, 15, 16, 40, 255]
        .map(|aff0| Affinity::new(0, 1, 2, aff0))
        .into();
    let machine = machine(&all, |builder| builder.rss(true));
    for to in 0..5 {
        machine.gic.send_sgi(sgi(2), CpuIndex::new(to)).unwrap();
        let got: Vec<_> = (0..5).filter(|&cpu| machine.model.signalled(cpu)).collect();
        assert_eq!(got, [to]);
        assert_eq!(machine.take(to), Some(2));
    }
    // Ranges are clusters of their own.
    let mut targets: Vec<SgiTarget> = (0..5)
        .map(|cpu| machine.gic.sgi_target(CpuIndex::new(cpu)).unwrap())
        .collect();
    let trace = machine.trace(|| machine.gic.send_sgi_many(sgi(3), &mut targets).unwrap());
    assert_eq!(trace.stores(icc(0)), 4);
    assert!((0..5).all(|cpu| machine.take(cpu) == Some(3)));
}

#[test]
fn the_range_selector_is_refused_unless_distributor_and_interfaces_have_it() {
    let all: Vec<_> = [0, 1, 16].map(|aff0| Affinity::new(0, 0, 0, aff0)).into();
    type Change = fn(GicBuilder) -> GicBuilder;
    let lacking: [Change; 4] = [
        |builder| builder,
        |builder| builder.rss(true).gicd_rss(false),
        |builder| builder.rss(true).cpu_rss(0, false),
        |builder| builder.rss(true).cpu_rss(2, false),
    ];
    for change in lacking {
        let machine = machine(&all, change);
        let trace = machine.trace(|| {
            let error = machine.gic.send_sgi(sgi(1), CpuIndex::new(2));
            assert_eq!(
                error.map_err(|error| error.kind()),
                Err(ErrorKind::Unsupported)
            );
            let mut targets: Vec<_> = (0..3)
                .map(|cpu| machine.gic.sgi_target(CpuIndex::new(cpu)).unwrap())
                .collect();
            let error = machine.gic.send_sgi_many(sgi(1), &mut targets);
            assert_eq!(
                error.map_err(|error| error.kind()),
                Err(ErrorKind::Unsupported)
            );
        });
        assert_eq!(trace.accesses(), 0, "nothing is sent");
        machine.gic.send_sgi(sgi(1), CpuIndex::new(1)).unwrap();
    }
}

#[test]
fn a_payload_is_published_before_the_sgi_is_written() {
    // The model stops the test otherwise; see that it looks.
    let machine = Machine::new(1);
    machine.gic.unmask(machine.irq(1)).unwrap();
    machine.gic.send_sgi(sgi(1), CpuIndex::new(0)).unwrap();
    let bus = machine.model.sysregs();
    let raw = || irq_hal::Bus::<u64>::store(&bus, ICC_SGI1R_EL1, 0x0100_0001);
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(raw));
    assert!(stopped.is_err());
}
