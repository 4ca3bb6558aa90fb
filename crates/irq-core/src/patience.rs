// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long irq-core waits for another CPU where the caller does not say.

use irq_hal::Platform;
use irq_hal::wait::Bound;

const MICROSECONDS: u32 = 1_000_000;
const POLLS: u32 = 10_000_000;

/// For handlers, for another change of an interrupt, for the answer to a remote call: a second,
/// or ten million polls, whichever ends first.
pub(crate) fn patience(platform: &dyn Platform) -> Bound {
    Bound::new(platform, MICROSECONDS, POLLS)
}
