// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driver and irq-core together on the model: a machine of several CPUs in several nodes.
//!
//! The model plays CPUs for whoever calls: one thread can play all of them, one after the other
//! and the same way in every run, or each CPU has a thread of its own.

use std::cell::Cell;

use irq_core::cpu::{CpuIndex, NodeId, OnCpu};
use irq_core::topology::Place;
use irq_core::{
    Control, Detector, Interrupts, IpiCounts, IpiKind, IpiSetup, Irq, IrqContext, Kind, Outcome,
    Sent, Setup, Taken,
};
use irq_gicv3::{Config, EoiMode, Mpidr};
use irq_hal::Error;
use irq_sim::SimPlatform;
use irq_sim::gic::{Affinity, GicBuilder, GicModel};

use crate::gicv3::{IPI, Machine, probe};

/// What a system is made of.
pub struct Plan<'a> {
    /// CPUs.
    pub cpus: u32,
    /// Nodes, which divide the CPUs.
    pub nodes: u32,
    /// What an end does.
    pub eoi_mode: EoiMode,
    /// The kinds of IPIs.
    pub kinds: &'a [Kind],
    /// For lines that nobody owns up to.
    pub detector: Option<Detector>,
    /// Changes the modelled controller.
    pub change: fn(GicBuilder) -> GicBuilder,
}

impl Plan<'_> {
    /// `cpus` CPUs in `nodes` nodes, and nothing special.
    pub fn new(cpus: u32, nodes: u32) -> Self {
        Self {
            cpus,
            nodes,
            eoi_mode: EoiMode::Combined,
            kinds: &[],
            detector: None,
            change: |builder| builder,
        }
    }
}

/// A machine with a driver and irq-core on top.
pub struct System {
    /// The machine and its driver.
    pub machine: Machine,
    /// irq-core.
    pub interrupts: Interrupts,
    per_node: u32,
}

impl System {
    /// A system whose CPUs are all online.
    ///
    /// # Panics
    /// If something refuses.
    pub fn new(plan: &Plan<'_>) -> Self {
        let system = Self::cold(plan);
        for cpu in 0..plan.cpus {
            let online = system.online(cpu);
            online.unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        }
        system
    }

    /// A system whose CPUs are not online yet.
    ///
    /// # Panics
    /// If something refuses.
    pub fn cold(plan: &Plan<'_>) -> Self {
        assert!(plan.cpus.is_multiple_of(plan.nodes), "CPUs and nodes");
        let per_node = plan.cpus / plan.nodes;
        let nodes: Vec<_> = (0..plan.cpus).map(|cpu| cpu / per_node).collect();
        let sim = SimPlatform::builder(plan.cpus).nodes(&nodes).build();
        // Clusters of 16, of which a node's last may have fewer.
        let affinity = |cpu: u32| {
            let within = cpu % per_node;
            Affinity::new(
                0,
                nodes[cpu as usize] as u8,
                (within / 16) as u8,
                (within % 16) as u8,
            )
        };
        let builder = GicModel::builder(&sim).affinities((0..plan.cpus).map(affinity));
        let model = (plan.change)(builder).build();
        let config = Config {
            eoi_mode: plan.eoi_mode,
            ipi: Some(IPI),
            ..Config::default()
        };
        let gic = probe(&model, config).unwrap_or_else(|error| panic!("probe: {error}"));
        let ipi = gic.ipi_irq().map(|irq| IpiSetup {
            irq,
            kinds: plan.kinds,
        });
        let private = gic.private_irqs();
        let setup = Setup {
            nodes: plan.nodes,
            private: &private,
            ipi,
            detector: plan.detector,
            ..Setup::new(plan.cpus, gic.irqs())
        };
        let interrupts = Interrupts::new(setup).unwrap_or_else(|error| panic!("{error}"));
        Self {
            machine: Machine { sim, model, gic },
            interrupts,
            per_node,
        }
    }

