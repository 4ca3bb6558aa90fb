// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line under test: an action on it, unmasked, until dropped.

use irq_core::{Action, Control, Irq, Registration};

use crate::bench::Bench;
use crate::verdict::{OrFail, Stop, Verdict};

/// An action on an unmasked line. Dropping it masks the line, then removes the action, so that
/// a test that stops half-way leaves nothing behind. A timer that bypasses the controller is
/// neither masked nor unmasked.
pub struct Live {
    control: Control<'static>,
    registration: Option<Registration<'static>>,
    irq: Irq,
    maskable: bool,
}

impl Live {
    /// Registers `action` on `irq`, and unmasks the line.
    ///
    /// # Errors
    /// [`Stop::Fail`] with the error.
    #[track_caller]
    pub fn new<B: Bench>(bench: &B, irq: Irq, action: Action) -> Result<Self, Stop> {
        let live = Self::masked(bench, irq, action)?;
        if live.maskable {
            live.control.unmask(irq).or_fail("unmask")?;
        }
        Ok(live)
    }

    /// Registers `action` on `irq`, and leaves the line masked.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn masked<B: Bench>(bench: &B, irq: Irq, action: Action) -> Result<Self, Stop> {
        let control = bench.control();
        let registration = Some(control.register(irq, action).or_fail("register")?);
        Ok(Self {
            control,
            registration,
            irq,
            maskable: bench.maskable(irq),
        })
    }

    /// Removes the action; the line stays unmasked until this value is dropped.
    ///
    /// # Errors
    /// [`Stop::Fail`] with the error.
    #[track_caller]
    pub fn remove_action(&mut self) -> Verdict {
        match self.registration.take().map(Registration::remove) {
            Some(Err((error, back))) => {
                self.registration = Some(back);
                Err(error).or_fail("remove")
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.maskable {
            // What goes wrong here shows in the next test of the line.
            let _ = self.control.mask(self.irq);
        }
    }
}
