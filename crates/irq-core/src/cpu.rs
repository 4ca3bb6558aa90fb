// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs, nodes and sets of CPUs, and the proof of running on one.
//!
//! A CPU is a dense [`CpuIndex`]; hardware ids are types of their drivers. Functions that read a
//! set take a `&dyn` [`CpuSet`], so that an owned [`CpuMask`], the live mask of a topology
//! domain and the set of online CPUs all do.

mod mask;
mod set;

pub use irq_hal::percpu::OnCpu;
pub use irq_hal::{CpuIndex, NodeId};
pub use mask::{CpuMask, Cpus};
pub use set::{CpuSet, Ranges};

use irq_hal::Error;

/// The most CPUs, and the most nodes, that a mask or a topology can be made for.
pub const MAX_CPUS: u32 = 1 << 20;

/// CPUs in one word of a mask.
pub(crate) const WORD: u32 = u64::BITS;

/// The index of a CPU's word, and its bit there.
pub(crate) const fn word_and_bit(cpu: CpuIndex) -> (u32, u64) {
    (cpu.get() / WORD, 1 << (cpu.get() % WORD))
}

/// `count`, if it is a number of CPUs or nodes that something can be made for.
pub(crate) const fn bounded(what: &'static str, count: u32) -> Result<usize, Error> {
    if count == 0 || count > MAX_CPUS {
        return Err(Error::Invalid {
            what,
            value: count as u64,
        });
    }
    Ok(count as usize)
}

/// The CPUs of one word, in rising order.
pub(crate) fn cpus_of(first: CpuIndex, mut bits: u64) -> impl Iterator<Item = CpuIndex> {
    core::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let bit = bits.trailing_zeros();
        bits &= bits - 1;
        Some(CpuIndex::new(first.get() + bit))
    })
}
