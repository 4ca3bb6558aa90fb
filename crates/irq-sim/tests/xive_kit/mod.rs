// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the XIVE model's own tests share: raw steps, written down without any driver.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::{Barrier, Bus, NodeId, PhysAddr, Platform};
use irq_sim::SimPlatform;
use irq_sim::xive::{Gen, XiveBuilder, XiveModel, XiveWindow, call};

/// Byte store: processor priority.
pub const CPPR: usize = 0x31;
/// Two-byte load: acknowledge.
pub const ACK: usize = 0x830;

/// Loads of a management page.
pub const EOI: usize = 0x000;
pub const GET: usize = 0x800;
pub const SET_00: usize = 0xc00;
pub const SET_01: usize = 0xd00;
pub const SET_10: usize = 0xe00;
pub const SET_11: usize = 0xf00;
/// Store of a management page.
pub const STORE_EOI: usize = 0x400;
/// What a load after a StoreEOI adds.
pub const ORDERED: usize = 0x40;

/// Queue flags: set up, always notify.
pub const ON: u64 = 1;
pub const NOTIFY: u64 = 2;

/// Both generations.
pub const GENS: [Gen; 2] = [Gen::One, Gen::Two];

/// Asserts that `act` is refused with a message that contains `rule`.
#[track_caller]
pub fn refused<R>(rule: &str, act: impl FnOnce() -> R) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(act)) else {
        panic!("the model let it pass; expected: {rule}")
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let text = text.expect("a panic with a text");
    assert!(text.contains(rule), "expected {rule:?} in {text:?}");
}

/// The pages of one source.
pub struct Esb {
    pub eoi: XiveWindow,
    pub trigger: Option<XiveWindow>,
}

impl Esb {
    /// A load of the management page, in the controller's byte order.
    pub fn load(&self, offset: usize) -> u64 {
        Bus::<u64>::load(&self.eoi, offset).swap_bytes()
    }

    /// A store to the management page.
    pub fn store(&self, offset: usize) {
        Bus::<u64>::store(&self.eoi, offset, 0);
    }

    /// A store to the trigger page, nothing published.
    pub fn trigger(&self) {
        let page = self.trigger.as_ref().expect("a trigger page");
        Bus::<u64>::store(page, 0, 0);
    }

    /// Publishes and triggers.
    pub fn fire(&self) {
        self.eoi.publish();
        self.trigger();
    }
}

/// A machine in exploitation mode, all CPUs closed.
pub struct Rig {
    pub sim: SimPlatform,
    pub model: XiveModel,
    pub tima: XiveWindow,
    /// Out-parameters of firmware calls.
    pub scratch: DmaRegion,
}

impl Rig {
    /// A plain machine.
    pub fn new(cpus: u32, generation: Gen) -> Self {
        Self::with(cpus, |xive| xive.generation(generation))
    }

    /// A machine described by `describe`.
    pub fn with(cpus: u32, describe: impl FnOnce(XiveBuilder) -> XiveBuilder) -> Self {
        let rig = Self::booted(&SimPlatform::new(cpus), describe);
        assert_eq!(rig.call(call::RESET, &[1]), 0);
        rig
    }

    /// A machine as firmware hands it over.
    pub fn booted(sim: &SimPlatform, describe: impl FnOnce(XiveBuilder) -> XiveBuilder) -> Self {
        let model = describe(XiveModel::builder(sim)).build();
        Self {
            tima: model.map(model.tima(), 0x1_0000).unwrap(),
            scratch: memory(sim, 0x1000),
            sim: sim.clone(),
            model,
        }
    }

    /// A firmware call.
    pub fn call(&self, number: u64, args: &[u64]) -> i64 {
        let mut all = [0; 7];
        all[..args.len()].copy_from_slice(args);
        self.model.opal(number, all)
    }

    /// The address of out-parameter number `slot`.
    pub fn out(&self, slot: usize) -> u64 {
        self.scratch.device().get() + 8 * slot as u64
    }

    /// The double word in out-parameter number `slot`.
    pub fn got(&self, slot: usize) -> u64 {
        self.scratch.read_u64(8 * slot).swap_bytes()
    }

    /// The word in out-parameter number `slot`.
    pub fn got32(&self, slot: usize) -> u32 {
        self.scratch.read_u32(8 * slot).swap_bytes()
    }

