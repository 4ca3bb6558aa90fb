// SPDX-License-Identifier: MIT OR Apache-2.0
//! A platform for each thread that plays a CPU, and a controller that writes down what it is
//! asked.
#![allow(dead_code, reason = "each test binary uses its part")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Mutex;

use irq_core::cpu::{CpuIndex, NodeId, OnCpu};
use irq_core::{Flow, Irq, IrqContext, IrqRange};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{Error, Mmio, PhysAddr, Platform};

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
    Action(u32),
    End(u32),
    Defer(u32),
}

/// A controller with a queue of pending interrupts. What `end` gets is the number plus 1000.
#[derive(Default)]
pub struct Recorder {
    pending: Mutex<VecDeque<Irq>>,
    steps: Mutex<Vec<Step>>,
    pub cannot_defer: bool,
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

    pub fn step(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
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
    }

    fn defer(&self, active: u32) -> Result<(), Error> {
        if self.cannot_defer {
            return Err(Error::Unsupported {
                feature: "deferring",
            });
        }
        self.step(Step::Defer(active - 1000));
        Ok(())
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
}
