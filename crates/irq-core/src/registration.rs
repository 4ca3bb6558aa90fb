// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owner's handle to an action that is registered.

use core::fmt;

use irq_hal::{Error, irq_warn};

use crate::action::Call;
use crate::control::Control;
use crate::irq::Irq;

/// How far a removal has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Listed,
    /// No CPU runs the action any more; what it deferred may be left.
    Unlisted,
    Gone,
}

/// An action on its interrupt. Keep it as long as the action shall run.
///
/// Dropping it removes the action like [`remove`](Self::remove), and leaks what cannot be
/// removed: the action may run on then.
#[must_use = "dropping it removes the action"]
pub struct Registration<'a> {
    control: Control<'a>,
    irq: Irq,
    id: u64,
    stage: Stage,
    /// Keeps the closure until the change is over, so that its drop may change actions too.
    _call: Call,
}

impl<'a> Registration<'a> {
    pub(crate) const fn new(control: Control<'a>, irq: Irq, id: u64, call: Call) -> Self {
        Self {
            control,
            irq,
            id,
            stage: Stage::Listed,
            _call: call,
        }
    }

    /// The interrupt that the action is on.
    pub const fn irq(&self) -> Irq {
        self.irq
    }

    /// Removes the action: when this returns, no CPU runs it, and none will.
    /// (An end-first action that has begun may still run: nothing knows when it ends.)
    /// The line is left as it is, unless this action deferred the interrupt and nobody completed
    /// it: then the line is masked, for other actions on it too, and completed. Allocates
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Context`] from inside a handler; [`Error::Timeout`] if a CPU still runs the
    /// interrupt's actions, or another change does not end; [`Error::Busy`] if the action
    /// deferred a private interrupt on another CPU, which alone can complete it; what the
    /// controller says to masking and completing. The registration comes back, and removing can
    /// be tried again.
    ///
    /// # Context
    /// Thread, interrupts unmasked and no lock held.
    pub fn remove(mut self) -> Result<(), (Error, Self)> {
        match self.take_out() {
            Ok(()) => Ok(()),
            Err(error) => Err((error, self)),
        }
    }

    fn take_out(&mut self) -> Result<(), Error> {
        let Control {
            interrupts,
            platform,
            ..
        } = self.control;
        if self.stage == Stage::Listed {
            interrupts.change(platform, self.irq)?.remove(self.id)?;
            self.stage = Stage::Unlisted;
        }
        if self.stage == Stage::Unlisted {
            // No CPU can defer for this action any more.
            self.control.abandon(self.irq, self.id)?;
            self.stage = Stage::Gone;
        }
        Ok(())
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.take_out() {
            irq_warn!(
                "action leaked on irq {}: {}",
                self.irq.get(),
                error.kind().as_str()
            );
        }
    }
}

impl fmt::Debug for Registration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { irq, id, stage, .. } = self;
        f.debug_struct("Registration")
            .field("irq", irq)
            .field("id", id)
            .field("stage", stage)
            .finish()
    }
}
