// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a board has brought up, as the shared scenarios see it.

use core::ptr::NonNull;

use irq_core::cpu::CpuSet;
use irq_core::{Control, Controller, Interrupts, Irq, Outcome};
use irq_core::{IpiKind, Sent};
use irq_hal::percpu::{self, OnCpu};
use irq_hal::platform::Ticks;
use irq_hal::{CpuIndex, Error};

use crate::crew::Crew;
use crate::machine::Machine;

/// A timer of the CPU it is called on, with an interrupt of its own.
pub trait Timer: Sync {
    /// Its interrupt.
    fn irq(&self) -> Irq;

    /// Whether its interrupt bypasses the controller, which can neither mask it nor make it
    /// pending: then nothing but [`arm`](Self::arm) and [`stop`](Self::stop) decides.
    fn bypasses(&self) -> bool {
        false
    }

    /// Lets the interrupt come at `at`, and no more after it until armed again.
    fn arm(&self, at: Ticks);

    /// Takes the interrupt back.
    fn stop(&self);
}

/// A device whose line is level-triggered and high as long as software lets it.
pub trait LevelDevice: Sync {
    /// Its interrupt.
    fn irq(&self) -> Irq;

    /// Whether [`raise`](Self::raise) will have an effect.
    fn ready(&self) -> bool;

    /// Raises the line.
    fn raise(&self);

    /// Lowers the line; it is low at the controller when this returns.
    fn lower(&self);
}

/// A line that a test can raise.
#[derive(Clone, Copy)]
pub enum Source {
    /// An edge that the controller makes pending.
    Edge(Irq),
    /// The timer of the CPU that raises it: an edge, armed for now.
    Timer(&'static dyn Timer),
    /// A device's level.
    Level(&'static dyn LevelDevice),
}

impl Source {
    /// Its interrupt.
    pub fn irq(&self) -> Irq {
        match self {
            Self::Edge(irq) => *irq,
            Self::Timer(timer) => timer.irq(),
            Self::Level(device) => device.irq(),
        }
    }

    /// Raises it. A level stays raised until it is lowered.
    ///
    /// # Errors
    /// The controller's.
    pub fn raise<B: Bench>(&self, bench: &B) -> Result<(), Error> {
        match self {
            Self::Edge(irq) => bench.control().retrigger(*irq),
            Self::Timer(timer) => {
                timer.arm(bench.machine().now());
                Ok(())
            }
            Self::Level(device) => {
                device.raise();
                Ok(())
            }
        }
    }

    /// Takes back what [`raise`](Self::raise) did, as far as it lasts.
    pub fn lower(&self) {
        match self {
            Self::Edge(_) => {}
            Self::Timer(timer) => timer.stop(),
            Self::Level(device) => device.lower(),
        }
    }
}

/// How the machine switches stacks.
///
/// # Safety
/// An implementation keeps, over [`switch`](Self::switch), what the machine's procedure call
/// standard keeps over a call.
pub unsafe trait Stacks: Sync {
    /// Lays a stack out so that the first switch to it calls `entry(word)`. Returns what to
    /// switch to.
    ///
    /// # Safety
    /// - The memory below `top`, which is aligned to 16 bytes, is a stack's and in nobody's use,
    ///   until no code runs on it any more.
    unsafe fn prepare(
        &self,
        top: NonNull<u8>,
        entry: extern "C" fn(usize) -> !,
        word: usize,
    ) -> usize;

    /// Goes on where `to` was stored, or for the first time in what was prepared; returns when
    /// somebody switches to what is stored in `save`.
    ///
    /// # Safety
    /// - `to` came from `prepare` or was stored by `switch`, and was not switched to since.
    /// - `save` is valid for a store.
    /// - Interrupts are masked, so that none of this CPU runs in between.
    unsafe fn switch(&self, save: NonNull<usize>, to: usize);
}

/// A machine under test: a handle that jobs copy.
pub trait Bench: Copy + Send + Sync + 'static {
    /// Its interrupt controller's driver.
    type Controller: Controller + 'static;

    /// The machine itself.
    fn machine(&self) -> &'static dyn Machine;

    /// The interrupts of the machine.
    fn interrupts(&self) -> &'static Interrupts;

    /// Their controller.
    fn controller(&self) -> &'static Self::Controller;

    /// Its CPUs.
    fn crew(&self) -> &'static Crew;

    /// How many CPUs, counted from the first, may come online.
    fn possible_cpus(&self) -> u32;

    /// Starts `cpu`, which is off. It reports to the crew.
    ///
    /// # Errors
    /// What firmware says.
    fn start(&self, cpu: CpuIndex) -> Result<(), Error>;

    /// Whether `cpu` is off.
    ///
    /// # Errors
    /// What firmware says.
    fn is_off(&self, cpu: CpuIndex) -> Result<bool, Error>;

    /// Sends the device interrupt `irq` to `cpu` from now on. Nothing where `retrigger` raises it
    /// on the CPU that calls.
    ///
    /// # Errors
    /// The controller's.
    fn route(&self, irq: Irq, cpu: CpuIndex) -> Result<(), Error>;

    /// How to switch stacks.
    ///
    /// # Errors
    /// Why the image cannot.
    fn stacks(&self) -> Result<&'static dyn Stacks, &'static str>;

    /// The CPU's timer.
    fn timer(&self) -> &'static dyn Timer;

    /// A device for the level tests.
    ///
    /// # Errors
    /// Why there is none.
    fn device(&self) -> Result<&'static dyn LevelDevice, &'static str>;

    /// A line without a device, set to edges, that the controller can make pending.
    ///
    /// # Errors
    /// Why there is none.
    fn spare_edge(&self) -> Result<Irq, &'static str>;

    /// Whether an edge of [`spare_edge`](Self::spare_edge) that comes while it is masked is kept.
    ///
    /// # Errors
    /// Why it is not.
    fn keeps_edges(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Whether a line that is high while it is masked is told as pending.
    fn shows_masked_levels(&self) -> bool {
        true
    }

    /// An edge that the controller can mask, for the test of a line that nobody owns up to.
    ///
    /// # Errors
    /// Why there is none.
    fn unclaimed(&self) -> Result<Source, &'static str> {
        self.spare_edge().map(Source::Edge)
    }

    /// A line whose action can defer its end, as the controller is configured.
    ///
    /// # Errors
    /// Why there is none.
    fn deferred(&self) -> Result<Source, &'static str>;

    /// How many register writes a send to all of `cpus` takes, where that is not one for each.
    fn multicast_writes(&self, cpus: &dyn CpuSet) -> Option<u32> {
        let _ = cpus;
        None
    }

    /// Enters interrupt handling by hand, as the vector would; `on` was made masked.
    fn enter(&self, on: &OnCpu) -> Outcome;

    /// Whether the controller can mask `irq`.
    fn maskable(&self, irq: Irq) -> bool {
        let timer = self.timer();
        !(timer.bypasses() && timer.irq() == irq)
    }

    /// The control side of the interrupts.
    fn control(&self) -> Control<'static> {
        self.interrupts().control(self.machine(), self.controller())
    }

    /// Sends an IPI from this CPU.
    ///
    /// # Errors
    /// Those of [`Interrupts::send`].
    fn send(&self, to: CpuIndex, kind: IpiKind) -> Result<Sent, Error> {
        percpu::masked(self.machine(), |on| {
            self.interrupts().send(self.controller(), on, to, kind)
        })
    }
}
