// SPDX-License-Identifier: MIT OR Apache-2.0
//! What single implementations get wrong, as data.
//!
//! An entry names a block, a value and a mask for its identification register, sometimes what
//! the machine must be, and its effects. The embedder can add entries and veto ours by name.
//! This table covers distributor, redistributors and CPU interface.

use bitflags::bitflags;
use irq_hal::irq_warn;

bitflags! {
    /// What a quirk changes in the driver.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Effects: u32 {
        /// Reading `GICD_TYPER2` aborts: it is not read.
        const NO_TYPER2 = 1 << 0;
        /// `ICC_IAR1_EL1` may hand out a stale INTID: an acknowledge that leaves `ICC_AP1R0_EL1`
        /// as it was is spurious.
        const STALE_IAR = 1 << 1;
        /// `GICD_TYPER.ESPI` and `.NMI` are bogus if `ESPI` reads 1.
        const NO_ESPI = 1 << 2;
        /// The redistributor has a `GICR_PWRR` and may be powered down.
        const POWER = 1 << 3;
        /// Deactivation of an SPI from a CPU that it is not routed to can be lost.
        const LOST_DEACTIVATION = 1 << 4;
        /// Reads of SPI state are wrong across chips; each chip's own alias of the distributor
        /// is right.
        const STATE_ALIASED = 1 << 5;
        /// Firmware left `GICD_CTLR.DS` clear and writable: it is set first. No pseudo-NMI
        /// there unless Group 0 is ours.
        const SET_DS = 1 << 6;
        /// Touching `GICR_WAKER` hangs: it is left alone.
        const NO_WAKER = 1 << 7;
        /// Priorities cannot be relied on: no pseudo-NMI.
        const NO_PSEUDO_NMI = 1 << 8;
        /// Affinity fields are one level too high: Aff1 stands for Aff0, Aff2 for Aff1.
        const SHIFTED_AFFINITY = 1 << 9;
        /// `GICR_TYPER` carries Aff0 only: redistributors are matched by it.
        const AFF0_ONLY = 1 << 10;
        /// Direct injection (GICv4) must stay off.
        const NO_V4 = 1 << 11;
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Effects {
    fn format(&self, fmt: defmt::Formatter<'_>) {
        defmt::write!(fmt, "{=u32:#x}", self.bits());
    }
}

/// The register that identifies an implementation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block {
    /// `GICD_IIDR`.
    Distributor,
    /// `GICR_IIDR`.
    Redistributor,
    /// `MIDR_EL1` of the CPUs, as the embedder says it.
    Cpu,
    /// No register: the machine alone decides.
    Machine,
}

/// What must be true of the machine besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Nothing more.
    Always,
    /// One of the devicetree's `compatible` strings, of the root or the controller's node.
    Compatible(&'static str),
    /// A property of the controller's devicetree node.
    Property(&'static str),
    /// The SoC id (SMCCC `ARCH_SOC_ID`), on a machine of at least so many chips; one that does
    /// not say how many counts as large enough.
    Soc {
        /// The id.
        id: u32,
        /// The least number of chips.
        chips: u32,
    },
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quirk {
    /// Its name, for the log and for a veto.
    pub name: &'static str,
    /// Which register identifies it.
    pub block: Block,
    /// The register's value.
    pub value: u32,
    /// The bits of the value that count.
    pub mask: u32,
    /// What else must be true.
    pub when: When,
    /// What it changes.
    pub effects: Effects,
}

/// What the embedder knows about the machine, for the predicates.
#[derive(Clone, Copy, Default, Debug)]
pub struct Machine<'a> {
    /// `compatible` strings of the devicetree's root and of the controller's node.
    pub compatible: &'a [&'a str],
    /// Names of the properties of the controller's node.
    pub properties: &'a [&'a str],
    /// The SoC id, if firmware tells.
    pub soc_id: Option<u32>,
    /// How many chips carry the controller, if the embedder knows. Say it on an NVIDIA T241 of
    /// one or two: unless told, the driver takes it for a larger one, and does not read the
    /// state of SPIs there without [aliases](crate::Description::state_aliases).
    pub chips: Option<u32>,
    /// `MIDR_EL1` of the CPUs.
    pub midr: Option<u32>,
}

