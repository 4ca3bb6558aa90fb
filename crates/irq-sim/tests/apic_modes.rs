// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modes of the local APIC: transitions, the lock, what CPUID says.

mod apic_kit;
mod kit;

use apic_kit::*;
use irq_sim::apic::msr::*;
use irq_sim::apic::{ApicModel, Lock, Mode, Vendor};
use kit::refused;

const PAGE: u64 = 0xfee0_0000;
const BSP: u64 = 1 << 8;
const MODES: [(Mode, u64); 3] = [
    (Mode::Disabled, 0),
    (Mode::Xapic, 1 << 11),
    (Mode::X2apic, 3 << 10),
];

fn base(model: &ApicModel, mode: u64) {
    write(model, IA32_APIC_BASE, PAGE | BSP | mode);
}

#[test]
fn each_legal_transition_is_taken_and_each_other_one_faults() {
    for (from, _) in MODES {
        for (to, bits) in MODES {
            let (_, model) = machine(1, |apic| apic.mode(from));
            let rule = match (from, to) {
                (Mode::Disabled, Mode::X2apic) => "#GP: disabled to x2APIC",
                (Mode::X2apic, Mode::Xapic) => "#GP: x2APIC to xAPIC",
                _ => {
                    base(&model, bits);
                    assert_eq!(model.mode(0), to);
                    assert_eq!(read(&model, IA32_APIC_BASE), PAGE | BSP | bits);
                    continue;
                }
            };
            refused(rule, || base(&model, bits));
            assert_eq!(model.mode(0), from);
        }
        let (_, model) = machine(1, |apic| apic.mode(from));
        refused("#GP: EXTD without EN", || base(&model, 1 << 10));
    }
}

#[test]
fn reserved_bits_of_the_base_fault() {
    let (_, model) = machine(1, |apic| apic.phys_bits(39));
    for bit in [0, 7, 9, 39, 63] {
        refused("#GP: reserved bits", || base(&model, 1 << 11 | 1 << bit));
    }
    let (_, old) = machine(1, |apic| apic.x2apic(false));
    refused("#GP: reserved bits 0x400", || base(&old, 3 << 10));
}

#[test]
fn what_was_read_is_written_back_to_the_base() {
    let (_, model) = machine(2, |apic| apic.boot_cpu(1));
    assert_eq!(read(&model, IA32_APIC_BASE), PAGE | 1 << 11);
    refused("the BSP bit changes", || base(&model, 3 << 10));
    on(&model, 1, || {
        assert_eq!(read(&model, IA32_APIC_BASE), PAGE | BSP | 1 << 11);
        refused("the BSP bit changes", || {
            write(&model, IA32_APIC_BASE, PAGE | 3 << 10)
        });
        refused("the base address changes", || {
            write(&model, IA32_APIC_BASE, BSP | 3 << 10)
        });
        base(&model, 3 << 10);
    });
}

#[test]
fn a_locked_apic_stays_in_x2apic_mode() {
    let (_, model) = machine(1, |apic| apic.mode(Mode::X2apic).lock(Lock::Locked));
    assert_eq!(read(&model, IA32_ARCH_CAPABILITIES), 1 << 21);
    assert_eq!(read(&model, IA32_XAPIC_DISABLE_STATUS), 1);
    refused("#GP: x2APIC mode is locked", || base(&model, 0));
    base(&model, 3 << 10);
    let (_, open) = machine(1, |apic| apic.mode(Mode::X2apic).lock(Lock::Open));
    assert_eq!(read(&open, IA32_XAPIC_DISABLE_STATUS), 0);
    base(&open, 0);
    for register in [IA32_ARCH_CAPABILITIES, IA32_XAPIC_DISABLE_STATUS] {
        refused("#GP: the register is read-only", || {
            write(&open, register, 0)
        });
    }
}

