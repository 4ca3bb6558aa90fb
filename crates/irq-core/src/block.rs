// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one CPU has for itself.

use alloc::vec::Vec;
use core::fmt;

use irq_hal::Error;
use irq_hal::atomic::{AtomicU64, Ordering::Relaxed};
use irq_hal::heap::try_vec;
use irq_hal::percpu::CachePadded;
use irq_hal::removal::Reader;

use crate::counts::{CpuCounts, Tally};
use crate::ipi;
use crate::lockup::{Line, NOT_DEFERRED};
use crate::setup::{Setup, Shape};

/// Everything that one CPU writes, on cache lines of its own: for an embedder that places it
/// near its CPU ([`Interrupts::with_blocks`](crate::Interrupts::with_blocks)).
///
/// It serves one [`Interrupts`](crate::Interrupts) at a time.
pub struct CpuBlock(pub(crate) CachePadded<Reader<Parts>>);

impl CpuBlock {
    /// A block for the interrupts that are built from `setup`. Its lists of counts are allocated
    /// here, wherever the allocator puts them for the CPU that calls.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] for a setup that
    /// [`Interrupts::new`](crate::Interrupts::new) refuses.
    ///
    /// # Context
    /// Any that may allocate.
    pub fn try_new(setup: &Setup<'_>) -> Result<Self, Error> {
        let parts = Parts::new(setup.shape()?)?;
        Ok(Self(CachePadded::new(Reader::new(parts))))
    }
}

impl fmt::Debug for CpuBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuBlock")
            .field("shape", self.0.block().shape())
            .finish_non_exhaustive()
    }
}

/// How many values of `T` at either end of a list are left alone, so that what is used of the
/// list shares no line with another allocation.
pub(crate) const fn margin<T>() -> usize {
    size_of::<CachePadded<u8>>().div_ceil(size_of::<T>())
}

/// `count` values between margins.
pub(crate) fn try_apart<T>(count: u32, make: impl Fn() -> T) -> Result<Vec<T>, Error> {
    let count = count as usize + 2 * margin::<T>();
    let mut list = try_vec(count)?;
    list.extend((0..count).map(|_| make()));
    Ok(list)
}

/// Where the counts of the interrupt that is number `index` of those that count per CPU stand.
pub(crate) const fn own_place(index: u32) -> u32 {
    index + margin::<Tally>() as u32
}

/// The parts of a block besides the notes of removal.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Of the interrupts that count per CPU, between margins.
    tallies: Vec<Tally>,
    /// Of the private interrupts, between margins.
    lines: Vec<Line>,
    shape: Shape,
    pub(crate) ipi: ipi::Block,
    odd: CachePadded<Odd>,
}

/// What is counted besides interrupts of ours.
#[derive(Debug)]
struct Odd {
    nothing: AtomicU64,
    stray: AtomicU64,
}

impl Parts {
    pub(crate) fn new(shape: Shape) -> Result<Self, Error> {
        Ok(Self {
            tallies: try_apart(shape.own, Tally::new)?,
            lines: try_apart(shape.private, Line::new)?,
            shape,
            ipi: match shape.ipi {
                true => ipi::Block::new(shape.cpus, shape.nodes)?,
                false => ipi::Block::new(0, 0)?,
            },
            odd: CachePadded::new(Odd {
                nothing: AtomicU64::new(0),
                stray: AtomicU64::new(0),
            }),
        })
    }

    /// As new, for a block that served before.
    pub(crate) fn reset(&self) {
        self.tallies.iter().for_each(Tally::reset);
        for line in &self.lines {
            line.deferred.store(NOT_DEFERRED, Relaxed);
            line.window.reset();
        }
        self.odd.nothing.store(0, Relaxed);
        self.odd.stray.store(0, Relaxed);
        self.ipi.reset();
    }

    pub(crate) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The counts at `place`, a value of [`own_place`].
    #[inline]
    pub(crate) fn tally(&self, place: u32) -> Option<&Tally> {
        self.tallies.get(place as usize)
    }

    /// The line of private interrupt `index` on this CPU.
    pub(crate) fn line(&self, index: u32) -> Option<&Line> {
        self.lines.get(margin::<Line>() + index as usize)
    }

    #[cold]
    pub(crate) fn count_nothing(&self) {
        self.odd.nothing.fetch_add(1, Relaxed);
    }

    #[cold]
    pub(crate) fn count_stray(&self) {
        self.odd.stray.fetch_add(1, Relaxed);
    }

    pub(crate) fn odd(&self) -> CpuCounts {
        CpuCounts {
            nothing: self.odd.nothing.load(Relaxed),
            stray: self.odd.stray.load(Relaxed),
        }
    }
}
