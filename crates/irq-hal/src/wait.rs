// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounded waits: no polling loop without a name and an end.

use crate::error::Error;
use crate::platform::{Platform, Ticks};

/// What a wait is for: the register and the state, in the manual's spelling.
///
/// Drivers keep these as statics, so that an [`Error`] carries a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WaitFor {
    /// The register that is polled.
    pub register: &'static str,
    /// The state that ends the wait, e.g. `RWP=0`.
    pub state: &'static str,
}

/// How long a wait may take: by time and by number of polls. Whichever is reached first ends
/// it, so that a clock that stands still, or is not calibrated, cannot make it endless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Ticks of [`Platform::now`].
    pub ticks: Ticks,
    /// Number of reads of the register, at least 1.
    pub polls: u32,
}

impl Bound {
    /// At most `micros` microseconds, and at most `polls` polls.
    ///
    /// # Context
    /// Any. Asks [`Platform::ticks_in`].
    pub fn new<P: Platform + ?Sized>(platform: &P, micros: u32, polls: u32) -> Self {
        Self {
            ticks: platform.ticks_in(micros),
            polls,
        }
    }
}

/// Polls `read` until `done` accepts its value, which is returned.
///
/// The register is read at least once, and once more after the time is over: a CPU that was
/// held up between two polls does not report a device that had answered.
///
/// # Errors
/// [`Error::Timeout`] with `what` and the last value at the bound.
///
/// # Context
/// Any; spins with [`Platform::relax`].
pub fn wait<P, V>(
    platform: &P,
    what: &'static WaitFor,
    bound: Bound,
    mut read: impl FnMut() -> V,
    mut done: impl FnMut(V) -> bool,
) -> Result<V, Error>
where
    P: Platform + ?Sized,
    V: Into<u64> + Copy,
{
    let mut value = read();
    if done(value) {
        return Ok(value);
    }
    let start = platform.now();
    let mut polls = 1;
    while polls < bound.polls {
        let over = platform.now().since(start) >= bound.ticks;
        if !over {
            platform.relax();
        }
        value = read();
        polls += 1;
        if done(value) {
            return Ok(value);
        }
        if over {
            break;
        }
    }
    Err(Error::Timeout {
        what,
        last: value.into(),
    })
}