const fn quirk(
    name: &'static str,
    block: Block,
    (value, mask): (u32, u32),
    when: When,
    effects: Effects,
) -> Quirk {
    Quirk {
        name,
        block,
        value,
        mask,
        when,
        effects,
    }
}

/// MIDR: implementer and part count, variant and revision do not.
const PART: u32 = 0xff00_fff0;
/// IIDR of Arm's redistributors with power control: product and implementer count.
const PRODUCT: u32 = 0xff00_0fff;

const fn cavium(name: &'static str, part: u32) -> Quirk {
    quirk(
        name,
        Block::Cpu,
        (0x4300_0000 | part << 4, PART),
        When::Always,
        Effects::STALE_IAR,
    )
}

const fn machine(name: &'static str, when: When, effects: Effects) -> Quirk {
    quirk(name, Block::Machine, (0, 0), when, effects)
}

/// The entries that this driver brings, each with the source that it is known from.
pub const TABLE: &[Quirk] = &[
    // Vendor erratum 38539 (ThunderX): a read of the reserved `GICD_TYPER2` aborts.
    quirk(
        "Cavium 38539",
        Block::Distributor,
        (0xa000_034c, 0xe8f0_0fff),
        When::Always,
        Effects::NO_TYPER2,
    ),
    // Vendor errata 23154 (ThunderX) and 38545 (OcteonTX, OcteonTX2): stale acknowledges.
    cavium("Cavium 23154 ThunderX", 0xa1),
    cavium("Cavium 23154 ThunderX 81xx", 0xa2),
    cavium("Cavium 23154 ThunderX 83xx", 0xa3),
    cavium("Cavium 38545 OcteonTX2 98xx", 0xb1),
    cavium("Cavium 38545 OcteonTX2 96xx", 0xb2),
    cavium("Cavium 38545 OcteonTX2 95xx", 0xb3),
    cavium("Cavium 38545 OcteonTX2 95xxN", 0xb4),
    cavium("Cavium 38545 OcteonTX2 95xxMM", 0xb5),
    cavium("Cavium 38545 OcteonTX2 95xxO", 0xb6),
    // Vendor erratum 161010803. HIP06 shares its IIDR with a genuine GIC-600, which has no
    // extended SPIs: nothing is lost there.
    quirk(
        "Hisilicon 161010803 HIP06",
        Block::Distributor,
        (0x0204_043b, 0xffff_ffff),
        When::Always,
        Effects::NO_ESPI,
    ),
    // The same erratum; the IIDR of HIP07 reads 0.
    quirk(
        "Hisilicon 161010803 HIP07",
        Block::Distributor,
        (0, 0xffff_ffff),
        When::Always,
        Effects::NO_ESPI,
    ),
    // GIC-600 TRM, "GICR_PWRR".
    quirk(
        "GIC-600 power",
        Block::Redistributor,
        (0x0200_043b, PRODUCT),
        When::Always,
        Effects::POWER,
    ),
    // GIC-600AE TRM, "GICR_PWRR".
    quirk(
        "GIC-600AE power",
        Block::Redistributor,
        (0x0300_043b, PRODUCT),
        When::Always,
        Effects::POWER,
    ),
    // GIC-700 TRM, "GICR_PWRR"; the GIC-720AE is like it.
    quirk(
        "GIC-700 power",
        Block::Redistributor,
        (0x0400_043b, PRODUCT),
        When::Always,
        Effects::POWER,
    ),
    // Arm GIC-700 software developers errata notice, 2941627: r0 and r1.
    quirk(
        "Arm 2941627 r0",
        Block::Distributor,
        (0x0400_043b, 0xff0e_0fff),
        When::Always,
        Effects::LOST_DEACTIVATION,
    ),
    // The same erratum: r2.
    quirk(
        "Arm 2941627 r2",
        Block::Distributor,
        (0x0402_043b, 0xff0f_0fff),
        When::Always,
        Effects::LOST_DEACTIVATION,
    ),
    // Vendor erratum T241-FABRIC-4, on machines of three chips and more.
    quirk(
        "NVIDIA T241-FABRIC-4",
        Block::Distributor,
        (0x0402_043b, 0xffff_ffff),
        When::Soc {
            id: 0x036b_0241,
            chips: 3,
        },
        Effects::STATE_ALIASED.union(Effects::NO_V4),
    ),
    // No erratum number: what the firmware of these machines leaves behind.
    machine(
        "RK3399 firmware",
        When::Compatible("rockchip,rk3399"),
        Effects::SET_DS,
    ),
    // Devicetree binding, `qcom,msm8996-gic-v3`.
    machine(
        "MSM8996 firmware",
        When::Compatible("qcom,msm8996-gic-v3"),
        Effects::NO_WAKER,
    ),
    // Devicetree binding, `mediatek,broken-save-restore-fw`.
    machine(
        "MediaTek firmware",
        When::Property("mediatek,broken-save-restore-fw"),
        Effects::NO_PSEUDO_NMI,
    ),
    // Vendor erratum 8601001; devicetree binding `asr,asr8601-gic-v3`.
    machine(
        "ASR8601 8601001",
        When::Compatible("asr,asr8601-gic-v3"),
        Effects::SHIFTED_AFFINITY,
    ),
    // Seen in public drivers for the part; one source only.
    quirk(
        "Cortex-R52 affinity",
        Block::Cpu,
        (0x4100_d130, PART),
        When::Always,
        Effects::AFF0_ONLY,
    ),
];

