// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix and its naive model side by side: both are asked the same, and must say the same.

use std::collections::BTreeSet;

use irq_core::Irq;
use irq_core::cpu::{CpuIndex, CpuMask, CpuSet, NodeId};
use irq_core::matrix::{self, Matrix, Policy, Setup};
use irq_core::placement;
use irq_hal::{Error, ErrorKind};

use crate::bare::Bare;
use crate::machine::Machine;
use crate::naive::{Among, Naive, Rule, Slot, Use, Wanted};

/// Something that can be asked of a matrix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A CPU that may be chosen from now on.
    Online(u32),
    /// One that may not.
    Offline(u32),
    /// One that is to be chosen last, or not.
    Isolate(u32, bool),
    /// A vector for the system, maybe that of an interrupt.
    AssignSystem(u8, bool),
    /// A certain vector of a CPU for an interrupt.
    Assign(Slot, u32),
    /// A vector on each CPU.
    ReserveManaged(BTreeSet<u32>),
    /// One less on each CPU.
    RemoveManaged(BTreeSet<u32>),
    /// A reserved vector.
    AllocManaged(Wanted),
    /// A regular interrupt that has no vector yet.
    Reserve,
    /// One less.
    RemoveReserved,
    /// A free vector; for one of those that had none, or not.
    Alloc(Wanted, bool),
    /// So many vectors in a row.
    AllocBlock(Wanted, u32),
    /// The vector of an interrupt.
    Free(Slot, u32),
    /// So many vectors in a row, of so many interrupts.
    FreeBlock(Slot, u32, u32),
}

/// What it gave.
pub type Said = Result<Option<Slot>, ErrorKind>;

/// The matrix and its model.
pub struct Pair {
    /// Where the CPUs stand.
    pub machine: Machine,
    /// The model.
    pub model: Naive,
    /// The matrix.
    pub real: Matrix,
}

/// The vectors of a matrix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// The first.
    pub first: u8,
    /// The one behind the last.
    pub end: u16,
    /// Those that are the system's.
    pub system: Vec<u8>,
}

/// An owned mask, with room for members that no machine has.
pub fn mask_of(cpus: u32, members: &BTreeSet<u32>) -> CpuMask {
    let room = members.last().map_or(cpus, |last| cpus.max(last + 1));
    let mut mask = CpuMask::try_new(room).unwrap();
    for cpu in members {
        mask.insert(CpuIndex::new(*cpu)).unwrap();
    }
    mask
}

