// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an interrupt's entry knows.

use core::any::Any;
use core::fmt;

use irq_hal::CpuIndex;
use irq_hal::percpu::OnCpu;

/// One entry into interrupt handling: the CPU, on x86 the vector, and whatever the embedder
/// wants its actions to see (the trap frame, a lock token).
///
/// The embedder's stub makes it, interrupts masked, and passes it to
/// [`Interrupts::dispatch`](crate::Interrupts::dispatch). Making it is safe; the promise that the
/// code is on that CPU is [`OnCpu::new`]'s.
///
/// ```
/// use irq_core::IrqContext;
/// use irq_core::cpu::{CpuIndex, OnCpu};
///
/// struct TrapFrame {
///     pc: usize,
/// }
///
/// fn entry(frame: &TrapFrame, cpu: CpuIndex) {
///     // SAFETY: interrupts are masked from the vector on, and the kernel's per-CPU register
///     // gave `cpu`.
///     let on = unsafe { OnCpu::new(cpu) };
///     let cx = IrqContext::new(on, Some(frame), None);
///     assert_eq!(cx.frame::<TrapFrame>().map(|frame| frame.pc), Some(0x8000));
/// }
/// entry(&TrapFrame { pc: 0x8000 }, CpuIndex::new(0));
/// ```
pub struct IrqContext<'a> {
    on: OnCpu,
    opaque: Option<&'a dyn Any>,
    vector: Option<u32>,
}

impl<'a> IrqContext<'a> {
    /// An entry on the CPU of `on`, with `opaque` for the actions and, on x86, the `vector`.
    ///
    /// `opaque` is a reference to any type without borrowed parts. A frame that borrows goes in
    /// as the embedder's own `'static` type that holds its address.
    #[inline]
    pub const fn new(on: OnCpu, opaque: Option<&'a dyn Any>, vector: Option<u32>) -> Self {
        Self { on, opaque, vector }
    }

    /// The proof that this code stays on its CPU.
    #[inline]
    pub const fn on(&self) -> &OnCpu {
        &self.on
    }

    /// The CPU that was entered.
    #[inline]
    pub const fn cpu(&self) -> CpuIndex {
        self.on.cpu()
    }

    /// The embedder's reference, if it was given and is a `T`.
    #[inline]
    pub fn frame<T: Any>(&self) -> Option<&'a T> {
        self.opaque?.downcast_ref()
    }

    /// The vector that the CPU entered by, where the architecture has vectors.
    #[inline]
    pub const fn vector(&self) -> Option<u32> {
        self.vector
    }
}

impl fmt::Debug for IrqContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IrqContext")
            .field("cpu", &self.cpu())
            .field("opaque", &self.opaque.is_some())
            .field("vector", &self.vector)
            .finish()
    }
}
