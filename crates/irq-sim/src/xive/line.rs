// SPDX-License-Identifier: MIT OR Apache-2.0
//! What devices do to sources: wires and messages.

use super::XiveModel;

/// The device behind one source: drives the wire of a level, or sends messages.
#[derive(Clone, Debug)]
pub struct Line {
    model: XiveModel,
    girq: u32,
}

impl Line {
    pub(super) fn new(model: XiveModel, girq: u32) -> Self {
        model.state().source(girq);
        Self { model, girq }
    }

    /// Drives the wire high.
    ///
    /// # Panics
    /// If the source is no level.
    pub fn assert(&self) {
        let mut state = self.model.state();
        let source = state.source_mut(self.girq);
        assert!(source.lsi(), "source {:#x} has no wire", self.girq);
        source.asserted = true;
        state.sample(self.girq);
    }

    /// Drives the wire low.
    ///
    /// # Panics
    /// If the source is no level.
    pub fn deassert(&self) {
        let mut state = self.model.state();
        let source = state.source_mut(self.girq);
        assert!(source.lsi(), "source {:#x} has no wire", self.girq);
        source.asserted = false;
    }

    /// The wire high and low again; of an edge, one message.
    pub fn pulse(&self) {
        if self.model.state().source(self.girq).lsi() {
            self.assert();
            self.deassert();
        } else {
            self.model.state().trigger(self.girq);
        }
    }
}
