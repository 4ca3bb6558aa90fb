// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as drivers and the shared code see it.

use core::alloc::Layout;
use core::arch::asm;
use core::ops::Range;
use core::ptr::NonNull;

use aarch64_cpu::asm::{barrier, wfi};
use boards_common::dma;
use boards_common::machine::{Machine, Port};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};
use spin::Once;

use crate::power::Conduit;
use crate::uart::Pl011;
use crate::{cpu, mmu, power, timer};

/// Alignment of a device's registers; no device of the machine has less.
const PAGE: u64 = 4096;

/// The one machine.
pub static MACHINE: Virt = Virt {
    early: Pl011::early(),
    text: Once::new(),
    frames: Once::new(),
    conduit: Once::new(),
};

/// QEMU's arm64 virt machine.
#[derive(Debug)]
pub struct Virt {
    early: Pl011,
    text: Once<Pl011>,
    frames: Once<Pl011>,
    conduit: Once<Conduit>,
}

impl Virt {
    /// Sets the console found in the devicetree; before, the first PL011 of the machine is it.
    pub fn set_text(&self, port: Pl011) {
        self.text.call_once(|| port);
    }

    /// Sets the port of `defmt` frames.
    pub fn set_frames(&self, port: Pl011) {
        self.frames.call_once(|| port);
    }

    /// Sets how PSCI is called.
    pub fn set_conduit(&self, conduit: Conduit) {
        self.conduit.call_once(|| conduit);
    }

    /// How PSCI is called, if it is there.
    pub fn conduit(&self) -> Option<Conduit> {
        self.conduit.get().copied()
    }

    /// The console.
    pub fn text(&self) -> &Pl011 {
        self.text.get().unwrap_or(&self.early)
    }

    /// Cleans or invalidates the data cache, line by line, to the point of coherency.
    fn each_line(region: &DmaRegion, range: Range<usize>, maintain: impl Fn(usize)) {
        assert!(
            range.start <= range.end && range.end <= region.len(),
            "range outside of a region"
        );
        let line = cpu::data_cache_line();
        let base = region.cpu().addr().get();
        let (mut at, end) = ((base + range.start) & !(line - 1), base + range.end);
        while at < end {
            maintain(at);
            at += line;
        }
        barrier::dsb(barrier::SY);
    }
}

// SAFETY: DMA memory comes from the heap, which is mapped Normal at its physical address and
// hands out each byte once; device windows are mapped for good; the mask is PSTATE.I; the block
// behind TPIDR_EL1 is one CPU's.
unsafe impl Platform for Virt {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        // SAFETY: the heap is mapped Normal, at its physical address, for good.
        let region = unsafe { dma::alloc(layout, node, limits)? };
        // The zeros too must reach a device that does not snoop.
        self.dma_publish(&region, 0..region.len());
        Ok(region)
    }

    fn dma_publish(&self, region: &DmaRegion, range: Range<usize>) {
        Self::each_line(region, range, |at| {
            // SAFETY: cleaning a line of mapped memory changes no value that a program sees.
            unsafe {
                asm!("dc cvac, {at}", at = in(reg) at, options(nostack, preserves_flags));
            }
        });
    }

    fn dma_observe(&self, region: &DmaRegion, range: Range<usize>) {
        Self::each_line(region, range, |at| {
            // SAFETY: clean and invalidate keeps what the CPU wrote; the region's lines hold
            // nothing else.
            unsafe {
                asm!("dc civac, {at}", at = in(reg) at, options(nostack, preserves_flags));
            }
        });
    }

    fn map_device(&self, page: PhysAddr, len: usize) -> Result<Mmio, Error> {
        if !page.get().is_multiple_of(PAGE) {
            return Err(Error::Invalid {
                what: "alignment of a device page",
                value: page.get(),
            });
        }
        mmu::map(page.get(), len as u64, mmu::DEVICE)?;
        let base = NonNull::new(page.get() as *mut u8).ok_or(Error::Invalid {
            what: "device page",
            value: 0,
        })?;
        // SAFETY: mapped as device memory in the line above, for good and for every CPU: they
        // share the tables.
        Ok(unsafe { Mmio::from_mapped(base, len) })
    }

    fn now(&self) -> Ticks {
        timer::now()
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        timer::ticks_in(micros)
    }

    fn relax(&self) {
        cpu::relax();
    }

    fn this_cpu(&self) -> CpuIndex {
        cpu::this().index
    }

    fn irq_save(&self) -> IrqState {
        cpu::irq_save()
    }

    unsafe fn irq_restore(&self, state: IrqState) {
        // SAFETY: the caller's promise is passed on.
        unsafe { cpu::irq_restore(state) }
    }

    fn held_ranks(&self) -> Option<&HeldRanks> {
        Some(&cpu::this().held)
    }
}

impl Machine for Virt {
    fn put(&self, port: Port, byte: u8) {
        match port {
            Port::Text => self.text().put(byte),
            Port::Frames => {
                if let Some(port) = self.frames.get() {
                    port.put(byte);
                }
            }
        }
    }

    fn sleep(&self, until: Option<Ticks>) {
        if let Some(at) = until {
            timer::wake_at(at);
        }
        // What was stored before is on its way when the CPU stops.
        barrier::dsb(barrier::SY);
        wfi();
        if until.is_some() {
            timer::wake_no_more();
        }
    }

    fn unmask(&self) {
        cpu::unmask();
    }

    fn power_off(&self) -> ! {
        power::off(self.conduit())
    }

    fn halt(&self) -> ! {
        power::halt()
    }
}
