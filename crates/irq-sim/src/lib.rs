// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile device models of interrupt controllers, for host tests.
//!
//! A driver that is generic over [`irq_hal::Bus`] runs here against a model written from the
//! architecture's manual. The models are strict: an offset that is not modelled, a wrong
//! width, a write to a read-only register, a reserved bit, or anything that the manual calls
//! UNPREDICTABLE is a panic that names the register, the value and the rule. They also do
//! what real hardware does on a bad day: they stay busy, never wake, refuse a setting, or hand
//! out special interrupt numbers.
//!
//! # Vocabulary
//! - *machine*: a [`SimPlatform`] with the models built on it.
//! - *log*: each access and barrier of the machine, in order; see [`log`].
//! - *device view*: what a controller sees of memory; see [`memory`].
//!
//! | module | what |
//! |---|---|
//! | [`platform`] | clock, CPUs, interrupt masks: the test's kernel |
//! | [`memory`] | DMA memory and the device's view of it |
//! | [`log`] | the log, counters, charges |
//! | [`apic`] | the local APICs of x86-64 in x2APIC mode, the 8259s, CPUID |
//! | [`gic`] | a GICv3: distributor, redistributors, CPU interfaces |
//! | [`xive`] | a POWER XIVE of generation 1 or 2, and the OPAL calls that set it up |
//! | `qtest` | QEMU's own models, over its qtest socket (on Unix) |

pub mod apic;
pub mod gic;
pub mod log;
pub mod memory;
pub mod platform;
#[cfg(unix)]
pub mod qtest;
pub mod xive;

pub use log::{Fence, Log, Trace, Unit};
pub use platform::SimPlatform;
