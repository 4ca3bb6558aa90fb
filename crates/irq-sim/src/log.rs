// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulated machine saw: every access, every barrier, in order, with its cost.
//!
//! Tests take a [`Mark`], run a path of the driver, and compare what came since with exact
//! numbers:
//!
//! ```text
//! let mark = log.mark();
//! driver.mask(irq);
//! let seen = log.since(mark);
//! assert_eq!((seen.stores(Unit::Gicd), seen.loads(Unit::Gicd)), (1, 1));
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use irq_hal::{CpuIndex, PhysAddr};

/// Which part of the machine an access went to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// The distributor.
    Gicd,
    /// The redistributor with this number: redistributors are counted over all regions.
    Gicr(u32),
    /// The CPU interface (system registers) of this CPU.
    Icc(CpuIndex),
    /// The local APIC (model-specific registers) of this CPU.
    Apic(CpuIndex),
    /// The two 8259s (ports).
    Pic,
    /// The event-state pages of the XIVE source with this global number.
    Esb(u32),
    /// The event-state pages of a XIVE queue: virtual processor and priority.
    EndEsb(u32, u8),
    /// The thread interrupt management area, as this CPU sees it.
    Tima(CpuIndex),
    /// OPAL firmware: an access is a call, its offset the call's number, its value the answer.
    Opal,
    /// Device space behind QEMU's qtest socket.
    Qtest,
}

impl Unit {
    /// Whether the unit is reached through memory-mapped registers.
    pub const fn is_mmio(self) -> bool {
        !self.is_system() && !matches!(self, Self::Opal)
    }

    /// Whether the unit is reached through system registers, MSRs or ports.
    pub const fn is_system(self) -> bool {
        matches!(self, Self::Icc(_) | Self::Apic(_) | Self::Pic)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gicd => write!(f, "GICD"),
            Self::Gicr(rd) => write!(f, "GICR{rd}"),
            Self::Icc(cpu) => write!(f, "ICC({cpu})"),
            Self::Apic(cpu) => write!(f, "APIC({cpu})"),
            Self::Pic => write!(f, "8259"),
            Self::Esb(girq) => write!(f, "ESB({girq:#x})"),
            Self::EndEsb(vp, prio) => write!(f, "ESB(queue {vp:#x}/{prio})"),
            Self::Tima(cpu) => write!(f, "TIMA({cpu})"),
            Self::Opal => write!(f, "OPAL"),
            Self::Qtest => write!(f, "qtest"),
        }
    }
}

/// The three barriers of [`irq_hal::Barrier`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fence {
    /// [`irq_hal::Barrier::publish`].
    Publish,
    /// [`irq_hal::Barrier::complete`].
    Complete,
    /// [`irq_hal::Barrier::synchronize`].
    Synchronize,
}

/// One load or store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Who made it.
    pub cpu: CpuIndex,
    /// Where it went.
    pub unit: Unit,
    /// Bytes into the unit's frames; for a CPU interface the packed number of the register, for
    /// a local APIC that of the MSR, for the 8259s the port.
    pub offset: usize,
    /// Width in bytes.
    pub width: u8,
    /// The value read or written.
    pub value: u64,
    /// What it was charged, in the units of the platform's [`Costs`].
    pub cost: u32,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpu,
            unit,
            offset,
            width,
            value,
            ..
        } = self;
        write!(f, "{cpu} {unit}+{offset:#x} {width} bytes {value:#x}")
    }
}

/// One entry of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A read.
    Load(Access),
    /// A write.
    Store(Access),
    /// A barrier.
    Barrier {
        /// Who made it.
        cpu: CpuIndex,
        /// Which one.
        fence: Fence,
    },
    /// [`irq_hal::Platform::dma_publish`] on a part of memory.
    Clean {
        /// Who made it.
        cpu: CpuIndex,
        /// Its first byte, as the device sees it.
        at: PhysAddr,
        /// Its length in bytes.
        len: usize,
    },
    /// [`irq_hal::Platform::dma_observe`] on a part of memory.
    Invalidate {
        /// Who made it.
        cpu: CpuIndex,
        /// Its first byte, as the device sees it.
        at: PhysAddr,
        /// Its length in bytes.
        len: usize,
    },
}

impl Event {
    /// Who made it.
    pub const fn cpu(&self) -> CpuIndex {
        match self {
            Self::Load(access) | Self::Store(access) => access.cpu,
            Self::Barrier { cpu, .. } | Self::Clean { cpu, .. } | Self::Invalidate { cpu, .. } => {
                *cpu
            }
        }
    }

