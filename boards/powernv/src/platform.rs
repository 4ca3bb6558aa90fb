// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as drivers and the shared code see it.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use boards_common::dma;
use boards_common::machine::{Machine, Port};
use boards_common::ns16550::{self, Ns16550};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::mmio::MmioPage;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};
use irq_xive::Firmware;
use spin::Once;

use crate::{cpu, power, timer};

/// Alignment of a device's registers, but for those of the LPC bus.
const PAGE: u64 = 4096;

/// The first serial port's registers on both machines, for what is said before the devicetree is
/// read: chip 0's LPC bus, its I/O space, port 0x3f8.
const CONSOLE: u64 = 0x6_0300_d001_03f8;

/// A serial port.
pub type Uart = Ns16550<Mmio>;

/// The one machine.
pub static MACHINE: PowerNv = PowerNv {
    early: early(),
    text: Once::new(),
    frames: Once::new(),
};

/// QEMU's powernv machines under skiboot.
#[derive(Debug)]
pub struct PowerNv {
    early: Uart,
    text: Once<Uart>,
    frames: Once<Uart>,
}

const fn early() -> Uart {
    // The address is a constant other than zero.
    let base = NonNull::new(CONSOLE as *mut u8).unwrap();
    // SAFETY: in hypervisor real mode every device is mapped, and the machine has a 16550 there.
    // No reference to it is formed.
    Ns16550::new(unsafe { Mmio::from_mapped(base, ns16550::LEN) }, 0)
}

impl PowerNv {
    /// Sets the console found in the devicetree; before, the machine's first port is it.
    pub fn set_text(&self, port: Uart) {
        self.text.call_once(|| port);
    }

    /// Sets the port of `defmt` frames.
    pub fn set_frames(&self, port: Uart) {
        self.frames.call_once(|| port);
    }

    /// The console.
    pub fn text(&self) -> &Uart {
        self.text.get().unwrap_or(&self.early)
    }

    /// The `len` bytes of registers at `at`, of any alignment that their bus allows.
    ///
    /// # Errors
    /// [`Error::Invalid`] for address 0.
    pub fn registers(&self, at: PhysAddr, len: usize) -> Result<Mmio, Error> {
        let base = NonNull::new(at.get() as *mut u8).ok_or(Error::Invalid {
            what: "device page",
            value: 0,
        })?;
        // SAFETY: in hypervisor real mode device space is there for good and for every CPU, by
        // the accesses that `Mmio` makes. No reference to it is formed.
        Ok(unsafe { Mmio::from_mapped(base, len) })
    }
}

// SAFETY: DMA memory comes from the heap, which stands at its physical address and hands out each
// byte once; device windows are there for good; the mask is MSR.EE; the block behind r13 is one
// CPU's.
unsafe impl Platform for PowerNv {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        // SAFETY: the heap is memory that real mode uses at its physical address, for good.
        unsafe { dma::alloc(layout, node, limits) }
    }

    // Devices snoop the caches.
    fn dma_publish(&self, _: &DmaRegion, _: Range<usize>) {}

    fn dma_observe(&self, _: &DmaRegion, _: Range<usize>) {}

    fn map_device(&self, page: PhysAddr, len: usize) -> Result<Mmio, Error> {
        if !page.get().is_multiple_of(PAGE) {
            return Err(Error::Invalid {
                what: "alignment of a device page",
                value: page.get(),
            });
        }
        self.registers(page, len)
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

// SAFETY: `call` enters OPAL where it said that it is; windows are device space for good.
unsafe impl Firmware for PowerNv {
    type Window = MmioPage<{ PAGE as usize }>;

    unsafe fn call(&self, call: u64, args: [u64; 7]) -> i64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { power::call(call, args) }
    }

    // Sources and TIMA are used in the first 4 KiB of their pages.
    fn map(&self, at: PhysAddr, len: usize) -> Result<Self::Window, Error> {
        MmioPage::new(self.map_device(at, len)?)
    }
}

impl Machine for PowerNv {
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
        irq_hal::bus::arch::complete();
        cpu::stop();
        if until.is_some() {
            timer::wake_no_more();
        }
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
