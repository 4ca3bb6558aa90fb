// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms of actions that kernels have, and the ends of their registrations, on the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use irq_core::{Action, ActionContext, Answer, Taken};
use irq_gicv3::EoiMode;
use irq_tests::system::{Plan, System};

const SPI: u32 = 40;

fn system() -> &'static System {
    Box::leak(Box::new(System::new(&Plan {
        eoi_mode: EoiMode::Split,
        ..Plan::new(2, 1)
    })))
}

/// The line fires once, on CPU 0.
fn fire(system: &System) -> Taken {
    let irq = system.irq(SPI);
    system.control().unmask(irq).unwrap();
    system.control().retrigger(irq).unwrap();
    system.take(0).expect("an interrupt").taken
}

static WORD: AtomicU32 = AtomicU32::new(0);

fn add(word: usize, _: &ActionContext<'_>) -> Answer {
    WORD.fetch_add(word as u32, Relaxed);
    Answer::Handled
}

#[test]
fn a_closure_that_shares_one_that_changes_its_own_and_a_function_with_a_word_are_actions() {
    let system = system();
    let (irq, control) = (system.irq(SPI), system.control());
    let seen = Arc::new(AtomicU32::new(0));

    let count = Arc::clone(&seen);
    // It returns nothing: handled.
    let shared = Action::new(move |_| {
        count.fetch_add(1, Relaxed);
    });
    let registration = control.register(irq, shared).unwrap();
    assert_eq!(fire(system), Taken::Handled);
    assert_eq!(seen.load(Relaxed), 1);
    registration.remove().unwrap();

    let (count, mut own) = (Arc::clone(&seen), 10);
    let exclusive = Action::exclusive(move |_| {
        own += 1;
        count.store(own, Relaxed);
    });
    let registration = control.register(irq, exclusive).unwrap();
    for calls in 1..=2 {
        assert_eq!(fire(system), Taken::Handled);
        assert_eq!(seen.load(Relaxed), 10 + calls);
    }
    registration.remove().unwrap();

    let registration = control.register(irq, Action::word(add, 7)).unwrap();
    assert_eq!(fire(system), Taken::Handled);
    assert_eq!(WORD.load(Relaxed), 7);
    registration.remove().unwrap();
}

static TICKS: AtomicU32 = AtomicU32::new(0);

/// A timer whose tick may come back on another stack: here the next one comes within it.
fn tick(system: usize, cx: &ActionContext<'_>) -> Answer {
    // SAFETY: the word is the address of the test's leaked system.
    let system = unsafe { &*std::ptr::with_exposed_provenance::<System>(system) };
    assert_eq!(system.machine.model.handling(0), [], "nothing is active");
    if TICKS.fetch_add(1, Relaxed) == 0 {
        system.control().retrigger(cx.irq()).unwrap();
        let again = system.on(0, |on| system.enter(on));
        assert_eq!(again.taken, Taken::Handled);
    }
    Answer::Handled
}

#[test]
fn an_end_first_timer_ticks_again_inside_its_own_action() {
    let system = system();
    let timer = system.irq(27);
    let word = std::ptr::from_ref(system).expose_provenance();
    let action = Action::end_first(tick, word);
    let registration = system.control().register(timer, action).unwrap();
    system.on(0, |_| {
        system.control().unmask(timer).unwrap();
        system.control().retrigger(timer).unwrap();
    });
    assert_eq!(system.take(0).unwrap().taken, Taken::Handled);
    assert_eq!(TICKS.load(Relaxed), 2);
    registration.remove().unwrap();
}

#[test]
fn a_registration_that_is_dropped_while_a_cpu_runs_its_action_leaks_and_frees_nothing() {
    let system = system();
    let irq = system.irq(SPI);
    let kept = Arc::new(std::sync::Mutex::new(None));
    let (slot, alive) = (Arc::clone(&kept), Arc::new(()));
    let owned = Arc::clone(&alive);
    let action = Action::new(move |_| {
        // CPU 0 is in here: CPU 1 waits for it, in vain.
        let registration = slot.lock().unwrap().take();
        system.on(1, |_| drop(registration));
        assert_eq!(Arc::strong_count(&owned), 2, "the closure is alive");
    });
    let registration = system.control().register(irq, action).unwrap();
    *kept.lock().unwrap() = Some(registration);
    assert_eq!(fire(system), Taken::Handled);
    assert!(kept.lock().unwrap().is_none());
    assert_eq!(Arc::strong_count(&alive), 2, "leaked, not freed");
}

#[test]
fn a_registration_that_is_dropped_with_its_interrupt_deferred_masks_and_completes_it() {
    let system = system();
    let irq = system.irq(SPI);
    let action = Action::new(|_| Answer::Deferred);
    let registration = system.control().register(irq, action).unwrap();
    assert_eq!(fire(system), Taken::Deferred);
    assert!(system.machine.model.source(SPI).active);
    system.on(1, |_| drop(registration));
    let state = system.control().state(irq).unwrap();
    assert_eq!((state.active, state.masked), (false, true));
    // Completed once, and not owed any more.
    let action = Action::new(|_| Answer::Handled);
    let next = system.control().register(irq, action).unwrap();
    assert_eq!(fire(system), Taken::Handled);
    next.remove().unwrap();
    assert!(!system.control().state(irq).unwrap().masked);
}