/// The entries in force for one machine: ours and the embedder's, less what is vetoed.
#[derive(Clone, Copy, Debug)]
pub struct Quirks<'a> {
    /// What the machine is.
    pub machine: Machine<'a>,
    /// Entries that come on top of [`TABLE`].
    pub extra: &'a [Quirk],
    /// Names of entries that do not count.
    pub veto: &'a [&'a str],
}

impl Default for Quirks<'_> {
    fn default() -> Self {
        Self {
            machine: Machine {
                compatible: &[],
                properties: &[],
                soc_id: None,
                chips: None,
                midr: None,
            },
            extra: &[],
            veto: &[],
        }
    }
}

impl Quirks<'_> {
    /// The entries that fire for `block` whose identification register reads `id`.
    pub fn firing(&self, block: Block, id: u32) -> impl Iterator<Item = &Quirk> {
        TABLE.iter().chain(self.extra).filter(move |quirk| {
            quirk.block == block
                && id & quirk.mask == quirk.value & quirk.mask
                && self.holds(quirk.when)
                && !self.veto.contains(&quirk.name)
        })
    }

    /// The effects of all entries that fire for `block`, each of which is logged.
    pub fn effects(&self, block: Block, id: u32) -> Effects {
        self.firing(block, id)
            .fold(Effects::empty(), |effects, quirk| {
                irq_warn!("gicv3: quirk {}, id {:#x}", quirk.name, id);
                effects | quirk.effects
            })
    }

    /// The effects that hold whatever the controller's registers say: of the machine, and of
    /// its CPUs.
    pub fn machine_effects(&self) -> Effects {
        let cpus = self.machine.midr.map(|midr| self.effects(Block::Cpu, midr));
        self.effects(Block::Machine, 0) | cpus.unwrap_or_default()
    }

    fn holds(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::Compatible(name) => self.machine.compatible.contains(&name),
            When::Property(name) => self.machine.properties.contains(&name),
            When::Soc { id, chips } => {
                self.machine.soc_id == Some(id) && self.machine.chips.is_none_or(|has| has >= chips)
            }
        }
    }
}

#[cfg(test)]
mod tests;
