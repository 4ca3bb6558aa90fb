// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of x2APIC mode: which there are, what may be written, LVTs and errors.

mod apic_kit;
mod kit;

use apic_kit::*;
use irq_hal::{Barrier, CpuIndex};
use irq_sim::apic::msr::*;
use irq_sim::{Fence, Unit};
use kit::refused;

#[test]
fn registers_that_cannot_be_written_fault() {
    let (_, model) = running(1);
    let fixed = [
        IA32_X2APIC_APICID,
        IA32_X2APIC_VERSION,
        IA32_X2APIC_PPR,
        IA32_X2APIC_LDR,
        IA32_X2APIC_CUR_COUNT,
    ];
    for register in fixed.into_iter().chain(IA32_X2APIC_ISR0..=0x827) {
        read(&model, register);
        refused("#GP: the register is read-only", || {
            write(&model, register, 0)
        });
    }
}

#[test]
fn registers_that_cannot_be_read_fault() {
    let (_, model) = running(1);
    for register in [IA32_X2APIC_EOI, IA32_X2APIC_SELF_IPI] {
        refused("#GP: the register is write-only", || read(&model, register));
    }
}

#[test]
fn registers_that_do_not_exist_fault() {
    let (_, model) = running(1);
    // APR, remote read, DFR, the high half of ICR, AMD's extended space.
    for register in [
        0x800, 0x809, 0x80c, 0x80e, 0x829, 0x831, 0x83a, 0x840, 0x842, 0x850, 0x8ff,
    ] {
        refused("#GP: there is no such register in x2APIC mode", || {
            read(&model, register)
        });
        refused("#GP: there is no such register in x2APIC mode", || {
            write(&model, register, 0)
        });
    }
}

#[test]
fn lvt_entries_beyond_the_highest_one_fault() {
    let optional = [
        (IA32_X2APIC_LVT_PMI, 4),
        (IA32_X2APIC_LVT_THERMAL, 5),
        (IA32_X2APIC_LVT_CMCI, 6),
    ];
    for max in 3..=6 {
        let (_, model) = running_with(1, |apic| apic.max_lvt(max));
        assert_eq!(
            read(&model, IA32_X2APIC_VERSION) >> 16 & 0xff,
            u64::from(max)
        );
        for (register, least) in optional {
            if max >= least {
                assert_eq!(read(&model, register), MASKED);
                continue;
            }
            refused("#GP: there is no such entry", || read(&model, register));
            refused("#GP: there is no such entry", || {
                write(&model, register, MASKED | 0xff)
            });
        }
    }
}

#[test]
fn ones_in_reserved_bits_fault() {
    let (_, model) = running(1);
    let cases = [
        (IA32_X2APIC_TPR, 1 << 8),
        (IA32_X2APIC_SIVR, 0x1ff | 1 << 9),
        (IA32_X2APIC_SIVR, 0x1ff | 1 << 12),
        (IA32_X2APIC_LVT_TIMER, MASKED | 0x40 | 1 << 8),
        (IA32_X2APIC_LVT_TIMER, MASKED | 0x40 | 1 << 19),
        (IA32_X2APIC_LVT_TIMER, MASKED | 0x40 | 1 << 15),
        (IA32_X2APIC_LVT_ERROR, MASKED | 0x40 | 4 << 8),
        (IA32_X2APIC_LVT_PMI, MASKED | 0x40 | 1 << 15),
        (IA32_X2APIC_LVT_THERMAL, MASKED | 0x40 | 1 << 13),
        (IA32_X2APIC_LVT_LINT0, MASKED | 0x40 | 1 << 11),
        (IA32_X2APIC_LVT_LINT1, MASKED | 0x40 | 1 << 17),
        (IA32_X2APIC_DIV_CONF, 1 << 2),
        (IA32_X2APIC_DIV_CONF, 1 << 4),
        (IA32_X2APIC_SELF_IPI, 0x140),
        (IA32_X2APIC_ICR, FIXED | 0x40 | 1 << 13),
        (IA32_X2APIC_ICR, FIXED | 0x40 | 1 << 16),
        (IA32_X2APIC_ICR, FIXED | 0x40 | 1 << 20),
        (IA32_X2APIC_ICR, FIXED | 0x40 | 1 << 31),
    ];
    for (register, value) in cases {
        refused("#GP: reserved bits", || write(&model, register, value));
    }
    for register in [
        IA32_X2APIC_TPR,
        IA32_X2APIC_SIVR,
        IA32_X2APIC_LVT_TIMER,
        IA32_X2APIC_INIT_COUNT,
        IA32_X2APIC_DIV_CONF,
        IA32_X2APIC_SELF_IPI,
    ] {
        refused("#GP: reserved bits 0x100000000", || {
            write(&model, register, 1 << 32 | 0xb)
        });
    }
}

