// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a controller's driver implements for irq-core.
//!
//! [`Flow`] and [`Kick`] are hot paths and used by generics; [`Lines`] is control and may be a
//! `&dyn Lines`. Dispatch wants all three of one driver: a [`Controller`].

use irq_hal::{CpuIndex, Error};

use crate::context::IrqContext;
use crate::cpu::CpuSet;
use crate::irq::{Irq, LineState, Trigger};

/// Acknowledge and end: the hot half of a driver.
///
/// Both run masked on the CPU that took the interrupt, take no lock and allocate nothing.
pub trait Flow: Sync {
    /// What the driver needs to end an acknowledged interrupt: the INTID, the queue's place.
    type Active: Copy;

    /// Takes the most urgent pending interrupt of this CPU, as a number of ours.
    ///
    /// `None` means that nothing is pending, or that the controller answered with one of its
    /// special numbers: there is nothing to end then.
    ///
    /// # Context
    /// Interrupts masked, on the CPU of `cx`.
    fn ack(&self, cx: &IrqContext<'_>) -> Option<(Irq, Self::Active)>;

    /// Ends an interrupt that `ack` or `end_and_next` handed out on this CPU: priority and source
    /// both. Nothing that the same acknowledge stands for is lost: it is raised again.
    ///
    /// # Context
    /// As `ack`; once for each interrupt handed out, unless `end_and_next`, `defer` or
    /// `hand_over` did it.
    fn end(&self, active: Self::Active);

    /// Ends an interrupt, and takes what its acknowledge stands for beside it, if there is
    /// anything. Where an acknowledge stands for a priority (XIVE), that is the next of a queue;
    /// elsewhere there is nothing, and the controller raises what else is pending. A driver
    /// bounds how many one acknowledge hands out, so that more urgent ones get in.
    ///
    /// # Context
    /// As `end`, and instead of it, with the `cx` of `ack`.
    #[inline(always)]
    fn end_and_next(
        &self,
        cx: &IrqContext<'_>,
        active: Self::Active,
    ) -> Option<(Irq, Self::Active)> {
        let _ = cx;
        self.end(active);
        None
    }

    /// Lets this CPU take other interrupts while the source stays active, until
    /// [`Lines::complete`]: from any CPU, or on this one for a private interrupt.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the controller, or its configuration, cannot. Nothing was
    /// written then, and the caller ends the interrupt.
    ///
    /// # Context
    /// As `end`, and instead of it.
    fn defer(&self, active: Self::Active) -> Result<(), Error>;

    /// Lets this CPU take other interrupts and forgets the source: whoever it is handed to, a
    /// guest for one, ends it in the controller. It is never completed here.
    ///
    /// # Errors
    /// As for `defer`.
    ///
    /// # Context
    /// As `end`, and instead of it.
    fn hand_over(&self, active: Self::Active) -> Result<(), Error>;
}

/// Interrupts from CPU to CPU. A driver for one CPU alone keeps the defaults.
pub trait Kick: Sync {
    /// Lets the IPI come to `cpu`, which may be the sender, if `post` says so.
    ///
    /// Every store before the call, and those of `post`, are visible to the CPU that takes it.
    ///
    /// # Errors
    /// A CPU that cannot be reached is an error *before* `post` is called: [`Error::NoSuchCpu`],
    /// [`Error::CpuOffline`], [`Error::Unsupported`]. Once `post` said yes, the call succeeds.
    ///
    /// # Context
    /// Any, on a CPU that is online and cannot change meanwhile.
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        let _ = (cpu, post);
        Err(NO_KICK)
    }

    /// Likewise to each of `cpus` for which `post` says so, with the fewest accesses to the
    /// device. `post` is called once for each CPU that can be reached.
    ///
    /// # Errors
    /// The first CPU that cannot be reached, when all others have been served.
    ///
    /// # Context
    /// As [`kick`](Self::kick).
    fn kick_mask(
        &self,
        cpus: &dyn CpuSet,
        mut post: impl FnMut(CpuIndex) -> bool,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        cpus.each(&mut |cpu| {
            let kicked = self.kick(cpu, || post(cpu));
            if result.is_ok() {
                result = kicked;
            }
        });
        result
    }

    /// Interrupts `cpu` even while it has interrupts masked, where the controller can: for a
    /// backtrace or a stop.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it cannot.
    ///
    /// # Context
    /// As [`kick`](Self::kick).
    fn kick_urgent(&self, cpu: CpuIndex) -> Result<(), Error> {
        let _ = cpu;
        Err(Error::Unsupported {
            feature: "an unmaskable kick",
        })
    }
}

const NO_KICK: Error = Error::Unsupported {
    feature: "interrupts from CPU to CPU",
};

/// What dispatch wants of a driver.
pub trait Controller: Flow + Kick + Lines {}

impl<T: Flow + Kick + Lines + ?Sized> Controller for T {}

/// Control over lines. Every call takes one of the driver's numbers and fails with
/// [`Error::NoSuchIrq`] for any other.
///
/// # Context
/// Any but a non-maskable interrupt, unless a call says otherwise.
pub trait Lines: Sync {
    /// Stops delivery. When the call returns, no CPU acknowledges the line any more; one that
    /// did before may still run its actions. An edge that arrives meanwhile is kept.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the controller does not confirm.
    fn mask(&self, irq: Irq) -> Result<(), Error>;

    /// Lets the line be delivered.
    ///
    /// # Errors
    /// Those of the trait.
    fn unmask(&self, irq: Irq) -> Result<(), Error>;

    /// Sets how the line triggers. Where the controller wants the line disabled meanwhile, the
    /// driver does that; the line is masked or not afterwards as it was before.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a fixed trigger, [`Error::Refused`] if it reads back another.
    fn set_trigger(&self, irq: Irq, trigger: Trigger) -> Result<(), Error>;

    /// Makes the line pending, as if it had fired.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the controller cannot.
    fn retrigger(&self, irq: Irq) -> Result<(), Error>;

    /// Ends a deferred interrupt: from any CPU; a private one on its own CPU, since the call
    /// acts on the CPU that runs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the controller cannot.
    fn complete(&self, irq: Irq) -> Result<(), Error>;

    /// Reads the line's state from the controller.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it cannot be read.
    fn state(&self, irq: Irq) -> Result<LineState, Error>;
}