    /// The PIR of `cpu`.
    pub fn pir(&self, cpu: u32) -> u32 {
        self.model.pir(cpu)
    }

    /// A queue of `1 << log2` bytes for `cpu` at `prio` that notifies always. Its memory is
    /// not given back unless the test does: the machine may use it to its end.
    pub fn queue(&self, cpu: u32, prio: u64, log2: u64) -> ManuallyDrop<DmaRegion> {
        self.queue_with(cpu, prio, log2, ON | NOTIFY)
    }

    /// A queue of `1 << log2` bytes for `cpu` at `prio`.
    pub fn queue_with(
        &self,
        cpu: u32,
        prio: u64,
        log2: u64,
        flags: u64,
    ) -> ManuallyDrop<DmaRegion> {
        let region = memory(&self.sim, 1 << log2);
        let at = region.device().get();
        let args = [self.pir(cpu).into(), prio, at, log2, flags];
        assert_eq!(self.call(call::SET_QUEUE_INFO, &args), 0);
        ManuallyDrop::new(region)
    }

    /// Routes `girq` to `cpu` at `prio`.
    pub fn route(&self, girq: u32, cpu: u32, prio: u64, data: u64) {
        let args = [girq.into(), self.pir(cpu).into(), prio, data];
        assert_eq!(self.call(call::SET_IRQ_CONFIG, &args), 0);
    }

    /// An IPI source of the chip of `cpu`, routed there and on.
    pub fn ipi(&self, cpu: u32, prio: u64, data: u64) -> u32 {
        let chip = self.model.chip_id(cpu).into();
        let girq = self.call(call::ALLOCATE_IRQ, &[chip]);
        let girq = u32::try_from(girq).expect("a source");
        self.route(girq, cpu, prio, data);
        assert_eq!(self.esb(girq).load(SET_00), 0b01);
        girq
    }

    /// The pages of `girq`, as firmware names them.
    pub fn esb(&self, girq: u32) -> Esb {
        let out = |slot| self.out(slot);
        let args = [girq.into(), out(0), out(1), out(2), out(3), out(4)];
        assert_eq!(self.call(call::GET_IRQ_INFO, &args), 0);
        let (eoi, trigger, shift) = (self.got(1), self.got(2), self.got32(3));
        let one = trigger == 0 || trigger == eoi;
        let len = if one { 1 << shift } else { 1 << (shift - 1) };
        let map = |at| self.model.map(PhysAddr::new(at), len).unwrap();
        Esb {
            eoi: map(eoi),
            trigger: (trigger != 0).then(|| map(trigger)),
        }
    }

    /// Stores CPPR on `cpu`.
    pub fn cppr(&self, cpu: u32, value: u8) {
        self.sim
            .as_cpu(cpu, |_| Bus::<u8>::store(&self.tima, CPPR, value));
    }

    /// Opens `cpu` for every priority.
    pub fn open(&self, cpu: u32) {
        self.cppr(cpu, 0xff);
    }

    /// Acknowledges on `cpu`, as a handler does.
    pub fn ack(&self, cpu: u32) -> u16 {
        self.sim.as_cpu(cpu, |_| {
            let value = Bus::<u16>::load(&self.tima, ACK).swap_bytes();
            self.tima.synchronize();
            value
        })
    }

    /// Acknowledges on `cpu`, ends `girq` there by load (level) or SET_PQ_00, and opens
    /// again. Triggers again what waited.
    pub fn serve(&self, cpu: u32, girq: u32) -> u16 {
        let ack = self.ack(cpu);
        self.sim.as_cpu(cpu, |_| {
            let esb = self.esb(girq);
            if self.model.lsis().contains(&girq) {
                esb.load(EOI);
            } else if esb.load(SET_00) == 0b11 {
                esb.trigger();
            }
        });
        self.open(cpu);
        ack
    }

    /// Entry number `index` of a queue.
    pub fn entry(&self, queue: &DmaRegion, index: usize) -> u32 {
        queue.read_u32(4 * index).swap_bytes()
    }
}

/// Zeroed memory, aligned to its length.
pub fn memory(sim: &SimPlatform, len: usize) -> DmaRegion {
    let layout = Layout::from_size_align(len, len).unwrap();
    sim.dma_alloc(layout, NodeId::FLAT, DmaLimits::NONE)
        .unwrap()
}
