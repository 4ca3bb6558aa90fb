// SPDX-License-Identifier: MIT OR Apache-2.0
//! The x2APIC driver on its model: the machine that scenarios start from, alone and with irq-core.

use std::cell::Cell;

use irq_core::cpu::{CpuIndex, NodeId, OnCpu};
use irq_core::topology::Place;
use irq_core::{
    Control, Detector, Flow, Interrupts, IpiCounts, IpiSetup, Irq, IrqContext, Kind, Outcome, Sent,
    Setup,
};
use irq_hal::Error;
use irq_sim::SimPlatform;
use irq_sim::apic::{ApicBuilder, ApicModel, Cpuid, MsrBus};
use irq_sim::log::{Trace, Unit};
use irq_x2apic::apic::Active;
use irq_x2apic::{Apic, ApicId, Config, CpuId, Description, Pics, ProbeError, Vector};

use crate::storm::Scheme;
use crate::system::kind;

/// The driver on the model.
pub type SimApic = Apic<SimPlatform, MsrBus>;

/// The model's CPUID as the driver wants it.
pub struct ModelCpuid(pub Cpuid);

impl CpuId for ModelCpuid {
    fn leaf(&self, leaf: u32, sub: u32) -> [u32; 4] {
        self.0.leaf(leaf, sub)
    }
}

/// A modelled machine whose controller is probed.
pub struct Machine {
    /// The kernel's side.
    pub sim: SimPlatform,
    /// The hardware.
    pub model: ApicModel,
    /// The driver.
    pub apic: SimApic,
}

/// Vector `n`.
///
/// # Panics
/// If there can be none.
pub fn vector(n: u8) -> Vector {
    Vector::new(n).unwrap_or_else(|| panic!("vector {n:#x}"))
}

/// The CPU with this id.
///
/// # Panics
/// If there can be none.
pub fn id(id: u32) -> ApicId {
    ApicId::new(id).unwrap_or_else(|| panic!("APIC id {id:#x}"))
}

/// The ids of `model`, by CPU index.
pub fn ids(model: &ApicModel) -> Vec<ApicId> {
    (0..model.sim().cpus())
        .map(|cpu| id(model.id(cpu)))
        .collect()
}

/// The vector that scenarios use for IPIs.
pub const IPI: Vector = match Vector::new(0xfd) {
    Some(vector) => vector,
    None => unreachable!(),
};

/// A configuration with [`IPI`].
pub fn with_ipi() -> Config {
    Config {
        ipi: Some(IPI),
        ..Config::default()
    }
}

/// Probes `model`, which correct firmware describes, with `config`.
///
/// # Errors
/// Those of the driver.
pub fn probe(model: &ApicModel, config: Config) -> Result<SimApic, ProbeError> {
    let ids = ids(model);
    probe_as(
        model,
        Description::new(Pics::absent()).with_cpus(&ids),
        config,
    )
}

/// Probes `model` with this description.
///
/// # Errors
/// Those of the driver.
pub fn probe_as(
    model: &ApicModel,
    description: Description<'_>,
    config: Config,
) -> Result<SimApic, ProbeError> {
    let cpuid = ModelCpuid(model.cpuid());
    Apic::probe(
        model.sim().clone(),
        model.msrs(),
        &cpuid,
        description,
        config,
    )
}

impl Machine {
    /// A machine with `cpus` CPUs, changed by `change`, probed with `config`, none online.
    ///
    /// # Panics
    /// If the driver refuses.
    pub fn cold(
        cpus: u32,
        change: impl FnOnce(ApicBuilder) -> ApicBuilder,
        config: Config,
    ) -> Self {
        let sim = SimPlatform::new(cpus);
        let model = change(ApicModel::builder(&sim)).build();
        let apic = probe(&model, config).unwrap_or_else(|error| panic!("probe: {error}"));
        Self { sim, model, apic }
    }

