// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implementations that get something wrong, each with its workaround and without it.

use irq_core::{Flow, Kick, Lines};
use irq_gicv3::gic::Counts;
use irq_gicv3::quirks::{Effects, Machine as Facts};
use irq_gicv3::regs::icc::{ICC_DIR_EL1, ICC_EOIR1_EL1};
use irq_gicv3::{Config, Description, EoiMode, Gic, IntId, Mpidr, Sgi};
use irq_hal::{CpuIndex, Error};
use irq_sim::SimPlatform;
use irq_sim::gic::{Affinity, GicBuilder, GicModel, Region};
use irq_sim::log::{Event, Fence, Unit};
use irq_tests::gicv3::{IPI, Machine, cpu_set, describe, icc, mpidrs, with_ipi};

/// A machine about which firmware says `facts`.
fn machine(
    cpus: u32,
    change: impl FnOnce(GicBuilder) -> GicBuilder,
    facts: Facts<'_>,
    config: Config<'_>,
) -> Machine {
    let sim = SimPlatform::new(cpus);
    let model = change(GicModel::builder(&sim)).build();
    let named = mpidrs(&model);
    let description = Description {
        machine: facts,
        ..describe(&model, &named)
    };
    let gic = Gic::probe(sim.clone(), description, model.sysregs(), config).unwrap();
    let machine = Machine { sim, model, gic };
    (0..cpus).for_each(|cpu| machine.online(cpu).unwrap());
    machine
}

fn plain() -> Config<'static> {
    Config::default()
}

