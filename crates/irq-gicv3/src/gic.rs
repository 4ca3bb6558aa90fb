// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole controller: distributor, redistributors and CPU interfaces under our dense irq
//! numbers.
//!
//! ```text
//! boot CPU     Gic::probe      refuses, or sets the distributor up
//! every CPU    cpu_online      finds its redistributor, powers it, wakes it, sets up its
//!                              private interrupts and its interface
//! entry        ack .. end      through irq_core::Flow
//! to a CPU     kick, kick_mask  through irq_core::Kick, by the SGI of Config::ipi
//! control      mask, unmask, set_trigger, set_route, configure_private, ...
//! ```
//! The value is `Sync`, is built once and needs `&self` only; it holds no reference into
//! itself, so it can be moved into the kernel's static.

mod flow;
mod kick;
mod lines;
mod online;
mod private;
mod send;
mod snapshot;
mod targets;

use alloc::vec::Vec;

use irq_core::{Irq, IrqRange};
use irq_hal::atomic::{AtomicBool, AtomicU64, Ordering};
use irq_hal::lock::MaskedLock;
use irq_hal::percpu::{CachePadded, PerCpu};
use irq_hal::{CpuIndex, Error, Mmio, Platform, irq_warn};

use crate::affinity::Mpidr;
use crate::cpu_interface::{CpuFeatures, CpuInterface, CpuSetup, EoiMode};
use crate::distributor::{self, Distributor, Setup};
use crate::error::ProbeError;
use crate::intid::IntId;
use crate::layout::Layout;
use crate::priority::{Priority, PriorityView};
use crate::quirks::{Effects, Machine, Quirk, Quirks};
use crate::redistributor::{self, RedistributorMap};
use crate::regs::Frame;
use crate::regs::icc::IccBus;
use crate::sgi::Sgi;
use crate::sysregs::SysRegs;

pub use flow::{Active, Counts};
pub use snapshot::Snapshot;

use private::Template;
use targets::Targets;

/// What the machine has, as firmware tells. The windows belong to the driver from now on.
#[derive(Debug)]
pub struct Description<'a, B = Mmio> {
    /// The distributor's window, 64 KiB.
    pub distributor: B,
    /// The redistributor regions' windows, in any order.
    pub redistributors: Vec<B>,
    /// The distance between redistributors in bytes, if firmware gives one.
    pub stride: Option<u64>,
    /// The CPUs that firmware names. May be empty; used for the first route and for a report
    /// of those without a redistributor.
    pub cpus: &'a [Mpidr],
    /// The distributor's per-chip aliases, on machines that need them to read SPI state
    /// (NVIDIA T241); empty elsewhere.
    pub state_aliases: Vec<B>,
    /// For the predicates of quirks.
    pub machine: Machine<'a>,
}

impl<'a, B> Description<'a, B> {
    /// A machine with these windows, and nothing special.
    pub fn new(distributor: B, redistributors: Vec<B>) -> Self {
        Self {
            distributor,
            redistributors,
            stride: None,
            cpus: &[],
            state_aliases: Vec::new(),
            machine: Machine::default(),
        }
    }

    /// With the CPUs that firmware names.
    pub fn with_cpus(mut self, cpus: &'a [Mpidr]) -> Self {
        self.cpus = cpus;
        self
    }
}

/// The embedder's choices.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// The first of our irq numbers.
    pub base: Irq,
    /// How many CPUs are possible: an upper bound for [`CpuIndex`]. As many as the description
    /// names if nothing is said, or as there are redistributors if it names none.
    pub cpus: Option<u32>,
    /// What an end does.
    pub eoi_mode: EoiMode,
    /// The SGI for interrupts from CPU to CPU ([`irq_core::Kick`]): it is unmasked on every CPU,
    /// present and future. None are sent if nothing is said; all other SGIs are the embedder's.
    pub ipi: Option<Sgi>,
    /// The priority of every interrupt that is not configured otherwise. In the bits that the
    /// hardware keeps it must be below [`priority_mask`](Self::priority_mask).
    pub priority: Priority,
    /// Interrupts with a priority value below this one are delivered.
    pub priority_mask: Priority,
    /// Where shared interrupts go at first; the first described CPU that has a redistributor
    /// if nothing is said.
    pub route: Option<Mpidr>,
    /// Quirks on top of the driver's.
    pub extra_quirks: &'a [Quirk],
    /// Names of quirks that do not count.
    pub veto_quirks: &'a [&'a str],
}