    /// Likewise, with all CPUs online.
    ///
    /// # Panics
    /// If the driver refuses.
    pub fn with(
        cpus: u32,
        change: impl FnOnce(ApicBuilder) -> ApicBuilder,
        config: Config,
    ) -> Self {
        let machine = Self::cold(cpus, change, config);
        for cpu in 0..cpus {
            machine
                .online(cpu)
                .unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        }
        machine
    }

    /// A plain machine.
    pub fn new(cpus: u32) -> Self {
        Self::with(cpus, |builder| builder, with_ipi())
    }

    /// Brings `cpu` online, masked.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn online(&self, cpu: u32) -> Result<(), Error> {
        self.on(cpu, |on| self.apic.cpu_online(on, id(self.model.id(cpu))))
    }

    /// Takes `cpu` offline, masked.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn offline(&self, cpu: u32) -> Result<(), Error> {
        self.on(cpu, |on| self.apic.cpu_offline(on))
    }

    /// Runs `f` as `cpu`, with interrupts masked.
    pub fn on<R>(&self, cpu: u32, f: impl FnOnce(&OnCpu) -> R) -> R {
        let masked = self.sim.masked(cpu);
        self.sim.set_masked(cpu, true);
        let result = self.sim.as_cpu(cpu, f);
        self.sim.set_masked(cpu, masked);
        result
    }

    /// What `cpu` acknowledges when it was entered by `vector`.
    pub fn ack(&self, on: &OnCpu, vector: u8) -> Option<(Irq, Active)> {
        self.apic.ack(&entry(on, vector))
    }

    /// `cpu` takes one interrupt, ends it, and says which vector it was: nothing for one that the
    /// driver has no irq for.
    pub fn take(&self, cpu: u32) -> Option<u8> {
        let taken = Cell::new(None);
        self.model.take(cpu, |on, vector| {
            if let Some((irq, active)) = self.ack(on, vector) {
                self.apic.end(active);
                let vector = self.apic.vector(irq).map(Vector::get);
                taken.set(vector.ok());
            }
        });
        taken.get()
    }

    /// `cpu` takes interrupts until none is signalled: their vectors, in order.
    pub fn drain(&self, cpu: u32) -> Vec<u8> {
        core::iter::from_fn(|| self.take(cpu)).collect()
    }

    /// Our number for `n`.
    ///
    /// # Panics
    /// If the driver has none.
    pub fn irq(&self, n: u8) -> Irq {
        let irq = self.apic.irq(vector(n));
        irq.unwrap_or_else(|| panic!("vector {n:#x} has no irq"))
    }

    /// What `f` does to the machine.
    pub fn trace(&self, f: impl FnOnce()) -> Trace {
        let mark = self.sim.log().mark();
        f();
        self.sim.log().since(mark)
    }
}

/// The context of an entry of the CPU of `on` by `vector`.
pub fn entry(on: &OnCpu, vector: u8) -> IrqContext<'_> {
    // SAFETY: `on` promises the same, and the context cannot outlive it.
    IrqContext::new(unsafe { OnCpu::new(on.cpu()) }, None, Some(vector.into()))
}

/// The local APIC of `cpu`, in the log.
pub const fn lapic(cpu: u32) -> Unit {
    Unit::Apic(CpuIndex::new(cpu))
}

/// What a system is made of.
pub struct Plan<'a> {
    /// CPUs.
    pub cpus: u32,
    /// Nodes, which divide the CPUs.
    pub nodes: u32,
    /// The kinds of IPIs.
    pub kinds: &'a [Kind],
    /// Changes the modelled machine.
    pub change: fn(ApicBuilder) -> ApicBuilder,
}

