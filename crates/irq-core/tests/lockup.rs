// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that nobody owns up to are shut off, and never silently.
#![cfg(not(loom))]

mod common;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use common::{Always, Cpu, Recorder, Step, entry, on, range};
use irq_core::cpu::CpuIndex;
use irq_core::{Action, Answer, Control, Detector, Interrupts, Irq, Report, Setup, Taken};
use irq_hal::{Error, ErrorKind};

const UART: Irq = Irq::new(33);
const TIMER: Irq = Irq::new(32);

static CPU: Cpu = Cpu::new(0);

std::thread_local! {
    static REPORTS: RefCell<Vec<Report>> = const { RefCell::new(Vec::new()) };
}

fn report(word: usize, report: &Report) {
    assert_eq!(word, 7);
    REPORTS.with_borrow_mut(|reports| reports.push(*report));
}

fn reports() -> Vec<Report> {
    REPORTS.take()
}

/// Two CPUs, one private interrupt, and a detector for `unhandled` of `of`.
fn interrupts(unhandled: u32, of: u32) -> Interrupts {
    let setup = Setup {
        private: &[range(32, 1)],
        detector: Some(Detector {
            unhandled,
            of,
            ..Detector::new(report, 7)
        }),
        ..Setup::new(2, range(32, 4))
    };
    Interrupts::new(setup).unwrap()
}

fn not_mine() -> Action {
    Action::new(|_| Answer::NotMine)
}

fn storm(control: Control<'_>, flow: &Recorder, irq: Irq, cpu: u32, times: u32) {
    for _ in 0..times {
        flow.raise(irq.get());
        let _ = control.interrupts().dispatch(flow, &entry(cpu));
    }
}

fn masks(flow: &Recorder) -> usize {
    let steps = flow.take();
    steps
        .iter()
        .filter(|step| matches!(step, Step::Mask(_)))
        .count()
}

#[test]
fn a_line_that_nobody_owns_up_to_is_shut_off_at_the_threshold_and_reported() {
    let (interrupts, flow) = (interrupts(90, 100), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let _uart = control.register(UART, not_mine().named("uart")).unwrap();
    storm(control, &flow, UART, 0, 89);
    assert_eq!((reports(), masks(&flow)), (vec![], 0));
    assert!(!interrupts.is_shut_off(UART));
    storm(control, &flow, UART, 1, 1);
    let expected = Report {
        irq: UART,
        cpu: CpuIndex::new(1),
        taken: 90,
        unhandled: 90,
        masked: Ok(()),
    };
    assert_eq!(reports(), [expected]);
    // It is masked after its end.
    assert_eq!(flow.take(), [Step::Ack(33), Step::End(33), Step::Mask(33)]);
    assert!(interrupts.is_shut_off(UART));
    let mut text = String::new();
    interrupts.snapshot(&on(0), &mut text).unwrap();
    assert_eq!(text, "irq33 taken=90 unhandled=90 uart (shut off)\n");
}

#[test]
fn the_usual_threshold_is_99_900_of_100_000() {
    let usual = Detector::new(report, 7);
    assert_eq!((usual.unhandled, usual.of), (99_900, 100_000));
    let interrupts = interrupts(usual.unhandled, usual.of);
    let flow = Recorder::default();
    let control = interrupts.control(&CPU, &flow);
    let mut calls = 0;
    // One in 1,000 is handled: 99,900 of 100,000 are not.
    let action = Action::exclusive(move |_| {
        calls += 1;
        if calls % 1_000 == 500 {
            Answer::Handled
        } else {
            Answer::NotMine
        }
    });
    let _uart = control.register(UART, action).unwrap();
    for _ in 0..99_999 {
        let _ = interrupts.dispatch_acknowledged(&flow, &entry(0), UART, 1033);
    }
    assert_eq!(reports(), []);
    let _ = interrupts.dispatch_acknowledged(&flow, &entry(0), UART, 1033);
    let [report] = reports()[..] else {
        panic!("one report")
    };
    assert_eq!((report.taken, report.unhandled), (100_000, 99_900));
}

#[test]
fn one_handled_interrupt_too_many_keeps_a_line_on() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let mut calls = 0;
    let action = Action::exclusive(move |_| {
        calls += 1;
        // Two of ten.
        if calls % 5 == 0 {
            Answer::Handled
        } else {
            Answer::NotMine
        }
    });
    let _uart = control.register(UART, action).unwrap();
    storm(control, &flow, UART, 0, 1_000);
    assert_eq!((reports(), masks(&flow)), (vec![], 0));
}

