// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which redistributor belongs to which CPU.
//!
//! A region is a window with redistributors one behind the other: each takes two frames, or
//! four if it has virtual LPIs, unless firmware gives a stride. A region ends at the one with
//! `GICR_TYPER.Last`, and at the latest where its window ends. Machines have one region, one
//! per socket, or one per redistributor. CPUs are matched by affinity, never by order, so no two
//! redistributors may show the same one.

use alloc::vec::Vec;

use irq_hal::atomic::{AtomicBool, Ordering};
use irq_hal::bus::Part;
use irq_hal::heap::try_push;
use irq_hal::{Error, Mmio, irq_debug, irq_warn};
use tock_registers::interfaces::Readable;

use super::{Asleep, Features, Redistributor};
use crate::affinity::{Mpidr, TyperAffinity};
use crate::error::ProbeError;
use crate::quirks::{Block, Effects, Quirks};
use crate::regs::gicr::{GICR_TYPER, Gicr};
use crate::regs::{FRAME, Frame, arch_revision};

/// No machine has redistributors farther apart.
const STRIDE_MAX: u64 = 1 << 30;

/// A redistributor's place.
#[derive(Debug)]
struct Entry {
    affinity: TyperAffinity,
    region: usize,
    offset: usize,
    len: usize,
    features: Features,
    /// Where its CPU is among the targets of SGIs.
    place: Place,
    /// A CPU has it.
    claimed: AtomicBool,
}

/// Where a CPU is among the targets of SGIs: the dense number of its cluster, and its bit in
/// the `TargetList` there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

impl Place {
    const POSITION: u32 = 0xf;

    /// The member of `cluster` with this Aff0, or just the lower 4 bits of it.
    pub(crate) const fn new(cluster: u32, affinity: u32) -> Self {
        Self(cluster << 4 | affinity & Self::POSITION)
    }

    /// From the word of another.
    pub(crate) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Both in one word.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    pub(crate) const fn cluster(self) -> usize {
        (self.0 >> 4) as usize
    }

    /// 0 to 15.
    pub(crate) const fn position(self) -> usize {
        (self.0 & Self::POSITION) as usize
    }
}

/// The redistributors of a machine, found once, by affinity.
#[derive(Debug)]
pub struct RedistributorMap<B = Mmio> {
    regions: Vec<B>,
    /// Sorted by the bits of the affinity that count, no two of which are alike.
    entries: Vec<Entry>,
    /// The bits of `GICR_TYPER[63:32]` that count.
    mask: u32,
    clusters: u32,
}

impl<B: Frame> RedistributorMap<B> {
    /// Walks `regions`, whose windows begin at the first `RD_base` of each. `stride` is the
    /// firmware's distance between redistributors in bytes, if it gives one. Only reads.
    ///
    /// # Errors
    /// [`ProbeError::NoRegions`], [`ProbeError::Stride`] and [`ProbeError::WindowTooShort`]
    /// before anything is touched; [`ProbeError::NotGicv3`]; [`ProbeError::Stride`] for one
    /// that is less than a redistributor's own frames; [`ProbeError::SameAffinity`];
    /// [`Error::OutOfMemory`].
    ///
    /// # Context
    /// Any that may allocate.
    pub fn discover(
        regions: Vec<B>,
        stride: Option<u64>,
        quirks: &Quirks<'_>,
    ) -> Result<Self, ProbeError> {
        check_windows(&regions, stride)?;
        let machine = quirks.machine_effects();
        let mut entries = Vec::new();
        let mut known = None;
        for (region, bus) in regions.iter().enumerate() {
            let mut offset = 0;
            while let Some(rd) = Part::new(bus, offset, 2 * FRAME) {
                let regs = Gicr { bus: rd };
                let pidr2 = regs.pidr2().get();
                if arch_revision(pidr2).is_none() {
                    if offset != 0 {
                        irq_warn!(
                            "gicv3: region {} ends at {:#x} without GICR_TYPER.Last",
                            region,
                            offset
                        );
                        break;
                    }
                    return Err(ProbeError::NotGicv3 {
                        register: "GICR_PIDR2",
                        value: pidr2,
                    });
                }
                let iidr = regs.iidr().get();
                // All redistributors of a machine are mostly alike: log a quirk once.
                let effects = match known {
                    Some((id, effects)) if id == iidr => effects,
                    _ => machine | quirks.effects(Block::Redistributor, iidr),
                };
                known = Some((iidr, effects));
                let typer = regs.typer().extract();
                let frames = if typer.is_set(GICR_TYPER::VLPIS) {
                    4 * FRAME
                } else {
                    2 * FRAME
                };
                let step = match stride {
                    // `check_windows` bounded it.
                    Some(stride) if stride as usize >= frames => stride as usize,
                    Some(stride) => return Err(ProbeError::Stride { stride }),
                    None => frames,
                };
                let entry = Entry {
                    affinity: TyperAffinity::from_typer(typer.get()),
                    region,
                    offset,
                    len: frames.min(bus.extent() - offset),
                    features: Features::new(typer, effects),
                    place: Place(0),
                    claimed: AtomicBool::new(false),
                };
                try_push(&mut entries, entry)?;
                if typer.is_set(GICR_TYPER::Last) {
                    break;
                }
                let Some(next) = offset.checked_add(step) else {
                    break;
                };
                offset = next;
            }
        }
        let mask = match machine.contains(Effects::AFF0_ONLY) {
            true => 0xff,
            false => u32::MAX,
        };
        entries.sort_unstable_by_key(|entry| entry.affinity.get() & mask);
        let same = |pair: &&[Entry]| (pair[0].affinity.get() ^ pair[1].affinity.get()) & mask == 0;
        if let Some(pair) = entries.windows(2).find(same) {
            return Err(ProbeError::SameAffinity {
                affinity: pair[0].affinity.get(),
            });
        }
        let clusters = number_clusters(&mut entries, mask);
        irq_debug!(
            "gicv3: {} redistributors in {} regions",
            entries.len(),
            regions.len()
        );
        Ok(Self {
            regions,
            entries,
            mask,
            clusters,
        })
    }