impl Plan<'_> {
    /// `cpus` CPUs in `nodes` nodes, and nothing special.
    pub fn new(cpus: u32, nodes: u32) -> Self {
        Self {
            cpus,
            nodes,
            kinds: &[],
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
        assert!(plan.cpus.is_multiple_of(plan.nodes), "CPUs and nodes");
        let machine = Machine::cold(plan.cpus, plan.change, with_ipi());
        let ipi = machine.apic.ipi_irq().map(|irq| IpiSetup {
            irq,
            kinds: plan.kinds,
        });
        let private = machine.apic.private_irqs();
        let setup = Setup {
            nodes: plan.nodes,
            private: &private,
            ipi,
            detector: Some(Detector::new(|_, report| panic!("{report:?}"), 0)),
            ..Setup::new(plan.cpus, machine.apic.irqs())
        };
        let system = Self {
            machine,
            interrupts: Interrupts::new(setup).unwrap_or_else(|error| panic!("{error}")),
            per_node: plan.cpus / plan.nodes,
        };
        for cpu in 0..plan.cpus {
            let online = system.online(cpu);
            online.unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        }
        system
    }

    /// The node of `cpu`.
    pub const fn node(&self, cpu: u32) -> u32 {
        cpu / self.per_node
    }

    /// The control side.
    pub fn control(&self) -> Control<'_> {
        self.interrupts
            .control(&self.machine.sim, &self.machine.apic)
    }

    /// Runs `f` as `cpu`, masked.
    pub fn on<R>(&self, cpu: u32, f: impl FnOnce(&OnCpu) -> R) -> R {
        let run = || self.machine.on(cpu, f);
        #[cfg(irq_trace)]
        let run = || irq_hal::atomic::trace::on_cpu(CpuIndex::new(cpu), run);
        run()
    }

    /// Brings `cpu` online, in the driver and then in irq-core.
    ///
    /// # Errors
    /// Theirs.
    pub fn online(&self, cpu: u32) -> Result<(), Error> {
        let place = Place {
            node: NodeId::new(self.node(cpu)),
            package: self.node(cpu),
            ..Place::flat(CpuIndex::new(cpu))
        };
        let apic = &self.machine.apic;
        self.on(cpu, |on| {
            apic.cpu_online(on, id(self.machine.model.id(cpu)))?;
            self.interrupts.cpu_online(&self.machine.sim, on, place)
        })
    }

    /// `cpu` takes an interrupt if one is signalled and it does not mask them.
    pub fn take(&self, cpu: u32) -> Option<Outcome> {
        let outcome = Cell::new(None);
        self.machine.model.take(cpu, |on, vector| {
            let enter = || {
                let cx = entry(on, vector);
                outcome.set(Some(self.interrupts.dispatch(&self.machine.apic, &cx)));
            };
            #[cfg(irq_trace)]
            let enter = || irq_hal::atomic::trace::on_cpu(on.cpu(), enter);
            enter();
        });
        outcome.get()
    }

    /// `cpu` takes interrupts until none is signalled. How many there were.
    pub fn drain(&self, cpu: u32) -> u32 {
        let mut taken = 0;
        while self.take(cpu).is_some() {
            taken += 1;
        }
        taken
    }

    /// Sends `kind` from one CPU to another.
    ///
    /// # Errors
    /// Those of irq-core.
    pub fn send(&self, from: u32, to: u32, kind: u8) -> Result<Sent, Error> {
        let to = CpuIndex::new(to);
        self.on(from, |on| {
            self.interrupts
                .send(&self.machine.apic, on, to, self::kind(kind))
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
}

/// irq-core's, by kind 0.
impl Scheme for System {
    fn cpus(&self) -> u32 {
        self.machine.sim.cpus()
    }

    fn send(&self, from: u32, to: u32) -> bool {
        let sent = Self::send(self, from, to, 0);
        sent.unwrap_or_else(|error| panic!("cpu{from} to cpu{to}: {error}")) == Sent::Rung
    }

    fn take(&self, cpu: u32) -> bool {
        Self::take(self, cpu).is_some()
    }
}

/// Interrupts masked by the driver while `f` runs: none, on a hot path.
pub fn irq_saves(machine: &Machine, cpu: u32, f: impl FnOnce()) -> u64 {
    let before = machine.sim.irq_saves(cpu);
    f();
    machine.sim.irq_saves(cpu) - before
}