#[test]
fn only_zero_ends_an_interrupt_or_latches_errors() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_SELF_IPI, 0x40);
    model.take(0, |_, _| {
        refused("#GP: only 0 may be written", || {
            write(&model, IA32_X2APIC_EOI, 0x40)
        });
        eoi(&model);
    });
    refused("#GP: only 0 may be written", || {
        write(&model, IA32_X2APIC_ESR, 1)
    });
}

#[test]
fn ids_and_version_read_what_the_machine_is() {
    let (_, model) = running_with(2, |apic| apic.ids([0x1_2345, 7]).directed_eoi(true));
    assert_eq!(read(&model, IA32_X2APIC_APICID), 0x1_2345);
    assert_eq!(read(&model, IA32_X2APIC_LDR), 0x1234_0020);
    assert_eq!(read(&model, IA32_X2APIC_VERSION), 0x0106_0015);
    on(&model, 1, || {
        assert_eq!(read(&model, IA32_X2APIC_APICID), 7);
        assert_eq!(read(&model, IA32_X2APIC_LDR), 0x80);
    });
    write(&model, IA32_X2APIC_SIVR, 0x11ff);
    assert_eq!(read(&model, IA32_X2APIC_SIVR), 0x11ff);
}

#[test]
fn lvt_entries_stay_masked_until_the_apic_is_enabled() {
    let (_, model) = machine(1, |apic| apic.mode(irq_sim::apic::Mode::X2apic));
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), MASKED | 0x40);
    write(&model, IA32_X2APIC_SIVR, 0x1ff);
    assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), MASKED | 0x40);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), 0x40);
    write(&model, IA32_X2APIC_SIVR, 0xff);
    assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), MASKED | 0x40);
}

#[test]
fn read_only_bits_of_an_lvt_entry_ignore_writes() {
    let (_, model) = running(1);
    write(
        &model,
        IA32_X2APIC_LVT_LINT1,
        MASKED | 1 << 14 | 1 << 12 | 0x40,
    );
    assert_eq!(read(&model, IA32_X2APIC_LVT_LINT1), MASKED | 0x40);
}

#[test]
fn reserved_delivery_and_timer_modes_are_refused() {
    let (_, model) = running(1);
    for mode in [1, 3, 6] {
        refused("is reserved here", || {
            write(&model, IA32_X2APIC_LVT_LINT0, MASKED | mode << 8 | 0x40)
        });
    }
    for mode in [5, 7] {
        refused("is reserved here", || {
            write(&model, IA32_X2APIC_LVT_PMI, MASKED | mode << 8)
        });
    }
    refused("#GP: timer mode 11", || {
        write(&model, IA32_X2APIC_LVT_TIMER, 3 << 17 | 0x40)
    });
    let (_, old) = running_with(1, |apic| apic.deadline(false));
    refused("#GP: reserved bits 0x40000", || {
        write(&old, IA32_X2APIC_LVT_TIMER, 2 << 17 | 0x40)
    });
}

