// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buses: handles through which drivers reach the model.

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus, CpuIndex, NodeId};

use super::call::{Call, View};
use super::redistributor::Caller;
use super::{GicModel, sysreg};
use crate::log::{Access, Event, Fence, Unit};

impl GicModel {
    /// One access: judged, done, charged, logged.
    fn access(
        &self,
        call: Call,
        node: Option<NodeId>,
        act: impl FnOnce(&mut super::State, &Call) -> u64,
    ) -> u64 {
        let sim = self.sim();
        if !call.offset.is_multiple_of(call.width as usize) && node.is_some() {
            call.forbid("the access is not aligned to its width");
        }
        let costs = sim.costs();
        let cost = match node {
            None => costs.system,
            Some(node) if node == sim.node_of(call.cpu) => costs.local,
            Some(_) => costs.remote,
        };
        sim.note_access();
        let mut state = self.state();
        let loaded = act(&mut state, &call);
        let value = call.store.unwrap_or(loaded);
        let Call {
            cpu,
            unit,
            offset,
            width,
            ..
        } = call;
        let access = Access {
            cpu,
            unit,
            offset,
            width,
            value,
            cost,
        };
        let event = if call.store.is_some() {
            Event::Store(access)
        } else {
            Event::Load(access)
        };
        sim.log().push(event);
        loaded
    }

    fn fence(&self, fence: Fence) {
        let cpu = self.sim().current();
        self.sim().log().push(Event::Barrier { cpu, fence });
        let mut state = self.state();
        if let Some(interface) = state.cpus.get_mut(cpu.index()) {
            interface.fence(fence);
            if fence == Fence::Synchronize {
                state.flush_sgis(cpu.index());
            }
        }
    }
}

macro_rules! barriers {
    ($($handle:ty),*) => { $(
        impl Barrier for $handle {
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
    )* };
}

barriers!(GicBus, IccBus);

macro_rules! widths {
    ($handle:ty: $($t:ty),*) => { $(
        impl Bus<$t> for $handle {
            fn load(&self, offset: usize) -> $t {
                self.reach(offset, size_of::<$t>() as u8, None) as $t
            }

            fn store(&self, offset: usize, value: $t) {
                self.reach(offset, size_of::<$t>() as u8, Some(value.into()));
            }
        }
    )* };
}

widths!(GicBus: u8, u16, u32, u64);
widths!(IccBus: u64);

/// Which frames a [`GicBus`] covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Window {
    Distributor,
    Region(usize),
}

/// Memory-mapped registers: the distributor's frame, or one redistributor region. A handle,
/// cheap to clone; the accessing CPU is the one that the thread runs as.
#[derive(Clone, Debug)]
pub struct GicBus {
    model: GicModel,
    window: Window,
    /// Bytes that the handle covers.
    len: usize,
    view: View,
}

impl GicBus {
    pub(super) fn distributor(model: GicModel) -> Self {
        Self {
            model,
            window: Window::Distributor,
            len: 0x1_0000,
            view: View::NonSecure,
        }
    }

    pub(super) fn region(model: GicModel, region: usize) -> Self {
        let len = model.shared.regions[region].len;
        Self {
            model,
            window: Window::Region(region),
            len,
            view: View::NonSecure,
        }
    }

    /// The same registers as firmware sees them.
    pub fn secure(mut self) -> Self {
        self.view = View::Secure;
        self
    }

    /// The first `len` bytes of it: what firmware that lies about sizes describes.
    pub fn cut(mut self, len: usize) -> Self {
        self.len = self.len.min(len);
        self
    }

    fn reach(&self, offset: usize, width: u8, store: Option<u64>) -> u64 {
        let cpu = self.model.sim().current();
        let end = offset.checked_add(width.into());
        if end.is_none_or(|end| end > self.len) {
            panic!(
                "{cpu} reaches {offset:#x} of {:?}, of which it has {:#x} bytes",
                self.window, self.len
            );
        }
        match self.window {
            Window::Distributor => self.reach_distributor(offset, width, store),
            Window::Region(region) => self.reach_region(region, offset, width, store),
        }
    }

    fn reach_distributor(&self, offset: usize, width: u8, store: Option<u64>) -> u64 {
        let cpu = self.model.sim().current();
        let call = Call {
            cpu,
            unit: Unit::Gicd,
            offset,
            width,
            view: self.view,
            store,
        };
        let node = self.model.shared.gicd_node;
        self.model.access(call, Some(node), |state, call| {
            state.dist.access(&state.machine, call)
        })
    }

    fn reach_region(&self, region: usize, offset: usize, width: u8, store: Option<u64>) -> u64 {
        let cpu = self.model.sim().current();
        let layout = &self.model.shared.regions[region];
        let inside = |slot: &&super::Slot| (slot.start..slot.start + slot.len).contains(&offset);
        let Some(slot) = layout.slots.iter().find(inside) else {
            panic!(
                "{cpu} reaches {offset:#x} of redistributor region {region} ({:#x} bytes): \
                 there is no redistributor",
                layout.len
            );
        };
        let rd = slot.rd;
        let unit = Unit::Gicr(rd as u32);
        let call = Call {
            cpu,
            unit,
            offset: offset - slot.start,
            width,
            view: self.view,
            store,
        };
        self.model.access(call, Some(slot.node), |state, call| {
            let owner = state.cpus.iter().position(|one| one.rd == Some(rd));
            let from = Caller {
                ds: state.dist.ds,
                own: owner == Some(call.cpu.index()),
                busy: owner.is_some_and(|owner| state.cpus[owner].any_enabled()),
            };
            let awake = state.rds[rd].awake();
            let value = state.rds[rd].access(&state.machine, call, from);
            if let Some(owner) = owner
                && awake
                && !state.rds[rd].awake()
            {
                state.cpus[owner].slept();
            }
            value
        })
    }
}

impl Extent for GicBus {
    fn extent(&self) -> usize {
        self.len
    }
}

/// The system registers of a CPU interface; offsets are [`sysreg`](super::sysreg) numbers.
#[derive(Clone, Debug)]
pub struct IccBus {
    model: GicModel,
    cpu: Option<CpuIndex>,
    view: View,
}

impl IccBus {
    pub(super) fn new(model: GicModel, cpu: Option<CpuIndex>) -> Self {
        Self {
            model,
            cpu,
            view: View::NonSecure,
        }
    }

    /// The same registers as firmware sees them.
    pub fn secure(mut self) -> Self {
        self.view = View::Secure;
        self
    }

    fn reach(&self, offset: usize, width: u8, store: Option<u64>) -> u64 {
        let cpu = self.model.sim().current();
        if let Some(own) = self.cpu
            && own != cpu
        {
            panic!(
                "{cpu} uses {} of {own}: a CPU reaches its own interface only",
                sysreg::name(offset)
            );
        }
        let call = Call {
            cpu,
            unit: Unit::Icc(cpu),
            offset,
            width,
            view: self.view,
            store,
        };
        self.model.access(call, None, |state, call| {
            if call.cpu.index() >= state.cpus.len() {
                call.forbid("the CPU is not of this machine");
            }
            state.icc(call, call.cpu.index())
        })
    }
}
