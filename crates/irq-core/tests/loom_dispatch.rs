// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of changes against a dispatch. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p irq-core --release --test loom_dispatch`.
#![cfg(loom)]

mod common;

use std::sync::Arc;

use common::{Always, Cpu, entry, range};
use irq_core::{Action, Interrupts, Irq, Taken};
use loom::cell::UnsafeCell;
use loom::thread;

static CPU: Cpu = Cpu::new(1);
const UART: Irq = Irq::new(0);

/// What an action uses. loom checks that each use comes before the write of whoever removed
/// the action.
struct Device(UnsafeCell<u32>);

// SAFETY: unordered accesses are what the tests look for; loom reports them before they happen.
unsafe impl Sync for Device {}
// SAFETY: as for `Sync`.
unsafe impl Send for Device {}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn action(self: &Arc<Self>) -> Action {
        let device = self.clone();
        // SAFETY: loom has checked that no write is concurrent.
        Action::new(move |_| device.0.with(|value| assert_eq!(unsafe { *value }, 0))).shared()
    }

    fn gone(&self) {
        // SAFETY: loom has checked that no access is concurrent.
        self.0.with_mut(|value| unsafe { *value = 1 });
    }
}

/// Dispatches once on CPU 0 while `change` runs on CPU 1.
fn against(change: impl Fn(&Interrupts) -> Taken + Send + Sync + Copy + 'static) {
    loom::model(move || {
        let interrupts = Arc::new(Interrupts::new(2, range(0, 1)).unwrap());
        let cpu = thread::spawn({
            let interrupts = interrupts.clone();
            move || _ = interrupts.dispatch(&Always(UART), &entry(0))
        });
        let after = change(&interrupts);
        cpu.join().unwrap();
        assert_eq!(interrupts.dispatch(&Always(UART), &entry(0)).taken, after);
        assert_eq!(interrupts.counts(UART).unwrap().taken, 2);
    });
}

#[test]
fn after_a_removal_no_cpu_runs_the_action() {
    against(|interrupts| {
        let device = Device::new();
        interrupts
            .register(&CPU, UART, device.action())
            .unwrap()
            .remove()
            .unwrap();
        device.gone();
        Taken::Unhandled
    });
}

#[test]
fn of_two_shared_actions_the_one_that_stays_runs_on_and_the_other_is_gone() {
    against(|interrupts| {
        let (first, second) = (Device::new(), Device::new());
        let one = interrupts.register(&CPU, UART, first.action()).unwrap();
        let other = interrupts.register(&CPU, UART, second.action()).unwrap();
        one.remove().unwrap();
        first.gone();
        // It stays: its owner forgets it.
        std::mem::forget(other);
        Taken::Handled
    });
}
