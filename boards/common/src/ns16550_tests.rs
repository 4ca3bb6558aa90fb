// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port against a small one of its kind: registers and the transmit interrupt.

use std::sync::Mutex;

use super::*;

/// A port that has just been switched on.
#[derive(Default)]
struct Chip {
    mcr: u8,
    ier: u8,
    /// The transmit interrupt is latched: the register became empty, or was when it was enabled.
    latched: bool,
    out: Vec<u8>,
    /// Polls of the line status before the transmit register is empty.
    busy: u32,
}

/// Where the port's registers begin on its bus.
const FIRST: usize = 0x3f8;

#[derive(Default)]
struct Fake(Mutex<Chip>);

impl Bus<u8> for Fake {
    fn load(&self, at: usize) -> u8 {
        let mut chip = self.0.lock().unwrap();
        match at - FIRST {
            offset::IIR => {
                let pending = chip.latched && chip.ier & IER_THRE != 0;
                chip.latched &= !pending;
                if pending { 2 } else { 1 }
            }
            offset::MCR => chip.mcr,
            offset::LSR => {
                let empty = chip.busy == 0;
                chip.busy = chip.busy.saturating_sub(1);
                u8::from(empty) * LSR_THRE
            }
            _ => panic!("load of register {at}"),
        }
    }

    fn store(&self, at: usize, value: u8) {
        let mut chip = self.0.lock().unwrap();
        match at - FIRST {
            offset::THR => {
                assert_eq!(chip.busy, 0, "a byte for a register that is not empty");
                chip.out.push(value);
                chip.latched = true;
            }
            offset::IER => {
                let enabled = value & IER_THRE != 0 && chip.ier & IER_THRE == 0;
                chip.latched |= enabled && chip.busy == 0;
                chip.ier = value;
            }
            offset::MCR => chip.mcr = value,
            _ => panic!("store to register {at}"),
        }
    }
}

fn port(chip: Chip) -> Ns16550<Fake> {
    Ns16550::new(Fake(Mutex::new(chip)), FIRST)
}

impl Ns16550<Fake> {
    fn line(&self) -> bool {
        let chip = self.bus.0.lock().unwrap();
        chip.latched && chip.ier & IER_THRE != 0 && chip.mcr & MCR_OUT2 != 0
    }
}

#[test]
fn a_byte_waits_until_the_port_takes_it() {
    let busy = port(Chip {
        busy: 3,
        ..Chip::default()
    });
    busy.put(b'a');
    busy.put(b'b');
    assert_eq!(busy.bus.0.lock().unwrap().out, b"ab");
}

#[test]
fn a_byte_is_lost_on_a_port_that_never_takes_it() {
    let stuck = port(Chip {
        busy: u32::MAX,
        ..Chip::default()
    });
    stuck.put(b'a');
    assert!(stuck.bus.0.lock().unwrap().out.is_empty());
}

#[test]
fn the_line_is_raised_lowered_and_raised_again() {
    let port = port(Chip::default());
    assert!(port.is_empty() && !port.line());
    for _ in 0..2 {
        port.raise_line();
        assert!(port.line());
        // Raised twice, as a test may: still high.
        port.raise_line();
        assert!(port.line());
        port.lower_line();
        assert!(!port.line());
    }
}

#[test]
fn the_line_rises_again_although_somebody_has_read_what_interrupts() {
    let port = port(Chip::default());
    port.raise_line();
    port.load(offset::IIR);
    assert!(!port.line());
    port.raise_line();
    assert!(port.line());
}
