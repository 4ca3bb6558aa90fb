// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated kernel: clock, CPUs, interrupt masks, memory.

mod kit;

use std::alloc::Layout;
use std::sync::Barrier;
use std::thread;

use irq_hal::dma::DmaLimits;
use irq_hal::lock::MaskedLock;
use irq_hal::platform::{IrqState, Ticks};
use irq_hal::wait::{Bound, WaitFor, wait};
use irq_hal::{Bus, Error, NodeId, PhysAddr, Platform};
use irq_sim::SimPlatform;
use irq_sim::gic::GicModel;
use irq_sim::gic::sysreg::ICC_CTLR_EL1;
use irq_sim::log::{Costs, Event};
use irq_sim::memory::STALE;
use irq_sim::platform::Steps;
use kit::refused;

const FLAT: NodeId = NodeId::FLAT;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn shared<T: Clone + Send + Sync>() {}
    shared::<SimPlatform>();
    shared::<irq_sim::gic::GicModel>();
    shared::<irq_sim::gic::GicBus>();
    shared::<irq_sim::gic::IccBus>();
    shared::<irq_sim::Log>();
}

#[test]
fn charges_and_steps_are_the_tests_own() {
    let steps = Steps {
        now: 3,
        relax: 5,
        access: 7,
    };
    let costs = Costs {
        local: 1,
        remote: 2,
        system: 4,
    };
    let sim = SimPlatform::builder(2)
        .nodes(&[0, 3])
        .steps(steps)
        .costs(costs)
        .build();
    let model = GicModel::builder(&sim).gicd_node(3).sre_on(true).build();
    let start = sim.peek_clock();
    Bus::<u32>::load(&model.gicd(), 4);
    Bus::<u32>::load(&model.gicr(0), 0x14);
    model.icc(0).load(ICC_CTLR_EL1);
    assert_eq!(sim.log().all().cost(), 2 + 1 + 4);
    assert_eq!(sim.peek_clock().since(start), Ticks(21));
    assert_eq!(sim.now().since(start), Ticks(24));
}

#[test]
fn the_clock_advances_by_looking_and_by_relaxing() {
    let sim = SimPlatform::new(1);
    let start = sim.now();
    sim.relax();
    assert_eq!(sim.now().since(start), Ticks(11));
    assert_eq!(sim.relaxes(0), 1);
}

#[test]
fn a_clock_that_stands_still_leaves_the_end_of_a_wait_to_the_polls() {
    static NEVER: WaitFor = WaitFor {
        register: "X",
        state: "1",
    };
    let sim = SimPlatform::new(1);
    sim.stop_clock();
    let before = sim.peek_clock();
    let mut polls = 0;
    let read = || {
        polls += 1;
        0_u32
    };
    let end = wait(&sim, &NEVER, Bound::new(&sim, 10, 500), read, |value| {
        value == 1
    });
    assert_eq!(
        end,
        Err(Error::Timeout {
            what: &NEVER,
            last: 0
        })
    );
    assert_eq!(polls, 500);
    assert_eq!(sim.peek_clock(), before);
}

#[test]
fn a_thread_is_the_cpu_that_it_runs_as() {
    let sim = SimPlatform::new(4);
    assert_eq!(sim.this_cpu().get(), 0);
    sim.as_cpu(3, |on| {
        assert_eq!(on.cpu().get(), 3);
        assert_eq!(sim.this_cpu().get(), 3);
        sim.as_cpu(1, |_| assert_eq!(sim.this_cpu().get(), 1));
        assert_eq!(sim.this_cpu().get(), 3);
    });
    assert_eq!(sim.this_cpu().get(), 0);
    assert_eq!(
        [0, 1, 2, 3].map(|cpu| sim.this_cpu_calls(cpu)),
        [2, 1, 0, 2]
    );
}

#[test]
fn two_platforms_in_one_thread_do_not_mix_their_cpus() {
    let (one, other) = (SimPlatform::new(2), SimPlatform::new(2));
    one.as_cpu(1, |_| {
        assert_eq!((one.this_cpu().get(), other.this_cpu().get()), (1, 0))
    });
}

