// SPDX-License-Identifier: MIT OR Apache-2.0
//! The top object: interrupts, their actions, their counts.

use alloc::vec::Vec;
use core::fmt;

use irq_hal::atomic::Ordering::Relaxed;
use irq_hal::heap::try_vec;
use irq_hal::percpu::{CachePadded, OnCpu, PerCpu};
use irq_hal::removal::Reader;
use irq_hal::{CpuIndex, Error, Platform};

use crate::block::{CpuBlock, Parts, own_place};
use crate::control::Control;
use crate::counts::{Counts, CpuCounts, Tally};
use crate::descriptor::{Change, Descriptors, Place, Upkeep};
use crate::driver::Lines;
use crate::ipi::{Ipi, Ipis};
use crate::irq::{Irq, IrqRange};
use crate::lockup::{Detector, Line, NOT_DEFERRED};
use crate::setup::{Setup, Shape};
use crate::topology::Topology;

/// All interrupts of a machine, or of one of its controllers. A second controller's numbers are
/// a second object, or part of the one range.
///
/// It is built by value once there is a heap, moves into the kernel's one static, and needs
/// `&self` only. Everything is sized at construction: a descriptor never moves, and dispatch
/// allocates nothing and takes no lock.
// The order of the fields is kept, so that what every dispatch reads stands together.
#[derive(Debug)]
#[repr(C)]
pub struct Interrupts {
    // Read by every dispatch, written by none.
    pub(crate) irqs: IrqRange,
    pub(crate) descriptors: Descriptors,
    /// Of the interrupts that count once for all CPUs.
    pub(crate) shared: Vec<CachePadded<Tally>>,
    pub(crate) ipi: Ipi,
    // Control, and what is unhandled or deferred.
    pub(crate) upkeep: Vec<Upkeep>,
    pub(crate) detector: Option<Detector>,
    pub(crate) topology: Topology,
}