    fn entry(&self, mpidr: Mpidr) -> Option<&Entry> {
        let key = |affinity: TyperAffinity| affinity.get() & self.mask;
        let found = self
            .entries
            .binary_search_by_key(&key(mpidr.typer()), |entry| key(entry.affinity));
        self.entries.get(found.ok()?)
    }

    /// The redistributor of the CPU `mpidr`, for one CPU alone until it is
    /// [released](Self::release).
    pub(crate) fn claim(&self, mpidr: Mpidr) -> Result<Redistributor<Part<&B>, Asleep>, Error> {
        let redistributor = self.find(mpidr)?;
        // Acquire: pairs with the release of the CPU that had it before.
        match self.entry(mpidr) {
            Some(entry) if !entry.claimed.swap(true, Ordering::Acquire) => Ok(redistributor),
            _ => Err(Error::Exists {
                what: "the CPU of that redistributor",
            }),
        }
    }

    /// Lets another CPU claim the redistributor. For who claimed it.
    pub(crate) fn release(&self, mpidr: Mpidr) {
        if let Some(entry) = self.entry(mpidr) {
            // Release: pairs with the acquire in `claim`.
            entry.claimed.store(false, Ordering::Release);
        }
    }

    /// The redistributor of the CPU `mpidr`.
    ///
    /// # Errors
    /// [`Error::NoUnitForCpu`].
    ///
    /// # Context
    /// Any. Touches no hardware and allocates nothing.
    pub fn find(&self, mpidr: Mpidr) -> Result<Redistributor<Part<&B>, Asleep>, Error> {
        let missing = Error::NoUnitForCpu {
            block: "GICR",
            id: mpidr.get(),
        };
        let entry = self.entry(mpidr).ok_or(missing)?;
        let region = self.regions.get(entry.region).ok_or(missing)?;
        let part = Part::new(region, entry.offset, entry.len).ok_or(missing)?;
        Ok(Redistributor::known(part, entry.features))
    }

    /// Where the CPU `mpidr` is among the targets of SGIs.
    pub(crate) fn place(&self, mpidr: Mpidr) -> Option<Place> {
        Some(self.entry(mpidr)?.place)
    }

    /// How many clusters the redistributors show: groups that agree in all but the lower 4 bits
    /// of Aff0.
    pub(crate) fn clusters(&self) -> usize {
        self.clusters as usize
    }

    /// Whether the CPU `mpidr` has a redistributor.
    pub fn contains(&self, mpidr: Mpidr) -> bool {
        self.entry(mpidr).is_some()
    }

    /// How many redistributors there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none: never after [`discover`](Self::discover).
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The affinities of all redistributors, ascending.
    pub fn affinities(&self) -> impl Iterator<Item = Mpidr> {
        self.entries.iter().map(|entry| entry.affinity.mpidr())
    }

    /// How many extended PPIs every CPU has: the least of all redistributors.
    pub fn eppis(&self) -> u32 {
        self.entries
            .iter()
            .map(|entry| entry.features.eppis)
            .min()
            .unwrap_or(0)
    }
}

/// Numbers the clusters of `entries`, which are sorted, and says how many there are.
fn number_clusters(entries: &mut [Entry], mask: u32) -> u32 {
    let (mut clusters, mut last) = (0, None);
    for entry in entries {
        let affinity = entry.affinity.get() & mask;
        let key = Some(affinity & !Place::POSITION);
        clusters += u32::from(key != last);
        last = key;
        entry.place = Place::new(clusters - 1, affinity);
    }
    clusters
}

/// Refuses regions that cannot hold a redistributor each; touches nothing.
pub(crate) fn check_windows<B: Frame>(
    regions: &[B],
    stride: Option<u64>,
) -> Result<(), ProbeError> {
    if regions.is_empty() {
        return Err(ProbeError::NoRegions);
    }
    if let Some(stride) = stride
        && (stride < 2 * FRAME as u64
            || stride > STRIDE_MAX
            || !stride.is_multiple_of(FRAME as u64))
    {
        return Err(ProbeError::Stride { stride });
    }
    for region in regions {
        let len = region.extent();
        if len < 2 * FRAME {
            return Err(ProbeError::WindowTooShort {
                block: "GICR",
                len,
                need: 2 * FRAME,
            });
        }
    }
    Ok(())
}
