// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a board has brought up, as the shared scenarios see it.

use irq_core::{Interrupts, Irq, Lines, Outcome};
use irq_hal::Platform;
use irq_hal::percpu::OnCpu;
use irq_hal::platform::Ticks;

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

/// A machine under test.
pub trait Bench {
    /// The platform.
    fn platform(&self) -> &'static dyn Platform;

    /// The interrupts of the machine.
    fn interrupts(&self) -> &'static Interrupts;

    /// Their controller.
    fn lines(&self) -> &'static dyn Lines;

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
}
