// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of private interrupts on all CPUs, several at once.

use std::alloc::Layout;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use irq_core::Trigger;
use irq_gicv3::{Config, Gic, IntId, Mpidr, Priority};
use irq_hal::dma::{DmaLimits, DmaRegion};
use irq_hal::lock::HeldRanks;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::{CpuIndex, Error, Mmio, NodeId, PhysAddr, Platform};
use irq_sim::SimPlatform;
use irq_sim::gic::GicModel;
use irq_tests::gicv3::{Machine, describe, mpidrs, probe};

const CPUS: u32 = 4;
/// A PPI and an extended PPI.
const INTIDS: [u32; 2] = [27, 1100];

/// What one CPU's hardware says: enabled, edge, priority.
fn found(model: &GicModel, cpu: u32, intid: u32) -> (bool, bool, u8) {
    let source = model.private_source(cpu, intid);
    (source.enabled, source.edge, source.priority)
}

/// A kernel that is held up on CPU 0 once: where it lets interrupts in again.
struct HeldUp {
    sim: SimPlatform,
    next: AtomicBool,
    stopped: Barrier,
    go_on: Barrier,
}

impl HeldUp {
    fn new(sim: &SimPlatform) -> Self {
        Self {
            sim: sim.clone(),
            next: AtomicBool::new(false),
            stopped: Barrier::new(2),
            go_on: Barrier::new(2),
        }
    }
}

// SAFETY: every call goes to the simulated platform, which keeps the promises.
unsafe impl Platform for HeldUp {
    fn dma_alloc(
        &self,
        layout: Layout,
        node: NodeId,
        limits: DmaLimits,
    ) -> Result<DmaRegion, Error> {
        self.sim.dma_alloc(layout, node, limits)
    }

    fn dma_publish(&self, region: &DmaRegion, range: Range<usize>) {
        self.sim.dma_publish(region, range);
    }

    fn dma_observe(&self, region: &DmaRegion, range: Range<usize>) {
        self.sim.dma_observe(region, range);
    }

    fn map_device(&self, page: PhysAddr, len: usize) -> Result<Mmio, Error> {
        self.sim.map_device(page, len)
    }

    fn now(&self) -> Ticks {
        self.sim.now()
    }

    fn ticks_in(&self, micros: u32) -> Ticks {
        self.sim.ticks_in(micros)
    }

    fn relax(&self) {
        self.sim.relax();
    }

    fn this_cpu(&self) -> CpuIndex {
        self.sim.this_cpu()
    }

    fn irq_save(&self) -> IrqState {
        self.sim.irq_save()
    }

    unsafe fn irq_restore(&self, state: IrqState) {
        let cpu = self.sim.this_cpu();
        // SAFETY: the caller's promise is passed on.
        unsafe { self.sim.irq_restore(state) }
        if cpu == CpuIndex::new(0) && self.next.swap(false, Ordering::Relaxed) {
            self.stopped.wait();
            self.go_on.wait();
        }
    }

    fn held_ranks(&self) -> Option<&HeldRanks> {
        self.sim.held_ranks()
    }
}

#[test]
fn a_change_that_is_overtaken_between_two_cpus_leaves_them_all_with_the_last_one() {
    let sim = SimPlatform::new(CPUS);
    let model = GicModel::builder(&sim).eppis(64).build();
    let kernel = HeldUp::new(&sim);
    let cpus = mpidrs(&model);
    let description = describe(&model, &cpus);
    let gic = Gic::probe(&kernel, description, model.sysregs(), Config::default()).unwrap();
    let online = |cpu| {
        let mpidr = Mpidr::new(model.mpidr(cpu));
        sim.as_cpu(cpu, |on| gic.cpu_online(on, mpidr)).unwrap();
    };
    // Runs `first` on CPU 0 and, once it has done with the redistributor of CPU 0, all of
    // `second` on CPU 1, and a CPU that comes online.
    let overtaken = |first: &(dyn Fn() + Sync), second: &dyn Fn()| {
        kernel.next.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| sim.as_cpu(0, |_| first()));
            kernel.stopped.wait();
            sim.as_cpu(1, |_| second());
            online(2);
            kernel.go_on.wait();
        });
    };
    (0..2).for_each(online);
    online(3);
    let everywhere = |intid, expect| {
        for cpu in 0..CPUS {
            assert_eq!(found(&model, cpu, intid), expect, "cpu{cpu} INTID {intid}");
        }
    };
    let offline = || sim.as_cpu(2, |on| gic.cpu_offline(on)).unwrap();
    for number in INTIDS {
        let intid = IntId::new(number).unwrap();
        let configure = |trigger, priority| {
            gic.configure_private(intid, trigger, Priority::new(priority))
                .unwrap();
        };
        overtaken(&|| configure(Trigger::Edge, 0xa0), &|| {
            configure(Trigger::Level, 0xb0)
        });
        everywhere(number, (false, false, 0xb0));
        offline();
        overtaken(&|| configure(Trigger::Level, 0xa0), &|| {
            configure(Trigger::Edge, 0xb0)
        });
        everywhere(number, (false, true, 0xb0));
        offline();
        overtaken(&|| gic.mask_private(intid).unwrap(), &|| {
            gic.unmask_private(intid).unwrap()
        });
        everywhere(number, (true, true, 0xb0));
        offline();
        overtaken(&|| gic.unmask_private(intid).unwrap(), &|| {
            gic.mask_private(intid).unwrap()
        });
        everywhere(number, (false, true, 0xb0));
        offline();
    }
}

