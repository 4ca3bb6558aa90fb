// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of the 8259s and QEMU's get the same writes and lines, and must read the same.
//! Skipped, with the reason printed, where there is no QEMU.

#![cfg(unix)]

mod apic_kit;

use std::ffi::OsString;
use std::path::Path;

use irq_hal::Bus;
use irq_sim::apic::{ApicModel, PortBus};
use irq_sim::qtest::{Qtest, QtestError};

/// A repeatable stream of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as u8
    }
}

struct Both {
    model: ApicModel,
    ports: PortBus,
    qemu: Qtest,
}

impl Both {
    fn new() -> Option<Self> {
        let (sim, model) = apic_kit::machine(1, |apic| apic);
        sim.set_masked(0, true);
        let machine = ["-M", "q35"].map(OsString::from);
        let qemu = match Qtest::spawn(&sim, Path::new("qemu-system-x86_64"), &machine) {
            Ok(qemu) => qemu,
            Err(error @ QtestError::Missing { .. }) => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let ports = model.ports();
        Some(Self { model, ports, qemu })
    }

    fn ask(&self, command: String) -> String {
        self.qemu
            .command(&command)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn out(&self, port: usize, value: u8) {
        self.ports.store(port, value);
        self.ask(format!("outb {port:#x} {value:#x}"));
    }

    /// On QEMU's q35 the 8259s are the fourth and the fifth device without a place.
    fn line(&self, irq: u8, high: bool) {
        self.model.pic_line(irq, high);
        let (device, input, level) = (3 + irq / 8, irq % 8, u8::from(high));
        let path = format!("/machine/unattached/device[{device}]");
        self.ask(format!("set_irq_in {path} unnamed-gpio-in {input} {level}"));
    }

    /// QEMU keeps an edge whose line has fallen. Here the cascade alone falls: not compared.
    #[track_caller]
    fn same(&self, port: usize) {
        let answer = self.ask(format!("inb {port:#x}"));
        let digits = answer.trim().trim_start_matches("0x");
        let qemu = u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{answer}"));
        let compared = if port == 0x20 { !(1 << 2) } else { !0 };
        let model = self.ports.load(port);
        assert_eq!(model & compared, qemu & compared, "port {port:#x}");
    }

    fn all_the_same(&self) {
        for (command, elcr) in [(0x20, 0x4d0), (0xa0, 0x4d1)] {
            self.same(command + 1);
            self.same(elcr);
            for which in [0x0a, 0x0b] {
                self.out(command, which);
                self.same(command);
            }
        }
    }

    fn initialise(&self) {
        for (command, base, wiring) in [(0x20, 0x20, 4), (0xa0, 0x28, 2)] {
            self.out(command, 0x11);
            self.out(command + 1, base);
            self.out(command + 1, wiring);
            self.out(command + 1, 1);
        }
    }
}

#[test]
fn masks_requests_and_triggers_read_as_on_qemu() {
    let Some(both) = Both::new() else { return };
    let mut numbers = Numbers(0x8259);
    let lines = || (1..16).filter(|irq| *irq != 2);
    for _ in 0..8 {
        lines().for_each(|irq| both.line(irq, false));
        both.initialise();
        both.out(0x4d0, numbers.byte() & !0x07);
        both.out(0x4d1, numbers.byte() & !0x21);
        for _ in 0..12 {
            match numbers.byte() % 4 {
                0 => both.out(0x21, numbers.byte()),
                1 => both.out(0xa1, numbers.byte()),
                _ => {
                    let irq = numbers.byte() % 16;
                    if lines().any(|line| line == irq) {
                        both.line(irq, true);
                    }
                }
            }
            both.all_the_same();
        }
    }
}