impl Interrupts {
    /// What `setup` says.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] for no CPU or no node, for a detector with a
    /// threshold of 0 or above its window, and for IPIs that cannot be.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn new(setup: Setup<'_>) -> Result<Self, Error> {
        let shape = setup.shape()?;
        let reader = |_| Ok(Reader::new(Parts::new(shape)?));
        Self::build(setup, shape, PerCpu::try_new(setup.cpus, reader)?)
    }

    /// Likewise, with a block for each CPU, in the order of their indices, where the embedder
    /// placed it.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Invalid`] for another number of blocks than CPUs;
    /// [`Error::WrongBlock`] for one of another setup; [`Error::Busy`] for one that serves already.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn with_blocks(
        setup: Setup<'_>,
        blocks: impl ExactSizeIterator<Item = &'static CpuBlock>,
    ) -> Result<Self, Error> {
        let shape = setup.shape()?;
        let readers = PerCpu::from_blocks(blocks.map(|block| &block.0))?;
        if readers.len() != setup.cpus {
            return Err(Error::Invalid {
                what: "number of blocks",
                value: u64::from(readers.len()),
            });
        }
        for (cpu, reader) in readers.iter() {
            if *reader.block().shape() != shape {
                return Err(Error::WrongBlock { cpu });
            }
        }
        Self::build(setup, shape, readers)
    }

    fn build(
        setup: Setup<'_>,
        shape: Shape,
        readers: PerCpu<Reader<Parts>>,
    ) -> Result<Self, Error> {
        let count = setup.irqs.count();
        let mut upkeep = try_vec(count as usize)?;
        let mut private = 0;
        for irq in setup.irqs.iter() {
            let is_private = setup.is_private(irq);
            upkeep.push(Upkeep::new(is_private.then_some(private)));
            private += u32::from(is_private);
        }
        let (mut own, mut shared) = (0, 0);
        let descriptors = Descriptors::new(readers, count, |index| {
            let is_private = upkeep
                .get(index as usize)
                .is_some_and(|upkeep| upkeep.private.is_some());
            if is_private || setup.count_per_cpu {
                own += 1;
                Place::Own(own_place(own - 1))
            } else {
                shared += 1;
                Place::Shared(shared - 1)
            }
        })?;
        debug_assert_eq!(own, shape.own);
        for parts in descriptors.blocks() {
            parts.reset();
        }
        let mut tallies = try_vec(shared as usize)?;
        tallies.extend((0..shared).map(|_| CachePadded::new(Tally::new())));
        let Setup { cpus, nodes, .. } = setup;
        Ok(Self {
            irqs: setup.irqs,
            descriptors,
            shared: tallies,
            ipi: Ipi::new(setup.ipi)?,
            upkeep,
            detector: setup.detector,
            topology: Topology::new(cpus, nodes)?,
        })
    }

    /// The numbers that this object covers.
    pub const fn irqs(&self) -> IrqRange {
        self.irqs
    }

    /// The number of possible CPUs.
    pub fn cpus(&self) -> u32 {
        self.descriptors.cpus()
    }

    /// Where the CPUs are that are, or were, online. They come and go by
    /// [`cpu_online`](Self::cpu_online) and [`cpu_offline`](Self::cpu_offline), which keep it in
    /// step with who can be sent to; its own calls are for kernels without IPIs.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The control side: these interrupts with `platform` and the controller `lines`.
    pub const fn control<'a>(
        &'a self,
        platform: &'a dyn Platform,
        lines: &'a dyn Lines,
    ) -> Control<'a> {
        Control {
            interrupts: self,
            platform,
            lines,
        }
    }

    /// The index of `irq` and what is kept of it.
    pub(crate) fn upkeep(&self, irq: Irq) -> Result<(u32, &Upkeep), Error> {
        let unknown = Error::NoSuchIrq { irq: irq.get() };
        let index = self.irqs.offset(irq).ok_or(unknown)?;
        let upkeep = self.upkeep.get(index as usize).ok_or(unknown)?;
        Ok((index, upkeep))
    }

    pub(crate) fn change<'a>(
        &'a self,
        platform: &'a dyn Platform,
        irq: Irq,
    ) -> Result<Change<'a>, Error> {
        let (index, upkeep) = self.upkeep(irq)?;
        Change::begin(platform, &self.descriptors, index, &upkeep.changes)
    }

    /// The line of an interrupt, on `cpu` if it is private.
    pub(crate) fn line<'a>(&'a self, upkeep: &'a Upkeep, cpu: CpuIndex) -> Option<&'a Line> {
        match upkeep.private {
            Some(index) => self.descriptors.block(cpu)?.line(index),
            None => Some(&upkeep.line),
        }
    }

    /// All lines of an interrupt: one, or one for each CPU.
    pub(crate) fn lines<'a>(&'a self, upkeep: &'a Upkeep) -> impl Iterator<Item = &'a Line> {
        let count = match upkeep.private {
            Some(_) => self.cpus(),
            None => 1,
        };
        (0..count).filter_map(|cpu| self.line(upkeep, CpuIndex::new(cpu)))
    }

    pub(crate) fn total(&self, place: Place) -> Counts {
        match place {
            Place::Shared(index) => match self.shared.get(index as usize) {
                Some(tally) => tally.get(),
                None => Counts::default(),
            },
            Place::Own(index) => self
                .descriptors
                .blocks()
                .filter_map(|block| block.tally(index))
                .fold(Counts::default(), |sum, tally| sum.plus(tally.get())),
        }
    }

    fn place(&self, irq: Irq) -> Option<Place> {
        self.descriptors.data(self.irqs.offset(irq)?).copied()
    }

    /// The IPIs, if theirs is the interrupt `irq`.
    pub(crate) fn ipi_of(&self, irq: Irq) -> Option<Ipis<'_>> {
        self.ipi.is(irq).then(|| self.any_ipis())
    }

    /// How often `irq` was taken, over all CPUs. Where it counts per CPU it is a sum over CPUs
    /// that go on counting.
    ///
    /// # Context
    /// Any.
    pub fn counts(&self, irq: Irq) -> Option<Counts> {
        if self.ipi_of(irq).is_some() {
            let cpus = (0..self.cpus()).map(CpuIndex::new);
            let each = cpus.filter_map(|cpu| self.counts_on(irq, cpu));
            return Some(each.fold(Counts::default(), Counts::plus));
        }
        Some(self.total(self.place(irq)?))
    }

    /// How often `cpu` took `irq`, if it counts per CPU: a private interrupt, or any with
    /// [`Setup::count_per_cpu`].
    ///
    /// # Context
    /// Any.
    pub fn counts_on(&self, irq: Irq, cpu: CpuIndex) -> Option<Counts> {
        if let Some(ipis) = self.ipi_of(irq) {
            return Some(Counts {
                taken: ipis.taken_on(cpu)?,
                unhandled: 0,
            });
        }
        match self.place(irq)? {
            Place::Own(index) => Some(self.descriptors.block(cpu)?.tally(index)?.get()),
            Place::Shared(_) => None,
        }
    }

    /// What `cpu` met besides our interrupts.
    ///
    /// # Context
    /// Any.
    pub fn cpu_counts(&self, cpu: CpuIndex) -> Option<CpuCounts> {
        Some(self.descriptors.block(cpu)?.odd())
    }

    /// Whether the detector shut `irq` off, on any CPU, and nobody registered or unmasked it
    /// since.
    ///
    /// # Context
    /// Any.
    pub fn is_shut_off(&self, irq: Irq) -> bool {
        let Ok((_, upkeep)) = self.upkeep(irq) else {
            return false;
        };
        self.lines(upkeep).any(|line| line.window.is_shut_off())
    }

    /// Whether `irq` waits, on any CPU, for [`Control::complete`].
    ///
    /// # Context
    /// Any.
    pub fn is_deferred(&self, irq: Irq) -> bool {
        let Ok((_, upkeep)) = self.upkeep(irq) else {
            return false;
        };
        self.lines(upkeep)
            .any(|line| line.deferred.load(Relaxed) != NOT_DEFERRED)
    }

    /// Prints a line for each node that has had IPIs, and for each interrupt that was taken or
    /// has an action: its number, how often it was taken and not handled, the names of its
    /// actions, and whether it is deferred or shut off.
    ///
    /// Allocates nothing and takes no lock: usable masked, and in a panic.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn snapshot(&self, on: &OnCpu, out: &mut dyn fmt::Write) -> fmt::Result {
        let Some(here) = self.descriptors.here(on) else {
            return Ok(());
        };
        if let Ok(ipis) = self.ipis() {
            ipis.snapshot(out)?;
        }
        for (index, irq) in (0..).zip(self.irqs.iter()) {
            let Some(at) = here.at(index) else { continue };
            let counts = self.total(*at.data());
            let list = at.read(0);
            if list.is_none() && counts == Counts::default() {
                continue;
            }
            write!(
                out,
                "{irq} taken={} unhandled={}",
                counts.taken, counts.unhandled
            )?;
            for entry in list.iter().flat_map(|list| list[0].iter()) {
                write!(out, " {}", entry.action.name)?;
            }
            for (is, what) in [
                (self.is_deferred(irq), " (deferred)"),
                (self.is_shut_off(irq), " (shut off)"),
            ] {
                out.write_str(if is { what } else { "" })?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
