// SPDX-License-Identifier: MIT OR Apache-2.0
//! Architecture-neutral interrupt bookkeeping: numbers, shared actions, dispatch, counts.
//!
//! It holds no register and no unsafe code. Controllers come in through small traits, [`Flow`]
//! and [`Kick`] for the hot paths and [`Lines`] for control; the machine through
//! [`irq_hal::Platform`].
//!
//! # Vocabulary
//! - *irq*: an interrupt number of ours, dense, [`Irq`]. The controller's number is its driver's
//!   matter.
//! - *entry*: the embedder's code from the vector on, masked, described by an [`IrqContext`].
//! - *action*: what runs when an irq was taken, [`Action`]. An irq may have several that share.
//! - *end*: the controller may deliver the source again. To *defer* is to end it later, from any
//!   CPU ([`Control::complete`]); to *hand over* is to leave the end to somebody else.
//! - *end first*: the irq is ended before its action is called, which may switch stacks or never
//!   return.
//! - *private*: an irq that each CPU has for itself (timer, SGI), counted per CPU.
//! - *unhandled*: no action owned up to the irq. A [`Detector`] masks the line if that is too
//!   often, and reports it.
//! - *kind*: a reason for a CPU to interrupt another, or itself, [`Kind`]. It carries no data.
//! - *ring*: make the controller interrupt a CPU; a send to one that is being interrupted
//!   *coalesces* and does not ring.
//! - *remote call*: a function that another CPU runs while the caller waits.
//!
//! # One entry
//! ```text
//! kernel's stub          Interrupts::dispatch        driver (Flow)      actions
//!   mask, IrqContext ──▶ ack ──────────────────────▶ ack
//!                        count, note the irq
//!                        each action ─────────────────────────────────▶ answer, bits
//!                        withdraw the note
//!                        end, or defer ────────────▶ end or defer
//!   Outcome ◀─────────── taken, bits
//!   bits: switch task?
//! ```
//! With an end-first action the note is withdrawn and the irq ended before the call. On the way
//! there is no lock, no allocation and no log, and no line is written that another CPU reads or
//! writes. Who changes the actions waits instead, bounded, until no CPU uses the old ones.
//! ([`Setup::count_per_cpu`] keeps that so while a device's irq moves between CPUs.)
//!
//! ```
//! use irq_core::{Action, Answer, Controller, Interrupts, Irq, IrqContext, IrqRange, Lines, Setup};
//! use irq_hal::{Error, Platform};
//!
//! fn bring_up(platform: &dyn Platform, gic: &dyn Lines, cpus: u32) -> Result<Interrupts, Error> {
//!     let irqs = IrqRange::new(Irq::new(0), 256)?;
//!     let private = IrqRange::new(Irq::new(0), 32)?;
//!     let setup = Setup { private: &[private], ..Setup::new(cpus, irqs) };
//!     let interrupts = Interrupts::new(setup)?;
//!     let control = interrupts.control(platform, gic);
//!     let uart = Action::new(|cx| Answer::Handled).named("uart");
//!     let registration = control.register(Irq::new(33), uart)?;
//!     control.unmask(Irq::new(33))?;
//!     // ... keep the registration as long as the action shall run; here it ends.
//!     registration.remove().map_err(|(error, _)| error)?;
//!     Ok(interrupts)
//! }
//!
//! fn entry(interrupts: &Interrupts, gic: &impl Controller, cx: &IrqContext<'_>) {
//!     let outcome = interrupts.dispatch(gic, cx);
//!     if outcome.bits.contains(irq_core::Bits::RESCHEDULE) {
//!         // Everything of ours is finished: the kernel may switch tasks.
//!     }
//! }
//! ```
//!
//! # Interrupts between CPUs
//! ```text
//! sender                          receiver
//! post: set the kind's bit        acknowledge and end the IPI, count
//! mailbox was empty? then ring    take: swap the mailbox for an empty one
//! count in the own block          run what was taken
//! ```
//! The mailbox, a word for each CPU, is the only line that both write. All IPIs are one interrupt
//! of the controller; each node that has CPUs has a descriptor with counts,
//! [`Interrupts::ipi_counts`].
//!
//! ```
//! use irq_core::cpu::{CpuIndex, OnCpu};
//! use irq_core::topology::Place;
//! use irq_core::{Bits, Interrupts, IpiKind, IpiSetup, Irq, IrqRange, Kick, Kind, Setup};
//! use irq_hal::{Error, Platform};
//!
//! const RESCHEDULE: IpiKind = IpiKind::new(0).unwrap();
//! static KINDS: [Kind; 1] = [Kind::new(|_, cx| cx.request(Bits::RESCHEDULE), 0)];
//!
//! fn bring_up(cpus: u32, nodes: u32) -> Result<Interrupts, Error> {
//!     let ipi = IpiSetup { irq: Irq::new(0), kinds: &KINDS };
//!     Interrupts::new(Setup { nodes, ipi: Some(ipi), ..Setup::new(cpus, IrqRange::new(Irq::new(0), 256)?) })
//! }
//!
//! fn on_each_cpu(
//!     interrupts: &Interrupts,
//!     platform: &dyn Platform,
//!     gic: &impl Kick,
//!     on: &OnCpu,
//! ) -> Result<(), Error> {
//!     interrupts.cpu_online(platform, on, Place::flat(on.cpu()))?;
//!     interrupts.send(gic, on, CpuIndex::new(1), RESCHEDULE)?;
//!     let other = interrupts.call(platform, gic, on, CpuIndex::new(1), |word, cpu| word + cpu.index(), 41)?;
//!     assert_eq!(other, 42);
//!     Ok(())
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod block;
mod context;
mod control;
mod counts;
pub mod cpu;
mod descriptor;
mod dispatch;
mod driver;
pub mod hotplug;
mod interrupts;
mod ipi;
mod irq;
mod lockup;
pub mod matrix;
mod outcome;
mod patience;
pub mod placement;
pub mod proximity;
mod registration;
mod setup;
pub mod spread;
pub mod topology;

pub use action::{Action, ActionContext, SharedFn, WordFn};
pub use block::CpuBlock;
pub use context::IrqContext;
pub use control::Control;
pub use counts::{Counts, CpuCounts};
pub use driver::{Controller, Flow, Kick, Lines};
pub use interrupts::Interrupts;
pub use ipi::{
    AnywhereFn, Callback, IpiCounts, IpiKind, IpiSetup, Kind, KindFn, MAX_KINDS, Remote, Sent,
    SentMany,
};
pub use irq::{Irq, IrqRange, LineState, Trigger};
pub use lockup::{Detector, Report};
pub use outcome::{Answer, Bits, Outcome, Taken};
pub use registration::Registration;
pub use setup::Setup;
