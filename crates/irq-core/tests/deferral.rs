// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts whose end is put off, or left to somebody else.
#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use common::{Cpu, Recorder, Step, entry, machine, on, range};
use irq_core::cpu::CpuIndex;
use irq_core::{Action, Answer, Control, Interrupts, Irq, Lines, Taken};
use irq_hal::{Error, ErrorKind};

const UART: Irq = Irq::new(33);
const TIMER: Irq = Irq::new(32);

static CPU: Cpu = Cpu::new(0);

/// Two CPUs, one private interrupt.
fn interrupts() -> Interrupts {
    machine(2, range(32, 4), &[range(32, 1)])
}

fn deferring() -> Action {
    Action::new(|_| Answer::Deferred)
}

fn taken(control: Control<'_>, flow: &Recorder, irq: Irq, cpu: u32) -> Taken {
    flow.raise(irq.get());
    control.interrupts().dispatch(flow, &entry(cpu)).taken
}

fn not_deferred(irq: Irq) -> Result<(), Error> {
    Err(Error::NotDeferred { irq: irq.get() })
}

#[test]
fn a_deferred_interrupt_is_completed_once_from_any_cpu() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let other = Cpu::new(1);
    let control = interrupts.control(&other, &flow);
    let _user = control.register(UART, deferring()).unwrap();
    assert_eq!(control.complete(UART), not_deferred(UART));
    for _ in 0..2 {
        assert_eq!(taken(control, &flow, UART, 0), Taken::Deferred);
        assert!(interrupts.is_deferred(UART));
        assert_eq!(control.complete(UART), Ok(()));
        assert!(!interrupts.is_deferred(UART));
        assert_eq!(control.complete(UART), not_deferred(UART));
    }
    let round = [Step::Ack(33), Step::Defer(33), Step::Complete(33)];
    assert_eq!(flow.steps(), [round, round].concat());
    let wrong = control.complete(Irq::new(36)).map_err(|error| error.kind());
    assert_eq!(wrong, Err(ErrorKind::NotFound));
}

#[test]
fn a_completion_that_comes_before_the_deferral_waits_for_it() {
    static WOKEN: AtomicBool = AtomicBool::new(false);
    static WAITS: AtomicBool = AtomicBool::new(false);
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let mut driver = Cpu::new(1);
    driver.on_relax = Some(|| WAITS.store(true, SeqCst));
    let control = interrupts.control(&driver, &flow);
    let wakes = Action::new(|_| {
        WOKEN.store(true, SeqCst);
        // The driver is faster: this call ends only once it waits.
        while !WAITS.load(SeqCst) {
            std::thread::yield_now();
        }
        Answer::Deferred
    });
    let user = control.register(UART, wakes).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let control = interrupts.control(&CPU, &flow);
            assert_eq!(taken(control, &flow, UART, 0), Taken::Deferred);
        });
        while !WOKEN.load(SeqCst) {
            std::thread::yield_now();
        }
        let completed = control.complete(UART);
        WAITS.store(true, SeqCst);
        assert_eq!(completed, Ok(()));
    });
    assert_eq!(
        flow.steps(),
        [Step::Ack(33), Step::Defer(33), Step::Complete(33)]
    );
    user.remove().unwrap();
    assert_eq!(flow.steps().len(), 3);
}

#[test]
fn a_completion_from_inside_its_own_handler_is_an_error_and_from_inside_another_is_not() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    static FLOW: OnceLock<Recorder> = OnceLock::new();
    fn control() -> Control<'static> {
        let interrupts = INTERRUPTS.get_or_init(interrupts);
        interrupts.control(&CPU, FLOW.get_or_init(Recorder::default))
    }
    fn complete() -> Result<(), ErrorKind> {
        control().complete(UART).map_err(|error| error.kind())
    }
    let flow = FLOW.get_or_init(Recorder::default);
    let early = Action::new(|_| {
        assert_eq!(complete(), Err(ErrorKind::Context));
        Answer::Deferred
    });
    let doorbell = Action::new(|_| assert_eq!(complete(), Ok(())));
    let _user = control().register(UART, early).unwrap();
    let _doorbell = control().register(Irq::new(34), doorbell).unwrap();
    assert_eq!(taken(control(), flow, UART, 0), Taken::Deferred);
    assert_eq!(taken(control(), flow, Irq::new(34), 0), Taken::Handled);
    assert!(!control().interrupts().is_deferred(UART));
}

