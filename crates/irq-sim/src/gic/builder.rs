// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the machine before it is made.

use irq_hal::NodeId;

use super::GicModel;
use super::machine::{Affinity, Are, CpuSpec, Delay, Machine, Power, Quirks, Region, Security};
use crate::platform::SimPlatform;

/// A GIC to be made. [`GicModel::builder`] starts with a plain one: one security state, 224
/// SPIs, 5 priority bits, affinities as 16 CPUs per `Aff1`, one region of two-frame
/// redistributors, all asleep; every check on.
#[derive(Clone, Debug)]
pub struct GicBuilder {
    sim: SimPlatform,
    machine: Machine,
    regions_given: bool,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($field:ident: $t:ty);)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, $field: $t) -> Self {
            self.machine.$field = $field;
            self
        }
    )* };
}

impl GicBuilder {
    pub(super) fn new(sim: &SimPlatform) -> Self {
        let affinity = |cpu: u32| Affinity::new(0, 0, (cpu / 16) as u8, (cpu % 16) as u8);
        let machine = Machine {
            cpus: (0..sim.cpus()).map(|cpu| spec(affinity(cpu))).collect(),
            regions: Vec::new(),
            spis: 224,
            espis: 0,
            eppis: 0,
            security: Security::One,
            secure_sources: (8..16).collect(),
            ns_waker: false,
            arch: 3,
            gicd_iidr: 0x43b,
            gicr_iidr: 0x43b,
            priority_bits: 5,
            distributor_priority_bits: 5,
            id_bits: 16,
            a3v: true,
            no1n: false,
            gicd_rss: false,
            mbis: false,
            typer2: 0,
            are: Are::Fixed,
            dpgs: false,
            fixed_ppi_triggers: false,
            gicd_rwp: Delay::Polls(0),
            gicr_rwp: Delay::Polls(0),
            uwp: false,
            wake: Delay::Polls(1),
            awake: false,
            sleep_sticks: true,
            power: None,
            sre_on: false,
            sre_sticks: true,
            el2: false,
            left_over: false,
            strict: true,
            strict_priority: true,
            early_use: false,
            gicd_node: NodeId::FLAT,
            quirks: Quirks::default(),
        };
        Self {
            sim: sim.clone(),
            machine,
            regions_given: false,
        }
    }

    setters! {
        /// The number of SPIs: a multiple of 32, or 988.
        spis(spis: u32);
        /// The number of extended SPIs: 0, or a multiple of 32 up to 1024.
        espis(espis: u32);
        /// The number of extended PPIs: 0, 32 or 64.
        eppis(eppis: u32);
        /// One or two security states. With two, interrupts are Group 1 Non-secure at reset,
        /// but for [`secure_sources`](Self::secure_sources), and redistributors are awake.
        security(security: Security);
        /// With two security states: the interrupts that stay Secure (SGIs 8 to 15 at first).
        secure_sources(secure_sources: Vec<u32>);
        /// With two security states: the non-secure kernel may use `GICR_WAKER`.
        ns_waker(ns_waker: bool);
        /// The architecture's revision in `PIDR2`: 3 or 4; others are what a driver refuses.
        arch(arch: u8);
        /// `GICD_IIDR`.
        gicd_iidr(gicd_iidr: u32);
        /// `GICR_IIDR` of every redistributor.
        gicr_iidr(gicr_iidr: u32);
        /// Priority bits that distributor and redistributors keep: 4 to 8.
        distributor_priority_bits(distributor_priority_bits: u8);
        /// INTID bits of the distributor: 10 to 24.
        id_bits(id_bits: u8);
        /// Whether `Aff3` may be other than zero.
        a3v(a3v: bool);
        /// 1-of-N routing is not supported.
        no1n(no1n: bool);
        /// The distributor supports the range selector.
        gicd_rss(gicd_rss: bool);
        /// Messages raise SPIs (`GICD_SETSPI_NSR`).
        mbis(mbis: bool);
        /// `GICD_TYPER2`, for [`arch`](Self::arch) 4.
        typer2(typer2: u32);
        /// Affinity routing; fixed to one at first. With two security states this is the
        /// non-secure one.
        are(are: Are);
        /// `GICR_CTLR` has the `DPG` bits.
        dpgs(dpgs: bool);
        /// `GICR_ICFGR1` ignores writes.
        fixed_ppi_triggers(fixed_ppi_triggers: bool);
        /// How long `GICD_CTLR.RWP` stays one.
        gicd_rwp(gicd_rwp: Delay);
        /// How long `GICR_CTLR.RWP` (bit 3) stays one.
        gicr_rwp(gicr_rwp: Delay);
        /// `GICR_CTLR.UWP` (bit 31) reads this, whatever `RWP` says.
        uwp(uwp: bool);
        /// How long a redistributor takes to wake, or to go to sleep.
        wake(wake: Delay);
        /// Redistributors are awake at reset.
        awake(awake: bool);
        /// Whether `GICR_WAKER.ProcessorSleep` can be set.
        sleep_sticks(sleep_sticks: bool);
        /// `ICC_SRE_EL1.SRE` is one at reset.
        sre_on(sre_on: bool);
        /// Whether `ICC_SRE_EL1.SRE` can be set.
        sre_sticks(sre_sticks: bool);
        /// The CPUs run at EL2: `ICC_SRE_EL2` exists, and must be set before `ICC_SRE_EL1`.
        el2(el2: bool);
        /// Earlier software left interrupts enabled, pending, active and edge-triggered,
        /// priorities 0, active-priority bits, a large `BPR1` and `EOImode` 1.
        left_over(left_over: bool);
        /// Whether ones in reserved bits fail the test.
        strict(strict: bool);
        /// Whether a priority that changes while its interrupt is enabled fails the test.
        strict_priority(strict_priority: bool);
        /// Allows the SGI frame and SGIs before the redistributor woke, and one CPU to wake
        /// the redistributor of another.
        early_use(early_use: bool);
    }

