// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bus: a mapped piece of device space through which drivers reach the model.

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus, CpuIndex, PhysAddr};

use super::access::Call;
use super::machine::{END_PAGE, TIMA, TIMA_LEN};
use super::{State, Target, XiveModel};
use crate::log::{Access, Event, Fence, Unit};

/// A window of device space, as a little-endian CPU sees it: the controller's words are
/// big-endian, and are handed out as they are. A handle, cheap to clone; the accessing CPU is
/// the one that the thread runs as.
#[derive(Clone, Debug)]
pub struct XiveWindow {
    model: XiveModel,
    at: PhysAddr,
    len: usize,
    only: Option<CpuIndex>,
}

impl XiveWindow {
    pub(super) fn new(model: XiveModel, at: PhysAddr, len: usize) -> Self {
        Self {
            model,
            at,
            len,
            only: None,
        }
    }

    /// The same window, for `cpu` alone: its use by another CPU is a panic.
    pub fn only_for(mut self, cpu: u32) -> Self {
        self.only = Some(CpuIndex::new(cpu));
        self
    }

    /// Where the window is.
    pub const fn at(&self) -> PhysAddr {
        self.at
    }

    /// One access; values in the controller's byte order.
    fn reach(&self, offset: usize, width: u8, store: Option<u64>) -> u64 {
        let sim = self.model.sim();
        let cpu = sim.current();
        let end = offset.checked_add(width.into());
        if end.is_none_or(|end| end > self.len) {
            panic!(
                "{cpu} reaches {offset:#x} of a window of {:#x} bytes at {}",
                self.len, self.at
            );
        }
        if let Some(only) = self.only
            && only != cpu
        {
            panic!("{cpu} uses the window of {only} at {}", self.at);
        }
        let at = self.at.get() + offset as u64;
        if !at.is_multiple_of(width.into()) {
            panic!("{cpu} reaches {at:#x} with {width} bytes: not aligned to its width");
        }
        let mut state = self.model.state();
        let Some((unit, chip, inside)) = state.decode(cpu, at) else {
            drop(state);
            panic!("{cpu} reaches {at:#x}, where no page of the controller is");
        };
        let call = Call {
            cpu,
            unit,
            offset: inside,
            width,
            store,
        };
        let costs = sim.costs();
        let near = chip.is_none_or(|chip| {
            let node = self.model.shared.chip_nodes[chip];
            node == sim.node_of(cpu)
        });
        let cost = if near { costs.local } else { costs.remote };
        sim.note_access();
        let loaded = state.access(&call);
        let access = Access {
            cpu,
            unit,
            offset: inside,
            width,
            value: store.unwrap_or(loaded),
            cost,
        };
        sim.log().push(match store {
            Some(_) => Event::Store(access),
            None => Event::Load(access),
        });
        loaded
    }

    fn fence(&self, fence: Fence) {
        self.model.fence(fence);
    }
}

impl State {
    /// What is at `at`: unit, its chip where it has one, offset into its pages.
    fn decode(&self, cpu: CpuIndex, at: u64) -> Option<(Unit, Option<usize>, usize)> {
        if (TIMA..TIMA + TIMA_LEN).contains(&at) {
            return Some((Unit::Tima(cpu), None, (at - TIMA) as usize));
        }
        let (start, page) = self.pages.range(..=at).next_back()?;
        let inside = at - start;
        let unit = match page.target {
            Target::Source(girq) => Unit::Esb(girq),
            Target::Queue(vp, prio) => Unit::EndEsb(vp, prio),
        };
        (inside < page.len).then_some((unit, Some(page.chip), inside as usize))
    }
}

impl XiveModel {
    pub(super) fn fence(&self, fence: Fence) {
        let cpu = self.sim().current();
        self.sim().log().push(Event::Barrier { cpu, fence });
        if let Some(thread) = self.state().threads.get_mut(cpu.index()) {
            thread.fence(fence);
        }
    }
}

impl State {
    fn access(&mut self, call: &Call) -> u64 {
        let Some(thread) = self.threads.get_mut(call.cpu()) else {
            call.forbid("the CPU is no thread of this machine");
        };
        thread.judge_order(call);
        match call.unit {
            Unit::Esb(girq) => self.esb(call, girq),
            Unit::EndEsb(vp, prio) => {
                thread.end_batch();
                self.end_esb(call, (vp, prio))
            }
            _ => {
                thread.end_batch();
                thread.tima(self.machine.generation, call)
            }
        }
    }
}

/// Bytes of the page pair of a queue.
pub(super) const END_PAIR: u64 = 2 * END_PAGE;

macro_rules! widths {
    ($($t:ty),*) => { $(
        impl Bus<$t> for XiveWindow {
            fn load(&self, offset: usize) -> $t {
                let value = self.reach(offset, size_of::<$t>() as u8, None) as $t;
                value.swap_bytes()
            }

            fn store(&self, offset: usize, value: $t) {
                let value = value.swap_bytes();
                self.reach(offset, size_of::<$t>() as u8, Some(value.into()));
            }
        }
    )* };
}

widths!(u8, u16, u32, u64);

impl Barrier for XiveWindow {
    fn publish(&self) {
        self.fence(Fence::Publish);
    }

    fn complete(&self) {
        self.fence(Fence::Complete);
    }

    fn synchronize(&self) {
        self.fence(Fence::Synchronize);
    }
}

impl Extent for XiveWindow {
    fn extent(&self) -> usize {
        self.len
    }
}
