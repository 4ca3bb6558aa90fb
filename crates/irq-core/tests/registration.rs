// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting actions on interrupts and taking them off again, also while they run.
#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

use common::{Always, Cpu, control, entry, machine, range};
use irq_core::{Action, ActionContext, Answer, Interrupts, Irq, Registration, Taken};
use irq_hal::{Error, ErrorKind};

const UART: Irq = Irq::new(33);

static CPU: Cpu = Cpu::new(0);

fn interrupts() -> Interrupts {
    machine(4, range(32, 4), &[])
}

fn taken(interrupts: &Interrupts, cpu: u32) -> Taken {
    interrupts.dispatch(&Always(UART), &entry(cpu)).taken
}

/// An action that counts its calls in `calls`.
fn counting(calls: &Arc<AtomicU32>) -> Action {
    let calls = calls.clone();
    Action::new(move |_| _ = calls.fetch_add(1, SeqCst))
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        std::thread::yield_now();
    }
}

/// Lets the other CPU's action go when the test ends, also by a failure.
struct Release(&'static AtomicBool);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_removed_action_runs_no_more_and_its_closure_is_freed() {
    let (interrupts, calls) = (interrupts(), Arc::new(AtomicU32::new(0)));
    let uart = control(&interrupts, &CPU)
        .register(UART, counting(&calls))
        .unwrap();
    assert_eq!((uart.irq(), taken(&interrupts, 1)), (UART, Taken::Handled));
    uart.remove().unwrap();
    assert_eq!(taken(&interrupts, 1), Taken::Unhandled);
    assert_eq!((calls.load(SeqCst), Arc::strong_count(&calls)), (1, 1));
}

#[test]
fn dropping_a_registration_removes_its_action() {
    let (interrupts, calls) = (interrupts(), Arc::new(AtomicU32::new(0)));
    drop(
        control(&interrupts, &CPU)
            .register(UART, counting(&calls))
            .unwrap(),
    );
    assert_eq!(taken(&interrupts, 1), Taken::Unhandled);
    assert_eq!(Arc::strong_count(&calls), 1);
}

#[test]
fn shared_actions_leave_in_any_order_and_the_others_stay() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let interrupts = interrupts();
        let calls = [0, 1, 2].map(|_| Arc::new(AtomicU32::new(0)));
        let mut registered = [0, 1, 2].map(|i: usize| {
            Some(
                control(&interrupts, &CPU)
                    .register(UART, counting(&calls[i]).shared())
                    .unwrap(),
            )
        });
        for (gone, which) in order.into_iter().enumerate() {
            let _ = taken(&interrupts, 0);
            registered[which].take().unwrap().remove().unwrap();
            assert_eq!(calls[which].load(SeqCst), gone as u32 + 1);
            assert_eq!(Arc::strong_count(&calls[which]), 1);
        }
        assert_eq!(taken(&interrupts, 0), Taken::Unhandled);
    }
}

#[test]
fn an_irq_with_an_exclusive_action_takes_no_other_and_one_with_a_shared_no_exclusive() {
    let interrupts = interrupts();
    let exclusive = || Action::new(|_| ());
    let exists = Some(Error::Exists {
        what: "an action that does not share its irq",
    });
    for (first, second) in [
        (exclusive(), exclusive()),
        (exclusive(), exclusive().shared()),
        (exclusive().shared(), exclusive()),
    ] {
        let first = control(&interrupts, &CPU).register(UART, first).unwrap();
        assert_eq!(
            control(&interrupts, &CPU)
                .register(UART, second.clone())
                .err(),
            exists
        );
        first.remove().unwrap();
        assert!(control(&interrupts, &CPU).register(UART, second).is_ok());
    }
}

