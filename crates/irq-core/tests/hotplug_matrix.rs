// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vector matrix hands the places out: its accounts are right after each step, and agree with
//! the lists of interrupts.
#![cfg(not(loom))]

mod hotplug_common;

use std::sync::Arc;

use hotplug_common::rig::{FIRST, Rig, kind};
use hotplug_common::{Call, Fails, Sim, mask};
use irq_core::Irq;
use irq_core::hotplug::{Affinity, Leaves, NewIrq, Removal};
use irq_core::placement::Class;
use irq_hal::{Error, ErrorKind};

const CPUS: u32 = 6;
const IRQS: u32 = 14;

fn rig(leaves: Leaves, vectors: u32) -> Arc<Rig> {
    Rig::of(Sim::with_matrix(CPUS, vectors, leaves), CPUS)
}

/// Each CPU's accounts are what its lists say.
fn agree(rig: &Rig) {
    for cpu in 0..CPUS {
        let served = rig.served(cpu);
        let regular = |irq: &&u32| rig.status(**irq).class == Class::Regular;
        let regular = served.iter().filter(regular).count() as u32;
        let [waiting, due] = rig.old(cpu);
        let counts = rig.sim.matrix().counts(cpu);
        assert_eq!(
            counts.allocated,
            served.len() as u32 + waiting + due,
            "cpu{cpu}"
        );
        // Old places need no other CPU.
        assert!(regular <= counts.to_move() && counts.to_move() <= regular + waiting + due);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(end)) as u32
    }

    fn mask(&mut self) -> Affinity {
        let first = self.below(CPUS);
        let others = (0..CPUS).filter(|_| self.below(2) == 0);
        let mut cpus: Vec<u32> = others.collect();
        cpus.push(first);
        mask(&cpus)
    }
}

fn add(rig: &Rig, irq: u32, random: &mut Random) -> Result<(), Error> {
    let affinity = random.mask();
    let new = match irq % 2 {
        0 => {
            rig.sim.matrix().reserve_managed(&affinity)?;
            NewIrq::managed(affinity)
        }
        _ => NewIrq {
            affinity,
            reserves: irq % 4 == 1,
            ..NewIrq::regular()
        },
    };
    rig.add(irq, new)
}

fn remove(rig: &Rig, irq: u32) -> Result<(), Error> {
    if let Removal::Done(affinity) = rig.remove(irq)? {
        if irq.is_multiple_of(2) {
            rig.sim.matrix().remove_managed(&affinity).unwrap();
        }
        rig.sim.forget(irq);
    }
    Ok(())
}

