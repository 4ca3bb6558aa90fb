// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the embedder decides once, at construction.

use irq_hal::Error;

use crate::cpu::bounded;
use crate::ipi::IpiSetup;
use crate::irq::{Irq, IrqRange};
use crate::lockup::Detector;

/// What [`Interrupts`](crate::Interrupts) is built from. Numbers are upper bounds: within them
/// nothing allocates later, beyond them is a typed error.
///
/// What is not asked for costs nothing: a uniprocessor names one CPU and no IPIs.
///
/// ```
/// use irq_core::{Interrupts, Irq, IrqRange, Setup};
///
/// let private = [IrqRange::new(Irq::new(0), 32)?];
/// let setup = Setup {
///     private: &private,
///     ..Setup::new(8, IrqRange::new(Irq::new(0), 288)?)
/// };
/// let interrupts = Interrupts::new(setup)?;
/// assert_eq!(interrupts.cpus(), 8);
/// # Ok::<(), irq_hal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The number of possible CPUs.
    pub cpus: u32,
    /// The number of possible nodes.
    pub nodes: u32,
    /// The numbers of all interrupts.
    pub irqs: IrqRange,
    /// Those that each CPU has for itself (timers, SGIs): they count per CPU.
    pub private: &'a [IrqRange],
    /// Interrupts between CPUs, if asked for.
    pub ipi: Option<IpiSetup<'a>>,
    /// Shuts lines off that nobody owns up to, if asked for.
    pub detector: Option<Detector>,
    /// Counts device interrupts on each CPU instead of once for all, for kernels that print
    /// that: a count of 16 bytes for each interrupt and CPU.
    pub count_per_cpu: bool,
}

/// What the memory of a CPU depends on. Blocks made for another shape do not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) cpus: u32,
    pub(crate) nodes: u32,
    pub(crate) ipi: bool,
    /// How many interrupts are private.
    pub(crate) private: u32,
    /// How many interrupts count per CPU.
    pub(crate) own: u32,
}

impl Setup<'_> {
    /// `cpus` CPUs of one node and the device interrupts `irqs`, and nothing else.
    pub const fn new(cpus: u32, irqs: IrqRange) -> Self {
        Self {
            cpus,
            nodes: 1,
            irqs,
            private: &[],
            ipi: None,
            detector: None,
            count_per_cpu: false,
        }
    }

    pub(crate) fn is_private(&self, irq: Irq) -> bool {
        self.private.iter().any(|range| range.contains(irq))
    }

    /// How many interrupts are private, in time that does not depend on how many there are.
    fn privates(&self) -> u32 {
        let bounds = |range: &IrqRange| {
            let first = u64::from(range.first().get());
            first..first + u64::from(range.count())
        };
        let all = bounds(&self.irqs);
        let (mut at, mut count) = (all.start, 0);
        while at < all.end {
            let ranges = || self.private.iter().map(bounds);
            let covered = ranges().filter(|range| range.contains(&at));
            at = match covered.map(|range| range.end.min(all.end)).max() {
                Some(end) => {
                    count += end - at;
                    end
                }
                // What is not private goes up to the next range.
                None => {
                    let behind = ranges().filter(|range| range.start > at && !range.is_empty());
                    behind.map(|range| range.start).min().unwrap_or(all.end)
                }
            };
        }
        count as u32
    }

    /// Refuses what cannot be.
    pub(crate) fn shape(&self) -> Result<Shape, Error> {
        // Before anything is allocated: a CPU's memory grows with both.
        bounded("number of CPUs", self.cpus)?;
        bounded("number of nodes", self.nodes)?;
        if let Some(detector) = &self.detector {
            detector.check()?;
        }
        if let Some(ipi) = &self.ipi
            && !self.irqs.contains(ipi.irq)
        {
            return Err(Error::NoSuchIrq { irq: ipi.irq.get() });
        }
        let private = self.privates();
        Ok(Shape {
            cpus: self.cpus,
            nodes: self.nodes,
            ipi: self.ipi.is_some(),
            private,
            own: if self.count_per_cpu {
                self.irqs.count()
            } else {
                private
            },
        })
    }
}