#[test]
fn the_lock_registers_exist_only_where_cpuid_says_so() {
    let leaf7 = |model: &ApicModel| model.cpuid().leaf(7, 0)[3] >> 29 & 1;
    let (_, absent) = machine(1, |apic| apic);
    assert_eq!(leaf7(&absent), 0);
    refused("#GP: CPUID.7:EDX[29] is 0", || {
        read(&absent, IA32_ARCH_CAPABILITIES)
    });
    let (_, unsupported) = machine(1, |apic| apic.lock(Lock::Unsupported));
    assert_eq!(leaf7(&unsupported), 1);
    assert_eq!(read(&unsupported, IA32_ARCH_CAPABILITIES), 0);
    refused("#GP: IA32_ARCH_CAPABILITIES[21] is 0", || {
        read(&unsupported, IA32_XAPIC_DISABLE_STATUS)
    });
}

#[test]
fn entering_x2apic_keeps_the_registers() {
    let (_, model) = machine(1, |apic| {
        apic.left(0, IA32_X2APIC_TPR, 0x40)
            .left(0, IA32_X2APIC_LVT_TIMER, 0x1_0031)
            .stale_irr(0, &[0x35])
    });
    base(&model, 3 << 10);
    assert_eq!(read(&model, IA32_X2APIC_TPR), 0x40);
    assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), 0x1_0031);
    assert_eq!(model.irr(0), [0x35]);
}

#[test]
fn the_way_through_disabled_resets_the_apic() {
    let (_, model) = running(1);
    write(&model, IA32_X2APIC_TPR, 0x20);
    write(&model, IA32_X2APIC_LVT_TIMER, 0x40);
    write(&model, IA32_X2APIC_SELF_IPI, 0x41);
    base(&model, 0);
    base(&model, 1 << 11);
    base(&model, 3 << 10);
    assert_eq!(read(&model, IA32_X2APIC_SIVR), 0xff);
    assert_eq!(read(&model, IA32_X2APIC_TPR), 0);
    assert_eq!(read(&model, IA32_X2APIC_LVT_TIMER), MASKED);
    assert_eq!(model.irr(0), []);
}

#[test]
fn the_registers_are_msrs_in_x2apic_mode_only() {
    for mode in [Mode::Disabled, Mode::Xapic] {
        let (_, model) = machine(1, |apic| apic.mode(mode));
        for register in [
            IA32_X2APIC_APICID,
            IA32_X2APIC_SIVR,
            IA32_X2APIC_LVT_TIMER,
            0x8ff,
        ] {
            refused("#GP: the local APIC is not in x2APIC mode", || {
                read(&model, register)
            });
        }
    }
    let (_, model) = machine(1, |apic| apic);
    refused("#GP: there is no such MSR", || read(&model, 0x1c));
}

#[test]
fn cpuid_shows_a_disabled_apic_as_absent() {
    let (_, model) = machine(1, |apic| apic.mode(Mode::Disabled));
    assert_eq!(model.cpuid().leaf(1, 0)[3] >> 9 & 1, 0);
    base(&model, 1 << 11);
    assert_eq!(model.cpuid().leaf(1, 0)[3] >> 9 & 1, 1);
}

#[test]
fn cpuid_shows_features_and_ids() {
    let (_, model) = machine(2, |apic| {
        apic.ids([3, 0x1_0002])
            .mode(Mode::X2apic)
            .deadline(false)
            .smt_shift(2)
    });
    let cpuid = model.cpuid();
    let [_, ebx, ecx, _] = on(&model, 1, || cpuid.leaf(1, 0));
    assert_eq!(
        (ebx >> 24, ecx >> 21 & 1, ecx >> 24 & 1, ecx >> 31),
        (2, 1, 0, 0)
    );
    for leaf in [0xb, 0x1f] {
        let levels: Vec<[u32; 4]> = on(&model, 1, || (0..3).map(|s| cpuid.leaf(leaf, s)).collect());
        assert!(levels.iter().all(|level| level[3] == 0x1_0002));
        assert_eq!([levels[0][0], levels[1][0]], [2, 4]);
        assert_eq!([levels[0][2], levels[1][2]], [0x100, 0x201]);
        assert_eq!(levels[2][1], 0);
    }
    assert_eq!(cpuid.leaf(0xb, 0)[3], 3);
}