    /// The affinity of each CPU, by CPU index; as many as the platform has CPUs.
    pub fn affinities(mut self, affinities: impl IntoIterator<Item = Affinity>) -> Self {
        self.machine.cpus = affinities.into_iter().map(spec).collect();
        self
    }

    /// The redistributor regions. Redistributors belong to CPUs by affinity; there may be
    /// some without a CPU, and CPUs without one.
    pub fn regions(mut self, regions: impl IntoIterator<Item = Region>) -> Self {
        self.machine.regions = regions.into_iter().collect();
        self.regions_given = true;
        self
    }

    /// Priority bits of CPU interfaces and distributor: 4 to 8.
    pub fn priority_bits(mut self, bits: u8) -> Self {
        self.machine.priority_bits = bits;
        self.machine.distributor_priority_bits = bits;
        self
    }

    /// The range selector works: in the distributor and in every CPU interface.
    pub fn rss(mut self, rss: bool) -> Self {
        self.machine.gicd_rss = rss;
        self.machine.cpus.iter_mut().for_each(|cpu| cpu.rss = rss);
        self
    }

    /// `ICC_CTLR_EL1.RSS` of one CPU.
    pub fn cpu_rss(mut self, cpu: u32, rss: bool) -> Self {
        self.machine.cpus[cpu as usize].rss = rss;
        self
    }

    /// `ICC_CTLR_EL1.A3V` of one CPU; as [`a3v`](Self::a3v) at first.
    pub fn cpu_a3v(mut self, cpu: u32, a3v: bool) -> Self {
        self.machine.cpus[cpu as usize].a3v = a3v;
        self
    }

    /// `ICC_CTLR_EL1.ExtRange` of one CPU; one at first.
    pub fn cpu_ext_range(mut self, cpu: u32, ext_range: bool) -> Self {
        self.machine.cpus[cpu as usize].ext_range = ext_range;
        self
    }

    /// Redistributors are off and have `GICR_PWRR`.
    pub fn power(mut self, settle: Delay, up: Delay) -> Self {
        self.machine.power = Some(Power { settle, up });
        self
    }

    /// The node of the distributor.
    pub fn gicd_node(mut self, node: u32) -> Self {
        self.machine.gicd_node = NodeId::new(node);
        self
    }

    /// Distributor and redistributors say `iidr`.
    pub fn iidr(self, iidr: u32) -> Self {
        self.gicd_iidr(iidr).gicr_iidr(iidr)
    }

    /// Arm GIC-600: redistributors must be powered on.
    pub fn gic600(self) -> Self {
        self.iidr(0x0200_043b)
            .power(Delay::Polls(2), Delay::Polls(2))
    }

    /// Arm GIC-600AE.
    pub fn gic600ae(self) -> Self {
        self.iidr(0x0300_043b)
            .power(Delay::Polls(2), Delay::Polls(2))
    }

