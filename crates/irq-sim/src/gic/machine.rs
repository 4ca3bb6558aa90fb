// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a modelled machine consists of: affinities, regions, delays, the description.

use irq_hal::NodeId;

/// A CPU's affinity as `Aff3.Aff2.Aff1.Aff0`, one byte each, `Aff0` lowest: the layout of
/// `GICR_TYPER[63:32]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Affinity(pub u32);

impl Affinity {
    /// The affinity with these levels.
    pub const fn new(aff3: u8, aff2: u8, aff1: u8, aff0: u8) -> Self {
        Self(u32::from_be_bytes([aff3, aff2, aff1, aff0]))
    }

    /// `MPIDR_EL1` as a CPU reads it: `Aff3` at 39:32, and bit 31, which always reads one.
    pub const fn mpidr(self) -> u64 {
        self.route() | 1 << 31
    }

    /// The layout of `GICD_IROUTER`.
    pub const fn route(self) -> u64 {
        ((self.0 >> 24) as u64) << 32 | (self.0 & 0x00ff_ffff) as u64
    }

    /// From the layout of `GICD_IROUTER`.
    pub const fn from_route(route: u64) -> Self {
        Self(((route >> 32 & 0xff) as u32) << 24 | (route & 0x00ff_ffff) as u32)
    }
}

/// How long the hardware takes for something, counted in reads of the register that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delay {
    /// Done when it has been read this often before: `Polls(0)` shows it at the first read.
    Polls(u32),
    /// It never happens.
    Never,
}

/// A thing under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Countdown {
    left: Option<Delay>,
}

impl Countdown {
    pub const IDLE: Self = Self { left: None };

    pub fn start(delay: Delay) -> Self {
        Self { left: Some(delay) }
    }

    pub fn running(&self) -> bool {
        self.left.is_some()
    }

    /// One read of the register; true in the read that shows the end.
    pub fn poll(&mut self) -> bool {
        match &mut self.left {
            Some(Delay::Polls(0)) => {
                self.left = None;
                true
            }
            Some(Delay::Polls(left)) => {
                *left -= 1;
                false
            }
            Some(Delay::Never) | None => false,
        }
    }
}

/// Which redistributors of a region have `GICR_TYPER.Last` set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Last {
    End,
    Each,
    Nowhere,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rd {
    pub affinity: Affinity,
    /// What `GICR_TYPER` says, where that is not the affinity.
    pub shown: Option<u32>,
    pub vlpis: bool,
    /// Its extended PPIs, where they are not as many as the machine's.
    pub eppis: Option<u32>,
}

/// One redistributor region: a row of redistributors.
#[derive(Clone, Debug)]
pub struct Region {
    pub(super) rds: Vec<Rd>,
    pub(super) stride: Option<usize>,
    pub(super) last: Last,
    pub(super) tail: usize,
}

impl Default for Region {
    fn default() -> Self {
        Self::new()
    }
}

impl Region {
    /// An empty region whose last redistributor will say so.
    pub fn new() -> Self {
        Self {
            rds: Vec::new(),
            stride: None,
            last: Last::End,
            tail: 0,
        }
    }

    /// Adds a redistributor of two frames.
    pub fn rd(mut self, affinity: Affinity) -> Self {
        self.rds.push(Rd {
            affinity,
            shown: None,
            vlpis: false,
            eppis: None,
        });
        self
    }

    /// Adds a redistributor of four frames (`VLPIS=1`).
    pub fn vlpi_rd(mut self, affinity: Affinity) -> Self {
        self.rds.push(Rd {
            affinity,
            shown: None,
            vlpis: true,
            eppis: None,
        });
        self
    }

    /// Adds a redistributor of two frames for each affinity.
    pub fn rds(self, affinities: impl IntoIterator<Item = Affinity>) -> Self {
        affinities.into_iter().fold(self, Self::rd)
    }

    /// Adds a redistributor of two frames with so many extended PPIs: 0, 32 or 64.
    pub fn rd_with_eppis(self, affinity: Affinity, eppis: u32) -> Self {
        let mut region = self.rd(affinity);
        region.rds.iter_mut().last().expect("just added").eppis = Some(eppis);
        region
    }

