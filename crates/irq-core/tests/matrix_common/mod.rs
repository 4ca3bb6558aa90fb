// SPDX-License-Identifier: MIT OR Apache-2.0
//! A matrix that is checked after each step, and must be as before after each that fails.
#![allow(dead_code, reason = "each test binary uses its part")]

use core::alloc::Layout;
use core::ops::Range;

use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::matrix::{Matrix, Policy, Setup, Slot, Wanted};
use irq_core::placement::Among;
use irq_core::topology::Place;
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{Error, Mmio, PhysAddr, Platform};

/// What a CPU has at first: 20H to EBH without 80H.
pub const ALL: u32 = 203;

/// Each thread is a CPU, and its locks must be taken in the order of their ranks.
pub struct Threads;

thread_local! {
    // Leaked: a record outlives what a platform behind a reference promises.
    static RANKS: &'static HeldRanks = Box::leak(Box::new(HeldRanks::new()));
}

// SAFETY: no memory and no window is given out, and threads take no interrupts. No test asks
// which CPU it runs on.
unsafe impl Platform for Threads {
    fn dma_alloc(&self, layout: Layout, node: NodeId, _: DmaLimits) -> Result<DmaRegion, Error> {
        Err(Error::OutOfMemory {
            bytes: layout.size(),
            node,
        })
    }

    fn dma_publish(&self, _: &DmaRegion, _: Range<usize>) {}

    fn dma_observe(&self, _: &DmaRegion, _: Range<usize>) {}

    fn map_device(&self, _: PhysAddr, _: usize) -> Result<Mmio, Error> {
        Err(Error::Unsupported { feature: "mapping" })
    }

    fn now(&self) -> Ticks {
        Ticks(0)
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        Ticks(u64::from(micros))
    }

    fn relax(&self) {
        std::thread::yield_now();
    }

    fn this_cpu(&self) -> CpuIndex {
        CpuIndex::new(0)
    }

    fn irq_save(&self) -> IrqState {
        IrqState(0)
    }

    unsafe fn irq_restore(&self, _: IrqState) {}

    fn held_ranks(&self) -> Option<&HeldRanks> {
        Some(RANKS.with(|ranks| *ranks))
    }
}

pub static PLATFORM: Threads = Threads;

pub fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

pub fn irq(number: u32) -> Irq {
    Irq::new(number)
}

pub fn mask(cpus: &[u32]) -> CpuMask {
    let highest = cpus.iter().max().map_or(0, |highest| *highest);
    let mut mask = CpuMask::try_new(highest + 1).unwrap();
    for index in cpus {
        mask.insert(cpu(*index)).unwrap();
    }
    mask
}

/// A set that does not give its words in a row, as live ones do not.
pub struct Live<'a>(pub &'a CpuMask);

impl CpuSet for Live<'_> {
    fn contains(&self, cpu: CpuIndex) -> bool {
        self.0.contains(cpu)
    }

    fn each_word(&self, f: &mut dyn FnMut(CpuIndex, u64)) {
        self.0.each_word(f);
    }
}

pub fn wanted(number: u32, among: &dyn CpuSet) -> Wanted<'_> {
    Wanted {
        irq: irq(number),
        among: Among::Mask(among),
        near: None,
    }
}

/// Two threads a core, 8 CPUs a node.
pub fn place(index: u32) -> Place {
    Place {
        core: index / 2,
        l2: index / 2,
        group: 0,
        package: index / 8,
        node: NodeId::new(index / 8),
    }
}

/// Available, managed, managed allocated, allocated.
pub type Account = [u32; 4];

pub struct Rig {
    pub matrix: Matrix,
}

impl Rig {
    /// All of `cpus` CPUs online.
    pub fn new(cpus: u32) -> Self {
        Self::with(&Setup::new(cpus))
    }

    pub fn compatible(cpus: u32) -> Self {
        Self::with(&Setup {
            policy: Policy::Compatible,
            ..Setup::new(cpus)
        })
    }

    pub fn with(setup: &Setup<'_>) -> Self {
        let rig = Self::offline_with(setup);
        for index in 0..setup.cpus {
            let online = rig.matrix.online(&PLATFORM, cpu(index), place(index));
            online.unwrap();
        }
        rig.check();
        rig
    }

