// SPDX-License-Identifier: MIT OR Apache-2.0
//! What drivers of this controller have got wrong, each with a test that fails if ours does.
//!
//! | pitfall | where |
//! |---|---|
//! | 1 an end forgotten | `pitfall_01..` |
//! | 2 CPPR not restored | `pitfall_02..` |
//! | 3 LPCR.HVICE clear | boards/powernv: `an_interrupt_waits_while_hvice_is_clear` |
//! | 4 the wrong vector | boards/powernv: `interrupts_enter_little_endian_by_their_vector` |
//! | 5 generation begun wrongly, entries read in the wrong byte order | `pitfall_05..` |
//! | 6 number 0 in events | `pitfall_06_07..` |
//! | 7 a queue that is not aligned | `pitfall_06_07..` |
//! | 8 tables of one generation on the other | `pitfall_08..` |
//! | 9 no way to other chips | `pitfall_09..` |
//! | 10 the area touched for another CPU | `pitfall_10..` |
//! | 11 a CPPR that there is not | `pitfall_11..` |
//! | 12 an equal priority expected to interrupt | `pitfall_12..` |
//! | 13 unrouted before off | `pitfall_13..` |
//! | 14 a line let go without a look at it | `pitfall_14..` |
//! | 15 an edge lost behind a mask | `pitfall_15..` |
//! | 16 the trigger page read | `pitfall_16_17..` |
//! | 17 accesses of the wrong width | `pitfall_16_17..` |
//! | 18 a load not swapped | `pitfall_18..` |
//! | 19 HILE not set, or too late | boards/powernv: `interrupts_enter_little_endian_by_their_vector` |
//! | 20 the first decrementer | boards/powernv: `the_decrementer_is_far_away_while_no_timer_is_armed` |
//! | 21 the boot CPU assumed to be thread 0 | `pitfall_21..`, boards/powernv: `each_cpu_runs_with_the_block_of_its_pir` |
//! | 23 a queue's memory reused while it is written | `pitfall_23..` |
//! | 24 a chip taken for a node | `irq-xive`'s tests of trees, `xive_bringup` |
//! | 25 busy taken for an error | `pitfall_25..`, `xive_opal` |
//! | 26 provisioning taken for an error | `pitfall_26..`, `xive_opal` |
//! | 27, 28 stores that end, and loads that overtake them | `pitfall_27_28..` |
//! | 29 the red zone | boards/powernv: `registers_and_the_red_zone_are_kept_over_an_interrupt` |
//! | 32 CPPR before the thread is valid | `xive_bringup` |
//! | 37 a size of 0 taken for off | `pitfall_37..` |

use irq_core::{Flow, Kick, Lines, Trigger};
use irq_hal::CpuIndex;
use irq_sim::log::{Event, Trace, Unit};
use irq_sim::xive::{Gen, Pq, call};
use irq_tests::xive::{GENERATIONS, Machine, SimFirmware, hardware, queue, threads};
use irq_xive::{ChipId, Config, Description, Provision, SourceNumber, Xive};

fn kick(machine: &Machine, from: u32, to: u32) {
    let kicked = machine
        .sim
        .as_cpu(from, |_| machine.xive.kick(CpuIndex::new(to), || true));
    kicked.unwrap();
}

/// A day in a driver's life: every path is walked once, and everything that it did is told.
fn day(generation: Gen) -> (Machine, Trace) {
    let machine = Machine::with(generation, 4, 2, |b| b.lsi(0).msi(1), Config::default());
    let xive = &machine.xive;
    let (line, message) = (machine.model.lsis()[0], machine.model.msis()[0]);
    let lsi = xive.adopt(SourceNumber::new(line), Trigger::Level).unwrap();
    let msi = xive
        .adopt(SourceNumber::new(message), Trigger::Edge)
        .unwrap();
    let irqs = [machine.device(0), machine.device(1), lsi, msi];
    for irq in irqs {
        xive.unmask(irq).unwrap();
        xive.mask(irq).unwrap();
        xive.unmask(irq).unwrap();
        xive.off(irq).unwrap();
        xive.on(irq).unwrap();
        xive.unmask(irq).unwrap();
        xive.state(irq).unwrap();
        machine.fire(irq);
        xive.set_target(irq, CpuIndex::new(2)).unwrap();
        (0..4).for_each(|cpu| drop(machine.drain(cpu)));
        machine.fire(irq);
    }
    machine.take(2);
    machine.model.take(2, |_| {
        if let Some((_, active)) = machine.ack(2) {
            machine.sim.as_cpu(2, |_| xive.defer(active)).unwrap();
        }
    });
    machine.drain(2);
    for irq in irqs {
        let _ = machine.sim.as_cpu(3, |_| xive.complete(irq));
    }
    (0..4).for_each(|to| kick(&machine, 0, to));
    machine.model.inject_spurious(1);
    machine.model.inject_ipb(1, 6);
    (0..4).for_each(|cpu| drop(machine.drain(cpu)));
    machine.fire(irqs[0]);
    machine.offline(2).unwrap();
    xive.set_target(irqs[0], CpuIndex::new(1)).unwrap();
    machine.drain(1);
    machine.online(2).unwrap();
    (0..4).for_each(|cpu| drop(machine.drain(cpu)));
    irqs.iter().for_each(|&irq| xive.free(irq).unwrap());
    let trace = machine.sim.log().all();
    (machine, trace)
}