    /// The number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.machine.sim.cpus()
    }

    /// The node of `cpu`.
    pub const fn node(&self, cpu: u32) -> u32 {
        cpu / self.per_node
    }

    /// The control side.
    pub fn control(&self) -> Control<'_> {
        self.interrupts
            .control(&self.machine.sim, &self.machine.gic)
    }

    /// Runs `f` as `cpu`.
    pub fn on<R>(&self, cpu: u32, f: impl FnOnce(&OnCpu) -> R) -> R {
        let run = || self.machine.sim.as_cpu(cpu, f);
        #[cfg(irq_trace)]
        let run = || irq_hal::atomic::trace::on_cpu(CpuIndex::new(cpu), run);
        run()
    }

    /// Brings `cpu` online, in the driver and then in irq-core.
    ///
    /// # Errors
    /// Theirs.
    pub fn online(&self, cpu: u32) -> Result<(), Error> {
        let mpidr = Mpidr::new(self.machine.model.mpidr(cpu));
        let place = Place {
            node: NodeId::new(self.node(cpu)),
            package: self.node(cpu),
            ..Place::flat(CpuIndex::new(cpu))
        };
        self.on(cpu, |on| {
            self.machine.gic.cpu_online(on, mpidr)?;
            self.interrupts.cpu_online(&self.machine.sim, on, place)
        })
    }

    /// Takes `cpu` offline, in irq-core and then in the driver.
    ///
    /// # Errors
    /// Theirs.
    pub fn offline(&self, cpu: u32) -> Result<(), Error> {
        let gic = &self.machine.gic;
        self.on(cpu, |on| {
            self.interrupts.cpu_offline(gic, &entry(on))?;
            gic.cpu_offline(on)
        })
    }

    /// One entry of the CPU of `on`, as a kernel's vector makes it.
    pub fn enter(&self, on: &OnCpu) -> Outcome {
        self.interrupts.dispatch(&self.machine.gic, &entry(on))
    }

    /// `cpu` takes an interrupt if the controller signals one and it does not mask them.
    pub fn take(&self, cpu: u32) -> Option<Outcome> {
        let outcome = Cell::new(None);
        self.machine.model.take_irq(cpu, |on| {
            let enter = || outcome.set(Some(self.enter(on)));
            #[cfg(irq_trace)]
            let enter = || irq_hal::atomic::trace::on_cpu(on.cpu(), enter);
            enter();
        });
        outcome.get()
    }

    /// `cpu` takes interrupts until none is signalled. How many there were.
    ///
    /// # Panics
    /// If that does not end.
    pub fn drain(&self, cpu: u32) -> u32 {
        let mut taken = 0;
        while let Some(outcome) = self.take(cpu) {
            assert_ne!(
                outcome.taken,
                Taken::Nothing,
                "cpu{cpu}: signalled, and nothing there"
            );
            taken += 1;
            assert!(taken < 1_000_000, "cpu{cpu}: no end of interrupts");
        }
        taken
    }

    /// All CPUs take interrupts until none is signalled to any. How many there were.
    pub fn settle(&self) -> u32 {
        let mut all = 0;
        loop {
            let round: u32 = (0..self.cpus()).map(|cpu| self.drain(cpu)).sum();
            if round == 0 {
                return all;
            }
            all += round;
        }
    }

    /// Sends `kind` from one CPU to another.
    ///
    /// # Errors
    /// Those of irq-core.
    pub fn send(&self, from: u32, to: u32, kind: u8) -> Result<Sent, Error> {
        let to = CpuIndex::new(to);
        self.on(from, |on| {
            self.interrupts
                .send(&self.machine.gic, on, to, self::kind(kind))
        })
    }

    /// The counts of a node's descriptor.
    ///
    /// # Panics
    /// If it has none.
    pub fn counts(&self, node: u32) -> IpiCounts {
        let counts = self.interrupts.ipi_counts(NodeId::new(node));
        counts.unwrap_or_else(|| panic!("no descriptor of node {node}"))
    }

    /// Our number for `intid`.
    ///
    /// # Panics
    /// If the driver has none.
    pub fn irq(&self, intid: u32) -> Irq {
        self.machine.irq(intid)
    }
}

/// The context of an entry of the CPU of `on`.
pub fn entry(on: &OnCpu) -> IrqContext<'_> {
    // SAFETY: `on` promises the same, and the context cannot outlive it.
    IrqContext::new(unsafe { OnCpu::new(on.cpu()) }, None, None)
}

/// Kind `n`.
///
/// # Panics
/// If there can be none.
pub fn kind(n: u8) -> IpiKind {
    IpiKind::new(n).unwrap_or_else(|| panic!("kind {n}"))
}
