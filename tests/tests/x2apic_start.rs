// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting CPUs: all at once, in bounded time, and a silent one by its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_hal::Error;
use irq_sim::apic::{ApicBuilder, ApicModel, Aps, Mode, Vendor};
use irq_sim::log::{Event, Fence};
use irq_sim::{SimPlatform, apic::MsrBus};
use irq_tests::x2apic::{Machine, id, ids, lapic, with_ipi};
use irq_x2apic::regs::apic::*;
use irq_x2apic::start::{Delays, Page, StartError, Starter};
use irq_x2apic::{ApicId, LocalApic};

/// Waits that a test can sit out.
const SHORT: Delays = Delays {
    init: 200,
    start: 50,
    alive: 2000,
};

/// A machine whose boot CPU is up and whose others wait; those that start come online at once.
struct Cold {
    machine: Arc<Machine>,
    /// By CPU: whether it is alive.
    alive: Arc<Vec<AtomicU32>>,
}

fn cold(cpus: u32, change: impl FnOnce(ApicBuilder) -> ApicBuilder) -> Cold {
    let change = |builder: ApicBuilder| change(builder.aps(Aps::Waiting));
    let machine = Arc::new(Machine::cold(cpus, change, with_ipi()));
    machine.online(0).unwrap();
    let alive: Arc<Vec<_>> = Arc::new((0..cpus).map(|_| AtomicU32::new(0)).collect());
    let (m, a) = (Arc::downgrade(&machine), alive.clone());
    machine.model.when_started(move |cpu, page| {
        assert_eq!(page, 8);
        m.upgrade().unwrap().online(cpu).unwrap();
        a[cpu as usize].fetch_add(1, Relaxed);
    });
    Cold { machine, alive }
}

