// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 8259s, and LINT0 under them.

mod apic_kit;
mod kit;

use apic_kit::*;
use irq_hal::Bus;
use irq_sim::apic::msr::*;
use irq_sim::apic::{ApicModel, Mode};
use irq_sim::{SimPlatform, Unit};
use kit::refused;

fn out(model: &ApicModel, port: usize, value: u8) {
    model.ports().store(port, value);
}

fn inb(model: &ApicModel, port: usize) -> u8 {
    model.ports().load(port)
}

/// A PC as its firmware leaves it, but in x2APIC mode.
fn pc() -> (SimPlatform, ApicModel) {
    machine(1, |apic| apic.firmware().mode(Mode::X2apic))
}

/// Moves the vectors to 20H-2FH; all inputs are open then.
fn initialise(model: &ApicModel) {
    for (command, base, wiring) in [(0x20, 0x20, 4), (0xa0, 0x28, 2)] {
        out(model, command, 0x11);
        out(model, command + 1, base);
        out(model, command + 1, wiring);
        out(model, command + 1, 1);
    }
}

#[test]
fn firmware_leaves_vectors_of_exceptions_behind() {
    let (_, model) = pc();
    model.pic_line(0, true);
    assert_eq!(model.pending(0), Some(8));
}

#[test]
fn an_initialised_pair_delivers_through_lint0_and_is_ended_at_its_ports() {
    let (sim, model) = pc();
    sim.set_masked(0, true);
    initialise(&model);
    sim.set_masked(0, false);
    model.pic_line(4, true);
    model.pic_line(12, true);
    let taken = model.take(0, |_, vector| {
        assert_eq!(vector, 0x2c, "the cascade is input 2");
        out(&model, 0xa0, 0x20);
        out(&model, 0x20, 0x20);
    });
    assert!(taken);
    let taken = model.take(0, |_, vector| {
        assert_eq!(vector, 0x24);
        out(&model, 0x20, 0x64);
    });
    assert!(taken);
    assert_eq!((model.pending(0), model.isr(0)), (None, vec![]));
}

#[test]
fn inputs_wait_for_those_above_them() {
    let (sim, model) = pc();
    sim.set_masked(0, true);
    initialise(&model);
    sim.set_masked(0, false);
    model.pic_line(9, true);
    model.pic_line(10, true);
    for vector in [0x29, 0x2a] {
        let taken = model.take(0, |_, taken| {
            assert_eq!(taken, vector);
            sim.set_masked(0, false);
            model.pic_line(5, true);
            assert_eq!(model.pending(0), None, "5 is below the cascade");
            out(&model, 0xa0, 0x20);
            assert_eq!(model.pending(0), None, "the cascade is in service");
            model.pic_line(5, false);
            out(&model, 0x20, 0x20);
        });
        assert!(taken);
    }
    assert_eq!(model.pending(0), None);
}

#[test]
fn an_input_that_ends_itself_is_never_in_service() {
    let (sim, model) = pc();
    sim.set_masked(0, true);
    for (command, words) in [(0x20, [0x20, 4, 3]), (0xa0, [0x28, 2, 3])] {
        out(&model, command, 0x11);
        for word in words {
            out(&model, command + 1, word);
        }
        out(&model, command, 0x0b);
    }
    sim.set_masked(0, false);
    for line in [1, 9, 10] {
        model.pic_line(line, true);
    }
    for vector in [0x21, 0x29, 0x2a] {
        let taken = model.take(0, |_, taken| {
            assert_eq!(taken, vector);
            assert_eq!((inb(&model, 0x20), inb(&model, 0xa0)), (0, 0));
        });
        assert!(taken);
    }
    assert_eq!(model.pending(0), None);
}

