// SPDX-License-Identifier: MIT OR Apache-2.0
//! The XIVE driver on its model: the machine that scenarios start from.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use irq_core::cpu::CpuIndex;
use irq_core::topology::Place;
use irq_core::{
    Control, Detector, Flow, Interrupts, IpiKind, IpiSetup, Irq, Kind, Lines, Outcome, Sent, Setup,
    Taken,
};
use irq_hal::bus::Extent;
use irq_hal::percpu::OnCpu;
use irq_hal::{Barrier, Bus, Error, NodeId, PhysAddr};
use irq_sim::SimPlatform;
use irq_sim::log::Trace;
use irq_sim::xive::{Gen, XiveBuilder, XiveModel, XiveWindow};
use irq_xive::xive::Active;
use irq_xive::{ChipId, Config, Description, Firmware, Pir, ProbeError, Thread, Xive};

use crate::storm::Scheme;
use crate::system::entry;

/// Both generations of the controller.
pub const GENERATIONS: [Gen; 2] = [Gen::One, Gen::Two];

/// The driver on the model.
pub type SimXive = Xive<SimPlatform, SimFirmware>;

/// What runs between two accesses of the driver to the hardware.
type Between = Box<dyn FnMut() + Send>;

/// The model's firmware, and its device space; whatever else happens on the machine can happen
/// between any two accesses.
#[derive(Clone)]
pub struct SimFirmware {
    model: XiveModel,
    between: Arc<Mutex<Option<Between>>>,
    calls: Arc<Mutex<Vec<FirmwareCall>>>,
}

/// A call of firmware that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirmwareCall {
    /// Its number.
    pub call: u64,
    /// Its arguments.
    pub args: [u64; 7],
    /// What it answered.
    pub answer: i64,
}

impl SimFirmware {
    /// That of `model`.
    pub fn new(model: &XiveModel) -> Self {
        Self {
            model: model.clone(),
            between: Arc::default(),
            calls: Arc::default(),
        }
    }