#[test]
fn what_cannot_be_registered_says_so() {
    fn tick(_: usize, _: &ActionContext<'_>) -> Answer {
        Answer::Handled
    }
    let interrupts = interrupts();
    for wrong in [0, 31, 36, u32::MAX] {
        let error = control(&interrupts, &CPU)
            .register(Irq::new(wrong), Action::word(tick, 0))
            .err();
        assert_eq!(error, Some(Error::NoSuchIrq { irq: wrong }));
    }
    let shared = Action::end_first(tick, 0).shared();
    let error = control(&interrupts, &CPU).register(UART, shared).err();
    assert_eq!(
        error.map(|error| error.kind()),
        Some(ErrorKind::Unsupported)
    );
}

#[test]
fn removal_waits_for_the_action_that_runs_on_another_cpu() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicBool = AtomicBool::new(false);
    let interrupts = interrupts();
    // The action ends only once the remover waits for it.
    let mut remover = Cpu::new(0);
    remover.on_relax = Some(|| RELEASE.store(true, SeqCst));
    let action = Action::new(|_| {
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
        FINISHED.store(true, SeqCst);
    });
    let slow = control(&interrupts, &remover)
        .register(UART, action)
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(taken(&interrupts, 1), Taken::Handled));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        slow.remove().unwrap();
        assert!(FINISHED.load(SeqCst));
    });
}

#[test]
fn a_removal_that_times_out_gives_the_registration_back_and_can_be_repeated() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    let (interrupts, impatient) = (interrupts(), Cpu::impatient(0));
    let calls = Arc::new(AtomicU32::new(0));
    let stuck = calls.clone();
    let action = Action::new(move |_| {
        stuck.fetch_add(1, SeqCst);
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
    });
    let slow = control(&interrupts, &impatient)
        .register(UART, action.shared())
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(taken(&interrupts, 1), Taken::Handled));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        let (error, slow) = slow.remove().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        // It is unpublished already, and nothing was freed under the running action.
        assert_eq!(taken(&interrupts, 2), Taken::Unhandled);
        assert!(Arc::strong_count(&calls) > 1);
        // Nobody else gets past it either.
        let other = control(&interrupts, &impatient).register(UART, Action::new(|_| ()));
        assert_eq!(
            other.err().map(|error| error.kind()),
            Some(ErrorKind::Timeout)
        );
        RELEASE.store(true, SeqCst);
        // The other thread ends its action soon; this CPU waits for it with patience.
        let patient = Cpu::new(0);
        control(&interrupts, &patient)
            .register(UART, Action::new(|_| ()))
            .unwrap()
            .remove()
            .unwrap();
        slow.remove().unwrap();
        assert_eq!((Arc::strong_count(&calls), calls.load(SeqCst)), (1, 1));
    });
}

#[test]
fn an_action_that_joins_while_others_run_is_registered_and_the_next_change_waits() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicBool = AtomicBool::new(false);
    let (interrupts, impatient) = (interrupts(), Cpu::impatient(0));
    let mut releasing = Cpu::new(0);
    releasing.on_relax = Some(|| RELEASE.store(true, SeqCst));
    let action = Action::new(|_| {
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
        FINISHED.store(true, SeqCst);
    });
    let slow = control(&interrupts, &releasing)
        .register(UART, action.shared())
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(taken(&interrupts, 1), Taken::Handled));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        // The old list is in use and cannot be waited for; the new one is published anyway.
        let joined = control(&interrupts, &impatient)
            .register(UART, Action::new(|_| ()).shared())
            .unwrap();
        assert!(!FINISHED.load(SeqCst));
        // Removing the slow action waits for the list that it still runs from.
        slow.remove().unwrap();
        assert!(FINISHED.load(SeqCst));
        assert_eq!(taken(&interrupts, 2), Taken::Handled);
        drop(joined);
    });
}