#[test]
fn no_two_threads_are_the_same_cpu() {
    let sim = SimPlatform::new(2);
    let inside = Barrier::new(2);
    let done = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            sim.as_cpu(1, |_| {
                inside.wait();
                done.wait();
            });
        });
        inside.wait();
        refused("two threads run as cpu1", || sim.as_cpu(1, |_| ()));
        done.wait();
    });
    sim.as_cpu(1, |_| ());
}

#[test]
fn a_stray_thread_is_no_cpu() {
    let sim = SimPlatform::new(2);
    thread::scope(|scope| {
        scope.spawn(|| refused("no CPU of the platform", || sim.this_cpu()));
    });
}

fn restore(sim: &SimPlatform, state: IrqState) {
    // SAFETY: nothing on the simulated machine relies on the mask; the platform checks the
    // order, which is what these tests are about.
    unsafe { sim.irq_restore(state) }
}

#[test]
fn interrupt_masks_nest_and_come_back_in_order() {
    let sim = SimPlatform::new(1);
    let outer = sim.irq_save();
    let inner = sim.irq_save();
    assert!(sim.masked(0));
    restore(&sim, inner);
    assert!(sim.masked(0));
    restore(&sim, outer);
    assert!(!sim.masked(0));
    assert_eq!(sim.irq_saves(0), 2);
}

#[test]
fn a_mask_restored_twice_or_out_of_order_or_elsewhere_is_refused() {
    let sim = SimPlatform::new(2);
    let outer = sim.irq_save();
    let inner = sim.irq_save();
    refused("out of order", || restore(&sim, outer));
    refused("has not open", || sim.as_cpu(1, |_| restore(&sim, inner)));
    restore(&sim, inner);
    refused("has not open", || restore(&sim, inner));
    refused("holds this CPU's interrupt mask", || {
        sim.set_masked(0, false)
    });
}

#[test]
fn a_lock_masks_and_its_rank_is_kept_per_cpu() {
    let sim = SimPlatform::new(2);
    let leaf = MaskedLock::<_, 5>::new(());
    let table = MaskedLock::<_, 1>::new(());
    leaf.with(&sim, |()| {
        assert!(sim.masked(0));
        sim.as_cpu(1, |_| table.with(&sim, |()| assert!(sim.masked(1))));
    });
    refused("rank 1 taken under", || {
        leaf.with(&sim, |()| table.with(&sim, |()| ()))
    });
    assert!(!sim.masked(0));
}

#[test]
fn memory_is_zeroed_aligned_as_asked_and_no_better() {
    let sim = SimPlatform::new(1);
    for align in [8, 256, 0x1000, 0x1_0000] {
        let region = sim
            .dma_alloc(layout(0x2000, align), FLAT, DmaLimits::NONE)
            .unwrap();
        let at = region.device().get();
        assert_eq!((at % align as u64, at & align as u64), (0, align as u64));
        assert_eq!(region.len(), 0x2000);
        assert!(
            (0..0x2000)
                .step_by(8)
                .all(|offset| region.read_u64(offset) == 0)
        );
    }
    assert_eq!(sim.memory().live_blocks(), 0);
}

#[test]
fn memory_keeps_to_the_limits_and_to_its_node() {
    let sim = SimPlatform::new(1);
    let low = DmaLimits {
        highest: PhysAddr::new(0xffff_ffff),
    };
    let high = sim
        .dma_alloc(layout(64, 8), NodeId::new(2), DmaLimits::NONE)
        .unwrap();
    assert!(high.device().get() > 0xffff_ffff);
    assert_eq!(sim.memory().node_of(high.device()), NodeId::new(2));
    let region = sim.dma_alloc(layout(64, 8), FLAT, low).unwrap();
    assert!(region.device().get() + 63 <= 0xffff_ffff);
    let none = DmaLimits {
        highest: PhysAddr::new(0x1000),
    };
    let refused = sim.dma_alloc(layout(64, 8), FLAT, none).unwrap_err();
    assert_eq!(
        refused,
        Error::OutOfMemory {
            bytes: 64,
            node: FLAT
        }
    );
}

