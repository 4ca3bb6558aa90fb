// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that nobody owns up to: found, shut off, reported.
//!
//! A handled interrupt costs nothing here: only an unhandled one looks at the counts. A window
//! opens with an unhandled interrupt and is over [`Detector::of`] interrupts later.

use irq_hal::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use irq_hal::{CpuIndex, Error};

use crate::irq::Irq;

/// When a line is shut off, and who is told.
///
/// A line on which nothing was registered yet is only counted. A private interrupt is judged,
/// and masked, on each CPU by itself; one whose action is end-first is only counted too, since
/// the call may come back on another CPU, and a mask of a private line is that of the CPU that
/// masks.
#[derive(Clone, Copy, Debug)]
pub struct Detector {
    /// How many unhandled interrupts are too many. At least 1.
    pub unhandled: u32,
    /// In how many interrupts of the line. At least `unhandled`.
    pub of: u32,
    /// Called with [`word`](Self::word) when a line was masked: inside the interrupt, after its
    /// end, masked, with no lock of ours held. It must not unwind.
    pub report: fn(word: usize, report: &Report),
    /// For the owner of `report`.
    pub word: usize,
}

impl Detector {
    /// The usual threshold: 99,900 of 100,000.
    pub const fn new(report: fn(word: usize, report: &Report), word: usize) -> Self {
        Self {
            unhandled: 99_900,
            of: 100_000,
            report,
            word,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.unhandled == 0 || self.unhandled > self.of {
            return Err(Error::Invalid {
                what: "threshold of the detector",
                value: u64::from(self.unhandled),
            });
        }
        Ok(())
    }
}

/// A line that was shut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Report {
    /// The line.
    pub irq: Irq,
    /// The CPU that took it last.
    pub cpu: CpuIndex,
    /// How many were taken in the window.
    pub taken: u64,
    /// Of these, how many nobody owned up to.
    pub unhandled: u64,
    /// Whether the controller masked the line. If not, the next window reports it again.
    pub masked: Result<(), Error>,
}

/// Stands in [`Line::deferred`] for no action: their numbers begin behind it.
pub(crate) const NOT_DEFERRED: u64 = 0;

/// What is kept of a line besides its counts: one for a device interrupt, one on each CPU for a
/// private interrupt. A handled interrupt neither reads nor writes it.
#[derive(Debug)]
pub(crate) struct Line {
    /// The action that deferred the interrupt, until it is completed; else [`NOT_DEFERRED`].
    pub(crate) deferred: AtomicU64,
    pub(crate) window: Window,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            deferred: AtomicU64::new(NOT_DEFERRED),
            window: Window::new(),
        }
    }
}

/// The unhandled interrupts of late.
#[derive(Debug)]
pub(crate) struct Window {
    /// How many interrupts had been taken before the window.
    start: AtomicU64,
    unhandled: AtomicU32,
    shut_off: AtomicBool,
}

impl Window {
    fn new() -> Self {
        Self {
            start: AtomicU64::new(0),
            unhandled: AtomicU32::new(0),
            shut_off: AtomicBool::new(false),
        }
    }

    /// Begins afresh: somebody looks after the line again.
    pub(crate) fn reset(&self) {
        self.unhandled.store(0, Relaxed);
        self.shut_off.store(false, Relaxed);
    }

    pub(crate) fn is_shut_off(&self) -> bool {
        self.shut_off.load(Relaxed)
    }

    pub(crate) fn shut_off(&self) {
        self.shut_off.store(true, Relaxed);
    }

    /// Notes an unhandled interrupt, the last of `taken`. Returns how many were taken and
    /// unhandled in the window if these are too many; the window is over then.
    pub(crate) fn unhandled(&self, detector: &Detector, taken: u64) -> Option<(u64, u64)> {
        let mut unhandled = self.unhandled.fetch_add(1, Relaxed).saturating_add(1);
        let mut within = taken.wrapping_sub(self.start.load(Relaxed));
        if unhandled == 1 || within > u64::from(detector.of) {
            self.start.store(taken.wrapping_sub(1), Relaxed);
            self.unhandled.store(1, Relaxed);
            (unhandled, within) = (1, 1);
        }
        // Where several CPUs get here at once, one of them finds the window open.
        let over = unhandled >= detector.unhandled
            && self.unhandled.swap(0, Relaxed) >= detector.unhandled;
        over.then_some((within, u64::from(unhandled)))
    }
}
