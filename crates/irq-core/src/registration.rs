// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owner's handle to an action that is registered.

use core::fmt;

use irq_hal::{Error, Platform, irq_warn};

use crate::action::Call;
use crate::interrupts::Interrupts;
use crate::irq::Irq;

/// An action on its interrupt. Keep it as long as the action shall run.
///
/// Dropping it removes the action like [`remove`](Self::remove), and leaks what cannot be
/// removed: the action may run on then.
#[must_use = "dropping it removes the action"]
pub struct Registration<'a> {
    interrupts: &'a Interrupts,
    platform: &'a dyn Platform,
    irq: Irq,
    id: u64,
    listed: bool,
    /// Keeps the closure until the change is over, so that its drop may change actions too.
    _call: Call,
}

impl<'a> Registration<'a> {
    pub(crate) const fn new(
        interrupts: &'a Interrupts,
        platform: &'a dyn Platform,
        irq: Irq,
        id: u64,
        call: Call,
    ) -> Self {
        Self {
            interrupts,
            platform,
            irq,
            id,
            listed: true,
            _call: call,
        }
    }

    /// The interrupt that the action is on.
    pub const fn irq(&self) -> Irq {
        self.irq
    }

    /// Removes the action: when this returns, no CPU runs it, and none will.
    /// (An end-first action that has begun may still run: nothing knows when it ends.)
    /// The line is left as it is; allocates nothing.
    ///
    /// # Errors
    /// [`Error::Context`] from inside a handler; [`Error::Timeout`] if a CPU still runs the
    /// interrupt's actions, or another change does not end. The registration comes back, and
    /// removing can be tried again.
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
        if self.listed {
            self.interrupts
                .change(self.platform, self.irq)?
                .remove(self.id)?;
            self.listed = false;
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
        let Self {
            irq, id, listed, ..
        } = self;
        f.debug_struct("Registration")
            .field("irq", irq)
            .field("id", id)
            .field("listed", listed)
            .finish()
    }
}