#[test]
fn a_private_interrupt_is_completed_on_its_own_cpu_only() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let (first, second) = (Cpu::new(0), Cpu::new(1));
    let control = [&first, &second].map(|cpu| interrupts.control(cpu, &flow));
    let _timer = control[0].register(TIMER, deferring()).unwrap();
    for cpu in [0, 1] {
        assert_eq!(taken(control[0], &flow, TIMER, cpu), Taken::Deferred);
    }
    assert_eq!(control[1].complete(TIMER), Ok(()));
    assert_eq!(control[1].complete(TIMER), not_deferred(TIMER));
    assert!(interrupts.is_deferred(TIMER));
    assert_eq!(control[0].complete(TIMER), Ok(()));
    assert!(!interrupts.is_deferred(TIMER));
}

#[test]
fn what_the_controller_cannot_complete_stays_deferred() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    flow.cannot_complete.store(true, SeqCst);
    let control = interrupts.control(&CPU, &flow);
    let user = control.register(UART, deferring()).unwrap();
    assert_eq!(taken(control, &flow, UART, 0), Taken::Deferred);
    let failed = control.complete(UART).map_err(|error| error.kind());
    assert_eq!(failed, Err(ErrorKind::Unsupported));
    let (error, user) = user.remove().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(interrupts.is_deferred(UART));
    flow.cannot_complete.store(false, SeqCst);
    user.remove().unwrap();
    assert!(!interrupts.is_deferred(UART));
}

#[test]
fn removing_an_action_that_deferred_masks_and_completes_its_interrupt() {
    for dropped in [false, true] {
        let (interrupts, flow) = (interrupts(), Recorder::default());
        let control = interrupts.control(&CPU, &flow);
        for irq in [UART, TIMER] {
            let user = control.register(irq, deferring()).unwrap();
            assert_eq!(taken(control, &flow, irq, 0), Taken::Deferred);
            if dropped {
                drop(user);
            } else {
                user.remove().unwrap();
            }
            let number = irq.get();
            let steps = flow.take();
            assert_eq!(steps[2..], [Step::Mask(number), Step::Complete(number)]);
            assert_eq!(control.complete(irq), not_deferred(irq));
        }
    }
}

#[test]
fn removing_an_action_whose_interrupt_was_completed_touches_no_line() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let user = control.register(UART, deferring()).unwrap();
    assert_eq!(taken(control, &flow, UART, 0), Taken::Deferred);
    control.complete(UART).unwrap();
    flow.take();
    user.remove().unwrap();
    assert_eq!(flow.steps(), []);
}

#[test]
fn of_shared_actions_the_one_that_deferred_completes_when_it_goes() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let says = |answer| {
        let action = Action::new(move |_| answer).shared();
        Some(control.register(UART, action).unwrap())
    };
    let mut shared = [
        says(Answer::Handled),
        says(Answer::Deferred),
        says(Answer::NotMine),
        // Of two that defer, the first does.
        says(Answer::Deferred),
    ];
    assert_eq!(taken(control, &flow, UART, 0), Taken::Deferred);
    flow.take();
    for other in [0, 2, 3] {
        drop(shared[other].take());
        assert_eq!(flow.steps(), []);
    }
    drop(shared[1].take());
    assert_eq!(flow.steps(), [Step::Mask(33), Step::Complete(33)]);
}

#[test]
fn a_private_interrupt_that_another_cpu_deferred_holds_its_removal_up() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let other = Cpu::new(1);
    let control = interrupts.control(&CPU, &flow);
    let timer = control.register(TIMER, deferring()).unwrap();
    assert_eq!(taken(control, &flow, TIMER, 1), Taken::Deferred);
    let (error, timer) = timer.remove().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    // It runs no more all the same.
    assert_eq!(taken(control, &flow, TIMER, 0), Taken::Unhandled);
    assert!(
        flow.steps()
            .iter()
            .all(|step| !matches!(step, Step::Complete(_)))
    );
    interrupts.control(&other, &flow).complete(TIMER).unwrap();
    timer.remove().unwrap();
}

#[test]
fn an_interrupt_that_is_handed_over_is_neither_ended_nor_completed() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let guest = control
        .register(UART, Action::new(|_| Answer::HandedOver))
        .unwrap();
    assert_eq!(taken(control, &flow, UART, 0), Taken::HandedOver);
    assert_eq!(control.complete(UART), not_deferred(UART));
    guest.remove().unwrap();
    assert_eq!(flow.steps(), [Step::Ack(33), Step::HandOver(33)]);
}

