// SPDX-License-Identifier: MIT OR Apache-2.0
//! What firmware says of CPUs and nodes: readers of MADT, SRAT and SLIT, beside the probe.
//!
//! ```text
//! Madt   which CPUs there are, by APIC id; NMI lines; I/O APICs and overrides
//! Srat   proximity domain of each CPU and of each range of memory; domains -> nodes
//! Slit   distances between domains
//! ```
//! Tables may be wrong: every answer is a value or [`Error::Firmware`] with the offset in the
//! table, in time bounded by the table's length. Nothing is allocated, and no address is
//! followed. [`irq_hal::acpi::Tables`] finds the tables.
//!
//! Nothing here says which CPU runs: a table does not, and its first entry need not be the boot
//! CPU. The running CPU's id comes from CPUID.
//!
//! [`Error::Firmware`]: irq_hal::Error::Firmware

mod madt;
mod madt_entry;
mod slit;
mod srat;

pub use madt::{Cpu, Cpus, MADT_ENTRIES_MAX, Madt};
pub use madt_entry::{CpuState, Inti, MadtEntries, MadtEntry, Polarity, TriggerMode};
pub use slit::Slit;
pub use srat::{Domain, Domains, MemoryRange, Srat, SratEntries, SratEntry};

use irq_hal::Error;

/// A table that is wrong at the offset `at`.
const fn firmware(what: &'static str, at: usize) -> Error {
    Error::Firmware {
        what,
        at: at as u64,
    }
}
