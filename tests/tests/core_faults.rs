// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that nobody owns, deferred and handed-over interrupts, with driver and irq-core
//! together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::{Action, Answer, Detector, Report, Taken};
use irq_gicv3::EoiMode;
use irq_gicv3::regs::icc::ICC_DIR_EL1;
use irq_hal::{Bus, CpuIndex};
use irq_tests::system::{Plan, System};

/// A detector that puts its reports into `$list`.
macro_rules! detector {
    ($list:ident, $unhandled:expr, $of:expr) => {{
        static $list: Mutex<Vec<Report>> = Mutex::new(Vec::new());
        fn report(_: usize, report: &Report) {
            $list.lock().unwrap().push(*report);
        }
        (
            Detector {
                unhandled: $unhandled,
                of: $of,
                ..Detector::new(report, 0)
            },
            &$list,
        )
    }};
}

const SPI: u32 = 40;

#[test]
fn a_level_line_that_nobody_owns_is_shut_off_at_the_threshold_and_its_cpu_is_usable_again() {
    let (detector, reports) = detector!(REPORTS, 90, 100);
    let system = System::new(&Plan {
        detector: Some(detector),
        ..Plan::new(2, 1)
    });
    let control = system.control();
    let (irq, model) = (system.irq(SPI), &system.machine.model);
    let _kept = control
        .register(irq, Action::new(|_| Answer::NotMine).shared())
        .unwrap();
    control.unmask(irq).unwrap();
    // Nobody lowers it: it comes again after every end.
    model.line(SPI).assert();
    let mut taken = 0;
    while let Some(outcome) = system.take(0) {
        assert_eq!(outcome.taken, Taken::Unhandled);
        taken += 1;
        assert!(taken <= 1000, "the storm goes on");
    }
    assert!((90..=100).contains(&taken), "{taken}");
    assert!(!model.source(SPI).enabled);
    let reports = reports.lock().unwrap();
    let [report] = reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!((report.irq, report.cpu), (irq, CpuIndex::new(0)));
    assert_eq!((report.unhandled, report.masked), (taken, Ok(())));
    // Another device of the same CPU.
    let other = system.irq(SPI + 1);
    let _other = control.register(other, Action::new(|_| ())).unwrap();
    control.set_trigger(other, irq_core::Trigger::Edge).unwrap();
    control.unmask(other).unwrap();
    model.line(SPI + 1).pulse();
    assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::Handled));
    assert_eq!(system.settle(), 0);
}

#[test]
fn a_line_that_storms_before_anyone_registered_is_left_alone_and_counts_only_from_then_on() {
    let (detector, reports) = detector!(REPORTS, 5, 10);
    let system = System::new(&Plan {
        detector: Some(detector),
        ..Plan::new(1, 1)
    });
    let control = system.control();
    let (irq, model) = (system.irq(SPI), &system.machine.model);
    control.unmask(irq).unwrap();
    model.line(SPI).assert();
    for _ in 0..50 {
        assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::Unhandled));
    }
    assert!(reports.lock().unwrap().is_empty());
    assert!(model.source(SPI).enabled);
    // Its owner comes, and what was before is not held against it.
    let line = model.line(SPI);
    let _kept = control
        .register(irq, Action::new(move |_| line.deassert()))
        .unwrap();
    for _ in 0..20 {
        assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::Handled));
        model.line(SPI).assert();
    }
    assert!(reports.lock().unwrap().is_empty());
    assert!(model.source(SPI).enabled);
}

#[test]
fn a_deferred_interrupt_is_completed_by_another_cpu_and_only_then_comes_again() {
    let system = System::new(&Plan {
        eoi_mode: EoiMode::Split,
        ..Plan::new(2, 1)
    });
    let control = system.control();
    let (irq, model) = (system.irq(SPI), &system.machine.model);
    let _kept = control
        .register(irq, Action::new(|_| Answer::Deferred))
        .unwrap();
    control.unmask(irq).unwrap();
    model.line(SPI).assert();
    assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::Deferred));
    assert!(model.source(SPI).active);
    // The line is still high, and the CPU takes others.
    assert!(system.take(0).is_none());
    assert_eq!(model.priorities(0).1, None);
    system.on(1, |_| control.complete(irq).unwrap());
    assert!(!model.source(SPI).active);
    assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::Deferred));
    model.line(SPI).deassert();
    system.on(0, |_| control.complete(irq).unwrap());
    assert_eq!(system.settle(), 0);
}

#[test]
fn without_split_ends_what_is_deferred_or_handed_over_is_ended_and_says_so() {
    for answer in [Answer::Deferred, Answer::HandedOver] {
        let system = System::new(&Plan::new(1, 1));
        let control = system.control();
        let (irq, model) = (system.irq(SPI), &system.machine.model);
        let _kept = control.register(irq, Action::new(move |_| answer)).unwrap();
        control.unmask(irq).unwrap();
        model.line(SPI).assert();
        let taken = system.take(0).map(|one| one.taken);
        assert_eq!(taken, Some(Taken::Handled));
        assert!(!model.source(SPI).active);
        assert_eq!(model.priorities(0).1, None);
    }
}

#[test]
fn an_interrupt_that_is_handed_over_is_deactivated_by_whoever_got_it() {
    let system = System::new(&Plan {
        eoi_mode: EoiMode::Split,
        ..Plan::new(1, 1)
    });
    let control = system.control();
    let (irq, model) = (system.irq(SPI), &system.machine.model);
    let _kept = control
        .register(irq, Action::new(|_| Answer::HandedOver))
        .unwrap();
    control.unmask(irq).unwrap();
    model.line(SPI).assert();
    assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::HandedOver));
    assert!(model.source(SPI).active);
    assert!(system.take(0).is_none());
    model.line(SPI).deassert();
    // The guest, by its list register: hardware deactivates the physical interrupt.
    system.on(0, |_| {
        Bus::<u64>::store(&model.sysregs(), ICC_DIR_EL1, SPI.into());
    });
    assert!(!model.source(SPI).active);
    // Nothing of it is left here: the next is taken as the first was.
    model.line(SPI).assert();
    assert_eq!(system.take(0).map(|one| one.taken), Some(Taken::HandedOver));
}

#[test]
fn a_handler_that_is_removed_while_its_line_fires_is_not_called_afterwards() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let system = System::new(&Plan::new(2, 1));
    let control = system.control();
    let (irq, model) = (system.irq(SPI), &system.machine.model);
    let action = Action::new(|_| _ = CALLS.fetch_add(1, Relaxed));
    let registration = control.register(irq, action).unwrap();
    control.unmask(irq).unwrap();
    model.line(SPI).assert();
    let stop = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let (system, stop) = (&system, &stop);
        scope.spawn(move || {
            while stop.load(Relaxed) == 0 {
                system.take(0);
            }
        });
        while CALLS.load(Relaxed) < 100 {
            std::thread::yield_now();
        }
        let removed = system.on(1, |_| registration.remove().map_err(|(error, _)| error));
        removed.unwrap();
        let calls = CALLS.load(Relaxed);
        // The line is high still, and CPU 0 takes it still.
        let before = system.interrupts.counts(irq).unwrap().taken;
        while system.interrupts.counts(irq).unwrap().taken < before + 50 {
            std::thread::yield_now();
        }
        assert_eq!(CALLS.load(Relaxed), calls);
        stop.store(1, Relaxed);
    });
}
