// SPDX-License-Identifier: MIT OR Apache-2.0
//! A local APIC comes up whatever firmware, or the kernel before, left behind.

use irq_hal::{CpuIndex, Error};
use irq_sim::apic::{ApicBuilder, ApicModel, Lock, Mode};
use irq_sim::log::{Event, Trace};
use irq_sim::{SimPlatform, apic::msr};
use irq_tests::x2apic::{Machine, id, lapic, probe_as, vector, with_ipi};
use irq_x2apic::apic::{Counts, Delivery, Pin};
use irq_x2apic::local_apic::SendOrder;
use irq_x2apic::regs::apic::*;
use irq_x2apic::regs::lvt::{Lvt, Polarity};
use irq_x2apic::{Config, Description, LocalApic, Pics, ProbeError};

const EN: u64 = 1 << 11;
const EXTD: u64 = 1 << 10;
const BSP: u64 = 1 << 8;
const MASK: u64 = 1 << 16;

fn cpu(index: u32) -> CpuIndex {
    CpuIndex::new(index)
}

/// What was written to `IA32_APIC_BASE` of `cpu`.
fn bases(trace: &Trace, cpu: u32) -> Vec<u64> {
    trace.stored(lapic(cpu), IA32_APIC_BASE)
}

/// The stores of `cpu`, in order.
fn stores(trace: &Trace, cpu: u32) -> Vec<(usize, u64)> {
    let store = |event: &Event| match event {
        Event::Store(access) if access.unit == lapic(cpu) => Some((access.offset, access.value)),
        _ => None,
    };
    trace.events().iter().filter_map(store).collect()
}

fn entries(trace: &Trace, cpu: u32) -> impl Iterator<Item = (usize, u64)> {
    let is_entry = |(register, _): &(usize, u64)| Lvt::ALL.iter().any(|l| l.msr() == *register);
    stores(trace, cpu).into_iter().filter(is_entry)
}

#[test]
fn every_legal_mode_leads_to_x2apic_mode_by_legal_transitions_alone() {
    let base = 0xfee0_0000;
    for (mode, wanted) in [
        (Mode::Disabled, vec![EN, EN | EXTD]),
        (Mode::Xapic, vec![EN | EXTD]),
        (Mode::X2apic, vec![]),
    ] {
        let machine = Machine::cold(2, |builder| builder.mode(mode), with_ipi());
        for (cpu, bsp) in [(0, BSP), (1, 0)] {
            let trace = machine.trace(|| machine.online(cpu).unwrap());
            let wanted: Vec<_> = wanted.iter().map(|bits| base | bsp | bits).collect();
            assert_eq!(bases(&trace, cpu), wanted, "{mode:?} cpu{cpu}");
            assert_eq!(machine.model.mode(cpu), Mode::X2apic);
        }
    }
}

#[test]
fn cpus_may_be_handed_over_in_different_modes() {
    let change = |builder: ApicBuilder| {
        builder
            .handed_over(1, Mode::Disabled)
            .handed_over(2, Mode::X2apic)
    };
    let machine = Machine::with(3, change, with_ipi());
    assert!((0..3).all(|cpu| machine.model.mode(cpu) == Mode::X2apic));
}

#[test]
fn x2apic_mode_is_never_left_locked_or_not() {
    for lock in [Lock::Absent, Lock::Unsupported, Lock::Open, Lock::Locked] {
        let change = |builder: ApicBuilder| builder.mode(Mode::X2apic).lock(lock);
        let machine = Machine::cold(1, change, with_ipi());
        assert_eq!(machine.apic.locked(), lock == Lock::Locked);
        let trace = machine.trace(|| {
            machine.online(0).unwrap();
            machine.offline(0).unwrap();
            machine.online(0).unwrap();
        });
        assert_eq!(bases(&trace, 0), []);
    }
}

