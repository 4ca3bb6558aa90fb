// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a board has brought up, as the shared scenarios see it.

use core::ptr::NonNull;

use irq_core::{Control, Controller, Interrupts, Irq, Outcome};
use irq_core::{IpiKind, Sent};
use irq_hal::percpu::{self, OnCpu};
use irq_hal::platform::Ticks;
use irq_hal::{CpuIndex, Error};

use crate::crew::Crew;
use crate::machine::Machine;

/// A timer of the CPU it is called on, with an interrupt line of its own.
pub trait Timer: Sync {
    /// Its interrupt.
    fn irq(&self) -> Irq;

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

    /// Sends the device interrupt `irq` to `cpu` from now on.
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

    /// Whether an action can defer the end of its interrupt, as the controller is configured.
    fn can_defer(&self) -> bool;

    /// Enters interrupt handling by hand, as the vector would; `on` was made masked.
    fn enter(&self, on: &OnCpu) -> Outcome;

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