    /// The calls so far, in order.
    pub fn calls(&self) -> Vec<FirmwareCall> {
        let calls = self.calls.lock();
        calls.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `f` before each access and each barrier of the driver from now on, but not of those
    /// that `f` makes it do.
    pub fn between(&self, f: impl FnMut() + Send + 'static) {
        *self.lock() = Some(Box::new(f));
    }

    /// Nothing happens between accesses any more.
    pub fn calm(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Between>> {
        self.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) {
        let Some(mut f) = self.lock().take() else {
            return;
        };
        f();
        self.lock().get_or_insert(f);
    }
}

// SAFETY: the model's calls write to the memory that their arguments name, in the machine's
// simulated memory alone; its windows are what they say.
unsafe impl Firmware for SimFirmware {
    type Window = Watched;

    unsafe fn call(&self, call: u64, args: [u64; 7]) -> i64 {
        self.pause();
        let answer = self.model.opal(call, args);
        let made = FirmwareCall { call, args, answer };
        let calls = self.calls.lock();
        calls.unwrap_or_else(PoisonError::into_inner).push(made);
        answer
    }

    fn map(&self, at: PhysAddr, len: usize) -> Result<Watched, Error> {
        Ok(Watched {
            window: self.model.map(at, len)?,
            firmware: self.clone(),
        })
    }
}

/// A window of the model, with what happens between accesses.
pub struct Watched {
    window: XiveWindow,
    firmware: SimFirmware,
}

macro_rules! watched {
    ($($t:ty),*) => { $(
        impl Bus<$t> for Watched {
            fn load(&self, offset: usize) -> $t {
                self.firmware.pause();
                self.window.load(offset)
            }

            fn store(&self, offset: usize, value: $t) {
                self.firmware.pause();
                self.window.store(offset, value);
            }
        }
    )* };
}

watched!(u8, u16, u32, u64);

impl Barrier for Watched {
    fn publish(&self) {
        self.firmware.pause();
        self.window.publish();
    }

    fn complete(&self) {
        self.firmware.pause();
        self.window.complete();
    }

    fn synchronize(&self) {
        self.firmware.pause();
        self.window.synchronize();
    }
}

impl Extent for Watched {
    fn extent(&self) -> usize {
        self.window.extent()
    }
}

/// A modelled machine whose controller is probed.
pub struct Machine {
    /// The kernel's side.
    pub sim: SimPlatform,
    /// The hardware and its firmware.
    pub model: XiveModel,
    /// The driver.
    pub xive: SimXive,
}

/// The hardware of a machine with `cpus` CPUs on `chips` chips, each of which is a node, changed
/// by `change`.
pub fn hardware(
    generation: Gen,
    cpus: u32,
    chips: u32,
    change: impl FnOnce(XiveBuilder) -> XiveBuilder,
) -> (SimPlatform, XiveModel) {
    assert!(cpus.is_multiple_of(chips), "CPUs and chips");
    let per_chip = cpus / chips;
    let nodes: Vec<_> = (0..cpus).map(|cpu| cpu / per_chip).collect();
    let sim = SimPlatform::builder(cpus).nodes(&nodes).build();
    let builder = XiveModel::builder(&sim)
        .generation(generation)
        .chips(chips as usize);
    let model = change(builder).build();
    (sim, model)
}

/// The CPUs of `model`, as correct firmware describes them.
pub fn threads(model: &XiveModel) -> Vec<Thread> {
    let sim = model.sim();
    let thread = |cpu: u32| Thread {
        pir: Pir::new(model.pir(cpu)),
        chip: ChipId::new(model.chip_id(cpu)),
        node: sim.node_of(CpuIndex::new(cpu)),
    };
    (0..sim.cpus()).map(thread).collect()
}

/// An event queue that the hardware knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueAt {
    /// Where it is.
    pub at: PhysAddr,
    /// The base-2 logarithm of its bytes.
    pub log2: u32,
}

/// The queue of a thread at a priority, if the hardware knows one.
pub fn queue(model: &XiveModel, pir: u32, priority: u8) -> Option<QueueAt> {
    let queue = model.queue(pir, priority);
    queue.enabled.then_some(QueueAt {
        at: PhysAddr::new(queue.page),
        log2: queue.size,
    })
}

/// Probes `model` with `config`.
///
/// # Errors
/// Those of the driver.
pub fn probe(model: &XiveModel, config: Config) -> Result<SimXive, ProbeError> {
    let threads = threads(model);
    let description = Description::new(model.tima(), &threads);
    Xive::probe(
        model.sim().clone(),
        SimFirmware::new(model),
        description,
        config,
    )
}

impl Machine {
    /// A machine whose CPUs are not online yet.
    ///
    /// # Panics
    /// If the driver refuses.
    pub fn cold(
        generation: Gen,
        cpus: u32,
        chips: u32,
        change: impl FnOnce(XiveBuilder) -> XiveBuilder,
        config: Config,
    ) -> Self {
        let (sim, model) = hardware(generation, cpus, chips, change);
        let xive = probe(&model, config).unwrap_or_else(|error| panic!("probe: {error}"));
        Self { sim, model, xive }
    }

    /// A machine whose CPUs are all online.
    ///
    /// # Panics
    /// If the driver refuses.
    pub fn with(
        generation: Gen,
        cpus: u32,
        chips: u32,
        change: impl FnOnce(XiveBuilder) -> XiveBuilder,
        config: Config,
    ) -> Self {
        let machine = Self::cold(generation, cpus, chips, change, config);
        for cpu in 0..cpus {
            let online = machine.online(cpu);
            online.unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        }
        machine
    }

    /// A plain machine of one chip.
    pub fn new(generation: Gen, cpus: u32) -> Self {
        Self::with(generation, cpus, 1, |builder| builder, Config::default())
    }

    /// Brings `cpu` online.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn online(&self, cpu: u32) -> Result<(), Error> {
        let pir = Pir::new(self.model.pir(cpu));
        self.sim.as_cpu(cpu, |on| self.xive.cpu_online(on, pir))
    }