fn compatible<'a>(names: &'a [&'a str]) -> Facts<'a> {
    Facts {
        compatible: names,
        ..Facts::default()
    }
}

#[test]
fn typer2_is_not_read_where_it_aborts_and_only_on_v4() {
    let cavium = Machine::with(1, |builder| builder.arch(4).cavium_38539(), plain());
    assert_eq!(cavium.gic.distributor().typer2(), None);
    let v4 = Machine::with(1, |builder| builder.arch(4).typer2(0x8f), plain());
    assert_eq!(v4.gic.distributor().typer2(), Some(0x8f));
    let v3 = Machine::new(1);
    assert_eq!(v3.gic.distributor().typer2(), None);
    for machine in [cavium, v3] {
        let reads = machine.sim.log().all().filter(|event| {
            matches!(event, Event::Load(access)
                if access.unit == Unit::Gicd && access.offset == 0xc)
        });
        assert!(reads.events().is_empty());
    }
}

#[test]
fn a_stale_acknowledge_is_spurious() {
    // A ThunderX CPU.
    let facts = Facts {
        midr: Some(0x430f_0a10),
        ..Facts::default()
    };
    let machine = machine(1, |builder| builder.cavium_23154(), facts, plain());
    machine.gic.unmask(machine.irq(40)).unwrap();
    machine.model.line(40).assert();
    let (irq, active) = machine.ack(0).unwrap();
    assert_eq!(irq, machine.irq(40));
    machine.model.line(40).deassert();
    machine.end(0, active);
    // The interface repeats 40 now.
    assert_eq!(machine.ack(0), None);
    let counts = machine.gic.counts(CpuIndex::new(0)).unwrap();
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
fn extended_spis_that_are_not_there_are_not_touched() {
    for hip in [GicBuilder::hip06, GicBuilder::hip07] {
        let machine = Machine::with(1, hip, plain());
        assert!(machine.gic.effects().contains(Effects::NO_ESPI));
        assert_eq!(machine.gic.irq(IntId::espi(0).unwrap()), None);
    }
    // The identity of HIP06 is also that of a GIC-600 without extended SPIs.
    let machine = Machine::with(1, |builder| builder.gicd_iidr(0x0204_043b), plain());
    assert_eq!(machine.gic.irqs().count(), 32 + 224);
}

#[test]
fn a_vetoed_quirk_does_not_count() {
    let config = Config {
        veto_quirks: &["Hisilicon 161010803 HIP06"],
        ..plain()
    };
    let machine = Machine::with(
        1,
        |builder| builder.gicd_iidr(0x0204_043b).espis(32),
        config,
    );
    assert!(machine.gic.irq(IntId::espi(31).unwrap()).is_some());
}

fn gic700(eoi_mode: EoiMode) -> Machine {
    let config = Config {
        eoi_mode,
        ..plain()
    };
    let machine = Machine::with(2, |builder| builder.gic700().espis(32), config);
    for intid in [40, 4100] {
        machine.gic.unmask(machine.irq(intid)).unwrap();
    }
    machine
}

#[test]
fn an_spi_that_moved_while_active_is_deactivated_in_the_distributor() {
    for (mode, intid, register) in [
        (EoiMode::Combined, 40, 0x384),
        (EoiMode::Split, 40, 0x384),
        (EoiMode::Combined, 4100, 0x1c00),
        (EoiMode::Split, 4100, 0x1c00),
    ] {
        let machine = gic700(mode);
        machine.model.line(intid).assert();
        let (irq, active) = machine.ack(0).unwrap();
        machine
            .gic
            .set_route(irq, Mpidr::new(machine.model.mpidr(1)))
            .unwrap();
        machine.model.line(intid).deassert();
        let trace = machine.trace(|| machine.end(0, active));
        assert!(!machine.model.source(intid).active, "{mode:?} {intid}");
        assert_eq!(trace.stored(Unit::Gicd, register), [1 << (intid % 32)]);
        assert!(trace.stored(icc(0), ICC_DIR_EL1).is_empty());
        // EOIR, isb, dsb sy, then the distributor.
        let order: Vec<_> = trace
            .events()
            .iter()
            .filter_map(|event| match event {
                Event::Store(access) if access.offset == ICC_EOIR1_EL1 => Some("eoir"),
                Event::Store(access) if access.unit == Unit::Gicd => Some("icactiver"),
                Event::Barrier {
                    fence: Fence::Synchronize,
                    ..
                } => Some("isb"),
                Event::Barrier {
                    fence: Fence::Complete,
                    ..
                } => Some("dsb"),
                _ => None,
            })
            .collect();
        assert_eq!(order, ["dsb", "isb", "eoir", "isb", "dsb", "icactiver"]);
    }
}

#[test]
fn an_spi_that_stayed_is_ended_by_the_interface_alone() {
    for mode in [EoiMode::Combined, EoiMode::Split] {
        let machine = gic700(mode);
        machine.model.line(40).assert();
        let (_, active) = machine.ack(0).unwrap();
        machine.model.line(40).deassert();
        let trace = machine.trace(|| machine.end(0, active));
        assert_eq!(trace.stores(Unit::Gicd), 0);
        assert!(!machine.model.source(40).active);
        assert_eq!(machine.model.lost_deactivations(), 0);
    }
}

#[test]
fn an_spi_that_is_completed_elsewhere_is_deactivated_in_the_distributor() {
    let machine = gic700(EoiMode::Split);
    machine.model.line(40).assert();
    let (irq, active) = machine.ack(0).unwrap();
    machine.gic.defer(active).unwrap();
    machine.model.line(40).deassert();
    let trace = machine.trace(|| {
        machine
            .sim
            .as_cpu(1, |_| machine.gic.complete(irq))
            .unwrap()
    });
    assert_eq!(trace.stored(Unit::Gicd, 0x384), [1 << 8]);
    assert!(trace.stored(icc(1), ICC_DIR_EL1).is_empty());
    assert!(!machine.model.source(40).active);
}

#[test]
fn private_interrupts_of_a_gic700_take_the_plain_path() {
    let machine = gic700(EoiMode::Split);
    machine.gic.unmask(machine.irq(27)).unwrap();
    machine.model.private_line(0, 27).assert();
    let (_, active) = machine.ack(0).unwrap();
    machine.model.private_line(0, 27).deassert();
    let trace = machine.trace(|| machine.end(0, active));
    assert_eq!(
        (trace.mmio(), trace.stored(icc(0), ICC_DIR_EL1)),
        (0, vec![27])
    );
}

#[test]
fn the_state_of_an_spi_is_read_through_the_owning_chips_alias_or_not_at_all() {
    const T241: u32 = 0x0402_043b;
    let facts = Facts {
        soc_id: Some(0x036b_0241),
        ..Facts::default()
    };
    let sim = SimPlatform::new(1);
    let build = || GicModel::builder(&sim).spis(960).gicd_iidr(T241).build();
    // Without aliases the driver does not believe what it would read.
    let model = build();
    let description = Description {
        machine: facts,
        ..describe(&model, &[])
    };
    let gic = Gic::probe(sim.clone(), description, model.sysregs(), plain()).unwrap();
    let irq = gic.irq(IntId::spi(400).unwrap()).unwrap();
    assert!(matches!(gic.state(irq), Err(Error::Unsupported { .. })));
    assert!(gic.unmask(irq).is_ok());
    assert!(gic.snapshot().to_string().contains("T241"));
    // With them each SPI is read where it lives: chip 1 has INTID 432.
    let model = build();
    let chips: Vec<_> = (0..4).map(|_| build()).collect();
    let description = Description {
        machine: facts,
        state_aliases: chips.iter().map(|chip| chip.gicd()).collect(),
        ..describe(&model, &[])
    };
    let gic = Gic::probe(sim.clone(), description, model.sysregs(), plain()).unwrap();
    irq_hal::Bus::<u32>::store(&chips[1].gicd(), 0x200 + 432 / 32 * 4, 1 << (432 % 32));
    assert!(gic.state(irq).unwrap().pending);
    let near = gic.irq(IntId::spi(0).unwrap()).unwrap();
    assert!(!gic.state(near).unwrap().pending);
    // Another SoC with the same distributor is no T241.
    let model = build();
    let gic = irq_tests::gicv3::probe(&model, plain()).unwrap();
    assert!(gic.state(irq).is_ok());
}

#[test]
fn a_t241_of_few_chips_that_says_so_reads_the_state_of_spis_itself() {
    for (chips, lies) in [
        (None, true),
        (Some(1), false),
        (Some(2), false),
        (Some(3), true),
    ] {
        let facts = Facts {
            soc_id: Some(0x036b_0241),
            chips,
            ..Facts::default()
        };
        let machine = machine(1, |builder| builder.gicd_iidr(0x0402_043b), facts, plain());
        let state = machine.gic.state(machine.irq(40));
        assert_eq!(state.is_err(), lies, "{chips:?}: {state:?}");
        let aliased = Effects::STATE_ALIASED | Effects::NO_V4;
        assert_eq!(machine.gic.effects().contains(aliased), lies, "{chips:?}");
    }
}

#[test]
fn a_firmware_that_left_ds_clear_gets_it_set_before_anything_is_configured() {
    let machine = machine(
        1,
        |builder| builder.rk3399(),
        compatible(&["rockchip,rk3399"]),
        plain(),
    );
    assert!(machine.gic.distributor().features().one_security_state);
    machine.gic.unmask(machine.irq(40)).unwrap();
    machine.model.line(40).assert();
    assert_eq!(machine.take(0), Some(40));
}

#[test]
fn a_wake_up_that_hangs_is_not_tried() {
    let facts = compatible(&["qcom,msm8996-gic-v3", "arm,gic-v3"]);
    let machine = machine(1, |builder| builder.msm8996(), facts, plain());
    machine.offline(0).unwrap();
    let seen = machine.sim.log().all();
    assert!(seen.stored(Unit::Gicr(0), 0x14).is_empty());
}

#[test]
fn a_firmware_that_loses_priorities_forbids_pseudo_nmis_and_is_repaired_at_online() {
    let facts = Facts {
        properties: &["mediatek,broken-save-restore-fw"],
        ..Facts::default()
    };
    let machine = machine(1, |builder| builder.mediatek(), facts, plain());
    assert!(!machine.gic.pseudo_nmi_possible());
    assert!(Machine::new(1).gic.pseudo_nmi_possible());
    let priority = machine.model.private_source(0, 27).priority;
    machine.offline(0).unwrap();
    assert_ne!(machine.model.private_source(0, 27).priority, priority);
    machine.online(0).unwrap();
    assert_eq!(machine.model.private_source(0, 27).priority, priority);
}

#[test]
fn shifted_affinities_are_moved_down_for_finding_routing_and_sending() {
    let all = [Affinity::new(0, 0, 0, 0), Affinity::new(0, 0, 1, 2)];
    let facts = compatible(&["asr,asr8601-gic-v3"]);
    let machine = machine(
        2,
        |builder| builder.affinities(all).asr8601(),
        facts,
        with_ipi(),
    );
    let to = Mpidr::new(machine.model.mpidr(1));
    assert_eq!(to.get(), 0x1_0200);
    machine.gic.set_route(machine.irq(40), to).unwrap();
    assert_eq!(machine.model.source(40).route, 0x102);
    machine.gic.unmask_private(IntId::sgi(1).unwrap()).unwrap();
    machine
        .gic
        .send_sgi(Sgi::new(1).unwrap(), CpuIndex::new(1))
        .unwrap();
    assert_eq!(machine.take(1), Some(1));
    let both = cpu_set([0, 1]);
    machine.gic.kick_mask(&both, |_| true).unwrap();
    for cpu in 0..2 {
        assert_eq!(machine.take(cpu), Some(IPI.get().into()));
    }
}

#[test]
fn redistributors_that_show_aff0_alone_are_matched_by_it() {
    let all = [Affinity::new(0, 0, 3, 0), Affinity::new(0, 0, 3, 1)];
    let facts = Facts {
        midr: Some(0x411f_d130),
        ..Facts::default()
    };
    let machine = machine(
        2,
        |builder| {
            builder
                .affinities(all)
                .regions([Region::new().rds([all[1], all[0]])])
                .cortex_r52()
        },
        facts,
        with_ipi(),
    );
    machine.gic.unmask_private(IntId::ppi(11).unwrap()).unwrap();
    machine.model.private_line(1, 27).assert();
    assert_eq!(
        [0, 1].map(|cpu| machine.model.signalled(cpu)),
        [false, true]
    );
    machine.model.private_line(1, 27).deassert();
    // And sent to by all of theirs.
    let both = cpu_set([0, 1]);
    let trace = machine.trace(|| machine.gic.kick_mask(&both, |_| true).unwrap());
    assert_eq!(trace.accesses(), 1);
    for cpu in 0..2 {
        assert_eq!(machine.take(cpu), Some(IPI.get().into()));
    }
}

#[test]
fn plain_hardware_fires_no_quirk() {
    let machine = Machine::with(1, |builder| builder.qemu_virt(), plain());
    assert_eq!(machine.gic.effects(), Effects::empty());
}
