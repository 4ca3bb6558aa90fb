// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU over its qtest socket. Skipped, with the reason printed, where there is no QEMU.

#![cfg(unix)]

use std::path::Path;

use irq_hal::bus::Extent;
use irq_hal::{Barrier, Bus};
use irq_sim::qtest::{Qtest, QtestBus, QtestError};
use irq_sim::{Fence, SimPlatform, Unit};

const GICD: u64 = 0x0800_0000;
const GICR: u64 = 0x080a_0000;

fn qemu(sim: &SimPlatform) -> Option<Qtest> {
    match Qtest::virt(sim) {
        Ok(qemu) => Some(qemu),
        Err(error @ QtestError::Missing { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn r32(bus: &QtestBus, offset: usize) -> u32 {
    bus.load(offset)
}

fn w32(bus: &QtestBus, offset: usize, value: u32) {
    bus.store(offset, value);
}

#[test]
fn qemu_answers_with_its_own_registers_in_each_width() {
    let sim = SimPlatform::new(2);
    let Some(qemu) = qemu(&sim) else { return };
    let gicd = qemu.window(GICD, 0x1_0000);
    let gicr = qemu.window(GICR, 2 * 0x2_0000);
    assert_eq!((gicd.extent(), gicr.extent()), (0x1_0000, 0x4_0000));
    let mark = sim.log().mark();
    assert_eq!(r32(&gicd, 0), 0x50);
    assert_eq!(r32(&gicd, 0x8), 0x43b);
    assert_eq!(r32(&gicr, 0x14), 6);
    let typer: u64 = gicr.load(0x2_0008);
    assert_eq!(
        (typer >> 32, typer >> 8 & 0xffff, typer >> 4 & 1),
        (1, 1, 1)
    );
    Bus::<u8>::store(&gicd, 0x400 + 40, 0xa5);
    let priority: u8 = gicd.load(0x400 + 40);
    assert_eq!(priority, 0xa5);
    Bus::<u64>::store(&gicd, 0x6000 + 8 * 40, 1);
    assert_eq!(Bus::<u64>::load(&gicd, 0x6000 + 8 * 40), 1);
    gicd.complete();
    let seen = sim.log().since(mark);
    assert_eq!((seen.loads(Unit::Qtest), seen.stores(Unit::Qtest)), (6, 2));
    assert_eq!(seen.barriers(Fence::Complete), 1);
}

#[test]
fn wires_of_qemus_gic_can_be_driven() {
    let sim = SimPlatform::new(2);
    let Some(qemu) = qemu(&sim) else { return };
    let gicd = qemu.window(GICD, 0x1_0000);
    let second = qemu.window(GICR + 0x2_0000, 0x2_0000);
    qemu.spi_line(40, true).unwrap();
    assert_eq!(r32(&gicd, 0x204), 1 << 8);
    qemu.spi_line(40, false).unwrap();
    assert_eq!(r32(&gicd, 0x204), 0, "a level interrupt");
    w32(&gicd, 0xc08, 2 << 16);
    qemu.spi_line(40, true).unwrap();
    qemu.spi_line(40, false).unwrap();
    assert_eq!(r32(&gicd, 0x204), 1 << 8, "an edge is remembered");
    qemu.ppi_line(1, 24, true).unwrap();
    assert_eq!(r32(&second, 0x1_0200), 1 << 24);
}

#[test]
fn a_missing_program_is_an_error_of_its_own() {
    let nowhere = Path::new("/nonexistent/qemu-system-aarch64");
    let error = Qtest::spawn(&SimPlatform::new(1), nowhere, &[]).unwrap_err();
    assert!(matches!(error, QtestError::Missing { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "there is no /nonexistent/qemu-system-aarch64"
    );
}

#[test]
fn a_qemu_that_ends_early_is_reported_with_its_words() {
    let sim = SimPlatform::new(1);
    let Ok(program) = Qtest::program() else {
        println!("skipped: no QEMU");
        return;
    };
    let machine = ["-M", "no-such-machine"].map(Into::into);
    match Qtest::spawn(&sim, &program, &machine) {
        Err(QtestError::Died { stderr, .. }) => assert!(stderr.contains("machine"), "{stderr}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_that_qemu_does_not_know_is_refused() {
    let sim = SimPlatform::new(1);
    let Some(qemu) = qemu(&sim) else { return };
    let error = qemu.command("no_such_command").unwrap_err();
    assert!(matches!(error, QtestError::Refused { .. }), "{error}");
    assert_eq!(
        qemu.command("readl 0x08000000").unwrap(),
        "0x0000000000000050"
    );
}

#[test]
fn an_access_outside_of_a_window_does_not_reach_qemu() {
    let sim = SimPlatform::new(1);
    let Some(qemu) = qemu(&sim) else { return };
    let window = qemu.window(GICD, 0x100);
    let outside = std::panic::catch_unwind(|| r32(&window, 0x100));
    assert!(outside.is_err());
    assert_eq!(sim.log().all().accesses(), 0);
}
