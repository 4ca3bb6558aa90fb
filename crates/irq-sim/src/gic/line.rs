// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wires into the GIC.

use super::GicModel;
use super::redistributor::private_index;

/// One wire: asserted and deasserted by the test, as a device does.
///
/// With a level-triggered interrupt the wire itself is what is pending; with an edge-triggered
/// one each rise is remembered.
#[derive(Clone, Debug)]
pub struct Line {
    model: GicModel,
    cpu: Option<usize>,
    intid: u32,
}

impl Line {
    pub(super) fn new(model: GicModel, cpu: Option<usize>, intid: u32) -> Self {
        let wired = match private_index(intid) {
            Some(_) => cpu.is_some() && intid >= 16,
            None => cpu.is_none(),
        };
        let exists = model.state().source(cpu.unwrap_or(0), intid).is_some();
        assert!(
            wired && exists,
            "no wire leads to interrupt {intid} (cpu {cpu:?})"
        );
        Self { model, cpu, intid }
    }

    fn set(&self, high: bool) {
        let mut state = self.model.state();
        if let Some(source) = state.source_mut(self.cpu.unwrap_or(0), self.intid) {
            source.raise(high);
        }
    }

    /// Drives the wire high.
    pub fn assert(&self) {
        self.set(true);
    }

    /// Drives the wire low.
    pub fn deassert(&self) {
        self.set(false);
    }

    /// High and low again.
    pub fn pulse(&self) {
        self.set(true);
        self.set(false);
    }
}
