// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledge, end, defer, hand over: what becomes active, and what ends it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use irq_core::{Flow, IrqContext, Lines};
use irq_gicv3::gic::Counts;
use irq_gicv3::regs::icc::*;
use irq_gicv3::{Config, Description, EoiMode, Gic, IntId, Priority, Sgi};
use irq_hal::percpu::OnCpu;
use irq_hal::{Barrier, Bus, CpuIndex, Error, ErrorKind};
use irq_sim::SimPlatform;
use irq_sim::gic::GicModel;
use irq_sim::log::Fence;
use irq_tests::gicv3::{Machine, icc};

fn machine(eoi_mode: EoiMode) -> Machine {
    let config = Config {
        eoi_mode,
        ..Config::default()
    };
    let machine = Machine::with(2, |builder| builder, config);
    for intid in [40, 41] {
        machine.gic.unmask(machine.irq(intid)).unwrap();
    }
    machine
}

#[test]
fn spurious_and_special_numbers_are_counted_and_never_ended() {
    for mode in [EoiMode::Combined, EoiMode::Split] {
        let machine = machine(mode);
        for intid in [1020, 1021, 1022, 1023] {
            machine.model.inject_acknowledge(0, intid);
            let trace = machine.trace(|| assert_eq!(machine.ack(0), None));
            assert_eq!(trace.stores(icc(0)), 0, "{trace}");
        }
        let counts = |cpu| machine.gic.counts(CpuIndex::new(cpu)).unwrap();
        assert_eq!(
            counts(0),
            Counts {
                spurious: 1,
                special: 3,
                unknown: 0
            }
        );
        assert_eq!(counts(1), Counts::default());
    }
}

/// A CPU interface that hands out one number whatever the rest of the machine does, and
/// records what is written: for numbers that the model would never hand out.
struct Recorder {
    hands_out: u64,
    registers: Mutex<BTreeMap<usize, u64>>,
    ends: Mutex<Vec<(usize, u64)>>,
}

impl Bus<u64> for Recorder {
    fn load(&self, offset: usize) -> u64 {
        match offset {
            ICC_IAR1_EL1 => self.hands_out,
            ICC_SRE_EL1 => 7,
            _ => self
                .registers
                .lock()
                .unwrap()
                .get(&offset)
                .copied()
                .unwrap_or(0x400),
        }
    }

    fn store(&self, offset: usize, value: u64) {
        match offset {
            ICC_EOIR1_EL1 | ICC_DIR_EL1 => self.ends.lock().unwrap().push((offset, value)),
            _ => {
                self.registers.lock().unwrap().insert(offset, value);
            }
        }
    }
}

impl Barrier for Recorder {
    fn publish(&self) {}
    fn complete(&self) {}
    fn synchronize(&self) {}
}

/// What is written when `intid` is acknowledged and has no irq, and what is counted.
fn ends_of(eoi_mode: EoiMode, intid: u64) -> (Vec<(usize, u64)>, Counts) {
    let sim = SimPlatform::new(1);
    let model = GicModel::builder(&sim).build();
    let recorder = Recorder {
        hands_out: intid,
        registers: Mutex::default(),
        ends: Mutex::default(),
    };
    let description = Description::new(model.gicd(), vec![model.gicr(0)]);
    let config = Config {
        eoi_mode,
        ..Config::default()
    };
    let gic = Gic::probe(sim, description, &recorder, config).unwrap();
    // SAFETY: the test's thread alone stands for this CPU.
    let on = unsafe { OnCpu::new(CpuIndex::new(0)) };
    assert_eq!(gic.ack(&IrqContext::new(on, None, None)), None);
    let counts = gic.counts(CpuIndex::new(0)).unwrap();
    let ends = recorder.ends.lock().unwrap().clone();
    (ends, counts)
}

const UNKNOWN: Counts = Counts {
    spurious: 0,
    special: 0,
    unknown: 1,
};