#[test]
fn an_illegal_vector_in_an_lvt_entry_is_an_error_even_when_masked() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_LINT0, MASKED);
    assert_eq!(read(&model, IA32_X2APIC_ESR), 0, "not latched yet");
    assert_eq!(errors(&model), 1 << 6);
    assert_eq!(errors(&model), 0, "the write clears what it latches");
    write(&model, IA32_X2APIC_LVT_LINT0, MASKED | 0xff);
    write(&model, IA32_X2APIC_LVT_LINT1, 4 << 8);
    assert_eq!(errors(&model), 0, "a legal vector, and NMI without one");
}

#[test]
fn an_error_interrupts_through_its_lvt_entry() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_ESR, 0);
    write(&model, IA32_X2APIC_LVT_ERROR, 0xfe);
    write(&model, IA32_X2APIC_LVT_LINT0, MASKED);
    assert_eq!(take(&model, 0), Some(0xfe));
    assert_eq!(errors(&model), 1 << 6);
    model.inject_error(0, 7);
    assert_eq!(take(&model, 0), Some(0xfe));
    assert_eq!(errors(&model), 1 << 7);
}

#[test]
fn the_error_entry_is_unmasked_after_esr_was_cleared() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_TIMER, MASKED);
    refused("LVT error is unmasked with errors 0x40 not cleared", || {
        write(&model, IA32_X2APIC_LVT_ERROR, 0xfe)
    });
    write(&model, IA32_X2APIC_LVT_ERROR, MASKED | 0xfe);
    write(&model, IA32_X2APIC_ESR, 0);
    write(&model, IA32_X2APIC_LVT_ERROR, 0xfe);
}

#[test]
fn the_spurious_vector_is_none_of_an_exception() {
    let (_, model) = running(1);
    for vector in [0, 15, 31] {
        refused("the spurious vector is that of a CPU exception", || {
            write(&model, IA32_X2APIC_SIVR, 0x100 | vector)
        });
    }
    write(&model, IA32_X2APIC_SIVR, 0x120);
}

#[test]
fn the_performance_entry_masks_itself_when_it_fires() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_LVT_PMI, 0x50);
    model.raise_lvt(0, IA32_X2APIC_LVT_PMI);
    assert_eq!(read(&model, IA32_X2APIC_LVT_PMI), MASKED | 0x50);
    assert_eq!(take(&model, 0), Some(0x50));
    model.raise_lvt(0, IA32_X2APIC_LVT_PMI);
    assert_eq!(take(&model, 0), None);
}

#[test]
fn each_access_and_barrier_is_logged() {
    let (sim, model) = running(2);
    let mark = sim.log().mark();
    on(&model, 1, || {
        read(&model, IA32_X2APIC_APICID);
        write(&model, IA32_X2APIC_TPR, 0x10);
        model.msrs().publish();
        model.msrs().complete();
        model.msrs().synchronize();
    });
    let seen = sim.log().since(mark);
    let unit = Unit::Apic(CpuIndex::new(1));
    assert_eq!((seen.loads(unit), seen.stores(unit)), (1, 1));
    assert_eq!(seen.stored(unit, IA32_X2APIC_TPR), [0x10]);
    assert_eq!((seen.system(), seen.mmio()), (2, 0));
    for fence in [Fence::Publish, Fence::Complete, Fence::Synchronize] {
        assert_eq!(seen.barriers(fence), 1);
    }
    let refused = sim.log().mark();
    kit::refused("#GP", || write(&model, IA32_X2APIC_APICID, 0));
    assert_eq!(sim.log().since(refused).accesses(), 0);
}

#[test]
fn a_register_may_ignore_writes_or_show_what_it_does_not_hold() {
    let (_, model) = machine(2, |apic| {
        apic.ignores(0, IA32_APIC_BASE)
            .shows(1, IA32_APIC_BASE, 0xfee0_0400)
    });
    write(&model, IA32_APIC_BASE, 0xfee0_0d00);
    assert_eq!(read(&model, IA32_APIC_BASE), 0xfee0_0900);
    on(&model, 1, || {
        assert_eq!(read(&model, IA32_APIC_BASE), 0xfee0_0400);
        write(&model, IA32_APIC_BASE, 0xfee0_0c00);
        assert_eq!(read(&model, IA32_X2APIC_APICID), 1);
    });
}
