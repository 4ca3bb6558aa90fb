// SPDX-License-Identifier: MIT OR Apache-2.0
//! A controller with one pending bit for each CPU, and machines whose CPUs a test plays.
#![allow(dead_code, reason = "each test binary uses its part")]

#[cfg(not(loom))]
pub mod played;

// Not irq-hal's: what a controller does is no access of the code under test.
#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use irq_core::cpu::{CpuIndex, NodeId};
use irq_core::topology::Place;
use irq_core::{
    Flow, Interrupts, IpiKind, IpiSetup, Irq, IrqContext, Kick, Kind, Outcome, Setup, Taken,
};
use irq_hal::Error;

use crate::common::{Cpu, entry, idle_lines, on, range};

/// The interrupt of the IPIs.
pub const IPI: Irq = Irq::new(3);

pub const fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

/// CPU `index`, which calls `on_relax` in each turn of a wait.
pub fn waiting(index: u32, on_relax: fn()) -> Cpu {
    let mut platform = Cpu::new(index);
    platform.on_relax = Some(on_relax);
    platform
}

pub fn kind(n: u8) -> IpiKind {
    IpiKind::new(n).unwrap()
}

/// A controller that knows one interrupt, and merges rings that were not taken.
pub struct Bell {
    cpus: Vec<Line>,
}

struct Line {
    reachable: AtomicBool,
    pending: AtomicBool,
    rings: AtomicU32,
    ends: AtomicU32,
}

impl Bell {
    pub fn new(cpus: u32) -> Self {
        let line = |_| Line {
            reachable: AtomicBool::new(true),
            pending: AtomicBool::new(false),
            rings: AtomicU32::new(0),
            ends: AtomicU32::new(0),
        };
        Self {
            cpus: (0..cpus).map(line).collect(),
        }
    }

    /// Whether an IPI waits to be taken.
    pub fn pending(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].pending.load(Ordering::Acquire)
    }

    /// How often the CPU was rung.
    pub fn rings(&self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].rings.load(Ordering::Relaxed)
    }

    /// How many interrupts the CPU ended.
    pub fn ends(&self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].ends.load(Ordering::Relaxed)
    }

    /// Lets the driver refuse to ring the CPU, or not.
    pub fn reachable(&self, cpu: u32, reachable: bool) {
        self.cpus[cpu as usize]
            .reachable
            .store(reachable, Ordering::Relaxed);
    }

    /// Makes an IPI pending that nobody sent.
    pub fn ring(&self, cpu: u32) {
        self.cpus[cpu as usize]
            .pending
            .store(true, Ordering::Release);
    }
}

impl Flow for Bell {
    type Active = CpuIndex;

    fn ack(&self, cx: &IrqContext<'_>) -> Option<(Irq, CpuIndex)> {
        let line = &self.cpus[cx.cpu().index()];
        let pending = line.pending.swap(false, Ordering::AcqRel);
        pending.then_some((IPI, cx.cpu()))
    }

    fn end(&self, active: CpuIndex) {
        self.cpus[active.index()]
            .ends
            .fetch_add(1, Ordering::Relaxed);
    }

    fn defer(&self, _: CpuIndex) -> Result<(), Error> {
        panic!("an IPI is never deferred");
    }

    fn hand_over(&self, _: CpuIndex) -> Result<(), Error> {
        panic!("an IPI is never handed over");
    }
}

impl Kick for Bell {
    fn kick(&self, cpu: CpuIndex, post: impl FnOnce() -> bool) -> Result<(), Error> {
        let line = self.cpus.get(cpu.index()).ok_or(Error::NoSuchCpu { cpu })?;
        if !line.reachable.load(Ordering::Relaxed) {
            return Err(Error::CpuOffline { cpu });
        }
        if post() {
            line.rings.fetch_add(1, Ordering::Relaxed);
            // An update: loom would let an earlier one read past a plain store.
            line.pending.swap(true, Ordering::AcqRel);
        }
        Ok(())
    }
}

idle_lines!(Bell);

/// Interrupts of some CPUs, and their controller.
pub struct Machine {
    pub interrupts: Interrupts,
    pub bell: Bell,
}

impl Machine {
    /// All CPUs are offline.
    pub fn dark(cpus: u32, nodes: u32, kinds: &[Kind]) -> Self {
        let private = [range(0, 8)];
        let setup = Setup {
            nodes,
            private: &private,
            ipi: Some(IpiSetup { irq: IPI, kinds }),
            ..Setup::new(cpus, range(0, 16))
        };
        Self {
            interrupts: Interrupts::new(setup).unwrap(),
            bell: Bell::new(cpus),
        }
    }

    /// All CPUs are online, spread over the nodes in blocks: 0 and 1 on node 0, 2 and 3 on node
    /// 1, for 4 CPUs on 2 nodes.
    pub fn new(cpus: u32, nodes: u32, kinds: &[Kind]) -> Self {
        let machine = Self::dark(cpus, nodes, kinds);
        for index in 0..cpus {
            machine.online(index, index / (cpus / nodes)).unwrap();
        }
        machine
    }

    pub fn online(&self, index: u32, node: u32) -> Result<(), Error> {
        let place = Place {
            node: NodeId::new(node),
            ..Place::flat(cpu(index))
        };
        self.interrupts
            .cpu_online(&Cpu::new(index), &on(index), place)
    }

    pub fn offline(&self, index: u32) -> Result<irq_core::Bits, Error> {
        self.interrupts.cpu_offline(&self.bell, &entry(index))
    }

    pub fn send(&self, from: u32, to: u32, n: u8) -> Result<irq_core::Sent, Error> {
        self.interrupts
            .send(&self.bell, &on(from), cpu(to), kind(n))
    }

    /// Takes one interrupt on `cpu`, if one is pending.
    pub fn dispatch(&self, cpu: u32) -> Outcome {
        self.interrupts.dispatch(&self.bell, &entry(cpu))
    }

    /// Takes interrupts on `cpu` until none is pending, and returns how many there were.
    pub fn drain(&self, cpu: u32) -> u32 {
        let mut taken = 0;
        while self.dispatch(cpu).taken != Taken::Nothing {
            taken += 1;
        }
        taken
    }

    pub fn call(
        &self,
        platform: &Cpu,
        from: u32,
        to: u32,
        f: irq_core::Callback,
        word: usize,
    ) -> Result<usize, Error> {
        self.interrupts
            .call(platform, &self.bell, &on(from), cpu(to), f, word)
    }
}
