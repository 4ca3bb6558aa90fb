// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking the controller over, and CPUs that come online for the first time.

use irq_core::Irq;
use irq_hal::{CpuIndex, Error, NodeId, PhysAddr};
use irq_sim::log::Unit;
use irq_sim::xive::{Gen, XiveModel};
use irq_tests::xive::{GENERATIONS, Machine, SimFirmware, hardware, probe, queue, threads};
use irq_xive::{
    ChipId, Config, Description, EventQueue, Pir, Priority, ProbeError, Provision, Thread, Xive,
};

/// What the probe of `model` with a changed description or configuration answers, when it must
/// not have touched anything.
fn refused(
    model: &XiveModel,
    threads: &[Thread],
    change: impl FnOnce(&mut Description<'_>, &mut Config),
) -> ProbeError {
    let mut description = Description::new(model.tima(), threads);
    let mut config = Config::default();
    change(&mut description, &mut config);
    let sim = model.sim();
    let blocks = sim.memory().live_blocks();
    let mark = sim.log().mark();
    let xive = Xive::probe(sim.clone(), SimFirmware::new(model), description, config);
    let Err(error) = xive else {
        panic!("not refused")
    };
    let trace = sim.log().since(mark);
    assert_eq!(trace.accesses(), 0, "{error}: {trace}");
    assert_eq!(sim.memory().live_blocks(), blocks, "{error}: memory kept");
    error
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_touched() {
    let (_, model) = hardware(Gen::One, 2, 1, |builder| builder);
    let good = threads(&model);
    let error = |change: &dyn Fn(&mut Description<'_>, &mut Config)| refused(&model, &good, change);
    assert_eq!(refused(&model, &[], |_, _| ()), ProbeError::NoCpus);
    let twice = [good[0], good[0]];
    let pir = good[0].pir.get();
    assert_eq!(
        refused(&model, &twice, |_, _| ()),
        ProbeError::SamePir { pir }
    );
    let named = |pir| Thread {
        pir: Pir::new(pir),
        ..good[0]
    };
    let pir = 1 << 30;
    assert_eq!(
        refused(&model, &[named(pir)], |_, _| ()),
        ProbeError::Pir { pir }
    );
    assert_eq!(
        error(&|description, _| description.priorities = 6),
        ProbeError::Priority {
            priority: 6,
            priorities: 6
        }
    );
    for priority in [6, 7] {
        assert_eq!(
            error(&|_, config| config.ipi_priority = Priority::new(priority).unwrap()),
            ProbeError::Order {
                ipi: priority,
                device: 6
            }
        );
    }
    assert_eq!(
        error(&|_, config| config.device_queue = 13),
        ProbeError::QueueSize { log2: 13 }
    );
    assert_eq!(
        error(&|description, _| description.queue_sizes = &[12, 21, 24]),
        ProbeError::QueueSize { log2: 16 }
    );
    assert_eq!(
        error(&|description, _| description.queue_sizes = &[]),
        ProbeError::QueueSize { log2: 16 }
    );
    // A size that the hardware cannot have, whatever firmware says.
    assert_eq!(
        error(&|description, _| description.queue_sizes = &[16, 40]),
        ProbeError::QueueSize { log2: 40 }
    );
    let base = u32::MAX - 3;
    assert_eq!(
        error(&|_, config| config.base = Irq::new(base)),
        ProbeError::Base { base, count: 257 }
    );
    assert_eq!(
        error(&|_, config| config.sources = u32::MAX),
        ProbeError::Base {
            base: 0,
            count: u32::MAX
        }
    );
}

#[test]
fn memory_or_pages_that_are_not_to_be_had_leave_the_controller_untouched() {
    let (sim, model) = hardware(Gen::Two, 2, 1, |builder| builder);
    let threads = threads(&model);
    sim.memory().exhaust(true);
    let error = refused(&model, &threads, |_, _| ());
    assert!(
        matches!(error, ProbeError::Hardware(Error::OutOfMemory { .. })),
        "{error}"
    );
    sim.memory().exhaust(false);
    model.fail_map(true);
    let error = refused(&model, &threads, |_, _| ());
    assert!(matches!(error, ProbeError::Hardware(_)), "{error}");
    model.fail_map(false);
    assert!(probe(&model, Config::default()).is_ok());
}

#[test]
fn each_cpu_gets_an_aligned_queue_near_its_node_and_two_sources_on_its_chip() {
    for generation in GENERATIONS {
        let machine = Machine::cold(generation, 4, 2, |builder| builder, Config::default());
        let model = &machine.model;
        for (cpu, thread) in machine.xive.threads().enumerate() {
            let cpu = cpu as u32;
            assert_eq!(thread.pir, Pir::new(model.pir(cpu)));
            let devices = queue(model, thread.pir.get(), 6).unwrap();
            assert_eq!(devices.log2, 16, "cpu{cpu}");
            assert!(devices.at.get().is_multiple_of(1 << 16));
            assert_eq!(machine.sim.memory().node_of(devices.at), thread.node);
            // IPIs are notified, and written nowhere.
            let ipis = queue(model, thread.pir.get(), 5).unwrap();
            assert_eq!(ipis.log2, 0);
        }
        // Four sources on each chip: an IPI's and a reserved one for each of its CPUs.
        for chip in 0..2 {
            assert_eq!(model.allocated(chip).len(), 4);
        }
    }
}

#[test]
fn the_priorities_are_those_that_were_asked_for() {
    let priority = |n| Priority::new(n).unwrap();
    let config = Config {
        ipi_priority: priority(0),
        device_priority: priority(7),
        ..Config::default()
    };
    let machine = Machine::with(Gen::Two, 1, 1, |builder| builder, config);
    let pir = machine.model.pir(0);
    assert!(queue(&machine.model, pir, 0).is_some());
    assert!(queue(&machine.model, pir, 7).is_some());
    let irq = machine.device(0);
    machine.fire(irq);
    assert_eq!(machine.drain(0), [irq]);
}

#[test]
fn a_probed_controller_is_closed_until_each_cpu_opens_its_own_part() {
    for generation in GENERATIONS {
        let machine = Machine::cold(generation, 2, 1, |builder| builder, Config::default());
        assert_eq!([0, 1].map(|cpu| machine.model.cppr(cpu)), [0, 0]);
        let trace = machine.trace(|| machine.online(1).unwrap());
        assert_eq!([0, 1].map(|cpu| machine.model.cppr(cpu)), [0, 0xff]);
        let (own, other) = (Unit::Tima(CpuIndex::new(1)), Unit::Tima(CpuIndex::new(0)));
        assert_ne!(trace.on(own).accesses(), 0);
        assert_eq!(trace.on(other).accesses(), 0, "only a CPU itself can");
        assert_eq!(machine.sim.this_cpu_calls(1), 0);
    }
}

#[test]
fn a_thread_that_the_presenter_does_not_find_is_made_valid_before_it_opens() {
    for generation in GENERATIONS {
        let machine = Machine::cold(generation, 1, 1, |builder| builder, Config::default());
        machine.model.set_valid(0, false);
        machine.online(0).unwrap();
        assert_eq!(machine.model.cppr(0), 0xff);
        let irq = machine.device(0);
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn a_cpu_that_is_not_the_described_one_or_online_already_is_refused_and_stays_as_it_was() {
    let machine = Machine::cold(Gen::One, 2, 1, |builder| builder, Config::default());
    let online = |index: u32, pir: u32| {
        machine
            .sim
            .as_cpu(index, |on| machine.xive.cpu_online(on, Pir::new(pir)))
    };
    let wrong = machine.model.pir(0);
    let trace = machine.trace(|| {
        assert_eq!(
            online(1, wrong),
            Err(Error::NoUnitForCpu {
                block: "event queue",
                id: u64::from(wrong)
            })
        );
    });
    assert_eq!(trace.accesses(), 0, "{trace}");
    machine.online(1).unwrap();
    let cpu = CpuIndex::new(1);
    assert_eq!(machine.online(1), Err(Error::CpuIsOnline { cpu }));
    let cpu = CpuIndex::new(0);
    assert_eq!(machine.offline(0), Err(Error::CpuOffline { cpu }));
}

#[test]
fn an_index_beyond_the_described_cpus_is_an_error() {
    let (sim, model) = hardware(Gen::One, 2, 1, |builder| builder);
    let threads = threads(&model);
    let description = Description::new(model.tima(), &threads[..1]);
    let firmware = SimFirmware::new(&model);
    let xive = Xive::probe(sim.clone(), firmware, description, Config::default()).unwrap();
    let cpu = CpuIndex::new(1);
    let online = sim.as_cpu(1, |on| xive.cpu_online(on, threads[1].pir));
    assert_eq!(online, Err(Error::NoSuchCpu { cpu }));
    assert_eq!(xive.alloc_source(cpu), Err(Error::NoSuchCpu { cpu }));
}

#[test]
fn numbers_are_the_ipi_and_then_the_sources_from_the_base_on() {
    let config = Config {
        base: Irq::new(1000),
        sources: 4,
        ..Config::default()
    };
    let machine = Machine::with(Gen::Two, 1, 1, |builder| builder, config);
    let irqs = machine.xive.irqs();
    assert_eq!((irqs.first(), irqs.count()), (Irq::new(1000), 5));
    assert_eq!(machine.xive.ipi_irq(), Irq::new(1000));
    let [private] = machine.xive.private_irqs();
    assert_eq!((private.first(), private.count()), (Irq::new(1000), 1));
    let made: Vec<_> = (0..4).map(|_| machine.device(0)).collect();
    assert_eq!(made, [1001, 1002, 1003, 1004].map(Irq::new));
    for irq in made {
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn one_cpu_alone_works_without_another() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.fire(irq);
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn sixteen_chips_of_one_cpu_each_hear_each_other() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 16, 16, |builder| builder, Config::default());
        for from in 0..16 {
            let to = (from + 5) % 16;
            machine
                .sim
                .as_cpu(from, |_| {
                    irq_core::Kick::kick(&machine.xive, CpuIndex::new(to), || true)
                })
                .unwrap();
            assert_eq!(machine.drain(to), [machine.xive.ipi_irq()]);
        }
    }
}

#[test]
fn a_node_without_cpus_and_a_chip_whose_node_is_another_number_are_fine() {
    let (sim, model) = hardware(Gen::Two, 2, 2, |builder| builder);
    let mut threads = threads(&model);
    threads[0].node = NodeId::new(7);
    threads[1].node = NodeId::new(3);
    let description = Description::new(model.tima(), &threads);
    let firmware = SimFirmware::new(&model);
    let xive = Xive::probe(sim.clone(), firmware, description, Config::default()).unwrap();
    for (thread, node) in xive.threads().zip([7, 3]) {
        let queue = queue(&model, thread.pir.get(), 6).unwrap();
        assert_eq!(sim.memory().node_of(queue.at), NodeId::new(node));
    }
    assert_eq!(model.allocated(0).len(), 2);
    assert_eq!(model.allocated(1).len(), 2);
}

#[test]
fn firmware_gets_the_memory_that_it_asks_for_once_for_each_chip() {
    let (sim, model) = hardware(Gen::Two, 1, 1, |builder| builder);
    let threads = threads(&model);
    let chips = [ChipId::new(model.chip_id(0))];
    let description = Description {
        provision: Provision {
            page: 0x1_0000,
            chips: &chips,
        },
        ..Description::new(model.tima(), &threads)
    };
    model.answer(irq_sim::xive::call::ALLOCATE_IRQ, -31);
    let blocks = sim.memory().live_blocks();
    let firmware = SimFirmware::new(&model);
    let xive = Xive::probe(sim.clone(), firmware, description, Config::default()).unwrap();
    let trace = sim.log().all();
    let donated = trace.filter(|event| {
        let donate = irq_sim::xive::call::DONATE_PAGE as usize;
        event.access().is_some_and(|access| access.offset == donate)
    });
    assert_eq!(donated.accesses(), 1, "{donated}");
    drop(xive);
    assert_eq!(
        sim.memory().live_blocks(),
        blocks,
        "given back after a reset"
    );
}

#[test]
fn the_driver_resets_the_controller_when_it_is_dropped_and_can_be_probed_again() {
    for generation in GENERATIONS {
        let (sim, model) = hardware(generation, 2, 1, |builder| builder);
        let blocks = sim.memory().live_blocks();
        for _ in 0..2 {
            let xive = probe(&model, Config::default()).unwrap();
            let pir = Pir::new(model.pir(0));
            sim.as_cpu(0, |on| xive.cpu_online(on, pir)).unwrap();
            drop(xive);
            assert!(queue(&model, pir.get(), 6).is_none());
            assert!(model.allocated(0).is_empty());
            assert_eq!(sim.memory().live_blocks(), blocks);
        }
    }
}

#[test]
fn memory_stays_with_a_controller_that_firmware_does_not_reset() {
    let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
    let xive = probe(&model, Config::default()).unwrap();
    model.answer_always(irq_sim::xive::call::RESET, -6);
    let queue = queue(&model, model.pir(0), 6).unwrap();
    drop(xive);
    // It is still there: the model would panic.
    assert_eq!(sim.memory().node_of(queue.at), NodeId::FLAT);
}

#[test]
fn a_queue_that_cannot_be_made_is_an_error() {
    let (sim, _) = hardware(Gen::One, 1, 1, |builder| builder);
    for log2 in [0, 1, 30, 64] {
        let queue = EventQueue::new(&sim, log2, NodeId::FLAT);
        assert!(matches!(queue, Err(Error::Invalid { .. })), "{log2}");
    }
    let queue = EventQueue::new(&sim, 12, NodeId::FLAT).unwrap();
    assert_eq!((queue.capacity(), queue.log2()), (1024, 12));
    assert_ne!(queue.device(), PhysAddr::new(0));
}