#[test]
fn a_block_alone_comes_into_x2apic_mode_without_irq_core() {
    let sim = SimPlatform::new(1);
    let model = ApicModel::builder(&sim).mode(Mode::Disabled).build();
    let found = LocalApic::new(model.msrs(), SendOrder::Fenced);
    assert_eq!(found.mode(), Some(irq_x2apic::mode::Mode::Disabled));
    let apic = found.enter().map_err(|(_, error)| error).unwrap();
    assert_eq!(apic.id(), Ok(id(0)));
    assert_eq!(apic.max_lvt(), 6);
}

#[test]
fn a_probe_touches_nothing() {
    for mode in [Mode::Disabled, Mode::Xapic, Mode::X2apic] {
        let sim = SimPlatform::new(1);
        let model = ApicModel::builder(&sim).mode(mode).build();
        let trace = {
            let mark = sim.log().mark();
            probe_as(&model, Description::new(Pics::absent()), with_ipi()).unwrap();
            sim.log().since(mark)
        };
        assert_eq!(trace.stores(lapic(0)), 0, "{trace}");
        assert_eq!(model.mode(0), mode);
        assert_eq!(sim.relaxes(0), 0);
    }
}

fn refused(
    change: impl FnOnce(ApicBuilder) -> ApicBuilder,
    description: Description<'_>,
    config: Config,
) -> Option<ProbeError> {
    let sim = SimPlatform::new(2);
    let model = change(ApicModel::builder(&sim)).build();
    let before = model.register(0, IA32_APIC_BASE);
    let error = probe_as(&model, description, config).err();
    assert_eq!(sim.log().all().stores(lapic(0)), 0);
    assert_eq!(model.register(0, IA32_APIC_BASE), before);
    error
}

const PLAIN: Description<'static> = Description::new(Pics::absent());

#[test]
fn machines_without_x2apic_mode_are_reported_untouched() {
    let xapic = refused(|builder| builder.x2apic(false), PLAIN, with_ipi());
    assert_eq!(xapic, Some(ProbeError::XapicOnly));
    let off = |builder: ApicBuilder| builder.x2apic(false).mode(Mode::Disabled);
    assert_eq!(refused(off, PLAIN, with_ipi()), Some(ProbeError::NoApic));
}

#[test]
fn firmwares_wish_for_xapic_mode_counts_unless_x2apic_mode_is_there_already() {
    let wish = Description {
        opt_out: true,
        ..PLAIN
    };
    let xapic = refused(|builder| builder, wish, with_ipi());
    assert_eq!(xapic, Some(ProbeError::OptedOut));
    let open = |builder: ApicBuilder| builder.lock(Lock::Open);
    assert_eq!(refused(open, wish, with_ipi()), Some(ProbeError::OptedOut));
    for lock in [Lock::Open, Lock::Locked] {
        let on = |builder: ApicBuilder| builder.mode(Mode::X2apic).lock(lock);
        assert_eq!(refused(on, wish, with_ipi()), None);
    }
}

#[test]
fn descriptions_that_cannot_be_are_refused_with_the_id() {
    let ids = [id(3), id(0), id(3)];
    let twice = refused(|builder| builder, PLAIN.with_cpus(&ids), with_ipi());
    assert_eq!(twice, Some(ProbeError::SameId { id: 3 }));
    let ids = [id(7), id(3)];
    let absent = refused(|builder| builder, PLAIN.with_cpus(&ids), with_ipi());
    assert_eq!(absent, Some(ProbeError::BootCpu { id: 0 }));
    // The boot CPU need be neither first nor 0.
    let ids = [id(7), id(0x30)];
    let last = |builder: ApicBuilder| builder.ids([0x30, 7]);
    assert_eq!(refused(last, PLAIN.with_cpus(&ids), with_ipi()), None);
}