    /// Arm GIC-700 with erratum 2941627: an SPI deactivated by another CPU than its target
    /// stays active; `GICD_ICACTIVER` works.
    pub fn gic700(mut self) -> Self {
        self.machine.quirks.lost_deactivation = true;
        self.arch(4)
            .iidr(0x0400_043b)
            .power(Delay::Polls(2), Delay::Polls(2))
    }

    /// Cavium 38539: reading `GICD_TYPER2` is a synchronous abort, here a panic.
    pub fn cavium_38539(mut self) -> Self {
        self.machine.quirks.typer2_aborts = true;
        self.gicd_iidr(0xa000_034c)
    }

    /// Cavium 23154: with nothing to acknowledge `ICC_IAR1_EL1` may return the number of the
    /// last interrupt again, and `ICC_AP1R0_EL1` does not change.
    pub fn cavium_23154(mut self) -> Self {
        self.machine.quirks.stale_iar = true;
        self
    }

    /// Hisilicon HIP06: `GICD_TYPER` claims extended SPIs; there are none.
    pub fn hip06(mut self) -> Self {
        self.machine.quirks.bogus_espi = true;
        self.gicd_iidr(0x0204_043b)
    }

    /// Hisilicon HIP07: as [`hip06`](Self::hip06), with another identity.
    pub fn hip07(mut self) -> Self {
        self.machine.quirks.bogus_espi = true;
        self.gicd_iidr(0)
    }

    /// MSM8996 firmware: an access to `GICR_WAKER` hangs the CPU, here a panic.
    pub fn msm8996(mut self) -> Self {
        self.machine.quirks.waker_hangs = true;
        self.awake(true)
    }

    /// RK3399: the firmware leaves `DS` clear, and the bus makes every access a Secure one.
    pub fn rk3399(mut self) -> Self {
        self.machine.quirks.insecure = true;
        self.security(Security::Two { fiq: true })
    }

    /// MediaTek firmware: a redistributor that sleeps forgets its priorities.
    pub fn mediatek(mut self) -> Self {
        self.machine.quirks.forgets_private_priorities = true;
        self
    }

    /// ASR8601: the CPUs' affinity fields are shifted up by one level.
    pub fn asr8601(mut self) -> Self {
        for cpu in &mut self.machine.cpus {
            cpu.mpidr = Affinity(cpu.affinity.0 << 8).mpidr();
        }
        self
    }

    /// Cortex-R52: `GICR_TYPER` carries `Aff0` only.
    pub fn cortex_r52(mut self) -> Self {
        self.fill_regions();
        for rd in self
            .machine
            .regions
            .iter_mut()
            .flat_map(|region| &mut region.rds)
        {
            rd.shown = Some(rd.affinity.0 & 0xff);
        }
        self
    }

    /// What QEMU 10.0.2 `virt` with `gic-version=3` shows.
    pub fn qemu_virt(self) -> Self {
        self.no1n(true)
            .iidr(0x43b)
            .priority_bits(5)
            .distributor_priority_bits(8)
    }

    fn fill_regions(&mut self) {
        if !self.regions_given {
            let affinities = self.machine.cpus.iter().map(|cpu| cpu.affinity);
            self.machine.regions = vec![Region::new().rds(affinities)];
            self.regions_given = true;
        }
    }

    /// The machine.
    ///
    /// # Panics
    /// If the description contradicts itself.
    pub fn build(mut self) -> GicModel {
        self.fill_regions();
        let m = &mut self.machine;
        assert!(
            m.spis.is_multiple_of(32) && m.spis <= 960 || m.spis == 988,
            "{} SPIs",
            m.spis
        );
        assert!(
            m.espis.is_multiple_of(32) && m.espis <= 1024,
            "{} extended SPIs",
            m.espis
        );
        assert!([0, 32, 64].contains(&m.eppis), "{} extended PPIs", m.eppis);
        assert!(
            (4..=8).contains(&m.priority_bits),
            "{} priority bits",
            m.priority_bits
        );
        assert_eq!(
            m.cpus.len(),
            self.sim.cpus() as usize,
            "one affinity for each CPU"
        );
        if m.security != Security::One {
            m.awake = true;
        }
        GicModel::new(&self.sim, self.machine)
    }
}

fn spec(affinity: Affinity) -> CpuSpec {
    CpuSpec {
        affinity,
        mpidr: affinity.mpidr(),
        rss: false,
        a3v: true,
        ext_range: true,
    }
}