#[test]
fn changing_actions_from_inside_a_handler_is_an_error_and_changes_nothing() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    static OWN: Mutex<Option<Registration<'static>>> = Mutex::new(None);
    static ERRORS: AtomicU32 = AtomicU32::new(0);
    INTERRUPTS.set(interrupts()).ok().unwrap();
    let interrupts = INTERRUPTS.get().unwrap();
    let action = Action::new(|_| {
        let mut own = OWN.lock().unwrap();
        let (error, back) = own.take().unwrap().remove().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Context);
        *own = Some(back);
        let other =
            control(INTERRUPTS.get().unwrap(), &CPU).register(Irq::new(34), Action::new(|_| ()));
        assert_eq!(
            other.err().map(|error| error.kind()),
            Some(ErrorKind::Context)
        );
        ERRORS.fetch_add(1, SeqCst);
    });
    *OWN.lock().unwrap() = Some(control(interrupts, &CPU).register(UART, action).unwrap());
    for _ in 0..2 {
        assert_eq!(taken(interrupts, 0), Taken::Handled);
    }
    assert_eq!(ERRORS.load(SeqCst), 2);
    OWN.lock().unwrap().take().unwrap().remove().unwrap();
    assert_eq!(taken(interrupts, 0), Taken::Unhandled);
}

#[test]
fn removal_from_inside_a_handler_does_not_wait_for_what_that_handler_holds_up() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    static OWN: Mutex<Option<Registration<'static>>> = Mutex::new(None);
    static OTHER: Cpu = Cpu::impatient(1);
    INTERRUPTS.set(interrupts()).ok().unwrap();
    let interrupts = INTERRUPTS.get().unwrap();
    let action = Action::new(|_| {
        // Another CPU gives up waiting for this very call.
        let joined = Action::new(|_| ()).shared();
        let joined = control(INTERRUPTS.get().unwrap(), &OTHER)
            .register(UART, joined)
            .unwrap();
        let (error, own) = OWN.lock().unwrap().take().unwrap().remove().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Context);
        std::mem::forget((joined, own));
    });
    let own = control(interrupts, &CPU)
        .register(UART, action.shared())
        .unwrap();
    *OWN.lock().unwrap() = Some(own);
    assert_eq!(taken(interrupts, 0), Taken::Handled);
}

#[test]
fn removal_does_not_wait_for_an_end_first_action_that_never_returns() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    fn idle(_: usize, _: &ActionContext<'_>) -> Answer {
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
        Answer::Handled
    }
    let interrupts = interrupts();
    let idling = control(&interrupts, &CPU)
        .register(UART, Action::end_first(idle, 0))
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| taken(&interrupts, 1));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        idling.remove().unwrap();
        assert!(!RELEASE.load(SeqCst));
        RELEASE.store(true, SeqCst);
    });
}

#[test]
fn a_closure_may_change_actions_of_its_own_irq_when_it_is_freed() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    INTERRUPTS.set(interrupts()).ok().unwrap();
    let interrupts = INTERRUPTS.get().unwrap();
    let shared = || Action::new(|_| ()).shared();
    let inner = control(interrupts, &CPU).register(UART, shared()).unwrap();
    let owner = Mutex::new(Some(inner));
    let action = Action::new(move |_| _ = owner.lock().is_ok()).shared();
    control(interrupts, &CPU)
        .register(UART, action)
        .unwrap()
        .remove()
        .unwrap();
    assert_eq!(taken(interrupts, 0), Taken::Unhandled);
}

#[test]
fn a_wait_for_handlers_ends_with_those_that_ran_at_the_call() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicBool = AtomicBool::new(false);
    let interrupts = interrupts();
    let mut waiter = Cpu::new(0);
    waiter.on_relax = Some(|| RELEASE.store(true, SeqCst));
    let action = Action::new(|_| {
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
        FINISHED.store(true, SeqCst);
    });
    let control = control(&interrupts, &waiter);
    assert_eq!(control.synchronize(UART), Ok(()));
    let _slow = control.register(UART, action).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(taken(&interrupts, 1), Taken::Handled));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        // Another interrupt's handlers are not waited for.
        assert_eq!(control.synchronize(Irq::new(34)), Ok(()));
        assert!(!FINISHED.load(SeqCst));
        assert_eq!(control.synchronize(UART), Ok(()));
        assert!(FINISHED.load(SeqCst));
    });
    let unknown = control.synchronize(Irq::new(36));
    assert_eq!(unknown, Err(Error::NoSuchIrq { irq: 36 }));
}