#[test]
fn a_leaf_above_the_highest_one_answers_with_garbage() {
    let (_, model) = machine(1, |apic| apic.ids([9]).max_leaf(0xd));
    assert_eq!(model.cpuid().leaf(0, 0)[0], 0xd);
    assert_eq!(model.cpuid().leaf(0x1f, 0), model.cpuid().leaf(0xd, 0));
    let [_, ebx, _, edx] = model.cpuid().leaf(0x1f, 0);
    assert!(ebx != 0 && edx != 9, "an unchecked reader is misled");
    assert_eq!(model.cpuid().leaf(0xb, 0)[3], 9);
    let (_, amd) = machine(1, |apic| apic.vendor(Vendor::Amd).max_leaf(0xd));
    assert_eq!(amd.cpuid().leaf(0x1f, 0), [0; 4]);
}

#[test]
fn a_topology_leaf_that_does_not_exist_has_no_threads() {
    let (_, model) = machine(1, |apic| apic.topology(false));
    assert_eq!(model.cpuid().leaf(0xb, 0)[1], 0);
    assert_eq!(model.cpuid().leaf(0x1f, 0)[1], 0);
}

#[test]
fn cpuid_names_the_vendor() {
    let name = |vendor| {
        let (_, model) = machine(1, |apic| apic.vendor(vendor));
        let [_, b, c, d] = model.cpuid().leaf(0, 0);
        let bytes: Vec<u8> = [b, d, c]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(name(Vendor::Intel), "GenuineIntel");
    assert_eq!(name(Vendor::Amd), "AuthenticAMD");
    assert_eq!(name(Vendor::Hygon), "HygonGenuine");
}

#[test]
fn an_apic_may_keep_its_registers_while_it_is_disabled() {
    let (_, model) = running_with(1, |apic| apic.keeps_registers(true));
    write(&model, IA32_X2APIC_TPR, 0x20);
    write(&model, IA32_X2APIC_SELF_IPI, 0x41);
    send(&model, 7, FIXED | 0x50);
    base(&model, 0);
    assert_eq!(model.pending(0), None);
    base(&model, 1 << 11);
    base(&model, 3 << 10);
    assert_eq!(read(&model, IA32_X2APIC_SIVR), 0x1ff);
    assert_eq!(read(&model, IA32_X2APIC_TPR), 0x20);
    assert_eq!(
        read(&model, IA32_X2APIC_ICR),
        FIXED | 0x50,
        "the half of xAPIC mode"
    );
    assert_eq!(model.irr(0), [0x41]);
}

#[test]
fn the_microcode_revision_is_shown_after_cpuid() {
    let (_, model) = machine(1, |apic| apic.signature(0x306c3).microcode(0x1a));
    assert_eq!(read(&model, IA32_BIOS_SIGN_ID), 0);
    assert_eq!(model.cpuid().leaf(1, 0)[0], 0x306c3);
    assert_eq!(read(&model, IA32_BIOS_SIGN_ID), 0x1a << 32);
    write(&model, IA32_BIOS_SIGN_ID, 0);
    assert_eq!(read(&model, IA32_BIOS_SIGN_ID), 0);
    refused("#GP: only 0 may be written", || {
        write(&model, IA32_BIOS_SIGN_ID, 1)
    });
    let (_, amd) = machine(1, |apic| apic.vendor(Vendor::Amd));
    refused("#GP: the register is Intel's", || {
        read(&amd, IA32_BIOS_SIGN_ID)
    });
}

#[test]
fn cpuid_says_whether_the_timer_stops_in_deep_idle() {
    let arat = |arat| machine(1, |apic| apic.arat(arat)).1.cpuid().leaf(6, 0)[0];
    assert_eq!((arat(true), arat(false)), (4, 0));
}
