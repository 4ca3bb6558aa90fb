// SPDX-License-Identifier: MIT OR Apache-2.0
//! A platform for each thread that plays a CPU, and a controller that writes down what it is
//! asked.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod heap;

use core::alloc::Layout;
use core::cell::Cell;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use irq_core::cpu::{CpuIndex, NodeId, OnCpu};
use irq_core::{
    Control, Flow, Interrupts, Irq, IrqContext, IrqRange, Kick, LineState, Lines, Setup, Trigger,
};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{Error, Mmio, PhysAddr, Platform};

/// Lines of a controller that does nothing when it is asked; `complete` may be told to.
macro_rules! idle_lines {
    ($controller:ty) => {
        $crate::common::idle_lines!($controller, |_| Ok(()));
    };
    ($controller:ty, $complete:expr) => {
        impl irq_core::Lines for $controller {
            fn mask(&self, _: irq_core::Irq) -> Result<(), irq_hal::Error> {
                Ok(())
            }

            fn unmask(&self, _: irq_core::Irq) -> Result<(), irq_hal::Error> {
                Ok(())
            }

            fn set_trigger(
                &self,
                _: irq_core::Irq,
                _: irq_core::Trigger,
            ) -> Result<(), irq_hal::Error> {
                Ok(())
            }

            fn retrigger(&self, _: irq_core::Irq) -> Result<(), irq_hal::Error> {
                Ok(())
            }

            fn complete(&self, _: irq_core::Irq) -> Result<(), irq_hal::Error> {
                let complete: fn(&Self) -> Result<(), irq_hal::Error> = $complete;
                complete(self)
            }

            fn state(&self, _: irq_core::Irq) -> Result<irq_core::LineState, irq_hal::Error> {
                Ok(irq_core::LineState::default())
            }
        }
    };
}
#[allow(unused_imports, reason = "each test binary uses its part")]
pub(crate) use idle_lines;

/// One CPU, with a clock that its own calls move.
pub struct Cpu {
    index: CpuIndex,
    now: Cell<u64>,
    /// What each reading of the clock adds to it, in microseconds.
    pub tick: u64,
    /// Called in `relax`.
    pub on_relax: Option<fn()>,
}

// SAFETY: a value is used by one thread at a time: each test makes one for each of its threads.
unsafe impl Sync for Cpu {}

impl Cpu {
    pub const fn new(index: u32) -> Self {
        Self {
            index: CpuIndex::new(index),
            now: Cell::new(0),
            tick: 1,
            on_relax: None,
        }
    }

    /// A CPU whose patience ends after a few polls.
    pub const fn impatient(index: u32) -> Self {
        Self {
            tick: 200_000,
            ..Self::new(index)
        }
    }
}

// SAFETY: no memory and no window is given out; the test that owns the value is the only one to
// say which CPU it plays.
unsafe impl Platform for Cpu {
    fn dma_alloc(&self, layout: Layout, node: NodeId, _: DmaLimits) -> Result<DmaRegion, Error> {
        Err(Error::OutOfMemory {
            bytes: layout.size(),
            node,
        })
    }

    fn dma_publish(&self, _: &DmaRegion, _: Range<usize>) {}

    fn dma_observe(&self, _: &DmaRegion, _: Range<usize>) {}

    fn map_device(&self, _: PhysAddr, _: usize) -> Result<Mmio, Error> {
        Err(Error::Unsupported { feature: "mapping" })
    }

    fn now(&self) -> Ticks {
        self.now.set(self.now.get() + self.tick);
        Ticks(self.now.get())
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }

    fn relax(&self) {
        if let Some(on_relax) = self.on_relax {
            on_relax();
        }
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        std::thread::yield_now();
    }

    fn this_cpu(&self) -> CpuIndex {
        self.index
    }

    fn irq_save(&self) -> IrqState {
        IrqState(0)
    }

    unsafe fn irq_restore(&self, _: IrqState) {}
}

/// The entry of an interrupt on `cpu`.
pub fn entry<'a>(cpu: u32) -> IrqContext<'a> {
    IrqContext::new(on(cpu), None, None)
}

pub fn on(cpu: u32) -> OnCpu {
    // SAFETY: each test gives each of its threads CPUs of its own.
    unsafe { OnCpu::new(CpuIndex::new(cpu)) }
}

pub fn range(first: u32, count: u32) -> IrqRange {
    IrqRange::new(Irq::new(first), count).unwrap()
}

/// What the controller was asked, in order; actions write themselves in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Ack(u32),
    /// Handed out with the end of the one before.
    Next(u32),
    /// An end left some behind, which are raised again.
    Again,
    Action(u32),
    End(u32),
    Defer(u32),
    HandOver(u32),
    Mask(u32),
    Unmask(u32),
    Complete(u32),
}

