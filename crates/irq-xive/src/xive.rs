// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole controller: queues, sources and CPUs under our dense irq numbers.
//!
//! ```text
//! boot CPU     Xive::probe     refuses, or resets the controller and makes for each CPU a
//!                              queue, the source of its IPIs, and the reserved source
//! every CPU    cpu_online      opens its part of the controller
//! entry        ack .. end      through irq_core::Flow
//! to a CPU     kick, kick_mask  through irq_core::Kick, by the trigger page of its source
//! sources      alloc_source, adopt, set_target, free
//! control      mask, unmask, off, on, retrigger, complete, ...
//! ```
//! The value is `Sync`, is built once and needs `&self` only; it holds no reference into
//! itself, so it can be moved into the kernel's static. When it is dropped the controller is
//! reset, since what it would write to is given back.

mod flow;
mod held;
mod kick;
mod lines;
mod online;
mod probe;
mod snapshot;
mod sources;
mod targets;

use alloc::vec::Vec;
use core::{iter, mem};

use irq_core::{Irq, IrqRange};
use irq_hal::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use irq_hal::dma::DmaRegion;
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::{CachePadded, PerCpu};
use irq_hal::{CpuIndex, Error, NodeId, PhysAddr, Platform, irq_warn};

use crate::esb::Esb;
use crate::firmware::Firmware;
use crate::ids::{ChipId, Pir, Priority, SourceNumber};
use crate::layout::Layout;
use crate::opal::Opal;
use crate::queue::EventQueue;
use crate::tima::{CLOSED, Tima};

pub use flow::{Active, Counts};
pub use snapshot::Snapshot;

use held::Slot;
use targets::Ledger;

/// A CPU, as firmware describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Thread {
    /// Its name.
    pub pir: Pir,
    /// The chip that it is on.
    pub chip: ChipId,
    /// The node that its memory is near.
    pub node: NodeId,
}

/// What firmware asks for when it runs out of memory for its tables.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Provision<'a> {
    /// The bytes of a page, a power of 2.
    pub page: u32,
    /// The chips that take one each.
    pub chips: &'a [ChipId],
}

/// What the machine has, as firmware tells.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// The hypervisor page of the TIMA, 64 KiB.
    pub tima: PhysAddr,
    /// The base-2 logarithms of the bytes that an event queue may have.
    pub queue_sizes: &'a [u32],
    /// How many priorities there are.
    pub priorities: u8,
    /// The CPUs in the order of their indices: all that may ever come online.
    pub threads: &'a [Thread],
    /// For firmware that wants memory.
    pub provision: Provision<'a>,
}

impl<'a> Description<'a> {
    /// A machine with all sizes and priorities that the hardware knows.
    pub const fn new(tima: PhysAddr, threads: &'a [Thread]) -> Self {
        Self {
            tima,
            queue_sizes: &[12, 16, 21, 24],
            priorities: crate::ids::PRIORITIES,
            threads,
            provision: Provision {
                page: 0,
                chips: &[],
            },
        }
    }
}

/// The embedder's choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The first of our irq numbers: the IPI. Device sources follow.
    pub base: Irq,
    /// How many different device sources there can be over the driver's life. One that is made
    /// again with the number it had before counts once.
    pub sources: u32,
    /// The priority of interrupts between CPUs: more favoured than that of devices.
    pub ipi_priority: Priority,
    /// The priority of device interrupts.
    pub device_priority: Priority,
    /// The base-2 logarithm of the bytes of each CPU's queue for devices: 16 has room for
    /// 8191 sources on one CPU.
    pub device_queue: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base: Irq::new(0),
            sources: 256,
            ipi_priority: Priority::IPI,
            device_priority: Priority::DEVICE,
            device_queue: 16,
        }
    }
}

/// What entries and senders read of a CPU; written by nobody but when it comes and goes.
#[derive(Debug)]
struct Fixed<W> {
    /// Of device events.
    queue: EventQueue,
    /// The source of its IPIs.
    ipi: Esb<W>,
    /// The reserved source, by which the CPU tells itself to look at its queue again.
    again: Esb<W>,
    online: AtomicBool,
    thread: Thread,
    /// Firmware's number of `ipi`.
    ipi_number: SourceNumber,
}

