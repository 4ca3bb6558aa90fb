// SPDX-License-Identifier: MIT OR Apache-2.0
//! What moves interrupts: the driver's and its allocator's side.

use core::fmt;

use irq_hal::{CpuIndex, Error, NodeId};

use crate::irq::Irq;
use crate::placement::{Among, Class};

/// What a place is wanted for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The interrupt.
    pub irq: Irq,
    /// Its class.
    pub class: Class,
    /// The CPUs that may serve it.
    pub among: Among<'a>,
    /// The device's node, if it is known.
    pub near: Option<NodeId>,
    /// The interrupt has a reservation ([`Mover::reserve`]), which this place uses up.
    pub reserved: bool,
}

/// What a source leaves behind at the place that it pointed at before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Leaves {
    /// Nothing: what was pending has moved along (an LPI after its move and the sync). The old
    /// place is given back at once.
    Nothing,
    /// What has reached the old place. Nothing new goes there, and nothing is under way
    /// (remapping, after the flush; a XIVE source after its sync). The old place is given back
    /// when [`Mover::pending`] says no.
    Drains,
    /// Messages may still be under way to the old place, until one has arrived at the new one
    /// (an MSI without remapping).
    Late,
}

/// Places of interrupts, and the sources that point at them: a driver with its allocator.
///
/// [`Hotplug`](super::Hotplug) calls it with no lock of its own held, from the context of the
/// call that it works for. What a call is told of an interrupt, no other call changes meanwhile:
/// calls for one interrupt come one after the other, but for `pending` and `give_back` of old
/// places, which come from the CPU of the place.
pub trait Mover: Sync {
    /// Where an interrupt is delivered: CPU and vector, the CPU of an LPI, a XIVE target.
    type Place: Copy + Send + fmt::Debug;

    /// Takes a place on a CPU of `wanted` that is open, and prepares it: from now on the
    /// interrupt is known there by its number.
    ///
    /// # Errors
    /// [`Error::NoCpu`] with the reason, or another error of the kinds
    /// [`Offline`](irq_hal::ErrorKind::Offline) and [`Full`](irq_hal::ErrorKind::Full), if no CPU
    /// of them can serve: another one may be asked for then.
    fn take(&self, wanted: &Wanted<'_>) -> Result<Self::Place, Error>;

    /// The CPU of a place.
    fn cpu_of(&self, place: Self::Place) -> CpuIndex;

    /// Gives back what `take` took. Nothing will arrive there; the CPU may be offline.
    fn give_back(&self, irq: Irq, class: Class, place: Self::Place);

    /// Points the source at `to`. Where hardware wants the source masked meanwhile, the driver
    /// does that; an event in between is kept.
    ///
    /// # Errors
    /// The controller's. The source points at `from` then, and nothing came to `to`.
    fn point(&self, irq: Irq, from: Option<Self::Place>, to: Self::Place) -> Result<Leaves, Error>;

    /// Whether something waits at an old place, to be taken there.
    ///
    /// # Context
    /// On the CPU of the place, masked.
    fn pending(&self, irq: Irq, place: Self::Place) -> bool;

    /// Lets an event that was pending at a place of a CPU that went arrive at `to`. A line that
    /// is still high raises one of its own: nothing need be done for it.
    fn replay(&self, irq: Irq, to: Self::Place);

    /// Stops the source, whatever its driver wants: an event meanwhile is kept. When it returns,
    /// what was under way has arrived (mask and read back).
    ///
    /// # Errors
    /// The controller's. The source is as before then.
    fn hold(&self, irq: Irq) -> Result<(), Error>;

    /// Ends a `hold`, and the state before the first start. A source that its driver masked
    /// stays masked.
    fn release(&self, irq: Irq);

    /// How many [`Class::Regular`] places there are on CPUs that are open, without `cpu`.
    fn room_without(&self, cpu: CpuIndex) -> u32;

    /// From now on places on `cpu` are taken.
    ///
    /// # Errors
    /// The allocator's. None is taken then.
    fn open(&self, cpu: CpuIndex) -> Result<(), Error>;

    /// From now on no place on `cpu` is taken. Those that are stay until they are given back.
    ///
    /// # Errors
    /// The allocator's. The CPU is open then.
    fn close(&self, cpu: CpuIndex) -> Result<(), Error>;

    /// Waits, bounded, until what is under way to `cpu` has arrived there: a millisecond on
    /// x86, whose local APIC must be on; a sync of its queues on POWER.
    ///
    /// # Errors
    /// The controller's.
    ///
    /// # Context
    /// On that CPU, masked.
    fn settle(&self, cpu: CpuIndex) -> Result<(), Error>;

    /// `cpu` has old places to give back: it shall call [`Changes::clean`](super::Changes::clean)
    /// soon, from a timer or an interrupt of its own. It may have gone offline just now, and has
    /// given them back then.
    fn wake(&self, cpu: CpuIndex);

    /// No CPU of the mask can serve a regular interrupt: `cpu` does, outside of it. To be
    /// reported.
    fn affinity_broken(&self, irq: Irq, cpu: CpuIndex) {
        let _ = (irq, cpu);
    }

    /// Reserves a place for an interrupt that is not started, without taking one.
    ///
    /// # Errors
    /// The allocator's.
    fn reserve(&self, irq: Irq) -> Result<(), Error> {
        let _ = irq;
        Ok(())
    }

    /// Gives a reservation back.
    fn unreserve(&self, irq: Irq) {
        let _ = irq;
    }
}