impl Cold {
    fn with<R>(
        &self,
        f: impl FnOnce(&Starter<'_, SimPlatform, &MsrBus>, &dyn Fn(ApicId) -> bool) -> R,
    ) -> R {
        let machine = &self.machine;
        let all = ids(&machine.model);
        let alive = |id| {
            let cpu = all.iter().position(|other| *other == id).unwrap();
            self.alive[cpu].load(Relaxed) != 0
        };
        machine.sim.as_cpu(0, |on| {
            let local = machine.apic.local(on).unwrap();
            let page = Page::new(0x8000).unwrap();
            // SAFETY: the model runs no code of the page.
            let starter = unsafe { Starter::new(&machine.sim, &local, page, SHORT) };
            f(&starter, &alive)
        })
    }

    fn start(&self, cpus: &[u32]) -> Result<(), StartError> {
        let all = ids(&self.machine.model);
        let wanted: Vec<_> = cpus.iter().map(|cpu| all[*cpu as usize]).collect();
        self.with(|starter, alive| starter.start(&wanted, alive))
    }

    fn sent(&self) -> Vec<u64> {
        let all = self.machine.sim.log().all();
        all.stored(lapic(0), IA32_X2APIC_ICR)
    }
}

#[test]
fn many_cpus_are_started_at_once_all_inits_before_the_first_start() {
    let cold = cold(16, |builder| builder.init_ticks(100));
    let others: Vec<_> = (1..16).collect();
    cold.start(&others).unwrap();
    assert!(cold.alive[1..].iter().all(|cpu| cpu.load(Relaxed) == 1));
    let sent: Vec<_> = cold.sent().iter().map(|icr| icr & 0xfffff).collect();
    assert_eq!(sent[..15], [0x4500; 15]);
    // Everybody took the first: there is no second.
    assert_eq!(sent[15..], [0x4608; 15]);
    for cpu in 1..16 {
        assert_eq!(cold.machine.model.inits(cpu), 1);
        assert_eq!(cold.machine.model.started(cpu), Some(8));
    }
    assert_eq!(cold.alive[0].load(Relaxed), 0);
}

#[test]
fn a_cpu_that_missed_the_first_start_gets_a_second_and_nobody_a_second_init() {
    let cold = cold(4, |builder| builder.second_sipi(2));
    cold.start(&[1, 2, 3]).unwrap();
    let sipis = [1, 2, 3].map(|cpu| cold.machine.model.sipis(cpu));
    assert_eq!(sipis, [1, 2, 1]);
    let inits = [1, 2, 3].map(|cpu| cold.machine.model.inits(cpu));
    assert_eq!(inits, [1, 1, 1]);
}

#[test]
fn a_cpu_that_never_answers_is_an_error_with_its_id_and_the_others_run() {
    let cold = cold(6, |builder| {
        builder
            .ids([0, 5, 9, 0x21, 0x22, 0x40])
            .never_starts(3)
            .never_starts(5)
    });
    let before = cold.machine.sim.peek_clock();
    let silent = StartError::Silent {
        id: id(0x21),
        silent: 2,
    };
    assert_eq!(cold.start(&[1, 2, 3, 4, 5]), Err(silent));
    assert_eq!(
        Error::from(silent),
        Error::NoUnitForCpu {
            block: "answer to a start",
            id: 0x21
        }
    );
    assert_eq!(
        format!("{silent}"),
        "the CPU with APIC id 33 does not answer, 2 in all"
    );
    let alive = cold.alive.iter().map(|cpu| cpu.load(Relaxed));
    assert!(alive.eq([0, 1, 1, 0, 1, 0]));
    // Waits are what they were said to be: no more than one round of each.
    let took = cold.machine.sim.peek_clock().since(before).0;
    assert!((2250..3000).contains(&took), "{took} us");
    assert_eq!(cold.machine.model.inits(3), 1);
}

#[test]
fn waits_end_by_polls_where_the_clock_stands_still() {
    let cold = cold(2, |builder| builder.never_starts(1));
    cold.machine.sim.stop_clock();
    let silent = StartError::Silent {
        id: id(1),
        silent: 1,
    };
    assert_eq!(cold.start(&[1]), Err(silent));
}

#[test]
fn a_cpu_does_not_start_itself() {
    let cold = cold(3, |builder| builder.ids([7, 0, 1]));
    let before = cold.sent();
    assert_eq!(
        cold.start(&[1, 0, 2]),
        Err(StartError::Myself { id: id(7) })
    );
    assert_eq!(cold.sent(), before);
    let common = Error::from(StartError::Myself { id: id(7) });
    assert_eq!(
        common,
        Error::Invalid {
            what: "APIC id to start",
            value: 7
        }
    );
}

#[test]
fn nobody_to_start_is_nothing_to_do() {
    let cold = cold(1, |builder| builder);
    cold.start(&[]).unwrap();
    assert_eq!(cold.sent(), []);
}

#[test]
fn only_those_named_are_started() {
    let cold = cold(4, |builder| builder);
    cold.start(&[2]).unwrap();
    let alive = cold.alive.iter().map(|cpu| cpu.load(Relaxed));
    assert!(alive.eq([0, 0, 1, 0]));
    assert_eq!([1, 3].map(|cpu| cold.machine.model.inits(cpu)), [0, 0]);
}

#[test]
fn all_others_are_started_by_two_writes_where_the_embedder_asks_for_it() {
    let cold = cold(40, |builder| builder.init_ticks(100));
    let all_alive = || cold.alive[1..].iter().all(|cpu| cpu.load(Relaxed) != 0);
    cold.with(|starter, _| starter.start_all_others(all_alive))
        .unwrap();
    assert_eq!(cold.sent(), [0xc_4500, 0xc_4608]);
    assert!(all_alive());
}

#[test]
fn all_others_that_do_not_all_come_are_an_error() {
    let cold = cold(3, |builder| builder.never_starts(1));
    let all_alive = || cold.alive[1..].iter().all(|cpu| cpu.load(Relaxed) != 0);
    let result = cold.with(|starter, _| starter.start_all_others(all_alive));
    assert_eq!(result, Err(StartError::Missing));
    assert_eq!(cold.sent(), [0xc_4500, 0xc_4608, 0xc_4608]);
    assert_eq!(cold.alive[2].load(Relaxed), 1);
}

#[test]
fn what_the_started_code_reads_is_published_before_the_start() {
    for (vendor, fenced) in [(Vendor::Intel, true), (Vendor::Amd, false)] {
        let cold = cold(2, |builder| builder.vendor(vendor));
        let mark = cold.machine.sim.log().mark();
        cold.start(&[1]).unwrap();
        let trace = cold.machine.sim.log().since(mark);
        let is_send = |event: &Event| {
            let access = event.access();
            access.is_some_and(|access| access.offset == IA32_X2APIC_ICR)
        };
        let first = trace.events().iter().position(is_send).unwrap();
        let publish = |event: &Event| {
            matches!(
                event,
                Event::Barrier {
                    fence: Fence::Publish,
                    ..
                }
            )
        };
        assert_eq!(trace.events()[..first].iter().any(publish), fenced);
    }
}

#[test]
fn a_starter_works_over_a_local_apic_alone() {
    let sim = SimPlatform::new(2);
    let model = ApicModel::builder(&sim)
        .aps(Aps::Waiting)
        .mode(Mode::X2apic)
        .build();
    let msrs = model.msrs();
    let apic = LocalApic::assume_x2(&msrs, irq_x2apic::local_apic::SendOrder::Fenced);
    let page = Page::new(0x9_f000).unwrap();
    // SAFETY: the model runs no code of the page.
    let starter = unsafe { Starter::new(&sim, &apic, page, SHORT) };
    starter
        .start(&[id(1)], |_| model.started(1).is_some())
        .unwrap();
    assert_eq!(model.started(1), Some(0x9f));
}
