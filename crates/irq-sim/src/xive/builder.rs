// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the machine before it is made.

use std::collections::BTreeSet;

use super::XiveModel;
use super::machine::{Gen, Machine, SourceSpec, ThreadSpec};
use crate::platform::SimPlatform;

/// A XIVE to be made. [`XiveModel::builder`] starts with generation 1, one chip, the
/// platform's CPUs spread over the chips, 256 IPI sources per chip; every check on.
#[derive(Clone, Debug)]
pub struct XiveBuilder {
    sim: SimPlatform,
    machine: Machine,
    lsis: Vec<usize>,
    msis: Vec<usize>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $t:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, $name: $t) -> Self {
            self.machine.$name = $name;
            self
        }
    )* };
}

impl XiveBuilder {
    pub(super) fn new(sim: &SimPlatform) -> Self {
        let machine = Machine {
            generation: Gen::One,
            chips: 1,
            chip_ids: Vec::new(),
            threads: Vec::new(),
            ipis: 256,
            extra: Vec::new(),
            provision: 0,
            overflow_check: true,
            sticky_nsr: false,
            pipr_recomputed: false,
            silicon_lsi: false,
            minus_one_when_exhausted: false,
        };
        Self {
            sim: sim.clone(),
            machine,
            lsis: Vec::new(),
            msis: Vec::new(),
        }
    }

    setters! {
        /// The generation.
        generation: Gen;
        /// The number of chips.
        chips: usize;
        /// IPI sources of each chip that `ALLOCATE_IRQ` has.
        ipis: u32;
        /// Pages per chip that firmware wants donated before it makes a block of virtual
        /// processors.
        provision: u32;
        /// Whether an entry that software has not read for certain may not be written over,
        /// and no more sources may be led to a queue than it has entries. On at first.
        overflow_check: bool;
        /// A closed CPPR does not take a raised exception back: its acknowledge may then
        /// return a level that is not above the processor's, as QEMU may.
        sticky_nsr: bool;
        /// `PIPR` follows an acknowledge at once, instead of keeping the old value until the
        /// next event or CPPR store.
        pipr_recomputed: bool;
        /// PQ=01 does not keep a level from being forwarded, as with those of some host
        /// bridges.
        silicon_lsi: bool;
        /// `ALLOCATE_IRQ` with none left answers 0xffffffff, as old firmware, not RESOURCE.
        minus_one_when_exhausted: bool;
    }

    /// The PIR of each CPU and the number of its chip, by CPU index.
    pub fn threads(mut self, threads: impl IntoIterator<Item = (u32, usize)>) -> Self {
        let threads = threads.into_iter();
        self.machine.threads = threads
            .map(|(pir, chip)| ThreadSpec { pir, chip })
            .collect();
        self
    }

    /// The id of each chip, as firmware names it; its number at first.
    pub fn chip_ids(mut self, ids: &[u32]) -> Self {
        self.machine.chip_ids = ids.to_vec();
        self
    }

    /// Adds a level of the PSI bridge of chip number `chip`.
    pub fn lsi(mut self, chip: usize) -> Self {
        self.lsis.push(chip);
        self
    }

    /// Adds a message source of a host bridge of chip number `chip`.
    pub fn msi(mut self, chip: usize) -> Self {
        self.msis.push(chip);
        self
    }

    /// Adds a source of any kind.
    pub fn source(mut self, spec: SourceSpec) -> Self {
        self.machine.extra.push(spec);
        self
    }

    /// Eight threads a core at most, PIRs as firmware makes them: never equal to CPU indices.
    fn fill(&mut self) {
        let (cpus, chips) = (self.sim.cpus() as usize, self.machine.chips);
        if self.machine.chip_ids.is_empty() {
            self.machine.chip_ids = (0..chips as u32).collect();
        }
        if self.machine.threads.is_empty() {
            let per_chip = cpus.div_ceil(chips);
            let step = if per_chip <= 31 { 4 } else { 1 };
            let thread = |cpu: usize| {
                let (chip, local) = (cpu / per_chip, cpu % per_chip);
                let pir = (chip << 8) | ((local + 1) * step);
                ThreadSpec {
                    pir: pir as u32,
                    chip,
                }
            };
            self.machine.threads = (0..cpus).map(thread).collect();
        }
    }

    /// The machine.
    ///
    /// # Panics
    /// If the description contradicts itself, or devices do not snoop the caches.
    pub fn build(mut self) -> XiveModel {
        self.fill();
        let m = &self.machine;
        assert!(self.sim.memory().coherent(), "XIVE snoops the caches");
        assert!((1..=16).contains(&m.chips), "{} chips", m.chips);
        assert_eq!(m.chip_ids.len(), m.chips, "one id for each chip");
        assert_eq!(
            m.threads.len(),
            self.sim.cpus() as usize,
            "one thread for each CPU"
        );
        let pirs: BTreeSet<_> = m.threads.iter().map(|one| one.pir).collect();
        assert_eq!(pirs.len(), m.threads.len(), "PIRs differ");
        let cams: BTreeSet<_> = m.threads.iter().map(|one| m.hard_cam(one)).collect();
        assert_eq!(
            cams.len(),
            m.threads.len(),
            "the low PIR bits of a chip differ"
        );
        let chips = m.threads.iter().map(|one| one.chip);
        let chips = chips.chain(self.lsis.iter().chain(&self.msis).copied());
        let chips = chips.chain(m.extra.iter().map(|one| one.chip));
        assert!(chips.into_iter().all(|chip| chip < m.chips), "no such chip");
        XiveModel::new(&self.sim, self.machine, &self.lsis, &self.msis)
    }
}