impl<W> Fixed<W> {
    #[inline]
    fn is_online(&self) -> bool {
        // Relaxed: what is read of the CPU beside this was there before any was online.
        self.online.load(Ordering::Relaxed)
    }
}

/// What a CPU writes, and no other one.
#[derive(Debug)]
struct Own {
    /// Where it reads in its queue.
    at: AtomicU32,
    /// Its CPPR, which cannot be read back on the way.
    cppr: AtomicU32,
    spurious: AtomicU64,
    empty: AtomicU64,
    unknown: AtomicU64,
    rings: AtomicU64,
    dead: AtomicU64,
}

impl Own {
    fn new() -> Self {
        Self {
            at: AtomicU32::new(0),
            cppr: AtomicU32::new(u32::from(CLOSED)),
            spurious: AtomicU64::new(0),
            empty: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            rings: AtomicU64::new(0),
            dead: AtomicU64::new(0),
        }
    }
}

#[derive(Debug)]
struct Cpu<W> {
    fixed: CachePadded<Fixed<W>>,
    own: CachePadded<Own>,
}

/// What every entry and every send reads, on lines of its own that nobody writes.
#[derive(Debug)]
struct Hot<W: 'static> {
    tima: Tima<W>,
    cpus: PerCpu<Cpu<W>>,
    sources: Vec<Slot<W>>,
    layout: Layout,
    ipi_priority: Priority,
    device_priority: Priority,
}

/// A XIVE under our irq numbers. See the [module](self).
pub struct Xive<P: Platform, F: Firmware> {
    hot: CachePadded<Hot<F::Window>>,
    ledger: MaskedLock<Ledger, 2>,
    opal: Opal<F>,
    platform: P,
    provision_page: u32,
    provision_chips: Vec<ChipId>,
    /// Memory that firmware has until a reset.
    donated: MaskedLock<Vec<DmaRegion>, 3>,
    /// Whether the controller knows memory of ours.
    touched: bool,
}

impl<P: Platform, F: Firmware> Xive<P, F> {
    /// All our irq numbers, from the base: the IPI, then the device sources.
    pub fn irqs(&self) -> IrqRange {
        self.hot.layout.irqs()
    }

    /// Those of our numbers of which each CPU has its own: the IPI.
    pub fn private_irqs(&self) -> [IrqRange; 1] {
        self.hot.layout.private()
    }

    /// Our number for interrupts between CPUs: whoever receives IPIs takes it.
    pub fn ipi_irq(&self) -> Irq {
        self.hot.layout.ipi()
    }

    /// The source that brings `cpu` its IPIs.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn ipi_source(&self, cpu: CpuIndex) -> Result<SourceNumber, Error> {
        Ok(self.cpu(cpu)?.fixed.ipi_number)
    }

    /// The CPUs, in the order of their indices.
    pub fn threads(&self) -> impl Iterator<Item = Thread> {
        self.hot.cpus.iter().map(|(_, cpu)| cpu.fixed.thread)
    }

    /// The calls of firmware, for what this type does not wrap.
    pub const fn opal(&self) -> &Opal<F> {
        &self.opal
    }

    #[inline(always)]
    fn cpu(&self, cpu: CpuIndex) -> Result<&Cpu<F::Window>, Error> {
        self.hot.cpus.get(cpu).ok_or(Error::NoSuchCpu { cpu })
    }
}

impl<P: Platform, F: Firmware> Drop for Xive<P, F> {
    /// Resets the controller. If firmware refuses that, the memory that the controller may still
    /// write to is never given back.
    fn drop(&mut self) {
        if !self.touched {
            return;
        }
        let Err(error) = self.opal.reset(&self.platform) else {
            return;
        };
        irq_warn!(
            "xive: not reset ({}), its queues stay",
            error.kind().as_str()
        );
        if let Ok(none) = PerCpu::from_blocks(iter::empty()) {
            mem::forget(mem::replace(&mut self.hot.cpus, none));
        }
        mem::forget(mem::take(self.donated.get_mut()));
    }
}