    /// Takes `cpu` offline.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn offline(&self, cpu: u32) -> Result<(), Error> {
        self.sim.as_cpu(cpu, |on| self.xive.cpu_offline(on))
    }

    /// What `cpu` acknowledges now.
    pub fn ack(&self, cpu: u32) -> Option<(Irq, Active)> {
        self.sim.as_cpu(cpu, |on| self.xive.ack(&entry(on)))
    }

    /// Ends `active` on `cpu`.
    pub fn end(&self, cpu: u32, active: Active) {
        self.sim.as_cpu(cpu, |_| self.xive.end(active));
    }

    /// Ends `active` on `cpu`, and takes the next that the same acknowledge stands for.
    pub fn end_and_next(&self, cpu: u32, active: Active) -> Option<(Irq, Active)> {
        self.sim
            .as_cpu(cpu, |on| self.xive.end_and_next(&entry(on), active))
    }

    /// One entry of `cpu`, if the controller signals one: every interrupt that its acknowledge
    /// stands for, each ended before the next is taken.
    pub fn enter(&self, cpu: u32) -> Option<Vec<Irq>> {
        let mut taken = None;
        self.model.take(cpu, |_| {
            let mut irqs = Vec::new();
            let mut next = self.ack(cpu);
            while let Some((irq, active)) = next {
                irqs.push(irq);
                next = self.end_and_next(cpu, active);
            }
            taken = Some(irqs);
        });
        taken
    }

    /// One entry of `cpu` that takes one interrupt and ends it, as an end-first action's does.
    pub fn take(&self, cpu: u32) -> Option<Irq> {
        let mut taken = None;
        self.model.take(cpu, |_| {
            if let Some((irq, active)) = self.ack(cpu) {
                self.end(cpu, active);
                taken = Some(irq);
            }
        });
        taken
    }

    /// `cpu` takes interrupts until none is signalled.
    ///
    /// # Panics
    /// If that does not end.
    pub fn drain(&self, cpu: u32) -> Vec<Irq> {
        let mut all = Vec::new();
        while let Some(irqs) = self.enter(cpu) {
            all.extend(irqs);
            assert!(all.len() < 1_000_000, "cpu{cpu}: no end of interrupts");
        }
        all
    }

    /// A device's source that goes to `cpu`, unmasked.
    ///
    /// # Panics
    /// If the driver refuses.
    pub fn device(&self, cpu: u32) -> Irq {
        let irq = self.xive.alloc_source(CpuIndex::new(cpu));
        let irq = irq.unwrap_or_else(|error| panic!("source: {error}"));
        let unmasked = self.xive.unmask(irq);
        unmasked.unwrap_or_else(|error| panic!("unmask: {error}"));
        irq
    }

    /// Firmware's number of `irq`.
    ///
    /// # Panics
    /// If it has no source.
    pub fn number(&self, irq: Irq) -> u32 {
        let number = self.xive.source(irq);
        number
            .unwrap_or_else(|error| panic!("{irq}: {error}"))
            .get()
    }

    /// Raises `irq`, as its device does.
    pub fn fire(&self, irq: Irq) {
        self.model.line(self.number(irq)).pulse();
    }

    /// The firmware, for what is to happen between accesses.
    pub fn firmware(&self) -> &SimFirmware {
        self.xive.opal().firmware()
    }

    /// What `f` does to the machine.
    pub fn trace(&self, f: impl FnOnce()) -> Trace {
        let mark = self.sim.log().mark();
        f();
        self.sim.log().since(mark)
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
    /// A system of `cpus` CPUs on `nodes` chips, all online, with these kinds of IPIs.
    ///
    /// # Panics
    /// If something refuses.
    pub fn new(generation: Gen, cpus: u32, nodes: u32, kinds: &[Kind]) -> Self {
        let system = Self::cold(generation, cpus, nodes, kinds);
        for cpu in 0..cpus {
            let online = system.online(cpu);
            online.unwrap_or_else(|error| panic!("cpu{cpu}: {error}"));
        }
        system
    }

    /// Likewise, with no CPU online yet.
    ///
    /// # Panics
    /// If something refuses.
    pub fn cold(generation: Gen, cpus: u32, nodes: u32, kinds: &[Kind]) -> Self {
        let machine = Machine::cold(
            generation,
            cpus,
            nodes,
            |builder| builder,
            Config::default(),
        );
        let xive = &machine.xive;
        let private = xive.private_irqs();
        let setup = Setup {
            nodes,
            private: &private,
            ipi: Some(IpiSetup {
                irq: xive.ipi_irq(),
                kinds,
            }),
            detector: Some(Detector::new(|_, report| panic!("{report:?}"), 0)),
            ..Setup::new(cpus, xive.irqs())
        };
        let interrupts = Interrupts::new(setup).unwrap_or_else(|error| panic!("{error}"));
        Self {
            machine,
            interrupts,
            per_node: cpus / nodes,
        }
    }

    /// The control side.
    pub fn control(&self) -> Control<'_> {
        self.interrupts
            .control(&self.machine.sim, &self.machine.xive)
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
        let pir = Pir::new(self.machine.model.pir(cpu));
        let node = cpu / self.per_node;
        let place = Place {
            node: NodeId::new(node),
            package: node,
            ..Place::flat(CpuIndex::new(cpu))
        };
        self.on(cpu, |on| {
            self.machine.xive.cpu_online(on, pir)?;
            self.interrupts.cpu_online(&self.machine.sim, on, place)
        })
    }

    /// Takes `cpu` offline, in irq-core and then in the driver.
    ///
    /// # Errors
    /// Theirs.
    pub fn offline(&self, cpu: u32) -> Result<(), Error> {
        let xive = &self.machine.xive;
        self.on(cpu, |on| {
            self.interrupts.cpu_offline(xive, &entry(on))?;
            xive.cpu_offline(on)
        })
    }

    /// One entry of the CPU of `on`, as a kernel's vector makes it.
    pub fn enter(&self, on: &OnCpu) -> Outcome {
        self.interrupts.dispatch(&self.machine.xive, &entry(on))
    }

    /// `cpu` takes an interrupt if the controller signals one.
    pub fn take(&self, cpu: u32) -> Option<Outcome> {
        let outcome = Cell::new(None);
        self.machine.model.take(cpu, |on| {
            let enter = || outcome.set(Some(self.enter(on)));
            #[cfg(irq_trace)]
            let enter = || irq_hal::atomic::trace::on_cpu(on.cpu(), enter);
            enter();
        });
        outcome.get()
    }

    /// `cpu` takes interrupts until none is signalled. How many entries took something.
    ///
    /// # Panics
    /// If that does not end.
    pub fn drain(&self, cpu: u32) -> u32 {
        let mut taken = 0;
        for entries in 0.. {
            assert!(entries < 1_000_000, "cpu{cpu}: no end of interrupts");
            match self.take(cpu) {
                None => break,
                Some(outcome) => taken += u32::from(outcome.taken != Taken::Nothing),
            }
        }
        taken
    }

    /// All CPUs take interrupts until none is signalled to any. How many entries took something.
    pub fn settle(&self) -> u32 {
        let mut all = 0;
        loop {
            let round: u32 = (0..self.machine.sim.cpus())
                .map(|cpu| self.drain(cpu))
                .sum();
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
    pub fn send(&self, from: u32, to: u32, kind: IpiKind) -> Result<Sent, Error> {
        let to = CpuIndex::new(to);
        self.on(from, |on| {
            self.interrupts.send(&self.machine.xive, on, to, kind)
        })
    }
}

/// irq-core's, by kind 0.
impl Scheme for System {
    fn cpus(&self) -> u32 {
        self.machine.sim.cpus()
    }

    fn send(&self, from: u32, to: u32) -> bool {
        let sent = Self::send(self, from, to, crate::system::kind(0));
        sent.unwrap_or_else(|error| panic!("cpu{from} to cpu{to}: {error}")) == Sent::Rung
    }

    fn take(&self, cpu: u32) -> bool {
        Self::take(self, cpu).is_some()
    }
}
