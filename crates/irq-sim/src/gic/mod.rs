// SPDX-License-Identifier: MIT OR Apache-2.0
//! A GICv3 written from the manual (IHI 0069): distributor, redistributors in regions, CPU
//! interfaces, one or two security states.
//!
//! # Vocabulary
//! - *source*: one interrupt's state in distributor or redistributor.
//! - *view*: the security state an access is made in; handles are Non-secure unless asked.
//! - *line*: a wire into the GIC, driven by the test.
//! - *stray*: an SGI that reached nobody.
//!
//! # What is judged
//! Offsets, widths, alignment, read-only and write-only registers, reserved bits; the order of
//! bring-up (power, wake, SRE and `isb`, active priorities, group enable and its `isb`); changes
//! of ARE, DS, trigger, priority and EOImode at the wrong time; routes; SGI fields, and the
//! barriers before them; ends that do not mirror acknowledges, and the barriers between the
//! two. A disable, of a group or of an interrupt, is effective only when RWP was read as zero:
//! until then the interrupt may still arrive, and its set-up must not change. An SGI leaves the
//! CPU at the next `isb`.
//!
//! LPIs, ITS and GICv4 are not modelled: their registers are panics.
//!
//! # Example
//! ```
//! use irq_hal::Bus;
//! use irq_sim::gic::{Delay, GicModel};
//! use irq_sim::{SimPlatform, Unit};
//!
//! let sim = SimPlatform::new(2);
//! let gic = GicModel::builder(&sim).wake(Delay::Polls(2)).build();
//! let gicr = gic.gicr(0); // `GICR_WAKER` is at 0x14
//! sim.as_cpu(1, |_| {
//!     Bus::<u32>::store(&gicr, 0x2_0014, 0);
//!     while Bus::<u32>::load(&gicr, 0x2_0014) & 4 != 0 {}
//! });
//! assert!(gic.awake(1) && !gic.awake(0));
//! assert_eq!(sim.log().all().loads(Unit::Gicr(1)), 3);
//! ```

mod bank;
mod builder;
mod bus;
mod call;
mod cpu_interface;
mod delivery;
mod distributor;
mod icc;
mod line;
mod machine;
mod redistributor;
pub mod sysreg;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use irq_hal::percpu::OnCpu;
use irq_hal::{CpuIndex, NodeId};

pub use bank::Group;
pub use builder::GicBuilder;
pub use bus::{GicBus, IccBus};
pub use call::View;
pub use delivery::Stray;
pub use line::Line;
pub use machine::{Affinity, Are, Delay, Region, Security};

use crate::platform::SimPlatform;
use cpu_interface::CpuInterface;
use distributor::Distributor;
use machine::Machine;
use redistributor::Redistributor;

/// All of the machine that accesses change.
#[derive(Debug)]
struct State {
    machine: Machine,
    dist: Distributor,
    rds: Vec<Redistributor>,
    cpus: Vec<CpuInterface>,
    strays: Vec<Stray>,
    lost_deactivations: usize,
}

/// Where a redistributor is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: usize,
    len: usize,
    rd: usize,
    node: NodeId,
}

#[derive(Clone, Debug)]
struct Layout {
    slots: Vec<Slot>,
    len: usize,
}

#[derive(Debug)]
struct Shared {
    sim: SimPlatform,
    regions: Vec<Layout>,
    gicd_node: NodeId,
    mpidrs: Vec<u64>,
    state: Mutex<State>,
}

/// A modelled GIC. A handle: clones share the machine.
#[derive(Clone, Debug)]
pub struct GicModel {
    shared: Arc<Shared>,
}

/// What the hardware knows of one interrupt, for assertions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceState {
    /// Enabled, as `ISENABLER` reads.
    pub enabled: bool,
    /// Pending.
    pub pending: bool,
    /// Active.
    pub active: bool,
    /// Its group.
    pub group: Group,
    /// Its priority as the hardware compares it, not as a non-secure kernel sees it.
    pub priority: u8,
    /// Edge-triggered.
    pub edge: bool,
    /// `IROUTER`; 0 for a private interrupt.
    pub route: u64,
}

impl GicModel {
    /// A GIC for the CPUs of `sim`, to be described further.
    pub fn builder(sim: &SimPlatform) -> GicBuilder {
        GicBuilder::new(sim)
    }