#[test]
fn pitfall_01_every_way_out_ends_the_source_or_leaves_it_to_somebody() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        let number = machine.number(irq);
        // Whoever does not: one interrupt, then silence.
        machine.fire(irq);
        let (_, active) = machine.ack(0).unwrap();
        machine.fire(irq);
        assert!(!machine.model.signalled(0));
        machine.end(0, active);
        assert!(machine.model.signalled(0), "what waited is sent by the end");
        assert_eq!(machine.enter(0), Some(vec![irq]));
        assert_eq!(machine.model.pq(number), Pq::Reset);
        machine.fire(irq);
        assert_eq!(machine.take(0), Some(irq));
        assert_eq!(machine.model.pq(number), Pq::Reset);
        kick(&machine, 0, 0);
        machine.drain(0);
        kick(&machine, 0, 0);
        assert_eq!(machine.drain(0).len(), 1);
    }
}

#[test]
fn pitfall_02_every_way_out_leaves_the_cpu_as_open_as_it_was() {
    for generation in GENERATIONS {
        type Out = fn(&Machine);
        let ways: [(&str, Out); 6] = [
            ("next", |machine| drop(machine.enter(0))),
            ("end first", |machine| assert!(machine.take(0).is_some())),
            ("defer", |machine| {
                let (_, active) = machine.ack(0).unwrap();
                machine
                    .sim
                    .as_cpu(0, |_| machine.xive.defer(active))
                    .unwrap();
            }),
            ("hand over", |machine| {
                let (_, active) = machine.ack(0).unwrap();
                let over = machine.sim.as_cpu(0, |_| machine.xive.hand_over(active));
                over.unwrap();
            }),
            ("empty", |machine| {
                machine.drain(0);
                machine.model.inject_ipb(0, 6);
                assert_eq!(machine.ack(0), None);
            }),
            ("nobody's priority", |machine| {
                machine.drain(0);
                machine.model.inject_ipb(0, 2);
                assert_eq!(machine.ack(0), None);
            }),
        ];
        for (name, out) in ways {
            let machine = Machine::new(generation, 1);
            let irq = machine.device(0);
            machine.fire(irq);
            out(&machine);
            assert_eq!(machine.model.cppr(0), 0xff, "{name}");
        }
    }
}

#[test]
fn pitfall_05_the_first_entry_has_generation_one_and_its_bytes_are_big_endian() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let queue = queue(&machine.model, machine.model.pir(0), 6).unwrap();
        let mut bytes = [0; 4];
        machine.sim.memory().device_read(queue.at, &mut bytes);
        assert_eq!(bytes, [0; 4]);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.sim.memory().device_read(queue.at, &mut bytes);
        assert_eq!(bytes, (1 << 31 | (irq.get() + 1)).to_be_bytes());
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn pitfall_06_07_no_event_is_number_zero_and_queues_are_aligned_to_their_size() {
    for generation in GENERATIONS {
        let (machine, _) = day(generation);
        let calls = machine.firmware().calls();
        let routed = calls.iter().filter(|one| one.call == call::SET_IRQ_CONFIG);
        assert!(routed.clone().count() > 8);
        assert!(routed.clone().all(|one| one.args[3] != 0));
        let queues: Vec<_> = calls
            .iter()
            .filter(|one| one.call == call::SET_QUEUE_INFO)
            .collect();
        assert_eq!(queues.len(), 8);
        for queue in queues {
            let [_, priority, at, log2, flags, ..] = queue.args;
            assert_eq!(flags, 3, "on, and always notified");
            match priority {
                5 => assert_eq!((at, log2), (0, 0), "IPIs are written nowhere"),
                6 => assert!(at != 0 && at.is_multiple_of(1 << log2), "{queue:x?}"),
                _ => panic!("{queue:x?}"),
            }
        }
    }
}

#[test]
fn pitfall_08_tables_are_firmwares_on_both_generations() {
    for generation in GENERATIONS {
        let (_, trace) = day(generation);
        let ours = |event: &Event| {
            event.access().is_none_or(|access| {
                matches!(access.unit, Unit::Esb(_) | Unit::Tima(_) | Unit::Opal)
            })
        };
        assert!(trace.events().iter().all(ours));
    }
}