#[test]
fn memory_that_is_not_given_back_is_counted() {
    let sim = SimPlatform::new(1);
    let region = sim
        .dma_alloc(layout(0x100, 8), FLAT, DmaLimits::NONE)
        .unwrap();
    assert_eq!(
        (sim.memory().live_blocks(), sim.memory().live_bytes()),
        (1, 0x100)
    );
    drop(region);
    assert_eq!(sim.memory().live_blocks(), 0);
}

#[test]
fn memory_runs_out_on_demand() {
    let sim = SimPlatform::new(1);
    sim.memory().exhaust(true);
    assert!(sim.dma_alloc(layout(8, 8), FLAT, DmaLimits::NONE).is_err());
    sim.memory().exhaust(false);
    assert!(sim.dma_alloc(layout(8, 8), FLAT, DmaLimits::NONE).is_ok());
}

#[test]
fn a_snooping_device_sees_each_store() {
    let sim = SimPlatform::new(1);
    let region = sim
        .dma_alloc(layout(0x100, 8), FLAT, DmaLimits::NONE)
        .unwrap();
    region.write_u64(8, 0x1234);
    assert_eq!(
        sim.memory()
            .device_read_u64(PhysAddr::new(region.device().get() + 8)),
        0x1234
    );
    sim.memory().device_write(region.device(), &[7]);
    assert_eq!(region.read_u8(0), 7);
}

#[test]
fn a_non_snooping_device_sees_published_bytes_only() {
    let sim = SimPlatform::builder(1).non_coherent().build();
    let region = sim
        .dma_alloc(layout(0x100, 8), FLAT, DmaLimits::NONE)
        .unwrap();
    let device = |offset| {
        sim.memory()
            .device_read_u64(PhysAddr::new(region.device().get() + offset))
    };
    let stale = u64::from_ne_bytes([STALE; 8]);
    assert_eq!(device(0), stale, "even zeroes must be published");
    region.write_u64(0, 1);
    region.write_u64(8, 2);
    sim.dma_publish(&region, 0..8);
    assert_eq!((device(0), device(8)), (1, stale));
    let cleaned = Event::Clean {
        cpu: sim.this_cpu(),
        at: region.device(),
        len: 8,
    };
    assert_eq!(sim.log().all().events(), [cleaned]);
}

#[test]
fn what_a_non_snooping_device_writes_must_be_observed() {
    let sim = SimPlatform::builder(1).non_coherent().build();
    let region = sim
        .dma_alloc(layout(0x10, 8), FLAT, DmaLimits::NONE)
        .unwrap();
    sim.memory().device_write(region.device(), &[9; 8]);
    assert_eq!(region.read_u8(0), 0);
    sim.dma_observe(&region, 0..8);
    assert_eq!(
        (region.read_u8(0), region.read_u8(7), region.read_u8(8)),
        (9, 9, 0)
    );
}

#[test]
fn a_device_that_runs_off_its_memory_is_caught() {
    let sim = SimPlatform::new(1);
    let region = sim.dma_alloc(layout(16, 8), FLAT, DmaLimits::NONE).unwrap();
    let end = PhysAddr::new(region.device().get() + 12);
    refused("no memory there", || sim.memory().device_read_u64(end));
}

#[test]
fn memory_is_neither_taken_nor_given_back_under_a_lock() {
    let sim = SimPlatform::new(1);
    let lock = MaskedLock::<_, 5>::new(());
    let alloc = || sim.dma_alloc(layout(8, 8), FLAT, DmaLimits::NONE).unwrap();
    refused("dma_alloc with interrupts masked", || {
        lock.with(&sim, |()| drop(alloc()))
    });
    let region = alloc();
    refused("given back with interrupts masked", || {
        lock.with(&sim, |()| drop(region))
    });
    sim.set_masked(0, true);
    drop(alloc());
}