#[test]
fn unhandled_interrupts_long_ago_are_forgotten() {
    let (interrupts, flow) = (interrupts(10, 20), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let silent = AtomicBool::new(false);
    let silent: &'static AtomicBool = Box::leak(Box::new(silent));
    let action = Action::new(|_| {
        if silent.load(SeqCst) {
            Answer::NotMine
        } else {
            Answer::Handled
        }
    });
    let _uart = control.register(UART, action).unwrap();
    for _ in 0..50 {
        silent.store(true, SeqCst);
        storm(control, &flow, UART, 0, 9);
        silent.store(false, SeqCst);
        storm(control, &flow, UART, 0, 20);
    }
    assert_eq!(reports(), []);
    silent.store(true, SeqCst);
    storm(control, &flow, UART, 0, 10);
    assert_eq!(reports().len(), 1);
}

#[test]
fn a_line_that_storms_before_anyone_registered_is_only_counted() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    storm(control, &flow, UART, 0, 100);
    assert_eq!((reports(), masks(&flow)), (vec![], 0));
    let counts = interrupts.counts(UART).unwrap();
    assert_eq!((counts.taken, counts.unhandled), (100, 100));
    // What was before does not count against the first owner, and what comes after it went
    // does.
    let uart = control.register(UART, not_mine()).unwrap();
    storm(control, &flow, UART, 0, 8);
    uart.remove().unwrap();
    assert_eq!(reports(), []);
    storm(control, &flow, UART, 0, 1);
    assert_eq!((reports().len(), masks(&flow)), (1, 1));
}

#[test]
fn a_registration_and_an_unmask_begin_afresh() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let shared = || control.register(UART, not_mine().shared()).unwrap();
    let _first = shared();
    storm(control, &flow, UART, 0, 8);
    let _second = shared();
    storm(control, &flow, UART, 0, 8);
    control.unmask(UART).unwrap();
    storm(control, &flow, UART, 0, 8);
    assert_eq!(reports(), []);
    storm(control, &flow, UART, 0, 1);
    assert_eq!(reports().len(), 1);
    assert!(interrupts.is_shut_off(UART));
    control.unmask(UART).unwrap();
    assert!(!interrupts.is_shut_off(UART));
    storm(control, &flow, UART, 0, 8);
    assert_eq!(reports(), []);
    storm(control, &flow, UART, 0, 1);
    assert_eq!(reports().len(), 1);
    let _third = shared();
    assert!(!interrupts.is_shut_off(UART));
}

#[test]
fn a_private_line_is_judged_and_shut_off_on_each_cpu_by_itself() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let _timer = control.register(TIMER, not_mine()).unwrap();
    for cpu in [0, 1] {
        storm(control, &flow, TIMER, cpu, 8);
    }
    assert_eq!(reports(), []);
    storm(control, &flow, TIMER, 1, 1);
    let [report] = reports()[..] else {
        panic!("one report")
    };
    assert_eq!((report.cpu, report.taken), (CpuIndex::new(1), 9));
    // An unmask is one of the CPU that unmasks.
    control.unmask(TIMER).unwrap();
    assert!(interrupts.is_shut_off(TIMER));
    let other = Cpu::new(1);
    interrupts.control(&other, &flow).unmask(TIMER).unwrap();
    assert!(!interrupts.is_shut_off(TIMER));
}

#[test]
fn a_line_that_cannot_be_masked_is_reported_again_and_again() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    flow.cannot_mask.store(true, SeqCst);
    let control = interrupts.control(&CPU, &flow);
    let _uart = control.register(UART, not_mine()).unwrap();
    storm(control, &flow, UART, 0, 27);
    let reports = reports();
    assert_eq!(reports.len(), 3);
    for report in reports {
        let masked = report.masked.map_err(|error| error.kind());
        assert_eq!(masked, Err(ErrorKind::Unsupported));
    }
    assert!(!interrupts.is_shut_off(UART));
}