impl Default for Config<'_> {
    fn default() -> Self {
        Self {
            base: Irq::new(0),
            cpus: None,
            eoi_mode: EoiMode::Combined,
            ipi: None,
            priority: Priority::DEFAULT,
            priority_mask: Priority::UNMASKED,
            route: None,
            extra_quirks: &[],
            veto_quirks: &[],
        }
    }
}

/// What we keep of one possible CPU. Counts are written by that CPU alone, the rest when it
/// comes and goes.
#[derive(Debug)]
struct Slot {
    /// The leaf lock of its redistributor, and whether that one is set up.
    redistributor: MaskedLock<bool, 5>,
    /// Its affinity as the hardware counts it.
    mpidr: AtomicU64,
    extended_range: AtomicBool,
    spurious: AtomicU64,
    special: AtomicU64,
    unknown: AtomicU64,
}

impl Slot {
    fn new() -> Self {
        Self {
            redistributor: MaskedLock::new(false),
            mpidr: AtomicU64::new(0),
            extended_range: AtomicBool::new(false),
            spurious: AtomicU64::new(0),
            special: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    fn mpidr(&self) -> Mpidr {
        Mpidr::new(self.mpidr.load(Ordering::Relaxed))
    }

    /// Whether the CPU's interface takes `intid`: extended PPIs and SPIs need its ExtRange.
    fn takes(&self, intid: IntId) -> bool {
        !intid.kind().is_extended() || self.extended_range.load(Ordering::Relaxed)
    }
}

/// What every entry and every send reads, on lines of its own: written when CPUs come and go,
/// if at all.
struct Hot<C> {
    icc: C,
    layout: Layout,
    effects: Effects,
    setup: CpuSetup,
    /// EOImode is 0, and no quirk changes an end.
    one_write_ends: bool,
    ipi: Option<Sgi>,
    targets: Targets,
    /// Whether SGIs may use the range selector: the distributor and every CPU so far can.
    range_selector: AtomicBool,
}

/// A GICv3 or GICv4 under our irq numbers.
pub struct Gic<P, B = Mmio, C = SysRegs> {
    hot: CachePadded<Hot<C>>,
    slots: PerCpu<Slot>,
    platform: P,
    distributor: Distributor<B>,
    redistributors: RedistributorMap<B>,
    group0: bool,
    view: PriorityView,
    default_priority: u8,
    template: Template,
    /// Whether some redistributor has an Aff3 other than 0.
    aff3: bool,
}

impl<P: Platform, B: Frame, C: IccBus> Gic<P, B, C> {
    /// Looks at the controller, and takes it over: every shared interrupt is masked, inactive,
    /// level-triggered and routed to one CPU, and the distributor is on when the call returns.
    ///
    /// `icc` is the interface of the CPU that runs, [`SysRegs`] on hardware.
    ///
    /// # Errors
    /// See [`ProbeError`]; unless it is [`ProbeError::Hardware`], nothing has been written to
    /// distributor and redistributors. Nor has it for a route without a redistributor
    /// ([`Error::NoUnitForCpu`]) or with an Aff3 that the distributor cannot hold
    /// ([`Error::Unsupported`]).
    ///
    /// # Context
    /// The boot CPU, masked, once a heap exists; before any [`cpu_online`](Self::cpu_online).
    pub fn probe(
        platform: P,
        description: Description<'_, B>,
        icc: C,
        config: Config<'_>,
    ) -> Result<Self, ProbeError> {
        let quirks = Quirks {
            machine: description.machine,
            extra: config.extra_quirks,
            veto: config.veto_quirks,
        };
        if config.priority >= config.priority_mask {
            return Err(ProbeError::Priority {
                priority: config.priority.get(),
            });
        }
        if config.cpus == Some(0) {
            return Err(ProbeError::NoCpus);
        }
        distributor::check_window(&description.distributor)?;
        redistributor::check_windows(&description.redistributors, description.stride)?;

        let mut distributor = Distributor::new(description.distributor, &quirks)?
            .with_state_aliases(description.state_aliases);
        let redistributors =
            RedistributorMap::discover(description.redistributors, description.stride, &quirks)?;
        let features = *distributor.features();
        let layout = Layout::new(
            config.base,
            features.spis,
            redistributors.eppis(),
            features.espis,
        )?;
        let cpus = possible_cpus(config.cpus, description.cpus.len(), redistributors.len());
        let slots = PerCpu::new(cpus, |_| Slot::new())?;
        let targets = Targets::new(cpus, redistributors.clusters())?;
        let effective = |mpidr: Mpidr| effective(features.effects, mpidr);
        for &cpu in description.cpus {
            if !redistributors.contains(effective(cpu)) {
                irq_warn!(
                    "gicv3: no redistributor for the CPU with affinity {:#x}",
                    cpu.get()
                );
            }
        }
        let described = description.cpus.iter().map(|&cpu| effective(cpu));
        let route = config
            .route
            .map(effective)
            .or_else(|| {
                described
                    .into_iter()
                    .find(|&cpu| redistributors.contains(cpu))
            })
            .or_else(|| redistributors.affinities().next())
            .ok_or(ProbeError::NoRegions)?;
        if !redistributors.contains(route) {
            return Err(no_redistributor(route).into());
        }
        distributor.check_route(route.route())?;

        let interface = CpuInterface::new(&icc);
        let CpuFeatures {
            group0,
            priority_bits,
            ..
        } = interface.probe()?;
        // Before anything is written; no view that init can come to has fewer priorities.
        view_value(&features, group0, config.priority)?;
        let kept = kept_bits(priority_bits, features.one_security_state || group0);
        if config.priority.get() & kept >= config.priority_mask.get() & kept {
            return Err(ProbeError::Priority {
                priority: config.priority.get(),
            });
        }
        distributor.init(
            &platform,
            &Setup {
                priority: config.priority,
                group0,
                route: route.route(),
            },
        )?;
        let settled = *distributor.features();
        // Where a quirk changed the number of security states, the interface's view changed too.
        let group0 = if settled.one_security_state != features.one_security_state {
            interface.probe()?.group0
        } else {
            group0
        };
        let (view, default_priority) = view_value(&settled, group0, config.priority)?;
        let aff3 = redistributors.affinities().any(|cpu| cpu.aff3() != 0);
        let hot = Hot {
            icc,
            layout,
            effects: features.effects,
            setup: CpuSetup {
                priority_mask: config.priority_mask,
                eoi_mode: config.eoi_mode,
            },
            one_write_ends: config.eoi_mode == EoiMode::Combined
                && !features.effects.contains(Effects::LOST_DEACTIVATION),
            ipi: config.ipi,
            targets,
            range_selector: AtomicBool::new(features.range_selector),
        };
        Ok(Self {
            hot: CachePadded::new(hot),
            slots,
            platform,
            distributor,
            redistributors,
            group0,
            view,
            default_priority,
            template: Template::new(default_priority, config.ipi),
            aff3,
        })
    }

    /// All our irq numbers: SGIs and PPIs, SPIs, extended PPIs, extended SPIs, from the base.
    pub fn irqs(&self) -> IrqRange {
        self.hot.layout.irqs()
    }

    /// Those of our numbers of which each CPU has its own: SGIs and PPIs, extended PPIs.
    pub fn private_irqs(&self) -> [IrqRange; 2] {
        self.hot.layout.private()
    }

    /// Our number for `intid`, if the hardware has it.
    pub fn irq(&self, intid: IntId) -> Option<Irq> {
        self.hot.layout.irq(intid)
    }

    /// Our number for the SGI of [`Config::ipi`]: whoever receives IPIs takes it.
    pub fn ipi_irq(&self) -> Option<Irq> {
        self.hot.layout.irq(self.hot.ipi?.intid())
    }

    /// The INTID behind our number.
    ///
    /// # Errors
    /// [`Error::NoSuchIrq`].
    ///
    /// # Context
    /// Any. Touches no hardware.
    pub fn intid(&self, irq: Irq) -> Result<IntId, Error> {
        self.hot.layout.intid(irq)
    }

    /// The distributor, for what this type does not wrap, and for code that shares it with us
    /// under its lock ([`Distributor::with`]).
    pub const fn distributor(&self) -> &Distributor<B> {
        &self.distributor
    }

    /// The redistributors.
    pub const fn redistributors(&self) -> &RedistributorMap<B> {
        &self.redistributors
    }

    /// What quirks of the distributor and of the machine change.
    pub fn effects(&self) -> Effects {
        self.hot.effects
    }

    /// How priorities written to the distributor relate to those of the CPU interface.
    pub const fn priority_view(&self) -> PriorityView {
        self.view
    }

    /// Whether priorities can be relied on for pseudo-NMIs on this machine.
    pub fn pseudo_nmi_possible(&self) -> bool {
        let odd = self.hot.effects.contains(Effects::SET_DS) && !self.group0;
        !self.hot.effects.contains(Effects::NO_PSEUDO_NMI) && !odd
    }

    fn online(&self, cpu: CpuIndex) -> bool {
        self.hot.targets.get(cpu).is_ok()
    }

    fn slot(&self, cpu: CpuIndex) -> Result<&Slot, Error> {
        self.slots.get(cpu).ok_or(Error::NoSuchCpu { cpu })
    }

    #[inline(always)]
    fn interface(&self) -> CpuInterface<&C> {
        CpuInterface::assume_on(&self.hot.icc, self.hot.setup.eoi_mode)
    }

    /// The affinity as the controller counts it.
    fn effective(&self, mpidr: Mpidr) -> Mpidr {
        effective(self.hot.effects, mpidr)
    }
}

fn effective(effects: Effects, mpidr: Mpidr) -> Mpidr {
    if effects.contains(Effects::SHIFTED_AFFINITY) {
        mpidr.shifted_down()
    } else {
        mpidr
    }
}

/// The view of priorities, and what the distributor takes for `priority` in it.
fn view_value(
    features: &distributor::Features,
    group0: bool,
    priority: Priority,
) -> Result<(PriorityView, u8), ProbeError> {
    let view = PriorityView::of(features.one_security_state, group0);
    let value = view.distributor_value(priority);
    let value = value.ok_or(ProbeError::Priority {
        priority: priority.get(),
    })?;
    Ok((view, value))
}

/// The bits that a priority keeps at a CPU interface with `bits` of them. Where the view is
/// shifted (not `whole`), one of them is the secure side's. The architecture has 16 levels at
/// least, whatever the register says.
fn kept_bits(bits: u32, whole: bool) -> u8 {
    let visible = bits.clamp(4, 8) - u32::from(!whole);
    !(0xff_u32 >> visible) as u8
}

const fn no_redistributor(mpidr: Mpidr) -> Error {
    Error::NoUnitForCpu {
        block: "GICR",
        id: mpidr.get(),
    }
}

fn possible_cpus(asked: Option<u32>, described: usize, units: usize) -> u32 {
    let found = if described != 0 { described } else { units };
    asked.unwrap_or(u32::try_from(found).unwrap_or(u32::MAX))
}