/// Calls `f` with what the matrix takes for `wanted`.
pub fn ask<R>(cpus: u32, wanted: &Wanted, f: impl FnOnce(&matrix::Wanted<'_>) -> R) -> R {
    let mask;
    let among = match &wanted.among {
        Among::Machine => placement::Among::Machine,
        Among::Node(node) => placement::Among::Node(NodeId::new(*node)),
        Among::Mask(members) => {
            mask = mask_of(cpus, members);
            placement::Among::Mask(&mask as &dyn CpuSet)
        }
    };
    f(&matrix::Wanted {
        irq: Irq::new(wanted.irq),
        among,
        near: wanted.near.map(NodeId::new),
    })
}

/// An empty matrix by this policy.
pub fn matrix(machine: &Machine, area: &Area, policy: Policy) -> Matrix {
    Matrix::new(&Setup {
        nodes: machine.nodes,
        threads: machine.threads,
        first: area.first,
        end: area.end,
        system: &area.system,
        shutdown: u8::try_from(area.end).unwrap_or(area.first - 1),
        policy,
        ..Setup::new(machine.cpus)
    })
    .unwrap()
}

fn slot(slot: matrix::Slot) -> Slot {
    (slot.cpu.get(), slot.vector)
}

const fn real_slot((cpu, vector): Slot) -> matrix::Slot {
    matrix::Slot {
        cpu: CpuIndex::new(cpu),
        vector,
    }
}

impl Pair {
    /// Both empty, no CPU online.
    pub fn new(machine: Machine, area: &Area, policy: Policy) -> Self {
        let rule = match policy {
            Policy::Balanced => Rule::Balanced,
            Policy::Compatible => Rule::Compatible,
        };
        Self {
            machine,
            model: Naive::new(rule, machine.cpus, area.first, area.end, &area.system),
            real: matrix(&machine, area, policy),
        }
    }

    /// Asks both.
    ///
    /// # Panics
    /// If they do not say the same, or the matrix breaks an invariant, or their counts differ.
    pub fn step(&mut self, step: &Step) -> Said {
        let said = self.quick_step(step);
        if let Err(broken) = self.real.check(&Bare) {
            panic!("{step:?}: {broken:?}");
        }
        self.compare_counts(step);
        said
    }

    /// Asks both, and looks at nothing but what they say.
    ///
    /// # Panics
    /// If they do not say the same.
    pub fn quick_step(&mut self, step: &Step) -> Said {
        let (expected, said) = (self.model_says(step), self.real_says(step));
        let kind = said.map_err(|error| error.kind());
        assert_eq!(kind, expected, "{step:?}: {said:?}, not {expected:?}");
        expected
    }

    fn model_says(&mut self, step: &Step) -> Said {
        let (model, machine) = (&mut self.model, &self.machine);
        match step {
            Step::Online(cpu) => {
                model.online(*cpu, machine.core(*cpu), machine.node(*cpu))?;
            }
            Step::Offline(cpu) => model.offline(*cpu)?,
            Step::Isolate(cpu, isolated) => model.isolate(*cpu, *isolated)?,
            Step::AssignSystem(vector, replace) => model.assign_system(*vector, *replace)?,
            Step::Assign((cpu, vector), irq) => model.assign(*cpu, *vector, *irq)?,
            Step::ReserveManaged(mask) => model.reserve_managed(mask)?,
            Step::RemoveManaged(mask) => model.remove_managed(mask)?,
            Step::AllocManaged(wanted) => return model.alloc_managed(wanted).map(Some),
            Step::Reserve => model.reserve(),
            Step::RemoveReserved => model.remove_reserved()?,
            Step::Alloc(wanted, reserved) => return model.alloc(wanted, *reserved).map(Some),
            Step::AllocBlock(wanted, count) => return model.alloc_block(wanted, *count).map(Some),
            Step::Free(slot, irq) => model.free(*slot, *irq)?,
            Step::FreeBlock(slot, irq, count) => model.free_block(*slot, *irq, *count)?,
        }
        Ok(None)
    }

    fn real_says(&self, step: &Step) -> Result<Option<Slot>, Error> {
        let (real, cpus) = (&self.real, self.machine.cpus);
        let at = CpuIndex::new;
        match step {
            Step::Online(cpu) => real.online(&Bare, at(*cpu), self.machine.place(*cpu))?,
            Step::Offline(cpu) => real.offline(&Bare, at(*cpu))?,
            Step::Isolate(cpu, isolated) => real.isolate(&Bare, at(*cpu), *isolated)?,
            Step::AssignSystem(vector, replace) => real.assign_system(&Bare, *vector, *replace)?,
            Step::Assign((cpu, vector), irq) => {
                real.assign(&Bare, at(*cpu), *vector, Irq::new(*irq))?;
            }
            Step::ReserveManaged(mask) => real.reserve_managed(&Bare, &mask_of(cpus, mask))?,
            Step::RemoveManaged(mask) => real.remove_managed(&Bare, &mask_of(cpus, mask))?,
            Step::AllocManaged(wanted) => {
                let got = ask(cpus, wanted, |wanted| real.alloc_managed(&Bare, wanted))?;
                return Ok(Some(slot(got)));
            }
            Step::Reserve => {
                real.reserve()?;
            }
            Step::RemoveReserved => {
                real.remove_reserved()?;
            }
            Step::Alloc(wanted, reserved) => {
                let got = ask(cpus, wanted, |wanted| real.alloc(&Bare, wanted, *reserved))?;
                return Ok(Some(slot(got)));
            }
            Step::AllocBlock(wanted, count) => {
                let got = ask(cpus, wanted, |wanted| {
                    real.alloc_block(&Bare, wanted, *count)
                })?;
                return Ok(Some(slot(got)));
            }
            Step::Free(slot, irq) => real.free(&Bare, real_slot(*slot), Irq::new(*irq))?,
            Step::FreeBlock(slot, irq, count) => {
                real.free_block(&Bare, real_slot(*slot), Irq::new(*irq), *count)?;
            }
        }
        Ok(None)
    }

    fn compare_counts(&self, step: &Step) {
        for (cpu, model) in self.machine.each().zip(&self.model.cpus) {
            let (real, counts) = (self.real.counts(&Bare, cpu).unwrap(), model.counts());
            assert_eq!(
                (
                    real.available,
                    real.allocated,
                    real.managed,
                    real.managed_allocated
                ),
                (
                    counts.available,
                    counts.allocated,
                    counts.managed,
                    counts.managed_allocated
                ),
                "{step:?}: available, allocated, managed, managed_allocated of {cpu}"
            );
        }
        assert_eq!(self.real.available(), self.model.available(), "{step:?}");
        assert_eq!(self.real.reserved(), self.model.reserved, "{step:?}");
    }

    /// Compares the owner of each vector.
    pub fn compare_owners(&self, area: &Area) {
        for (cpu, model) in self.machine.each().zip(&self.model.cpus) {
            for (vector, to) in (u16::from(area.first)..).zip(&model.vectors) {
                let owner = match *to {
                    Use::Managed(irq) | Use::Regular(irq) => Some(irq),
                    _ => None,
                };
                let entry = self.real.entry(cpu, vector as u8);
                assert_eq!(
                    entry.owner().map(Irq::get),
                    owner,
                    "{vector:#x} of {cpu} is {entry:?}"
                );
            }
        }
    }
}