    pub fn offline_with(setup: &Setup<'_>) -> Self {
        let nodes = setup.cpus.div_ceil(8).max(setup.nodes);
        let matrix = Matrix::new(&Setup { nodes, ..*setup }).unwrap();
        let rig = Self { matrix };
        rig.check();
        rig
    }

    pub fn check(&self) {
        if let Err(violation) = self.matrix.check(&PLATFORM) {
            panic!("{violation}\n{}", self.matrix.snapshot(&PLATFORM));
        }
    }

    /// All that can be seen from outside.
    pub fn text(&self) -> String {
        let snapshot = self.matrix.snapshot(&PLATFORM);
        let mut text = snapshot.to_string();
        snapshot.write_json(&mut text).unwrap();
        let (available, allocated) = (self.matrix.available(), self.matrix.allocated(&PLATFORM));
        text + &format!(" {available} {allocated}")
    }

    /// A step, after which all accounts must be right, and, if it failed, as before.
    pub fn step<R>(&self, f: impl FnOnce(&Matrix) -> Result<R, Error>) -> Result<R, Error> {
        let before = self.text();
        let result = f(&self.matrix);
        self.check();
        if result.is_err() {
            assert_eq!(before, self.text());
        }
        result
    }

    pub fn online(&self, index: u32) -> Result<(), Error> {
        self.step(|matrix| matrix.online(&PLATFORM, cpu(index), place(index)))
    }

    pub fn offline(&self, index: u32) {
        self.step(|matrix| matrix.offline(&PLATFORM, cpu(index)))
            .unwrap();
    }

    pub fn reserve_managed(&self, cpus: &[u32]) -> Result<(), Error> {
        self.step(|matrix| matrix.reserve_managed(&PLATFORM, &mask(cpus)))
    }

    pub fn remove_managed(&self, cpus: &[u32]) -> Result<(), Error> {
        self.step(|matrix| matrix.remove_managed(&PLATFORM, &mask(cpus)))
    }

    pub fn alloc_managed(&self, number: u32, cpus: &[u32]) -> Result<Slot, Error> {
        self.step(|matrix| matrix.alloc_managed(&PLATFORM, &wanted(number, &mask(cpus))))
    }

    pub fn alloc(&self, number: u32, cpus: &[u32]) -> Result<Slot, Error> {
        self.step(|matrix| matrix.alloc(&PLATFORM, &wanted(number, &mask(cpus)), false))
    }

    /// Activates an interrupt that was reserved.
    pub fn activate(&self, number: u32, cpus: &[u32]) -> Result<Slot, Error> {
        self.step(|matrix| matrix.alloc(&PLATFORM, &wanted(number, &mask(cpus)), true))
    }

    pub fn alloc_block(&self, number: u32, cpus: &[u32], count: u32) -> Result<Slot, Error> {
        self.step(|matrix| matrix.alloc_block(&PLATFORM, &wanted(number, &mask(cpus)), count))
    }

    pub fn assign(&self, index: u32, vector: u8, number: u32) -> Result<Slot, Error> {
        self.step(|matrix| matrix.assign(&PLATFORM, cpu(index), vector, irq(number)))
    }

    pub fn assign_system(&self, vector: u8, replace: bool) -> Result<(), Error> {
        self.step(|matrix| matrix.assign_system(&PLATFORM, vector, replace))
    }

    pub fn free(&self, slot: Slot, number: u32) -> Result<(), Error> {
        self.step(|matrix| matrix.free(&PLATFORM, slot, irq(number)))
    }

    pub fn account(&self, index: u32) -> Account {
        let counts = self.matrix.counts(&PLATFORM, cpu(index)).unwrap();
        assert_eq!(counts.available, self.matrix.headroom(cpu(index)));
        [
            counts.available,
            counts.managed,
            counts.managed_allocated,
            counts.allocated,
        ]
    }
}

pub fn slot(index: u32, vector: u8) -> Slot {
    Slot {
        cpu: cpu(index),
        vector,
    }
}