#[test]
fn one_that_hands_over_outweighs_one_that_defers() {
    for answers in [
        [Answer::Deferred, Answer::HandedOver],
        [Answer::HandedOver, Answer::Deferred],
        [Answer::HandedOver, Answer::Handled],
    ] {
        let (interrupts, flow) = (interrupts(), Recorder::default());
        let control = interrupts.control(&CPU, &flow);
        let _shared = answers.map(|answer| {
            let action = Action::new(move |_| answer).shared();
            control.register(UART, action).unwrap()
        });
        assert_eq!(taken(control, &flow, UART, 0), Taken::HandedOver);
        assert!(!interrupts.is_deferred(UART));
    }
}

#[test]
fn where_the_controller_cannot_hand_over_the_interrupt_is_ended_and_handled() {
    let (interrupts, mut flow) = (interrupts(), Recorder::default());
    flow.cannot_defer = true;
    let control = interrupts.control(&CPU, &flow);
    let _guest = control
        .register(UART, Action::new(|_| Answer::HandedOver))
        .unwrap();
    assert_eq!(taken(control, &flow, UART, 0), Taken::Handled);
    assert_eq!(flow.steps(), [Step::Ack(33), Step::End(33)]);
}

#[test]
fn what_bypasses_the_controller_can_be_neither_deferred_nor_handed_over() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    for answer in [Answer::Deferred, Answer::HandedOver] {
        let action = Action::new(move |_| answer);
        let _registered = control.register(UART, action).unwrap();
        let outcome = interrupts.dispatch_number(UART, &entry(0));
        assert_eq!(outcome.taken, Taken::Handled);
        assert!(!interrupts.is_deferred(UART));
    }
    assert_eq!(flow.steps(), []);
}

#[test]
fn an_interrupt_that_somebody_else_acknowledged_is_served_and_ended() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let _uart = control.register(UART, Action::new(|_| ())).unwrap();
    let outcome = interrupts.dispatch_acknowledged(&flow, &entry(1), UART, 1033);
    assert_eq!(outcome.taken, Taken::Handled);
    assert_eq!(flow.steps(), [Step::End(33)]);
}

#[test]
fn a_number_that_bypasses_the_controller_runs_its_actions_and_counts() {
    let (interrupts, calls) = (interrupts(), Arc::new(AtomicU32::new(0)));
    let flow = Recorder::default();
    let control = interrupts.control(&CPU, &flow);
    let counted = calls.clone();
    let action = Action::new(move |cx| {
        assert_eq!((cx.irq(), cx.cpu()), (TIMER, CpuIndex::new(1)));
        counted.fetch_add(1, SeqCst);
    });
    let _decrementer = control.register(TIMER, action).unwrap();
    for number in [TIMER, TIMER, Irq::new(34), Irq::new(99)] {
        let _ = interrupts.dispatch_number(number, &entry(1));
    }
    assert_eq!(calls.load(SeqCst), 2);
    let taken = |irq| interrupts.counts(irq).map(|counts| counts.taken);
    assert_eq!([taken(TIMER), taken(Irq::new(34))], [Some(2), Some(1)]);
    let odd = interrupts.cpu_counts(CpuIndex::new(1)).unwrap();
    assert_eq!(odd.stray, 1);
}

#[test]
fn a_snapshot_says_what_is_deferred() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    let _user = control.register(UART, deferring().named("uart")).unwrap();
    assert_eq!(taken(control, &flow, UART, 0), Taken::Deferred);
    let mut text = String::new();
    interrupts.snapshot(&on(0), &mut text).unwrap();
    assert_eq!(text, "irq33 taken=1 unhandled=0 uart (deferred)\n");
}

#[test]
fn the_control_side_passes_on_to_the_controller() {
    let (interrupts, flow) = (interrupts(), Recorder::default());
    let control = interrupts.control(&CPU, &flow);
    control.mask(UART).unwrap();
    control.unmask(UART).unwrap();
    control.retrigger(UART).unwrap();
    assert_eq!(
        interrupts.dispatch(&flow, &entry(0)).taken,
        Taken::Unhandled
    );
    assert_eq!(
        flow.steps(),
        [
            Step::Mask(33),
            Step::Unmask(33),
            Step::Ack(33),
            Step::End(33)
        ]
    );
    assert_eq!(control.state(UART), Lines::state(&flow, UART));
}
