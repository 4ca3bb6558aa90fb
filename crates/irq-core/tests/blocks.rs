// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each CPU has for itself: placed by the embedder, and counts per CPU.
#![cfg(not(loom))]

mod common;

use common::{Always, Cpu, control, entry, machine, range};
use irq_core::cpu::{CpuIndex, MAX_CPUS};
use irq_core::{Action, Counts, CpuBlock, CpuCounts, Interrupts, IpiSetup, Irq, Setup, Taken};
use irq_hal::{Error, ErrorKind};

static CPU: Cpu = Cpu::new(0);
const TIMER: Irq = Irq::new(0);
const UART: Irq = Irq::new(5);

fn setup() -> Setup<'static> {
    static PRIVATE: std::sync::OnceLock<[irq_core::IrqRange; 1]> = std::sync::OnceLock::new();
    Setup {
        private: PRIVATE.get_or_init(|| [range(0, 2)]),
        ..Setup::new(2, range(0, 8))
    }
}

fn lend(setup: &Setup<'_>) -> &'static CpuBlock {
    Box::leak(Box::new(CpuBlock::try_new(setup).unwrap()))
}

fn build(blocks: &[&'static CpuBlock]) -> Result<Interrupts, Error> {
    Interrupts::with_blocks(setup(), blocks.iter().copied())
}

#[test]
fn interrupts_count_and_run_on_blocks_that_the_embedder_placed() {
    let blocks = [lend(&setup()), lend(&setup())];
    let interrupts = build(&blocks).unwrap();
    let action = || Action::new(|_| ());
    let _timer = control(&interrupts, &CPU)
        .register(TIMER, action())
        .unwrap();
    let uart = control(&interrupts, &CPU).register(UART, action()).unwrap();
    for irq in [TIMER, UART] {
        for cpu in [0, 1, 1] {
            let outcome = interrupts.dispatch(&Always(irq), &entry(cpu));
            assert_eq!(outcome.taken, Taken::Handled);
        }
    }
    uart.remove().unwrap();
    let on = |cpu| {
        interrupts
            .counts_on(TIMER, CpuIndex::new(cpu))
            .unwrap()
            .taken
    };
    assert_eq!([on(0), on(1)], [1, 2]);
    assert_eq!(interrupts.counts(UART).unwrap().taken, 3);
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let (one, other) = (lend(&setup()), lend(&setup()));
    let kind = |blocks: &[&'static CpuBlock]| build(blocks).err().map(|error| error.kind());
    assert_eq!(kind(&[one]), Some(ErrorKind::Invalid));
    assert_eq!(kind(&[]), Some(ErrorKind::Invalid));
    let third = lend(&setup());
    assert_eq!(kind(&[one, other, third]), Some(ErrorKind::Invalid));
    // Of another setup: other interrupts, or another way to count.
    for foreign in [
        Setup::new(2, range(0, 8)),
        Setup {
            count_per_cpu: true,
            ..setup()
        },
    ] {
        assert_eq!(
            build(&[one, lend(&foreign)]).err(),
            Some(Error::WrongBlock {
                cpu: CpuIndex::new(1)
            })
        );
    }
    // One block for two CPUs, or for two objects.
    assert_eq!(kind(&[one, one]), Some(ErrorKind::Busy));
    let interrupts = build(&[one, other]).unwrap();
    assert_eq!(kind(&[third, one]), Some(ErrorKind::Busy));
    drop(interrupts);
    assert!(build(&[third, one]).is_ok());
}

#[test]
fn a_block_that_served_before_begins_as_new() {
    let blocks = [lend(&setup()), lend(&setup())];
    let first = build(&blocks).unwrap();
    let action = Action::new(|_| irq_core::Answer::Deferred);
    let timer = control(&first, &CPU).register(TIMER, action).unwrap();
    for irq in [0, 1, 99] {
        let _ = first.dispatch(&Always(Irq::new(irq)), &entry(0));
    }
    assert!(first.is_deferred(TIMER));
    std::mem::forget(timer);
    drop(first);
    let second = build(&blocks).unwrap();
    assert!(!second.is_deferred(TIMER));
    for irq in [0, 1] {
        assert_eq!(second.counts(Irq::new(irq)), Some(Counts::default()));
    }
    let odd = second.cpu_counts(CpuIndex::new(0));
    assert_eq!(odd, Some(CpuCounts::default()));
}

#[test]
fn a_setup_that_cannot_be_makes_no_block() {
    let wrong = Setup {
        detector: Some(irq_core::Detector {
            unhandled: 0,
            ..irq_core::Detector::new(|_, _| (), 0)
        }),
        ..setup()
    };
    assert!(CpuBlock::try_new(&wrong).is_err());
}

#[test]
fn sizes_that_cannot_be_are_refused_before_any_memory_is_had() {
    let ipi = Some(IpiSetup {
        irq: TIMER,
        kinds: &[],
    });
    let invalid = |setup: Setup<'_>| {
        let blocks = [
            CpuBlock::try_new(&setup).err(),
            Interrupts::new(setup).err(),
        ];
        blocks.map(|error| error.map(|error| error.kind())) == [Some(ErrorKind::Invalid); 2]
    };
    for count in [0, MAX_CPUS + 1, u32::MAX] {
        let cpus = Setup {
            ipi,
            ..Setup::new(count, range(0, 1))
        };
        let nodes = Setup {
            ipi,
            nodes: count,
            ..Setup::new(1, range(0, 1))
        };
        assert!(invalid(cpus) && invalid(nodes), "{count}");
    }
}

#[test]
fn private_interrupts_are_told_from_others_whatever_ranges_name_them() {
    // Overlapping, empty, out of order, and partly or wholly outside.
    let private = [
        range(20, 4),
        range(10, 6),
        range(12, 2),
        range(14, 4),
        range(15, 0),
        range(0, 3),
        range(30, u32::MAX - 30),
    ];
    let setup = Setup {
        private: &private,
        ..Setup::new(1, range(2, 30))
    };
    let interrupts = Interrupts::with_blocks(setup, [lend(&setup)].into_iter()).unwrap();
    let cpu = CpuIndex::new(0);
    for irq in setup.irqs.iter() {
        let is_private = private.iter().any(|range| range.contains(irq));
        let on = interrupts.counts_on(irq, cpu);
        assert_eq!(on.is_some(), is_private, "{irq}");
    }
    // The last of them has its place, and nothing of the list is left.
    _ = interrupts.dispatch(&Always(Irq::new(31)), &entry(0));
    assert_eq!(
        interrupts.counts_on(Irq::new(31), cpu).unwrap().taken,
        interrupts.counts(Irq::new(31)).unwrap().taken
    );
}

#[test]
fn device_interrupts_count_per_cpu_if_asked_for() {
    let interrupts = Interrupts::new(Setup {
        count_per_cpu: true,
        ..setup()
    })
    .unwrap();
    let _uart = control(&interrupts, &CPU)
        .register(UART, Action::new(|_| ()))
        .unwrap();
    for (irq, cpu) in [(5, 0), (5, 1), (5, 1), (0, 1), (7, 0)] {
        let _ = interrupts.dispatch(&Always(Irq::new(irq)), &entry(cpu));
    }
    let on = |irq, cpu| {
        let counts = interrupts.counts_on(Irq::new(irq), CpuIndex::new(cpu));
        counts.map(|counts| counts.taken)
    };
    assert_eq!([on(5, 0), on(5, 1), on(5, 2)], [Some(1), Some(2), None]);
    assert_eq!([on(0, 0), on(0, 1)], [Some(0), Some(1)]);
    let total = |irq| {
        let counts = interrupts.counts(Irq::new(irq)).unwrap();
        (counts.taken, counts.unhandled)
    };
    assert_eq!([total(5), total(0), total(7)], [(3, 0), (1, 1), (1, 1)]);
}

#[test]
fn a_device_interrupt_that_counts_per_cpu_is_still_completed_from_any_cpu() {
    let interrupts = Interrupts::new(Setup {
        count_per_cpu: true,
        ..setup()
    })
    .unwrap();
    let action = Action::new(|_| irq_core::Answer::Deferred);
    let control = control(&interrupts, &CPU);
    let _uart = control.register(UART, action).unwrap();
    let outcome = interrupts.dispatch(&Always(UART), &entry(1));
    assert_eq!(outcome.taken, Taken::Deferred);
    assert_eq!(control.complete(UART), Ok(()));
}

#[test]
fn device_interrupts_count_once_for_all_cpus_if_not_asked_otherwise() {
    let interrupts = machine(2, range(0, 8), &[range(0, 2)]);
    assert_eq!(interrupts.counts_on(UART, CpuIndex::new(0)), None);
}