#[test]
fn an_interrupt_without_an_irq_of_ours_is_ended_and_counted() {
    // An SPI beyond the last one, a reserved number, an extended SPI that is not there.
    for intid in [300, 1024, 4096] {
        let (ends, counts) = ends_of(EoiMode::Combined, intid);
        assert_eq!((ends, counts), (vec![(ICC_EOIR1_EL1, intid)], UNKNOWN));
        let (ends, counts) = ends_of(EoiMode::Split, intid);
        assert_eq!(ends, [(ICC_EOIR1_EL1, intid), (ICC_DIR_EL1, intid)]);
        assert_eq!(counts, UNKNOWN);
    }
}

#[test]
fn an_lpi_that_nobody_configured_is_ended_without_a_deactivation_and_counted() {
    // 9215 and 0xffffff end in the same ten bits as 1023.
    for intid in [8192, 9215, 0xff_ffff] {
        for mode in [EoiMode::Combined, EoiMode::Split] {
            let (ends, counts) = ends_of(mode, intid);
            assert_eq!((ends, counts), (vec![(ICC_EOIR1_EL1, intid)], UNKNOWN));
        }
    }
}

#[test]
fn bits_above_the_24_of_an_intid_are_not_part_of_it() {
    let (ends, counts) = ends_of(EoiMode::Combined, 1 << 32 | 1 << 24 | 1023);
    assert!(ends.is_empty());
    assert_eq!(
        counts,
        Counts {
            spurious: 1,
            special: 0,
            unknown: 0
        }
    );
}

#[test]
fn ends_mirror_acknowledges_when_interrupts_nest() {
    for mode in [EoiMode::Combined, EoiMode::Split] {
        let machine = machine(mode);
        machine
            .gic
            .set_priority(machine.irq(41), Priority::new(0x80))
            .unwrap();
        machine.model.line(40).assert();
        let (outer, first) = machine.ack(0).unwrap();
        machine.model.line(41).assert();
        let (inner, second) = machine.ack(0).unwrap();
        assert_eq!((outer, inner), (machine.irq(40), machine.irq(41)));
        machine.model.line(41).deassert();
        machine.end(0, second);
        machine.model.line(40).deassert();
        machine.end(0, first);
        assert_eq!(machine.model.priorities(0).1, None);
        assert!(!machine.model.source(40).active && !machine.model.source(41).active);
    }
}

#[test]
fn a_level_interrupt_that_is_still_up_at_its_end_fires_again_and_then_not() {
    let machine = machine(EoiMode::Combined);
    machine.model.line(40).assert();
    assert_eq!(machine.take(0), Some(40));
    assert_eq!(machine.take(0), Some(40));
    machine.model.line(40).deassert();
    assert_eq!(machine.take(0), None);
}

#[test]
fn a_deferred_interrupt_lets_others_through_and_is_completed_from_any_cpu() {
    let machine = machine(EoiMode::Split);
    machine.model.line(40).assert();
    let (irq, active) = machine.ack(0).unwrap();
    machine
        .sim
        .as_cpu(0, |_| machine.gic.defer(active))
        .unwrap();
    assert!(machine.gic.state(irq).unwrap().active);
    assert_eq!(machine.model.priorities(0).1, None);
    // It is not delivered again while it is active, and others are.
    assert!(!machine.model.signalled(0));
    machine.model.line(41).assert();
    let (other, second) = machine.ack(0).unwrap();
    machine.model.line(41).deassert();
    machine.end(0, second);
    assert_eq!(other, machine.irq(41));
    let trace = machine.trace(|| {
        machine
            .sim
            .as_cpu(1, |_| machine.gic.complete(irq))
            .unwrap();
    });
    assert_eq!(trace.stored(icc(1), ICC_DIR_EL1), [40]);
    assert_eq!(trace.accesses(), 1);
    assert!(machine.model.signalled(0), "the line is still up");
}

