// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GICv3 driver on its model: the machine that scenarios start from.

use irq_core::cpu::CpuMask;
use irq_core::{Flow, Irq, IrqContext};
use irq_gicv3::gic::Active;
use irq_gicv3::{Config, Description, Gic, IntId, Mpidr, ProbeError, Sgi};
use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, Error};
use irq_sim::SimPlatform;
use irq_sim::gic::{GicBuilder, GicBus, GicModel, IccBus};
use irq_sim::log::{Trace, Unit};

/// The driver on the model.
pub type SimGic = Gic<SimPlatform, GicBus, IccBus>;

/// A modelled machine whose controller is probed.
pub struct Machine {
    /// The kernel's side.
    pub sim: SimPlatform,
    /// The hardware.
    pub model: GicModel,
    /// The driver.
    pub gic: SimGic,
}

/// The description of `model`, as correct firmware gives it.
pub fn describe<'a>(model: &GicModel, cpus: &'a [Mpidr]) -> Description<'a, GicBus> {
    let regions = (0..model.regions())
        .map(|region| model.gicr(region))
        .collect();
    Description::new(model.gicd(), regions).with_cpus(cpus)
}

/// The CPUs of `model`, as their `MPIDR_EL1` reads.
pub fn mpidrs(model: &GicModel) -> Vec<Mpidr> {
    (0..model.sim().cpus())
        .map(|cpu| Mpidr::new(model.mpidr(cpu)))
        .collect()
}

/// Probes `model` with `config`.
///
/// # Errors
/// Those of the driver.
pub fn probe(model: &GicModel, config: Config<'_>) -> Result<SimGic, ProbeError> {
    let cpus = mpidrs(model);
    Gic::probe(
        model.sim().clone(),
        describe(model, &cpus),
        model.sysregs(),
        config,
    )
}

impl Machine {
    /// A machine with `cpus` CPUs, changed by `change`, probed with `config`, all CPUs online.
    ///
    /// # Panics
    /// If the driver refuses.
    pub fn with(
        cpus: u32,
        change: impl FnOnce(GicBuilder) -> GicBuilder,
        config: Config<'_>,
    ) -> Self {
        let sim = SimPlatform::new(cpus);
        let model = change(GicModel::builder(&sim)).build();
        let gic = probe(&model, config).unwrap_or_else(|error| panic!("probe: {error}"));
        let machine = Self { sim, model, gic };
        for cpu in 0..cpus {
            machine
                .online(cpu)
                .unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        }
        machine
    }

    /// A plain machine.
    pub fn new(cpus: u32) -> Self {
        Self::with(cpus, |builder| builder, Config::default())
    }

    /// Brings `cpu` online.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn online(&self, cpu: u32) -> Result<(), Error> {
        let mpidr = Mpidr::new(self.model.mpidr(cpu));
        self.sim.as_cpu(cpu, |on| self.gic.cpu_online(on, mpidr))
    }

    /// Takes `cpu` offline.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn offline(&self, cpu: u32) -> Result<(), Error> {
        self.sim.as_cpu(cpu, |on| self.gic.cpu_offline(on))
    }

    /// What `cpu` acknowledges now.
    pub fn ack(&self, cpu: u32) -> Option<(Irq, Active)> {
        self.sim.as_cpu(cpu, |on| {
            // SAFETY: `as_cpu` promises the same for `on`, which lives as long.
            let on = unsafe { OnCpu::new(on.cpu()) };
            self.gic.ack(&IrqContext::new(on, None, None))
        })
    }

    /// Ends `active` on `cpu`.
    pub fn end(&self, cpu: u32, active: Active) {
        self.sim.as_cpu(cpu, |_| self.gic.end(active));
    }

    /// Acknowledges one interrupt on `cpu`, ends it, and says which one it was.
    pub fn take(&self, cpu: u32) -> Option<u32> {
        let (irq, active) = self.ack(cpu)?;
        self.end(cpu, active);
        self.gic.intid(irq).ok().map(IntId::get)
    }

    /// Our number for `intid`.
    ///
    /// # Panics
    /// If the driver has none.
    pub fn irq(&self, intid: u32) -> Irq {
        let irq = IntId::new(intid).ok().and_then(|intid| self.gic.irq(intid));
        irq.unwrap_or_else(|| panic!("INTID {intid} has no irq"))
    }

    /// What `f` does to the machine.
    pub fn trace(&self, f: impl FnOnce()) -> Trace {
        let mark = self.sim.log().mark();
        f();
        self.sim.log().since(mark)
    }
}

/// The SGI that scenarios use for IPIs.
pub const IPI: Sgi = match Sgi::new(7) {
    Some(sgi) => sgi,
    None => unreachable!(),
};

/// A configuration with [`IPI`].
pub fn with_ipi() -> Config<'static> {
    Config {
        ipi: Some(IPI),
        ..Config::default()
    }
}

/// A set with these CPUs, of 1024 possible ones.
///
/// # Panics
/// If a CPU is beyond these.
pub fn cpu_set(cpus: impl IntoIterator<Item = u32>) -> CpuMask {
    let mut set = CpuMask::try_new(1024).unwrap_or_else(|error| panic!("{error}"));
    for cpu in cpus {
        let fits = set.insert(CpuIndex::new(cpu));
        fits.unwrap_or_else(|error| panic!("{error}"));
    }
    set
}

/// The CPU interface of `cpu`, in the log.
pub const fn icc(cpu: u32) -> Unit {
    Unit::Icc(CpuIndex::new(cpu))
}
