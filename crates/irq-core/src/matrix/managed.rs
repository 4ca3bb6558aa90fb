// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vectors of managed interrupts: reserved on every CPU of a mask, in use on one.

use core::ops::ControlFlow::{Break, Continue};

use irq_hal::{CpuIndex, Error, NoCpu, Platform};

use super::area::invalid;
use super::words::{each_bank, expect_possible};
use super::{Matrix, Slot, Wanted};
use crate::cpu::{CpuSet, WORD};
use crate::placement::Class;

impl Matrix {
    /// Reserves a vector on each CPU of `mask`, online or not. Which one may differ between CPUs.
    ///
    /// `mask` must be the same throughout the call: of a live set the caller takes a snapshot.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoCpu`] for an empty mask; [`Error::NoSuchCpu`];
    /// [`Error::Full`] if a CPU of it has no vector left.
    ///
    /// # Context
    /// Any but a non-maskable interrupt, under no lock of rank 2 or above. Nothing allocates. A
    /// lock for each 64 CPUs, one after another: meanwhile others see a part of it done.
    pub fn reserve_managed<P>(&self, platform: &P, mask: &dyn CpuSet) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.expect_mask(mask)?;
        let failed = match self.reserve_until(platform, mask, None) {
            Ok(()) => return Ok(()),
            Err(bank) => bank,
        };
        // Every managed interrupt in use has a reservation of its own, so ours are to spare.
        let _ = self.remove_until(platform, mask, Some(failed));
        Err(Error::Full {
            what: "vectors of a CPU",
            capacity: self.vectors,
        })
    }

    /// Gives back a reservation on each CPU of `mask`. The interrupt that it was made for has
    /// freed its vector before.
    ///
    /// `mask` must be the same throughout the call, and as it was for the reservation.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoCpu`] for an empty mask; [`Error::NoSuchCpu`];
    /// [`Error::Invalid`] with the first CPU of it that has no reservation to spare.
    ///
    /// # Context
    /// As [`reserve_managed`](Self::reserve_managed).
    pub fn remove_managed<P>(&self, platform: &P, mask: &dyn CpuSet) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.expect_mask(mask)?;
        let none = each_bank(mask, |bank, bits| {
            match bits & !self.placement.room(Class::Managed, bank) {
                0 => Continue(()),
                none => Break((bank, none)),
            }
        });
        let (bank, none) = match none {
            Break(none) => none,
            Continue(()) => match self.remove_until(platform, mask, None) {
                Ok(()) => return Ok(()),
                // Somebody used one that was not theirs, since we looked.
                Err((bank, none)) => {
                    let _ = self.reserve_until(platform, mask, Some(bank));
                    (bank, none)
                }
            },
        };
        let cpu = u64::from(bank * WORD + none.trailing_zeros());
        Err(invalid("CPU to remove a reservation from", cpu))
    }

    /// A vector for a managed interrupt: one that is reserved on the CPU of those wanted that has
    /// the fewest managed interrupts in use. A CPU without a reservation to spare is none.
    ///
    /// # Errors
    /// Nothing has changed then: [`Error::NoCpu`] if there is no CPU; [`Error::Invalid`] for an
    /// irq that has no vector; [`Error::Busy`] if others were faster, time and again.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn alloc_managed<P>(&self, platform: &P, wanted: &Wanted<'_>) -> Result<Slot, Error>
    where
        P: Platform + ?Sized,
    {
        self.expect_irqs(wanted.irq, 1)?;
        self.take(platform, Class::Managed, wanted, |bank, bit| {
            bank.take_spare(bit)
        })
    }

    /// There is something in the mask, and nothing that cannot be.
    fn expect_mask(&self, mask: &dyn CpuSet) -> Result<(), Error> {
        expect_possible(mask, self.cpus())?;
        match each_bank(mask, |_, _| Break(())) {
            Break(()) => Ok(()),
            Continue(()) => Err(NoCpu::EmptyMask.into()),
        }
    }

    /// Reserves on the CPUs of `mask` before bank `end`, or up to the first bank that has a CPU
    /// with no vector left, which is the error.
    fn reserve_until<P>(&self, platform: &P, mask: &dyn CpuSet, end: Option<u32>) -> Result<(), u32>
    where
        P: Platform + ?Sized,
    {
        self.placement
            .update_mask(platform, mask, |bank, bits, change, data| {
                if end == Some(bank) || !data.reserve(bits) {
                    return Err(bank);
                }
                change.raise(Class::Regular, bits);
                change.room(Class::Managed, bits, true);
                Ok(())
            })
    }

    /// Likewise gives back. The error has the CPUs of the bank that have nothing to spare.
    fn remove_until<P>(
        &self,
        platform: &P,
        mask: &dyn CpuSet,
        end: Option<u32>,
    ) -> Result<(), (u32, u64)>
    where
        P: Platform + ?Sized,
    {
        self.placement
            .update_mask(platform, mask, |bank, bits, change, data| {
                if end == Some(bank) {
                    return Err((bank, 0));
                }
                data.remove(bits).map_err(|none| (bank, none))?;
                change.lower(Class::Regular, bits);
                change.room(Class::Managed, bits & !data.spares(), false);
                Ok(())
            })
    }

    /// Whether `cpu` has a reservation to spare, and is online.
    pub fn has_spare(&self, cpu: CpuIndex) -> bool {
        self.placement.has_room(Class::Managed, cpu)
    }
}
