// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buses: handles through which drivers reach the model.

use irq_hal::{Barrier, Bus};

use super::call::Call;
use super::{ApicModel, State};
use crate::log::{Access, Event, Fence, Unit};

impl ApicModel {
    /// One access: judged, done, charged, logged. CPUs that it starts run then.
    fn access(
        &self,
        unit: Unit,
        offset: usize,
        store: Option<u64>,
        act: impl FnOnce(&mut State, &Call) -> u64,
    ) -> u64 {
        let sim = self.sim();
        let cpu = sim.current();
        let call = Call {
            cpu,
            unit,
            offset,
            store,
            masked: sim.masked(cpu.get()),
        };
        let (width, cost) = match unit {
            Unit::Pic => (1, sim.costs().local),
            _ => (8, sim.costs().system),
        };
        sim.note_access();
        let mut state = self.state();
        state.now = sim.peek_clock().0;
        let loaded = act(&mut state, &call);
        let access = Access {
            cpu,
            unit,
            offset,
            width,
            value: store.unwrap_or(loaded),
            cost,
        };
        sim.log().push(match store {
            Some(_) => Event::Store(access),
            None => Event::Load(access),
        });
        let started = std::mem::take(&mut state.started);
        drop(state);
        for (cpu, page) in started {
            self.run_started(cpu, page);
        }
        loaded
    }

    fn fence(&self, fence: Fence) {
        let cpu = self.sim().current();
        self.sim().log().push(Event::Barrier { cpu, fence });
        if fence == Fence::Publish {
            let mut state = self.state();
            if let Some(apic) = state.cpus.get_mut(cpu.index()) {
                apic.publish();
            }
        }
    }
}

/// The model-specific registers of whichever CPU uses them: offsets are their numbers, see
/// [`msr`](super::msr). A handle, cheap to clone.
#[derive(Clone, Debug)]
pub struct MsrBus {
    model: ApicModel,
}

impl MsrBus {
    pub(super) fn new(model: ApicModel) -> Self {
        Self { model }
    }

    fn reach(&self, offset: usize, store: Option<u64>) -> u64 {
        let unit = Unit::Apic(self.model.sim().current());
        self.model.access(unit, offset, store, State::msr)
    }
}

impl Bus<u64> for MsrBus {
    fn load(&self, offset: usize) -> u64 {
        self.reach(offset, None)
    }

    fn store(&self, offset: usize, value: u64) {
        self.reach(offset, Some(value));
    }
}

impl Barrier for MsrBus {
    fn publish(&self) {
        self.model.fence(Fence::Publish);
    }

    fn complete(&self) {
        self.model.fence(Fence::Complete);
    }

    fn synchronize(&self) {
        self.model.fence(Fence::Synchronize);
    }
}

/// The ports of the 8259s: offsets are port numbers. A handle, cheap to clone.
#[derive(Clone, Debug)]
pub struct PortBus {
    model: ApicModel,
}

impl PortBus {
    pub(super) fn new(model: ApicModel) -> Self {
        Self { model }
    }
}

impl Bus<u8> for PortBus {
    fn load(&self, offset: usize) -> u8 {
        self.model.access(Unit::Pic, offset, None, State::port) as u8
    }

    fn store(&self, offset: usize, value: u8) {
        let value = Some(value.into());
        self.model.access(Unit::Pic, offset, value, State::port);
    }
}