#[test]
fn random_sequences_keep_the_matrixs_accounts_and_lose_no_event() {
    let (mut offline, mut refused) = (0, 0);
    for (seed, leaves) in (1..=60).zip(
        [Leaves::Nothing, Leaves::Drains, Leaves::Late]
            .into_iter()
            .cycle(),
    ) {
        let rig = rig(leaves, 7);
        let random = &mut Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        for _ in 0..300 {
            let irq = FIRST + random.below(IRQS);
            let cpu = random.below(CPUS);
            let up = rig.sim.cpus_up().contains(&cpu);
            let done = match random.below(11) {
                0 => match rig.status_kind(irq) {
                    Err(_) if rig.sim.is_known(irq) => remove(&rig, irq),
                    Err(_) => add(&rig, irq, random),
                    Ok(_) => Ok(()),
                },
                1 => remove(&rig, irq),
                2 => rig.changes().start(Irq::new(irq)).map(drop),
                3 => rig.stop(irq),
                4 | 5 => rig.set(irq, random.mask()).map(drop),
                6 if up => rig.offline(cpu).map(|gone| {
                    offline += 1;
                    assert_eq!(rig.sim.matrix().counts(cpu).allocated, 0, "{gone:?}");
                }),
                6 => rig
                    .online(cpu)
                    .map(|online| assert_eq!(online.failed, None)),
                7 | 8 => {
                    rig.sim.fire(irq);
                    Ok(())
                }
                9 => {
                    rig.sim.deliver(irq);
                    Ok(())
                }
                _ if up => {
                    rig.dispatch(cpu);
                    rig.clean(cpu);
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(error) = done {
                refused += 1;
                let kinds = [
                    ErrorKind::Busy,
                    ErrorKind::Exists,
                    ErrorKind::Full,
                    ErrorKind::NotFound,
                    ErrorKind::Offline,
                    ErrorKind::Unsupported,
                ];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
            agree(&rig);
        }
        for cpu in 0..CPUS {
            if !rig.sim.cpus_up().contains(&cpu) {
                rig.online(cpu).unwrap();
            }
        }
        for irq in FIRST..FIRST + IRQS {
            let _ = remove(&rig, irq);
            rig.sim.deliver_all();
            (0..CPUS).for_each(|cpu| while rig.dispatch(cpu).is_some() {});
            (0..CPUS).for_each(|cpu| assert_eq!(rig.clean(cpu), 0));
            let _ = remove(&rig, irq);
        }
        for cpu in 0..CPUS {
            let counts = rig.sim.matrix().counts(cpu);
            assert_eq!(
                (counts.available, counts.managed, counts.allocated),
                (7, 0, 0)
            );
        }
        assert_eq!(rig.sim.matrix().reserved(), 0);
    }
    assert!(offline > 500 && refused > 1000, "{offline} {refused}");
}

#[test]
fn a_managed_interrupt_finds_its_reservation_whatever_regular_ones_have_taken() {
    let rig = rig(Leaves::Drains, 3);
    let both = mask(&[1, 2]);
    rig.sim.matrix().reserve_managed(&both).unwrap();
    rig.start(FIRST, NewIrq::managed(both));
    // Nothing is left on the other CPU of its mask, but its own.
    for irq in [1, 2] {
        let affinity = mask(&[3 - rig.served_by(FIRST).unwrap()]);
        rig.start(
            FIRST + irq,
            NewIrq {
                affinity,
                ..NewIrq::regular()
            },
        );
    }
    let first = rig.served_by(FIRST).unwrap();
    let offline = rig.offline(first).unwrap();
    assert_eq!((offline.moved, offline.broken, offline.shut), (1, 0, 0));
    agree(&rig);
}

#[test]
fn a_managed_interrupt_takes_one_place_of_a_cpu_and_leaves_the_others_theirs() {
    let rig = rig(Leaves::Late, 3);
    for irq in [FIRST, FIRST + 2] {
        let both = mask(&[1, 2]);
        rig.sim.matrix().reserve_managed(&both).unwrap();
        rig.add(irq, NewIrq::managed(both)).unwrap();
    }
    rig.changes().start(Irq::new(FIRST)).unwrap();
    let first = rig.served_by(FIRST).unwrap();
    let other = 3 - first;
    // It moves off a CPU that stays after all, and leaves a place there.
    let settle: Fails = |call| matches!(call, Call::Settle(_));
    *rig.sim.fails.lock().unwrap() = Some(settle);
    assert_eq!(kind(rig.offline(first)), Err(ErrorKind::Hardware));
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!(rig.served_by(FIRST), Some(other));
    // Where it is now goes: it waits for that place, though another is reserved there.
    let same = Arc::downgrade(&rig);
    rig.sim.set_hook(move |_, call| {
        if call == Call::Release(FIRST) {
            let rig = same.upgrade().unwrap();
            assert_eq!(rig.sim.matrix().counts(first).allocated, 1);
            rig.clean(first);
        }
    });
    assert_eq!(rig.offline(other).unwrap().moved, 1);
    assert_eq!(rig.served_by(FIRST), Some(first));
    agree(&rig);
    // The other interrupt has its own.
    rig.changes().start(Irq::new(FIRST + 2)).unwrap();
    assert_eq!(rig.served_by(FIRST + 2), Some(first));
    agree(&rig);
}

#[test]
fn a_managed_interrupt_that_was_shut_by_a_cpu_that_stays_is_served_at_the_same_place() {
    let rig = rig(Leaves::Late, 3);
    let one = mask(&[1]);
    rig.sim.matrix().reserve_managed(&one).unwrap();
    rig.start(FIRST, NewIrq::managed(one));
    rig.sim.fire(FIRST);
    let settle: Fails = |call| matches!(call, Call::Settle(_));
    *rig.sim.fails.lock().unwrap() = Some(settle);
    assert_eq!(kind(rig.offline(1)), Err(ErrorKind::Hardware));
    *rig.sim.fails.lock().unwrap() = None;
    assert_eq!((rig.served_by(FIRST), rig.sim.places()), (Some(1), 1));
    rig.quiet();
}

#[test]
fn what_must_move_is_counted_as_the_matrix_counts_it() {
    // Fix A7, with the matrix: managed ones do not count, and a dormant vector neither.
    let rig = rig(Leaves::Drains, 2);
    let one = mask(&[1]);
    rig.sim.matrix().reserve_managed(&one).unwrap();
    rig.start(FIRST, NewIrq::managed(one));
    rig.start(
        FIRST + 1,
        NewIrq {
            affinity: mask(&[1]),
            ..NewIrq::regular()
        },
    );
    for irq in 2..12 {
        rig.start(FIRST + irq, NewIrq::regular());
    }
    assert_eq!(rig.sim.matrix().counts(1).to_move(), 1);
    assert_eq!(kind(rig.offline(1)), Err(ErrorKind::Full));
    agree(&rig);
    rig.stop(FIRST + 2).unwrap();
    let freed = (0..CPUS).find(|cpu| rig.old(*cpu)[1] == 1).unwrap();
    rig.clean(freed);
    let offline = rig.offline(1).unwrap();
    assert_eq!((offline.moved, offline.shut, offline.broken), (1, 1, 1));
    agree(&rig);
}