#[test]
fn the_boot_cpus_id_is_not_taken_from_a_leaf_that_is_not_there() {
    // A hypervisor's CPU whose last leaf is 0DH answers leaf 1FH with that one's words.
    let sim = SimPlatform::new(1);
    let change = ApicModel::builder(&sim).ids([300]).mode(Mode::X2apic);
    let model = change.max_leaf(0xd).build();
    let ids = [id(300)];
    probe_as(&model, PLAIN.with_cpus(&ids), with_ipi()).unwrap();
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let with = |config| refused(|builder| builder, PLAIN, config);
    let none = Config {
        cpus: Some(0),
        ..with_ipi()
    };
    assert_eq!(with(none), Some(ProbeError::NoCpus));
    let base = Config {
        base: irq_core::Irq::new(u32::MAX - 222),
        ..with_ipi()
    };
    let fits = Config {
        base: irq_core::Irq::new(u32::MAX - 223),
        ..with_ipi()
    };
    assert_eq!(
        with(base),
        Some(ProbeError::Base {
            base: u32::MAX - 222,
            count: 224
        })
    );
    assert_eq!(with(fits), None);
}

#[test]
fn a_vector_that_is_an_exception_or_has_two_purposes_is_refused_with_its_purpose() {
    let with = |config| match refused(|builder| builder, PLAIN, config) {
        Some(ProbeError::Vector { what, vector }) => (what, vector),
        other => panic!("{other:?}"),
    };
    let exception = Config {
        spurious: vector(0x1f),
        ..with_ipi()
    };
    assert_eq!(with(exception), ("spurious interrupts", 0x1f));
    let same = Config {
        ipi: Some(vector(0xec)),
        ..with_ipi()
    };
    assert_eq!(with(same), ("timer", 0xec));
    let sensor = Config {
        thermal: Some(Delivery::Vector(vector(0xff))),
        ..with_ipi()
    };
    assert_eq!(with(sensor), ("thermal", 0xff));
    let pin = Config {
        lint: [
            Pin::Masked,
            Pin::Vector {
                vector: vector(0xfd),
                trigger: irq_core::Trigger::Level,
                polarity: Polarity::High,
            },
        ],
        ..with_ipi()
    };
    assert_eq!(with(pin), ("LINT1", 0xfd));
}

#[test]
fn a_bring_up_goes_through_its_steps_in_order() {
    let config = Config {
        lint: [Pin::Masked, Pin::Nmi(Polarity::High)],
        ..with_ipi()
    };
    let machine = Machine::cold(
        1,
        |builder| builder.mode(Mode::X2apic).stale_isr(0, &[0x41]),
        config,
    );
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    let trace = machine.trace(|| machine.online(0).unwrap());
    let filler = MASK | 0xff;
    let wanted = [
        (IA32_X2APIC_INIT_COUNT, 0),
        (IA32_TSC_DEADLINE, 0),
        (IA32_X2APIC_DIV_CONF, 0xb),
        (IA32_X2APIC_TPR, 0),
        (IA32_X2APIC_LVT_TIMER, filler),
        (IA32_X2APIC_LVT_LINT0, filler),
        (IA32_X2APIC_LVT_LINT1, filler),
        (IA32_X2APIC_LVT_ERROR, filler),
        (IA32_X2APIC_LVT_PMI, filler),
        (IA32_X2APIC_LVT_THERMAL, filler),
        (IA32_X2APIC_LVT_CMCI, filler),
        (IA32_X2APIC_EOI, 0),
        (IA32_X2APIC_ESR, 0),
        (IA32_X2APIC_SIVR, 0x1ff),
        (IA32_X2APIC_LVT_ERROR, 0xfe),
        (IA32_X2APIC_LVT_TIMER, 0xec),
        (IA32_X2APIC_LVT_LINT1, 0x4ff),
    ];
    assert_eq!(stores(&trace, 0), wanted, "{trace}");
}

