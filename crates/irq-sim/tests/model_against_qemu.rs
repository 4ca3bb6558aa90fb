// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model and QEMU's GIC get the same accesses and must read the same. Skipped, with the
//! reason printed, where there is no QEMU.

#![cfg(unix)]

mod kit;

use irq_hal::Bus;
use irq_sim::SimPlatform;
use irq_sim::gic::{GicBus, GicModel};
use irq_sim::qtest::{Qtest, QtestBus, QtestError};
use kit::*;

/// A repeatable stream of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

struct Pair {
    qemu: Qtest,
    model: GicModel,
    gicd: (GicBus, QtestBus),
    gicr: (GicBus, QtestBus),
}

impl Pair {
    fn wake(&self) {
        for cpu in 0..2 {
            wake(&self.model, cpu);
            w32_qemu(&self.gicr.1, cpu as usize * 0x2_0000 + GICR_WAKER, 0);
        }
    }
}

fn w32_qemu(bus: &QtestBus, offset: usize, value: u32) {
    bus.store(offset, value);
}

fn pair() -> Option<Pair> {
    let sim = SimPlatform::new(2);
    let qemu = match Qtest::virt(&sim) {
        Ok(qemu) => qemu,
        Err(error @ QtestError::Missing { .. }) => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let model = GicModel::builder(&sim)
        .qemu_virt()
        .spis(256)
        .strict_priority(false)
        .build();
    let gicd = (model.gicd(), qemu.window(0x0800_0000, 0x1_0000));
    let gicr = (model.gicr(0), qemu.window(0x080a_0000, 0x4_0000));
    Some(Pair {
        qemu,
        model,
        gicd,
        gicr,
    })
}

fn store(pair: &(GicBus, QtestBus), offset: usize, value: u32) {
    Bus::<u32>::store(&pair.0, offset, value);
    Bus::<u32>::store(&pair.1, offset, value);
}

#[track_caller]
fn same(pair: &(GicBus, QtestBus), offset: usize) -> u32 {
    let values: (u32, u32) = (pair.0.load(offset), pair.1.load(offset));
    assert_eq!(values.0, values.1, "model and QEMU at {offset:#x}");
    values.0
}

#[test]
fn identity_and_wake_up_read_the_same() {
    let Some(both) = pair() else { return };
    for offset in [0x0, 0x8, 0xc, 0xffe8] {
        same(&both.gicd, offset);
    }
    // QEMU has LPIs (bit 17) and an NMI bit (9) besides.
    let typer: (u32, u32) = (both.gicd.0.load(GICD_TYPER), both.gicd.1.load(GICD_TYPER));
    assert_eq!(typer.0, typer.1 & !(1 << 17 | 1 << 9));
    for rd in [0, 0x2_0000] {
        same(&both.gicr, rd + 0x4);
        same(&both.gicr, rd + 0xffe8);
        same(&both.gicr, rd + GICR_TYPER + 4);
        assert_eq!(same(&both.gicr, rd + GICR_WAKER), 6);
    }
    both.wake();
    for rd in [0, 0x2_0000] {
        assert_eq!(same(&both.gicr, rd + GICR_WAKER), 0);
    }
}

#[test]
fn every_bank_answers_the_same_to_the_same_accesses() {
    let Some(both) = pair() else { return };
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    both.wake();
    let banks = [
        IGROUPR, ISENABLER, ICENABLER, ISPENDR, ICPENDR, ISACTIVER, ICACTIVER, IPRIORITYR, ICFGR,
        IGRPMODR,
    ];
    let mut seen = 0;
    for _ in 0..1500 {
        let bank = banks[numbers.below(banks.len() as u64) as usize];
        let mut value = numbers.below(1 << 32) as u32;
        // Distributor or one of the redistributors; the word of interrupts in it.
        let word = numbers.below(9) as usize;
        let private = word == 0;
        let rd = numbers.below(2) as usize * 0x2_0000 + SGI_BASE;
        let (unit, base) = if private {
            (&both.gicr, rd)
        } else {
            (&both.gicd, 0)
        };
        let offset = base
            + match bank {
                IPRIORITYR => bank + 32 * word + 4 * numbers.below(8) as usize,
                ICFGR => bank + 8 * word + 4,
                _ => bank + 4 * word,
            };
        // What the model refuses: a change of group or trigger while enabled, reserved bits.
        if matches!(bank, IGROUPR | ICFGR) {
            store(unit, base + ICENABLER + 4 * word, !0);
            // RWP: both `CTLR` are at the unit's first word.
            r32(&unit.0, base & !SGI_BASE);
            value = if bank == ICFGR {
                value & 0xaaaa_aaaa
            } else {
                value
            };
        }
        store(unit, offset, value);
        same(unit, offset);
        for shown in [IGROUPR, ISENABLER, ISPENDR, ISACTIVER] {
            seen |= same(unit, base + shown + 4 * word);
        }
        let wire = (32 + numbers.below(256) as u32, numbers.below(2) != 0);
        let line = both.model.line(wire.0);
        if wire.1 {
            line.assert()
        } else {
            line.deassert()
        }
        both.qemu.spi_line(wire.0, wire.1).unwrap();
        same(&both.gicd, ISPENDR + wire.0 as usize / 32 * 4);
    }
    assert_eq!(seen, !0, "the stream reached every bit");
}

#[test]
fn routes_read_the_same() {
    let Some(both) = pair() else { return };
    let mut numbers = Numbers(0xfeed_beef_0bad_cafe);
    for intid in (32..288).step_by(5) {
        let offset = IROUTER + 8 * intid;
        let route = numbers.below(1 << 40) & 0xff_00ff_ffff;
        Bus::<u64>::store(&both.gicd.0, offset, route);
        Bus::<u64>::store(&both.gicd.1, offset, route);
        let routes: (u64, u64) = (both.gicd.0.load(offset), both.gicd.1.load(offset));
        assert_eq!(routes, (route, route));
        same(&both.gicd, offset);
        same(&both.gicd, offset + 4);
    }
}
