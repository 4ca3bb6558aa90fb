// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver's side that allocates nothing and locks nothing, for up to 64 CPUs.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use irq_core::Irq;
use irq_core::cpu::CpuIndex;
use irq_core::hotplug::{Leaves, Mover, Wanted};
use irq_core::placement::{Among, Class};
use irq_hal::{Error, NoCpu};

#[derive(Default)]
pub struct Quiet {
    open: AtomicU64,
}

impl Mover for Quiet {
    type Place = u32;

    fn take(&self, wanted: &Wanted<'_>) -> Result<u32, Error> {
        let open = self.open.load(SeqCst);
        let asked = |cpu: &u32| match wanted.among {
            Among::Mask(mask) => mask.contains(CpuIndex::new(*cpu)),
            _ => true,
        };
        let mut cpus = (0..64).filter(|cpu| open >> cpu & 1 != 0);
        cpus.find(asked).ok_or(NoCpu::Offline.into())
    }

    fn cpu_of(&self, place: u32) -> CpuIndex {
        CpuIndex::new(place)
    }

    fn give_back(&self, _: Irq, _: Class, _: u32) {}

    fn point(&self, _: Irq, _: Option<u32>, _: u32) -> Result<Leaves, Error> {
        Ok(Leaves::Late)
    }

    fn pending(&self, _: Irq, _: u32) -> bool {
        true
    }

    fn replay(&self, _: Irq, _: u32) {}

    fn hold(&self, _: Irq) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self, _: Irq) {}

    fn room_without(&self, _: CpuIndex) -> u32 {
        u32::MAX
    }

    fn open(&self, cpu: CpuIndex) -> Result<(), Error> {
        self.open.fetch_or(1 << cpu.get(), SeqCst);
        Ok(())
    }

    fn close(&self, cpu: CpuIndex) -> Result<(), Error> {
        self.open.fetch_and(!(1 << cpu.get()), SeqCst);
        Ok(())
    }

    fn settle(&self, _: CpuIndex) -> Result<(), Error> {
        Ok(())
    }

    fn wake(&self, _: CpuIndex) {}
}
