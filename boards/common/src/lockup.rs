// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detector of lines that nobody owns up to, as the images use it: at a lower threshold than
//! a kernel's, and with the last report kept for the tests.

use irq_core::{Detector, Report};

use crate::lock::Masked;
use crate::println;

/// Unhandled interrupts of [`WINDOW`] at which a line is shut off.
pub const THRESHOLD: u32 = 90;
/// See [`THRESHOLD`].
pub const WINDOW: u32 = 100;

/// The images' detector.
pub const DETECTOR: Detector = Detector {
    unhandled: THRESHOLD,
    of: WINDOW,
    report,
    word: 0,
};

static LAST: Masked<Option<Report>> = Masked::new(None);

/// The last report, once.
pub fn take_report() -> Option<Report> {
    LAST.with(Option::take)
}

fn report(_: usize, report: &Report) {
    println!(
        "{} shut off on {}: {} of {} not handled",
        report.irq, report.cpu, report.unhandled, report.taken
    );
    LAST.with(|last| *last = Some(*report));
}
