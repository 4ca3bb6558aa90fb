// SPDX-License-Identifier: MIT OR Apache-2.0
//! Architecture-neutral interrupt bookkeeping: numbers, shared actions, dispatch, counts.
//!
//! It holds no register and no unsafe code. Controllers come in through two small traits,
//! [`Flow`] for the hot path and [`Lines`] for control; the machine through
//! [`irq_hal::Platform`].
//!
//! # Vocabulary
//! - *irq*: an interrupt number of ours, dense, [`Irq`]. The controller's number is its driver's
//!   matter.
//! - *entry*: the embedder's code from the vector on, masked, described by an [`IrqContext`].
//! - *action*: what runs when an irq was taken, [`Action`]. An irq may have several that share.
//! - *end*: the controller may deliver the source again. To *defer* is to end it later, from any
//!   CPU ([`Lines::complete`]).
//! - *end first*: the irq is ended before its action is called, which may switch stacks or never
//!   return.
//! - *private*: an irq that each CPU has for itself (timer, SGI), counted per CPU.
//!
//! # One entry
//! ```text
//! kernel's stub          Interrupts::dispatch        driver (Flow)      actions
//!   mask, IrqContext ──▶ ack ──────────────────────▶ ack
//!                        count, note the list
//!                        each action ─────────────────────────────────▶ answer, bits
//!                        end, or defer ────────────▶ end or defer
//!   Outcome ◀─────────── taken, bits
//!   bits: switch task?
//! ```
//! With an end-first action the note is withdrawn and the irq ended before the call. On the way
//! there is no lock, no allocation and no log, and no line is written that another CPU reads or
//! writes. Who changes the actions waits instead, bounded, until no CPU uses the old ones.
//!
//! ```
//! use irq_core::{Action, Answer, Flow, Interrupts, Irq, IrqContext, IrqRange, Taken};
//! use irq_hal::{Error, Platform};
//!
//! fn bring_up(platform: &dyn Platform, cpus: u32) -> Result<Interrupts, Error> {
//!     let irqs = IrqRange::new(Irq::new(0), 256)?;
//!     let private = IrqRange::new(Irq::new(0), 32)?;
//!     let interrupts = Interrupts::with_private(cpus, irqs, &[private])?;
//!     let uart = Action::new(|cx| Answer::Handled).named("uart");
//!     let registration = interrupts.register(platform, Irq::new(33), uart)?;
//!     // ... keep the registration as long as the action shall run; here it ends.
//!     registration.remove().map_err(|(error, _)| error)?;
//!     Ok(interrupts)
//! }
//!
//! fn entry(interrupts: &Interrupts, gic: &impl Flow, cx: &IrqContext<'_>) {
//!     let outcome = interrupts.dispatch(gic, cx);
//!     if outcome.bits.contains(irq_core::Bits::RESCHEDULE) {
//!         // Everything of ours is finished: the kernel may switch tasks.
//!     }
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod context;
mod counts;
mod descriptor;
mod driver;
mod interrupts;
mod irq;
mod outcome;
mod registration;

pub use action::{Action, ActionContext, SharedFn, WordFn};
pub use context::IrqContext;
pub use counts::{Counts, CpuCounts};
pub use driver::{Flow, Lines};
pub use interrupts::Interrupts;
pub use irq::{Irq, IrqRange, LineState, Trigger};
pub use outcome::{Answer, Bits, Outcome, Taken};
pub use registration::Registration;

/// CPUs and nodes, and the proof of running on one.
pub mod cpu {
    pub use irq_hal::percpu::OnCpu;
    pub use irq_hal::{CpuIndex, NodeId};
}