#[test]
fn an_interrupt_of_the_8259_has_no_eoi_at_the_local_apic() {
    let (_, model) = machine(1, |apic| {
        apic.firmware().mode(Mode::X2apic).stale_isr(0, &[0x31])
    });
    model.pic_line(0, true);
    model.take(0, |_, _| {
        refused("EOI for an interrupt of the 8259", || eoi(&model));
    });
}

#[test]
fn the_safe_order_is_both_8259s_then_lint0_with_interrupts_disabled() {
    let (sim, model) = pc();
    model.pic_line(0, true);
    sim.set_masked(0, true);
    initialise(&model);
    out(&model, 0x21, 0xff);
    out(&model, 0xa1, 0xff);
    assert!(model.pic_masked());
    write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff);
    sim.set_masked(0, false);
    assert_eq!(model.pending(0), None);
    assert_eq!(sim.log().all().stores(Unit::Pic), 10);
    assert_eq!(inb(&model, 0x21), 0xff);
}

#[test]
fn lint0_is_not_masked_while_the_8259_asserts_intr() {
    let (sim, model) = pc();
    sim.set_masked(0, true);
    model.pic_line(0, true);
    let rule = "LINT0 is masked while the 8259 asserts INTR";
    refused(rule, || write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff));
    refused(rule, || write(&model, IA32_X2APIC_SIVR, 0xff));
}

#[test]
fn lint0_is_not_masked_before_both_8259s_are() {
    let (sim, model) = pc();
    sim.set_masked(0, true);
    let rule = "LINT0 is masked before both 8259s are";
    let mask = || write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff);
    refused(rule, mask);
    out(&model, 0x21, 0xff);
    refused(rule, mask);
    out(&model, 0xa1, 0xff);
    mask();
}

#[test]
fn lint0_is_not_masked_with_interrupts_enabled() {
    let (_, model) = pc();
    out(&model, 0x21, 0xff);
    out(&model, 0xa1, 0xff);
    refused("LINT0 is masked with interrupts enabled", || {
        write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff)
    });
}

#[test]
fn a_cpu_without_virtual_wire_masks_lint0_as_it_likes() {
    let (_, model) = running(1);
    model.pic_line(0, true);
    write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff);
    assert_eq!(model.pending(0), None);
}

#[test]
fn initialisation_is_judged() {
    let (sim, model) = pc();
    refused("an 8259 is initialised with interrupts enabled", || {
        out(&model, 0x20, 0x11)
    });
    sim.set_masked(0, true);
    for icw1 in [0x10, 0x13, 0x19] {
        refused("ICW1: a PC has", || out(&model, 0x20, icw1));
    }
    out(&model, 0x20, 0x11);
    refused("ICW2: the vectors are those of CPU exceptions", || {
        out(&model, 0x21, 0x08)
    });
    refused("ICW2: the vector base is a multiple of 8", || {
        out(&model, 0x21, 0x21)
    });
    out(&model, 0x21, 0x20);
    refused("ICW3: the slave is on input 2", || out(&model, 0x21, 2));
    out(&model, 0x21, 4);
    refused("ICW4: 8086 mode", || out(&model, 0x21, 0));
    assert!(!model.pic_masked());
}

#[test]
fn initialisation_opens_all_inputs_and_forgets_edges() {
    let (sim, model) = pc();
    out(&model, 0x21, 0xff);
    model.pic_line(1, true);
    sim.set_masked(0, true);
    initialise(&model);
    assert_eq!((inb(&model, 0x21), inb(&model, 0xa1)), (0, 0));
    assert_eq!(inb(&model, 0x20), 0, "the line is high, the edge is gone");
}

#[test]
fn a_masked_input_keeps_its_edge() {
    let (_, model) = pc();
    out(&model, 0x21, 0xff);
    model.pic_line(1, true);
    assert_eq!((model.pending(0), inb(&model, 0x20)), (None, 2));
    out(&model, 0x21, 0xfd);
    assert_eq!(model.pending(0), Some(9));
}