#[test]
fn only_entries_that_exist_are_touched() {
    for max_lvt in 3..=6 {
        let config = Config {
            perf: Some(Delivery::Vector(vector(0xf0))),
            thermal: Some(Delivery::Vector(vector(0xf1))),
            cmci: Some(vector(0xf2)),
            ..with_ipi()
        };
        let machine = Machine::with(1, |builder| builder.max_lvt(max_lvt), config);
        // Those that there are not are vectors like others: nothing masks them.
        for (vector, lvt) in [(0xf0, Lvt::Perf), (0xf1, Lvt::Thermal), (0xf2, Lvt::Cmci)] {
            let masked = irq_core::Lines::mask(&machine.apic, machine.irq(vector));
            assert_eq!(masked.is_ok(), lvt.exists(max_lvt), "{lvt:?} {max_lvt}");
        }
        machine.offline(0).unwrap();
    }
}

#[test]
fn interrupts_in_service_at_hand_over_are_ended_and_counted() {
    // Two classes, two of one class, and more than one word.
    let all = [0x20, 0x41, 0x42, 0x80, 0xef, 0xfe];
    let machine = Machine::with(
        2,
        |builder| builder.mode(Mode::X2apic).stale_isr(1, &all),
        with_ipi(),
    );
    assert_eq!(machine.model.isr(1), []);
    let counts = |cpu: u32| machine.apic.counts(CpuIndex::new(cpu)).unwrap();
    assert_eq!(counts(1).leftovers, 6);
    assert_eq!(counts(0), Counts::default());
    // A vector of any class is delivered again.
    assert!(machine.model.raise(1, 0x21, false));
    assert_eq!(machine.drain(1), [0x21]);
}

#[test]
fn interrupts_that_wait_at_hand_over_are_taken_and_ended() {
    let machine = Machine::with(
        1,
        |builder| builder.stale_irr(0, &[0x37, 0x55]).stale_isr(0, &[0x55]),
        with_ipi(),
    );
    assert_eq!(machine.drain(0), [0x55, 0x37]);
    assert_eq!(machine.model.isr(0), []);
}

#[test]
fn a_task_priority_of_the_kernel_before_masks_nothing() {
    let machine = Machine::with(
        1,
        |builder| builder.left(0, msr::IA32_X2APIC_TPR, 0xf0),
        with_ipi(),
    );
    assert!(machine.model.raise(0, 0x20, false));
    assert_eq!(machine.take(0), Some(0x20));
}

#[test]
fn a_timer_that_firmware_armed_fires_no_more() {
    for (entry, register, value) in [
        (0x40, msr::IA32_X2APIC_INIT_COUNT, 5),
        (0x2_0040, msr::IA32_X2APIC_INIT_COUNT, 5),
        (0x4_0040, msr::IA32_TSC_DEADLINE, 0x1010),
    ] {
        let change = |builder: ApicBuilder| {
            builder
                .left(0, msr::IA32_X2APIC_SIVR, 0x1ff)
                .left(0, msr::IA32_X2APIC_LVT_TIMER, entry)
                .left(0, register, value)
        };
        let machine = Machine::cold(1, change, with_ipi());
        machine.apic.unmask_private(machine.irq(0xec)).unwrap();
        machine.online(0).unwrap();
        machine.model.advance(1000);
        assert_eq!(machine.model.pending(0), None, "{entry:#x}");
    }
}

#[test]
fn a_pc_as_its_firmware_leaves_it_comes_up() {
    let sim = SimPlatform::new(2);
    let model = ApicModel::builder(&sim).firmware().build();
    let pics = irq_x2apic::pic::Pics8259::new(model.ports());
    sim.set_masked(0, true);
    let silent = pics.shut_down(vector(0x20)).unwrap();
    let apic = probe_as(&model, Description::new(silent.silent()), with_ipi()).unwrap();
    let machine = Machine { sim, model, apic };
    machine.online(0).unwrap();
    assert_eq!(
        machine.model.register(0, IA32_X2APIC_LVT_LINT0),
        MASK | 0xff
    );
    assert_eq!(
        machine.model.register(0, IA32_X2APIC_LVT_LINT1),
        MASK | 0xff
    );
}

