// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as drivers and the shared code see it.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use boards_common::dma;
use boards_common::machine::{Machine, Port};
use boards_common::ns16550::Ns16550;
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};
use irq_x2apic::Ports;

use crate::{cpu, mmu, power, sleep, timer, uart};

/// Alignment of a device's registers; no device of the machine has less.
const PAGE: u64 = 4096;

/// The one machine.
pub static MACHINE: Q35 = Q35 {
    text: uart::port(uart::TEXT),
    frames: uart::port(uart::FRAMES),
};

/// QEMU's q35 machine.
#[derive(Debug)]
pub struct Q35 {
    text: Ns16550<Ports>,
    frames: Ns16550<Ports>,
}

// SAFETY: DMA memory comes from the heap, which is mapped write-back at its physical address and
// hands out each byte once; device windows are mapped for good; the mask is RFLAGS.IF; the block
// behind the GS base is one CPU's.
unsafe impl Platform for Q35 {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        // SAFETY: the heap is mapped write-back, at its physical address, for good.
        unsafe { dma::alloc(layout, node, limits) }
    }

    /// Nothing: devices snoop.
    fn dma_publish(&self, _: &DmaRegion, _: Range<usize>) {}

    /// Nothing: devices snoop.
    fn dma_observe(&self, _: &DmaRegion, _: Range<usize>) {}

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

impl Machine for Q35 {
    fn put(&self, port: Port, byte: u8) {
        match port {
            Port::Text => self.text.put(byte),
            Port::Frames => self.frames.put(byte),
        }
    }

    fn sleep(&self, until: Option<Ticks>) {
        sleep::sleep(until);
    }

    fn unmask(&self) {
        cpu::unmask();
    }

    fn power_off(&self) -> ! {
        power::off()
    }

    fn halt(&self) -> ! {
        power::halt()
    }
}
