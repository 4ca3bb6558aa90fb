// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of the state of shared interrupts.

use irq_core::LineState;
use irq_hal::Error;
use tock_registers::interfaces::Readable;

use super::Distributor;
use crate::intid::IntId;
use crate::quirks::Effects;
use crate::regs::Frame;
use crate::regs::bank::{Line, LineRegs};

/// Which chip of an NVIDIA T241 holds the state of a shared INTID.
const fn t241_chip(intid: u32) -> Option<usize> {
    match intid {
        32..=351 => Some(0),
        352..=671 => Some(1),
        672..=991 => Some(2),
        4096..=4415 => Some(3),
        _ => None,
    }
}

impl<B: Frame> Distributor<B> {
    /// The registers that tell the truth about the state of `line`: those of the distributor,
    /// or of the owning chip's alias where only that one does.
    pub(super) fn state_regs(&self, intid: IntId, line: Line) -> Result<LineRegs<'_, B>, Error> {
        if !self.features.effects.contains(Effects::STATE_ALIASED) {
            return Ok(LineRegs::new(&self.regs.bus, line));
        }
        let alias = t241_chip(intid.get()).and_then(|chip| self.aliases.get(chip));
        match alias {
            Some(bus) => Ok(LineRegs::new(bus, line)),
            None => Err(Error::Unsupported {
                feature: "SPI state reads (T241-FABRIC-4)",
            }),
        }
    }

    /// The state of `intid`: three loads.
    ///
    /// # Errors
    /// [`Error::HwirqOutOfRange`] or [`Error::Invalid`] for an INTID that is not here,
    /// [`Error::Unsupported`] where this hardware lies and no alias was given.
    ///
    /// # Context
    /// Any, also in a panic: takes no lock.
    pub fn state(&self, intid: IntId) -> Result<LineState, Error> {
        let line = self.line(intid)?;
        Ok(read_state(&self.state_regs(intid, line)?, line))
    }

    /// `GICD_CTLR` as it is.
    pub fn ctlr(&self) -> u32 {
        self.regs.ctlr().get()
    }
}

pub(crate) fn read_state<B: Frame>(regs: &LineRegs<'_, B>, line: Line) -> LineState {
    LineState {
        masked: regs.enabled().get() & line.bit() == 0,
        pending: regs.pending().get() & line.bit() != 0,
        active: regs.active().get() & line.bit() != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chip_of_a_t241_owns_320_interrupts() {
        assert_eq!(
            [31, 32, 351, 352, 671, 672, 991, 992].map(t241_chip),
            [
                None,
                Some(0),
                Some(0),
                Some(1),
                Some(1),
                Some(2),
                Some(2),
                None
            ]
        );
        assert_eq!(
            [4095, 4096, 4415, 4416].map(t241_chip),
            [None, Some(3), Some(3), None]
        );
    }
}