#[test]
fn deferring_with_the_combined_mode_is_refused_and_writes_nothing() {
    let machine = machine(EoiMode::Combined);
    machine.model.line(40).assert();
    let (irq, active) = machine.ack(0).unwrap();
    let trace = machine.trace(|| {
        let refused = machine.gic.defer(active).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Unsupported));
        let refused = machine.gic.hand_over(active).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Unsupported));
        let refused = machine.gic.complete(irq).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Unsupported));
    });
    assert_eq!(trace.accesses(), 0, "{trace}");
    machine.model.line(40).deassert();
    machine.end(0, active);
    assert!(!machine.model.source(40).active);
}

#[test]
fn an_interrupt_that_is_handed_over_stays_active_until_a_guest_ends_it() {
    let machine = machine(EoiMode::Split);
    machine.model.line(40).assert();
    let (_, active) = machine.ack(0).unwrap();
    let trace = machine.trace(|| machine.gic.hand_over(active).unwrap());
    assert_eq!(trace.stored(icc(0), ICC_EOIR1_EL1), [40]);
    assert_eq!(trace.accesses(), 1);
    assert!(machine.model.source(40).active);
    assert_eq!(machine.model.priorities(0).1, None);
}

#[test]
fn an_end_first_interrupt_can_be_taken_again_inside_its_own_action() {
    let machine = machine(EoiMode::Combined);
    let sgi = Sgi::new(2).unwrap();
    machine.gic.unmask(machine.irq(2)).unwrap();
    machine.gic.send_sgi(sgi, CpuIndex::new(0)).unwrap();
    for _ in 0..3 {
        let (irq, active) = machine.ack(0).unwrap();
        assert_eq!(machine.gic.intid(irq), Ok(IntId::from(sgi)));
        machine.end(0, active);
        machine.gic.send_sgi(sgi, CpuIndex::new(0)).unwrap();
    }
}

#[test]
fn counting_for_a_cpu_that_cannot_be_is_an_error() {
    let machine = machine(EoiMode::Combined);
    let cpu = CpuIndex::new(2);
    assert_eq!(machine.gic.counts(cpu), Err(Error::NoSuchCpu { cpu }));
}

#[test]
fn what_was_done_to_the_device_comes_before_the_end_of_a_deferred_interrupt() {
    let machine = machine(EoiMode::Split);
    let irq = machine.irq(40);
    machine.gic.unmask(irq).unwrap();
    let line = machine.model.line(40);
    line.assert();
    let (_, active) = machine.ack(0).unwrap();
    machine
        .sim
        .as_cpu(0, |_| machine.gic.defer(active))
        .unwrap();
    line.deassert();
    let trace = machine.trace(|| {
        machine
            .sim
            .as_cpu(0, |_| machine.gic.complete(irq))
            .unwrap();
    });
    assert_eq!(trace.barriers(Fence::Complete), 1, "{trace}");
    assert_eq!(trace.barriers(Fence::Synchronize), 1, "{trace}");
    assert_eq!(trace.stores(icc(0)), 1, "{trace}");
}

#[test]
fn a_private_interrupt_is_completed_on_the_cpu_that_asks() {
    let machine = machine(EoiMode::Split);
    let timer = IntId::ppi(11).unwrap();
    machine.gic.unmask_private(timer).unwrap();
    let irqs = [0, 1].map(|cpu| {
        let line = machine.model.private_line(cpu, 27);
        line.assert();
        let (irq, active) = machine.ack(cpu).unwrap();
        line.deassert();
        machine
            .sim
            .as_cpu(cpu, |_| machine.gic.defer(active))
            .unwrap();
        irq
    });
    let active = || [0, 1].map(|cpu| machine.model.private_source(cpu, 27).active);
    assert_eq!(active(), [true, true]);
    machine
        .sim
        .as_cpu(1, |_| machine.gic.complete(irqs[1]))
        .unwrap();
    assert_eq!(active(), [true, false]);
}