#[test]
fn what_bypasses_the_controller_is_reported_and_cannot_be_masked() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let _timer = control.register(TIMER, not_mine()).unwrap();
    for _ in 0..9 {
        let _ = interrupts.dispatch_number(TIMER, &entry(0));
    }
    let [report] = reports()[..] else {
        panic!("one report")
    };
    assert!(report.masked.is_err());
}

#[test]
fn an_end_first_action_that_is_never_its_own_is_found_too() {
    let (interrupts, flow) = (interrupts(9, 10), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let end_first = || Action::end_first(|_, _| Answer::NotMine, 0);
    let _uart = control.register(UART, end_first()).unwrap();
    storm(control, &flow, UART, 0, 9);
    assert_eq!((reports().len(), masks(&flow)), (1, 1));
    // The call may have come back on another CPU, whose private line it would mask.
    let _timer = control.register(TIMER, end_first()).unwrap();
    storm(control, &flow, TIMER, 0, 100);
    assert_eq!((reports().len(), masks(&flow)), (0, 0));
}

#[test]
fn a_storm_reaches_the_threshold_although_nothing_else_runs_on_its_cpu() {
    /// A level line that stays high until it is masked.
    struct Line {
        masked: AtomicBool,
    }
    impl irq_core::Flow for Line {
        type Active = ();
        fn ack(&self, _: &irq_core::IrqContext<'_>) -> Option<(Irq, ())> {
            (!self.masked.load(SeqCst)).then_some((UART, ()))
        }
        fn end(&self, (): ()) {}
        fn defer(&self, (): ()) -> Result<(), Error> {
            Ok(())
        }
        fn hand_over(&self, (): ()) -> Result<(), Error> {
            Ok(())
        }
    }
    impl irq_core::Kick for Line {}
    impl irq_core::Lines for Line {
        fn mask(&self, _: Irq) -> Result<(), Error> {
            self.masked.store(true, SeqCst);
            Ok(())
        }
        fn unmask(&self, _: Irq) -> Result<(), Error> {
            Ok(())
        }
        fn set_trigger(&self, _: Irq, _: irq_core::Trigger) -> Result<(), Error> {
            Ok(())
        }
        fn retrigger(&self, _: Irq) -> Result<(), Error> {
            Ok(())
        }
        fn complete(&self, _: Irq) -> Result<(), Error> {
            Ok(())
        }
        fn state(&self, _: Irq) -> Result<irq_core::LineState, Error> {
            Ok(irq_core::LineState::default())
        }
    }
    let usual = Detector::new(report, 7);
    let interrupts = interrupts(usual.unhandled, usual.of);
    let line = Line {
        masked: AtomicBool::new(false),
    };
    let control = interrupts.control(&CPU, &line);
    control
        .register(UART, not_mine())
        .unwrap()
        .remove()
        .unwrap();
    // As the vector does it: entry after entry, for as long as the line is high.
    let mut entries = 0;
    while interrupts.dispatch(&line, &entry(0)).taken != Taken::Nothing {
        entries += 1;
        assert!(entries <= usual.of, "the line is still on");
    }
    assert_eq!((entries, reports().len()), (usual.unhandled, 1));
}

#[test]
fn without_a_detector_nothing_is_shut_off() {
    let interrupts = common::machine(1, range(32, 4), &[]);
    let flow = Recorder::default();
    let control = interrupts.control(&CPU, &flow);
    let _uart = control.register(UART, not_mine()).unwrap();
    for _ in 0..100_001 {
        let _ = interrupts.dispatch(&Always(UART), &entry(0));
    }
    assert!(!interrupts.is_shut_off(UART));
    assert_eq!(flow.steps(), []);
}

#[test]
fn a_threshold_that_cannot_be_is_refused() {
    for (unhandled, of) in [(0, 10), (0, 0), (11, 10)] {
        let setup = Setup {
            detector: Some(Detector {
                unhandled,
                of,
                ..Detector::new(report, 7)
            }),
            ..Setup::new(1, range(0, 1))
        };
        let error = Interrupts::new(setup).map(drop).unwrap_err();
        let expected = Error::Invalid {
            what: "threshold of the detector",
            value: u64::from(unhandled),
        };
        assert_eq!(error, expected);
    }
}