#[test]
fn pitfall_09_ipis_and_devices_cross_chips() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 2, 2, |builder| builder, Config::default());
        kick(&machine, 0, 1);
        assert_eq!(machine.drain(1), [machine.xive.ipi_irq()]);
        let irq = machine.device(0);
        machine.xive.set_target(irq, CpuIndex::new(1)).unwrap();
        machine.fire(irq);
        assert_eq!(machine.drain(1), [irq]);
    }
}

#[test]
fn pitfall_10_a_cpus_own_part_is_touched_by_that_cpu_alone() {
    for generation in GENERATIONS {
        let (_, trace) = day(generation);
        for event in trace.events() {
            if let Some(access) = event.access()
                && let Unit::Tima(whose) = access.unit
            {
                assert_eq!(access.cpu, whose, "{event}");
            }
        }
    }
}

#[test]
fn pitfall_11_a_cppr_is_a_priority_or_all_ones() {
    for generation in GENERATIONS {
        let (_, trace) = day(generation);
        for cpu in 0..4 {
            let stored = trace.stored(Unit::Tima(CpuIndex::new(cpu)), 0x31);
            assert!(stored.len() >= 2);
            assert!(stored.iter().all(|cppr| matches!(cppr, 0..=7 | 0xff)));
        }
    }
}

#[test]
fn pitfall_12_a_device_waits_for_a_device_and_an_ipi_for_an_ipi() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let [a, b] = [machine.device(0), machine.device(0)];
        machine.fire(a);
        let (_, active) = machine.ack(0).unwrap();
        machine.fire(b);
        assert!(!machine.model.signalled(0));
        machine.end(0, active);
        assert_eq!(machine.drain(0), [b]);
    }
}

#[test]
fn pitfall_13_a_source_is_off_before_it_is_unrouted() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        let number = machine.number(irq);
        let trace = machine.trace(|| machine.xive.free(irq).unwrap());
        let at = |wanted: &dyn Fn(&Event) -> bool| trace.events().iter().position(wanted).unwrap();
        let off = at(&|event| {
            matches!(event, Event::Load(access)
                if access.unit == Unit::Esb(number) && access.offset & 0xf00 == 0xd00)
        });
        let unrouted = at(&|event| {
            event.access().is_some_and(|access| {
                access.unit == Unit::Opal && access.offset == call::SET_IRQ_CONFIG as usize
            })
        });
        assert!(off < unrouted, "{trace}");
        assert_eq!(machine.model.pq(number), Pq::Off);
    }
}

#[test]
fn pitfall_14_a_line_that_is_let_go_is_looked_at_by_a_load() {
    for generation in GENERATIONS {
        let machine = Machine::with(generation, 1, 1, |b| b.lsi(0), Config::default());
        let number = machine.model.lsis()[0];
        let irq = machine
            .xive
            .adopt(SourceNumber::new(number), Trigger::Level)
            .unwrap();
        machine.model.line(number).assert();
        assert!(!machine.model.signalled(0));
        let trace = machine.trace(|| machine.xive.unmask(irq).unwrap());
        let last = trace.events().last().unwrap();
        assert!(
            matches!(last, Event::Load(access) if access.offset & 0xfbf == 0),
            "{trace}"
        );
        assert!(machine.model.signalled(0));
        machine.model.line(number).deassert();
        machine.drain(0);
    }
}

#[test]
fn pitfall_15_an_edge_behind_a_mask_is_kept() {
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.xive.mask(irq).unwrap();
        machine.fire(irq);
        machine.xive.unmask(irq).unwrap();
        assert_eq!(machine.drain(0), [irq]);
    }
}

#[test]
fn pitfall_16_17_trigger_pages_are_written_only_and_each_access_has_its_width() {
    for generation in GENERATIONS {
        let (_, trace) = day(generation);
        let mut seen = [0; 3];
        for access in trace.events().iter().filter_map(Event::access) {
            let width = match (access.unit, access.offset) {
                (Unit::Esb(_), _) => {
                    seen[0] += 1;
                    8
                }
                (Unit::Tima(_), 0x830) => {
                    seen[1] += 1;
                    2
                }
                (Unit::Tima(_), 0x31 | 0x38) => {
                    seen[2] += 1;
                    1
                }
                (Unit::Opal, _) => continue,
                other => panic!("{other:x?}"),
            };
            assert_eq!(access.width, width, "{access}");
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }
}

#[test]
fn pitfall_18_what_a_little_endian_cpu_loads_is_swapped() {
    // The model hands out bytes as the bus does: an acknowledge that is not swapped is none.
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 1);
        let irq = machine.device(0);
        machine.fire(irq);
        machine.fire(irq);
        let (taken, active) = machine.ack(0).unwrap();
        assert_eq!(taken, irq);
        // And a Q that is not swapped is not seen.
        machine.end(0, active);
        assert_eq!(machine.drain(0), [irq]);
        machine.xive.mask(irq).unwrap();
        machine.fire(irq);
        assert!(machine.xive.state(irq).unwrap().pending);
    }
}