    /// The load or store in it.
    pub const fn access(&self) -> Option<&Access> {
        match self {
            Self::Load(access) | Self::Store(access) => Some(access),
            _ => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(access) => write!(f, "load  {access}"),
            Self::Store(access) => write!(f, "store {access}"),
            Self::Barrier { cpu, fence } => write!(f, "{cpu} {fence:?}"),
            Self::Clean { cpu, at, len } => write!(f, "{cpu} clean {at}+{len:#x}"),
            Self::Invalidate { cpu, at, len } => write!(f, "{cpu} invalidate {at}+{len:#x}"),
        }
    }
}

/// What an access is charged. The unit is the tests' own; the defaults are the nanoseconds
/// that a public report measured for a virtual IPI through a near and a far ITS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A memory-mapped access to a unit on the accessing CPU's node.
    pub local: u32,
    /// A memory-mapped access to a unit on another node.
    pub remote: u32,
    /// An access to a system register or an MSR.
    pub system: u32,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            local: 750,
            remote: 850,
            system: 0,
        }
    }
}

/// A place in the log: what follows it is what happened since.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(usize);

/// The log of one machine. A handle: clones share the log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    events: Arc<Mutex<Vec<Event>>>,
}

impl Log {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `event`.
    pub fn push(&self, event: Event) {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
    }

    /// The present end of the log.
    pub fn mark(&self) -> Mark {
        Mark(
            self.events
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len(),
        )
    }

    /// What happened since `mark`.
    ///
    /// # Panics
    /// If `mark` belongs to a longer log.
    pub fn since(&self, mark: Mark) -> Trace {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        Trace {
            events: events[mark.0..].to_vec(),
        }
    }

    /// All that happened.
    pub fn all(&self) -> Trace {
        self.since(Mark(0))
    }
}

/// A stretch of the log, to be counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    events: Vec<Event>,
}

impl Trace {
    /// The events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The part that `keep` accepts.
    pub fn filter(&self, mut keep: impl FnMut(&Event) -> bool) -> Self {
        Self {
            events: self
                .events
                .iter()
                .filter(|event| keep(event))
                .copied()
                .collect(),
        }
    }

    /// The part that `cpu` did.
    pub fn by(&self, cpu: CpuIndex) -> Self {
        self.filter(|event| event.cpu() == cpu)
    }

    /// The accesses to `unit`.
    pub fn on(&self, unit: Unit) -> Self {
        self.filter(|event| event.access().is_some_and(|access| access.unit == unit))
    }

    fn count(&self, keep: impl FnMut(&&Event) -> bool) -> usize {
        self.events.iter().filter(keep).count()
    }

    /// Loads from `unit`.
    pub fn loads(&self, unit: Unit) -> usize {
        self.count(|event| matches!(event, Event::Load(access) if access.unit == unit))
    }

    /// Stores to `unit`.
    pub fn stores(&self, unit: Unit) -> usize {
        self.count(|event| matches!(event, Event::Store(access) if access.unit == unit))
    }

    /// Memory-mapped loads and stores, of all units.
    pub fn mmio(&self) -> usize {
        self.count(|event| event.access().is_some_and(|access| access.unit.is_mmio()))
    }

    /// System-register, MSR and port reads and writes, of all CPUs.
    pub fn system(&self) -> usize {
        self.count(|event| event.access().is_some_and(|access| access.unit.is_system()))
    }

    /// Loads and stores of any kind.
    pub fn accesses(&self) -> usize {
        self.count(|event| event.access().is_some())
    }

    /// Barriers of one kind.
    pub fn barriers(&self, fence: Fence) -> usize {
        self.count(|event| matches!(event, Event::Barrier { fence: seen, .. } if *seen == fence))
    }

    /// The values that were stored to `offset` of `unit`, in order.
    pub fn stored(&self, unit: Unit, offset: usize) -> Vec<u64> {
        let value = |event: &Event| match event {
            Event::Store(access) if access.unit == unit && access.offset == offset => {
                Some(access.value)
            }
            _ => None,
        };
        self.events.iter().filter_map(value).collect()
    }

    /// The sum of what the accesses were charged.
    pub fn cost(&self) -> u64 {
        let costs = self.events.iter().filter_map(Event::access);
        costs.map(|access| u64::from(access.cost)).sum()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events
            .iter()
            .try_for_each(|event| writeln!(f, "{event}"))
    }
}
