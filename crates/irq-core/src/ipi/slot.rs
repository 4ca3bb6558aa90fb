// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one remote call that a CPU can wait for.
//!
//! A slot holds the function, its word, its result and a countdown of targets. Nothing is
//! borrowed from the caller: while a target uses the slot it stays as it is, even if the caller
//! has given up meanwhile.

use irq_hal::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use irq_hal::callback::{Callback, CallbackCell};
use irq_hal::{CpuIndex, Error};

use super::callers::Caller;

/// The function unwound nowhere.
const NOWHERE: u32 = u32::MAX;

/// A CPU's slot.
#[derive(Debug)]
pub(super) struct Slot {
    /// The CPU waits. Changed by that CPU alone; interrupts may come in between.
    busy: AtomicBool,
    function: CallbackCell,
    word: AtomicUsize,
    /// How many targets have not ended the call.
    countdown: AtomicU32,
    result: AtomicUsize,
    /// A CPU on which the function unwound.
    unwound: AtomicU32,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            function: CallbackCell::new(),
            word: AtomicUsize::new(0),
            countdown: AtomicU32::new(0),
            result: AtomicUsize::new(0),
            unwound: AtomicU32::new(NOWHERE),
        }
    }

    /// Takes the slot for a call of `function`.
    pub(super) fn begin(&self, function: Callback, word: usize) -> Result<(), Error> {
        let busy = Error::Busy {
            what: "the remote call of the CPU",
        };
        if self.busy.swap(true, Ordering::Relaxed) {
            return Err(busy);
        }
        if self.left() != 0 {
            // A target still uses what an earlier call left.
            self.give_back();
            return Err(busy);
        }
        self.function.set(function);
        self.word.store(word, Ordering::Relaxed);
        self.unwound.store(NOWHERE, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the slot back. It is free once no target is left.
    pub(super) fn give_back(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// One target more.
    pub(super) fn add(&self) {
        self.countdown.fetch_add(1, Ordering::Relaxed);
    }

    /// One target less: it never began.
    pub(super) fn withdraw(&self) {
        self.countdown.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many targets have not ended the call.
    pub(super) fn left(&self) -> u32 {
        // Acquire: pairs with the release in `Run::drop`.
        self.countdown.load(Ordering::Acquire)
    }

    /// What the function returned, once no target is left.
    pub(super) fn result(&self) -> Result<usize, Error> {
        match self.unwound.load(Ordering::Relaxed) {
            NOWHERE => Ok(self.result.load(Ordering::Relaxed)),
            cpu => Err(Error::Unwound {
                cpu: CpuIndex::new(cpu),
            }),
        }
    }

    /// Runs the function on `cpu`, which has claimed the call of `caller`.
    pub(super) fn run(&self, cpu: CpuIndex, caller: Caller<'_>) {
        let mut run = Run {
            slot: self,
            cpu,
            caller,
            returned: None,
        };
        // The claim acquired what the caller wrote.
        if let Some(function) = self.function.get() {
            run.returned = Some(function(self.word.load(Ordering::Relaxed), cpu));
        }
    }
}

/// The function while it runs; dropped when it returned, or unwound.
struct Run<'a> {
    slot: &'a Slot,
    cpu: CpuIndex,
    caller: Caller<'a>,
    returned: Option<usize>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        match self.returned {
            Some(result) => self.slot.result.store(result, Ordering::Relaxed),
            None => self.slot.unwound.store(self.cpu.get(), Ordering::Relaxed),
        }
        // Release: pairs with the acquire in `left`, for the result and for all that the
        // function did. The slot may serve the caller's next call from here on.
        self.slot.countdown.fetch_sub(1, Ordering::Release);
        self.caller.ended();
    }
}