#[test]
fn changes_at_once_on_threads_end_the_same_on_every_cpu_that_is_and_will_be() {
    for _ in 0..100 {
        let sim = SimPlatform::new(CPUS);
        let model = GicModel::builder(&sim).eppis(64).build();
        let gic = probe(&model, Config::default()).unwrap();
        let machine = Machine { sim, model, gic };
        (0..2).for_each(|cpu| machine.online(cpu).unwrap());
        let start = Barrier::new(3);
        let change = |cpu, trigger, priority, enable: bool| {
            start.wait();
            for intid in INTIDS.map(|intid| IntId::new(intid).unwrap()) {
                machine.sim.as_cpu(cpu, |_| {
                    let gic = &machine.gic;
                    let switch = if enable {
                        gic.unmask_private(intid)
                    } else {
                        gic.mask_private(intid)
                    };
                    switch.unwrap();
                    gic.configure_private(intid, trigger, Priority::new(priority))
                        .unwrap();
                });
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| change(0, Trigger::Edge, 0xa0, true));
            scope.spawn(|| change(1, Trigger::Level, 0xb0, false));
            scope.spawn(|| {
                start.wait();
                machine.online(2).unwrap();
            });
        });
        // This one is given what the driver has written down.
        machine.online(3).unwrap();
        for intid in INTIDS {
            let expect = found(&machine.model, 3, intid);
            assert!(
                matches!(expect, (_, true, 0xa0) | (_, false, 0xb0)),
                "half of a change: {expect:?}"
            );
            for cpu in 0..3 {
                assert_eq!(found(&machine.model, cpu, intid), expect, "cpu{cpu}");
            }
        }
    }
}

#[test]
fn a_cpu_with_a_trigger_fixed_otherwise_comes_online_with_everything_else() {
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).fixed_ppi_triggers(true).build();
    let gic = probe(&model, Config::default()).unwrap();
    let machine = Machine { sim, model, gic };
    let [timer, other] = [11, 12].map(|n| IntId::ppi(n).unwrap());
    for intid in [timer, other] {
        machine
            .gic
            .configure_private(intid, Trigger::Edge, Priority::new(0xa0))
            .unwrap();
        machine.gic.unmask_private(intid).unwrap();
    }
    machine.online(0).unwrap();
    for intid in [timer, other] {
        assert_eq!(found(&machine.model, 0, intid.get()), (true, false, 0xa0));
    }
    // Said to a CPU that is online it is an error.
    let again = machine
        .gic
        .configure_private(timer, Trigger::Edge, Priority::new(0xa0));
    assert!(matches!(again, Err(Error::Refused { .. })), "{again:?}");
}

#[test]
fn extended_ppis_stay_off_on_cpus_that_take_none() {
    let sim = SimPlatform::new(3);
    let model = GicModel::builder(&sim)
        .eppis(32)
        .cpu_ext_range(1, false)
        .cpu_ext_range(2, false)
        .build();
    let gic = probe(&model, Config::default()).unwrap();
    let machine = Machine { sim, model, gic };
    machine.online(0).unwrap();
    machine.online(1).unwrap();
    let intid = IntId::eppi(1).unwrap();
    let high = Priority::new(0xa0);
    machine
        .gic
        .configure_private(intid, Trigger::Edge, high)
        .unwrap();
    machine.gic.unmask_private(intid).unwrap();
    machine.online(2).unwrap();
    let all = [0, 1, 2].map(|cpu| found(&machine.model, cpu, 1057));
    let idle = (false, false, Priority::DEFAULT.get());
    assert_eq!(all, [(true, true, 0xa0), idle, idle]);
    machine.gic.mask_private(intid).unwrap();
    assert!(!machine.model.private_source(0, 1057).enabled);
}