#[test]
fn pitfall_21_any_cpu_may_boot_and_they_come_in_any_order() {
    for generation in GENERATIONS {
        let (sim, model) = hardware(generation, 8, 2, |builder| builder);
        let threads = threads(&model);
        let xive = sim.as_cpu(5, |_| {
            let description = Description::new(model.tima(), &threads);
            let firmware = SimFirmware::new(&model);
            Xive::probe(sim.clone(), firmware, description, Config::default()).unwrap()
        });
        for cpu in [5, 0, 7, 2, 1, 6, 3, 4] {
            let pir = threads[cpu as usize].pir;
            sim.as_cpu(cpu, |on| xive.cpu_online(on, pir)).unwrap();
            let kicked = sim.as_cpu(5, |_| xive.kick(CpuIndex::new(cpu), || true));
            kicked.unwrap();
            assert!(model.signalled(cpu));
        }
    }
}

#[test]
fn pitfall_23_queues_are_given_back_after_the_controller_has_let_go_of_them() {
    // The model panics if memory that it may write to is given back.
    for generation in GENERATIONS {
        let machine = Machine::new(generation, 2);
        let given = queue(&machine.model, machine.model.pir(1), 6).unwrap();
        let irq = machine.device(1);
        machine.fire(irq);
        let Machine { sim, model, xive } = machine;
        drop(xive);
        assert!(queue(&model, model.pir(1), 6).is_none());
        assert_eq!(sim.memory().live_blocks(), 0, "{given:?}");
    }
}

#[test]
fn pitfall_25_firmware_that_is_busy_is_asked_again() {
    let (_, model) = hardware(Gen::Two, 1, 1, |builder| builder);
    model.busy(call::SET_QUEUE_INFO, 5);
    model.busy_event(call::ALLOCATE_IRQ, 5);
    assert!(irq_tests::xive::probe(&model, Config::default()).is_ok());
}

#[test]
fn pitfall_26_firmware_that_wants_memory_gets_it() {
    let (sim, model) = hardware(Gen::One, 1, 1, |builder| builder);
    let threads = threads(&model);
    let chips = [ChipId::new(model.chip_id(0))];
    model.answer(call::ALLOCATE_IRQ, -31);
    let description = Description {
        provision: Provision {
            page: 0x1_0000,
            chips: &chips,
        },
        ..Description::new(model.tima(), &threads)
    };
    let firmware = SimFirmware::new(&model);
    let xive = Xive::probe(sim, firmware, description, Config::default()).unwrap();
    let calls = xive.opal().firmware().calls();
    let donated = calls.iter().filter(|one| one.call == call::DONATE_PAGE);
    assert_eq!(donated.count(), 1);
}

#[test]
fn pitfall_27_28_generation_two_ends_by_stores_and_its_loads_do_not_overtake_them() {
    let (_, trace) = day(Gen::Two);
    let mut stores = 0;
    for event in trace.events() {
        match event {
            Event::Store(access) if matches!(access.unit, Unit::Esb(_)) => {
                stores += usize::from(access.offset & 0xfff == 0x400);
            }
            Event::Load(access) if matches!(access.unit, Unit::Esb(_)) => {
                assert_ne!(access.offset & 0x40, 0, "{access}");
            }
            _ => {}
        }
    }
    assert!(stores > 5);
    let (_, trace) = day(Gen::One);
    let esb = trace.filter(|event| {
        let access = event.access();
        access.is_some_and(|access| matches!(access.unit, Unit::Esb(_)))
    });
    let stored =
        |event: &Event| matches!(event, Event::Store(access) if access.offset & 0xfff == 0x400);
    assert!(!esb.events().iter().any(stored));
}

#[test]
fn pitfall_37_a_queue_is_turned_off_by_its_flag() {
    let machine = Machine::new(Gen::One, 1);
    let pir = machine.xive.threads().next().unwrap().pir;
    let priority = irq_xive::Priority::DEVICE;
    machine
        .xive
        .opal()
        .disable_queue(&machine.sim, pir, priority)
        .unwrap();
    assert!(queue(&machine.model, pir.get(), 6).is_none());
    let last = *machine.firmware().calls().last().unwrap();
    assert_eq!((last.call, last.args[4]), (call::SET_QUEUE_INFO, 0));
}
