// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cannot be is a typed error, and changes nothing.
#![cfg(not(loom))]

mod hotplug_common;

use hotplug_common::rig::{FIRST, IRQS, Rig, cpu, kind, on};
use hotplug_common::{Slot, mask};
use irq_core::hotplug::{Hotplug, Leaves, NewIrq};
use irq_core::{Irq, IrqRange};
use irq_hal::{Error, ErrorKind};

#[test]
fn no_cpu_and_too_many_are_refused() {
    let irqs = |count| IrqRange::new(Irq::new(0), count).unwrap();
    let new = |cpus, count| Hotplug::<Slot>::new(cpus, irqs(count)).err();
    for cpus in [0, (1 << 20) + 1, u32::MAX] {
        assert_eq!(new(cpus, 1).map(|e| e.kind()), Some(ErrorKind::Invalid));
    }
    for count in [u32::MAX / 3, u32::MAX] {
        let value = u64::from(count);
        let what = "number of irqs";
        assert_eq!(new(1, count), Some(Error::Invalid { what, value }));
    }
    // None to serve is no error.
    assert_eq!(new(1, 0), None);
}

#[test]
fn unknown_numbers_are_refused_by_each_call() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    let known = FIRST + 1;
    rig.start(known, NewIrq::regular());
    rig.calls();
    for number in [0, FIRST - 1, FIRST + IRQS, u32::MAX, FIRST] {
        let (irq, changes) = (Irq::new(number), rig.changes());
        let missing = Error::NoSuchIrq { irq: number };
        if number != FIRST {
            assert_eq!(changes.add(irq, NewIrq::regular()), Err(missing));
            let next = rig.hotplug.next_served(&rig.platform, cpu(0), Some(irq));
            assert_eq!(next, Err(missing));
        }
        assert_eq!(changes.start(irq), Err(missing));
        assert_eq!(changes.stop(irq), Err(missing));
        assert_eq!(changes.remove(irq).err(), Some(missing));
        assert_eq!(changes.set_affinity(irq, &mut mask(&[1])), Err(missing));
        assert_eq!(rig.hotplug.status(&rig.platform, irq), Err(missing));
    }
    assert_eq!(rig.calls(), []);
    assert_eq!(rig.served(0), [known]);
    let twice = rig.changes().add(Irq::new(known), NewIrq::regular());
    assert_eq!(kind(twice), Err(ErrorKind::Exists));
}

#[test]
fn unknown_cpus_are_refused_by_each_call() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.start(FIRST, NewIrq::regular());
    rig.calls();
    for index in [2, 64, u32::MAX] {
        let missing = Error::NoSuchCpu { cpu: cpu(index) };
        assert_eq!(rig.changes().online(cpu(index)), Err(missing));
        assert_eq!(rig.changes().offline(&on(index)), Err(missing));
        assert_eq!(rig.hotplug.served(&rig.platform, cpu(index)), Err(missing));
        assert_eq!(
            rig.hotplug.old_places(&rig.platform, cpu(index)),
            Err(missing)
        );
        let next = rig.hotplug.next_served(&rig.platform, cpu(index), None);
        assert_eq!(next, Err(missing));
        // From an entry and a tick there is nobody to tell.
        assert_eq!(rig.changes().clean(&on(index)), 0);
        assert!(!rig.hotplug.is_due(cpu(index)));
        rig.changes().arrived(&on(index), Irq::new(FIRST));
    }
    for cpus in [&[1, 2][..], &[64], &[4095]] {
        let missing = Error::NoSuchCpu {
            cpu: cpu(*cpus.last().unwrap()),
        };
        assert_eq!(rig.set(FIRST, mask(cpus)), Err(missing));
        let new = NewIrq::managed(mask(cpus));
        assert_eq!(rig.changes().add(Irq::new(FIRST + 1), new), Err(missing));
    }
    assert_eq!(rig.calls(), []);
    assert_eq!(rig.served(0), [FIRST]);
}

#[test]
fn a_list_that_is_read_from_an_interrupt_that_moved_away_ends() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    rig.start(FIRST, NewIrq::regular());
    let next = |index| {
        rig.hotplug
            .next_served(&rig.platform, cpu(index), Some(Irq::new(FIRST)))
    };
    assert_eq!((next(0), next(1)), (Ok(None), Ok(None)));
    rig.set(FIRST, mask(&[1])).unwrap();
    assert_eq!((next(0), next(1)), (Ok(None), Ok(None)));
}

#[test]
fn bounds_are_told() {
    let rig = Rig::new(2, 8, Leaves::Drains);
    assert_eq!(rig.hotplug.cpus(), 2);
    assert_eq!(
        (rig.hotplug.irqs().first().get(), rig.hotplug.irqs().count()),
        (FIRST, IRQS)
    );
    let shown = format!("{:?} {:?}", rig.hotplug, rig.changes());
    assert!(
        shown.contains("cpus: 2") && shown.contains("Changes"),
        "{shown}"
    );
}
