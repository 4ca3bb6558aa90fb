// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second judge: the driver's distributor and redistributor code on QEMU's own GICv3, over
//! its qtest socket. Without a QEMU the tests say so and pass.
#![cfg(unix)]

use irq_core::{LineState, Trigger};
use irq_gicv3::distributor::Setup;
use irq_gicv3::quirks::{Effects, Quirks};
use irq_gicv3::{Distributor, IntId, Mpidr, Priority, RedistributorMap, Route};
use irq_hal::{Bus, Error};
use irq_sim::SimPlatform;
use irq_sim::qtest::{Qtest, QtestBus, QtestError};

const GICD: u64 = 0x0800_0000;
const GICR0: (u64, usize) = (0x080a_0000, 0xf6_0000);
const GICR1: (u64, usize) = (0x40_0000_0000, 0x400_0000);

/// Machine `virt` with `cpus` CPUs, or nothing where there is no QEMU.
fn qemu(cpus: u32) -> Option<(SimPlatform, Qtest)> {
    let sim = SimPlatform::new(cpus);
    match Qtest::virt(&sim) {
        Ok(qemu) => Some((sim, qemu)),
        Err(error @ QtestError::Missing { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn load(bus: &QtestBus, offset: usize) -> u32 {
    bus.load(offset)
}

fn regions(qemu: &Qtest, count: usize) -> Vec<QtestBus> {
    [GICR0, GICR1][..count]
        .iter()
        .map(|&(base, len)| qemu.window(base, len))
        .collect()
}

fn spi(n: u32) -> IntId {
    IntId::spi(n).unwrap()
}

/// The distributor, initialised as the boot CPU of an EL1 kernel does.
fn distributor(sim: &SimPlatform, qemu: &Qtest) -> Distributor<QtestBus> {
    let mut distributor =
        Distributor::new(qemu.window(GICD, 0x1_0000), &Quirks::default()).unwrap();
    let setup = Setup {
        priority: Priority::DEFAULT,
        group0: true,
        route: Mpidr::new(0).route(),
    };
    distributor.init(sim, &setup).unwrap();
    distributor
}

#[test]
fn qemus_distributor_is_what_its_registers_say() {
    let Some((_, qemu)) = qemu(2) else { return };
    let gicd = qemu.window(GICD, 0x1_0000);
    assert_eq!(load(&gicd, 0), 0x50, "DS=1, ARE=1, groups off");
    let distributor = Distributor::new(gicd, &Quirks::default()).unwrap();
    let features = distributor.features();
    assert_eq!(
        (features.revision, features.iidr, features.typer),
        (3, 0x43b, 0x037a_0208)
    );
    assert_eq!((features.spis, features.espis), (256, 0));
    assert!(features.one_security_state && features.aff3);
    assert!(!features.any_cpu && !features.range_selector);
    assert_eq!(features.effects, Effects::empty());
    assert_eq!(distributor.typer2(), None);
}

#[test]
fn qemus_distributor_takes_the_set_up() {
    let Some((sim, qemu)) = qemu(2) else { return };
    let gicd = qemu.window(GICD, 0x1_0000);
    // What somebody left.
    gicd.store(0x104, u32::MAX);
    gicd.store(0xc08, u32::MAX);
    gicd.store(0x420, 0x1122_3344_u32);
    let distributor = distributor(&sim, &qemu);
    assert_eq!(distributor.ctlr(), 0x52);
    for word in 1..=8 {
        assert_eq!(load(&gicd, 0x80 + word * 4), u32::MAX, "IGROUPR{word}");
        assert_eq!(load(&gicd, 0x100 + word * 4), 0, "ISENABLER{word}");
    }
    for word in 2..18 {
        assert_eq!(load(&gicd, 0xc00 + word * 4), 0, "ICFGR{word}");
    }
    for word in 8..72 {
        assert_eq!(
            load(&gicd, 0x400 + word * 4),
            0xc0c0_c0c0,
            "IPRIORITYR{word}"
        );
    }
}

#[test]
fn lines_of_qemus_distributor_obey() {
    let Some((sim, qemu)) = qemu(2) else { return };
    let gicd = qemu.window(GICD, 0x1_0000);
    let distributor = distributor(&sim, &qemu);
    let line = spi(8);
    let state = || distributor.state(line).unwrap();
    // A wire that goes up and down while the line is masked.
    qemu.spi_line(40, true).unwrap();
    assert_eq!(
        state(),
        LineState {
            masked: true,
            pending: true,
            active: false
        }
    );
    qemu.spi_line(40, false).unwrap();
    assert_eq!(
        state(),
        LineState {
            masked: true,
            pending: false,
            active: false
        }
    );
    // Neighbours stay as they are.
    for n in [7, 8, 9] {
        distributor.unmask(&sim, spi(n)).unwrap();
    }
    let mark = sim.log().mark();
    distributor.mask(&sim, line).unwrap();
    assert_eq!(
        sim.log().since(mark).accesses(),
        2,
        "one store, one load of CTLR"
    );
    assert_eq!(load(&gicd, 0x104), 1 << 7 | 1 << 9);
    // An edge is kept.
    distributor.set_trigger(&sim, line, Trigger::Edge).unwrap();
    assert_eq!(load(&gicd, 0xc08), 2 << 16);
    qemu.spi_line(40, true).unwrap();
    qemu.spi_line(40, false).unwrap();
    assert!(state().pending);
    distributor.clear_pending(line).unwrap();
    assert!(!state().pending);
    distributor.set_pending(line).unwrap();
    assert!(state().pending);
    // Route and priority.
    let to = Mpidr::from_affinity(0, 0, 0, 1).route();
    distributor.set_route(&sim, line, to).unwrap();
    assert_eq!(Bus::<u64>::load(&gicd, 0x6000 + 8 * 40), 1);
    assert_eq!(distributor.route(line), Ok(to));
    distributor.set_priority(&sim, line, 0xa5).unwrap();
    assert_eq!(Bus::<u8>::load(&gicd, 0x400 + 40), 0xa5);
    // 1-of-N is not there (QEMU would store the bit).
    let error = distributor.set_route(&sim, line, Route::ANY);
    assert!(matches!(error, Err(Error::Unsupported { .. })));
    assert_eq!(distributor.route(line), Ok(to));
    let error = distributor.unmask(&sim, spi(256));
    assert_eq!(
        error,
        Err(Error::HwirqOutOfRange {
            hwirq: 288,
            last: 287
        })
    );
}

#[test]
fn qemus_redistributors_wake_and_their_private_lines_obey() {
    let Some((sim, qemu)) = qemu(2) else { return };
    let map = RedistributorMap::discover(regions(&qemu, 1), None, &Quirks::default()).unwrap();
    assert_eq!(
        map.affinities().collect::<Vec<_>>(),
        [Mpidr::new(0), Mpidr::new(1)]
    );
    assert_eq!(map.eppis(), 0);
    let gicr = qemu.window(GICR0.0 + 0x2_0000, 0x2_0000);
    assert_eq!(load(&gicr, 0x14), 6, "asleep");
    let asleep = map.find(Mpidr::new(1)).unwrap();
    assert_eq!(
        asleep.features().typer,
        1 << 32 | 0x0100_0001 | 1 << 8 | 1 << 4
    );
    let rd = asleep.wake(&sim).map_err(|(_, error)| error).unwrap();
    assert_eq!(load(&gicr, 0x14), 0);
    rd.reset(&sim, true, 0xc0).unwrap();
    assert_eq!(load(&gicr, 0x1_0080), u32::MAX);
    assert_eq!(load(&gicr, 0x1_0418), 0xc0c0_c0c0);
    let timer = IntId::ppi(11).unwrap();
    qemu.ppi_line(1, 27, true).unwrap();
    assert!(rd.state(timer).unwrap().pending);
    qemu.ppi_line(1, 27, false).unwrap();
    assert!(!rd.state(timer).unwrap().pending);
    rd.unmask(timer).unwrap();
    rd.unmask(IntId::sgi(3).unwrap()).unwrap();
    let mark = sim.log().mark();
    rd.mask(&sim, timer).unwrap();
    assert_eq!(
        sim.log().since(mark).accesses(),
        2,
        "one store, one load of CTLR"
    );
    assert_eq!(load(&gicr, 0x1_0100), 1 << 3);
    rd.set_trigger(&sim, timer, Trigger::Edge).unwrap();
    assert_eq!(load(&gicr, 0x1_0c04) & 3 << 22, 2 << 22);
    rd.set_priority(&sim, timer, 0xa0).unwrap();
    assert_eq!(Bus::<u8>::load(&gicr, 0x1_0400 + 27), 0xa0);
    // CPU 0's redistributor was not touched.
    assert_eq!(load(&qemu.window(GICR0.0, 0x2_0000), 0x14), 6);
    let rd = rd.sleep(&sim).map_err(|(_, error)| error).unwrap();
    assert_eq!(load(&gicr, 0x14), 6);
    rd.wake(&sim).map_err(|(_, error)| error).unwrap();
}

#[test]
fn affinities_of_qemus_cpus_are_found_over_both_regions() {
    // Region 0 ends with redistributor 122.
    let Some((sim, qemu)) = qemu(125) else { return };
    let map = RedistributorMap::discover(regions(&qemu, 2), None, &Quirks::default()).unwrap();
    assert_eq!(map.len(), 125);
    for (cpu, region_base) in [(17, GICR0.0 + 17 * 0x2_0000), (124, GICR1.0 + 0x2_0000)] {
        let mpidr = Mpidr::from_affinity(0, 0, (cpu / 16) as u8, (cpu % 16) as u8);
        let rd = map.find(mpidr).unwrap();
        assert_eq!(rd.features().typer >> 8 & 0xffff, cpu);
        rd.wake(&sim).map_err(|(_, error)| error).unwrap();
        assert_eq!(load(&qemu.window(region_base, 0x2_0000), 0x14), 0);
    }
    let missing = Mpidr::from_affinity(0, 0, 7, 13);
    assert!(matches!(
        map.find(missing).map(|_| ()),
        Err(Error::NoUnitForCpu { .. })
    ));
}