#[test]
fn a_wait_for_a_handler_that_does_not_end_is_bounded() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    let (interrupts, impatient) = (interrupts(), Cpu::impatient(0));
    let control = control(&interrupts, &impatient);
    let action = Action::new(|_| {
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
    });
    let stuck = control.register(UART, action).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| taken(&interrupts, 1));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        let waited = control.synchronize(UART).map_err(|error| error.kind());
        assert_eq!(waited, Err(ErrorKind::Timeout));
    });
    stuck.remove().unwrap();
}

#[test]
fn a_wait_for_handlers_sees_those_of_a_list_that_a_change_replaced() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static RELEASE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicBool = AtomicBool::new(false);
    let (interrupts, impatient) = (interrupts(), Cpu::impatient(0));
    let mut releasing = Cpu::new(0);
    releasing.on_relax = Some(|| RELEASE.store(true, SeqCst));
    let action = Action::new(|_| {
        STARTED.store(true, SeqCst);
        wait_for(&RELEASE);
        FINISHED.store(true, SeqCst);
    });
    let control = control(&interrupts, &releasing);
    let _slow = control.register(UART, action.shared()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| taken(&interrupts, 1));
        let _release = Release(&RELEASE);
        wait_for(&STARTED);
        let joined = Action::new(|_| ()).shared();
        let joined = common::control(&interrupts, &impatient).register(UART, joined);
        assert!(joined.is_ok() && !FINISHED.load(SeqCst));
        assert_eq!(control.synchronize(UART), Ok(()));
        assert!(FINISHED.load(SeqCst));
        std::mem::forget(joined);
    });
}

#[test]
fn waiting_for_handlers_from_inside_one_is_an_error() {
    static INTERRUPTS: OnceLock<Interrupts> = OnceLock::new();
    INTERRUPTS.set(interrupts()).ok().unwrap();
    let interrupts = INTERRUPTS.get().unwrap();
    let action = Action::new(|_| {
        for irq in [UART, Irq::new(34)] {
            let waited = control(INTERRUPTS.get().unwrap(), &CPU).synchronize(irq);
            assert_eq!(
                waited.map_err(|error| error.kind()),
                Err(ErrorKind::Context)
            );
        }
    });
    let _uart = control(interrupts, &CPU).register(UART, action).unwrap();
    assert_eq!(taken(interrupts, 0), Taken::Handled);
}

/// Says that a thread is done, also when it fails.
struct Done<'a>(&'a AtomicU32);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn actions_come_and_go_on_two_cpus_while_two_others_take_the_interrupt() {
    const ROUNDS: usize = 100;
    let interrupts = interrupts();
    let (going, calls) = (AtomicU32::new(2), Arc::new(AtomicU32::new(0)));
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            let (interrupts, going, calls) = (&interrupts, &going, &calls);
            scope.spawn(move || {
                let _done = Done(going);
                let mut cpu = Cpu::new(cpu);
                cpu.tick = 0;
                for _ in 0..ROUNDS {
                    let alive = Arc::new(AtomicBool::new(true));
                    let (calls, seen) = (calls.clone(), alive.clone());
                    let action = Action::new(move |_| {
                        assert!(seen.load(SeqCst), "an action ran after its removal");
                        calls.fetch_add(1, SeqCst);
                    });
                    let registration = control(interrupts, &cpu)
                        .register(UART, action.shared())
                        .unwrap();
                    std::thread::yield_now();
                    registration.remove().unwrap();
                    alive.store(false, SeqCst);
                    assert_eq!(Arc::strong_count(&alive), 1);
                }
            });
        }
        for cpu in 2..4 {
            let (interrupts, going) = (&interrupts, &going);
            scope.spawn(move || {
                while going.load(SeqCst) > 0 {
                    let _ = taken(interrupts, cpu);
                }
            });
        }
    });
    assert_eq!(taken(&interrupts, 0), Taken::Unhandled);
    assert_eq!(Arc::strong_count(&calls), 1);
}