#[test]
fn an_index_and_an_id_are_bound_once() {
    let machine = Machine::cold(3, |builder| builder.ids([4, 2, 9]), with_ipi());
    machine.online(1).unwrap();
    assert_eq!(machine.online(1), Err(Error::CpuIsOnline { cpu: cpu(1) }));
    // The id must be the running CPU's own.
    let wrong = machine.on(0, |on| machine.apic.cpu_online(on, id(2)));
    assert_eq!(
        wrong,
        Err(Error::Refused {
            register: "IA32_X2APIC_APICID",
            value: 4
        })
    );
    let offline = Err(Error::CpuOffline { cpu: cpu(0) });
    assert_eq!(machine.apic.id(cpu(0)), offline);
    // The call can be repeated.
    machine.online(0).unwrap();
    assert_eq!(machine.apic.id(cpu(0)), Ok(id(4)));
    assert_eq!(machine.apic.id(cpu(1)), Ok(id(2)));
    assert_eq!(
        machine.apic.id(cpu(3)),
        Err(Error::NoSuchCpu { cpu: cpu(3) })
    );
}

#[test]
fn an_index_that_is_not_possible_is_refused_before_anything_is_touched() {
    let config = Config {
        cpus: Some(2),
        ..with_ipi()
    };
    let machine = Machine::cold(3, |builder| builder, config);
    let trace = machine.trace(|| {
        assert_eq!(machine.online(2), Err(Error::NoSuchCpu { cpu: cpu(2) }));
    });
    assert_eq!(trace.events(), []);
}

#[test]
fn offline_masks_everything_disarms_the_timer_and_disables_by_software() {
    let config = Config {
        lint: [Pin::Masked, Pin::Nmi(Polarity::High)],
        ..with_ipi()
    };
    let machine = Machine::with(1, |builder| builder, config);
    machine.apic.unmask_private(machine.irq(0xec)).unwrap();
    machine.on(0, |on| {
        let timer = machine.apic.timer(on).unwrap();
        timer.deadline(machine.model.tsc() + 100).unwrap();
    });
    let trace = machine.trace(|| machine.offline(0).unwrap());
    assert!(entries(&trace, 0).all(|(_, entry)| entry & MASK != 0));
    assert_eq!(entries(&trace, 0).count(), 7);
    assert_eq!(machine.model.register(0, IA32_TSC_DEADLINE), 0);
    assert_eq!(machine.model.register(0, IA32_X2APIC_SIVR), 0xff);
    machine.model.advance(1000);
    assert_eq!(machine.model.pending(0), None);
    assert!(!machine.model.raise(0, 0x40, false));
    assert_eq!(machine.offline(0), Err(Error::CpuOffline { cpu: cpu(0) }));
    let gone = |on: &irq_hal::percpu::OnCpu| machine.apic.timer(on).map(drop);
    assert_eq!(machine.on(0, gone), Err(Error::CpuOffline { cpu: cpu(0) }));
    // A count is stopped as a deadline is.
    machine.online(0).unwrap();
    machine.on(0, |on| machine.apic.timer(on).unwrap().one_shot(1000));
    machine.offline(0).unwrap();
    assert_eq!(machine.model.register(0, IA32_X2APIC_CUR_COUNT), 0);
    // And back, as before.
    machine.online(0).unwrap();
    assert_eq!(machine.model.register(0, IA32_X2APIC_LVT_TIMER), 0xec);
    assert_eq!(machine.model.register(0, IA32_X2APIC_LVT_LINT1), 0x4ff);
}

#[test]
fn cpus_come_online_and_go_on_threads_at_once() {
    let machine = Machine::cold(8, |builder| builder.ids((0..8).map(|n| n * 24)), with_ipi());
    std::thread::scope(|scope| {
        for cpu in 0..8 {
            let machine = &machine;
            scope.spawn(move || {
                for _ in 0..20 {
                    machine.online(cpu).unwrap();
                    machine.offline(cpu).unwrap();
                }
                machine.online(cpu).unwrap();
            });
        }
    });
    let found = (0..8).map(|n| machine.apic.id(cpu(n)).unwrap().get());
    assert!(found.eq((0..8).map(|n| n * 24)));
}