#[test]
fn a_line_that_falls_too_early_is_a_spurious_interrupt_7() {
    let (_, model) = pc();
    model.pic_line(0, true);
    model.pic_line(0, false);
    let taken = model.take(0, |_, vector| {
        assert_eq!(vector, 15);
        out(&model, 0x20, 0x0b);
        assert_eq!(inb(&model, 0x20), 0, "nothing is in service");
        refused("EOI with nothing in service", || out(&model, 0x20, 0x20));
    });
    assert!(taken);
}

#[test]
fn a_spurious_interrupt_15_is_ended_at_the_master_only() {
    let (_, model) = pc();
    model.pic_spurious(15);
    let taken = model.take(0, |_, vector| {
        assert_eq!(vector, 0x77);
        refused("EOI with nothing in service", || out(&model, 0xa0, 0x20));
        refused("EOI of an input that is not in service", || {
            out(&model, 0x20, 0x61)
        });
        out(&model, 0x20, 0x20);
    });
    assert!(taken);
    assert_eq!(model.pending(0), None);
}

#[test]
fn masked_8259s_can_still_be_spurious() {
    let (sim, model) = pc();
    sim.set_masked(0, true);
    initialise(&model);
    out(&model, 0x21, 0xff);
    out(&model, 0xa1, 0xff);
    model.pic_spurious(7);
    assert_eq!(model.pending(0), Some(0x27));
    write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff);
    assert_eq!(model.pending(0), None);
}

#[test]
fn elcr_makes_an_input_level_triggered() {
    let (sim, model) = pc();
    for (port, value) in [(0x4d0, 1), (0x4d0, 4), (0x4d1, 1), (0x4d1, 0x20)] {
        refused("ELCR: these inputs are edge-triggered", || {
            out(&model, port, value)
        });
    }
    sim.set_masked(0, true);
    initialise(&model);
    sim.set_masked(0, false);
    out(&model, 0x4d1, 0x0e);
    assert_eq!(inb(&model, 0x4d1), 0x0e);
    model.pic_line(11, true);
    for _ in 0..2 {
        let taken = model.take(0, |_, vector| {
            assert_eq!(vector, 0x2b);
            out(&model, 0xa0, 0x20);
            out(&model, 0x20, 0x20);
        });
        assert!(taken, "as long as the line is high");
    }
    model.pic_line(11, false);
    assert!(model.take(0, |_, vector| assert!(matches!(vector, 0x27 | 0x2f))));
    assert_eq!(model.pending(0), None);
}

#[test]
fn a_disabled_apic_lets_the_8259_through() {
    let (_, model) = machine(2, |apic| apic.mode(Mode::Disabled));
    model.pic_line(1, true);
    assert_eq!((model.pending(0), model.pending(1)), (Some(9), None));
}

#[test]
fn an_imcr_must_be_switched_to_the_apic() {
    let (sim, model) = machine(1, |apic| apic.imcr(true).mode(Mode::X2apic));
    model.pic_line(1, true);
    assert_eq!(model.pending(0), Some(9), "past the local APIC");
    out(&model, 0x22, 0x70);
    out(&model, 0x23, 1);
    assert_eq!(model.pending(0), None);
    assert_eq!(inb(&model, 0x23), 1);
    out(&model, 0x22, 0);
    refused("IMCR is at index 70H", || out(&model, 0x23, 1));
    assert_eq!(sim.log().all().loads(Unit::Pic), 1);
}

#[test]
fn ports_that_are_not_there_are_refused() {
    let (_, model) = pc();
    refused("there is no IMCR on this chipset", || {
        out(&model, 0x22, 0x70)
    });
    refused("no port is modelled here", || inb(&model, 0x40));
    refused("this command is not modelled", || out(&model, 0x20, 0x0c));
    let (_, none) = machine(1, |apic| apic.pic(false));
    refused("there are no 8259s", || out(&none, 0x21, 0xff));
    assert!(none.pic_masked());
}