    fn new(sim: &SimPlatform, machine: Machine) -> Self {
        let mut rds = Vec::new();
        let mut regions = Vec::new();
        for region in &machine.regions {
            let (starts, len) = region.layout();
            let mut slots = Vec::new();
            for (index, (spec, start)) in region.rds.iter().zip(starts).enumerate() {
                let last = match region.last {
                    machine::Last::Each => true,
                    machine::Last::Nowhere => false,
                    machine::Last::End => index + 1 == region.rds.len(),
                };
                let number = rds.len();
                let owner = machine
                    .cpus
                    .iter()
                    .position(|cpu| cpu.affinity == spec.affinity);
                let node = owner.map_or(NodeId::FLAT, |cpu| sim.node_of(CpuIndex::new(cpu as u32)));
                let frames = if spec.vlpis { 0x4_0000 } else { 0x2_0000 };
                slots.push(Slot {
                    start,
                    len: frames,
                    rd: number,
                    node,
                });
                rds.push(Redistributor::new(&machine, number as u32, *spec, last));
            }
            regions.push(Layout { slots, len });
        }
        let rd_of = |cpu: usize| {
            let affinity = machine.cpus[cpu].affinity;
            rds.iter().position(|rd| rd.spec.affinity == affinity)
        };
        let cpus = (0..machine.cpus.len())
            .map(|cpu| CpuInterface::new(&machine, cpu, rd_of(cpu)))
            .collect();
        let shared = Shared {
            sim: sim.clone(),
            regions,
            gicd_node: machine.gicd_node,
            mpidrs: machine.cpus.iter().map(|cpu| cpu.mpidr).collect(),
            state: Mutex::new(State {
                dist: Distributor::new(&machine),
                rds,
                cpus,
                machine,
                strays: Vec::new(),
                lost_deactivations: 0,
            }),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine that the GIC is part of.
    pub fn sim(&self) -> &SimPlatform {
        &self.shared.sim
    }

    /// The number of redistributor regions.
    pub fn regions(&self) -> usize {
        self.shared.regions.len()
    }

    /// `MPIDR_EL1` of a CPU, with its RES1 bit.
    pub fn mpidr(&self, cpu: u32) -> u64 {
        self.shared.mpidrs[cpu as usize]
    }

    /// The redistributor of a CPU, as [`Unit::Gicr`](crate::Unit::Gicr) counts them.
    pub fn rd_of(&self, cpu: u32) -> Option<u32> {
        self.state().cpus[cpu as usize].rd.map(|rd| rd as u32)
    }

    /// The distributor.
    pub fn gicd(&self) -> GicBus {
        GicBus::distributor(self.clone())
    }

    /// The redistributor region with this number.
    ///
    /// # Panics
    /// If there is none.
    pub fn gicr(&self, region: usize) -> GicBus {
        assert!(
            region < self.regions(),
            "region {region} of {}",
            self.regions()
        );
        GicBus::region(self.clone(), region)
    }

    /// The CPU interface of `cpu`: only that CPU may use it.
    pub fn icc(&self, cpu: u32) -> IccBus {
        IccBus::new(self.clone(), Some(CpuIndex::new(cpu)))
    }

    /// The system registers: whoever uses them reaches its own CPU interface.
    pub fn sysregs(&self) -> IccBus {
        IccBus::new(self.clone(), None)
    }

    /// The wire of SPI or extended SPI `intid`.
    ///
    /// # Panics
    /// If there is none.
    pub fn line(&self, intid: u32) -> Line {
        Line::new(self.clone(), None, intid)
    }

    /// The wire of PPI or extended PPI `intid` of `cpu`.
    ///
    /// # Panics
    /// If there is none.
    pub fn private_line(&self, cpu: u32, intid: u32) -> Line {
        Line::new(self.clone(), Some(cpu as usize), intid)
    }

    /// What the hardware knows of SPI or extended SPI `intid`.
    ///
    /// # Panics
    /// If there is none.
    pub fn source(&self, intid: u32) -> SourceState {
        let state = self.state();
        let source = state.dist.source(intid);
        shown(
            source.unwrap_or_else(|| panic!("no shared interrupt {intid}")),
            state.dist.ds,
        )
    }

    /// What the redistributor of `cpu` knows of its interrupt `intid`.
    ///
    /// # Panics
    /// If there is none.
    pub fn private_source(&self, cpu: u32, intid: u32) -> SourceState {
        let state = self.state();
        let source = redistributor::private_index(intid)
            .and_then(|index| state.rds[state.cpus[cpu as usize].rd?].sources.get(index));
        shown(
            source.unwrap_or_else(|| panic!("no interrupt {intid} of cpu{cpu}")),
            state.dist.ds,
        )
    }

    /// Whether the GIC signals an IRQ to `cpu`: an interrupt of Group 1 that its priority mask
    /// and what it handles let through.
    pub fn signalled(&self, cpu: u32) -> bool {
        let group = self.state().signalled(cpu as usize).map(|one| one.group);
        group == Some(Group::One)
    }

    /// Whether the GIC signals an FIQ to `cpu`: an interrupt of another group.
    pub fn signalled_fiq(&self, cpu: u32) -> bool {
        let group = self.state().signalled(cpu as usize).map(|one| one.group);
        group.is_some_and(|group| group != Group::One)
    }

    /// The priority mask of `cpu`, and the group priority of what it handles, both as the
    /// hardware compares them.
    pub fn priorities(&self, cpu: u32) -> (u8, Option<u8>) {
        self.state().cpus[cpu as usize].priorities()
    }

    /// What `cpu` has acknowledged and not ended, innermost last.
    pub fn handling(&self, cpu: u32) -> Vec<u32> {
        self.state().cpus[cpu as usize]
            .stack
            .iter()
            .map(|taken| taken.intid)
            .collect()
    }

    /// Whether the redistributor of `cpu` is powered and awake.
    pub fn awake(&self, cpu: u32) -> bool {
        let state = self.state();
        state.cpus[cpu as usize]
            .rd
            .is_some_and(|rd| state.rds[rd].awake())
    }

    /// The next acknowledge of `cpu` returns `value` and changes nothing: a special number, or
    /// one that hardware should not have returned.
    pub fn inject_acknowledge(&self, cpu: u32, value: u32) {
        self.state().cpus[cpu as usize].injected.push_back(value);
    }

    /// From now on `GICD_CTLR.RWP` stays one for this long.
    pub fn set_gicd_rwp(&self, delay: Delay) {
        self.state().machine.gicd_rwp = delay;
    }

    /// From now on `GICR_CTLR.RWP` stays one for this long.
    pub fn set_gicr_rwp(&self, delay: Delay) {
        self.state().machine.gicr_rwp = delay;
    }

    /// From now on redistributors take this long to wake, or to go to sleep.
    pub fn set_wake(&self, delay: Delay) {
        self.state().machine.wake = delay;
    }

    /// From now on `ICC_SRE_EL1.SRE` can be set, or not.
    pub fn set_sre_sticks(&self, sticks: bool) {
        self.state().machine.sre_sticks = sticks;
    }

    /// `cpu` takes an IRQ exception, if one is signalled and it does not mask interrupts:
    /// masks them, runs `entry` on that CPU, and unmasks again. Says whether it did.
    ///
    /// # Panics
    /// If `entry` leaves an interrupt mask of the driver unrestored.
    pub fn take_irq(&self, cpu: u32, entry: impl FnOnce(&OnCpu)) -> bool {
        let sim = self.sim();
        if sim.masked(cpu) || !self.signalled(cpu) {
            return false;
        }
        sim.set_masked(cpu, true);
        sim.as_cpu(cpu, entry);
        sim.set_masked(cpu, false);
        true
    }

    /// SGIs that reached nobody.
    pub fn strays(&self) -> Vec<Stray> {
        self.state().strays.clone()
    }

    /// How many deactivations the erratum of [`GicBuilder::gic700`] swallowed.
    pub fn lost_deactivations(&self) -> usize {
        self.state().lost_deactivations
    }

    /// `cpu` loses power: its interface is as at reset when it comes back.
    ///
    /// # Panics
    /// If its redistributor is awake: an interrupt for it would have nowhere to go.
    pub fn power_off_cpu(&self, cpu: u32) {
        let mut state = self.state();
        let rd = state.cpus[cpu as usize].rd;
        let awake = rd.is_some_and(|rd| state.rds[rd].awake());
        let must_sleep = state.machine.security == Security::One && state.machine.sleep_sticks;
        assert!(
            !(awake && must_sleep),
            "cpu{cpu} is powered off with its redistributor awake"
        );
        let fresh = CpuInterface::new(&state.machine, cpu as usize, rd);
        state.cpus[cpu as usize] = fresh;
    }
}

fn shown(source: &bank::Source, ds: bool) -> SourceState {
    SourceState {
        enabled: source.enabled,
        pending: source.pending(),
        active: source.active,
        group: source.group(ds),
        priority: source.priority,
        edge: source.edge,
        route: source.route,
    }
}