    /// Redistributors begin every `bytes`, as the firmware says; the rest of each is a hole.
    pub fn stride(mut self, bytes: usize) -> Self {
        self.stride = Some(bytes);
        self
    }

    /// Every redistributor has `Last` set: each is a view of its own.
    pub fn every_rd_is_last(mut self) -> Self {
        self.last = Last::Each;
        self
    }

    /// No redistributor has `Last` set: only the region's length ends the walk.
    pub fn no_rd_is_last(mut self) -> Self {
        self.last = Last::Nowhere;
        self
    }

    /// Appends `bytes` in which there is nothing.
    pub fn tail(mut self, bytes: usize) -> Self {
        self.tail = bytes;
        self
    }

    /// Where each redistributor begins, and the length of the region.
    pub(super) fn layout(&self) -> (Vec<usize>, usize) {
        let mut at = 0;
        let mut starts = Vec::new();
        for rd in &self.rds {
            starts.push(at);
            let frames = if rd.vlpis { 0x4_0000 } else { 0x2_0000 };
            let step = self.stride.unwrap_or(frames);
            assert!(
                step >= frames,
                "a stride of {step:#x} for {frames:#x} bytes of frames"
            );
            at += step;
        }
        (starts, at + self.tail)
    }
}

/// One CPU of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuSpec {
    pub affinity: Affinity,
    pub mpidr: u64,
    pub rss: bool,
    pub a3v: bool,
    pub ext_range: bool,
}

/// Affinity routing at reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Are {
    /// One always: `ARE` ignores writes.
    Fixed,
    /// Off, and can be set, once.
    Off,
    /// Earlier software set it; writing zero over it is UNPREDICTABLE.
    On,
}

/// Security states of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// One: `GICD_CTLR.DS` reads one always.
    One,
    /// Two, the kernel is Non-secure. `fiq` is `SCR_EL3.FIQ`: whether Group 0 is hidden from
    /// it, and PMR and RPR are shifted for it.
    Two {
        /// `SCR_EL3.FIQ`.
        fiq: bool,
    },
}

/// Misbehaviour of identities, beyond what a register value says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quirks {
    pub typer2_aborts: bool,
    pub bogus_espi: bool,
    pub lost_deactivation: bool,
    pub stale_iar: bool,
    pub waker_hangs: bool,
    pub insecure: bool,
    pub forgets_private_priorities: bool,
}

/// The whole description, as the builder leaves it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub cpus: Vec<CpuSpec>,
    pub regions: Vec<Region>,
    pub spis: u32,
    pub espis: u32,
    pub eppis: u32,
    pub security: Security,
    pub secure_sources: Vec<u32>,
    pub ns_waker: bool,
    pub arch: u8,
    pub gicd_iidr: u32,
    pub gicr_iidr: u32,
    pub priority_bits: u8,
    pub distributor_priority_bits: u8,
    pub id_bits: u8,
    pub a3v: bool,
    pub no1n: bool,
    pub gicd_rss: bool,
    pub mbis: bool,
    pub typer2: u32,
    pub are: Are,
    pub dpgs: bool,
    pub fixed_ppi_triggers: bool,
    pub gicd_rwp: Delay,
    pub gicr_rwp: Delay,
    pub uwp: bool,
    pub wake: Delay,
    pub awake: bool,
    pub sleep_sticks: bool,
    pub power: Option<Power>,
    pub sre_on: bool,
    pub sre_sticks: bool,
    pub el2: bool,
    pub left_over: bool,
    pub strict: bool,
    pub strict_priority: bool,
    pub early_use: bool,
    pub gicd_node: NodeId,
    pub quirks: Quirks,
}

/// How redistributors are powered: GIC-600 and later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Power {
    /// How long the group is still powering down at first (`RDGPD != RDGPO`).
    pub settle: Delay,
    /// How long a power-up takes.
    pub up: Delay,
}