/// `cpus` CPUs and the numbers `irqs`, of which those in `private` are private.
pub fn machine(cpus: u32, irqs: IrqRange, private: &[IrqRange]) -> Interrupts {
    let setup = Setup {
        private,
        ..Setup::new(cpus, irqs)
    };
    Interrupts::new(setup).unwrap()
}

/// A controller with a queue of pending interrupts. What `end` gets is the number plus 1000.
#[derive(Default)]
pub struct Recorder {
    pending: Mutex<VecDeque<Irq>>,
    steps: Mutex<Vec<Step>>,
    /// An acknowledge stands for all that is pending.
    pub drains: bool,
    pub cannot_defer: bool,
    pub cannot_complete: AtomicBool,
    pub cannot_mask: AtomicBool,
}

impl Recorder {
    pub fn pending(irqs: &[u32]) -> Self {
        let pending = Mutex::new(irqs.iter().copied().map(Irq::new).collect());
        Self {
            pending,
            ..Self::default()
        }
    }

    pub fn raise(&self, irq: u32) {
        self.pending.lock().unwrap().push_back(Irq::new(irq));
    }

    fn leave(&self) {
        if self.drains && !self.pending.lock().unwrap().is_empty() {
            self.step(Step::Again);
        }
    }

    pub fn step(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }

    /// The steps so far, which are forgotten.
    pub fn take(&self) -> Vec<Step> {
        std::mem::take(&mut self.steps.lock().unwrap())
    }

    pub fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }
}

impl Flow for Recorder {
    type Active = u32;

    fn ack(&self, _: &IrqContext<'_>) -> Option<(Irq, u32)> {
        let irq = self.pending.lock().unwrap().pop_front()?;
        self.step(Step::Ack(irq.get()));
        Some((irq, irq.get() + 1000))
    }

    fn end(&self, active: u32) {
        self.step(Step::End(active - 1000));
        self.leave();
    }

    fn end_and_next(&self, _: &IrqContext<'_>, active: u32) -> Option<(Irq, u32)> {
        self.step(Step::End(active - 1000));
        if !self.drains {
            return None;
        }
        let irq = self.pending.lock().unwrap().pop_front()?;
        self.step(Step::Next(irq.get()));
        Some((irq, irq.get() + 1000))
    }

    fn defer(&self, active: u32) -> Result<(), Error> {
        if self.cannot_defer {
            return Err(Error::Unsupported {
                feature: "deferring",
            });
        }
        self.step(Step::Defer(active - 1000));
        self.leave();
        Ok(())
    }

    fn hand_over(&self, active: u32) -> Result<(), Error> {
        if self.cannot_defer {
            return Err(Error::Unsupported {
                feature: "handing over",
            });
        }
        self.step(Step::HandOver(active - 1000));
        Ok(())
    }
}

impl Kick for Recorder {}

impl Lines for Recorder {
    fn mask(&self, irq: Irq) -> Result<(), Error> {
        if self.cannot_mask.load(SeqCst) {
            return Err(Error::Unsupported { feature: "masking" });
        }
        self.step(Step::Mask(irq.get()));
        Ok(())
    }

    fn unmask(&self, irq: Irq) -> Result<(), Error> {
        self.step(Step::Unmask(irq.get()));
        Ok(())
    }

    fn set_trigger(&self, _: Irq, _: Trigger) -> Result<(), Error> {
        Ok(())
    }

    fn retrigger(&self, irq: Irq) -> Result<(), Error> {
        self.raise(irq.get());
        Ok(())
    }

    fn complete(&self, irq: Irq) -> Result<(), Error> {
        if self.cannot_complete.load(SeqCst) {
            return Err(Error::Unsupported {
                feature: "completing",
            });
        }
        self.step(Step::Complete(irq.get()));
        Ok(())
    }

    fn state(&self, _: Irq) -> Result<LineState, Error> {
        Ok(LineState::default())
    }
}

/// A controller on which one interrupt is always pending; allocates nothing.
pub struct Always(pub Irq);

impl Flow for Always {
    type Active = ();

    fn ack(&self, _: &IrqContext<'_>) -> Option<(Irq, ())> {
        Some((self.0, ()))
    }

    fn end(&self, (): ()) {}

    fn defer(&self, (): ()) -> Result<(), Error> {
        Ok(())
    }

    fn hand_over(&self, (): ()) -> Result<(), Error> {
        Ok(())
    }
}

impl Kick for Always {}

idle_lines!(Always);

/// A controller for tests that ask it for nothing.
pub static LINES: Always = Always(Irq::new(0));

/// The control side on `platform`, with [`LINES`].
pub fn control<'a>(interrupts: &'a Interrupts, platform: &'a Cpu) -> Control<'a> {
    interrupts.control(platform, &LINES)
}
