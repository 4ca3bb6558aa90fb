// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine with all CPUs online, and calls by plain numbers.

use std::sync::Arc;

use irq_core::cpu::{CpuIndex, OnCpu};
use irq_core::hotplug::{
    Affinity, Changes, Hotplug, Leaves, NewIrq, Offline, Online, Removal, Served, Status,
};
use irq_core::{Irq, IrqRange};
use irq_hal::{Error, ErrorKind};

use super::platform::Player;
use super::{Call, Sim, Slot};

/// The first number.
pub const FIRST: u32 = 100;
pub const IRQS: u32 = 64;

pub struct Rig {
    pub sim: Sim,
    pub hotplug: Hotplug<Slot>,
    pub platform: Player,
}

pub fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

pub fn on(index: u32) -> OnCpu {
    // SAFETY: a test of one thread plays its CPUs one after the other.
    unsafe { OnCpu::new(cpu(index)) }
}

/// What a result was, by its kind.
pub fn kind<T>(result: Result<T, Error>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

impl Rig {
    /// The lowest CPU and vector with room are taken.
    pub fn new(cpus: u32, vectors: u32, leaves: Leaves) -> Arc<Self> {
        Self::on(Player::new(0), cpus, vectors, leaves)
    }

    pub fn on(platform: Player, cpus: u32, vectors: u32, leaves: Leaves) -> Arc<Self> {
        Self::with(platform, Sim::new(cpus, vectors, leaves), cpus)
    }

    pub fn of(sim: Sim, cpus: u32) -> Arc<Self> {
        Self::with(Player::new(0), sim, cpus)
    }

    fn with(platform: Player, sim: Sim, cpus: u32) -> Arc<Self> {
        let rig = Self {
            sim,
            hotplug: Hotplug::new(cpus, IrqRange::new(Irq::new(FIRST), IRQS).unwrap()).unwrap(),
            platform,
        };
        rig.sim.seed(0);
        (0..cpus).for_each(|cpu| _ = rig.online(cpu).unwrap());
        rig.sim.calls();
        Arc::new(rig)
    }

    pub fn changes(&self) -> Changes<'_, Sim> {
        self.hotplug.changes(&self.platform, &self.sim)
    }

    /// A source with edges, started.
    pub fn start(&self, irq: u32, new: NewIrq) -> Served {
        self.add(irq, new).unwrap();
        self.changes().start(Irq::new(irq)).unwrap()
    }

    pub fn add(&self, irq: u32, new: NewIrq) -> Result<(), Error> {
        self.sim.source(irq, false);
        self.changes().add(Irq::new(irq), new)
    }

    pub fn stop(&self, irq: u32) -> Result<(), Error> {
        self.changes().stop(Irq::new(irq))
    }

    pub fn remove(&self, irq: u32) -> Result<Removal, Error> {
        self.changes().remove(Irq::new(irq))
    }

    pub fn set(&self, irq: u32, mut affinity: Affinity) -> Result<Served, Error> {
        self.changes().set_affinity(Irq::new(irq), &mut affinity)
    }

    pub fn status(&self, irq: u32) -> Status<Slot> {
        self.hotplug.status(&self.platform, Irq::new(irq)).unwrap()
    }

    /// The CPU that serves it.
    pub fn served_by(&self, irq: u32) -> Option<u32> {
        self.status(irq).place.map(|slot| slot.cpu)
    }

    /// Interrupts that the CPU serves, in the order of its list.
    pub fn served(&self, index: u32) -> Vec<u32> {
        let next = |after| self.hotplug.next_served(&self.platform, cpu(index), after);
        let list: Vec<u32> =
            std::iter::successors(next(None).unwrap(), |irq| next(Some(*irq)).unwrap())
                .map(Irq::get)
                .collect();
        let count = self.hotplug.served(&self.platform, cpu(index)).unwrap();
        assert_eq!(list.len(), count as usize);
        list
    }

    /// Old places of the CPU that wait, and that are due.
    pub fn old(&self, index: u32) -> [u32; 2] {
        let old = self.hotplug.old_places(&self.platform, cpu(index)).unwrap();
        assert_eq!(self.hotplug.is_due(cpu(index)), old[1] != 0);
        old
    }

    /// A CPU that went is down afterwards.
    pub fn offline(&self, cpu: u32) -> Result<Offline, Error> {
        let offline = self.changes().offline(&on(cpu));
        if offline.is_ok() {
            self.sim.down(cpu);
        }
        offline
    }

    /// Whatever the CPU serves is removed, so that it may go.
    pub fn remove_all_and_offline(&self, index: u32) -> Offline {
        self.served(index)
            .into_iter()
            .for_each(|irq| _ = self.remove(irq).unwrap());
        self.offline(index).unwrap()
    }

    pub fn status_kind(&self, irq: u32) -> Result<Status<Slot>, ErrorKind> {
        kind(self.hotplug.status(&self.platform, Irq::new(irq)))
    }

    pub fn online(&self, index: u32) -> Result<Online, Error> {
        self.sim.up(index);
        self.changes().online(cpu(index))
    }

    pub fn dispatch(&self, cpu: u32) -> Option<u32> {
        self.sim.dispatch(&self.hotplug, &self.platform, &on(cpu))
    }

    pub fn clean(&self, cpu: u32) -> u32 {
        self.changes().clean(&on(cpu))
    }

    /// Everything arrives, is taken and cleaned; nothing is missing then.
    pub fn quiet(&self) {
        for _ in 0..4 {
            self.sim.deliver_all();
            for cpu in self.sim.cpus_up() {
                while self.dispatch(cpu).is_some() {}
                self.clean(cpu);
            }
        }
        assert_eq!(self.sim.missing(), []);
        assert!(self.sim.is_idle());
    }

    /// The calls so far without those before and after others that only hooks want.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = self.sim.calls();
        calls
            .retain(|call| !matches!(call, Call::Taken(..) | Call::Refused(_) | Call::Pointed(..)));
        calls
    }
}
