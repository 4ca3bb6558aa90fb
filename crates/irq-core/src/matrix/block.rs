// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consecutive vectors of one CPU, for devices whose message has room for one address and a few
//! low bits: the first vector is a multiple of their number.

use irq_hal::{CpuIndex, Error, NoCpu, Platform};

use super::area::invalid;
use super::choice::{CONTENDED, TRIES};
use super::{Entry, Matrix, Policy, Slot, Wanted};
use crate::cpu::{CpuSet, WORD};
use crate::irq::Irq;
use crate::placement::{Among, Choice, Class, Request};

/// The most vectors of a block.
const MOST: u32 = 32;

/// A choice that can be compared with those of other banks: that with the least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    isolated: bool,
    far: bool,
    load: u32,
    core_load: u32,
    /// How far from where a tie begins.
    distance: u32,
}

/// Some CPUs of a bank.
struct Few {
    first: u32,
    bits: u64,
}

impl CpuSet for Few {
    fn contains(&self, cpu: CpuIndex) -> bool {
        let offset = cpu.get().checked_sub(self.first);
        offset.is_some_and(|offset| offset < WORD && self.bits >> offset & 1 != 0)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        if self.bits != 0 {
            f(CpuIndex::new(self.first), self.bits);
        }
    }
}

impl Matrix {
    /// `count` consecutive vectors of one CPU for as many consecutive irqs from `wanted.irq` on.
    /// `count` is a power of two up to 32, and the first vector a multiple of it. Each is freed by
    /// itself, or all by [`free_block`](Self::free_block).
    ///
    /// # Errors
    /// Nothing has changed then: those of [`alloc`](Self::alloc); [`Error::Invalid`] for another
    /// count; [`Error::NoCpu`] also where CPUs have vectors and none such a run.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc). Where the best CPU has no such run, every bank of the mask is
    /// locked once, one after another.
    pub fn alloc_block<P>(
        &self,
        platform: &P,
        wanted: &Wanted<'_>,
        count: u32,
    ) -> Result<Slot, Error>
    where
        P: Platform + ?Sized,
    {
        if count > MOST || !count.is_power_of_two() {
            return Err(invalid("number of consecutive vectors", u64::from(count)));
        }
        self.expect_irqs(wanted.irq, count)?;
        let mut cpu = self.choose(platform, Class::Regular, wanted)?;
        for _ in 0..TRIES {
            if let Some(slot) = self.take_block(platform, cpu, wanted.irq, count)? {
                return Ok(slot);
            }
            cpu = self.choose_run(platform, wanted, count)?;
        }
        Err(CONTENDED)
    }

    /// The owners of a block give it back: `count` vectors from `first` on, of the irqs from `irq`
    /// on.
    ///
    /// # Errors
    /// As [`free`](Self::free), if that is so of any of them; [`Error::Invalid`] for no vector at
    /// all.
    ///
    /// # Context
    /// As [`alloc`](Self::alloc).
    pub fn free_block<P>(
        &self,
        platform: &P,
        first: Slot,
        irq: Irq,
        count: u32,
    ) -> Result<(), Error>
    where
        P: Platform + ?Sized,
    {
        self.put(platform, first, irq, count)
    }

    /// Takes a run of `cpu`, if it has one.
    fn take_block<P>(
        &self,
        platform: &P,
        cpu: CpuIndex,
        first: Irq,
        count: u32,
    ) -> Result<Option<Slot>, Error>
    where
        P: Platform + ?Sized,
    {
        self.placement.update(platform, cpu, |change, bank| {
            if !change.online() {
                return None;
            }
            let start = bank.take_run(change.bit(), count as usize)?;
            change.place(Class::Regular, count as i32);
            for offset in 0..count {
                let irq = Irq::new(first.get() + offset);
                self.slots
                    .set(cpu, start + offset as usize, Entry::Irq(irq));
            }
            let vector = self.area.vector(start);
            Some(Slot { cpu, vector })
        })
    }

    /// The best of the CPUs that have a run.
    fn choose_run<P>(
        &self,
        platform: &P,
        wanted: &Wanted<'_>,
        count: u32,
    ) -> Result<CpuIndex, Error>
    where
        P: Platform + ?Sized,
    {
        let count = count as usize;
        if self.policy == Policy::Compatible {
            let able = |bank: &super::Bank| bank.with_run(count);
            return self.scan_near(platform, Class::Regular, wanted, &able);
        }
        let mut best = None::<(Rank, CpuIndex)>;
        self.each_bank_of(wanted.among, &mut |bank, bits| {
            let able = self
                .placement
                .update_bank(platform, bank, |_, data| bits & data.with_run(count));
            let few = Few {
                first: bank * WORD,
                bits: able.unwrap_or(0),
            };
            let request = Request {
                class: Class::Regular,
                among: Among::Mask(&few),
                near: wanted.near,
                turn: wanted.irq.get(),
            };
            if let Ok(choice) = self.placement.choose(&request) {
                let rank = self.rank(&choice, &request);
                if best.is_none_or(|(least, _)| rank < least) {
                    best = Some((rank, choice.cpu));
                }
            }
        });
        best.map(|(_, cpu)| cpu).ok_or(NoCpu::Full.into())
    }

    fn rank(&self, choice: &Choice, request: &Request<'_>) -> Rank {
        let (cpu, start) = (choice.cpu.get(), request.turn % self.cpus());
        let far = |near| self.node_of(choice.cpu) != Some(near);
        Rank {
            isolated: choice.isolated,
            far: request.near.is_some_and(far),
            load: choice.load,
            core_load: choice.core_load,
            distance: match cpu.checked_sub(start) {
                Some(distance) => distance,
                None => cpu + (self.cpus() - start),
            },
        }
    }
}
