// SPDX-License-Identifier: MIT OR Apache-2.0
//! Architecture-neutral interrupt bookkeeping.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

use irq_hal::{Error, NodeId};

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

fn out_of_memory<T>(count: usize) -> Error {
    Error::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
        node: NodeId::FLAT,
    }
}

fn try_vec<T>(capacity: usize) -> Result<Vec<T>, Error> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(capacity)
        .map_err(|_| out_of_memory::<T>(capacity))?;
    Ok(vec)
}
